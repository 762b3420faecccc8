//! The measurements on the page: matrices unfolded, long tables folded, effects of switching something on.

use super::{cell, number, row, section, table};
use crate::outcome::Matrix;
use crate::render::element::{Element, element};
use crate::report::{Report, TestEntry};
use serde_json::Value;

/// Longer tables are folded.
const LONG: usize = 32;

/// All measurements; `None` if there are none.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let tests: Vec<_> = report.tests.iter().filter_map(measured).collect();
    let effects = report.effects.iter().map(|(name, ratio)| row(name, [number(&figure(*ratio))]));
    let effects = table(
        Some("Effect of switching something on, as a ratio; 1 is no change"),
        &["what", "ratio"],
        effects,
    );
    let effects = (!report.effects.is_empty()).then_some(effects);
    let some = !tests.is_empty() || effects.is_some();
    let note = element("p").text("In a matrix of GPUs rows are the source, columns the destination.");
    some.then(|| section("Measurements").child(note).children(tests).children(effects))
}

fn measured(test: &TestEntry) -> Option<Element> {
    let some = !test.matrices.is_empty() || !test.tables.is_empty();
    let head = element("h3").text(&test.id);
    let matrices =
        element("div").with("class", "matrices").text("").children(test.matrices.iter().map(matrix));
    some.then(|| element("section").child(head).child(matrices).children(test.tables.iter().map(listed)))
}

fn matrix(matrix: &Matrix) -> Element {
    let label = |labels: &[String], n: usize| labels.get(n).cloned().unwrap_or_else(|| n.to_string());
    let widest = matrix.values.iter().map(Vec::len).max().unwrap_or_default();
    let columns: Vec<_> = (0..widest.max(matrix.columns.len())).map(|n| label(&matrix.columns, n)).collect();
    let head: Vec<_> = [""].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let line = |(n, values): (usize, &Vec<Option<f64>>)| {
        row(&label(&matrix.rows, n), values.iter().map(|value| number(&figure(*value))))
    };
    let unit = if matrix.unit == "1" { String::new() } else { format!(", {}", matrix.unit) };
    let caption = format!("{}{unit}", matrix.name);
    table(Some(&caption), &head, matrix.values.iter().enumerate().map(line))
}

/// A table of the report; one of unknown form is shown as JSON.
fn listed(value: &Value) -> Element {
    let name = value["name"].as_str().unwrap_or("table");
    let (Some(columns), Some(rows)) = (value["columns"].as_array(), value["rows"].as_array()) else {
        return folded(name, false, element("pre").text(&format!("{value:#}")));
    };
    let heading = |column: &Value| match (column["heading"].as_str(), column["unit"].as_str()) {
        (Some(heading), None | Some("")) => heading.to_owned(),
        (Some(heading), Some(unit)) => format!("{heading}, {unit}"),
        (None, _) => shown(column),
    };
    let head: Vec<_> = columns.iter().map(heading).collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    let line = |row: &Value| match row.as_array() {
        Some(cells) => element("tr").text("").children(cells.iter().map(one)),
        None => element("tr").child(one(row)),
    };
    let title = format!("{name}, {} rows", rows.len());
    folded(&title, rows.len() <= LONG, table(None, &head, rows.iter().map(line)))
}

fn folded(title: &str, open: bool, inside: Element) -> Element {
    let details = element("details").child(element("summary").text(title)).child(inside);
    if open { details.with("open", "") } else { details }
}

fn one(value: &Value) -> Element {
    if value.is_number() { number(&shown(value)) } else { cell(&shown(value)) }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => figure(n.as_f64()),
        other => other.to_string(),
    }
}

/// Three decimals, six below 1, without trailing zeros; an empty text for none.
fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    let text = if value.abs() < 1.0 { format!("{value:.6}") } else { format!("{value:.3}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
