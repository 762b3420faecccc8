//! Small reports for the tests of all renderers.

#![expect(clippy::unwrap_used, reason = "for tests alone")]

use crate::Level;
use crate::{BootStage, Driver, Gpu, MachineEntry, Report, SCHEMA, TestEntry};
use machine::host::identity::Appliance;
use outcome::finding::{Finding, FindingEntry};
use outcome::platform::Host;
use outcome::scope::Scope;
use outcome::table::CallRow;
use outcome::{Outcome, Verdict};
use std::collections::BTreeMap;

/// A report with these tests.
pub fn report(tests: Vec<TestEntry>) -> Report {
    let mut report = Report {
        schema: SCHEMA.into(),
        verdict: Verdict::Error,
        answer: String::new(),
        causes: vec![],
        next_step: crate::NextStep::default(),
        scope: Scope::Machine,
        covers: "no GPU".into(),
        level: Level::Standard,
        root: "/".into(),
        started: "2026-11-20T12:00:00Z".into(),
        seconds: 12.44,
        boot: vec![BootStage {
            stage: "kernel".into(),
            began: 0.0,
            seconds: 5.03,
        }],
        appliance: Some(Appliance {
            version: "0.1.0".into(),
            image_id: None,
            manifest_sha256: None,
        }),
        machine: MachineEntry {
            host: Some("node7".into()),
            ..MachineEntry::unread()
        },
        driver: Driver::default(),
        known_problems: vec![],
        gpus: vec![],
        fabric: None,
        tests: vec![],
        effects: BTreeMap::new(),
        workload_env: BTreeMap::new(),
        workload_reasons: BTreeMap::new(),
    };
    tests.into_iter().for_each(|t| report.push(t));
    report.explain();
    report
}

/// A test that took 40 ms.
pub fn test(id: &str, outcome: Outcome, summary: &str, findings: Vec<Finding>) -> TestEntry {
    TestEntry {
        id: id.into(),
        title: id.into(),
        proves: String::new(),
        level: Level::Quick,
        outcome,
        began: Some(1.5),
        seconds: 0.04,
        summary: summary.into(),
        findings: findings
            .into_iter()
            .map(|finding| FindingEntry::of(&finding, &Host::default()))
            .collect(),
        unchecked: vec![],
        matrices: vec![],
        tables: vec![],
        log_tail: vec![],
    }
}

/// A GPU of that model.
pub fn gpu(name: &str) -> Gpu {
    Gpu {
        bdf: "0000:01:00.0".parse().unwrap(),
        device: "0x2684".into(),
        name: Some(name.into()),
        uuid: None,
        vbios: None,
        bar1_bytes: Some(1 << 35),
        numa: None,
        driver: Some("nvidia".into()),
        link: None,
    }
}

/// A call out of place and in place, of which nothing was measured.
#[must_use]
pub fn call(collective: &str, bytes: u64) -> CallRow {
    CallRow {
        collective: collective.to_owned(),
        bytes,
        count: bytes / 4,
        data: "float".to_owned(),
        redop: "sum".to_owned(),
        out_of_place_us: 0.0,
        out_of_place_algbw: 0.0,
        out_of_place_busbw: 0.0,
        out_of_place_wrong: Some(0),
        in_place_us: 0.0,
        in_place_algbw: 0.0,
        in_place_busbw: 0.0,
        in_place_wrong: Some(0),
    }
}
