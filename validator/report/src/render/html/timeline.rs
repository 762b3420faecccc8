//! When each stage of the boot and each test ran and for how long, with its outcome; and the GPUs' temperature, clocks and
//! power over the seconds of a load, if a test has measured them.

use super::curve::{Axes, Curve, curves};
use super::frame::{color_class, coordinate, drawing, label, line, note, rectangle, section};
use crate::render::element::{Element, element};
use crate::render::words;
use crate::{Report, TestEntry};
use outcome::Outcome;
use outcome::platform::GpuId;
use outcome::table::{GpuState, Table};
use std::collections::BTreeMap;

/// Good tests that took less are counted and not drawn, seconds.
const MIN_SECONDS: f64 = 0.05;
/// Height of a row.
const ROW: f64 = 17.0;
/// The left end of the bars, and the width of the whole time.
const BARS: (f64, f64) = (138.0, 170.0);
const WIDTH: f64 = 354.0;
/// A figure of a GPU's state that is drawn, its name, and its unit.
type LoadFigure = (fn(&GpuState) -> Option<f64>, &'static str, &'static str);

/// What is drawn of the states under load.
const LOAD: [LoadFigure; 3] = [
    (|state| state.temperature, "Temperature", "°C"),
    (|state| state.sm, "Clock of the multiprocessors", "MHz"),
    (|state| state.power, "Power", "W"),
];

/// The time line; `None` if no test ran.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let bars = test_bars(report)?;
    let loads = report.tests.iter().flat_map(|test| {
        test.tables
            .iter()
            .flat_map(|table| load_charts(test, table))
    });
    let loads: Vec<_> = loads.collect();
    let states = if loads.is_empty() {
        "No test of this report has temperatures or clocks over time; levels full and acceptance measure them."
    } else {
        "Below: temperature, clock and power of the GPUs under load; of more than six GPUs those with the highest figures."
    };
    let before = format!(
        "The tests began at {} UTC.",
        report.started.trim_end_matches('Z').replace('T', " ")
    );
    let loads = (!loads.is_empty()).then(|| element("div").with("class", "curves").children(loads));
    Some(
        section("Time")
            .with("id", "time")
            .children(boot_chart(report))
            .child(note(&before))
            .child(bars)
            .child(note(states))
            .children(loads),
    )
}

/// When each test began: as reported, or, in reports without that time, after all tests before it.
fn start_times(report: &Report) -> Vec<f64> {
    let mut end = 0.0;
    let begin = |test: &TestEntry| {
        let began = test.began.unwrap_or(end);
        end = began + test.seconds;
        began
    };
    report.tests.iter().map(begin).collect()
}

/// A row of a time line: its name, its outcome if it has one, when it began, and the seconds that it took.
struct Bar {
    name: String,
    outcome: Option<Outcome>,
    began: f64,
    seconds: f64,
}

/// The stages of the boot; `None` if process 1 did not start the tests.
fn boot_chart(report: &Report) -> Option<Element> {
    let bars: Vec<_> = report
        .boot
        .iter()
        .map(|s| Bar {
            name: s.stage.clone(),
            outcome: None,
            began: s.began,
            seconds: s.seconds,
        })
        .collect();
    let drawing = (!bars.is_empty()).then(|| chart("When each stage of the boot ran", &bars, 0.0));
    drawing.map(|drawing| {
        figure(
            "The boot before the tests, from the start of the kernel",
            Some(drawing),
        )
    })
}

fn test_bars(report: &Report) -> Option<Element> {
    let all = report.tests.iter().zip(start_times(report));
    let bar = |(t, began): (&TestEntry, f64)| Bar {
        name: t.id.clone(),
        outcome: Some(t.outcome),
        began,
        seconds: t.seconds,
    };
    let good = |bar: &Bar| matches!(bar.outcome, Some(Outcome::Pass | Outcome::NotApplicable));
    let (drawn, left_out): (Vec<_>, Vec<_>) = all
        .map(bar)
        .partition(|bar| !good(bar) || bar.seconds >= MIN_SECONDS);
    if drawn.is_empty() && left_out.is_empty() {
        return None;
    }
    let title = match left_out.len() {
        0 => "All tests".to_owned(),
        n => {
            format!(
                "{n} tests that passed or do not apply took less than {MIN_SECONDS} s each, and are not drawn"
            )
        }
    };
    let svg = (!drawn.is_empty()).then(|| chart("When each test ran", &drawn, report.seconds));
    Some(figure(&title, svg))
}

fn figure(title: &str, drawing: Option<Element>) -> Element {
    element("figure")
        .with("class", "drawn")
        .child(element("figcaption").text(title))
        .children(drawing)
}

/// The bars below each other, over an axis of `least` seconds or more.
fn chart(title: &str, bars: &[Bar], least: f64) -> Element {
    let end = bars
        .iter()
        .map(|bar| bar.began + bar.seconds)
        .fold(least, f64::max)
        .max(1e-3);
    let (left, long) = BARS;
    let x = |seconds: f64| left + seconds / end * long;
    let foot = f64::from(u16::try_from(bars.len()).unwrap_or(u16::MAX)) * ROW + 6.0;
    let mut parts = Vec::new();
    for quarter in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = end * quarter;
        parts.push(line((x(at), 2.0), (x(at), foot), "grid"));
        if quarter != 0.25 && quarter != 0.75 {
            parts.push(
                label(x(at), foot + 12.0, "small dim", &axis_label(at, end))
                    .with("text-anchor", "middle"),
            );
        }
    }
    let mut summaries = Vec::new();
    let mut y = 2.0;
    for Bar {
        name,
        outcome,
        began,
        seconds,
    } in bars
    {
        let word = outcome.map(words::outcome).unwrap_or_default();
        let class = outcome.map(|_| color_class(word)).unwrap_or_default();
        parts.extend(outcome.map(|_| {
            label(
                0.0,
                y + 12.0,
                &format!("small {class}"),
                &format!("{word:<5}"),
            )
        }));
        parts.push(label(40.0, y + 12.0, "small", name));
        let width = (seconds / end * long).max(1.5);
        parts.push(rectangle(
            x(*began),
            y + 2.0,
            width,
            ROW - 5.0,
            &format!("bar {class}"),
        ));
        parts.push(
            label(WIDTH, y + 12.0, "small dim", &format!("{seconds:.2} s"))
                .with("text-anchor", "end"),
        );
        summaries.push(format!("{name} {word} at {began:.1} s for {seconds:.2} s"));
        y += ROW;
    }
    drawing((WIDTH, foot + 18.0), title, &summaries.join("; "), parts)
}

/// A time on the axis: two decimals if the whole time is short.
fn axis_label(at: f64, end: f64) -> String {
    if end < 2.0 {
        format!("{at:.2} s")
    } else {
        format!("{at:.1} s")
    }
}

/// The drawings of a table that has the states of GPUs over time.
fn load_charts(test: &TestEntry, table: &Table) -> Vec<Element> {
    let table = table.known();
    let states = table.states();
    let drawing = |(figure, title, unit): &LoadFigure| {
        let mut by_gpu: BTreeMap<GpuId, Vec<(f64, f64)>> = BTreeMap::new();
        for (time, state) in &states {
            let point = figure(state)
                .map(|value| (*time, value))
                .filter(|(time, _)| time.is_finite());
            by_gpu.entry(state.gpu).or_default().extend(point);
        }
        let title = format!("{title}, {}", test.id);
        let mut all: Vec<_> = by_gpu.into_iter().collect();
        // The GPUs with the highest figures are kept, because a reader looks for those.
        let most = |points: &[(f64, f64)]| points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        all.sort_by(|(_, a), (_, b)| most(b).total_cmp(&most(a)));
        all.truncate(6);
        all.sort_by_key(|(gpu, _)| *gpu);
        let all: Vec<_> = all
            .into_iter()
            .map(|(gpu, points)| Curve {
                name: format!("GPU {gpu}, at most {}", coordinate(most(&points))),
                points,
            })
            .collect();
        curves(
            &Axes {
                title: &title,
                unit,
                sizes: false,
            },
            &all,
        )
    };
    LOAD.iter().filter_map(drawing).collect()
}
