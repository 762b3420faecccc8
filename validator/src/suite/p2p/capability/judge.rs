//! Judges the answers of the three sources about peer access. Pure.

use super::comparison::{
    compare_with_prediction, evidence, nvml, predictions, unpredicted_access, yes_or_no,
};
use super::predict::Expected;
use super::{Answers, EnableResult};
use crate::schedule::Pair;
use crate::suite::shared::pair::{matrix, merge_pairs};
use crate::suite::shared::peer_groups;
use gpu::Status;
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Refusal, Severity, Subject, WrongWitness};
use outcome::metric::Metric;
use std::collections::BTreeSet;

/// Judges all pairs; `expected` are the groups within which access is configured, if any.
pub(super) fn judge(gpus: usize, all: &[Answers], expected: Option<&[Vec<GpuId>]>) -> Judgement {
    let found: Vec<(Pair, Finding)> = all
        .iter()
        .filter_map(|s| Some((s.pair, judge_pair(s)?)))
        .collect();
    let (found, grouped) = match expected {
        Some(groups) => (
            found
                .into_iter()
                .map(|f| apply_expected(f, groups))
                .collect(),
            None,
        ),
        None => group_findings(gpus, found),
    };
    let mixed = found
        .iter()
        .filter(|(_, f)| f.is(Code::P2pMixed) && f.severity == Severity::Info)
        .count();
    let atomics = all.iter().filter(|s| s.atomics).count();
    let findings: Vec<_> = grouped.into_iter().chain(merge_pairs(found)).collect();
    let summary = match findings.iter().max_by_key(|f| f.severity) {
        Some(worst) if worst.severity > Severity::Info => worst.message.to_string(),
        Some(_) if expected.is_some() => format!(
            "{} of {} ordered pairs, as expect.peers demands: CUDA, NVML and enabling agree; atomics on {atomics}",
            all.iter().filter(|s| s.can).count(),
            all.len()
        ),
        _ => format!(
            "{n} of {n} ordered pairs: CUDA, NVML and enabling agree; atomics on {atomics}",
            n = all.len() - mixed
        ),
    };
    let yes = |pair: Pair| {
        let can = pair.from == pair.to || all.iter().any(|s| s.pair == pair && s.can);
        Some(f64::from(u8::from(can)))
    };
    let none = !all.is_empty() && mixed == all.len() && expected.is_none();
    let judgement = match findings.first().filter(|_| none) {
        Some(first) => Judgement::not_applicable(first.message.to_string()).with(findings),
        None => Judgement::of(summary, findings),
    };
    judgement
        .showing(vec![matrix(Metric::ACCESS, gpus, yes)])
        .with_tables(vec![predictions(all)])
}

/// A missing access that the configuration does not ask for is harmless.
fn apply_expected((pair, finding): (Pair, Finding), groups: &[Vec<GpuId>]) -> (Pair, Finding) {
    let missing = finding.is(Code::P2pUnsupported) || finding.is(Code::P2pMixed);
    let severity = if peer_groups::in_same_group(groups, pair) {
        Severity::Fail
    } else {
        Severity::Info
    };
    (
        pair,
        if missing {
            Finding {
                severity,
                ..finding
            }
        } else {
            finding
        },
    )
}

/// If access is missing exactly between whole groups, one finding replaces many.
fn group_findings(
    gpus: usize,
    found: Vec<(Pair, Finding)>,
) -> (Vec<(Pair, Finding)>, Option<Finding>) {
    let (refused, others): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|(_, f)| f.is(Code::P2pUnsupported));
    let missing: BTreeSet<Pair> = refused.iter().map(|(pair, _)| *pair).collect();
    let groups = peer_groups::groups(gpus, |pair| !missing.contains(&pair));
    // GPUs none of which reaches another form no groups.
    let groups =
        groups.filter(|groups| !refused.is_empty() && groups.iter().any(|group| group.len() > 1));
    let Some(groups) = groups else {
        return ([refused, others].concat(), None);
    };
    let group_names = peer_groups::format_groups(&groups);
    let message = format!(
        "GPUs have peer access within groups only: {group_names}; {} of {} ordered pairs have none",
        refused.len(),
        gpus * gpus.saturating_sub(1)
    );
    let finding = Code::PeersGrouped.finding(Severity::Warn, Subject::Machine, message);
    let seen = refused
        .iter()
        .take(SEEN)
        .flat_map(|(_, finding)| finding.evidence.clone())
        .collect();
    (
        others,
        Some(
            finding
                .values(group_names, "one group", None)
                .seen_all(seen),
        ),
    )
}

/// The number of pairs whose evidence is kept.
const SEEN: usize = 4;

fn judge_pair(answers: &Answers) -> Option<Finding> {
    let nvml = match nvml(answers) {
        Ok(nvml) => nvml,
        Err(why) => {
            let message = format!("NVML does not report whether peer access works: {why}");
            return Some(Code::P2pWitnesses.finding(Severity::Error, Subject::Machine, message));
        }
    };
    let finding = match (answers.can, nvml, &answers.enabling) {
        _ if answers.can != answers.supported => {
            let (a, b) = (yes_or_no(answers.can), yes_or_no(answers.supported));
            contradiction(
                format!(
                    "cuDeviceCanAccessPeer reports {a} and cuDeviceGetP2PAttribute reports {b}"
                ),
                WrongWitness::CudaItself,
            )
        }
        (true, Ok(()), EnableResult::Works) => {
            return unpredicted_access(answers).or_else(|| atomics(answers));
        }
        (true, Ok(()), EnableResult::Refused(why)) => {
            let message = format!(
                "CUDA and NVML report that peer access works, but it cannot be enabled: {why}"
            );
            Code::P2pRefused.finding(Severity::Fail, Subject::Machine, message)
        }
        (true, Err(status), EnableResult::Works) => contradiction(
            format!(
                "CUDA enables peer access, but NVML reports {status}; NCCL obeys NVML and will not use it"
            ),
            WrongWitness::NvmlUnpatched,
        ),
        (true, Err(status), EnableResult::Refused(why)) => contradiction(
            format!(
                "CUDA reports that peer access works, NVML reports {status}, and enabling it fails: {why}"
            ),
            WrongWitness::Cuda,
        ),
        (false, Ok(()), EnableResult::Refused(_)) => contradiction(
            "NVML reports that peer access works, CUDA reports that it does not".to_owned(),
            WrongWitness::Nvml,
        ),
        (false, _, EnableResult::Works) => contradiction(
            "CUDA reports that peer access does not work, but it can be enabled".to_owned(),
            WrongWitness::Cuda,
        ),
        (false, Err(status), EnableResult::Refused(_))
            if answers.predicted.0 == Expected::NotApplicable =>
        {
            let why = &answers.predicted.1;
            let message = format!(
                "peer access is not applicable: {why}; CUDA reports no, NVML reports {status}"
            );
            let reason = Reason::Predicted(Refusal::Other, why.as_str().into());
            Code::P2pMixed
                .finding(Severity::Info, Subject::Machine, message)
                .because(reason)
        }
        (false, Err(status), EnableResult::Refused(_)) => {
            let message = format!("no peer access: CUDA reports no, NVML reports {status}");
            let finding = Code::P2pUnsupported.finding(Severity::Fail, Subject::Machine, message);
            match &answers.predicted {
                (expected @ Expected::Refused(_), why) => {
                    finding.because(Reason::Predicted(expected.refusal(), why.as_str().into()))
                }
                _ => Finding {
                    reason: status_reason(status),
                    ..finding
                },
            }
        }
    };
    let error = match &answers.enabling {
        EnableResult::Refused(why) => Some(why.as_str()),
        EnableResult::Works => None,
    };
    Some(
        finding
            .lacking(error)
            .seen(evidence(answers))
            .seen(compare_with_prediction(answers)),
    )
}

/// Atomics on the peer's memory: a disagreement is reported for information. The test p2p-order tries what
/// CUDA claims; NCCL uses none.
fn atomics(answers: &Answers) -> Option<Finding> {
    let nvml = answers.nvml.atomics.as_ref().ok()?;
    let answer = match (answers.atomics, nvml) {
        (true, Status::Ok) => return None,
        (true, status) => {
            format!("CUDA claims atomics on the peer's memory, but NVML reports {status}")
        }
        (false, Status::Ok) => {
            "NVML claims atomics on the peer's memory, but CUDA does not".to_owned()
        }
        (false, _) => return None,
    };
    Some(
        Code::P2pWitnesses
            .finding(Severity::Info, Subject::Machine, answer)
            .seen(evidence(answers)),
    )
}

fn contradiction(message: String, wrong: WrongWitness) -> Finding {
    Code::P2pWitnesses
        .finding(Severity::Fail, Subject::Machine, message)
        .because(Reason::Witness(wrong))
}

/// What NVML's status codes mean for peer access.
fn status_reason(status: Status) -> Option<Reason> {
    let refusal = match status {
        Status::Chipset => Refusal::StockDriver,
        Status::Gpu => Refusal::Models,
        Status::Topology => Refusal::TooFarApart,
        Status::Disabled => Refusal::RegistryKey,
        Status::NotSupported => Refusal::NoMechanism,
        Status::Unknown => Refusal::UnknownPair,
        Status::Ok => return None,
    };
    Some(Reason::Status(refusal))
}
