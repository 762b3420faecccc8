use super::fixture::{FakeMachine, GPU, MODINFO, PARAMETERS, accepts_gpu, log};
use super::*;
use crate::driver::report::Outcome;
use contract::elf;
use std::fs;
use std::io;

fn codes(report: &Report) -> Vec<(Code, Severity)> {
    report
        .findings
        .iter()
        .map(|finding| (finding.code, finding.severity))
        .collect()
}

fn outcomes(report: &Report) -> Vec<Outcome> {
    report.modules.iter().map(|module| module.outcome).collect()
}

#[test]
fn a_good_driver_is_loaded_with_its_familys_parameters() {
    let (report, _, said) = FakeMachine::new().start(accepts_gpu);
    assert_eq!(outcomes(&report), [Outcome::Loaded, Outcome::Loaded]);
    assert_eq!(
        (report.families.as_slice(), report.gpus.as_slice()),
        (["ada".to_owned()].as_slice(), [GPU.to_owned()].as_slice())
    );
    let module = &report.modules[0];
    assert_eq!(module.parameters, PARAMETERS);
    assert!(
        module.file.ends_with("/run/driver/modules/nvidia.ko"),
        "{}",
        module.file
    );
    assert_eq!(
        (module.patch.as_deref(), module.srcversion.as_deref()),
        (Some("1"), Some("AB"))
    );
    assert_eq!(report.parameters.len(), 2);
    assert!(
        report
            .parameters
            .iter()
            .all(|p| p.found.as_ref() == Some(&p.wanted)),
        "{:?}",
        report.parameters
    );
    let nodes: Vec<_> = report.nodes.iter().map(|node| node.path.as_str()).collect();
    assert_eq!(
        nodes,
        [
            "/dev/nvidiactl",
            "/dev/nvidia3",
            "/dev/nvidia-uvm",
            "/dev/nvidia-uvm-tools"
        ]
    );
    assert_eq!(said[0], "initrd 250");
    assert!(
        said.contains(&"loading nvidia-uvm".to_owned())
            && said.contains(&"opening /dev/nvidiactl".to_owned())
    );
    // No device has the number of this machine's nvidiactl.
    assert_eq!(codes(&report), [(Code::NodesMissing, Severity::Fail)]);
    assert_eq!(
        report.findings[0].message,
        "/dev/nvidiactl does not open (ENXIO)"
    );
}

#[test]
fn no_gpu_is_information_and_uvm_is_not_tried() {
    let fake = FakeMachine::new();
    fs::remove_dir_all(fake.root.path().join("sys/bus/pci/devices").join(GPU)).unwrap();
    let (report, ..) = fake.start(|_, _| {
        log(&["NVRM: No NVIDIA GPU found."]);
        Err(io::Error::from_raw_os_error(19))
    });
    assert_eq!(outcomes(&report), [Outcome::Failed, Outcome::NotTried]);
    assert_eq!(codes(&report), [(Code::DriverNoGpu, Severity::Info)]);
    assert_eq!(
        report.findings[0].evidence,
        ["kernel: NVRM: No NVIDIA GPU found."]
    );
    assert_eq!(
        (report.modules[0].errno, report.modules[0].error.as_deref()),
        (Some(19), Some("ENODEV"))
    );
    assert_eq!((report.nodes.len(), report.parameters.len()), (0, 0));
}

#[test]
fn a_gpu_without_an_interrupt_is_named() {
    let (report, ..) = FakeMachine::new().start(|_, _| {
        log(&[
            "NVRM: Can't find an IRQ for your NVIDIA card!",
            "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        ]);
        Err(io::Error::from_raw_os_error(19))
    });
    assert_eq!(codes(&report), [(Code::GpuNoIrq, Severity::Fail)]);
}

#[test]
fn modules_that_do_not_match_are_never_loaded() {
    for (path, from, to, code) in [
        (
            "image/driver.toml",
            "\"555.58.02\"",
            "\"550.1\"",
            Code::DriverMismatch,
        ),
        (
            "image/driver.toml",
            "patch = \"1\"",
            "patch = \"2\"",
            Code::PatchMissing,
        ),
        (
            "image/modules/nvidia.ko",
            "firstlight SMP",
            "firstlighT SMP",
            Code::DriverVermagic,
        ),
        (
            "image/modules/nvidia-uvm.ko",
            "ELF",
            "elf",
            Code::DriverMissing,
        ),
    ] {
        let fake = FakeMachine::new();
        fake.replace(path, from, to);
        let (report, ..) = fake.start(|file, _| panic!("{}", file.display()));
        assert_eq!(outcomes(&report), [Outcome::NotTried; 2]);
        assert!(
            codes(&report).contains(&(code, Severity::Fail)),
            "{code:?}: {:?}",
            report.findings
        );
    }
}

#[test]
fn a_damaged_or_undescribed_image_is_named_and_nothing_is_loaded() {
    let damaged = FakeMachine::new();
    damaged.file("driver.squashfs", b"hsqs and then nothing");
    damaged.file("lib/modules/modules.dep", b"a/nvidia.ko:\n");
    damaged.file(
        "lib/modules/a/nvidia.ko",
        &elf::sample(".modinfo", MODINFO.as_bytes()),
    );
    let silent = FakeMachine::new();
    silent.replace("image/driver.toml", "version", "versoin");
    for (fake, why) in [
        (damaged, "driver.squashfs"),
        (silent, "driver.toml: line 3: unknown field"),
    ] {
        let (report, ..) = fake.start(|file, _| panic!("{}", file.display()));
        assert_eq!(report.image, None);
        assert_eq!(codes(&report)[0], (Code::DriverMissing, Severity::Fail));
        assert!(
            report.findings[0].message.contains(why),
            "{}",
            report.findings[0].message
        );
        assert!(
            report
                .modules
                .iter()
                .all(|module| module.outcome == Outcome::NotTried)
        );
    }
}

#[test]
fn without_an_image_the_kernels_own_modules_are_loaded() {
    let fake = FakeMachine::new();
    fs::remove_dir_all(fake.root.path().join("image")).unwrap();
    fake.file("lib/modules/modules.dep", b"a/nvidia.ko:\n");
    fake.file(
        "lib/modules/a/nvidia.ko",
        &elf::sample(".modinfo", MODINFO.as_bytes()),
    );
    let (report, ..) = fake.start(accepts_gpu);
    assert_eq!(outcomes(&report), [Outcome::Loaded, Outcome::NotTried]);
    assert_eq!(report.findings[0].code, Code::DriverMissing);
    assert!(
        report.findings[0]
            .message
            .starts_with("no driver image; module nvidia-uvm is not in modules.dep")
    );
}

#[test]
fn with_load_false_the_image_is_mounted_and_nothing_is_loaded() {
    let mut fake = FakeMachine::new();
    fake.wanted.load = false;
    let (report, ..) = fake.start(|file, _| panic!("{}", file.display()));
    assert_eq!(
        (report.load, report.modules.len(), report.findings.len()),
        (false, 0, 0)
    );
    assert_eq!(report.image.unwrap().version, "555.58.02");
    assert_eq!(report.gpus, [GPU]);
}

#[test]
fn parameters_of_modules_that_are_not_loaded_or_not_in_force_are_findings() {
    let mut fake = FakeMachine::new();
    fake.wanted.parameters = [
        ("nvidia", "NVreg_RegistryDwords=A=1 NVreg_Nonsense=1"),
        ("nvidai", "x=1"),
    ]
    .map(|(module, words)| (module.to_owned(), words.to_owned()))
    .into();
    let (report, ..) = fake.start(accepts_gpu);
    let about: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.code == Code::DriverParameters)
        .map(|f| f.message.as_str())
        .collect();
    assert_eq!(
        about,
        [
            "driver.parameters: nvidai is not among the modules that are loaded",
            "NVreg_RegistryDwords is A=1 NVreg_Nonsense=1, wanted A=1",
            "NVreg_Nonsense=1: the driver has no such parameter"
        ]
    );
}

#[test]
fn a_gpu_that_the_driver_did_not_take_is_explained() {
    let fake = FakeMachine::new();
    fake.gpu("0000:41:00.0", "0x2684");
    let (report, ..) = fake.start(|file, parameters| {
        log(&["NVRM: The NVIDIA GPU 0000:41:00.0\\x0aNVRM: (PCI ID: 10de:2684) installed in this system has\\x0aNVRM: fallen off the bus"]);
        accepts_gpu(file, parameters)
    });
    let gone = report
        .findings
        .iter()
        .find(|finding| finding.code == Code::GpuGone)
        .unwrap();
    assert_eq!(
        (gone.subject.as_str(), gone.evidence.len()),
        ("0000:41:00.0", 2)
    );
}

#[test]
fn switches_without_a_fabric_manager_are_a_finding_and_one_that_dies_is_too() {
    let without = FakeMachine::new();
    without.device("0000:07:00.0", "0x068000", "0x22a3");
    let (report, ..) = without.start(accepts_gpu);
    assert_eq!(report.nvswitches, ["0000:07:00.0"]);
    assert_eq!(
        codes(&report).last(),
        Some(&(Code::NvswitchNoManager, Severity::Fail))
    );
    let dead = FakeMachine::new();
    dead.device("0000:07:00.0", "0x068000", "0x22a3");
    dead.replace(
        "image/driver.toml",
        "fabric_manager = \"\"",
        "fabric_manager = \"bin/none\"",
    );
    let (report, ..) = dead.start(accepts_gpu);
    let last = report.findings.last().unwrap();
    assert!(
        last.message
            .contains("/driver/bin/none cannot be started: "),
        "{}",
        last.message
    );
}

/// nvlsm that makes its socket, as on a real machine, and logs its arguments.
const NVLSM: &str = "root=${0%/run/driver/*}; ls $root/opt/nvidia/nvlsm/lib $root/usr/share/nvidia/nvlsm\n\
    touch $root/var/run/nvidia-fabricmanager/fm_sm_ipc.socket; echo Entering MASTER state with $3 $4; sleep 2";
/// A fabric manager that only starts after nvlsm.
const MANAGER: &str = "root=${0%/run/driver/*}; test -e $root/var/run/nvidia-fabricmanager/fm_sm_ipc.socket || exit 9\n\
    echo $3 $4; echo Successfully configured all the available GPUs and NVSwitches; sleep 1";

fn nvlink5(nvlsm: &str, manager: &str) -> FakeMachine {
    let fake = FakeMachine::new();
    fake.with_nvlink5();
    if !nvlsm.is_empty() {
        fake.script("bin/nvlsm", nvlsm);
        fake.file("image/nvlsm/lib/libgrpc_mgr.so", b"");
        fake.file("image/nvlsm/nvlsm.conf", b"plugin_name grpc_mgr\n");
    }
    if !manager.is_empty() {
        fake.script("bin/nv-fabricmanager", manager);
        fake.replace(
            "image/driver.toml",
            "fabric_manager = \"\"",
            "fabric_manager = \"bin/nv-fabricmanager\"",
        );
    }
    fake
}

/// What the start said about NVLink 5, besides the GPU that no kernel here can open.
fn said_of_nvlink5(fake: FakeMachine) -> (Vec<Finding>, Vec<String>) {
    let (report, _, said) = fake.start(accepts_gpu);
    assert_eq!(report.bridges, ["0000:05:00.0", "0000:05:00.1"]);
    let findings = report.findings.into_iter();
    (
        findings
            .filter(|finding| finding.subject == "nvswitch")
            .collect(),
        said,
    )
}

#[test]
fn with_nvlink_5_modules_then_nvlsm_and_then_the_fabric_manager_start_on_the_port_that_may_be_managed()
 {
    let fake = nvlink5(NVLSM, MANAGER);
    let run = fake.root.path().join("run");
    let keep = tempfile::tempdir().unwrap();
    let logs = keep.path().to_owned();
    // The machine is removed with the fixture: its logs are linked to a folder that stays.
    for log in ["nvlsm.log", "fabric-manager.log"] {
        fs::write(logs.join(log), "").unwrap();
        fs::hard_link(logs.join(log), run.join(log)).unwrap();
    }
    let (findings, said) = said_of_nvlink5(fake);
    assert_eq!(findings, []);
    let steps: Vec<_> = said
        .iter()
        .filter(|line| ["mlx5", "umad", "nvlsm"].iter().any(|w| line.contains(w)))
        .collect();
    assert_eq!(
        steps,
        [
            "loading mlx5_ib",
            "loading mlx5_ib",
            "loading ib_umad",
            "starting nvlsm on port 0xe09d730300e40001"
        ]
    );
    let nvlsm = fs::read_to_string(logs.join("nvlsm.log")).unwrap();
    assert!(
        nvlsm.contains("libgrpc_mgr.so") && nvlsm.contains("nvlsm.conf"),
        "{nvlsm}"
    );
    assert!(nvlsm.contains("with -g 0xe09d730300e40001"), "{nvlsm}");
    let manager = fs::read_to_string(logs.join("fabric-manager.log")).unwrap();
    assert!(manager.contains("-g 0xe09d730300e40001\n"), "{manager}");
}

#[test]
fn nvlink_5_without_nvlsm_is_named_and_the_fabric_manager_is_not_started() {
    for (manager, lacks) in [
        (MANAGER, "and no nvlsm in"),
        ("", "and neither nvlsm nor a fabric manager in"),
    ] {
        let (findings, _) = said_of_nvlink5(nvlink5("", manager));
        let [finding] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        assert_eq!(
            (finding.code, finding.severity),
            (Code::Nvlink5NoNvlsm, Severity::Fail)
        );
        assert!(finding.message.contains(lacks), "{}", finding.message);
    }
    let (findings, _) = said_of_nvlink5(nvlink5(NVLSM, ""));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].code, Code::NvswitchNoManager);
}

#[test]
fn an_nvlsm_that_dies_and_a_module_or_a_port_that_is_missing_are_each_named() {
    let why = |fake: FakeMachine| {
        let (findings, _) = said_of_nvlink5(fake);
        assert!(
            findings.iter().all(|f| f.code == Code::Nvlink5NoNvlsm),
            "{findings:?}"
        );
        (findings[0].message.clone(), findings[0].evidence.clone())
    };
    let (message, evidence) = why(nvlink5("echo wrong port; exit 3", MANAGER));
    assert_eq!(message, "bin/nvlsm ended: exit status: 3");
    assert_eq!(evidence, ["wrong port"]);
    let fake = nvlink5(NVLSM, MANAGER);
    fake.file(
        "lib/modules/modules.dep",
        b"a/mlx5_core.ko:\na/mlx5_ib.ko: a/mlx5_core.ko\n",
    );
    assert_eq!(
        why(fake).0,
        "nvlsm cannot be started: module ib_umad is not in modules.dep and not built into the kernel"
    );
    let mut fake = nvlink5(NVLSM, MANAGER);
    fake.wanted.deadline = Duration::from_secs(1);
    fake.file(
        "sys/bus/pci/devices/0000:05:00.1/infiniband/mlx5_1/ports/1/cap_mask",
        b"0x400\n",
    );
    assert_eq!(
        why(fake).0,
        "none of the 2 ports of 0000:05:00.0, 0000:05:00.1 may be managed by nvlsm"
    );
    let mut fake = nvlink5(NVLSM, MANAGER);
    fake.wanted.deadline = Duration::from_secs(1);
    fs::remove_dir_all(fake.root.path().join("dev/infiniband")).unwrap();
    let message = why(fake).0;
    assert!(
        message.ends_with("/dev/infiniband/umad* does not exist, which nvlsm needs"),
        "{message}"
    );
}

#[test]
fn an_nvlsm_that_ends_while_the_fabric_manager_starts_is_the_second_finding() {
    let nvlsm = NVLSM.replace("sleep 2", "sleep 0.2; echo lost the port");
    let fake = nvlink5(&nvlsm, "echo cannot reach nvlsm; sleep 0.5; exit 1");
    let (findings, _) = said_of_nvlink5(fake);
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::NvswitchNoManager, Code::Nvlink5NoNvlsm]);
    assert_eq!(findings[1].evidence.last().unwrap(), "lost the port");
}

#[test]
fn with_an_unreadable_bus_enodev_is_a_failure() {
    let fake = FakeMachine::new();
    fs::remove_dir_all(fake.root.path().join("sys/bus")).unwrap();
    let (report, ..) = fake.start(|_, _| Err(io::Error::from_raw_os_error(19)));
    assert_eq!(
        codes(&report),
        [
            (Code::DriverFailed, Severity::Error),
            (Code::DriverFailed, Severity::Fail)
        ]
    );
}

#[test]
fn the_draft_shows_the_steps_that_were_done() {
    let fake = FakeMachine::new();
    let path = fake.root.path().to_owned();
    fake.start(|_, _| {
        let draft: Report =
            serde_json::from_slice(&fs::read("run/.driver-draft.json").unwrap()).unwrap();
        assert_eq!(
            (draft.gpus.len(), draft.modules.len(), draft.image.is_some()),
            (1, 1, true)
        );
        Err(io::Error::from_raw_os_error(12))
    });
    assert!(!path.join("run/driver.json").exists());
}
