use super::*;
use crate::driver::report::Finding;
use crate::driver::report_parts::{Image, Module, Node, Outcome};
use crate::sample::files;

fn report(outcome: Outcome, error: Option<&str>) -> Report {
    let mut report = Report::new(true);
    report.image = Some(Image {
        version: "555.58.02".into(),
        source: "debian".into(),
        patch: "1".into(),
        kernel: "k".into(),
        nccl: "2".into(),
    });
    let module = |name: &str, outcome| Module {
        name: name.into(),
        file: String::new(),
        version: Some("555.58.02".into()),
        vermagic: None,
        patch: Some("1".into()),
        srcversion: None,
        parameters: String::new(),
        outcome,
        errno: None,
        error: error.map(str::to_owned),
    };
    report.modules.push(module("nvidia", outcome));
    let uvm = if outcome.is_in() { outcome } else { Outcome::NotTried };
    report.modules.push(module("nvidia-uvm", uvm));
    report
}

fn with(mut report: Report, codes: &[Code]) -> Report {
    report.findings.extend(codes.iter().map(|code| Finding::fail(*code, "x", String::new())));
    report
}

fn full() -> Report {
    let mut report = report(Outcome::Loaded, None);
    report.gpus = (0..8).map(|n| n.to_string()).collect();
    report.held.clone_from(&report.gpus);
    report.nodes = (0..19).map(|minor| Node { path: String::new(), major: 195, minor }).collect();
    report
}

#[test]
fn the_line_says_version_patch_level_and_what_is_there() {
    assert_eq!(line(&full()), "nvidia 555.58.02+1, 8 GPUs, 19 nodes, 8 held");
    let mut one = full();
    one.gpus.truncate(1);
    assert_eq!(line(&one), "nvidia 555.58.02+1, 1 GPU, 19 nodes, 8 held");
    assert_eq!(
        line(&with(full(), &[Code::GspMissing; 8])),
        "nvidia 555.58.02+1, 8 GPUs, 19 nodes, 8 held, GSP-MISSING"
    );
}

#[test]
fn the_line_says_why_a_module_is_not_there() {
    let none = report(Outcome::Failed, Some("ENODEV"));
    let mut no_gpu = with(none.clone(), &[Code::DriverNoGpu]);
    no_gpu.findings[0].severity = Severity::Info;
    assert_eq!(line(&no_gpu), "nvidia 555.58.02+1: no GPU (ENODEV)");
    assert_eq!(line(&with(none, &[Code::GpuNoIrq])), "nvidia 555.58.02+1: not loaded (ENODEV), GPU-NO-IRQ");
    let untried = with(report(Outcome::NotTried, None), &[Code::DriverMismatch]);
    assert_eq!(line(&untried), "nvidia 555.58.02+1: not loaded, DRIVER-MISMATCH");
    let mut uvm = report(Outcome::Loaded, None);
    uvm.modules[1].outcome = Outcome::Failed;
    uvm.modules[1].error = Some("ENOMEM".into());
    assert_eq!(line(&with(uvm, &[])), "nvidia 555.58.02+1: nvidia-uvm not loaded (ENOMEM)");
}

#[test]
fn the_line_says_that_nothing_was_wanted() {
    let mut off = Report::new(false);
    assert_eq!(line(&off), "driver.load = false: nothing loaded");
    off.image = full().image;
    assert_eq!(line(&off), "driver.load = false: nothing loaded of 555.58.02+1");
}

#[test]
fn no_line_is_longer_than_its_column() {
    let all = [Code::DriverParameters, Code::NvswitchNoManager, Code::GspMissing, Code::GpuGone];
    for count in 0..=4 {
        for report in [full(), report(Outcome::Failed, Some("EKEYREJECTED")), Report::new(true)] {
            let line = line(&with(report, &all[..count]));
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
    assert!(line(&with(full(), &all)).ends_with(" +4"), "{}", line(&with(full(), &all)));
}

#[test]
fn the_deadline_grows_with_the_gpus() {
    let device = |n: u32, file: &str| format!("bus/pci/devices/0000:0{n}:00.0/{file}");
    let text = [("vendor", "0x10de\n"), ("class", "0x030000\n"), ("device", "0x2684\n")];
    let all: Vec<_> = (1..=8).flat_map(|n| text.map(|(file, text)| (device(n, file), text))).collect();
    let all: Vec<_> = all.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let limit = Duration::from_secs(300);
    assert_eq!(deadline(limit, files(&all).path()), Duration::from_secs(420));
    assert_eq!(deadline(limit, Path::new("/none")), limit);
}

#[test]
fn gpus_that_did_not_arrive_are_an_error_of_init() {
    assert!(matches!(told(&full(), 9), Started::Reported(_)));
    let lost = told(&full(), 8);
    assert_eq!(lost.trouble().unwrap().cause, "8 of 9 open devices arrived");
}

#[test]
fn the_child_is_heard() {
    let mut said = Said::default();
    assert!(said.hear("initrd 312") && said.hear("opening /dev/nvidia3"));
    assert_eq!(
        (said.initrd, said.doing.as_str()),
        (Some(Duration::from_millis(312)), "opening /dev/nvidia3")
    );
}
