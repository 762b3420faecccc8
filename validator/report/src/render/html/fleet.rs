//! Many reports on one page: a table of the machines, one of their figures with the outliers marked, and what each
//! IOMMU setting of a machine costs.

use super::frame::{
    cell, colored, figure_table, number, page_frame, row, section, table, unbroken,
};
use crate::fleet::{Fleet, Machine, Sweep};
use crate::render::element::{Element, element};
use crate::render::fleet::{cost_text, detail_lines, sum, summary_cells};
use crate::summary::Summary;
use outcome::Verdict;
use outcome::text::count;
use outcome::text::names::readable_name;
use std::io;

/// The page.
///
/// # Errors
/// The XML writer's error.
pub fn fleet(fleet: &Fleet) -> io::Result<String> {
    let title = format!("firstlight: {}", sum(fleet));
    let unread = fleet.unread();
    let note = element("p")
        .with("class", "note")
        .text(&format!("{} could not be read.", count(unread, "file")));
    let head = element("header")
        .child(element("p").text("firstlight"))
        .child(element("h1").text(&headline(fleet)))
        .child(element("p").text(&sum(fleet)))
        .children((unread > 0).then_some(note));
    let sweeps = fleet.sweeps.iter().map(sweep);
    page_frame(
        &title,
        [head]
            .into_iter()
            .chain(sweeps)
            .chain([machines(fleet), figures(fleet)]),
    )
}

/// The readable name of a series: that of `ce.write` for `p2p-bandwidth/ce.write`, followed by a table's column.
fn series_name(series: &str) -> String {
    let mut parts = series.split('/').skip(1);
    let first = parts
        .next()
        .map_or_else(|| series.to_owned(), readable_name);
    [first]
        .into_iter()
        .chain(parts.map(str::to_owned))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `2 of 5 reports do not pass`, `5 reports pass`
fn headline(fleet: &Fleet) -> String {
    let all = fleet.machines.len();
    let passed = fleet
        .machines
        .iter()
        .filter(|m| {
            m.summary
                .as_ref()
                .is_some_and(|s| s.verdict == Verdict::Pass)
        })
        .count();
    match all - passed {
        0 => format!(
            "{} pass{}",
            count(all, "report"),
            if all == 1 { "es" } else { "" }
        ),
        bad => format!(
            "{bad} of {} do{} not pass",
            count(all, "report"),
            if bad == 1 { "es" } else { "" }
        ),
    }
}

/// The headings of the machines: what narrow screens show comes first.
const MACHINES: [&str; 10] = [
    "host",
    "verdict",
    "answer",
    "started",
    "pairs GB/s",
    "NCCL GB/s",
    "driver",
    "kernel",
    "GPUs",
    "differs from the others",
];

fn machines(fleet: &Fleet) -> Element {
    let of = |machine: &Machine| {
        let Some(summary) = &machine.summary else {
            let why = machine.error.as_deref().unwrap_or_default();
            let all = cell(why).with("class", "bad").with("colspan", "9");
            return row(&machine.file, [all]);
        };
        let [host, started, verdict, pairs, nccl, driver, kernel] = summary_cells(summary);
        let verdict = element("td").child(colored("b", &verdict));
        let said = |label: &str| {
            let line = detail_lines(machine)
                .into_iter()
                .find(|(name, _)| *name == label);
            line.map(|(_, text)| text).unwrap_or_default()
        };
        let recorded = if summary.recorded {
            " (a recorded machine)"
        } else {
            ""
        };
        row(
            &host,
            [
                verdict,
                cell(&said("answer")).with("class", "says"),
                unbroken(&started.replace('T', " ")),
                number(&pairs),
                number(&nccl),
                cell(&driver),
                cell(&kernel),
                cell(&(summary.gpus.clone() + recorded)).with("class", "says"),
                cell(&said("differs")).with("class", "says"),
            ],
        )
    };
    let note = "The worst first. Pairs: the slowest pair of GPUs in one direction, written or read, and the median of all.";
    section("Machines")
        .child(super::frame::note(note))
        .child(figure_table(
            None,
            &MACHINES,
            |place| matches!(place, 4 | 5),
            fleet.machines.iter().map(of),
        ))
}

/// A column for each series, with the worst and the median of a machine.
fn figures(fleet: &Fleet) -> Element {
    let series = fleet.series();
    let head: Vec<_> = series
        .iter()
        .map(|(name, unit)| format!("{}, {unit}", series_name(name)))
        .collect();
    let head: Vec<_> = ["host", "started"]
        .into_iter()
        .chain(head.iter().map(String::as_str))
        .collect();
    let of = |(machine, summary): (&Machine, &Summary)| {
        let figure = |name: &&str| {
            let Some(span) = summary.figures.get(*name) else {
                return number("");
            };
            let text = format!("{:.2} / {:.2}", span.worst, span.median);
            if machine.outliers.iter().any(|(outlier, ..)| outlier == name) {
                return number("")
                    .child(element("b").with("class", "bad").text(&format!("! {text}")));
            }
            number(&text)
        };
        row(
            &summary.host,
            [unbroken(
                summary
                    .started
                    .get(..16)
                    .unwrap_or(&summary.started)
                    .replace('T', " ")
                    .as_str(),
            )]
            .into_iter()
            .chain(series.keys().map(figure)),
        )
    };
    let rows = fleet
        .machines
        .iter()
        .filter_map(|m| Some(of((m, m.summary.as_ref()?))));
    let note = "The worst figure of each machine and its median. A figure with ! is worse than the median of machines \
                of its kind by more than the tolerance that a baseline has.";
    section("Figures")
        .child(element("p").text(note))
        .child(figure_table(None, &head, |place| place > 1, rows))
}

/// The cost of each setting: its figures, and how far each is from the best one.
fn sweep(sweep: &Sweep) -> Element {
    let settings = &sweep.settings;
    let head: Vec<_> = ["figure"]
        .into_iter()
        .chain(settings.iter().map(|s| s.setting.as_str()))
        .collect();
    let verdict =
        |name: &str, of: &dyn Fn(usize) -> Element| row(name, (0..settings.len()).map(of));
    let verdicts = verdict("verdict", &|n| {
        let word = settings
            .get(n)
            .map(|s| s.verdict.to_string())
            .unwrap_or_default();
        element("td").child(colored("b", &word))
    });
    let answers = verdict("answer", &|n| {
        cell(settings.get(n).map_or("", |s| s.answer.as_str()))
    });
    let names: std::collections::BTreeSet<_> =
        settings.iter().flat_map(|s| s.figures.keys()).collect();
    let figure = |name: &String| {
        let of = |n: usize| match settings.get(n).and_then(|s| s.figures.get(name)) {
            Some((span, ratio)) => number(&format!(
                "{:.2} {}, {}",
                span.median,
                span.unit,
                cost_text(*ratio)
            )),
            None => number("not measured"),
        };
        row(&series_name(name), (0..settings.len()).map(of)).with("title", name)
    };
    let rows: Vec<_> = [verdicts, answers]
        .into_iter()
        .chain(names.into_iter().map(figure))
        .collect();
    let note = "Each figure is the median of its pairs; behind it, how much worse it is than with the best setting.";
    section(&format!("IOMMU settings of {}", sweep.host))
        .child(element("p").text(note))
        .child(table(None, &head, rows))
}
