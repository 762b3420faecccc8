//! One self-contained page: no script, no external resources, readable on screens of any size, light or dark,
//! and on paper. The verdict comes first, then what to do, then everything else.

mod figures;
mod found;

use super::element::{Element, element, html};
use super::words;
use crate::outcome::scope::Scope;
use crate::report::{Gpu, Report, TestEntry};
use std::io;

/// Nothing may be loaded or run; only the page's own style is allowed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page.
///
/// # Errors
/// The XML writer's error.
pub fn page(report: &Report) -> io::Result<String> {
    let of = if report.scope == Scope::Machine { String::new() } else { format!(" of {}", report.scope) };
    let (verdict, host) = (report.verdict, words::host(report));
    let title = format!("firstlight: {verdict}{of}, {host}, {}", report.gpu_names());
    let parts = [Some(top(report)), found::section_of(report), Some(tests(report)), Some(machine(report))];
    let rest = figures::section_of(report).into_iter().chain(logs(report));
    document(&title, parts.into_iter().flatten().chain(rest))
}

/// A page in the style of reports; it loads and runs nothing.
///
/// # Errors
/// The XML writer's error.
pub fn document(title: &str, body: impl IntoIterator<Item = Element>) -> io::Result<String> {
    let meta = |name: &str, content: &str| element("meta").with("name", name).with("content", content);
    let head = element("head")
        .child(element("meta").with("charset", "utf-8"))
        .child(element("meta").with("http-equiv", "Content-Security-Policy").with("content", POLICY))
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(meta("color-scheme", "light dark"))
        .child(element("title").text(title))
        .child(element("style").text(include_str!("style.css")));
    let body = element("body").children(body);
    html(&element("html").with("lang", "en").child(head).child(body))
}

fn top(report: &Report) -> Element {
    let verdict = report.verdict.to_string();
    let line = format!("{}; {}, {:.1} s", words::counts(&report.tests), report.started, report.seconds);
    let recorded = format!("This report is about the machine in {}, not about a running one.", report.root);
    let recorded = report.is_recorded().then(|| element("p").with("class", "note").text(&recorded));
    let first = report.causes.first();
    let first = first.map(|cause| element("p").text(&format!("First: {} ({})", cause.remedy, cause.code)));
    element("header")
        .child(element("p").text("firstlight"))
        .child(element("h1").child(mark("strong", &verdict, &verdict)))
        .child(element("p").with("class", "gpus").text(&report.answer))
        .children(first)
        .child(element("p").text(&report.gpu_names()))
        .child(element("p").text(&format!("Scope {}: {}", report.scope, report.covers)))
        .child(element("p").text(&line))
        .children(recorded)
}

/// A word in the color of its meaning.
#[must_use]
pub fn mark(name: &'static str, meaning: &str, word: &str) -> Element {
    let class = match meaning {
        "PASS" => "good",
        "WARN" | "DEGRADED" => "warn",
        "FAIL" | "ERROR" => "bad",
        _ => "dim",
    };
    element(name).with("class", class).text(word)
}

fn section(title: &str) -> Element {
    element("section").child(element("h2").text(title))
}

/// A table that scrolls by itself on narrow screens.
pub fn table(caption: Option<&str>, head: &[&str], rows: impl IntoIterator<Item = Element>) -> Element {
    let cell = |text: &&str| element("th").with("scope", "col").text(text);
    let head = element("tr").children(head.iter().map(cell));
    let table = element("table")
        .children(caption.map(|text| element("caption").text(text)))
        .child(element("thead").child(head))
        .child(element("tbody").text("").children(rows));
    element("div").with("class", "wide").child(table)
}

/// A row: its header and its cells.
fn row(head: &str, cells: impl IntoIterator<Item = Element>) -> Element {
    element("tr").child(element("th").with("scope", "row").text(head)).children(cells)
}

/// A cell with a text.
#[must_use]
pub fn cell(text: &str) -> Element {
    element("td").text(text)
}

fn tests(report: &Report) -> Element {
    let line = |test: &TestEntry| {
        let word = words::outcome(test.outcome);
        let about = format!("{}. {}", test.title, test.proves);
        element("tr")
            .child(element("td").child(mark("b", word, word)))
            .child(element("th").with("scope", "row").with("title", &about).text(&test.id))
            .child(cell(&test.summary))
            .child(number(&format!("{:.1}", test.seconds)))
    };
    let head = ["outcome", "test", "what it found", "seconds"];
    section("Tests").child(table(None, &head, report.tests.iter().map(line)))
}

/// A cell with a number.
#[must_use]
pub fn number(text: &str) -> Element {
    cell(text).with("class", "number")
}

fn machine(report: &Report) -> Element {
    let facts = words::facts(report);
    let facts = table(None, &["what", "is"], facts.iter().map(|(name, value)| row(name, [cell(value)])));
    let gpu = |gpu: &Gpu| {
        let link = gpu.link.as_ref().map(|link| format!("x{}, {} GT/s", link.width, link.gts));
        let bar1 = gpu.bar1_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
        let texts = [gpu.name.clone(), gpu.uuid.clone(), gpu.vbios.clone(), bar1, link];
        row(&gpu.bdf.to_string(), texts.map(|text| cell(&text.unwrap_or_default())))
    };
    let head = ["GPU", "model", "id", "VBIOS", "BAR1", "link"];
    let gpus = (!report.gpus.is_empty()).then(|| table(None, &head, report.gpus.iter().map(gpu)));
    let set = |(name, value): (&String, &String)| {
        let reason = report.workload_reasons.get(name).map_or("", String::as_str);
        row(name, [cell(value), cell(reason)])
    };
    let env = table(Some("For the workload"), &["name", "value", "why"], report.workload_env.iter().map(set));
    let env = (!report.workload_env.is_empty()).then_some(env);
    section("Machine").child(facts).children(gpus).children(env)
}

fn logs(report: &Report) -> Option<Element> {
    let log = |test: &TestEntry| {
        let summary = element("summary").text(&format!("{}: last lines", test.id));
        element("details").child(summary).child(element("pre").text(&test.log_tail.join("\n")))
    };
    let logs: Vec<_> = report.tests.iter().filter(|t| !t.log_tail.is_empty()).map(log).collect();
    (!logs.is_empty()).then(|| section("Logs").children(logs))
}

#[cfg(test)]
mod tests;
