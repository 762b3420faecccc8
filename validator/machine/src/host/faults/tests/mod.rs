//! Kinds and severities where every device matters; [`whose`] has a machine with devices of all sorts.

use super::*;
use crate::host::kmsg::sample as log;
use outcome::finding::FaultSource::Gpu;
use outcome::finding::{Reason, Recovery};

mod tasks;
mod whose;

#[track_caller]
fn one(text: &str, code: Code, severity: Severity) -> Finding {
    let [finding] = &faults(&log(&[text]), TestPhase::During, &Scene::default())[..] else {
        panic!("one finding of {text}")
    };
    assert!(
        finding.is(code) && finding.severity == severity,
        "{text}: {finding:?}"
    );
    assert!(finding.evidence[0].contains(text));
    finding.clone()
}

#[test]
fn a_start_of_cuda_that_failed_for_lack_of_addresses_is_a_warning_with_its_cures() {
    let line = "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:92821] request_free_mem_region() err -34";
    for when in [TestPhase::Before, TestPhase::During] {
        let found = faults(&log(&[line, line]), when, &Scene::default());
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(
            one.is(Code::CudaStart) && one.severity == Severity::Warn,
            "{one:?}"
        );
        assert_eq!(one.reason, Some(Reason::NoRoomForHmm));
        let remedy = one.shown_remedy();
        assert!(
            remedy.contains("uvm_disable_hmm=1") && remedy.contains("nokaslr"),
            "{remedy}"
        );
    }
    assert_eq!(without_room_for_hmm(&log(&["x", line])), Some(line));
    assert_eq!(
        without_room_for_hmm(&log(&["nvidia-uvm: Loaded the UVM driver"])),
        None
    );
}

#[test]
fn each_kind_of_fault_has_its_code_and_severity() {
    use Severity::{Fail, Warn};
    for (text, code, severity) in [
        (
            "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
            Code::GpuGone,
            Fail,
        ),
        (
            "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:2426)",
            Code::GpuInit,
            Fail,
        ),
        (
            "NVRM: nvAssertFailedNoLog: Assertion failed: pGpu != NULL @ gpu.c:1",
            Code::DriverFault,
            Fail,
        ),
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Timeout [NV_ERR_TIMEOUT] (0x65)",
            Code::DriverFault,
            Fail,
        ),
        (
            "NVRM: nvCheckOkFailedNoLog: Check failed: Invalid state @ x.c:1",
            Code::DriverFault,
            Warn,
        ),
        (
            "NVRM: _kgspRpcRecvPoll: Timeout waiting for RPC from GSP0!",
            Code::DriverFault,
            Fail,
        ),
        (
            "NVRM: kgspHealthCheck_TU102: GSP-RM crashed",
            Code::DriverFault,
            Fail,
        ),
        (
            "NVRM: The peer DMA address 0x1800400000 is not aligned at 0x20000000",
            Code::Bar1MapMisaligned,
            Fail,
        ),
        (
            "NVRM: knvlinkCoreShutdownDeviceLinks_IMPL: Need to shutdown all links unilaterally for GPU1",
            Code::NvlinkErrors,
            Warn,
        ),
        (
            "nvidia-nvlink: Link training failed for 0000:41:00.0",
            Code::NvlinkErrors,
            Warn,
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            Code::NvswitchSxid,
            Fail,
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
            Code::NvswitchSxid,
            Warn,
        ),
        (
            "pcieport 0000:00:01.0: AER: Corrected error message received",
            Code::PcieAer,
            Warn,
        ),
        (
            "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error message received from 0000:01:00.0",
            Code::PcieAer,
            Fail,
        ),
        (
            "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=x",
            Code::PcieAer,
            Fail,
        ),
        (
            "pcieport 0000:00:01.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer",
            Code::PcieAer,
            Warn,
        ),
        (
            "pcieport 0000:00:01.0: DPC: containment event, status:0x1f01 source:0x0000",
            Code::PcieAer,
            Fail,
        ),
        (
            "pcieport 0000:00:01.0: pciehp: Slot(4): Link Down",
            Code::PcieAer,
            Fail,
        ),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x1]",
            Code::IommuFault,
            Fail,
        ),
        (
            "DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0x0",
            Code::IommuFault,
            Fail,
        ),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: bea0000000000108",
            Code::MachineCheck,
            Fail,
        ),
        (
            "mce: [Hardware Error]: Machine check events logged",
            Code::MachineCheck,
            Fail,
        ),
        (
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
            Code::MachineCheck,
            Fail,
        ),
        (
            "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
            Code::MachineCheck,
            Warn,
        ),
        (
            "INFO: task firstlight:812 blocked for more than 120 seconds.",
            Code::KernelFault,
            Fail,
        ),
        (
            "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [firstlight:812]",
            Code::KernelFault,
            Fail,
        ),
        (
            "BUG: unable to handle page fault for address: ffffa",
            Code::KernelFault,
            Fail,
        ),
        (
            "BUG: Bad page state in process firstlight  pfn:12345",
            Code::KernelFault,
            Fail,
        ),
        (
            "WARNING: CPU: 3 PID: 812 at mm/page_alloc.c:4 __alloc_pages+0x1/0x2",
            Code::KernelFault,
            Warn,
        ),
        (
            "NMI: PCI system error (SERR) for reason b1 on CPU 0.",
            Code::MachineCheck,
            Fail,
        ),
        (
            "NMI: IOCK error (debug interrupt?) for reason 61 on CPU 0.",
            Code::MachineCheck,
            Fail,
        ),
        (
            "Uhhuh. NMI received for unknown reason 3d on CPU 5.",
            Code::MachineCheck,
            Warn,
        ),
    ] {
        one(text, code, severity);
    }
}

#[test]
fn harmless_lines_are_no_faults() {
    let quiet = [
        "pci 0000:00:01.0: enabling AER",
        "pcieport 0000:00:01.0: AER: enabled with IRQ 123",
        "AMD-Vi: off",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 234",
        "NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!",
        "EDAC MC0: Giving out device to module amd64_edac",
        "mce: CPU0: Thermal monitoring enabled (TM1)",
        "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
        "INFO: NMI handler (perf_event_nmi_handler) took too long to run: 1.234 msecs",
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia 0000:41:00.0: vgaarb: VGA decodes changed",
    ];
    assert_eq!(
        faults(&log(&quiet), TestPhase::During, &Scene::default()),
        []
    );
}

#[test]
fn a_corrected_machine_check_warns() {
    let lines = [
        "mce: [Hardware Error]: Machine check events logged",
        "[Hardware Error]: Corrected error, no action required.",
        "[Hardware Error]: CPU:0 (17:31:0) MC2_STATUS[Over|CE|MiscV]: 0xdc20",
    ];
    let [finding] = &faults(&log(&lines), TestPhase::During, &Scene::default())[..] else {
        panic!("one")
    };
    assert_eq!(
        (finding.severity, finding.evidence.len()),
        (Severity::Warn, 3)
    );
    let worse = [&lines[..], &["{1}[Hardware Error]: event severity: fatal"]].concat();
    assert_eq!(
        faults(&log(&worse), TestPhase::During, &Scene::default())[0].severity,
        Severity::Fail
    );
}

#[test]
fn a_gpu_that_falls_off_during_a_test_is_reported_with_address_and_number() {
    let found = faults(
        &log(&["NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."]),
        TestPhase::During,
        &Scene::default(),
    );
    let all: Vec<_> = found
        .iter()
        .map(|f| (f.code, f.severity, f.subject.to_string()))
        .collect();
    let gpu = || "0000:41:00".to_owned();
    assert_eq!(
        all,
        [
            (Code::GpuXid, Severity::Fail, gpu()),
            (Code::GpuGone, Severity::Fail, gpu())
        ]
    );
}

#[test]
fn the_newest_action_of_the_driver_stands_for_all_errors_of_its_gpu() {
    let changed = |gpu: &str, to: &str| {
        format!("NVRM: Xid (PCI:{gpu}): 154, GPU recovery action changed from 0x0 (None) to {to}")
    };
    let lines = [
        "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.".to_owned(),
        changed("0000:41:00", "0x2 (Node Reboot Required)"),
        changed("0000:41:00", "0x1 (GPU Reset Required)"),
        "NVRM: Xid (PCI:0000:01:00): 62, halt".to_owned(),
        "NVRM: Xid (PCI:0000:01:00): 999, new".to_owned(),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let found = faults(&log(&lines), TestPhase::During, &Scene::default());
    let named: Vec<_> = found.iter().map(|f| f.subject.to_string()).collect();
    let actions: Vec<_> = named
        .iter()
        .map(String::as_str)
        .zip(found.iter().map(|f| f.recovery))
        .collect();
    let reset = Some(Recovery::ResetGpu);
    let (a, b) = ("0000:41:00", "0000:01:00");
    assert_eq!(
        actions,
        [(a, reset), (a, reset), (b, reset), (b, None), (a, reset)]
    );
    assert_eq!(
        found[1].message,
        "Xid 154 on 0000:41:00 (the driver says that the GPU must be reset), 2 times"
    );
    let reset = |f: &Finding| matches!(f.reason, Some(Reason::Xid(_, Some(Recovery::ResetGpu))));
    assert!(found.iter().take(3).all(reset), "{found:?}");
    assert_eq!(
        found[4].reason,
        Some(Reason::DriverAsks(Recovery::ResetGpu))
    );
    let alone = &faults(&log(&lines[..1]), TestPhase::During, &Scene::default());
    assert!(
        alone.len() == 2
            && alone
                .iter()
                .all(|f| f.recovery == Some(Recovery::RebootNode)),
        "{alone:?}"
    );
}

#[test]
fn before_the_tests_only_driver_messages_about_gpus_count() {
    let lines = log(&[
        "mce: [Hardware Error]: Machine check events logged",
        "INFO: task x:1 blocked for more than 120 seconds.",
        "NVRM: nvAssertFailedNoLog: Assertion failed: x",
        "NVRM: Xid (PCI:0000:41:00): 31, pid=7, name=train, MMU Fault",
        "NVRM: Xid (PCI:0000:41:00): 999, something new",
    ]);
    let found: Vec<_> = faults(&lines, TestPhase::Before, &Scene::default())
        .iter()
        .map(|f| (f.code, f.severity))
        .collect();
    assert_eq!(
        found,
        [
            (Code::GpuXid, Severity::Info),
            (Code::GpuXid, Severity::Warn)
        ]
    );
    let during: Vec<_> = faults(&lines, TestPhase::During, &Scene::default())
        .iter()
        .map(|f| f.severity)
        .collect();
    assert_eq!(during.iter().filter(|s| **s == Severity::Fail).count(), 4);
    assert!(during.contains(&Severity::Error));
}

#[test]
fn each_gpu_and_xid_number_gives_one_finding() {
    let lines = log(&[
        "NVRM: Xid (PCI:0000:01:00): 48, DBE",
        "NVRM: Xid (PCI:0000:01:00): 48, DBE",
        "NVRM: Xid (PCI:0000:41:00): 48, DBE",
        "NVRM: Xid something new",
    ]);
    let found = faults(&lines, TestPhase::Before, &Scene::default());
    let messages: Vec<_> = found.iter().map(|f| (&*f.message, f.severity)).collect();
    assert_eq!(
        messages,
        [
            (
                "Xid 48 on 0000:01:00 (uncorrectable memory error), 2 times",
                Severity::Fail
            ),
            (
                "Xid 48 on 0000:41:00 (uncorrectable memory error)",
                Severity::Fail
            ),
            ("Xid 0 on machine", Severity::Fail),
        ]
    );
    assert_eq!(found[0].evidence.len(), 2);
}

#[test]
fn a_gpu_that_the_driver_calls_recovered_needs_nothing_and_its_earlier_error_warns() {
    use Severity::{Error, Fail, Info, Warn};
    use TestPhase::{Before, During};
    use outcome::finding::FaultSource::{Memory, Program};
    const ERROR: &str = "NVRM: Xid (PCI:0000:01:00): 95, pid=7, uncontained";
    const PROGRAM: &str = "NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=train, MMU Fault";
    const RESET: &str = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)";
    const NONE: &str = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)";
    const OTHER: &str = "NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)";
    const NEW: &str = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x9 (Other)";
    let recovered = Reason::Recovered(Some(Memory));
    let asked = Reason::Xid(Memory, Some(Recovery::ResetGpu));
    let over = Reason::Recovered(None);
    for (lines, when, expected) in [
        (&[NONE][..], Before, vec![(Info, over.clone())]),
        (&[RESET, NONE], Before, vec![(Info, over.clone())]),
        (&[RESET, NONE], During, vec![(Warn, over.clone())]),
        (
            &[ERROR, RESET, NONE],
            Before,
            vec![(Warn, recovered.clone()), (Info, over.clone())],
        ),
        (
            &[ERROR, RESET, NONE],
            During,
            vec![(Fail, recovered.clone()), (Warn, over.clone())],
        ),
        (
            &[ERROR, RESET],
            Before,
            vec![
                (Fail, asked.clone()),
                (Fail, Reason::Xid(Gpu, Some(Recovery::ResetGpu))),
            ],
        ),
        // After the recovery, of another GPU, or with an action that is not known.
        (
            &[ERROR, RESET, NONE, ERROR],
            Before,
            vec![(Fail, asked.clone()), (Info, over.clone())],
        ),
        (
            &[ERROR, OTHER],
            Before,
            vec![(Fail, asked.clone()), (Info, over.clone())],
        ),
        (
            &[ERROR, NONE, NEW],
            Before,
            vec![(Fail, asked), (Fail, Reason::Xid(Gpu, None))],
        ),
        (
            &[PROGRAM, NONE],
            During,
            vec![
                (Error, Reason::Xid(Program, Some(Recovery::RestartProgram))),
                (Warn, over),
            ],
        ),
    ] {
        let found = faults(&log(lines), when, &Scene::default());
        let all: Vec<_> = found
            .iter()
            .map(|f| (f.severity, f.reason.clone().unwrap()))
            .collect();
        assert_eq!(all, expected, "{lines:?}");
    }
    let found = faults(&log(&[ERROR, RESET, NONE]), Before, &Scene::default());
    let (error, said) = (found[0].shown_remedy(), found[1].shown_remedy());
    assert!(
        error.starts_with("no reset is due: the driver said afterwards")
            && said.starts_with("nothing now")
    );
    assert_eq!(
        [found[0].recovery, found[1].recovery],
        [Some(Recovery::None); 2]
    );
    assert_eq!(
        found[1].shown_cause(),
        "an earlier error of the GPU, which it has recovered from"
    );
}
