//! The measurements on the page: matrices as heat maps, tables folded, effects of switching something on. A heat map is
//! a table: each cell shows its figure, and its color is one of six steps of one hue.

use super::frame::{cell, collapsible, note, number, row, section, table};
use crate::render::element::{Element, element};
use crate::{Report, TestEntry, pairs_of};
use machine::GpuId;
use outcome::finding::{FindingEntry, Severity};
use outcome::metric::Metric;
use outcome::platform::Pair;
use outcome::text::names::readable_name;
use outcome::{Matrix, Outcome};
use serde_json::Value;

/// The most columns of a matrix that is not folded; larger ones are folded unless they are important or have findings.
const MAX_OPEN: usize = 8;
/// Larger matrices that are never folded.
const ALWAYS_OPEN: [Metric; 3] = [Metric::ACCESS, Metric::SAMPLE_UNI_ON, Metric::LATENCY_ON_GPU];
/// Steps of the color scale.
const STEPS: f64 = 6.0;
/// The most expectations that a heat map lists.
const MAX_EXPECTATIONS: usize = 4;

/// All matrices and effects; `None` if there are none.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let tests: Vec<_> = report.tests.iter().filter_map(|test| test_matrices(report, test)).collect();
    let effects = report
        .effects
        .iter()
        .map(|(name, ratio)| row(name, [number(&ratio.map_or_else(String::new, |r| format!("{r:.2}")))]));
    let title = "Effect of switching something on, as a ratio; 1 is no change";
    let effects = collapsible(title, false, [table(None, &["what", "ratio"], effects)]);
    let effects = (!report.effects.is_empty()).then_some(effects);
    let some = !tests.is_empty() || effects.is_some();
    let how = "Rows are the source, columns the destination. A darker cell is a higher figure; ▼ marks a figure that is \
               worse than expected.";
    some.then(|| section("Between the GPUs").with("id", "matrices").child(note(how)).children(tests).children(effects))
}

fn test_matrices(report: &Report, test: &TestEntry) -> Option<Element> {
    let all = test.matrices.iter().map(|matrix| {
        (matrix, heat_map(matrix, &flagged_cells(report, test, matrix), &expectation(report, test, matrix)))
    });
    let (open, closed): (Vec<_>, Vec<_>) = all.partition(|(matrix, _)| {
        matrix.columns.len() <= MAX_OPEN
            || matrix.metric().is_some_and(|metric| ALWAYS_OPEN.contains(&metric))
            || !flagged_cells(report, test, matrix).is_empty()
    });
    let maps = |maps: Vec<(&Matrix, Element)>| {
        element("div").with("class", "matrices").text("").children(maps.into_iter().map(|(_, map)| map))
    };
    let closed = (!closed.is_empty()).then(|| {
        let title = format!("{} more", closed.len());
        collapsible(&title, false, [maps(closed)])
    });
    let open = (!open.is_empty()).then(|| maps(open));
    let head = element("h3").text(&test.title);
    (!test.matrices.is_empty()).then(|| element("section").child(head).children(open).children(closed))
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
        finding.unit.as_deref().filter(|unit| *unit == matrix.unit)?;
        let Pair { from, to } = pairs_of(finding, report).into_iter().next()?;
        let at = |labels: &[String], gpu: GpuId| labels.iter().position(|label| *label == gpu.to_string());
        let (row, column) = (at(&matrix.rows, from)?, at(&matrix.columns, to)?);
        let is = (*matrix.values.get(row)?.get(column)?)?;
        let bound = if measured < expected { "at least" } else { "at most" };
        let expected = format!("{bound} {}", figure_text(expected, &matrix.unit, expected));
        // Findings have two decimals.
        ((is - measured).abs() < 0.006).then_some(FlaggedCell { row, column, expected })
    };
    let access = matrix.unit == "1" && test.outcome != Outcome::Pass;
    let cells = matrix.values.iter().enumerate().filter(|_| access);
    let cells =
        cells.flat_map(|(row, values)| values.iter().enumerate().map(move |(column, value)| (row, column, *value)));
    let none = cells.filter(|(row, column, value)| row != column && *value == Some(0.0));
    let none = none.map(|(row, column, _)| FlaggedCell { row, column, expected: "access".to_owned() });
    bad.filter_map(of).chain(none).collect()
}

/// What was expected of a matrix, in words.
fn expectation(report: &Report, test: &TestEntry, matrix: &Matrix) -> String {
    let mut missed = flagged_cells(report, test, matrix);
    missed.dedup_by_key(|m| (m.row, m.column));
    let label = |labels: &[String], n: usize| labels.get(n).cloned().unwrap_or_default();
    let one = |m: &FlaggedCell| {
        format!("GPU {} -> {} {}", label(&matrix.rows, m.row), label(&matrix.columns, m.column), m.expected)
    };
    let mut named: Vec<_> = missed.iter().map(one).collect();
    named.dedup();
    let more = named.len().saturating_sub(MAX_EXPECTATIONS);
    named.truncate(MAX_EXPECTATIONS);
    if !named.is_empty() {
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        return format!("expected: {}{more}", named.join(", "));
    }
    let raw = report.fabric.iter().flat_map(|f| &f.paths).filter(|p| report.gpus.iter().any(|g| g.bdf == p.b));
    let raw: Vec<_> = raw.map(|path| path.raw_gb_s).filter(|raw| *raw > 0.0).collect();
    let (least, most) = (raw.iter().copied().reduce(f64::min), raw.iter().copied().reduce(f64::max));
    let square = matrix.rows.len() > 1 && matrix.unit == "GB/s";
    let links = match least.zip(most).filter(|_| square) {
        Some((least, most)) if most - least < 0.05 => format!("; PCIe links carry {least:.1} GB/s each way"),
        Some((least, most)) => format!("; PCIe links carry {least:.1} to {most:.1} GB/s each way"),
        None => String::new(),
    };
    let good = matches!(test.outcome, Outcome::Pass);
    let said = if good { "no figure is worse than the test expects" } else { "see the findings of the test" };
    format!("{said}{links}")
}

/// A matrix as a table with colored cells, its scale and what was expected. Cells of a GPU with itself have no color.
pub fn heat_map(matrix: &Matrix, missed: &[FlaggedCell], expected: &str) -> Element {
    let label = |labels: &[String], n: usize| labels.get(n).cloned().unwrap_or_else(|| n.to_string());
    let own = |r: usize, c: usize| matrix.rows.len() > 1 && label(&matrix.rows, r) == label(&matrix.columns, c);
    let values = || {
        let rows = matrix.values.iter().enumerate();
        rows.flat_map(|(r, row)| row.iter().enumerate().filter(move |(c, _)| !own(r, *c)).filter_map(|(_, v)| *v))
    };
    let low = values().reduce(f64::min).unwrap_or_default();
    let high = values().reduce(f64::max).unwrap_or_default();
    let widest = matrix.values.iter().map(Vec::len).max().unwrap_or_default();
    let columns: Vec<_> = (0..widest.max(matrix.columns.len())).map(|n| label(&matrix.columns, n)).collect();
    let head: Vec<_> = [""].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let colored = |r: usize, c: usize, value: Option<f64>| {
        let Some(value) = value else { return number("") };
        let text = figure_text(value, &matrix.unit, high);
        match missed.iter().find(|m| (m.row, m.column) == (r, c)) {
            Some(m) => cell(&format!("▼ {text}"))
                .with("class", "number missed")
                .with("title", &format!("expected {}", m.expected)),
            None if own(r, c) => number(&text),
            None => cell(&text).with("class", &format!("number h{:.0}", step(value, low, high))),
        }
    };
    let line = |(r, values): (usize, &Vec<Option<f64>>)| {
        row(&label(&matrix.rows, r), values.iter().enumerate().map(|(c, value)| colored(r, c, *value)))
    };
    let unit = if matrix.unit == "1" { String::new() } else { format!(", {}", matrix.unit) };
    let mut scale = element("p").with("class", "scale").text("scale ");
    for n in 0..6_u8 {
        let at = match n {
            0 => figure_text(low, &matrix.unit, high),
            5 => figure_text(high, &matrix.unit, high),
            _ => "\u{2007}".to_owned(),
        };
        scale = scale.child(element("span").with("class", &format!("h{n}")).text(&at));
    }
    let scaled = high > low;
    let title = format!("{}{unit}", readable_name(&matrix.name));
    let caption = element("figcaption")
        .with("title", &matrix.name)
        .text(&title)
        .children(scaled.then_some(scale))
        .children((!expected.is_empty()).then(|| element("p").with("class", "dim").text(expected)));
    let table = table(None, &head, matrix.values.iter().enumerate().map(line));
    element("figure").child(caption).child(table)
}

/// The step of the scale, 0 to 5.
fn step(value: f64, low: f64, high: f64) -> f64 {
    if high <= low {
        return 2.0;
    }
    ((value - low) / (high - low) * STEPS).floor().clamp(0.0, STEPS - 1.0)
}

/// A figure with the decimals of its unit; small figures have more.
fn figure_text(value: f64, unit: &str, largest: f64) -> String {
    let decimals = match unit {
        "1" | "ns" | "B" | "bytes" | "MHz" | "C" | "lanes" => 0,
        _ => 2,
    };
    let decimals = if decimals > 0 && largest.abs() < 1.0 { decimals + 2 } else { decimals };
    format!("{value:.decimals$}")
}

/// All tables, folded; `None` if there are none.
pub(super) fn tables_of(report: &Report) -> Option<Element> {
    let all = report.tests.iter().flat_map(|test| test.tables.iter().map(|table| table_element(&test.id, table)));
    let all: Vec<_> = all.collect();
    (!all.is_empty()).then(|| section("Tables").with("id", "tables").children(all))
}

/// A table of the report; one of unknown form is shown as JSON.
fn table_element(test: &str, value: &Value) -> Element {
    let name = value["name"].as_str().unwrap_or("table");
    let title = format!("{} ({test})", readable_name(name));
    let (Some(columns), Some(rows)) = (value["columns"].as_array(), value["rows"].as_array()) else {
        return collapsible(&title, false, [element("pre").text(&format!("{value:#}"))]);
    };
    let heading = |column: &Value| match (column["heading"].as_str(), column["unit"].as_str()) {
        (Some(heading), None | Some("")) => readable_name(heading),
        (Some(heading), Some(unit)) => format!("{}, {unit}", readable_name(heading)),
        (None, _) => value_text(column, 2),
    };
    let head: Vec<_> = columns.iter().map(heading).collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    let decimals: Vec<_> = (0..columns.len()).map(|n| decimals(rows, n)).collect();
    let line = |row: &Value| match row.as_array() {
        Some(cells) => {
            let decimals = decimals.iter().copied().chain(std::iter::repeat(2));
            element("tr")
                .text("")
                .children(cells.iter().zip(decimals).map(|(value, decimals)| value_cell(value, decimals)))
        }
        None => element("tr").child(value_cell(row, 2)),
    };
    let title = format!("{title}, {} rows", rows.len());
    collapsible(&title, false, [table(None, &head, rows.iter().map(line))])
}

/// The decimals of a column: two, or four if all its figures are below 1.
fn decimals(rows: &[Value], column: usize) -> usize {
    let figures = rows.iter().filter_map(|row| row.get(column)?.as_f64());
    if figures.fold(0.0, |most: f64, figure| most.max(figure.abs())) < 1.0 { 4 } else { 2 }
}

fn value_cell(value: &Value, decimals: usize) -> Element {
    let text = value_text(value, decimals);
    if value.is_number() { number(&text) } else { cell(&text) }
}

fn value_text(value: &Value, decimals: usize) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => n.as_f64().map_or_else(String::new, |n| format!("{n:.decimals$}")),
        other => other.to_string(),
    }
}
