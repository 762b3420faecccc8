//! The kinds of faults that are recognized by words: for each, the severity of a line, and whose device it is about. Pure.

use super::place;
use super::scene::{Extent, Scene, Whose};
use super::tasks::{self, RecordKind};
use crate::host::kmsg::Line;
use crate::host::nvidia::confidential::obstacle;
use outcome::finding::{Code, Severity};

/// A line of the log, with the lines around it.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) lines: &'a [Line],
    pub(super) n: usize,
    pub(super) text: &'a str,
}

/// A kind of fault.
pub(super) struct Kind {
    pub(super) code: Code,
    /// Whether lines from before the tests count as much as those from a test. Some of the others count less; [`super::earlier`]
    /// judges them.
    pub(super) before: bool,
    /// The severity of a line; `None` if it is not of this kind.
    pub(super) judge: fn(At<'_>) -> Option<Severity>,
    pub(super) whose: fn(&Scene, At<'_>) -> Whose,
}

/// The words are those of NVIDIA's open kernel modules and of the kernel's drivers/pci/pcie/{aer,dpc}.c,
/// drivers/pci/hotplug/pciehp_ctrl.c, drivers/iommu/{amd/iommu.c,intel/dmar.c,arm/arm-smmu-v3,arm/arm-smmu},
/// arch/x86/kernel/cpu/mce, arch/x86/kernel/nmi.c, drivers/edac, drivers/acpi/apei/ghes.c, drivers/firmware/efi/cper.c,
/// kernel/{hung_task,watchdog,panic}.c, mm/page_alloc.c, mm/memory.c and kernel/rcu.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        code: Code::GpuGone,
        before: true,
        judge: |at| gone(at.text),
        whose: whose_lost_gpu,
    },
    Kind {
        code: Code::CcUnsupported,
        before: true,
        judge: |at| confidential(at.text),
        whose: whose_driver,
    },
    Kind {
        code: Code::GpuInit,
        before: true,
        judge: |at| start_failed(at.text),
        whose: whose_driver,
    },
    Kind {
        code: Code::CudaStart,
        before: true,
        judge: |at| hmm_failed(at.text),
        whose: |_, _| Whose::Ours(None),
    },
    Kind {
        code: Code::NvswitchSxid,
        before: true,
        judge: |at| sxid(at.text),
        whose: whose_driver,
    },
    Kind {
        code: Code::Bar1MapMisaligned,
        before: false,
        judge: |at| misaligned(at.text),
        whose: whose_driver,
    },
    Kind {
        code: Code::DriverFault,
        before: false,
        judge: |at| driver(at.text),
        whose: whose_driver,
    },
    Kind {
        code: Code::NvlinkErrors,
        before: false,
        judge: |at| nvlink(at.text),
        whose: whose_driver,
    },
    Kind {
        code: Code::PcieAer,
        before: false,
        judge: pcie_or_record,
        whose: whose_link,
    },
    Kind {
        code: Code::IommuFault,
        before: false,
        judge: iommu,
        whose: whose_request,
    },
    Kind {
        code: Code::MachineCheck,
        before: false,
        judge: machine_check,
        whose: |_, _| Whose::Ours(None),
    },
    Kind {
        code: Code::KernelFault,
        before: false,
        judge: |at| kernel(at.text),
        whose: whose_task,
    },
];

/// How many lines below the first line of a report the blocked request is looked for.
const REQUESTS: usize = 16;

pub(super) fn has(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

fn gone(line: &str) -> Option<Severity> {
    let lost = has(line, &["fallen off the bus", "GPU is lost"]) || is_failed_wake(line);
    lost.then_some(Severity::Fail)
}

/// A device did not wake, as drivers/pci/pci.c says it: `Unable to change power state from D3cold to D0, device inaccessible`;
/// before Linux 5.19 `can't change power state from D3cold to D0 (config space inaccessible)`; before 5.5 `Refused to change power
/// state, currently in D3`.
pub(super) fn is_failed_wake(line: &str) -> bool {
    let refused = line.contains("change power state from D3") && line.contains("inaccessible");
    refused || line.contains("Refused to change power state, currently in D3")
}

/// Drivers of other GPUs use the same words.
fn whose_lost_gpu(scene: &Scene, at: At<'_>) -> Whose {
    // Every device may fail to wake, and its port too.
    if is_failed_wake(at.text) {
        let place = place::first(at.text);
        let ours = place.is_some_and(|place| scene.is_gpu(place)) || at.text.starts_with("nvidia ");
        return if ours {
            Whose::Ours(place)
        } else {
            Whose::Others(place)
        };
    }
    if is_driver(at.text) {
        return whose_driver(scene, at);
    }
    match scene.whose(at.text, Extent::Function, place::all(at.text)) {
        Whose::Unnamed => Whose::Others(None),
        whose => whose,
    }
}

/// Whether NVIDIA's driver wrote the line.
fn is_driver(line: &str) -> bool {
    line.contains("NVRM") || line.starts_with("nvidia")
}

/// NVIDIA's driver writes only about its own devices. It may name the GPU in one of the lines before.
fn whose_driver(_: &Scene, at: At<'_>) -> Whose {
    let before = at
        .lines
        .iter()
        .take(at.n)
        .rev()
        .take(3)
        .map(|line| line.text.as_str());
    let named = || {
        before
            .filter(|text| text.contains("NVRM: The NVIDIA GPU"))
            .find_map(place::first)
    };
    let continues = || at.text.contains("fallen off the bus").then(named).flatten();
    Whose::Ours(place::first(at.text).or_else(continues))
}

/// A GPU does not start because of a mode of confidential computing.
fn confidential(line: &str) -> Option<Severity> {
    obstacle(line).map(|_| Severity::Fail)
}

pub(super) fn start_failed(line: &str) -> Option<Severity> {
    // Newer drivers add a second line with the same address.
    let again = line.contains("rm_init_adapter failed") && place::first(line).is_some();
    (again || line.contains("RmInitAdapter failed")).then_some(Severity::Fail)
}

/// `nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:92821] request_free_mem_region() err -34`: the start of CUDA in that
/// process failed (NVIDIA's CUDA release notes, known issues). A later one may have worked.
pub(super) fn hmm_failed(line: &str) -> Option<Severity> {
    let failed = line.contains("nvidia-uvm") && line.contains("request_free_mem_region() err");
    failed.then_some(Severity::Warn)
}

/// `nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 ..`, followed by the same with `Severity 0 ..` and
/// `Data {0x..`.
fn sxid(line: &str) -> Option<Severity> {
    let (_, text) = line.split_once("SXid (")?;
    let (_, text) = text.split_once("): ").unwrap_or(("", text));
    let text = text
        .split_once(", ")
        .map_or(text, |(_, text)| text)
        .to_lowercase();
    let mild =
        text.contains("non-fatal") || text.contains("nonfatal") || text.starts_with("severity 0");
    let corrected = text.contains("correctable") && !has(&text, &["uncorrectable", "fatal"]);
    (!text.starts_with("data {")).then_some(if mild || corrected {
        Severity::Warn
    } else {
        Severity::Fail
    })
}

/// `NVRM: The peer DMA address 0x1800400000 is not aligned at 0x20000000`, when peer access is enabled. It names no GPU.
fn misaligned(line: &str) -> Option<Severity> {
    let refused =
        line.contains("The peer DMA address 0x") && line.contains(" is not aligned at 0x");
    refused.then_some(Severity::Fail)
}

/// Assertions of the driver, and its messages about failing firmware (GSP). A failed check is less severe:
/// the driver continues in another way.
fn driver(line: &str) -> Option<Severity> {
    if !line.contains("NVRM") || line.contains("NVRM: Xid") {
        return None;
    }
    if has(line, &["nvAssert", "Assertion failed"]) {
        return Some(Severity::Fail);
    }
    let low = line.to_lowercase();
    let fails = [
        "timeout",
        "timed out",
        "crash",
        "halt",
        "panic",
        "exception",
        "error",
        "fail",
    ];
    if line.contains("GSP") && has(&low, &fails) {
        return Some(Severity::Fail);
    }
    has(line, &["nvCheck", "Check failed"]).then_some(Severity::Warn)
}

/// Errors of NVLinks that NVIDIA's driver logs without an Xid, as `NVRM: knvlinkCoreShutdownDeviceLinks_IMPL: Need to shutdown all
/// links unilaterally for GPU1`. What it says while it looks for the other ends of links is said on healthy machines, too.
fn nvlink(line: &str) -> Option<Severity> {
    let low = line.to_lowercase();
    let ours =
        (line.contains("NVRM") && low.contains("nvlink")) || line.starts_with("nvidia-nvlink");
    if !ours || line.contains("Xid") || driver(line).is_some() || has(&low, &["rxdet", "discover"])
    {
        return None;
    }
    let bad = [
        "fail",
        "error",
        "timeout",
        "timed out",
        "shutdown",
        "fault",
        "link down",
        "retrain",
    ];
    has(&low, &bad).then_some(Severity::Warn)
}

pub(super) fn pcie_or_record(at: At<'_>) -> Option<Severity> {
    match tasks::pcie_record(at.lines, at.n) {
        Some(record) if record.kind == RecordKind::Corrected => Some(Severity::Warn),
        Some(_) => Some(Severity::Fail),
        None => pcie(at.text),
    }
}

fn pcie(line: &str) -> Option<Severity> {
    let reported = has(line, &["PCIe Bus Error:", "AER: ", "containment event"])
        && !line.contains("AER: enabled");
    let dropped = is_link_down(line);
    let bad = has(
        line,
        &[
            "ncorrect",
            "Fatal",
            "recovery failed",
            "DPC: ",
            "containment event",
        ],
    ) || dropped;
    (reported || dropped).then_some(if bad { Severity::Fail } else { Severity::Warn })
}

/// A link went down, or a card was unplugged, unless containment (DPC) has already brought the link back.
pub(super) fn is_link_down(line: &str) -> bool {
    line.contains("pciehp")
        && has(line, &["Link Down", "Card not present"])
        && !line.contains("ignored")
}

/// A link came up, or a card was plugged in.
pub(super) fn is_link_up(line: &str) -> bool {
    line.contains("pciehp") && has(line, &["Link Up", "Card present"]) && !line.contains("ignored")
}

pub(super) fn whose_link(scene: &Scene, at: At<'_>) -> Whose {
    if let Some(record) = tasks::pcie_record(at.lines, at.n) {
        return scene.whose(at.text, Extent::Link, record.device);
    }
    // A port's own event concerns everything below it.
    let of_port = is_link_down(at.text) || at.text.contains("containment event");
    let reporter = place::reporter(at.text).filter(|_| !of_port);
    scene.whose(
        at.text,
        Extent::Link,
        reporter.into_iter().chain(place::first(at.text)),
    )
}

/// Requests that an IOMMU blocked. Intel's begins with a line without the device, which counts only alone.
pub(super) fn iommu(at: At<'_>) -> Option<Severity> {
    let line = at.text;
    let request = |line: &str| has(line, &["DMAR", "dmar"]) && line.contains("Request device [");
    if line.contains("DRHD: handling fault") {
        let mut next = at.lines.iter().skip(at.n).take(REQUESTS);
        return (!next.any(|line| request(&line.text))).then_some(Severity::Warn);
    }
    if request(line) {
        // A blocked interrupt is no blocked access to memory.
        return Some(if line.contains("INTR-REMAP") {
            Severity::Warn
        } else {
            Severity::Fail
        });
    }
    let amd = has(line, &["IO_PAGE_FAULT", "AMD-Vi: Event logged ["]);
    let arm = has(line, &["arm-smmu", "arm_smmu", "smmu"]) && is_smmu_event(line);
    let guest = line.contains("virtio_iommu") && line.contains("fault from EP");
    (amd || arm || guest).then_some(Severity::Fail)
}

/// `event 0x10 received:`, newer `event: F_TRANSLATION client: ..`; of version 2 `Unhandled context fault: ..`,
/// `Blocked unknown Stream ID ..` and `Unexpected global fault, ..`.
fn is_smmu_event(line: &str) -> bool {
    let raw = line.contains("event 0x") && line.contains("received");
    raw || has(
        line,
        &[
            "event: F_",
            "event: C_",
            "event: E_",
            "Unhandled context fault",
            "Blocked unknown Stream ID",
        ],
    ) || has(line, &["Unexpected global fault"])
}

pub(super) fn whose_request(scene: &Scene, at: At<'_>) -> Whose {
    let line = at.text;
    let after = |word: &str| line.split_once(word).map(|(_, rest)| rest);
    if let Some(client) = after(" client: ") {
        let named = place::first(client.split(' ').next().unwrap_or_default());
        return match named {
            None if client.starts_with('(') => Whose::Unnamed,
            None => Whose::Others(None),
            named => scene.whose(line, Extent::Function, named),
        };
    }
    let own = after("Request device [").or_else(|| after(" device=").or_else(|| after("device=")));
    let place = match own {
        Some(rest) => place::requester(rest),
        // The line of another event begins with the IOMMU's own address.
        None if line.contains("IO_PAGE_FAULT") => place::first(line),
        None => None,
    };
    scene.whose(line, Extent::Function, place)
}

fn machine_check(at: At<'_>) -> Option<Severity> {
    let line = at.text;
    let edac = line.contains("EDAC") && has(line, &[" UE ", " CE "]);
    let reported = has(
        line,
        &["[Hardware Error]", "Machine check", "Machine Check"],
    );
    if reported && tasks::pcie_record(at.lines, at.n).is_some() {
        return None;
    }
    // The chipset reports a PCI or memory error by a non-maskable interrupt. One without a reason may be a
    // hardware error too, but it may also come from a performance counter or a button.
    let nmi = has(line, &["NMI: PCI system error (SERR)", "NMI: IOCK error"]);
    let unexplained = line.contains("NMI received for unknown reason");
    (edac || reported || nmi)
        .then_some(Severity::Fail)
        .or(unexplained.then_some(Severity::Warn))
}

fn kernel(line: &str) -> Option<Severity> {
    let words = [
        "soft lockup",
        "hard LOCKUP",
        "self-detected stall",
        "detected stalls on CPUs",
        "BUG: unable to handle",
        "BUG: kernel NULL pointer",
        "kernel BUG at",
        "Oops: ",
        "general protection fault, ",
        "BUG: Bad page state",
        "BUG: Bad page map",
    ];
    // One of the kernel's own checks failed and the kernel continues: "WARNING: CPU: 3 PID: 812 at ..".
    let warned = line.starts_with("WARNING: ") && has(line, &["CPU: ", "CPU#"]);
    let hung = tasks::hung_task(line).is_some() || line.contains("blocked for more than");
    (hung || has(line, &words))
        .then_some(Severity::Fail)
        .or(warned.then_some(Severity::Warn))
}

fn whose_task(_: &Scene, at: At<'_>) -> Whose {
    if tasks::waits_for_others(at.lines, at.n) {
        Whose::Others(None)
    } else {
        Whose::Ours(None)
    }
}
