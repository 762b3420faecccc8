//! The GPUs and the ordered pairs of GPUs that a finding is about.

use crate::Report;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{FindingEntry, Subject};
use outcome::platform::Pair;
use std::collections::BTreeSet;

/// The GPUs of a subject, by number; `None` is all of them, or the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectGpus(Option<BTreeSet<GpuId>>);

impl SubjectGpus {
    /// The GPUs that it names by number, at its address, or below the port there; anything else is about all GPUs.
    pub(super) fn of(subject: &Subject, report: &Report) -> Self {
        let mut gpus = subject.numbers();
        gpus.extend(
            subject
                .address()
                .into_iter()
                .flat_map(|at| gpus_below(at, report)),
        );
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

/// The GPUs at an address, or below the port there. An address without a function is that of its function 0.
fn gpus_below(at: Bdf, report: &Report) -> Vec<GpuId> {
    let parent = |bdf: Bdf| {
        report
            .fabric
            .as_ref()?
            .devices
            .iter()
            .find(|d| d.bdf == bdf)?
            .parent
    };
    // No real chain of bridges is longer, and a damaged report may contain a loop.
    let above = |gpu: Bdf| std::iter::successors(Some(gpu), |bdf| parent(*bdf)).take(32);
    let gpus = GpuId::each(&report.gpus);
    gpus.filter(|(_, gpu)| above(gpu.bdf).any(|bdf| bdf == at))
        .map(|(number, _)| number)
        .collect()
}

/// The ordered pairs of GPUs that a finding is about, by their numbers. If only GPUs are named, all pairs of these GPUs;
/// empty if it names none.
#[must_use]
pub fn pairs_of(finding: &FindingEntry, report: &Report) -> BTreeSet<Pair> {
    let subjects = std::iter::once(finding.about()).chain(&finding.represents);
    let named: BTreeSet<_> = subjects
        .flat_map(|subject| subject.named_pairs().to_vec())
        .collect();
    if !named.is_empty() {
        return named;
    }
    let all = report.gpus.len();
    let pairs = |gpu: GpuId| {
        let others = GpuId::all(all).filter(move |other| *other != gpu);
        others
            .map(move |other| Pair::new(gpu, other))
            .flat_map(|pair| [pair, pair.back()])
    };
    gpus_of(finding.about(), report)
        .into_iter()
        .flat_map(pairs)
        .collect()
}

/// The GPUs that a subject names, by number; empty if it is about all of them, or about none.
#[must_use]
pub fn gpus_of(subject: &Subject, report: &Report) -> BTreeSet<GpuId> {
    SubjectGpus::of(subject, report).0.unwrap_or_default()
}
