//! Comparisons as text: a report with a baseline, and many reports side by side. 80 columns, apart from long names.

use super::causes;
use super::text::{counts, row};
use crate::drift::{Compared, Drift};
use crate::fleet::{Fleet, Machine, Sweep};
use crate::summary::{PAIRS, Summary};
use crate::ungrouped_causes;
use outcome::Verdict;
use outcome::finding::{Code, FindingEntry, Severity};
use outcome::text::count;
use outcome::text::shown;
use outcome::text::wrapped;
use std::fmt::Write as _;

/// How many notes of one kind are shown; the JSON has all of them.
const MAX_NOTES: usize = 12;
/// How many outliers of a machine are shown; the page and the JSON have all of them.
const MAX_OUTLIERS: usize = 4;

/// A comparison with a baseline.
#[must_use]
pub fn drift(drift: &Drift) -> String {
    let side = |label: &str, of: &Compared| {
        let Compared {
            host,
            started,
            verdict,
        } = of;
        let host = host.as_deref().unwrap_or("unknown");
        wrapped(
            &format!("{label:<9}"),
            "         ",
            &format!("{host}, {started}, {verdict}"),
        )
    };
    let mut text = side("BASELINE", &drift.baseline) + &side("REPORT", &drift.report);
    let beside = match drift.without_baseline {
        0 => String::new(),
        n => format!("; {n} of the report are not in the baseline"),
    };
    text += &wrapped(
        "FIGURES  ",
        "         ",
        &format!("{} of {} compared{beside}", drift.compared, drift.expected),
    );
    let tests = std::slice::from_ref(&drift.test);
    text += &format!(
        "\n{}{}",
        row(&drift.test),
        causes::details(&ungrouped_causes(tests), tests)
    );
    let better = |f: &&FindingEntry| f.is(Code::BaselineDrift) && f.severity == Severity::Info;
    let better: Vec<_> = drift
        .test
        .findings
        .iter()
        .filter(better)
        .map(|f| f.message.to_string())
        .collect();
    text += &notes("BETTER", &better);
    text += &notes(
        "CHANGED",
        &drift
            .changes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
    );
    text + &format!(
        "\nVERDICT  {:<5}  {}\n",
        drift.verdict.to_string(),
        counts(tests)
    )
}

fn notes(label: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for (n, line) in lines.iter().take(MAX_NOTES).enumerate() {
        let label = if n == 0 {
            format!("\n{label:<9}")
        } else {
            " ".repeat(9)
        };
        text += &wrapped(&label, "           ", &shown(line));
    }
    if lines.len() > MAX_NOTES {
        text += &format!(
            "         and {} more in the JSON\n",
            lines.len() - MAX_NOTES
        );
    }
    text
}

/// The headings of [`summary_cells`].
pub(super) const HEADINGS: [&str; 7] = [
    "host",
    "started",
    "verdict",
    "pairs GB/s",
    "NCCL GB/s",
    "driver",
    "kernel",
];

/// A machine's main figures and facts.
pub(super) fn summary_cells(summary: &Summary) -> [String; 7] {
    let fact = |name: &str| summary.facts.get(name).cloned().unwrap_or_default();
    let pairs = summary
        .pairs()
        .map(|(worst, median)| format!("{worst:.1} / {median:.1}"));
    [
        summary.host.clone(),
        // Without the seconds.
        summary.started.chars().take(16).collect(),
        summary.verdict.to_string(),
        pairs.unwrap_or_default(),
        summary
            .nccl()
            .map(|gb_s| format!("{gb_s:.1}"))
            .unwrap_or_default(),
        fact("driver"),
        fact("kernel"),
    ]
}

/// The lines below a machine's row: its answer and first cause, its differences, and its outliers.
pub(super) fn detail_lines(machine: &Machine) -> Vec<(&'static str, String)> {
    let Some(summary) = &machine.summary else {
        return Vec::new();
    };
    let first = summary
        .first
        .as_ref()
        .map(|code| format!("; first: {code}"))
        .unwrap_or_default();
    let mut lines = vec![("answer", format!("{}{first}", summary.answer))];
    let differs =
        |(name, own, usual): &(String, String, String)| format!("{name} {own} (usual: {usual})");
    let differs: Vec<_> = machine.differs.iter().map(differs).collect();
    lines.extend((!differs.is_empty()).then(|| ("differs", differs.join("; "))));
    let outlier = |(name, own, usual): &(String, f64, f64)| {
        let unit = summary
            .figures
            .get(name)
            .map_or("", |span| span.unit.as_str());
        format!("{name} {own:.2} {unit} (median of its kind: {usual:.2})")
    };
    let mut outliers: Vec<_> = machine.outliers.iter().map(outlier).collect();
    if outliers.len() > MAX_OUTLIERS {
        let more = outliers.split_off(MAX_OUTLIERS).len();
        outliers.push(format!("and {more} more"));
    }
    lines.extend((!outliers.is_empty()).then(|| ("outlier", outliers.join("; "))));
    lines
}

/// Many reports: a row for each, and the cost of each IOMMU setting of machines that have several.
#[must_use]
pub fn fleet(fleet: &Fleet) -> String {
    let rows: Vec<_> = fleet
        .machines
        .iter()
        .map(|m| m.summary.as_ref().map(summary_cells))
        .collect();
    let mut widths = HEADINGS.map(str::len);
    for cells in rows.iter().flatten() {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        shown(padded.collect::<Vec<_>>().join("  ").trim_end()) + "\n"
    };
    let mut text = line(&HEADINGS.map(str::to_owned));
    for (machine, cells) in fleet.machines.iter().zip(&rows) {
        match cells {
            Some(cells) => text += &line(cells),
            None => {
                let why = machine.error.as_deref().unwrap_or_default();
                text += &wrapped(
                    "ERROR    ",
                    "         ",
                    &shown(&format!("{}: {why}", machine.file)),
                );
            }
        }
        for (label, said) in detail_lines(machine) {
            text += &wrapped(&format!("    {label:<8}"), "            ", &shown(&said));
        }
    }
    fleet.sweeps.iter().for_each(|one| text += &sweep(one));
    text + &format!("\n{}\n", sum(fleet))
}

/// `5 files: 2 FAIL, 1 DEGRADED, 2 PASS`, the worst first; files that cannot be read are the worst.
pub(super) fn sum(fleet: &Fleet) -> String {
    let of = |verdict: Verdict| {
        let all = fleet.machines.iter().filter_map(|m| m.summary.as_ref());
        (
            all.filter(|summary| summary.verdict == verdict).count(),
            verdict.to_string(),
        )
    };
    let verdicts = [
        Verdict::Error,
        Verdict::Fail,
        Verdict::Degraded,
        Verdict::Pass,
    ]
    .map(of);
    let all = [(fleet.unread(), "could not be read".to_owned())]
        .into_iter()
        .chain(verdicts);
    let parts: Vec<_> = all
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    format!(
        "{}: {}",
        count(fleet.machines.len(), "file"),
        parts.join(", ")
    )
}

/// `-37 %`, compared with the best setting.
pub(super) fn cost_text(ratio: f64) -> String {
    if ratio >= 0.995 {
        "best".to_owned()
    } else {
        format!("-{:.0} %", (1.0 - ratio) * 100.0)
    }
}

/// The series that the text shows for each setting, with a short name; the page has all of them.
const MAIN_SERIES: [(&str, &str); 4] = [
    (PAIRS, "pairs"),
    (crate::summary::NCCL, "NCCL"),
    ("p2p-latency/sample.latency.on.gpu", "latency"),
    ("host-bandwidth/host.to.ce", "from the host"),
];

fn sweep(sweep: &Sweep) -> String {
    let mut text = format!(
        "\nIOMMU settings of {}, each against the best one\n",
        shown(&sweep.host)
    );
    for setting in &sweep.settings {
        let head = format!(
            "{}: {}, {}",
            setting.setting, setting.verdict, setting.answer
        );
        text += &wrapped("  ", "      ", &shown(&head));
        let mut figures = String::new();
        for (name, short) in MAIN_SERIES {
            let Some((span, ratio)) = setting.figures.get(name) else {
                continue;
            };
            // Writing into a String cannot fail.
            let _ = write!(
                figures,
                "{short} {:.1} {} ({}); ",
                span.median,
                span.unit,
                cost_text(*ratio)
            );
        }
        text += &wrapped("      ", "      ", figures.trim_end_matches("; "));
    }
    text
}
