//! What a finding is about, from the text of its subject: which GPUs, and which ordered pairs of them.

use crate::machine::GpuId;
use crate::machine::pcie::model::Bdf;
use crate::outcome::finding::Finding;
use crate::report::Report;
use crate::schedule::Pair;
use std::collections::BTreeSet;

/// The GPUs of a subject, by number; `None` is all of them, or the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectGpus(Option<BTreeSet<GpuId>>);

impl SubjectGpus {
    /// `GPU 1`, `GPU 0 -> 1`, the address of a GPU or of a port above it; anything else is about all GPUs.
    pub(super) fn of(subject: &str, report: &Report) -> Self {
        // A list that was cut names only some of the pairs.
        if subject.contains(", ..") {
            return Self(None);
        }
        let pairs = parse_pairs(subject).into_iter().flat_map(|pair| [pair.from, pair.to]);
        let mut gpus: BTreeSet<_> = gpu_numbers(subject).into_iter().chain(pairs).collect();
        for word in subject.split([' ', ',']) {
            gpus.extend(gpus_below(word, report));
        }
        Self((!gpus.is_empty()).then_some(gpus))
    }

    /// Whether both are about a GPU in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => !one.is_disjoint(other),
            _ => true,
        }
    }
}

/// The GPUs at an address, with or without its function, or below the port there.
fn gpus_below(word: &str, report: &Report) -> Vec<GpuId> {
    let address = |text: &str| text.parse::<Bdf>().ok();
    let Some(at) = address(word).or_else(|| address(&format!("{word}.0"))) else { return Vec::new() };
    let parent = |bdf: Bdf| report.fabric.as_ref()?.devices.iter().find(|d| d.bdf == bdf)?.parent;
    // No real chain of bridges is longer, and a damaged report may contain a loop.
    let above = |gpu: Bdf| std::iter::successors(Some(gpu), |bdf| parent(*bdf)).take(32);
    let gpus = GpuId::each(&report.gpus);
    gpus.filter(|(_, gpu)| above(gpu.bdf).any(|bdf| bdf == at)).map(|(number, _)| number).collect()
}

/// The number that `text` starts with, and what follows it.
fn leading_number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text.get(..end)?.parse().ok()?, text.get(end..)?))
}

fn gpu_numbers(text: &str) -> Vec<GpuId> {
    text.split("GPU ").skip(1).filter_map(|rest| leading_number(rest).map(|(n, _)| GpuId::new(n))).collect()
}

fn parse_pairs(text: &str) -> Vec<Pair> {
    let pair = |rest: &str| {
        let (from, rest) = leading_number(rest)?;
        let (to, _) = leading_number(rest.strip_prefix(" -> ")?)?;
        Some(Pair::of(from, to))
    };
    text.split("GPU ").skip(1).filter_map(pair).collect()
}

/// The ordered pairs of GPUs that a finding is about, by their numbers; empty if it names none.
#[must_use]
pub fn pairs_of(finding: &Finding, report: &Report) -> BTreeSet<Pair> {
    SubjectPairs::of(finding, report).named
}

/// The GPUs that a subject names, by number; empty if it is about all of them, or about none.
#[must_use]
pub fn gpus_of(subject: &str, report: &Report) -> BTreeSet<GpuId> {
    SubjectGpus::of(subject, report).0.unwrap_or_default()
}

/// Ordered pairs of GPUs, and the minimum number of pairs if not all are named.
#[derive(Debug, Default)]
pub(super) struct SubjectPairs {
    named: BTreeSet<Pair>,
    at_least: usize,
}

impl SubjectPairs {
    /// The pairs that the subject names, and the further pairs that the finding represents, which its evidence names. If
    /// only GPUs are named, as in `GPU 1`, all pairs of these GPUs.
    pub(super) fn of(finding: &Finding, report: &Report) -> Self {
        // The second wording is that of reports before November 2026.
        let represents_more = [" more of this kind", " more like it"].iter().any(|end| finding.message.ends_with(end));
        let lines = finding.evidence.iter().filter(|line| represents_more && line.starts_with("GPU "));
        let first = |line: &String| line.split(':').next().map(parse_pairs).unwrap_or_default();
        let mut named: BTreeSet<_> = parse_pairs(&finding.subject).into_iter().chain(lines.flat_map(first)).collect();
        let gpus = report.gpus.len();
        if named.is_empty()
            && let SubjectGpus(Some(some)) = SubjectGpus::of(&finding.subject, report)
        {
            let others = |gpu: GpuId| GpuId::all(gpus).filter(move |other| *other != gpu);
            named.extend(
                some.iter().flat_map(|gpu| {
                    others(*gpu).map(|other| Pair::new(*gpu, other)).flat_map(|pair| [pair, pair.back()])
                }),
            );
        }
        let at_least = leading_number(&finding.subject).filter(|(_, rest)| rest.starts_with(" pairs ("));
        Self { named, at_least: at_least.map_or(0, |(n, _)| n) }
    }

    /// How many there are; `None` if none is named.
    pub(super) fn count(&self) -> Option<usize> {
        Some(self.named.len().max(self.at_least)).filter(|count| *count > 0)
    }
}

impl FromIterator<Self> for SubjectPairs {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        let join = |mut sum: Self, one: Self| {
            sum.named.extend(one.named);
            sum.at_least = sum.at_least.max(one.at_least);
            sum
        };
        all.into_iter().fold(Self::default(), join)
    }
}
