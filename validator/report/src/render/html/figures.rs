//! The measurements on the page: matrices as heat maps, tables folded, effects of switching something on. A heat map is
//! a table: each cell shows its figure, and its color says how much worse the figure is than that of similar pairs.

use super::frame::{cell, collapsible, figure_table, note, number, row, section};
use crate::figures::{YES_NO, is_larger_better};
use crate::render::element::{Element, element};
use crate::stats::median;
use crate::{Report, TestEntry, pairs_of};
use machine::GpuId;
use machine::pcie::model::PathKind;
use outcome::finding::{FindingEntry, Severity};
use outcome::metric::{Clock, Metric};
use outcome::platform::Pair;
use outcome::table::Table;
use outcome::text::names::readable_name;
use outcome::{Matrix, Outcome};
use serde_json::Value;
use std::collections::BTreeMap;

/// The most columns of a matrix that is not folded; larger ones are folded unless they are important or have findings.
const MAX_OPEN: usize = 8;
/// Larger matrices that are never folded.
const ALWAYS_OPEN: [Metric; 3] = [
    Metric::ACCESS,
    Metric::SAMPLE_UNI_ON,
    Metric::LATENCY_ON_GPU,
];
/// The matrix that readers look for, and what takes its place if it was not measured.
const FIRST: [Metric; 3] = [Metric::SAMPLE_UNI_ON, Metric::CE_WRITE, Metric::ACCESS];
/// By how much a figure is worse than usual, as a fraction, from which on its cell has the next darker color.
const STEPS: [f64; 5] = [0.05, 0.1, 0.2, 0.35, 0.5];
/// The most expectations that a heat map lists.
const MAX_EXPECTATIONS: usize = 4;

/// The matrix that readers look for, and its test: one direction, with peer access.
fn first(report: &Report) -> Option<(&TestEntry, &Matrix)> {
    let all = || {
        report
            .tests
            .iter()
            .flat_map(|test| test.matrices.iter().map(move |matrix| (test, matrix)))
    };
    let is = |matrix: &Matrix, metric| matrix.metric() == Some(metric) && has_pairs(matrix);
    FIRST
        .into_iter()
        .find_map(|metric| all().find(|(_, matrix)| is(matrix, metric)))
}

/// Whether a matrix has a figure other than those of a GPU with itself.
fn has_pairs(matrix: &Matrix) -> bool {
    let rows = matrix.rows.iter().zip(&matrix.values);
    let mut all = rows.flat_map(|(row, values)| {
        matrix
            .columns
            .iter()
            .zip(values)
            .map(move |cell| (row, cell))
    });
    all.any(|(row, (column, value))| value.is_some() && (matrix.rows.len() == 1 || row != column))
}

/// Whether a test that passed has measured nothing of what it is there for: no pair has peer access.
pub(super) fn is_idle(test: &TestEntry) -> bool {
    let with_access = |metric| {
        matches!(
            metric,
            Metric::Sample { access: true, .. }
                | Metric::SmallCopy { access: true, .. }
                | Metric::Copy { .. }
        )
    };
    let mut all = test
        .matrices
        .iter()
        .filter(|matrix| matrix.metric().is_some_and(with_access))
        .peekable();
    test.outcome == Outcome::Pass && all.peek().is_some() && !all.any(has_pairs)
}

/// The first matrix of the page, with the legend of all; `None` if no pair was measured.
pub(super) fn first_section(report: &Report) -> Option<Element> {
    let (test, matrix) = first(report)?;
    let map = heat_map(
        report,
        matrix,
        &flagged_cells(report, test, matrix),
        &expectation(report, test, matrix),
    );
    let how = "Rows are the source, columns the destination. A stronger color is worse than usual in the same matrix; ▼ marks a figure \
               that is worse than its test expects.";
    let maps = element("div").with("class", "matrices").child(map);
    let section = section("Pairs").with("id", "pairs");
    let section = if matrix.columns.len() > MAX_OPEN {
        section.with("class", "large")
    } else {
        section
    };
    Some(section.child(note(how)).child(legend()).child(maps))
}

/// The colors of all matrices.
fn legend() -> Element {
    let mut scale = element("p")
        .with("class", "scale")
        .text("worse than usual by: ");
    scale = scale.child(element("span").with("class", "h0").text("under 5 %"));
    for (n, from) in (1..).zip(STEPS) {
        let class = format!("h{n}");
        scale = scale.child(
            element("span")
                .with("class", &class)
                .text(&format!("{:.0} %", from * 100.0)),
        );
    }
    scale
}

/// All other matrices, and the effects; `None` if there are none.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let tests: Vec<_> = report
        .tests
        .iter()
        .filter_map(|test| test_matrices(report, test))
        .collect();
    let effects = report.effects.iter().map(|(name, ratio)| {
        let ratio = number(&ratio.map_or_else(String::new, |r| format!("{r:.2}")));
        row(&effect_name(name), [ratio]).with("title", name)
    });
    let title = "Effect of switching something on, as a ratio; 1 is no change";
    let effects = collapsible(
        title,
        false,
        [figure_table(
            None,
            &["what", "ratio"],
            |place| place == 1,
            effects,
        )],
    );
    let effects = (!report.effects.is_empty()).then_some(effects);
    let some = !tests.is_empty() || effects.is_some();
    let groups = element("div")
        .with("class", "groups")
        .text("")
        .children(tests);
    some.then(|| {
        section("Between the GPUs")
            .with("id", "matrices")
            .child(groups)
            .children(effects)
    })
}

/// `P2P, all_reduce of 1 MiB` for `p2p_speedup_1M`; another name as it is.
fn effect_name(name: &str) -> String {
    let Some(size) = name.strip_prefix("p2p_speedup_") else {
        return name.to_owned();
    };
    let unit = match size.chars().last() {
        Some('K' | 'M' | 'G') => "iB",
        _ => " B",
    };
    let digits = size.trim_end_matches(['K', 'M', 'G']);
    let prefix = size.strip_prefix(digits).unwrap_or_default();
    let prefix = if prefix.is_empty() {
        String::new()
    } else {
        format!(" {prefix}")
    };
    format!("P2P, all_reduce of {digits}{prefix}{unit}")
}

fn test_matrices(report: &Report, test: &TestEntry) -> Option<Element> {
    let shown = first(report).map(|(_, matrix)| matrix);
    let mut others: Vec<_> = test
        .matrices
        .iter()
        .filter(|matrix| shown.is_none_or(|shown| !std::ptr::eq(shown, *matrix)))
        .collect();
    // A stable sort: what was measured without peer access is only for comparison.
    others.sort_by_key(|matrix| is_comparison(matrix));
    let some = !others.is_empty();
    let single = matches!(others[..], [one] if one.columns.len() <= MAX_OPEN);
    let all = others.into_iter().map(|matrix| {
        (
            matrix,
            heat_map(
                report,
                matrix,
                &flagged_cells(report, test, matrix),
                &expectation(report, test, matrix),
            ),
        )
    });
    let (open, closed): (Vec<_>, Vec<_>) = all.partition(|(matrix, _)| {
        let important = matrix
            .metric()
            .is_some_and(|metric| ALWAYS_OPEN.contains(&metric));
        (has_pairs(matrix) && (matrix.columns.len() <= MAX_OPEN || important))
            || !flagged_cells(report, test, matrix).is_empty()
    });
    let maps = |maps: Vec<(&Matrix, Element)>| {
        element("div")
            .with("class", "matrices")
            .text("")
            .children(maps.into_iter().map(|(_, map)| map))
    };
    let closed = (!closed.is_empty()).then(|| {
        let title = format!("{} more", closed.len());
        collapsible(&title, false, [maps(closed)])
    });
    let open = (!open.is_empty()).then(|| maps(open));
    let head = element("h3").text(&test.title);
    let section = element("section");
    let section = if single {
        section.with("class", "single")
    } else {
        section
    };
    some.then(|| section.child(head).children(open).children(closed))
}

/// Whether a matrix has what was measured without peer access, or by the processor's clock.
fn is_comparison(matrix: &Matrix) -> bool {
    let metric = matrix.metric();
    matches!(
        metric,
        Some(Metric::Sample { access: false, .. } | Metric::SmallCopy { access: false, .. })
    ) || matches!(
        metric,
        Some(Metric::SmallCopy {
            clock: Clock::Host,
            ..
        })
    )
}

/// A cell of a matrix that a finding is about, and what was expected there.
pub struct FlaggedCell {
    /// From 0.
    pub row: usize,
    /// From 0.
    pub column: usize,
    /// What was expected there, in the matrix's unit.
    pub expected: String,
}

/// The cells of a matrix that findings of its test are about: the same pair, unit and value.
fn flagged_cells(report: &Report, test: &TestEntry, matrix: &Matrix) -> Vec<FlaggedCell> {
    let bad = test.findings.iter().filter(|f| f.severity > Severity::Info);
    let of = |finding: &FindingEntry| {
        let (measured, expected) = (finding.measured.as_f64()?, finding.expected.as_f64()?);
        finding
            .unit
            .as_deref()
            .filter(|unit| *unit == matrix.unit)?;
        let Pair { from, to } = pairs_of(finding, report).into_iter().next()?;
        let at = |labels: &[String], gpu: GpuId| {
            labels.iter().position(|label| *label == gpu.to_string())
        };
        let (row, column) = (at(&matrix.rows, from)?, at(&matrix.columns, to)?);
        let is = (*matrix.values.get(row)?.get(column)?)?;
        let bound = if measured < expected {
            "at least"
        } else {
            "at most"
        };
        let expected = format!("{bound} {}", figure_text(expected, &matrix.unit, expected));
        // Findings have two decimals.
        ((is - measured).abs() < 0.006).then_some(FlaggedCell {
            row,
            column,
            expected,
        })
    };
    let access = matrix.unit == YES_NO && test.outcome != Outcome::Pass;
    let cells = matrix.values.iter().enumerate().filter(|_| access);
    let cells = cells.flat_map(|(row, values)| {
        values
            .iter()
            .enumerate()
            .map(move |(column, value)| (row, column, *value))
    });
    let none = cells.filter(|(row, column, value)| row != column && *value == Some(0.0));
    let none = none.map(|(row, column, _)| FlaggedCell {
        row,
        column,
        expected: "access".to_owned(),
    });
    bad.filter_map(of).chain(none).collect()
}

/// What was expected of a matrix, in words.
fn expectation(report: &Report, test: &TestEntry, matrix: &Matrix) -> String {
    let mut missed = flagged_cells(report, test, matrix);
    missed.dedup_by_key(|m| (m.row, m.column));
    let label = |labels: &[String], n: usize| labels.get(n).cloned().unwrap_or_default();
    let one = |m: &FlaggedCell| {
        format!(
            "GPU {} -> {} {}",
            label(&matrix.rows, m.row),
            label(&matrix.columns, m.column),
            m.expected
        )
    };
    let mut named: Vec<_> = missed.iter().map(one).collect();
    named.dedup();
    let more = named.len().saturating_sub(MAX_EXPECTATIONS);
    named.truncate(MAX_EXPECTATIONS);
    if !named.is_empty() {
        let more = if more > 0 {
            format!(", and {more} more")
        } else {
            String::new()
        };
        return format!("expected: {}{more}", named.join(", "));
    }
    if !has_pairs(matrix) {
        return String::new();
    }
    let raw = report
        .fabric
        .iter()
        .flat_map(|f| &f.paths)
        .filter(|p| report.gpus.iter().any(|g| g.bdf == p.b));
    let raw: Vec<_> = raw
        .map(|path| path.raw_gb_s)
        .filter(|raw| *raw > 0.0)
        .collect();
    let (least, most) = (
        raw.iter().copied().reduce(f64::min),
        raw.iter().copied().reduce(f64::max),
    );
    let square = matrix.rows.len() > 1 && matrix.unit == "GB/s";
    let links = match least.zip(most).filter(|_| square) {
        Some((least, most)) if most - least < 0.05 => {
            format!("; PCIe links carry {least:.1} GB/s each way")
        }
        Some((least, most)) => format!("; PCIe links carry {least:.1} to {most:.1} GB/s each way"),
        None => String::new(),
    };
    // A test that found something else says so in its findings, not below each of its matrices.
    let said = if test.outcome == Outcome::Pass {
        "no figure is worse than the test expects"
    } else {
        ""
    };
    format!("{said}{links}").trim_start_matches("; ").to_owned()
}

/// What the figures of a matrix are compared with: the median of those pairs that have the same kind of path.
struct Usual {
    kinds: BTreeMap<Option<PathKind>, f64>,
    of: BTreeMap<(String, String), PathKind>,
}

impl Usual {
    fn of(report: &Report, matrix: &Matrix) -> Self {
        let number = |bdf| {
            report
                .gpus
                .iter()
                .position(|gpu| gpu.bdf == bdf)
                .map(|n| n.to_string())
        };
        let mut of = BTreeMap::new();
        for path in report
            .fabric
            .iter()
            .flat_map(|fabric| &fabric.paths)
            .filter(|_| matrix.rows.len() > 1)
        {
            let Some((a, b)) = number(path.a).zip(number(path.b)) else {
                continue;
            };
            of.insert((b.clone(), a.clone()), path.kind);
            of.insert((a, b), path.kind);
        }
        let mut usual = Self {
            kinds: BTreeMap::new(),
            of,
        };
        let mut figures: BTreeMap<Option<PathKind>, Vec<f64>> = BTreeMap::new();
        for (row, values) in matrix.rows.iter().zip(&matrix.values) {
            for (column, value) in matrix.columns.iter().zip(values) {
                let apart = matrix.rows.len() == 1 || row != column;
                if let Some(value) = value.filter(|value| apart && *value > 0.0) {
                    figures
                        .entry(usual.kind(row, column))
                        .or_default()
                        .push(value);
                }
            }
        }
        let medians = figures
            .into_iter()
            .filter_map(|(kind, values)| Some((kind, median(&values).ok()?)));
        usual.kinds = medians
            .filter(|_| is_larger_better(&matrix.unit).is_some() && matrix.unit != YES_NO)
            .collect();
        usual
    }

    fn kind(&self, row: &str, column: &str) -> Option<PathKind> {
        self.of.get(&(row.to_owned(), column.to_owned())).copied()
    }

    /// How dark a figure is, 0 to 5; `None` if the matrix has no color.
    fn step(&self, row: &str, column: &str, value: f64, unit: &str) -> Option<usize> {
        let usual = self.kinds.get(&self.kind(row, column))?;
        Some(step(value, *usual, is_larger_better(unit)?))
    }

    /// `usual 20.7 GB/s`, of each kind of path if there are several.
    fn text(&self, unit: &str, largest: f64) -> String {
        let one = |(kind, usual): (&Option<PathKind>, &f64)| {
            let kind = kind
                .filter(|_| self.kinds.len() > 1)
                .map(|kind| format!(" ({})", path_word(kind)))
                .unwrap_or_default();
            format!("{} {unit}{kind}", figure_text(*usual, unit, largest))
        };
        let all: Vec<_> = self.kinds.iter().map(one).collect();
        if all.is_empty() {
            String::new()
        } else {
            format!("usual {}", all.join(", "))
        }
    }
}

/// The letters of `nvidia-smi topo -m`.
const fn path_word(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Pix => "PIX",
        PathKind::Pxb => "PXB",
        PathKind::Phb => "PHB",
        PathKind::Node => "NODE",
        PathKind::Sys => "SYS",
    }
}

/// How dark a figure is, 0 to 5, by how much it is worse than usual.
fn step(value: f64, usual: f64, more: bool) -> usize {
    let ratio = if more { value / usual } else { usual / value };
    let worse = 1.0 - ratio;
    STEPS.iter().filter(|from| worse >= **from).count()
}

/// A matrix as a table with colored cells, what is usual and what was expected. Cells of a GPU with itself have no color.
fn heat_map(report: &Report, matrix: &Matrix, missed: &[FlaggedCell], expected: &str) -> Element {
    let label =
        |labels: &[String], n: usize| labels.get(n).cloned().unwrap_or_else(|| n.to_string());
    let own = |r: usize, c: usize| {
        matrix.rows.len() > 1 && label(&matrix.rows, r) == label(&matrix.columns, c)
    };
    let values = || {
        let rows = matrix.values.iter().enumerate();
        rows.flat_map(|(r, row)| {
            row.iter()
                .enumerate()
                .filter(move |(c, _)| !own(r, *c))
                .filter_map(|(_, v)| *v)
        })
    };
    let all = || matrix.values.iter().flatten().filter_map(|value| *value);
    let high = values()
        .reduce(f64::max)
        .or_else(|| all().reduce(f64::max))
        .unwrap_or_default();
    let widest = matrix.values.iter().map(Vec::len).max().unwrap_or_default();
    let columns: Vec<_> = (0..widest.max(matrix.columns.len()))
        .map(|n| label(&matrix.columns, n))
        .collect();
    let head: Vec<_> = [""]
        .into_iter()
        .chain(columns.iter().map(String::as_str))
        .collect();
    let usual = Usual::of(report, matrix);
    let colored = |r: usize, c: usize, value: Option<f64>| {
        let Some(value) = value else {
            return number("");
        };
        let text = figure_text(value, &matrix.unit, high);
        let step = usual.step(
            &label(&matrix.rows, r),
            &label(&matrix.columns, c),
            value,
            &matrix.unit,
        );
        match missed.iter().find(|m| (m.row, m.column) == (r, c)) {
            Some(m) => cell(&format!("▼ {text}"))
                .with("class", "number missed")
                .with("title", &format!("expected {}", m.expected)),
            None if own(r, c) => number(&text),
            None => cell(&text).with(
                "class",
                &step.map_or_else(|| "number".to_owned(), |n| format!("number h{n}")),
            ),
        }
    };
    let line = |(r, values): (usize, &Vec<Option<f64>>)| {
        row(
            &label(&matrix.rows, r),
            values
                .iter()
                .enumerate()
                .map(|(c, value)| colored(r, c, *value)),
        )
    };
    let unit = if matrix.unit == YES_NO {
        String::new()
    } else {
        format!(", {}", matrix.unit)
    };
    let title = format!("{}{unit}", readable_name(&matrix.name));
    let said: Vec<_> = [usual.text(&matrix.unit, high), expected.to_owned()]
        .into_iter()
        .filter(|s| !s.is_empty())
        .collect();
    let caption = element("figcaption")
        .with("title", &matrix.name)
        .text(&title)
        .children(
            (!said.is_empty()).then(|| element("p").with("class", "dim").text(&said.join("; "))),
        );
    let table = figure_table(
        None,
        &head,
        |place| place > 0,
        matrix.values.iter().enumerate().map(line),
    );
    let figure = element("figure").child(caption).child(table);
    if matrix.columns.len() > MAX_OPEN {
        figure.with("class", "large")
    } else {
        figure
    }
}

/// A figure with the decimals that its unit and the largest figure beside it make sensible: three or four digits.
fn figure_text(value: f64, unit: &str, largest: f64) -> String {
    match unit {
        YES_NO if value > 0.0 => "OK".to_owned(),
        YES_NO => "no".to_owned(),
        "ns" | "B" | "bytes" | "MHz" | "C" | "lanes" => format!("{value:.0}"),
        _ => format!("{value:.*}", decimals_below(largest)),
    }
}

/// The decimals of figures up to `largest`.
fn decimals_below(largest: f64) -> usize {
    match largest.abs() {
        10_000.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    }
}

/// All tables, folded; `None` if there are none.
pub(super) fn tables_of(report: &Report) -> Option<Element> {
    let all = report.tests.iter().flat_map(|test| {
        test.tables
            .iter()
            .map(|table| table_element(&test.id, table))
    });
    let all: Vec<_> = all.collect();
    (!all.is_empty()).then(|| section("Tables").with("id", "tables").children(all))
}

/// A table of the report; one of unknown form is shown as JSON.
fn table_element(test: &str, table: &Table) -> Element {
    let json = table.json();
    let value: &Value = &json;
    let name = value["name"].as_str().unwrap_or("table");
    let title = format!("{} ({test})", readable_name(name));
    let (Some(columns), Some(rows)) = (value["columns"].as_array(), value["rows"].as_array())
    else {
        return collapsible(&title, false, [element("pre").text(&format!("{value:#}"))]);
    };
    let heading = |column: &Value| match (column["heading"].as_str(), column["unit"].as_str()) {
        (Some(heading), None | Some("")) => readable_name(heading),
        (Some(heading), Some(unit)) => format!("{}, {unit}", readable_name(heading)),
        (None, _) => value_text(column, 2),
    };
    let numeric = |n: usize| {
        let mut cells = rows
            .iter()
            .filter_map(|row| row.get(n))
            .filter(|cell| !cell.is_null())
            .peekable();
        cells.peek().is_some() && cells.all(Value::is_number)
    };
    let head: Vec<_> = columns.iter().map(heading).collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    let decimals: Vec<_> = (0..columns.len()).map(|n| decimals(rows, n)).collect();
    let line = |row: &Value| match row.as_array() {
        Some(cells) => {
            let decimals = decimals.iter().copied().chain(std::iter::repeat(2));
            element("tr").text("").children(
                cells
                    .iter()
                    .zip(decimals)
                    .map(|(value, decimals)| value_cell(value, decimals)),
            )
        }
        None => element("tr").child(value_cell(row, 2)),
    };
    let title = format!("{title}, {} rows", rows.len());
    collapsible(
        &title,
        false,
        [figure_table(None, &head, numeric, rows.iter().map(line))],
    )
}

/// The decimals of a column, by its largest figure.
fn decimals(rows: &[Value], column: usize) -> usize {
    let figures = rows.iter().filter_map(|row| row.get(column)?.as_f64());
    decimals_below(figures.fold(0.0, |most: f64, figure| most.max(figure.abs())))
}

fn value_cell(value: &Value, decimals: usize) -> Element {
    let text = value_text(value, decimals);
    if value.is_number() {
        number(&text)
    } else {
        cell(&text)
    }
}

fn value_text(value: &Value, decimals: usize) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => n
            .as_f64()
            .map_or_else(String::new, |n| format!("{n:.decimals$}")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dark_is_worse_for_speeds_and_for_times() {
        let speeds = [30.0, 20.0, 19.1, 18.9, 17.9, 15.9, 12.9, 9.9, 1.0]
            .map(|value| step(value, 20.0, true));
        assert_eq!(speeds, [0, 0, 0, 1, 2, 3, 4, 5, 5]);
        assert_eq!(
            [1.0, 1.3, 1.4, 2.6].map(|value| step(value, 1.3, false)),
            [0, 0, 1, 5]
        );
    }

    #[test]
    fn figures_have_three_or_four_digits() {
        let of = |value: f64, unit: &str| figure_text(value, unit, value);
        let shown = [
            of(393.54, "GB/s"),
            of(20.704, "GB/s"),
            of(1.754, "us"),
            of(0.175, "us"),
            of(850.4, "ns"),
        ];
        assert_eq!(shown, ["393.5", "20.7", "1.75", "0.175", "850"]);
        assert_eq!([of(1.0, "1"), of(0.0, "1")], ["OK", "no"]);
    }

    #[test]
    fn an_effect_has_a_name_that_people_read() {
        let names = [
            "p2p_speedup_8",
            "p2p_speedup_128K",
            "p2p_speedup_1M",
            "other",
        ]
        .map(effect_name);
        assert_eq!(
            names,
            [
                "P2P, all_reduce of 8 B",
                "P2P, all_reduce of 128 KiB",
                "P2P, all_reduce of 1 MiB",
                "other"
            ]
        );
    }
}
