//! A transfer that went wrong, and its finding. Pure.

use super::cell::{Cell, Engine, Way};
use crate::gpu::pattern::{Counts, Wrong, word};
use crate::machine::GpuId;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;

/// What is wrong after a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum What {
    /// The data that arrived.
    Data(Wrong),
    /// Memory beside the target.
    Beside,
    /// The source itself.
    Source,
    /// Memory of that GPU that the transfer does not use; `sure` if the transfer's data is there.
    Stray { gpu: GpuId, sure: bool },
    /// A check did not read all words, or GPU and host see different data.
    Checker(&'static str),
}

/// A transfer that went wrong, with its traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::suite) struct Fault {
    pub(in crate::suite) cell: Cell,
    pub(in crate::suite) what: What,
    pub(in crate::suite) traces: Traces,
    /// How many times it went wrong, of how many.
    pub(in crate::suite) times: Option<(u32, u32)>,
    /// Whether other pairs moved data at the same time.
    pub(in crate::suite) amid: bool,
}

/// What was counted and found in the memory that is wrong.
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

/// The cause and the remedy of data that is all ones.
const UNANSWERED: (&str, &str) = (
    "no device answered the reads: the peer's BAR1 is not decoded where the driver expects the memory, or a GPU fell off the bus",
    "see the tests gpus, bar1 and xid for a GPU that no longer answers or a BAR1 that is too small; reboot the machine, and check risers and power cables if it happens again",
);

/// Adds this cause and this remedy to a finding.
pub(in crate::suite) fn unanswered(finding: Finding) -> Finding {
    let (cause, remedy) = UNANSWERED;
    finding.because(cause).remedy(remedy)
}

/// Words of a sample.
pub(in crate::suite) const SAMPLE: usize = 8;

impl Fault {
    pub(in crate::suite) const fn code(&self) -> Code {
        match self.what {
            What::Data(Wrong::OtherGpu(_)) | What::Beside | What::Source | What::Stray { .. } => {
                Code::P2pStray
            }
            What::Data(_) => Code::P2pWrongData,
            What::Checker(_) => Code::P2pChecker,
        }
    }

    pub(in crate::suite) fn message(&self) -> String {
        let amid = if self.amid { ", while other pairs move data too" } else { "" };
        format!("{}{amid}", self.words())
    }

    fn words(&self) -> String {
        let cell = &self.cell;
        match self.what {
            What::Data(wrong) => format!("{cell} {wrong}"),
            What::Beside => format!("{cell} changes memory beside its target"),
            What::Source => format!("{cell} changes its source"),
            What::Stray { gpu, sure: true } => {
                format!("{cell} changes memory of GPU {gpu} that is not its target")
            }
            What::Stray { gpu, .. } => {
                format!("{}s change memory of GPU {gpu} that is not their target", cell.kind.way.name())
            }
            What::Checker(why) => format!("{cell}: {why}"),
        }
    }

    /// The finding of this pair; `more` are others of the same kind, as evidence.
    pub(in crate::suite) fn finding(&self, more: &[&Self]) -> Finding {
        let severity = if matches!(self.what, What::Checker(_)) { Severity::Error } else { Severity::Fail };
        let finding = self.code().finding(severity, "", self.message());
        let finding = finding.values(self.traces.counts.wrong, 0, Some("words"));
        let lines = std::iter::once(self).chain(more.iter().copied()).map(Self::evidence).collect();
        let finding = finding.seen_all(lines);
        if matches!(self.what, What::Data(Wrong::Ones)) {
            return unanswered(finding);
        }
        match self.cause() {
            Some(cause) => finding.because(cause),
            None => finding,
        }
    }

    /// A more specific cause than the table's.
    fn cause(&self) -> Option<&'static str> {
        let What::Data(wrong) = self.what else { return None };
        if self.cell.kind.engine == Engine::Staged {
            return Some(
                "not even copies through host memory arrive: a GPU, its link or the host's memory is broken",
            );
        }
        Some(match (wrong, self.cell.kind.way) {
            (Wrong::Zeros, Way::Read) => {
                "reads of the peer get no data: its BAR1 does not map the memory, or ACS or an IOMMU stops them"
            }
            (Wrong::Stale | Wrong::Zeros, Way::Write) => {
                "writes to the peer are dropped or misdirected: its BAR1 does not map the memory, or ACS or an IOMMU stops them"
            }
            (Wrong::Mirror, _) => {
                "the writer's path to the peer leads back to itself, or its cache keeps the data back"
            }
            (Wrong::Late, _) => {
                "the path delays writes, or a cache is not flushed, when work is reported as complete"
            }
            (Wrong::Offset(_) | Wrong::From(_), _) => {
                "the driver and the GPU disagree on where the peer's memory begins in BAR1: a driver patch that does not fit"
            }
            (Wrong::Partial { .. } | Wrong::Holes, _) => {
                "part of the memory is not mapped for the peer: BAR1 is smaller than the memory, or packets are lost"
            }
            (Wrong::OldRound, _) => "a cache between the GPUs returns its previous content",
            (Wrong::Flip, _) => {
                "bits are flipped on the way or in a GPU's memory: link, riser, or memory without ECC"
            }
            _ => return None,
        })
    }

    /// `GPU 0 -> 1: copy engine write of 4 KiB: 1024 of 1024 words wrong (..); first ..; 5 of 5 times`
    fn evidence(&self) -> String {
        let Self { cell, traces, .. } = self;
        let counts = &traces.counts;
        let place = counts.first.unwrap_or_default();
        let pattern = || (traces.first + place..).take(traces.found.len()).map(|i| word(traces.seed, i));
        let expected = traces.expected.clone().unwrap_or_else(|| pattern().collect());
        let times = self.times.map_or(String::new(), |(bad, all)| format!("; {bad} of {all} times"));
        format!(
            "{}: {}; {} of {} words wrong ({} zero, {}{} unchanged), first at byte {} ({:#x}): found {}, expected {}{times}",
            cell.pair,
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

/// The number of words that are all ones; empty if there are none.
pub(in crate::suite) fn ones(words: u64) -> String {
    if words == 0 { String::new() } else { format!("{words} all ones, ") }
}

fn hex(words: impl Iterator<Item = u32>) -> String {
    words.take(SAMPLE).map(|w| format!("{w:08x}")).collect::<Vec<_>>().join(" ")
}

/// A pair's faults as findings: one for each code and direction, worded by the first of them.
pub(in crate::suite) fn findings(pair: Pair, faults: &[Fault]) -> Vec<(Pair, Finding)> {
    let mut groups: Vec<Vec<&Fault>> = Vec::new();
    for fault in faults {
        let alike = |g: &&mut Vec<&Fault>| {
            g.first().is_some_and(|f| f.code() == fault.code() && f.cell.kind.way == fault.cell.kind.way)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(fault),
            None => groups.push(vec![fault]),
        }
    }
    let one = |group: Vec<&Fault>| group.split_first().map(|(first, more)| (pair, first.finding(more)));
    groups.into_iter().filter_map(one).collect()
}
