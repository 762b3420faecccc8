//! What NCCL's own log lines prove about an arm's transport. A transport other than the arm's is a failure,
//! and lines that do not name a transport prove nothing.

use super::arms::ArmKind;
use super::diagnostics::{self, Diagnostics};
use super::dumps::{self, DumpCheck};
use crate::nccl::log::{ExpectedTransport, NcclLog, Pairs, Proof, Transport};
use crate::nccl::ranks::Ranks;
use machine::Rank;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{Table, TransportRow};

/// What an arm's log lines and dumps prove.
pub(super) struct TransportProof {
    /// `P2P/direct pointer between 12 of 12 ordered pairs, 24 channels`
    pub(super) summary: String,
    pub(super) findings: Vec<Finding>,
    /// The transport of each ordered pair, and the graphs that NCCL searched for.
    pub(super) tables: Vec<Table>,
}

/// Judges an arm's log lines; within each of `groups`, all ranks reach each other.
pub(super) fn of(
    which: ArmKind,
    ranks: &Ranks,
    pairs: Pairs,
    groups: &[Vec<Rank>],
) -> TransportProof {
    let nccl_log = NcclLog::read(&ranks.output());
    let together = |a, b| {
        groups
            .iter()
            .any(|group| group.contains(&a) && group.contains(&b))
    };
    let mut proof = judge(
        which,
        &nccl_log,
        (ranks.ranks(), &together),
        ranks.environment(),
        pairs,
    );
    let Diagnostics { summary, finding } = diagnostics::of(which, &nccl_log, ranks.gpus());
    proof.summary += &summary;
    proof.findings.extend(finding);
    let DumpCheck { table, finding } = dumps::of(which, ranks);
    proof.tables.push(table);
    proof.findings.extend(finding);
    proof
}

/// The number of ranks, and which of them reach each other.
type ReachableRanks<'a> = (usize, &'a dyn Fn(Rank, Rank) -> bool);

fn judge(
    which: ArmKind,
    nccl_log: &NcclLog,
    (ranks, together): ReachableRanks<'_>,
    ours: &[(String, String)],
    pairs: Pairs,
) -> TransportProof {
    let expected = if which == ArmKind::Off {
        ExpectedTransport::NoP2p
    } else {
        ExpectedTransport::P2p
    };
    let subject = Subject::operation(which);
    let (summary, mut findings) = match nccl_log.proves_within(ranks, expected, pairs, together) {
        Proof::Proven(summary) => (summary, Vec::new()),
        Proof::Disproven(lines) => {
            let first = lines.first().map_or("", String::as_str);
            let message = format!("NCCL {which}: its log names another transport: {first}");
            (
                message.clone(),
                vec![
                    Code::NcclTransport
                        .finding(Severity::Fail, subject, message)
                        .seen_all(lines),
                ],
            )
        }
        Proof::Unproven(why) => {
            let message = format!("NCCL {which}: its log proves no transport: {why}");
            let finding = Code::NcclUnproven.finding(Severity::Error, subject, message.as_str());
            (message, vec![finding.seen_all(nccl_log.warnings.clone())])
        }
    };
    let foreign = nccl_log.foreign_settings(ours);
    let foreign: Vec<_> = foreign
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if !foreign.is_empty() {
        let message = format!(
            "NCCL {which}: set by the environment or a file: {}",
            foreign.join(", ")
        );
        findings.push(Code::NcclSettings.finding(Severity::Warn, Subject::Machine, message));
    }
    TransportProof {
        summary,
        findings,
        tables: vec![transport_table(which, nccl_log)],
    }
}

fn transport_table(which: ArmKind, nccl_log: &NcclLog) -> Table {
    let row = |(from, to, via): (Rank, Rank, Vec<Transport>)| {
        let via: Vec<_> = via.iter().map(ToString::to_string).collect();
        TransportRow {
            from,
            to,
            via: via.join(", "),
        }
    };
    Table::Transports(
        which.arm(),
        nccl_log.transports().into_iter().map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two GPUs on one channel, connected by `via`.
    fn seen(which: ArmKind, via: &str, more: &str) -> TransportProof {
        let log = format!(
            "h:1:1 [0] NCCL INFO Channel 00/01 : 0 1\n\
             h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {via}\n\
             h:1:1 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via {via}\n{more}"
        );
        let ours = [("NCCL_P2P_LEVEL".to_owned(), "SYS".to_owned())];
        judge(
            which,
            &NcclLog::read(&log),
            (2, &|_, _| true),
            &ours,
            Pairs::All,
        )
    }

    #[test]
    fn peer_to_peer_is_proven_by_its_name_in_the_log() {
        let seen = seen(ArmKind::Strict, "P2P/CUMEM", "");
        assert!(
            seen.findings.is_empty() && seen.summary.starts_with("P2P/CUMEM between 2 of 2"),
            "{}",
            seen.summary
        );
        assert_eq!(
            seen.tables[0].json()["rows"][0],
            serde_json::json!([0, 1, "P2P/CUMEM"])
        );
    }

    #[test]
    fn shared_memory_instead_of_peer_to_peer_fails_and_the_reverse_too() {
        for (which, via) in [
            (ArmKind::P2p, "SHM/direct/direct"),
            (ArmKind::Off, "P2P/direct pointer"),
        ] {
            let seen = seen(which, via, "");
            assert!(
                seen.findings[0].is(Code::NcclTransport)
                    && seen.findings[0].severity == Severity::Fail
            );
        }
        assert!(
            seen(ArmKind::Off, "SHM/direct/direct", "")
                .findings
                .is_empty()
        );
    }

    #[test]
    fn silence_proves_nothing() {
        let seen = judge(
            ArmKind::P2p,
            &NcclLog::read(""),
            (2, &|_, _| true),
            &[],
            Pairs::All,
        );
        assert!(
            seen.findings[0].is(Code::NcclUnproven) && seen.findings[0].severity == Severity::Error
        );
    }

    #[test]
    fn foreign_settings_are_reported() {
        let more = "h:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n\
                    h:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n";
        let seen = seen(ArmKind::P2p, "P2P/direct pointer", more);
        assert!(
            seen.findings[0].is(Code::NcclSettings),
            "{:?}",
            seen.findings
        );
        assert!(
            seen.findings[0].message.ends_with("NCCL_ALGO=Ring"),
            "{}",
            seen.findings[0].message
        );
    }
}
