//! Every combination of the validator's results; only one leads to PASS.

use super::*;
use crate::child::ShutdownRequest;
use serde_json::{Value, json};
use std::time::Duration;

fn report(verdict: &str, outcomes: &[&str]) -> Value {
    let tests: Vec<_> = outcomes
        .iter()
        .enumerate()
        .map(|(n, o)| json!({ "id": format!("t{n}"), "outcome": o }))
        .collect();
    json!({ "schema": "firstlight.report/1", "verdict": verdict, "scope": "machine",
        "covers": "2 x NVIDIA H200", "root": "/", "started": "2026-11-20T10:00:00Z",
        "machine": { "fingerprint": "ab".repeat(32), "bound_to": { "kernel": "6.12" } }, "tests": tests })
}

fn validation(end: End, report: Result<Value, &str>) -> Validation {
    Validation {
        end,
        reason: "some words".into(),
        report: report
            .map(|v| v.to_string().into_bytes())
            .map_err(str::to_owned),
        lines: vec![],
        seconds: 1.25,
    }
}

fn verdict(end: End, verdict: &str, outcomes: &[&str]) -> Verdict {
    judge(&validation(end, Ok(report(verdict, outcomes))), &[]).verdict
}

#[test]
fn status_and_report_that_agree_are_accepted() {
    for (status, word, outcomes, want) in [
        (0, "PASS", ["pass", "not-applicable"], Verdict::Pass),
        (1, "FAIL", ["pass", "fail"], Verdict::Fail),
        (2, "ERROR", ["pass", "error"], Verdict::Error),
        (3, "DEGRADED", ["pass", "warn"], Verdict::Degraded),
    ] {
        let judged = judge(
            &validation(End::Exited(status), Ok(report(word, &outcomes))),
            &[],
        );
        assert_eq!(
            (judged.verdict, judged.exit_status, judged.has_report),
            (want, Some(status), true)
        );
        assert_eq!(
            judged.fingerprint.as_deref(),
            Some("ab".repeat(32).as_str())
        );
    }
}

#[test]
fn any_disagreement_is_an_error() {
    for status in [-1, 0, 1, 2, 3, 4, 64, 101, 127, 255] {
        for word in ["PASS", "FAIL", "ERROR", "DEGRADED", "pass", ""] {
            let agree = Verdict::of_status(status).is_some_and(|v| v.to_string() == word);
            if !agree {
                assert_eq!(
                    verdict(End::Exited(status), word, &["pass"]),
                    Verdict::Error,
                    "{status} {word}"
                );
            }
        }
    }
}

#[test]
fn a_bad_end_is_an_error_even_with_a_fine_report() {
    for end in [
        End::Signalled(11),
        End::TimedOut(Duration::from_secs(9)),
        End::Unkillable(Duration::from_secs(9)),
        End::NotStarted(2),
        End::Interrupted(ShutdownRequest::Reboot),
    ] {
        let judged = judge(&validation(end, Ok(report("PASS", &["pass"]))), &[]);
        assert_eq!(
            (judged.verdict, judged.has_report),
            (Verdict::Error, false),
            "{end:?}"
        );
        assert_eq!(judged.cause, Some(format!("the validator {end}")));
    }
}

#[test]
fn a_pass_whose_tests_do_not_prove_it_is_an_error() {
    for outcomes in [
        &["pass", "fail"][..],
        &["pass", "error"],
        &["pass", "skipped"],
        &["not-applicable"],
        &[],
    ] {
        assert_eq!(
            verdict(End::Exited(0), "PASS", outcomes),
            Verdict::Error,
            "{outcomes:?}"
        );
        assert_eq!(
            verdict(End::Exited(3), "DEGRADED", outcomes),
            Verdict::Error,
            "{outcomes:?}"
        );
    }
}

#[test]
fn a_pass_that_is_bound_to_no_machine_is_an_error() {
    for fingerprint in [
        json!(null),
        json!(""),
        json!("ab"),
        json!("zz".repeat(32)),
        json!(7),
    ] {
        let mut value = report("PASS", &["pass"]);
        value["machine"]["fingerprint"] = fingerprint.clone();
        let judged = judge(&validation(End::Exited(0), Ok(value)), &[]);
        assert_eq!(judged.verdict, Verdict::Error, "{fingerprint}");
    }
}

#[test]
fn a_good_verdict_of_less_than_the_machine_is_an_error_and_a_bad_one_stays() {
    for scope in [
        json!("fabric"),
        json!("only:iommu"),
        json!("gpus:0,1"),
        json!(""),
        json!(null),
    ] {
        let mut value = report("PASS", &["pass"]);
        value["scope"] = scope.clone();
        let judged = judge(&validation(End::Exited(0), Ok(value)), &[]);
        assert_eq!(judged.verdict, Verdict::Error, "{scope}");
    }
    let mut value = report("FAIL", &["fail"]);
    value["scope"] = json!("fabric");
    let judged = judge(&validation(End::Exited(1), Ok(value)), &[]);
    assert_eq!(
        (judged.verdict, judged.scope.as_deref()),
        (Verdict::Fail, Some("fabric"))
    );
}

#[test]
fn a_degraded_machine_is_announced_with_its_reason_and_its_name() {
    let mut value = report("DEGRADED", &["pass", "warn"]);
    value["machine"]["host"] = json!("node8");
    value["tests"][1]["findings"] = json!([{ "code": "LINK-SLOW", "severity": "info" },
        { "code": "LINK-NARROW", "severity": "warn" }, { "code": "LINK-NARROW", "severity": "warn" }]);
    let judged = judge(&validation(End::Exited(3), Ok(value)), &[]);
    let line = "FIRSTLIGHT verdict=DEGRADED failed=none warned=t1 codes=LINK-NARROW scope=machine host=node8 seconds=1.2";
    assert_eq!(judged.announcement("node7")[1], line);
}

#[test]
fn what_it_is_bound_to_must_be_an_object() {
    for bound_to in [json!(null), json!([]), json!("{}"), json!(7)] {
        let mut value = report("PASS", &["pass"]);
        value["machine"]["bound_to"] = bound_to.clone();
        let judged = judge(&validation(End::Exited(0), Ok(value)), &[]);
        assert_eq!(
            (judged.verdict, judged.has_report),
            (Verdict::Error, false),
            "{bound_to}"
        );
    }
}

#[test]
fn a_missing_or_broken_report_is_an_error_with_a_cause() {
    let judged = judge(
        &validation(End::Exited(0), Err("report.json: not found")),
        &[],
    );
    assert_eq!(
        (judged.verdict, judged.cause.as_deref()),
        (Verdict::Error, Some("report.json: not found"))
    );
    for bytes in [
        &b""[..],
        b"{",
        b"null",
        b"[]",
        b"{\"schema\":\"firstlight.report/1\"}",
        b"\xff\xfe",
    ] {
        let broken = Validation {
            report: Ok(bytes.to_vec()),
            ..validation(End::Exited(0), Err(""))
        };
        assert_eq!(judge(&broken, &[]).verdict, Verdict::Error, "{bytes:?}");
    }
    let mut other = report("PASS", &["pass"]);
    other["schema"] = json!("firstlight.report/2");
    assert_eq!(
        judge(&validation(End::Exited(0), Ok(other)), &[]).verdict,
        Verdict::Error
    );
}

#[test]
fn trouble_in_a_stage_makes_a_pass_an_error_and_is_named_first() {
    let stage_errors = [
        StageError {
            stage: "fabric",
            code: Some("WATCHDOG-NONE"),
            cause: "crashed".into(),
        },
        StageError {
            stage: "driver",
            code: None,
            cause: "module nvidia is missing".into(),
        },
    ];
    let judged = judge(
        &validation(End::Exited(1), Ok(report("FAIL", &["fail"]))),
        &stage_errors,
    );
    assert_eq!(judged.verdict, Verdict::Error);
    assert_eq!(judged.cause.as_deref(), Some("fabric: crashed"));
    assert_eq!(judged.failed, ["fabric", "driver", "t0"]);
    assert!(judged.has_report);
}

#[test]
fn the_validators_own_lines_are_used_only_when_they_say_the_verdict() {
    let own = [
        "VERDICT  PASS   15 passed",
        "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.4",
    ];
    let with = |lines: &[&str], status, word| {
        let lines = lines.iter().map(|l| (*l).to_owned()).collect();
        let outcome = if status == 0 { "pass" } else { "fail" };
        judge(
            &Validation {
                lines,
                ..validation(End::Exited(status), Ok(report(word, &[outcome])))
            },
            &[],
        )
        .announcement("node7")
    };
    assert_eq!(with(&own, 0, "PASS"), own);
    assert_eq!(
        with(&own, 1, "FAIL"),
        [
            "VERDICT  FAIL",
            "FIRSTLIGHT verdict=FAIL failed=t0 warned=none codes=none scope=machine host=node7 seconds=1.2"
        ],
        "lines of another verdict are not shown"
    );
    assert_eq!(with(&own[..1], 0, "PASS").len(), 2);
    let other = own[1].replace("failed=none", "failed=t0");
    assert_ne!(
        with(&[own[0], &other], 0, "PASS")[1],
        other,
        "of another report"
    );
    let line = "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=1.2";
    assert_eq!(with(&[], 0, "PASS")[1], line);
}

#[test]
fn where_no_test_ran_the_validator_is_what_failed() {
    let judged = judge(&validation(End::Exited(2), Ok(report("ERROR", &[]))), &[]);
    assert_eq!(judged.failed, ["validator"]);
    assert_eq!(
        judged.cause.as_deref(),
        Some("the validator reached no verdict (validator)")
    );
}

#[test]
fn exactly_one_scraper_line_is_announced_in_every_case() {
    let lines = vec![
        "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.4"
            .to_owned();
        3
    ];
    for end in [End::Exited(0), End::Exited(2), End::Signalled(9)] {
        let validation = validation(end, Ok(report("PASS", &["pass"])));
        let judged = judge(
            &Validation {
                lines: lines.clone(),
                ..validation
            },
            &[],
        );
        let count = judged
            .announcement("node7")
            .iter()
            .filter(|l| l.starts_with("FIRSTLIGHT "))
            .count();
        assert_eq!(count, 1, "{end:?}");
    }
}

#[test]
fn a_verdict_of_inits_own_has_this_machines_name() {
    let mut judgement = Judgement::error("config", "why".to_owned(), 0.5);
    let rest = "warned=none codes=none scope=machine host=node7 seconds=0.5";
    let line = |judgement: &Judgement, here| judgement.announcement(here)[1].clone();
    assert_eq!(
        line(&judgement, "node7"),
        format!("FIRSTLIGHT verdict=ERROR failed=config {rest}")
    );
    (judgement.host, judgement.codes) = (Some("a b\nc=d".to_owned()), vec!["X\rY".to_owned()]);
    assert!(
        line(&judgement, "node7").ends_with("codes=X?Y scope=machine host=a?b?c?d seconds=0.5")
    );
    assert!(line(&Judgement::error("x", String::new(), 0.0), "").contains(" host=unknown "));
}

fn finding(severity: &str, recovery: &str) -> Value {
    json!({ "code": recovery.to_uppercase(), "severity": severity, "recovery": recovery })
}

/// The need of a report with these findings.
fn asked(findings: &[Value]) -> Option<(RecoveryNeed, String)> {
    let mut text = report("FAIL", &["fail"]);
    text["tests"][0]["findings"] = json!(findings);
    recovery_need(&validation(End::Exited(1), Ok(text)))
}

#[test]
fn the_first_finding_with_the_greatest_need_decides_what_the_gpus_need() {
    let person = RecoveryNeed::Manual(Recovery::Replace);
    let fails = |words: &[&str]| {
        asked(
            &words
                .iter()
                .map(|word| finding("fail", word))
                .collect::<Vec<_>>(),
        )
    };
    for (words, need) in [
        (&["none", "restart-program"][..], None),
        (
            &["restart-program", "drain-p2p", "reset-gpu"],
            Some((RecoveryNeed::Reset, "DRAIN-P2P")),
        ),
        (
            &["reset-gpu", "reboot", "drain-and-reset"],
            Some((RecoveryNeed::Reboot, "REBOOT")),
        ),
        (&["replace", "reboot"], Some((person, "REPLACE"))),
    ] {
        assert_eq!(
            fails(words),
            need.map(|(need, code)| (need, code.to_owned())),
            "{words:?}"
        );
    }
    assert_eq!(asked(&[finding("info", "reset-gpu")]), None);
    assert_eq!(
        asked(&[json!({ "code": "P2P-SLOW", "severity": "warn" })]),
        None
    );
}

#[test]
fn a_validator_that_had_to_be_ended_asks_for_a_reset_and_one_that_died_does_not() {
    let need = |end| recovery_need(&validation(end, Err("none"))).map(|(need, _)| need);
    let limit = Duration::from_secs(9);
    assert_eq!(
        [End::TimedOut(limit), End::Unkillable(limit)].map(need),
        [Some(RecoveryNeed::Reset); 2]
    );
    assert_eq!(
        [End::Signalled(11), End::Vetoed, End::Exited(0)].map(need),
        [None; 3]
    );
}

#[test]
fn a_part_of_the_machine_is_good_where_status_and_report_say_so() {
    let good = |status, word: &str, outcomes: &[&str]| {
        part_passed(&validation(End::Exited(status), Ok(report(word, outcomes))))
    };
    assert!(good(0, "PASS", &["pass", "not-applicable"]) && good(3, "DEGRADED", &["warn"]));
    assert!(!good(0, "DEGRADED", &["warn"]) && !good(0, "PASS", &["pass", "error"]));
    assert!(!good(0, "PASS", &["not-applicable"]) && !good(1, "FAIL", &["fail"]));
    assert!(!part_passed(&validation(End::Exited(0), Err("none"))));
    assert!(!part_passed(&validation(
        End::Signalled(9),
        Ok(report("PASS", &["pass"]))
    )));
}
