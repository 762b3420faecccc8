//! The shipped program on simulated GPUs: does each scenario get its verdict, wherever the fault is
//! and however many GPUs there are, and is nothing else blamed for it?

use harness::simgpu::{Judged, Scenario, validate};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;

/// Faults of one ordered pair.
const OF_A_PAIR: &[&str] = &[
    "zeros",
    "stale",
    "mirror",
    "offset",
    "partial",
    "flip",
    "one-direction",
    "vmm-only",
    "victim",
    "misdirected",
    "reach",
    "reorder",
    "slow-pair",
    "enable-refused",
    "lying-capability",
    "lying-nvml",
    "sticky-error",
];

#[track_caller]
fn judge(name: &str, scenario: &Scenario, words: &[&str]) -> Judged {
    let judged = validate(scenario, words).unwrap();
    let expect = scenario.expect();
    let said = format!("{name}, {} GPUs:\n{}\n{}", scenario.count(), judged.text, judged.log);
    assert_eq!(judged.verdict(), expect.verdict, "{said}");
    assert_eq!(judged.fails(), expect.fails, "{said}");
    judged
}

#[test]
fn each_scenario_gets_its_verdict_and_its_tests_are_blamed() {
    for name in Scenario::names().unwrap() {
        judge(&name, &Scenario::named(&name).unwrap(), &[]);
    }
}

#[test]
fn healthy_machines_of_every_size_pass() {
    for gpus in [2, 3, 5, 9, 16] {
        judge("healthy", &Scenario::named("healthy").unwrap().gpus(gpus), &[]);
    }
}

#[test]
fn everything_is_tried_at_level_full_and_between_processes() {
    let words = ["--level", "full", "--skip", "p2p-soak"];
    for name in ["healthy", "nvlink4"] {
        let judged = judge(name, &Scenario::named(name).unwrap(), &words);
        assert_eq!(judged.report.outcome("p2p-processes"), "pass", "{}", judged.text);
    }
}

/// Findings that matter and name pairs of GPUs name this one alone.
#[track_caller]
fn blames(judged: &Judged, name: &str, pair: [usize; 2]) {
    let allowed = [format!("GPU {} -> {}", pair[0], pair[1]), format!("GPU {} -> {}", pair[1], pair[0])];
    let tests = judged.report.0["tests"].as_array().unwrap();
    let findings = tests.iter().flat_map(|t| t["findings"].as_array().unwrap());
    let bad = findings.filter(|f| ["warn", "fail", "error"].contains(&f["severity"].as_str().unwrap()));
    let subjects: Vec<_> = bad.filter_map(|f| f["subject"].as_str()).collect();
    assert!(!subjects.is_empty(), "{name} {pair:?}");
    for subject in subjects.iter().filter(|s| s.contains(" -> ")) {
        assert!(allowed.iter().any(|a| a == subject), "{name} {pair:?} blames {subject}:\n{}", judged.text);
    }
}

/// A scenario, a number of GPUs, and two of them.
fn cases() -> impl Strategy<Value = (&'static str, usize, [usize; 2])> {
    (select(OF_A_PAIR), 2..=16_usize).prop_flat_map(|(name, gpus)| {
        let pair = (0..gpus, 1..gpus).prop_map(move |(from, further)| [from, (from + further) % gpus]);
        (Just(name), Just(gpus), pair)
    })
}

proptest! {
    #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]
    #[test]
    fn a_fault_is_found_where_it_is_and_nowhere_else((name, gpus, [from, to]) in cases()) {
        let scenario = Scenario::named(name).unwrap().gpus(gpus).pair(from, to);
        blames(&judge(name, &scenario, &[]), name, [from, to]);
    }
}
