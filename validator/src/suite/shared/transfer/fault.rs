//! A transfer that went wrong, and its finding. Pure.

use super::definition::{Direction, Engine, Transfer};
use crate::schedule::Pair;
use gpu::pattern::{Counts, DataFault, word};
use machine::GpuId;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};

/// What is wrong after a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum FaultKind {
    /// The data that arrived.
    Data(DataFault),
    /// Memory beside the target.
    Beside,
    /// The source itself.
    Source,
    /// Memory of that GPU that the transfer does not use; `sure` if the transfer's data is there.
    Stray { gpu: GpuId, sure: bool },
    /// A check did not read all words, or GPU and host see different data.
    Checker(&'static str),
}

/// A transfer that went wrong, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::suite) struct Fault {
    pub(in crate::suite) transfer: Transfer,
    pub(in crate::suite) what: FaultKind,
    pub(in crate::suite) traces: Traces,
    /// How many times it went wrong, of how many.
    pub(in crate::suite) times: Option<(u32, u32)>,
    pub(in crate::suite) circumstance: Circumstance,
}

/// What else is special about a transfer that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum Circumstance {
    /// Nothing.
    Alone,
    /// Other pairs moved data at the same time.
    OtherPairsActive,
    /// It carried zeros, ones and repeated values; the same transfer of random words arrived.
    SimpleValues,
}

/// The counts of a check, and a sample of the wrong memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::suite) struct Traces {
    pub(in crate::suite) counts: Counts,
    /// Address of the first word that was checked.
    pub(in crate::suite) address: u64,
    /// Number of that word in the pattern, and its seed.
    pub(in crate::suite) first: u64,
    pub(in crate::suite) seed: u64,
    /// Words from the first wrong one on.
    pub(in crate::suite) found: Vec<u32>,
    /// The expected words, where they do not follow the pattern from that word on.
    pub(in crate::suite) expected: Option<Vec<u32>>,
}

/// The finding about data that is all ones.
pub(in crate::suite) fn unanswered(finding: Finding) -> Finding {
    finding.because(Reason::Unanswered)
}

/// The most words that a fault's sample has.
pub(in crate::suite) const SAMPLE: usize = 8;

impl Fault {
    pub(in crate::suite) const fn code(&self) -> Code {
        match self.what {
            FaultKind::Data(DataFault::OtherGpu(_))
            | FaultKind::Beside
            | FaultKind::Source
            | FaultKind::Stray { .. } => Code::P2pStray,
            FaultKind::Data(_) => Code::P2pWrongData,
            FaultKind::Checker(_) => Code::P2pChecker,
        }
    }

    pub(in crate::suite) fn message(&self) -> String {
        let circumstance = match self.circumstance {
            Circumstance::Alone => "",
            Circumstance::OtherPairsActive => ", while other pairs move data too",
            Circumstance::SimpleValues => ", with zeros, ones and repeated values alone",
        };
        format!("{}{circumstance}", self.words())
    }

    fn words(&self) -> String {
        let transfer = &self.transfer;
        match self.what {
            FaultKind::Data(wrong) => format!("{transfer} {wrong}"),
            FaultKind::Beside => format!("{transfer} changes memory beside its target"),
            FaultKind::Source => format!("{transfer} changes its source"),
            FaultKind::Stray { gpu, sure: true } => {
                format!("{transfer} changes memory of GPU {gpu} that is not its target")
            }
            FaultKind::Stray { gpu, .. } => {
                format!(
                    "{}s change memory of GPU {gpu} that is not their target",
                    transfer.kind.direction.name()
                )
            }
            FaultKind::Checker(why) => format!("{transfer}: {why}"),
        }
    }

    /// The finding of this pair; `more` are others of the same kind, as evidence.
    pub(in crate::suite) fn finding(&self, more: &[&Self]) -> Finding {
        let severity = if matches!(self.what, FaultKind::Checker(_)) {
            Severity::Error
        } else {
            Severity::Fail
        };
        let finding = self
            .code()
            .finding(severity, Subject::Machine, self.message());
        let finding = finding.values(self.traces.counts.wrong, 0, Some("words"));
        let lines = std::iter::once(self)
            .chain(more.iter().copied())
            .map(Self::evidence)
            .collect();
        let finding = finding.seen_all(lines);
        if matches!(self.what, FaultKind::Data(DataFault::Ones)) {
            return unanswered(finding);
        }
        Finding {
            reason: self.reason(),
            ..finding
        }
    }

    /// Why, where more is known than the table says.
    fn reason(&self) -> Option<Reason> {
        let FaultKind::Data(wrong) = self.what else {
            return None;
        };
        if self.transfer.kind.engine == Engine::Staged {
            return Some(Reason::HostPathBroken);
        }
        Some(match (wrong, self.transfer.kind.direction) {
            (DataFault::Zeros, Direction::Read) => Reason::ReadsEmpty,
            (DataFault::Stale | DataFault::Zeros, Direction::Write) => Reason::WritesDropped,
            (DataFault::Mirror, _) => Reason::Mirrored,
            (DataFault::Late, _) => Reason::Late,
            (DataFault::Offset(_) | DataFault::From(_), _) => Reason::Shifted,
            (DataFault::Partial { .. } | DataFault::Holes, _) => Reason::Partial,
            (DataFault::OldRound, _) => Reason::OldContent,
            (DataFault::Flip, _) => Reason::BitsFlipped,
            _ => return None,
        })
    }

    /// `GPU 0 -> 1: copy engine write of 4 KiB: 1024 of 1024 words wrong (..); first ..; 5 of 5 times`
    fn evidence(&self) -> String {
        let Self {
            transfer, traces, ..
        } = self;
        let counts = &traces.counts;
        let place = counts.first.unwrap_or_default();
        let pattern = || {
            (traces.first + place..)
                .take(traces.found.len())
                .map(|i| word(traces.seed, i))
        };
        let expected = traces
            .expected
            .clone()
            .unwrap_or_else(|| pattern().collect());
        let times = self.times.map_or(String::new(), |(bad, all)| {
            format!("; {bad} of {all} times")
        });
        format!(
            "{}: {}; {} of {} words wrong ({} zero, {}{} unchanged), first at byte {} ({:#x}): found {}, expected {}{times}",
            transfer.pair,
            self.message(),
            counts.wrong,
            counts.looked,
            counts.zeros,
            ones(counts.ones),
            counts.sentinels,
            place * 4,
            traces.address.wrapping_add(place * 4),
            hex(traces.found.iter().copied()),
            hex(expected.into_iter()),
        )
    }
}

/// The number of words that are all ones, as part of a sentence; empty if there are none.
pub(in crate::suite) fn ones(words: u64) -> String {
    if words == 0 {
        String::new()
    } else {
        format!("{words} all ones, ")
    }
}

fn hex(words: impl Iterator<Item = u32>) -> String {
    words
        .take(SAMPLE)
        .map(|w| format!("{w:08x}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A pair's faults as findings: one for each code and direction, worded by the first of them.
pub(in crate::suite) fn findings(pair: Pair, faults: &[Fault]) -> Vec<(Pair, Finding)> {
    let mut groups: Vec<Vec<&Fault>> = Vec::new();
    for fault in faults {
        let alike = |g: &&mut Vec<&Fault>| {
            g.first().is_some_and(|f| {
                f.code() == fault.code()
                    && f.transfer.kind.direction == fault.transfer.kind.direction
            })
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(fault),
            None => groups.push(vec![fault]),
        }
    }
    let one = |group: Vec<&Fault>| {
        group
            .split_first()
            .map(|(first, more)| (pair, first.finding(more)))
    };
    groups.into_iter().filter_map(one).collect()
}
