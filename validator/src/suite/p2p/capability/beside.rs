//! What was expected of each pair beside what was found. Pure.

use super::predict::Expected;
use super::{Enabling, Said};
use crate::gpu::Status;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::pair::subject;
use crate::suite::shared::speed::table;
use serde_json::Value;

/// One row for all pairs of which the same was expected and said.
pub(super) fn predictions(all: &[Said]) -> Value {
    let mut groups: Vec<([String; 4], Vec<Pair>)> = Vec::new();
    for said in all {
        let (expected, why) = &said.predicted;
        let nvml = match nvml(said) {
            Ok(Ok(())) => Status::Ok.to_string(),
            Ok(Err(status)) => status.to_string(),
            Err(why) => why.to_owned(),
        };
        let row = [expected.to_string(), word(said.can).to_owned(), nvml, why.clone()];
        match groups.iter_mut().find(|(other, _)| *other == row) {
            Some((_, pairs)) => pairs.push(said.pair),
            None => groups.push((row, vec![said.pair])),
        }
    }
    let columns = [("pairs", ""), ("expected", ""), ("CUDA", ""), ("NVML", ""), ("because", "")];
    let rows = groups
        .into_iter()
        .map(|(row, pairs)| std::iter::once(subject(&pairs)).chain(row).map(Value::String).collect());
    table("p2p.expected", &columns, &rows.collect::<Vec<_>>())
}

/// The prediction beside what was found.
pub(super) fn against(said: &Said) -> String {
    let (expected, why) = &said.predicted;
    let how = match (expected, said.can) {
        (Expected::Unknown, _) => "nothing was predicted",
        (Expected::Access | Expected::Claimed, true) => "CUDA says what was predicted",
        (Expected::Refused(_) | Expected::NotApplicable, false) => "CUDA says what was predicted",
        _ => "CUDA contradicts the prediction",
    };
    format!("{}: {how}: {expected} ({why})", said.pair)
}

/// All agree on an access that the driver cannot give.
pub(super) fn unpredicted(said: &Said) -> Option<Finding> {
    let (expected, why) = &said.predicted;
    if matches!(expected, Expected::Access | Expected::Unknown) {
        return None;
    }
    let message = "CUDA and NVML report peer access, which this driver is not known to give; the test \
        p2p-integrity decides whether data arrives";
    let finding = Code::P2pUnpredicted.finding(Severity::Info, "", message).because(why.as_str());
    Some(finding.seen(evidence(said)).seen(against(said)))
}

/// NVML's answer on using the peer at all: NCCL requires both reading and writing.
pub(super) fn nvml(said: &Said) -> Result<Result<(), Status>, &str> {
    let (read, write) = (said.nvml.read.as_ref(), said.nvml.write.as_ref());
    let (read, write) = (read.map_err(String::as_str)?, write.map_err(String::as_str)?);
    Ok([read, write].into_iter().find(|s| **s != Status::Ok).map_or(Ok(()), |s| Err(*s)))
}

/// What the three sources said.
pub(super) fn evidence(said: &Said) -> String {
    let answer = |status: &Result<Status, String>| match status {
        Ok(status) => status.to_string(),
        Err(why) => why.clone(),
    };
    let nvml = &said.nvml;
    format!(
        "{}: cuDeviceCanAccessPeer {}, attribute {}, atomics {}, NVML read {}, write {}, atomics {}, prop {}, enabling {}",
        said.pair,
        u8::from(said.can),
        u8::from(said.supported),
        u8::from(said.atomics),
        answer(&nvml.read),
        answer(&nvml.write),
        answer(&nvml.atomics),
        answer(&nvml.prop),
        match &said.enabling {
            Enabling::Works => "works",
            Enabling::Refused(why) => why,
        }
    )
}

pub(super) const fn word(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
