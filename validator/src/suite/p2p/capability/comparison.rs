//! Compares what was predicted for each pair with what was found. Pure.

use super::predict::Expected;
use super::{Answers, EnableResult};
use crate::schedule::Pair;
use gpu::Status;
use outcome::finding::{Code, Finding, Reason, Refusal, Severity, Subject};
use outcome::table::{ExpectedRow, Table, YesNo};

/// A table with one row for all pairs with the same prediction and the same answers.
pub(super) fn predictions(all: &[Answers]) -> Table {
    let mut groups: Vec<(ExpectedRow, Vec<Pair>)> = Vec::new();
    for answers in all {
        let (expected, why) = &answers.predicted;
        let nvml = match nvml(answers) {
            Ok(Ok(())) => Status::Ok.to_string(),
            Ok(Err(status)) => status.to_string(),
            Err(why) => why.to_owned(),
        };
        let (expected, cuda) = (expected.to_string(), YesNo(answers.can));
        let row = ExpectedRow {
            pairs: String::new(),
            expected,
            cuda,
            nvml,
            because: why.clone(),
        };
        match groups.iter_mut().find(|(other, _)| *other == row) {
            Some((_, pairs)) => pairs.push(answers.pair),
            None => groups.push((row, vec![answers.pair])),
        }
    }
    let named = |(row, pairs)| ExpectedRow {
        pairs: Subject::pairs(pairs).to_string(),
        ..row
    };
    Table::Expected(groups.into_iter().map(named).collect())
}

/// The prediction compared with CUDA's answer.
pub(super) fn compare_with_prediction(answers: &Answers) -> String {
    let (expected, why) = &answers.predicted;
    let how = match (expected, answers.can) {
        (Expected::Unknown, _) => "nothing was predicted",
        (Expected::Access | Expected::Claimed, true) => "CUDA agrees with the prediction",
        (Expected::Refused(..) | Expected::NotApplicable, false) => {
            "CUDA agrees with the prediction"
        }
        _ => "CUDA contradicts the prediction",
    };
    format!("{}: {how}: {expected} ({why})", answers.pair)
}

/// The finding that CUDA and NVML report peer access that this driver is not known to give.
pub(super) fn unpredicted_access(answers: &Answers) -> Option<Finding> {
    let (expected, why) = &answers.predicted;
    if matches!(expected, Expected::Access | Expected::Unknown) {
        return None;
    }
    let message = "CUDA and NVML report peer access, which this driver is not known to give; the test \
        p2p-integrity decides whether data arrives";
    let reason = Reason::Predicted(Refusal::Other, why.as_str().into());
    let finding = Code::P2pUnpredicted
        .finding(Severity::Info, Subject::Machine, message)
        .because(reason);
    Some(
        finding
            .seen(evidence(answers))
            .seen(compare_with_prediction(answers)),
    )
}

/// NVML's answer about peer access: NCCL requires both reading and writing.
pub(super) fn nvml(answers: &Answers) -> Result<Result<(), Status>, &str> {
    let (read, write) = (answers.nvml.read.as_ref(), answers.nvml.write.as_ref());
    let (read, write) = (
        read.map_err(String::as_str)?,
        write.map_err(String::as_str)?,
    );
    Ok([read, write]
        .into_iter()
        .find(|s| **s != Status::Ok)
        .map_or(Ok(()), |s| Err(*s)))
}

/// The answers of the three sources.
pub(super) fn evidence(answers: &Answers) -> String {
    let answer = |status: &Result<Status, String>| match status {
        Ok(status) => status.to_string(),
        Err(why) => why.clone(),
    };
    let nvml = &answers.nvml;
    format!(
        "{}: cuDeviceCanAccessPeer {}, attribute {}, atomics {}, NVML read {}, write {}, atomics {}, prop {}, enabling {}",
        answers.pair,
        u8::from(answers.can),
        u8::from(answers.supported),
        u8::from(answers.atomics),
        answer(&nvml.read),
        answer(&nvml.write),
        answer(&nvml.atomics),
        answer(&nvml.prop),
        match &answers.enabling {
            EnableResult::Works => "works",
            EnableResult::Refused(why) => why,
        }
    )
}

pub(super) const fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
