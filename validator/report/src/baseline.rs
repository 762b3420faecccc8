//! A baseline: the figures and facts of a machine in good state, with the tolerance of each figure. It is made from one
//! or several reports. Pure; [`super::drift`] compares a report with it.

use super::Report;
use super::facts::{Facts, facts, models};
use super::figures::{Figures, Series, YES_NO, figures, is_figure, is_larger_better};
use super::json::{Refused, document};
use crate::Level;
use crate::stats::median;
use outcome::Verdict;
use outcome::scope::Scope;
use outcome::text::shown;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The name of this format.
pub const BASELINE: &str = "firstlight.baseline/1";
/// The keys of a baseline. Those of a later version are skipped.
pub(super) const KEYS: [&str; 10] = [
    "schema", "gpus", "level", "verdict", "noise", "reports", "facts", "varying", "left_out",
    "figures",
];
/// The largest tolerance: a larger one would let everything pass.
const MAX_TOLERANCE: f64 = 1.0;

/// A baseline, as in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`BASELINE`]
    pub schema: String,
    /// The models of the GPUs, by number: a report with others is not compared.
    pub gpus: Vec<String>,
    /// The level at which the figures were measured.
    pub level: Level,
    /// DEGRADED if one of its reports is DEGRADED, otherwise PASS.
    pub verdict: Verdict,
    /// Where the tolerances come from, in words.
    pub noise: String,
    /// The reports that it was made from.
    pub reports: Vec<Origin>,
    /// Facts that all reports agree on.
    pub facts: Facts,
    /// Names of the facts that differ between the reports.
    pub varying: BTreeSet<String>,
    /// How many figures were left out, because not every report has them.
    pub left_out: usize,
    /// Figures by series and place.
    pub figures: BTreeMap<String, Expected>,
}

/// One report of a baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The host name.
    pub host: Option<String>,
    /// When the run began.
    pub started: String,
    /// The fingerprint of the machine's state.
    pub fingerprint: String,
}

/// The figures of one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Their unit.
    pub unit: String,
    /// Each by its place.
    pub cells: BTreeMap<String, Cell>,
}

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The figure.
    pub value: f64,
    /// How far another run may deviate, as a fraction of the figure.
    pub tolerance: f64,
}

/// Makes a baseline. With several reports a figure is their median, and its tolerance is twice its range among them, but
/// at least half of the tolerance of its kind.
///
/// # Errors
/// One line: a report is not good or does not cover the whole machine, or the reports do not match each other.
pub fn baseline(reports: &[Report]) -> Result<Baseline, String> {
    let first = reports.first().ok_or("a baseline needs a report")?;
    for report in reports {
        check_suitable(report)?;
        if models(&report.gpus) != models(&first.gpus) || report.level != first.level {
            return Err(format!(
                "reports of one baseline have the same GPUs and level: {} at level {}, and {} at level {}",
                first.gpu_names(),
                first.level,
                report.gpu_names(),
                report.level
            ));
        }
    }
    let measured: Vec<Figures> = reports.iter().map(figures).collect();
    let (figures, left_out) = common_figures(&measured)?;
    if figures.is_empty() {
        return Err("the report has no figure to compare with".to_owned());
    }
    let (facts, varying) = common_facts(&reports.iter().map(facts).collect::<Vec<_>>());
    let degraded = reports.iter().any(|r| r.verdict == Verdict::Degraded);
    let origin = |r: &Report| Origin {
        host: r.machine.host.clone(),
        started: r.started.clone(),
        fingerprint: r.machine.fingerprint.clone(),
    };
    Ok(Baseline {
        schema: BASELINE.to_owned(),
        gpus: models(&first.gpus),
        level: first.level,
        verdict: if degraded {
            Verdict::Degraded
        } else {
            Verdict::Pass
        },
        noise: noise(reports.len()),
        reports: reports.iter().map(origin).collect(),
        facts,
        varying,
        left_out,
        figures,
    })
}

fn noise(reports: usize) -> String {
    match reports {
        1 => "one report: each figure has the tolerance of its kind".to_owned(),
        n => format!(
            "measured from {n} reports: twice the range of each figure, at least half of the tolerance of its kind"
        ),
    }
}

/// Checks whether a baseline may be made from a report.
fn check_suitable(report: &Report) -> Result<(), String> {
    let Report { verdict, scope, .. } = report;
    if !matches!(verdict, Verdict::Pass | Verdict::Degraded) {
        return Err(format!(
            "the verdict is {verdict}, allowed in a baseline: PASS, DEGRADED"
        ));
    }
    if *scope != Scope::Machine {
        return Err(format!(
            "the scope is {scope}, allowed in a baseline: machine"
        ));
    }
    Ok(())
}

type Cells = BTreeMap<String, Expected>;

/// The figures that all reports have, and how many only some have.
fn common_figures(measured: &[Figures]) -> Result<(Cells, usize), String> {
    let mut values: BTreeMap<(&str, &str), (&Series, Vec<f64>)> = BTreeMap::new();
    for (name, series) in measured.iter().flatten() {
        for (place, value) in &series.cells {
            values
                .entry((name, place))
                .or_insert((series, Vec::new()))
                .1
                .push(*value);
        }
    }
    let (mut all, mut left_out) = (Cells::new(), 0);
    for ((name, place), (of, values)) in values {
        if values.len() < measured.len() {
            left_out += 1;
            continue;
        }
        let cell = merge_cell(of, &values).map_err(|why| format!("{name} {place}: {why}"))?;
        let series = all.entry(name.to_owned());
        let series = series.or_insert_with(|| Expected {
            unit: of.unit.clone(),
            cells: BTreeMap::new(),
        });
        series.cells.insert(place.to_owned(), cell);
    }
    Ok((all, left_out))
}

fn merge_cell(series: &Series, values: &[f64]) -> Result<Cell, String> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if series.unit == YES_NO {
        let same = least.to_bits() == most.to_bits();
        return if same {
            Ok(Cell {
                value: least,
                tolerance: 0.0,
            })
        } else {
            Err("1 in some reports, 0 in others".to_owned())
        };
    }
    let value = median(values).map_err(|e| e.to_string())?;
    let kind = series.tolerance;
    let own = if values.len() > 1 {
        (2.0 * (most - least) / value).max(kind / 2.0)
    } else {
        kind
    };
    Ok(Cell {
        value,
        tolerance: own.min(MAX_TOLERANCE),
    })
}

/// The facts that are the same in all reports, and the names of the others.
fn common_facts(all: &[Facts]) -> (Facts, BTreeSet<String>) {
    let (mut same, mut varying) = (Facts::new(), BTreeSet::new());
    for (name, value) in all.iter().flatten() {
        if all.iter().all(|facts| facts.get(name) == Some(value)) {
            same.insert(name.clone(), value.clone());
        } else {
            varying.insert(name.clone());
        }
    }
    (same, varying)
}

impl Baseline {
    /// Reads a baseline from its file, strictly. Unknown keys are allowed: later versions of the format add some.
    ///
    /// # Errors
    /// One line: what is wrong, and what is allowed.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let read: Self = document(bytes, BASELINE, &KEYS).map_err(|refused| match refused {
            Refused::NotJson(why) => format!("not JSON: {why}"),
            Refused::Schema(read) => format!("schema is {read}, allowed: \"{BASELINE}\""),
            Refused::Shape(why) => format!("not a valid {BASELINE}: {why}"),
        })?;
        read.contradiction().map_or(Ok(read), Err)
    }

    /// The number of figures.
    #[must_use]
    pub fn size(&self) -> usize {
        self.figures.values().map(|series| series.cells.len()).sum()
    }

    /// The first contradiction in it, in one line; `None` if there is none.
    fn contradiction(&self) -> Option<String> {
        if !matches!(self.verdict, Verdict::Pass | Verdict::Degraded) {
            return Some(format!(
                "verdict is {}, allowed in a baseline: PASS, DEGRADED",
                self.verdict
            ));
        }
        if self.size() == 0 {
            return Some("figures: there is none, allowed: at least one".to_owned());
        }
        self.figures.iter().find_map(|(name, series)| {
            let name = shown(name);
            if is_larger_better(&series.unit).is_none() {
                return Some(format!(
                    "figures.{name}: unit is {:?}, allowed: GB/s, us, ns, 10^12/s, 1",
                    series.unit
                ));
            }
            let bad = |cell: &Cell| {
                !is_figure(cell.value, &series.unit)
                    || !(0.0..=MAX_TOLERANCE).contains(&cell.tolerance)
            };
            let (place, cell) = series.cells.iter().find(|(_, cell)| bad(cell))?;
            Some(format!(
                "figures.{name}.{}: read {} with tolerance {}, allowed: a positive figure and \
                 a tolerance of 0 to {MAX_TOLERANCE}",
                shown(place),
                cell.value,
                cell.tolerance
            ))
        })
    }
}
