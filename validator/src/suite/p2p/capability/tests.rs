//! Each way in which the sources can agree or be wrong.

use super::judge::judge;
use super::predict::Expected;
use super::*;
use gpu::Status;
use outcome::Outcome;
use outcome::finding::{Reason, Refusal};

fn nvml_answers(status: Status) -> P2pAnswers {
    let each = || Ok(status);
    P2pAnswers {
        read: each(),
        write: each(),
        atomics: each(),
        prop: each(),
    }
}

fn answers(can: bool, nvml: Status, enabling: EnableResult) -> Answers {
    Answers {
        pair: Pair::of(0, 1),
        can,
        supported: can,
        atomics: false,
        nvml: nvml_answers(nvml),
        enabling,
        predicted: (Expected::Unknown, "nothing is known".to_owned()),
    }
}

fn refused() -> EnableResult {
    EnableResult::Refused(
        "cuCtxEnablePeerAccess returned 217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED".into(),
    )
}

#[track_caller]
fn finds(answers: Answers, code: Code, word: &str) {
    let judgement = judge(2, &[answers], None);
    assert_eq!(judgement.outcome(), Outcome::Fail);
    assert!(judgement.findings[0].is(code), "{judgement:?}");
    assert!(judgement.summary.contains(word), "{}", judgement.summary);
}

#[test]
fn three_sources_that_agree_on_yes_pass() {
    let judgement = judge(2, &[answers(true, Status::Ok, EnableResult::Works)], None);
    assert_eq!(judgement.outcome(), Outcome::Pass);
    assert_eq!(
        judgement.matrices[0].values,
        [[Some(1.0), Some(1.0)], [Some(0.0), Some(1.0)]]
    );
}

#[test]
fn disagreement_about_atomics_is_reported_and_passes() {
    let mut one = answers(true, Status::Ok, EnableResult::Works);
    let judgement = judge(2, &[one.clone()], None);
    assert_eq!(
        (judgement.outcome(), judgement.findings.len()),
        (Outcome::Pass, 1)
    );
    one.atomics = true;
    assert_eq!(judge(2, &[one], None).findings, []);
}

#[test]
fn three_sources_that_agree_on_no_give_the_drivers_reason() {
    finds(
        answers(false, Status::Chipset, refused()),
        Code::P2pUnsupported,
        "CNS",
    );
    let judgement = judge(2, &[answers(false, Status::Chipset, refused())], None);
    assert_eq!(
        judgement.findings[0].reason,
        Some(Reason::Status(Refusal::StockDriver))
    );
}

#[test]
fn the_source_that_disagrees_is_named() {
    finds(
        answers(true, Status::Chipset, EnableResult::Works),
        Code::P2pWitnesses,
        "NCCL obeys NVML",
    );
    finds(
        answers(false, Status::Ok, refused()),
        Code::P2pWitnesses,
        "CUDA reports that it does not",
    );
    finds(
        answers(true, Status::Chipset, refused()),
        Code::P2pWitnesses,
        "enabling it fails",
    );
    finds(
        answers(false, Status::Chipset, EnableResult::Works),
        Code::P2pWitnesses,
        "can be enabled",
    );
    let mut itself = answers(true, Status::Ok, EnableResult::Works);
    itself.supported = false;
    finds(
        itself,
        Code::P2pWitnesses,
        "cuDeviceGetP2PAttribute reports no",
    );
}

#[test]
fn promised_access_that_is_refused_fails_with_the_drivers_error() {
    finds(
        answers(true, Status::Ok, refused()),
        Code::P2pRefused,
        "217",
    );
}

#[test]
fn a_source_that_does_not_answer_is_an_error() {
    let mut silent = answers(true, Status::Ok, EnableResult::Works);
    silent.nvml.write = Err("the GPU is lost".into());
    let judgement = judge(2, &[silent], None);
    assert_eq!(judgement.outcome(), Outcome::Error);
    assert!(judgement.summary.contains("the GPU is lost"));
}

/// All pairs of `gpus`; those for which `apart` holds have no access, and all sources agree.
fn pairs(gpus: usize, apart: impl Fn(usize, usize) -> bool) -> Vec<Answers> {
    let one = |pair: Pair| match apart(pair.from.index(), pair.to.index()) {
        true => Answers {
            pair,
            ..answers(false, Status::Topology, refused())
        },
        false => Answers {
            pair,
            ..answers(true, Status::Ok, EnableResult::Works)
        },
    };
    Pair::all(gpus)
        .filter(|pair| pair.from != pair.to)
        .map(one)
        .collect()
}

/// The codes of findings that are not harmless.
fn bad(judgement: &Judgement) -> Vec<&str> {
    let bad = judgement
        .findings
        .iter()
        .filter(|f| f.severity > Severity::Info);
    bad.map(|f| f.code.as_str()).collect()
}

#[test]
fn bridged_pairs_are_degraded_with_their_groups_and_pass_where_expected() {
    let bridged = pairs(4, |a, b| a / 2 != b / 2);
    let judgement = judge(4, &bridged, None);
    assert_eq!(
        (judgement.outcome(), bad(&judgement)),
        (Outcome::Warn, vec!["PEERS-GROUPED"])
    );
    assert!(
        judgement.summary.contains("[0,1] [2,3]; 8 of 12"),
        "{}",
        judgement.summary
    );
    let meant = judge(
        4,
        &bridged,
        Some(&[GpuId::list([0, 1]), GpuId::list([2, 3])]),
    );
    assert_eq!(meant.outcome(), Outcome::Pass);
    assert!(
        meant
            .summary
            .starts_with("4 of 12 ordered pairs, as expect.peers"),
        "{}",
        meant.summary
    );
}

#[test]
fn expected_access_that_is_missing_fails() {
    let bridged = pairs(4, |a, b| a / 2 != b / 2);
    for groups in [
        &[GpuId::list([0, 1, 2, 3])][..],
        &[GpuId::list([0, 2]), GpuId::list([1, 3])],
    ] {
        let judgement = judge(4, &bridged, Some(groups));
        assert!(judgement.outcome() == Outcome::Fail, "{groups:?}");
        assert!(
            judgement
                .findings
                .iter()
                .any(|f| f.is(Code::P2pUnsupported))
        );
    }
}

#[test]
fn access_missing_without_a_pattern_or_everywhere_fails() {
    for answers in [
        pairs(2, |_, _| true),
        pairs(4, |_, _| true),
        pairs(4, |a, b| (a, b) == (0, 3)),
        pairs(4, |a, b| a.min(b) == 0 && a.max(b) == 3),
    ] {
        let gpus = if answers.len() == 2 { 2 } else { 4 };
        let judgement = judge(gpus, &answers, None);
        assert_eq!(judgement.outcome(), Outcome::Fail);
        assert!(
            bad(&judgement)
                .iter()
                .all(|code| *code == "P2P-UNSUPPORTED"),
            "{judgement:?}"
        );
    }
}

#[test]
fn a_wrong_answer_between_groups_stays_a_failure() {
    let mut bridged = pairs(4, |a, b| a / 2 != b / 2);
    bridged[1].nvml = nvml_answers(Status::Ok);
    for expected in [None, Some(&[GpuId::list([0, 1]), GpuId::list([2, 3])][..])] {
        assert_eq!(judge(4, &bridged, expected).outcome(), Outcome::Fail);
    }
}

fn mixed() -> Prediction {
    let why = "the boards are of two generations (Ada AD102 and Ampere GA102)".to_owned();
    (Expected::NotApplicable, why)
}

#[test]
fn boards_of_two_generations_are_not_applicable_unless_access_is_asked_for() {
    let mut one = answers(false, Status::NotSupported, refused());
    one.predicted = mixed();
    let judgement = judge(2, &[one.clone()], None);
    assert_eq!(judgement.outcome(), Outcome::NotApplicable);
    assert!(
        judgement.summary.contains("Ada AD102 and Ampere GA102"),
        "{}",
        judgement.summary
    );
    assert!(
        judgement.findings[0].is(Code::P2pMixed)
            && judgement.findings[0].severity == Severity::Info
    );
    assert_eq!(
        judge(
            2,
            &[one.clone()],
            Some(&[GpuId::list([0]), GpuId::list([1])])
        )
        .outcome(),
        Outcome::Pass
    );
    assert_eq!(
        judge(2, &[one.clone()], Some(&[GpuId::list([0, 1])])).outcome(),
        Outcome::Fail
    );
    // Other pairs are judged as usual.
    let other = Answers {
        atomics: true,
        ..answers(true, Status::Ok, EnableResult::Works)
    };
    let judgement = judge(
        2,
        &[
            one,
            Answers {
                pair: Pair::of(1, 0),
                ..other
            },
        ],
        None,
    );
    assert_eq!(
        (judgement.outcome(), judgement.findings.len()),
        (Outcome::Pass, 1)
    );
}

#[test]
fn the_prediction_is_in_the_table_and_its_contradiction_is_evidence() {
    let mut one = answers(false, Status::Chipset, refused());
    one.predicted = (Expected::Access, "through BAR1".to_owned());
    let judgement = judge(2, &[one], None);
    let evidence = &judgement.findings[0].evidence;
    assert!(
        evidence
            .iter()
            .any(|line| line.contains("contradicts the prediction: access (through BAR1)"))
    );
    assert_eq!(judgement.tables[0].json()["rows"][0][1], "access");
    let mut one = answers(true, Status::Ok, EnableResult::Works);
    one.predicted = (Expected::Claimed, "only mailboxes are left".to_owned());
    let judgement = judge(2, &[one], None);
    assert_eq!(
        (judgement.outcome(), judgement.findings.len()),
        (Outcome::Pass, 1)
    );
    let finding = &judgement.findings[0];
    assert!(finding.is(Code::P2pUnpredicted));
    assert_eq!(
        finding.reason,
        Some(Reason::Predicted(
            Refusal::Other,
            "only mailboxes are left".into()
        ))
    );
    let mut one = answers(true, Status::Ok, EnableResult::Works);
    (one.atomics, one.predicted) = (true, (Expected::Access, "through BAR1".to_owned()));
    assert_eq!(judge(2, &[one], None).findings, []);
}

#[test]
fn a_predicted_refusal_gives_the_cause() {
    let mut one = answers(false, Status::Chipset, refused());
    one.predicted = (
        Expected::Refused(&[Status::Chipset]),
        "ForceP2P is not set".to_owned(),
    );
    let judgement = judge(2, &[one], None);
    let reason = Reason::Predicted(Refusal::Other, "ForceP2P is not set".into());
    assert_eq!(judgement.findings[0].reason, Some(reason));
    assert_eq!(
        judgement.tables[0].json()["rows"][0][3],
        "CNS (chipset not supported)"
    );
}
