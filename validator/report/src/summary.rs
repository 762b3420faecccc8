//! The summary of a report, for a comparison of many. Pure, and small: long texts are cut.

use super::facts::{identity, iommu, iommu_words};
use super::figures::{Series, figures, is_larger_better};
use super::{Gpu, Report};
use crate::stats::median;
use outcome::Verdict;
use outcome::metric::Metric;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The speeds between all GPUs.
pub const PAIRS: &str = "p2p-bandwidth/sample.uni.on";
/// The speed of NCCL's all-reduce; only the largest size counts.
pub const NCCL: &str = "nccl-allreduce/nccl.all_reduce/out-of-place busbw";
/// The test of the speeds between two GPUs.
const BANDWIDTH: &str = "p2p-bandwidth";
/// The copies in one direction with peer access that the slowest pair is chosen by: written and read by copy engines.
const ONE_WAY: [Metric; 3] = [Metric::SAMPLE_UNI_ON, Metric::CE_WRITE, Metric::CE_READ];

/// The speed of the slowest pair of GPUs, GB/s: the lowest figure of one direction between two GPUs with peer access, written
/// or read by copy engines; `None` if none was measured.
pub(super) fn slowest_pair(report: &Report) -> Option<f64> {
    let all = figures(report);
    let of = |metric: &Metric| summarize("", all.get(&format!("{BANDWIDTH}/{}", metric.name()))?);
    ONE_WAY
        .iter()
        .filter_map(of)
        .map(|span| span.worst)
        .reduce(f64::min)
}

/// The longest text of a summary, in characters; longer ones are cut.
const MAX_TEXT: usize = 200;

/// The summary of a report.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The host name.
    pub host: String,
    /// When the run began.
    pub started: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Its answer.
    pub answer: String,
    /// The code of its first cause.
    pub first: Option<String>,
    /// Its GPUs, `8 x NVIDIA H200`: machines with the same GPUs are of one kind.
    pub gpus: String,
    /// True for a recorded machine.
    pub recorded: bool,
    /// Facts by short names.
    pub facts: BTreeMap<&'static str, String>,
    /// Figures by series.
    pub figures: BTreeMap<String, Span>,
    /// The identity that is the same in every boot of this machine; empty if that is unknown.
    #[serde(skip)]
    pub identity: String,
    /// Its IOMMU setting: the state, and the kernel words.
    pub setting: String,
}

/// The figures of one series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Span {
    /// Their unit.
    pub unit: String,
    /// The worst of them.
    pub worst: f64,
    /// Their median.
    pub median: f64,
    /// How far two runs of an unchanged machine may differ, as a fraction of the figure.
    #[serde(skip)]
    pub tolerance: f64,
}

/// Truncates a long text.
pub(super) fn truncate(text: &str) -> String {
    if text.chars().nth(MAX_TEXT).is_none() {
        return text.to_owned();
    }
    text.chars().take(MAX_TEXT).chain("..".chars()).collect()
}

impl Summary {
    /// Summarizes `report`.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let spans = figures(report)
            .into_iter()
            .filter_map(|(name, series)| Some((summarize(&name, &series)?, name)));
        let state = iommu(report).unwrap_or_else(|| "unknown".to_owned());
        let words = iommu_words(report);
        let setting = if words.is_empty() {
            state.clone()
        } else {
            format!("{state} ({words})")
        };
        Self {
            host: truncate(report.machine.host.as_deref().unwrap_or("unknown")),
            started: truncate(&report.started),
            verdict: report.verdict,
            answer: truncate(&report.answer),
            first: report.causes.first().map(|cause| truncate(&cause.code)),
            gpus: truncate(&report.gpu_names()),
            recorded: report.is_recorded(),
            facts: facts(report)
                .into_iter()
                .map(|(name, value)| (name, truncate(&value)))
                .collect(),
            figures: spans.map(|(span, name)| (truncate(&name), span)).collect(),
            identity: identity(report).unwrap_or_default(),
            setting: truncate(&setting),
        }
    }

    /// The speed of the slowest pair of GPUs, as in [`slowest_pair`], and the median of the pairs, GB/s.
    #[must_use]
    pub fn pairs(&self) -> Option<(f64, f64)> {
        let all = ONE_WAY
            .iter()
            .filter_map(|metric| self.figures.get(&format!("{BANDWIDTH}/{}", metric.name())));
        let least = all.map(|span| span.worst).reduce(f64::min)?;
        // Without the sample program's copies the writes are the most like them.
        let median = ONE_WAY
            .iter()
            .find_map(|metric| self.figures.get(&format!("{BANDWIDTH}/{}", metric.name())))?
            .median;
        Some((least, median))
    }

    /// The bus bandwidth of NCCL's all-reduce at its largest size, GB/s.
    #[must_use]
    pub fn nccl(&self) -> Option<f64> {
        self.figures.get(NCCL).map(|span| span.median)
    }
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let distinct = |values: Vec<Option<String>>| {
        let all: BTreeSet<_> = values.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
    };
    let of_gpus =
        |f: &dyn Fn(&Gpu) -> Option<String>| distinct(report.gpus.iter().map(f).collect());
    let redirected = report.fabric.as_ref().map(|fabric| {
        let on = fabric
            .devices
            .iter()
            .filter(|d| d.acs.as_ref().is_some_and(|acs| !acs.enabled.is_empty()));
        format!("on at {} ports", on.count())
    });
    let all = [
        ("kernel", report.machine.kernel.clone()),
        ("driver", report.driver.module.clone()),
        ("nccl", report.driver.nccl.clone()),
        ("cuda", report.driver.cuda.clone()),
        ("level", Some(report.level.to_string())),
        ("scope", Some(report.scope.to_string())),
        ("iommu", iommu(report)),
        ("acs", redirected),
        (
            "bios",
            report.machine.dmi.get("bios_version").cloned().flatten(),
        ),
        (
            "product",
            report.machine.dmi.get("product_name").cloned().flatten(),
        ),
        (
            "image",
            report.appliance.as_ref().and_then(|a| a.image_id.clone()),
        ),
        ("vbios", of_gpus(&|gpu| gpu.vbios.clone())),
        (
            "bar1",
            of_gpus(&|gpu| Some(format!("{} MiB", gpu.bar1_bytes? >> 20))),
        ),
        (
            "link",
            of_gpus(&|gpu| {
                gpu.link
                    .as_ref()
                    .map(|l| format!("x{} of x{}", l.width, l.max_width))
            }),
        ),
    ];
    all.into_iter()
        .map(|(name, value)| (name, value.unwrap_or_else(|| "none".to_owned())))
        .collect()
}

/// Sums up a series: of pairs, those between different GPUs; of NCCL's sizes, the largest. Other tables have no common
/// figure.
fn summarize(name: &str, series: &Series) -> Option<Span> {
    let more = is_larger_better(&series.unit)?;
    let apart = |place: &str| place.split_once(" -> ").is_none_or(|(from, to)| from != to);
    let values: Vec<f64> = match series.of_pairs {
        true => series
            .cells
            .iter()
            .filter(|(place, _)| apart(place))
            .map(|(_, value)| *value)
            .collect(),
        false if name == NCCL => series
            .cells
            .last()
            .map(|(_, value)| *value)
            .into_iter()
            .collect(),
        false => return None,
    };
    // Yes-or-no values with a 0 have no median: their worst value 0 takes its place.
    let worst = values
        .iter()
        .copied()
        .reduce(if more { f64::min } else { f64::max })?;
    let median = median(&values).unwrap_or(worst);
    Some(Span {
        unit: series.unit.clone(),
        worst,
        median,
        tolerance: series.tolerance,
    })
}
