//! Many reports side by side: a summary of each, what differs from the majority of its kind, which figures are outliers,
//! and what each IOMMU setting of one machine costs. Pure, and small: only a summary of each report is kept.

use super::figures::{is_larger_better, is_worse};
use super::summary::{Span, Summary, truncate};
use crate::stats::median;
use outcome::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the JSON's format.
pub const FLEET: &str = "firstlight.fleet/1";
/// The fewest machines of a kind for which a majority and outliers are determined.
const MIN_MACHINES: usize = 3;

/// All reports.
#[derive(Debug, Serialize)]
pub struct Fleet {
    /// [`FLEET`]
    pub schema: &'static str,
    /// One for each file, by host and time.
    pub machines: Vec<Machine>,
    /// Machines with several IOMMU settings.
    pub sweeps: Vec<Sweep>,
}

/// A file, and its report if it has one.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Its name.
    pub file: String,
    /// Why it cannot be read.
    pub error: Option<String>,
    /// Its report.
    pub summary: Option<Summary>,
    /// What differs from most machines of its kind: the fact, its value, and that of the others.
    pub differs: Vec<(String, String, String)>,
    /// Figures that are worse than the median of its kind: series, figure, median.
    pub outliers: Vec<(String, f64, f64)>,
}

/// One machine with several IOMMU settings.
#[derive(Debug, Serialize)]
pub struct Sweep {
    /// Its host name.
    pub host: String,
    /// Its settings; of several reports with one setting the newest counts.
    pub settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// The state, and the kernel words.
    pub setting: String,
    /// The file of its report.
    pub file: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Its answer.
    pub answer: String,
    /// Medians by series, each with its ratio to the best setting: 1 is the best, 0.5 is half as good.
    pub figures: BTreeMap<String, (Span, f64)>,
}

impl Fleet {
    /// Puts reports side by side: each file with its summary, or with the reason why it has none.
    #[must_use]
    pub fn of(files: Vec<(String, Result<Summary, String>)>) -> Self {
        let machine = |(file, read): (String, Result<Summary, String>)| {
            let (summary, error) = match read {
                Ok(summary) => (Some(summary), None),
                Err(why) => (None, Some(truncate(&why))),
            };
            Machine {
                file,
                error,
                summary,
                differs: Vec::new(),
                outliers: Vec::new(),
            }
        };
        let mut machines: Vec<_> = files.into_iter().map(machine).collect();
        let key = |m: &Machine| {
            m.summary
                .as_ref()
                .map(|s| (s.host.clone(), s.started.clone()))
        };
        // Files that cannot be read come first.
        machines.sort_by_cached_key(|m| (key(m), m.file.clone()));
        let sweeps = sweeps(&machines);
        sort_worst_first(&mut machines);
        let mut fleet = Self {
            schema: FLEET,
            machines,
            sweeps,
        };
        fleet.compare_machines();
        fleet
    }

    /// How many files have no report.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.machines.iter().filter(|m| m.summary.is_none()).count()
    }

    /// All series that a machine has.
    #[must_use]
    pub fn series(&self) -> BTreeMap<&str, &str> {
        let all = self
            .machines
            .iter()
            .filter_map(|m| m.summary.as_ref())
            .flat_map(|s| &s.figures);
        all.map(|(name, span)| (name.as_str(), span.unit.as_str()))
            .collect()
    }

    /// Determines the differences and the outliers within each kind of machine.
    fn compare_machines(&mut self) {
        let mut kinds: BTreeMap<(String, bool), Vec<&Summary>> = BTreeMap::new();
        for summary in self.machines.iter().filter_map(|m| m.summary.as_ref()) {
            kinds
                .entry((summary.gpus.clone(), summary.recorded))
                .or_default()
                .push(summary);
        }
        let kinds: BTreeMap<_, _> = kinds
            .into_iter()
            .map(|(kind, all)| (kind, MachineKind::of(&all)))
            .collect();
        for machine in &mut self.machines {
            let Some(summary) = &machine.summary else {
                continue;
            };
            let Some(kind) = kinds.get(&(summary.gpus.clone(), summary.recorded)) else {
                continue;
            };
            (machine.differs, machine.outliers) = (kind.differs(summary), kind.outliers(summary));
        }
    }
}

/// Machines with the same GPUs.
struct MachineKind {
    /// The most common value of each fact, if more than half of the machines have it.
    usual: BTreeMap<&'static str, String>,
    /// The median of all machines' worst figures, by series.
    medians: BTreeMap<String, f64>,
}

impl MachineKind {
    fn of(all: &[&Summary]) -> Self {
        let mut counts: BTreeMap<(&'static str, &str), usize> = BTreeMap::new();
        let mut worst: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for summary in all.iter().filter(|_| all.len() >= MIN_MACHINES) {
            for (name, value) in &summary.facts {
                *counts.entry((name, value)).or_default() += 1;
            }
            for (name, span) in &summary.figures {
                worst.entry(name).or_default().push(span.worst);
            }
        }
        let usual = counts
            .into_iter()
            .filter(|(_, count)| count * 2 > all.len());
        let medians = worst
            .into_iter()
            .filter(|(_, values)| values.len() >= MIN_MACHINES);
        Self {
            usual: usual
                .map(|((name, value), _)| (name, value.to_owned()))
                .collect(),
            medians: medians
                .filter_map(|(name, values)| Some((name.to_owned(), median(&values).ok()?)))
                .collect(),
        }
    }

    fn differs(&self, summary: &Summary) -> Vec<(String, String, String)> {
        let other = |(name, value): (&&str, &String)| {
            let usual = self.usual.get(name).filter(|usual| *usual != value)?;
            Some(((*name).to_owned(), value.clone(), usual.clone()))
        };
        summary.facts.iter().filter_map(other).collect()
    }

    fn outliers(&self, summary: &Summary) -> Vec<(String, f64, f64)> {
        let outlier = |(name, span): (&String, &Span)| {
            let usual = *self.medians.get(name)?;
            let worse = is_worse(
                span.worst,
                usual,
                span.tolerance,
                is_larger_better(&span.unit)?,
            );
            worse.then(|| (name.clone(), span.worst, usual))
        };
        summary.figures.iter().filter_map(outlier).collect()
    }
}

/// Sorts hosts by the verdict of their newest report, the worst first. Reports of one host stay together, in their order.
fn sort_worst_first(machines: &mut [Machine]) {
    let summaries = machines.iter().filter_map(|m| m.summary.as_ref());
    let newest: BTreeMap<_, _> = summaries.map(|s| (s.host.clone(), s.verdict)).collect();
    machines.sort_by_key(
        |m| match m.summary.as_ref().and_then(|s| newest.get(&s.host)) {
            None => 0,
            Some(Verdict::Error) => 1,
            Some(Verdict::Fail) => 2,
            Some(Verdict::Degraded) => 3,
            Some(Verdict::Pass) => 4,
        },
    );
}

/// Machines with reports of several IOMMU settings.
fn sweeps(machines: &[Machine]) -> Vec<Sweep> {
    let mut by: BTreeMap<(&str, &str), BTreeMap<&str, &Machine>> = BTreeMap::new();
    for machine in machines {
        let Some(summary) = machine
            .summary
            .as_ref()
            .filter(|summary| !summary.identity.is_empty())
        else {
            continue;
        };
        // The later one replaces the earlier one.
        by.entry((&summary.identity, &summary.gpus))
            .or_default()
            .insert(&summary.setting, machine);
    }
    by.into_values()
        .filter(|settings| settings.len() > 1)
        .map(|settings| sweep(&settings))
        .collect()
}

fn sweep(settings: &BTreeMap<&str, &Machine>) -> Sweep {
    let all: Vec<_> = settings
        .values()
        .filter_map(|m| Some((m.file.clone(), m.summary.as_ref()?)))
        .collect();
    let best = |name: &str, unit: &str| {
        let medians = all
            .iter()
            .filter_map(|(_, s)| Some(s.figures.get(name)?.median));
        medians.reduce(if is_larger_better(unit) == Some(true) {
            f64::max
        } else {
            f64::min
        })
    };
    let setting = |(file, summary): &(String, &Summary)| Setting {
        setting: summary.setting.clone(),
        file: file.clone(),
        verdict: summary.verdict,
        answer: summary.answer.clone(),
        figures: summary
            .figures
            .iter()
            .filter_map(|(name, span)| {
                let best = best(name, &span.unit).filter(|best| *best > 0.0)?;
                let ratio = if is_larger_better(&span.unit)? {
                    span.median / best
                } else {
                    best / span.median
                };
                Some((name.clone(), (span.clone(), ratio)))
            })
            .collect(),
    };
    let host = all
        .first()
        .map(|(_, summary)| summary.host.clone())
        .unwrap_or_default();
    Sweep {
        host,
        settings: all.iter().map(setting).collect(),
    }
}
