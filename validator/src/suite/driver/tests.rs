//! With and without GPUs, with and without a driver, with and without init's account.

use super::super::fixture;
use super::*;
use crate::host::nvidia::account::tests::with;
use crate::outcome::Outcome;
use serde_json::json;
use std::time::Duration;

fn noted(code: &str, severity: &str) -> Vec<Finding> {
    let noted = json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said", "evidence": [] }]);
    with("/findings", noted).findings()
}

fn enodev() -> Account {
    with("/modules/0/error", json!("ENODEV"))
}

#[test]
fn without_a_gpu_there_is_nothing_to_drive_and_enodev_is_named() {
    let none = fixture::machine(0);
    assert_eq!(without(&none, None, vec![]), Judgement::not_applicable("no NVIDIA GPU"));
    let said = without(&none, Some(&enodev()), noted("DRIVER-NO-GPU", "info"));
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::NotApplicable, 1));
    assert_eq!(said.summary, "no NVIDIA GPU; loading nvidia came back with ENODEV");
}

#[test]
fn a_stage_that_failed_is_told_also_without_a_gpu() {
    let said = without(&fixture::machine(0), Some(&enodev()), noted("DRIVER-TIMEOUT", "error"));
    assert_eq!((said.outcome(), said.summary.as_str()), (Outcome::Error, "said"));
}

#[test]
fn a_gpu_without_its_driver_fails_unless_a_person_said_so() {
    let two = fixture::machine(2);
    let said = without(&two, None, vec![]);
    assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::DriverMissing));
    let left_out = with("/load", json!(false));
    let said = without(&two, Some(&left_out), vec![]);
    assert_eq!(said.outcome(), Outcome::NotApplicable);
    assert_eq!(said.summary, "driver.load = false: 2 GPUs without their driver");
}

#[test]
fn a_driver_that_init_could_not_load_is_never_a_pass() {
    let two = fixture::machine(2);
    for (severity, outcome) in [("fail", Outcome::Fail), ("error", Outcome::Error)] {
        let said = without(&two, Some(&enodev()), noted("DRIVER-VERMAGIC", severity));
        assert_eq!((said.outcome(), said.findings.len()), (outcome, 1));
    }
    let silent = without(&two, Some(&enodev()), noted("DRIVER-NO-GPU", "info"));
    assert_eq!((silent.outcome(), silent.findings.len()), (Outcome::Fail, 2));
    assert!(silent.findings[1].cause.starts_with("init wanted to load it"));
}

#[test]
fn a_gpu_that_the_driver_did_not_take_fails_once() {
    let mut fabric = fixture::machine(3);
    let [first, second, gone] = fabric.gpus[..] else { panic!("three") };
    fixture::device(&mut fabric, first).driver = Some("nvidia".into());
    fixture::device(&mut fabric, gone).config.gone = true;
    let found = left_alone(&fabric, &[]);
    assert!(found.len() == 1 && found[0].is(Code::GpuInit) && found[0].subject == second.to_string());
    assert_eq!(left_alone(&fabric, &found), vec![]);
}

#[test]
fn a_program_of_another_version_warns() {
    let line = |text: &str| kmsg::Line { seq: 0, at: Duration::ZERO, text: text.into() };
    let log = [line("NVRM: API mismatch: the client has the version 1.0")];
    assert_eq!(complaints(&log).map(|f| f.severity), Some(Severity::Warn));
    assert_eq!(complaints(&[line("NVRM: fine")]), None);
}

#[test]
fn the_first_of_the_worst_is_told() {
    let found =
        [noted("DRIVER-NO-GPU", "info"), noted("GPU-INIT", "fail"), noted("GPU-VBIOS", "fail")].concat();
    assert!(worst(&found).is_some_and(|f| f.is(Code::GpuInit)));
    assert_eq!(worst(&found[..1]), None);
}
