//! The next step after small reports.

use super::*;
use crate::render::fixture::{self, test};
use crate::{Gpu, SCHEMA, from_json};
use outcome::finding::{Finding, Subject};
use outcome::platform::Pair;

/// A report of two GPUs with these tests, each with its outcome.
fn report(tests: Vec<TestEntry>) -> Report {
    let mut report = fixture::report(tests);
    let gpu = |n: u8| Gpu {
        bdf: format!("0000:{n}1:00.0").parse().unwrap(),
        uuid: Some(format!("GPU-{n}")),
        ..fixture::gpu("NVIDIA X")
    };
    report.gpus = vec![gpu(0), gpu(1)];
    report.explain();
    report
}

/// The same for findings of one severity, each of a test of its own.
fn found(severity: Severity, findings: &[(Code, Subject, Option<Recovery>)]) -> Report {
    let entry = |(n, (code, subject, recovery)): (usize, &(Code, Subject, Option<Recovery>))| {
        let finding: Finding = code.finding(severity, subject.clone(), "seen");
        let finding = Finding {
            recovery: recovery.or(finding.recovery),
            ..finding
        };
        let outcome = outcome::of_severities([severity].into_iter());
        test(&format!("t{n}"), outcome, "", vec![finding])
    };
    report(findings.iter().enumerate().map(entry).collect())
}

fn gpu(n: usize) -> Subject {
    GpuId::new(n).into()
}

use Recovery::{DrainAndReset, PowerCycle, RebootNode, ResetGpu, RestartProgram};
use Severity::{Error, Fail, Info, Warn};

#[test]
fn a_good_machine_needs_nothing_unless_the_driver_asks() {
    assert_eq!(
        report(vec![test("cuda", Outcome::Pass, "", vec![])]).next_step,
        NextStep::None
    );
    assert_eq!(
        found(Info, &[(Code::GpuXid, gpu(0), Some(ResetGpu))]).next_step,
        NextStep::None
    );
    assert_eq!(
        found(Warn, &[(Code::LinkNarrow, gpu(0), None)]).next_step,
        NextStep::None
    );
    assert_eq!(
        found(Warn, &[(Code::GpuRemap, gpu(0), Some(DrainAndReset))]).next_step,
        NextStep::Reset
    );
}

#[test]
fn a_bad_verdict_is_answered_by_a_reset_or_reboot_only_if_that_answers_every_cause() {
    let reset = (Code::P2pHang, Subject::from(Pair::of(0, 1)), Some(ResetGpu));
    let reboot = (Code::GpuXid, gpu(1), Some(RebootNode));
    let person = (Code::AcsRedirect, Subject::Machine, None);
    assert_eq!(
        found(Fail, std::slice::from_ref(&reset)).next_step,
        NextStep::Reset
    );
    assert_eq!(
        found(Fail, &[reset.clone(), reboot.clone()]).next_step,
        NextStep::Reboot
    );
    assert_eq!(
        found(Fail, &[reset.clone(), reboot, person.clone()]).next_step,
        NextStep::Drain
    );
    assert_eq!(found(Error, &[person]).next_step, NextStep::Drain);
    // What only a person can do, and a program's own error, are no step of a program.
    for recovery in [
        PowerCycle,
        Recovery::Replace,
        Recovery::None,
        RestartProgram,
    ] {
        assert_eq!(
            found(Fail, &[(Code::GpuXid, gpu(0), Some(recovery))]).next_step,
            NextStep::Drain,
            "{recovery}"
        );
    }
    // Of two findings of one cause, one names no action.
    let xid = |recovery| (Code::GpuXid, gpu(0), recovery);
    assert_eq!(
        found(Fail, &[xid(Some(ResetGpu)), xid(None)]).next_step,
        NextStep::Drain
    );
}

#[test]
fn a_test_without_a_result_that_nothing_explains_drains() {
    let hang = Code::P2pHang.finding(Fail, GpuId::new(0), "seen");
    let tests = vec![
        test("p2p-integrity", Outcome::Fail, "", vec![hang]),
        test("nccl", Outcome::Error, "", vec![]),
    ];
    let report = report(tests);
    assert_eq!(
        (report.next_step, after_runs(&report, &[]).gpus.len()),
        (NextStep::Drain, 0)
    );
    assert_eq!(fixture::report(vec![]).next_step, NextStep::Drain);
}

/// Every bad verdict keeps work off, and no single run replaces a part, whatever its findings.
#[test]
fn no_bad_verdict_gives_none_and_no_single_run_replaces() {
    let all = Recovery::ALL.into_iter().map(Some).chain([None]);
    for recovery in all {
        for code in Code::ALL {
            for severity in [Info, Warn, Fail, Error] {
                let report = found(severity, &[(*code, gpu(0), recovery)]);
                let StepFor { step, .. } = after_runs(&report, std::slice::from_ref(&report));
                assert!(
                    step != NextStep::Replace
                        && (report.verdict.is_good() || step != NextStep::None),
                    "{code:?}"
                );
            }
        }
    }
}

#[test]
fn a_gpu_that_two_runs_found_worn_out_is_to_be_replaced() {
    let worn = || found(Fail, &[(Code::GpuMemory, gpu(1), None)]);
    let at = |started: &str| Report {
        started: started.into(),
        ..worn()
    };
    let now = at("2026-11-21T12:00:00Z");
    let one: BTreeSet<Bdf> = ["0000:11:00.0".parse().unwrap()].into();
    assert_eq!(
        after_runs(&now, &[worn()]),
        StepFor {
            step: NextStep::Replace,
            gpus: one.clone()
        }
    );
    // The same run twice is one run.
    assert_eq!(
        after_runs(&now, std::slice::from_ref(&now)),
        StepFor {
            step: NextStep::Drain,
            gpus: one
        }
    );
    // Another card in the slot, another GPU of the machine, a fault between GPUs, and a run that is good now.
    let mut other = worn();
    other.gpus[1].uuid = Some("GPU-new".into());
    assert_eq!(after_runs(&now, &[other]).step, NextStep::Drain);
    let zero = found(Fail, &[(Code::GpuMemory, gpu(0), None)]);
    assert_eq!(after_runs(&now, &[zero]).step, NextStep::Drain);
    let pair = found(Fail, &[(Code::P2pWrongData, Pair::of(0, 1).into(), None)]);
    let later = Report {
        started: "2026-11-22T12:00:00Z".into(),
        ..pair.clone()
    };
    assert_eq!(after_runs(&later, &[pair]).step, NextStep::Drain);
    let good = report(vec![test("cuda", Outcome::Pass, "", vec![])]);
    assert_eq!(after_runs(&good, &[now]).step, NextStep::None);
}

#[test]
fn the_gpus_are_those_of_the_causes_unless_one_is_about_the_machine() {
    let named = |findings: &[(Code, Subject, Option<Recovery>)]| {
        let gpus = after_runs(&found(Fail, findings), &[]).gpus;
        gpus.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(named(&[(Code::GpuMemory, gpu(1), None)]), ["0000:11:00.0"]);
    assert_eq!(
        named(&[(Code::P2pWrongData, Pair::of(0, 1).into(), None)]),
        ["0000:01:00.0", "0000:11:00.0"]
    );
    assert!(
        named(&[
            (Code::GpuMemory, gpu(1), None),
            (Code::ImageChanged, Subject::Machine, None)
        ])
        .is_empty()
    );
}

#[test]
fn a_file_cannot_claim_another_step() {
    let mut value = serde_json::to_value(found(Fail, &[(Code::GpuMemory, gpu(1), None)])).unwrap();
    assert_eq!(
        (&value["schema"], &value["next_step"]),
        (&SCHEMA.into(), &"drain".into())
    );
    value["next_step"] = "none".into();
    assert_eq!(
        from_json(value.to_string().as_bytes()).unwrap().next_step,
        NextStep::Drain
    );
    // An earlier report has none.
    value.as_object_mut().unwrap().remove("next_step");
    assert_eq!(
        from_json(value.to_string().as_bytes()).unwrap().next_step,
        NextStep::Drain
    );
    value["next_step"] = "a word of a later version".into();
    assert_eq!(
        from_json(value.to_string().as_bytes()).unwrap().next_step,
        NextStep::Drain
    );
}
