//! One self-contained page: no script, no external resources, readable on screens of any size, light or dark, and on
//! paper. The answer comes first, then what to do, then the drawings, then everything else.

pub(crate) mod curve;
pub(crate) mod figures;
mod fleet;
mod found;
pub mod frame;
mod timeline;
mod topology;

pub use fleet::fleet;

use super::element::{Element, element};
use super::words;
use crate::outcome::scope::Scope;
use crate::report::{Cause, Gpu, Report, TestEntry};
use frame::{caption, cell, folded, framed, mark, number, row, section, table};
use std::io;

/// The page.
///
/// # Errors
/// The XML writer's error.
pub fn page(report: &Report) -> io::Result<String> {
    let of = if report.scope == Scope::Machine { String::new() } else { format!(" of {}", report.scope) };
    let (verdict, host) = (report.verdict, words::host(report));
    let title = format!("firstlight: {verdict}{of}, {host}, {}", report.gpu_names());
    let parts = [
        Some(top(report)),
        topology::section_of(report),
        figures::section_of(report),
        curve::section_of(report),
        timeline::section_of(report),
        found::section_of(report),
        Some(tests(report)),
        Some(machine(report)),
        figures::tables_of(report),
        logs(report),
    ];
    framed(&title, parts.into_iter().flatten())
}

fn top(report: &Report) -> Element {
    let verdict = report.verdict.to_string();
    let answer = if report.answer.is_empty() { "no answer" } else { &report.answer };
    let line = format!("{}; {}, {:.1} s", words::counts(&report.tests), report.started, report.seconds);
    let recorded = format!("This report is about the machine in {}, not about a running one.", report.root);
    let recorded = report.is_recorded().then(|| element("p").with("class", "note").text(&recorded));
    let all = report.causes.iter().map(|cause| todo(report, cause));
    let first = element("p").with("class", "first").text(if report.causes.len() > 1 {
        "What to do, in this order:"
    } else {
        "What to do first:"
    });
    let some = !report.causes.is_empty();
    element("header")
        .child(element("p").with("class", "dim").text(&format!("firstlight, {}", words::host(report))))
        .child(element("h1").child(mark("strong", &verdict)).child(element("span").text(answer)))
        .children(some.then_some(first))
        .children(some.then(|| element("ol").children(all)))
        .children(glance(report))
        .child(element("p").text(&report.gpu_names()))
        .child(element("p").text(&format!("Scope {}: {}", report.scope, report.covers)))
        .child(element("p").text(&line))
        .children(recorded)
}

/// What people ask next, and the tests that answer it.
const ASKED: [(&str, &str); 8] = [
    ("Data", "p2p-integrity"),
    ("Speed", "p2p-bandwidth"),
    ("NCCL's transport", "nccl"),
    ("NCCL's speed", "nccl-allreduce"),
    ("IOMMU", "iommu"),
    ("ACS", "acs"),
    ("PCIe links", "links"),
    ("Since the baseline", "baseline"),
];

/// The answers to what people ask next, on the first screen. A test that the report lacks has no row.
fn glance(report: &Report) -> Option<Element> {
    let answer = |(what, id): (&str, &str)| {
        let test = report.tests.iter().find(|test| test.id == id)?;
        let outcome = element("td").child(mark("b", words::outcome(test.outcome)));
        Some(row(what, [outcome, cell(&test.summary)]))
    };
    let rows: Vec<_> = ASKED.into_iter().filter_map(answer).collect();
    (!rows.is_empty()).then(|| table(None, &["question", "outcome", "answer"], rows).with("id", "glance"))
}

/// A cause as one thing to do: the remedy first, then why.
fn todo(report: &Report, cause: &Cause) -> Element {
    let gpus = report.gpus.len();
    let all = gpus * gpus.saturating_sub(1);
    let pairs = cause.pairs.map(|pairs| format!(", {} of {all} pairs", pairs.min(all))).unwrap_or_default();
    let why = format!("{}{pairs} ({})", cause.says, cause.code);
    element("li")
        .child(element("span").text(&cause.remedy))
        .child(element("br"))
        .child(element("span").with("class", "dim").text(&why))
}

fn tests(report: &Report) -> Element {
    let line = |test: &TestEntry| {
        let about = format!("{}. {}", test.title, test.proves);
        element("tr")
            .child(element("td").child(mark("b", words::outcome(test.outcome))))
            .child(element("th").with("scope", "row").with("title", &about).text(&test.id))
            .child(cell(&test.summary))
            .child(number(&format!("{:.1}", test.seconds)))
    };
    let head = ["outcome", "test", "what it found", "seconds"];
    section("Tests").with("id", "tests").child(table(None, &head, report.tests.iter().map(line)))
}

fn machine(report: &Report) -> Element {
    let facts = words::facts(report);
    let facts = table(None, &["what", "is"], facts.iter().map(|(name, value)| row(name, [cell(value)])));
    let gpu = |(number, gpu): (usize, &Gpu)| {
        let link = gpu.link.as_ref().map(|link| format!("x{}, {:.1} GT/s", link.width, link.gts));
        let bar1 = gpu.bar1_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
        let texts = [gpu.name.clone(), gpu.uuid.clone(), gpu.vbios.clone(), bar1, link];
        row(&words::gpu(report, number), texts.map(|text| cell(&text.unwrap_or_default())))
    };
    let head = ["GPU", "model", "id", "VBIOS", "BAR1", "link"];
    let gpus = report.gpus.iter().enumerate();
    let gpus = (!report.gpus.is_empty()).then(|| table(None, &head, gpus.map(gpu)));
    let set = |(name, value): (&String, &String)| {
        let reason = report.workload_reasons.get(name).map_or("", String::as_str);
        row(name, [cell(value), cell(reason)])
    };
    let env = report.workload_env.iter().map(set);
    let env = table(Some(caption("For the workload")), &["name", "value", "why"], env);
    let env = (!report.workload_env.is_empty()).then_some(env);
    section("Machine").with("id", "machine").child(facts).children(gpus).children(env)
}

fn logs(report: &Report) -> Option<Element> {
    let log = |test: &TestEntry| {
        let lines = element("pre").text(&test.log_tail.join("\n"));
        folded(&format!("{}: last lines", test.id), false, [lines])
    };
    let logs: Vec<_> = report.tests.iter().filter(|t| !t.log_tail.is_empty()).map(log).collect();
    (!logs.is_empty()).then(|| section("Logs").children(logs))
}

#[cfg(test)]
mod tests;
