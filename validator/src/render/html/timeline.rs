//! When each test ran and for how long, with its outcome; and over the seconds of a load the GPUs' temperature and
//! clocks, where a test has them.

use super::curve::{Axes, Curve, curves};
use super::frame::{drawing, label, line, meaning, note, rectangle, section, short};
use crate::outcome::Outcome;
use crate::render::element::{Element, element};
use crate::render::words;
use crate::report::{Report, TestEntry};
use serde_json::Value;
use std::collections::BTreeMap;

/// Good tests that took less are counted and not drawn, seconds.
const SHORT: f64 = 0.05;
/// Height of a row.
const ROW: f64 = 17.0;
/// Where the bars begin, and how long the longest time is.
const BARS: (f64, f64) = (138.0, 170.0);
const WIDTH: f64 = 354.0;
/// The columns of a load's table that are drawn, and their names.
const LOAD: [(&str, &str, &str); 3] = [
    ("temperature", "Temperature", "°C"),
    ("SM", "Clock of the multiprocessors", "MHz"),
    ("power", "Power", "W"),
];

/// The time line; `None` if no test ran.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let bars = bars(report)?;
    let loads = report.tests.iter().flat_map(|test| test.tables.iter().flat_map(|table| load(test, table)));
    let loads: Vec<_> = loads.collect();
    let states = if loads.is_empty() {
        "No test of this report has temperatures or clocks over time; levels full and acceptance measure them."
    } else {
        "Below: temperature, clock and power of the GPUs under load; of more than six GPUs those with the highest figures."
    };
    let before = format!(
        "The first second is {} UTC, when the tests began. The report has no times of the boot before it; they are in boot.log.",
        report.started.trim_end_matches('Z').replace('T', " ")
    );
    let loads = (!loads.is_empty()).then(|| element("div").with("class", "curves").children(loads));
    Some(
        section("Time")
            .with("id", "time")
            .child(note(&before))
            .child(bars)
            .child(note(states))
            .children(loads),
    )
}

/// When a test began: as the report says, or, in reports without that, after all before it.
fn beginnings(report: &Report) -> Vec<f64> {
    let mut end = 0.0;
    let begin = |test: &TestEntry| {
        let began = test.began.unwrap_or(end);
        end = began + test.seconds;
        began
    };
    report.tests.iter().map(begin).collect()
}

fn bars(report: &Report) -> Option<Element> {
    let all: Vec<_> = report.tests.iter().zip(beginnings(report)).collect();
    let end = all.iter().map(|(test, began)| began + test.seconds).fold(report.seconds, f64::max).max(1e-3);
    let good = |t: &TestEntry| matches!(t.outcome, Outcome::Pass | Outcome::NotApplicable);
    let (drawn, left_out): (Vec<_>, Vec<_>) = all.iter().partition(|(t, _)| !good(t) || t.seconds >= SHORT);
    if all.is_empty() {
        return None;
    }
    let (left, long) = BARS;
    let x = |seconds: f64| left + seconds / end * long;
    let foot = f64::from(u16::try_from(drawn.len()).unwrap_or(u16::MAX)) * ROW + 6.0;
    let mut parts = Vec::new();
    for quarter in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = end * quarter;
        parts.push(line((x(at), 2.0), (x(at), foot), "grid"));
        if quarter != 0.25 && quarter != 0.75 {
            parts.push(label(x(at), foot + 12.0, "small dim", &axis(at, end)).with("text-anchor", "middle"));
        }
    }
    let mut told = Vec::new();
    let mut y = 2.0;
    for (test, began) in &drawn {
        let word = words::outcome(test.outcome);
        let class = meaning(word);
        parts.push(label(0.0, y + 12.0, &format!("small {class}"), &format!("{word:<5}")));
        parts.push(label(40.0, y + 12.0, "small", &test.id));
        parts.push(rectangle(
            x(*began),
            y + 2.0,
            (test.seconds / end * long).max(1.5),
            ROW - 5.0,
            &format!("bar {class}"),
        ));
        parts.push(
            label(WIDTH, y + 12.0, "small dim", &format!("{:.2} s", test.seconds)).with("text-anchor", "end"),
        );
        told.push(format!("{} {word} at {began:.1} s for {:.2} s", test.id, test.seconds));
        y += ROW;
    }
    let desc = told.join("; ");
    let svg = drawing((WIDTH, foot + 18.0), "When each test ran", &desc, parts);
    let left_out = left_out.len();
    let title = match left_out {
        0 => "All tests".to_owned(),
        n => {
            format!("{n} tests that passed or do not apply took less than {SHORT} s each, and are not drawn")
        }
    };
    let svg = (!drawn.is_empty()).then_some(svg);
    Some(element("figure").with("class", "drawn").child(element("figcaption").text(&title)).children(svg))
}

/// A time on the axis: two decimals where the whole time is short.
fn axis(at: f64, end: f64) -> String {
    if end < 2.0 { format!("{at:.2} s") } else { format!("{at:.1} s") }
}

/// The drawings of a table that has a row for each second and GPU.
fn load(test: &TestEntry, table: &Value) -> Vec<Element> {
    let heading = |name: &str| {
        table["columns"].as_array()?.iter().position(|column| column["heading"].as_str() == Some(name))
    };
    let (Some(time), Some(gpu), Some(rows)) = (heading("time"), heading("GPU"), table["rows"].as_array())
    else {
        return Vec::new();
    };
    let drawing = |(name, title, unit): &(&str, &str, &str)| {
        let column = heading(name)?;
        let mut by_gpu: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
        for row in rows {
            let at = |n: usize| row.get(n).and_then(Value::as_f64);
            let Some(number) = row.get(gpu).and_then(Value::as_u64) else { continue };
            by_gpu.entry(number).or_default().extend(at(time).zip(at(column)));
        }
        let title = format!("{title}, {}", test.id);
        let mut all: Vec<_> = by_gpu.into_iter().collect();
        // The ones with the highest figures, because those are what a reader looks for.
        let most = |points: &[(f64, f64)]| points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        all.sort_by(|(_, a), (_, b)| most(b).total_cmp(&most(a)));
        all.truncate(6);
        all.sort_by_key(|(gpu, _)| *gpu);
        let all: Vec<_> = all
            .into_iter()
            .map(|(gpu, points)| Curve {
                name: format!("GPU {gpu}, at most {}", short(most(&points))),
                points,
            })
            .collect();
        curves(&Axes { title: &title, unit, sizes: false }, &all)
    };
    LOAD.iter().filter_map(drawing).collect()
}
