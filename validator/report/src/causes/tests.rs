//! Findings of small reports, and the causes and the answer that they give.

use super::*;
use crate::{BoundTo, Gpu};
use machine::host::identity::Appliance;
use outcome::Matrix;
use outcome::platform::Host;
use outcome::platform::Pair;
use outcome::scope::Scope;
use serde_json::json;

const GPUS: usize = 4;

/// A report of four GPUs with these findings, each of a test; the tests of peer-to-peer that are not named passed.
fn report(found: &[(&str, Code, Severity, &str)]) -> Report {
    let mut report: Report = serde_json::from_value(json!({
        "schema": crate::SCHEMA, "verdict": "ERROR", "scope": "machine", "covers": "", "level": "standard", "root": "/",
        "started": "", "seconds": 0.0, "appliance": None::<Appliance>,
        "machine": { "dmi": {}, "host": null, "kernel": null, "cmdline": null, "fingerprint": "", "bound_to": BoundTo::default() },
        "driver": crate::Driver::default(), "gpus": (0..GPUS).map(gpu).collect::<Vec<_>>(), "fabric": null,
        "tests": [], "effects": {}, "workload_env": {}, "workload_reasons": {}
    }))
    .unwrap();
    let mut ids: Vec<_> = found.iter().map(|(id, ..)| *id).collect();
    ids.extend(["iommu", "acs", "p2p-capability", "p2p-integrity"]);
    ids.dedup();
    for (n, id) in ids
        .iter()
        .enumerate()
        .filter(|(n, id)| !ids[..*n].contains(id))
    {
        let of = found.iter().filter(|(test, ..)| test == id);
        let findings: Vec<_> = of
            .map(|(_, code, severity, about)| code.finding(*severity, about, format!("seen {n}")))
            .collect();
        let said = outcome::Judgement::of("", findings);
        let entry = json!({ "id": id, "title": "", "proves": "", "level": "quick", "outcome": said.outcome(), "seconds": 0.0,
            "summary": "", "findings": FindingEntry::all(&said.findings, &Host::default()), "matrices": [], "tables": [], "log_tail": [] });
        report.push(serde_json::from_value(entry).unwrap());
    }
    report.explain();
    report
}

fn gpu(n: usize) -> Gpu {
    let (bdf, none) = (format!("0000:{n}1:00.0").parse().unwrap(), None::<String>);
    Gpu {
        bdf,
        device: String::new(),
        name: none.clone(),
        uuid: none.clone(),
        vbios: none.clone(),
        bar1_bytes: None,
        numa: None,
        driver: none,
        link: None,
    }
}

/// All ordered pairs, each by its name.
fn all_pairs() -> String {
    let pairs = Pair::all(GPUS).filter(|pair| pair.from != pair.to);
    pairs
        .map(|pair| pair.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

fn codes(report: &Report) -> Vec<&str> {
    report
        .causes
        .iter()
        .map(|cause| cause.code.as_str())
        .collect()
}

use Severity::{Error, Fail, Info, Warn};

#[test]
fn what_one_cause_explains_is_folded_under_it() {
    let found = report(&[
        ("p2p-bandwidth", Code::P2pSlow, Fail, "GPU 0 -> 1"),
        ("p2p-bandwidth", Code::P2pAsymmetric, Warn, "GPU 0 -> 1"),
        ("p2p-latency", Code::P2pLatency, Warn, "GPU 1 -> 0"),
        ("links", Code::LinkNarrow, Warn, "0000:11:00.0"),
        ("nccl", Code::NcclSlow, Fail, "all_reduce"),
    ]);
    assert_eq!(codes(&found), ["LINK-NARROW"]);
    let cause = &found.causes[0];
    assert_eq!(
        (cause.severity, cause.test.as_str(), cause.pairs),
        (Fail, "links", Some(6))
    );
    let also: Vec<_> = cause
        .symptoms
        .iter()
        .map(|s| (s.code.as_str(), s.test.as_str()))
        .collect();
    let expected = [
        ("P2P-SLOW", "p2p-bandwidth"),
        ("P2P-ASYMMETRIC", "p2p-bandwidth"),
        ("P2P-LATENCY", "p2p-latency"),
        ("NCCL-SLOW", "nccl"),
    ];
    assert_eq!(also, expected);
    assert_eq!(
        found.answer,
        "P2P: YES but SLOW, GPU 1 (0000:11:00.0): its PCIe link uses too few lanes, 6 of 12 pairs"
    );
}

#[test]
fn a_cause_on_other_gpus_explains_nothing() {
    let found = report(&[
        ("links", Code::LinkNarrow, Warn, "0000:31:00.0"),
        ("p2p-bandwidth", Code::P2pSlow, Fail, "GPU 0 -> 1"),
    ]);
    assert_eq!(codes(&found), ["P2P-SLOW", "LINK-NARROW"]);
    assert!(
        found.answer.starts_with("P2P: YES but SLOW, GPU 0 -> 1: "),
        "{}",
        found.answer
    );
}

#[test]
fn what_fails_comes_before_what_warns_and_harmless_findings_are_no_cause() {
    let found = report(&[
        ("links", Code::LinkSlow, Info, "0000:01:00.0"),
        ("cuda", Code::GpuInUse, Warn, "GPU 2"),
        ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1"),
    ]);
    assert_eq!(codes(&found), ["P2P-WRONG-DATA", "GPU-IN-USE"]);
    assert_eq!(
        found.answer,
        "P2P: NO, GPU 0 -> 1: data arrives wrong, 1 of 12 pairs"
    );
    let not: Vec<_> = found.causes[0]
        .ruled_out
        .iter()
        .map(|out| out.test.as_str())
        .collect();
    assert_eq!(not, ["iommu", "acs"]);
}

#[test]
fn a_failed_test_rules_nothing_out() {
    let found = report(&[
        ("iommu", Code::IommuTranslating, Fail, "machine"),
        ("p2p-integrity", Code::P2pWrongData, Fail, &all_pairs()),
        ("nccl", Code::NcclWrongData, Fail, "all_reduce"),
    ]);
    assert_eq!(codes(&found), ["IOMMU-TRANSLATING"]);
    assert_eq!(
        found.answer,
        "P2P: NO, the IOMMU translates addresses, 12 of 12 pairs"
    );
    assert!(
        !found.causes[0]
            .ruled_out
            .iter()
            .any(|out| out.test == "iommu")
    );
}

#[test]
fn a_pass_rules_out_only_what_its_test_looked_for_and_did_not_find() {
    let found = [
        ("cmdline", Code::CmdlineMissing, Info, "kernel"),
        ("links", Code::LinkSlow, Info, "0000:11:00.0"),
        ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1"),
        ("iommu", Code::IommuTranslating, Fail, "machine"),
    ];
    let ruled_out = |report: &Report, head: &str| {
        let cause = report
            .causes
            .iter()
            .find(|cause| cause.code == head)
            .unwrap();
        cause
            .ruled_out
            .iter()
            .map(|out| out.test.clone())
            .collect::<Vec<_>>()
    };
    // A harmless finding of the code.
    assert!(!ruled_out(&report(&found), "IOMMU-TRANSLATING").contains(&"cmdline".to_owned()));
    // It looked, and found nothing.
    let mut quiet = report(&found);
    let cmdline = quiet
        .tests
        .iter()
        .position(|test| test.id == "cmdline")
        .unwrap();
    quiet.tests[cmdline].findings.clear();
    quiet.explain();
    assert!(ruled_out(&quiet, "IOMMU-TRANSLATING").contains(&"cmdline".to_owned()));
    // It did not look.
    quiet.tests[cmdline].unchecked = vec!["CMDLINE-MISSING".to_owned()];
    let json = serde_json::to_vec(&quiet).unwrap();
    let read = crate::from_json(&json).unwrap();
    assert!(!ruled_out(&read, "IOMMU-TRANSLATING").contains(&"cmdline".to_owned()));
}

#[test]
fn a_bar_without_an_address_explains_a_start_that_failed_and_a_translating_iommu_does_not() {
    let found = report(&[
        ("iommu", Code::IommuTranslating, Fail, "machine"),
        ("fabric", Code::RebarNoRoom, Fail, "0000:11:00.0"),
        ("driver", Code::GpuInit, Fail, "0000:11:00.0"),
    ]);
    let symptoms = |code: &str| {
        let cause = found.causes.iter().find(|cause| cause.code == code);
        cause.map(|cause| cause.symptoms.len())
    };
    assert_eq!(
        (symptoms("IOMMU-TRANSLATING"), symptoms("REBAR-NO-ROOM")),
        (Some(0), Some(1))
    );
}

#[test]
fn one_fault_of_one_gpu_is_one_cause_with_the_remedy_of_the_test_that_knows_more() {
    let remedies = |found: &Report| {
        let causes = found.causes.iter();
        causes
            .map(|cause| (cause.subject.clone(), cause.remedy.to_string()))
            .collect::<Vec<_>>()
    };
    let gone = |test, about| (test, Code::GpuGone, Fail, about);
    let mut found = report(&[
        gone("fabric", "0000:11:00.0"),
        gone("fabric", "0000:21:00.0"),
        gone("xid", "0000:11:00.0"),
    ]);
    assert_eq!(codes(&found), ["GPU-GONE"], "the remedies are the same");
    // What the log tells about one of them.
    let known = &mut found.tests[1].findings[0];
    assert!(known.is(Code::GpuGone) && known.subject.as_str() == "0000:11:00.0");
    known.remedy = "ask the driver".into();
    known.cause = "the driver says why".into();
    found.explain();
    let said = remedies(&found);
    let [(first, told), (second, usual)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(
        (first.as_str(), second.as_str()),
        ("0000:11:00.0", "0000:21:00.0")
    );
    assert!(told == "ask the driver" && usual != told, "{said:?}");
    // The more severe one decides, whatever it knows.
    found.tests[1].findings[0].severity = Severity::Warn;
    found.explain();
    let said = remedies(&found);
    assert!(said.len() == 1 && said[0].1 != "ask the driver", "{said:?}");
}

#[test]
fn without_the_proof_the_answer_is_never_yes() {
    let lost = report(&[("p2p-integrity", Code::TestTimeout, Error, "p2p-integrity")]);
    assert_eq!(
        lost.answer,
        "P2P: UNKNOWN, p2p-integrity: a test did not finish"
    );
    let mut none = report(&[]);
    assert_eq!(none.answer, "P2P: YES, 12 of 12 pairs");
    none.tests.retain(|test| test.id == "acs");
    none.explain();
    assert_eq!(none.answer, "P2P: UNKNOWN");
    none.scope = Scope::Fabric;
    none.explain();
    assert_eq!(none.answer, "P2P: NOT TESTED, the scope is the fabric");
    none.gpus.truncate(1);
    none.scope = Scope::Machine;
    none.explain();
    assert_eq!(none.answer, "P2P: NONE, there is one GPU");
    none.gpus.clear();
    none.explain();
    assert_eq!(none.answer, "P2P: UNKNOWN");
}

#[test]
fn another_cause_to_repair_first_is_named_too() {
    let found = report(&[("p2p-order", Code::GpuEcc, Fail, "GPU 2")]);
    assert_eq!(
        found.answer,
        "P2P: YES, 12 of 12 pairs; first: GPU 2: the GPU counted memory errors"
    );
}

#[test]
fn measured_speeds_are_in_the_answer() {
    let mut good = report(&[]);
    let labels = || vec!["0".to_owned(), "1".to_owned()];
    let values = vec![vec![Some(900.0), Some(20.64)], vec![Some(25.96), None]];
    let speeds = Matrix {
        name: "sample.uni.on".to_owned(),
        unit: "GB/s".to_owned(),
        rows: labels(),
        columns: labels(),
        values,
    };
    good.tests[2].matrices.push(speeds);
    good.explain();
    assert_eq!(good.answer, "P2P: YES, 12 of 12 pairs, 20.6 to 26.0 GB/s");
    // The figure in the row of p2p-bandwidth.
    let values = vec![vec![None, Some(21.2)], vec![Some(26.3), None]];
    let writes = Matrix {
        name: "ce.write".to_owned(),
        unit: "GB/s".to_owned(),
        rows: labels(),
        columns: labels(),
        values,
    };
    good.tests[2].matrices.push(writes);
    good.explain();
    assert_eq!(good.answer, "P2P: YES, 12 of 12 pairs, 21.2 to 26.3 GB/s");
}

#[test]
fn a_code_of_a_newer_version_is_a_cause_of_its_own() {
    let mut found = report(&[("acs", Code::AcsRedirect, Fail, "0000:00:01.1")]);
    found.tests[0].findings[0].code = "NEW-CODE".to_owned();
    found.explain();
    assert_eq!(
        (codes(&found), found.causes[0].says.as_str()),
        (vec!["NEW-CODE"], "seen 0")
    );
}

#[test]
fn the_causes_in_a_file_are_computed_again() {
    let mut found = report(&[("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1")]);
    let right = found.answer.clone();
    found.answer = "P2P: YES".to_owned();
    found.causes.clear();
    let read = crate::from_json(&serde_json::to_vec(&found).unwrap()).unwrap();
    assert_eq!(
        (&read.answer, codes(&read)),
        (&right, vec!["P2P-WRONG-DATA"])
    );
}

#[test]
fn pairs_without_access_are_not_counted() {
    let mut some = report(&[]);
    let labels = || ["0", "1"].map(str::to_owned).to_vec();
    let values = vec![vec![Some(1.0), Some(1.0)], vec![Some(1.0), Some(1.0)]];
    let access = Matrix {
        name: "p2p.connectivity".to_owned(),
        unit: "1".to_owned(),
        rows: labels(),
        columns: labels(),
        values,
    };
    some.tests[2].matrices.push(access);
    some.explain();
    assert_eq!(some.answer, "P2P: PARTLY, 2 of 12 pairs");
}

#[test]
fn a_fault_from_before_the_tests_is_the_cause_of_a_failure_that_nothing_measured_explains() {
    let wrong = ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1");
    for (code, says) in [
        (
            Code::IommuFault,
            "the IOMMU blocked memory accesses before the tests",
        ),
        (Code::PcieAer, "its PCIe link had errors before the tests"),
    ] {
        let found = report(&[("xid", code, Info, "0000:11:00.0"), wrong]);
        assert_eq!(codes(&found), [code.as_str()]);
        let cause = &found.causes[0];
        assert_eq!(
            (cause.severity, cause.test.as_str(), cause.pairs),
            (Fail, "xid", Some(1))
        );
        assert_eq!(
            cause
                .symptoms
                .iter()
                .map(|s| s.code.as_str())
                .collect::<Vec<_>>(),
            ["P2P-WRONG-DATA"]
        );
        assert_eq!(
            found.answer,
            format!("P2P: NO, GPU 1 (0000:11:00.0): {says}, 1 of 12 pairs")
        );
        assert_eq!(found.verdict, report(&[wrong]).verdict);
        let text = crate::render::causes::details(&found.causes, &found.tests);
        assert!(
            text.contains("FAIL") && text.contains("seen 0") && text.contains("P2P-WRONG-DATA"),
            "{text}"
        );
    }
}

#[test]
fn faults_of_several_gpus_from_before_the_tests_are_one_cause() {
    let found = report(&[
        ("xid", Code::IommuFault, Info, "0000:01:00.0"),
        ("xid", Code::IommuFault, Info, "0000:11:00.0"),
        ("xid", Code::IommuFault, Info, "0000:31:00.0"),
        ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1"),
    ]);
    assert_eq!(codes(&found), ["IOMMU-FAULT"]);
    assert_eq!(
        (found.causes[0].subject.as_str(), found.causes[0].pairs),
        ("0000:01:00.0, 0000:11:00.0", Some(1))
    );
    let text = crate::render::causes::details(&found.causes, &found.tests);
    assert!(!text.contains("0000:31:00.0"), "{text}");
}

#[test]
fn a_fault_from_before_the_tests_that_explains_no_failure_is_no_cause() {
    let fault = ("xid", Code::IommuFault, Info, "0000:11:00.0");
    let alone = report(&[fault]);
    assert_eq!(
        (codes(&alone), alone.verdict),
        (vec![], outcome::Verdict::Pass)
    );
    let elsewhere = report(&[
        fault,
        ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 2 -> 3"),
    ]);
    assert_eq!(codes(&elsewhere), ["P2P-WRONG-DATA"]);
    let slow = report(&[
        ("xid", Code::PcieAer, Info, "0000:11:00.0"),
        ("links", Code::LinkNarrow, Warn, "0000:11:00.0"),
    ]);
    assert_eq!(codes(&slow), ["LINK-NARROW"]);
    // Other information is none either.
    let other = report(&[
        ("links", Code::LinkNarrow, Info, "GPU 1"),
        ("p2p-bandwidth", Code::P2pSlow, Fail, "GPU 0 -> 1"),
    ]);
    assert_eq!(codes(&other), ["P2P-SLOW"]);
}

#[test]
fn what_was_measured_explains_before_a_fault_from_before_the_tests() {
    let wrong = ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1");
    let fault = ("xid", Code::IommuFault, Info, "0000:11:00.0");
    let translating = report(&[
        ("iommu", Code::IommuTranslating, Fail, "machine"),
        fault,
        wrong,
    ]);
    assert_eq!(codes(&translating), ["IOMMU-TRANSLATING"]);
    assert_eq!(translating.causes[0].pairs, Some(1));
    let errors = ("xid", Code::PcieAer, Info, "0000:11:00.0");
    let redirected = report(&[errors, ("acs", Code::AcsRedirect, Fail, "machine"), wrong]);
    assert_eq!(codes(&redirected), ["ACS-REDIRECT"]);
    // A warning that the fault explains too follows from it with the failure, and is not lost without one.
    let narrow = ("links", Code::LinkNarrow, Warn, "0000:11:00.0");
    let slow = ("p2p-bandwidth", Code::P2pSlow, Fail, "GPU 0 -> 1");
    assert_eq!(codes(&report(&[errors, narrow, slow])), ["PCIE-AER"]);
    assert_eq!(
        codes(&report(&[fault, errors, narrow, wrong])),
        ["PCIE-AER"]
    );
    let both = report(&[
        fault,
        ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 2 -> 3"),
        narrow,
    ]);
    assert_eq!(codes(&both), ["P2P-WRONG-DATA", "LINK-NARROW"]);
}

#[test]
fn a_known_problem_is_possible_behind_the_failure_of_its_tests_and_changes_nothing_else() {
    let known = |tests: &[&str]| KnownProblem {
        id: "x".to_owned(),
        says: "data arrives wrong".to_owned(),
        seen: "driver 580.142".to_owned(),
        thread: "https://example.org/1".to_owned(),
        read: "2026-11-27".to_owned(),
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
    };
    let found = [
        ("links", Code::LinkNarrow, Warn, "0000:31:00.0"),
        ("p2p-integrity", Code::P2pWrongData, Fail, "GPU 0 -> 1"),
        ("nccl", Code::NcclWrongData, Error, "GPU 0 -> 1"),
    ];
    let plain = report(&found);
    let with = |tests: &[&str]| {
        let mut report = report(&found);
        report.known_problems = vec![known(tests)];
        report.explain();
        let possible: Vec<_> = report
            .causes
            .iter()
            .map(|cause| cause.known_problems.len())
            .collect();
        let mut same = report.clone();
        same.known_problems.clear();
        same.causes
            .iter_mut()
            .for_each(|cause| cause.known_problems.clear());
        assert_eq!(same, plain);
        possible
    };
    assert_eq!(codes(&plain), ["P2P-WRONG-DATA", "LINK-NARROW"]);
    assert_eq!(with(&["p2p-integrity"]), [1, 0]);
    // The failure of a symptom's test counts, and a warning does not.
    assert_eq!(with(&["nccl"]), [1, 0]);
    assert_eq!(with(&["links", "acs"]), [0, 0]);
    assert_eq!(with(&[]), [0, 0]);
}
