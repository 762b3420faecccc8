//! The account of a healthy stage, and what is refused.

use super::super::fixture::machine;
use super::*;
use serde_json::{Value, json};

/// What init writes where everything went well, with more keys than are read.
pub(crate) fn healthy() -> Value {
    json!({ "schema": SCHEMA, "load": true,
        "image": { "version": "555.58.02", "source": "debian", "patch": "1",
                   "kernel": "6.12.107-firstlight", "nccl": "2.29.7" },
        "gpus": ["0000:10:00.0"], "families": ["ada"], "nvswitches": [],
        "modules": [ { "name": "nvidia", "file": "/run/firstlight/driver/modules/nvidia.ko",
            "version": "555.58.02", "vermagic": "6.12.107-firstlight SMP preempt mod_unload ", "patch": "1",
            "srcversion": "ABC", "parameters": "", "outcome": "loaded", "errno": null, "error": null } ],
        "parameters": [], "nodes": [], "held": ["/dev/nvidia0"], "findings": [], "seconds": 1.2 })
}

/// The same with one value changed.
pub(crate) fn with(pointer: &str, value: Value) -> Account {
    let mut text = healthy();
    *text.pointer_mut(pointer).expect("there is such a value") = value;
    parse(text.to_string().as_bytes()).expect("an account")
}

fn noted(code: &str, severity: &str) -> Value {
    json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said", "evidence": ["kernel: x"] }])
}

#[test]
fn a_healthy_account_is_read_and_newer_keys_are_left_alone() {
    let account = with("/seconds", json!(2.5));
    assert_eq!(account.module("nvidia").map(|m| m.outcome), Some(Outcome::Loaded));
    assert_eq!((account.module("nvidia-uvm"), account.findings()), (None, vec![]));
}

#[test]
fn inits_findings_get_their_cause_and_remedy_from_the_table() {
    let [finding] = &with("/findings", noted("GPU-NO-IRQ", "fail")).findings()[..] else { panic!("one") };
    assert!(finding.is(Code::GpuNoIrq) && finding.severity == Severity::Fail);
    assert_eq!(finding.cause, Code::GpuNoIrq.entry().cause);
    assert_eq!(finding.evidence, ["kernel: x"]);
}

#[test]
fn a_code_that_init_has_no_business_with_is_an_error_whatever_its_severity() {
    for code in ["GPU-UNHEARD-OF", "ACS-STUCK", ""] {
        let [finding] = &with("/findings", noted(code, "info")).findings()[..] else { panic!("one") };
        assert!(finding.is(Code::SysUnreadable) && finding.severity == Severity::Error, "{code}");
        assert!(finding.message.contains("unknown code"));
    }
}

#[test]
fn what_is_no_account_is_refused_with_its_file() {
    let mut other = healthy();
    other["schema"] = json!("firstlight.driver/2");
    let mut cut = healthy();
    cut.as_object_mut().unwrap().remove("findings");
    for text in ["", "{", "[]", &other.to_string(), &cut.to_string()] {
        let dir = machine(&[(FILE, text)]);
        let error = read(&Root::new(dir.path())).unwrap_err();
        assert!(error.starts_with("/run/firstlight/driver.json: "), "{error}");
    }
    assert_eq!(read(&Root::new(machine(&[]).path())), Ok(None));
}
