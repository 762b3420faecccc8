use super::fixture::{FakeMachine, GPU, MODINFO, PARAMETERS, accepts_gpu, log};
use super::*;
use crate::driver::elf;
use crate::driver::report::Outcome;
use std::fs;
use std::io;

fn codes(report: &Report) -> Vec<(Code, Severity)> {
    report.findings.iter().map(|finding| (finding.code, finding.severity)).collect()
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
    assert!(module.file.ends_with("/run/driver/modules/nvidia.ko"), "{}", module.file);
    assert_eq!((module.patch.as_deref(), module.srcversion.as_deref()), (Some("1"), Some("AB")));
    assert_eq!(report.parameters.len(), 2);
    assert!(report.parameters.iter().all(|p| p.found.as_ref() == Some(&p.wanted)), "{:?}", report.parameters);
    let nodes: Vec<_> = report.nodes.iter().map(|node| node.path.as_str()).collect();
    assert_eq!(nodes, ["/dev/nvidiactl", "/dev/nvidia3", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]);
    assert_eq!(said[0], "initrd 250");
    assert!(said.contains(&"loading nvidia-uvm".to_owned()) && said.contains(&"opening /dev/nvidiactl".to_owned()));
    // No device has the number of this machine's nvidiactl.
    assert_eq!(codes(&report), [(Code::NodesMissing, Severity::Fail)]);
    assert_eq!(report.findings[0].message, "/dev/nvidiactl does not open (ENXIO)");
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
    assert_eq!(report.findings[0].evidence, ["kernel: NVRM: No NVIDIA GPU found."]);
    assert_eq!((report.modules[0].errno, report.modules[0].error.as_deref()), (Some(19), Some("ENODEV")));
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
        ("image/driver.toml", "\"555.58.02\"", "\"550.1\"", Code::DriverMismatch),
        ("image/driver.toml", "patch = \"1\"", "patch = \"2\"", Code::PatchMissing),
        ("image/modules/nvidia.ko", "firstlight SMP", "firstlighT SMP", Code::DriverVermagic),
        ("image/modules/nvidia-uvm.ko", "ELF", "elf", Code::DriverMissing),
    ] {
        let fake = FakeMachine::new();
        fake.replace(path, from, to);
        let (report, ..) = fake.start(|file, _| panic!("{}", file.display()));
        assert_eq!(outcomes(&report), [Outcome::NotTried; 2]);
        assert!(codes(&report).contains(&(code, Severity::Fail)), "{code:?}: {:?}", report.findings);
    }
}

#[test]
fn a_damaged_or_undescribed_image_is_named_and_nothing_is_loaded() {
    let damaged = FakeMachine::new();
    damaged.file("driver.squashfs", b"hsqs and then nothing");
    damaged.file("lib/modules/modules.dep", b"a/nvidia.ko:\n");
    damaged.file("lib/modules/a/nvidia.ko", &elf::sample(".modinfo", MODINFO.as_bytes()));
    let silent = FakeMachine::new();
    silent.replace("image/driver.toml", "version", "versoin");
    for (fake, why) in [(damaged, "driver.squashfs"), (silent, "driver.toml: line 3: unknown field")] {
        let (report, ..) = fake.start(|file, _| panic!("{}", file.display()));
        assert_eq!(report.image, None);
        assert_eq!(codes(&report)[0], (Code::DriverMissing, Severity::Fail));
        assert!(report.findings[0].message.contains(why), "{}", report.findings[0].message);
        assert!(report.modules.iter().all(|module| module.outcome == Outcome::NotTried));
    }
}

#[test]
fn without_an_image_the_kernels_own_modules_are_loaded() {
    let fake = FakeMachine::new();
    fs::remove_dir_all(fake.root.path().join("image")).unwrap();
    fake.file("lib/modules/modules.dep", b"a/nvidia.ko:\n");
    fake.file("lib/modules/a/nvidia.ko", &elf::sample(".modinfo", MODINFO.as_bytes()));
    let (report, ..) = fake.start(accepts_gpu);
    assert_eq!(outcomes(&report), [Outcome::Loaded, Outcome::NotTried]);
    assert_eq!(report.findings[0].code, Code::DriverMissing);
    assert!(report.findings[0].message.starts_with("no driver image; module nvidia-uvm is not in modules.dep"));
}

#[test]
fn with_load_false_the_image_is_mounted_and_nothing_is_loaded() {
    let mut fake = FakeMachine::new();
    fake.wanted.load = false;
    let (report, ..) = fake.start(|file, _| panic!("{}", file.display()));
    assert_eq!((report.load, report.modules.len(), report.findings.len()), (false, 0, 0));
    assert_eq!(report.image.unwrap().version, "555.58.02");
    assert_eq!(report.gpus, [GPU]);
}

#[test]
fn parameters_of_modules_that_are_not_loaded_or_not_in_force_are_findings() {
    let mut fake = FakeMachine::new();
    fake.wanted.parameters = [("nvidia", "NVreg_RegistryDwords=A=1 NVreg_Nonsense=1"), ("nvidai", "x=1")]
        .map(|(module, words)| (module.to_owned(), words.to_owned()))
        .into();
    let (report, ..) = fake.start(accepts_gpu);
    let about: Vec<_> =
        report.findings.iter().filter(|f| f.code == Code::DriverParameters).map(|f| f.message.as_str()).collect();
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
    let gone = report.findings.iter().find(|finding| finding.code == Code::GpuGone).unwrap();
    assert_eq!((gone.subject.as_str(), gone.evidence.len()), ("0000:41:00.0", 2));
}

#[test]
fn switches_without_a_fabric_manager_are_a_finding_and_one_that_dies_is_too() {
    let without = FakeMachine::new();
    without.device("0000:07:00.0", "0x068000", "0x22a3");
    let (report, ..) = without.start(accepts_gpu);
    assert_eq!(report.nvswitches, ["0000:07:00.0"]);
    assert_eq!(codes(&report).last(), Some(&(Code::NvswitchNoManager, Severity::Fail)));
    let dead = FakeMachine::new();
    dead.device("0000:07:00.0", "0x068000", "0x22a3");
    dead.replace("image/driver.toml", "fabric_manager = \"\"", "fabric_manager = \"bin/none\"");
    let (report, ..) = dead.start(accepts_gpu);
    let last = report.findings.last().unwrap();
    assert!(last.message.contains("/driver/bin/none cannot be started: "), "{}", last.message);
}

#[test]
fn with_an_unreadable_bus_enodev_is_a_failure() {
    let fake = FakeMachine::new();
    fs::remove_dir_all(fake.root.path().join("sys/bus")).unwrap();
    let (report, ..) = fake.start(|_, _| Err(io::Error::from_raw_os_error(19)));
    assert_eq!(codes(&report), [(Code::DriverFailed, Severity::Error), (Code::DriverFailed, Severity::Fail)]);
}

#[test]
fn the_draft_shows_the_steps_that_were_done() {
    let fake = FakeMachine::new();
    let path = fake.root.path().to_owned();
    fake.start(|_, _| {
        let draft: Report = serde_json::from_slice(&fs::read("run/.driver-draft.json").unwrap()).unwrap();
        assert_eq!((draft.gpus.len(), draft.modules.len(), draft.image.is_some()), (1, 1, true));
        Err(io::Error::from_raw_os_error(12))
    });
    assert!(!path.join("run/driver.json").exists());
}
