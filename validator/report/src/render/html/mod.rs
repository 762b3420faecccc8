//! One self-contained page: no script, no external resources, readable on screens of any size, light or dark, and on
//! paper. The answer comes first, then what to do, then the drawings, then everything else.

pub mod curve;
pub mod figures;
mod fleet;
pub mod frame;
mod timeline;
mod topology;

use super::element::{Element, element};
use super::words;
use crate::render::group_by_key;
use crate::{Cause, Gpu, KnownProblem, Report, TestEntry, gpus_of};
pub use fleet::fleet;
use frame::{
    caption, cell, collapsible, colored, figure_table, number, page_frame, prose, row, section,
    table,
};
use machine::GpuId;
use outcome::Outcome;
use outcome::finding::{FindingEntry, Severity};
use outcome::scope::Scope;
use std::collections::BTreeSet;
use std::io;

/// The page.
///
/// # Errors
/// The XML writer's error.
pub fn page(report: &Report) -> io::Result<String> {
    let of = if report.scope == Scope::Machine {
        String::new()
    } else {
        format!(" of {}", report.scope)
    };
    let (verdict, host) = (report.verdict, words::host(report));
    let title = format!("firstlight: {verdict}{of}, {host}, {}", report.gpu_names());
    let parts = [
        Some(page_header(report)),
        above(report),
        figures::section_of(report),
        curve::section_of(report),
        timeline::section_of(report),
        section_of(report),
        Some(tests(report)),
        Some(machine(report)),
        figures::tables_of(report),
        logs(report),
    ];
    page_frame(&title, parts.into_iter().flatten())
}

/// The first matrix and the topology, beside each other where there is room.
fn above(report: &Report) -> Option<Element> {
    let parts = [figures::first_section(report), topology::section_of(report)];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| element("div").with("class", "beside").children(parts))
}

fn page_header(report: &Report) -> Element {
    let verdict = report.verdict.to_string();
    let answer = if report.answer.is_empty() {
        "no answer"
    } else {
        &report.answer
    };
    let line = format!(
        "{}; {}, {:.1} s",
        words::counts(&report.tests),
        report.started,
        report.seconds
    );
    let recorded = format!(
        "This report is about the machine in {}, not about a running one.",
        report.root
    );
    let recorded = report
        .is_recorded()
        .then(|| element("p").with("class", "note").text(&recorded));
    let all = report.causes.iter().map(|cause| remedy_item(report, cause));
    let first = element("p")
        .with("class", "first")
        .text(if report.causes.len() > 1 {
            "What to do, in this order:"
        } else {
            "What to do first:"
        });
    let some = !report.causes.is_empty();
    element("header")
        .child(
            element("p")
                .with("class", "dim")
                .text(&format!("firstlight, {}", words::host(report))),
        )
        .child(
            element("h1")
                .child(colored("strong", &verdict))
                .child(element("span").text(answer)),
        )
        .children(some.then_some(first))
        .children(some.then(|| element("ol").children(all)))
        .children(overview(report))
        .child(element("p").text(&report.gpu_names()))
        .child(element("p").text(&format!("Scope {}: {}", report.scope, report.covers)))
        .child(element("p").text(&line))
        .children(recorded)
}

/// The usual next questions of a reader, and the tests that answer them.
const OVERVIEW: [(&str, &str); 8] = [
    ("Data", "p2p-integrity"),
    ("Speed", "p2p-bandwidth"),
    ("NCCL's transport", "nccl"),
    ("NCCL's speed", "nccl-allreduce"),
    ("IOMMU", "iommu"),
    ("ACS", "acs"),
    ("PCIe links", "links"),
    ("Since the baseline", "baseline"),
];

/// The answers to the usual next questions, at the top of the page. A test that the report lacks has no row.
fn overview(report: &Report) -> Option<Element> {
    let answer = |(what, id): (&str, &str)| {
        let test = report.tests.iter().find(|test| test.id == id)?;
        Some(row(
            what,
            [
                element("td").child(outcome(test)),
                prose("td", &test.summary),
            ],
        ))
    };
    let rows: Vec<_> = OVERVIEW.into_iter().filter_map(answer).collect();
    (!rows.is_empty())
        .then(|| table(None, &["question", "outcome", "answer"], rows).with("id", "glance"))
}

/// A test's outcome in its color. A test that passed because there was nothing to measure is not green.
fn outcome(test: &TestEntry) -> Element {
    colored(
        "b",
        words::outcome(if figures::is_idle(test) {
            Outcome::NotApplicable
        } else {
            test.outcome
        }),
    )
}

/// A cause as one thing to do: the remedy first, then why.
fn remedy_item(report: &Report, cause: &Cause) -> Element {
    let gpus = report.gpus.len();
    let all = gpus * gpus.saturating_sub(1);
    let pairs = cause
        .pairs
        .map(|pairs| format!(", {} of {all} pairs", pairs.min(all)))
        .unwrap_or_default();
    let why = format!("{}{pairs} ({})", cause.says, cause.code);
    element("li")
        .child(prose("span", &cause.remedy.to_string()))
        .child(element("br"))
        .child(element("span").with("class", "dim").text(&why))
}

fn tests(report: &Report) -> Element {
    let line = |test: &TestEntry| {
        let about = format!("{}. {}", test.title, test.proves);
        element("tr")
            .child(element("td").child(outcome(test)))
            .child(
                element("th")
                    .with("scope", "row")
                    .with("title", &about)
                    .text(&test.id),
            )
            .child(prose("td", &test.summary))
            .child(number(&format!("{:.1}", test.seconds)))
    };
    let head = ["outcome", "test", "what it found", "seconds"];
    section("Tests").with("id", "tests").child(figure_table(
        None,
        &head,
        |place| place == 3,
        report.tests.iter().map(line),
    ))
}

fn machine(report: &Report) -> Element {
    let facts = words::facts(report);
    let facts = table(
        None,
        &["what", "is"],
        facts
            .iter()
            .map(|(name, value)| row(&name.replace('_', " "), [cell(value)])),
    );
    let gpu = |(number, gpu): (GpuId, &Gpu)| {
        let link = gpu
            .link
            .as_ref()
            .map(|link| format!("x{}, {:.1} GT/s", link.width, link.gts));
        let bar1 = gpu.bar1_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
        let texts = [
            gpu.name.clone(),
            gpu.uuid.clone(),
            gpu.vbios.clone(),
            bar1,
            link,
        ];
        row(
            &words::gpu(report, number),
            texts.map(|text| cell(&text.unwrap_or_default())),
        )
    };
    let head = ["GPU", "model", "id", "VBIOS", "BAR1", "link"];
    let gpus = GpuId::each(&report.gpus);
    let gpus = (!report.gpus.is_empty()).then(|| table(None, &head, gpus.map(gpu)));
    let set = |(name, value): (&String, &String)| {
        let reason = report.workload_reasons.get(name).map_or("", String::as_str);
        row(name, [cell(value), cell(reason)])
    };
    let env = report.workload_env.iter().map(set);
    let env = table(
        Some(caption("For the workload")),
        &["name", "value", "why"],
        env,
    );
    let env = (!report.workload_env.is_empty()).then_some(env);
    section("Machine")
        .with("id", "machine")
        .child(facts)
        .children(gpus)
        .children(known(report))
        .children(env)
}

/// The known problems of this machine's versions.
fn known(report: &Report) -> Option<Element> {
    let line = |problem: &KnownProblem| {
        let KnownProblem {
            id,
            says,
            seen,
            thread,
            read,
            tests,
        } = problem;
        let tests = if tests.is_empty() {
            "none".to_owned()
        } else {
            tests.join(", ")
        };
        row(
            id,
            [
                cell(says),
                cell(seen),
                cell(&tests),
                cell(&format!("{thread}, read {read}")),
            ],
        )
    };
    let head = [
        "known problem",
        "reported",
        "for this machine's",
        "may explain",
        "where",
    ];
    let rows = report.known_problems.iter().map(line);
    let about =
        caption("Reported in public for versions that this machine has: no result of a test");
    (!report.known_problems.is_empty()).then(|| table(Some(about), &head, rows).with("id", "known"))
}

fn logs(report: &Report) -> Option<Element> {
    let log = |test: &TestEntry| {
        let lines = element("pre").text(&test.log_tail.join("\n"));
        collapsible(&format!("{}: last lines", test.id), false, [lines])
    };
    let logs: Vec<_> = report
        .tests
        .iter()
        .filter(|t| !t.log_tail.is_empty())
        .map(log)
        .collect();
    (!logs.is_empty()).then(|| section("Logs").children(logs))
}

// Findings on the page: the worst first, each with its cause and remedy; the evidence is folded, and each of its lines is
// shown once; harmless findings are folded.

/// More subjects, GPUs or messages than this are counted or folded.
const MAX_LISTED: usize = 4;

/// All findings; `None` if there are none.
fn section_of(report: &Report) -> Option<Element> {
    let all = report
        .tests
        .iter()
        .flat_map(|test| test.findings.iter().map(|f| (test.id.as_str(), f)));
    let (mut bad, harmless): (Vec<_>, Vec<_>) = all.partition(|(_, f)| f.severity > Severity::Info);
    // A stable sort: findings of one severity keep the order of the tests.
    bad.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    let some = !bad.is_empty() || !harmless.is_empty();
    let mut seen = BTreeSet::new();
    let mut articles = |of: Vec<(&'_ str, &'_ FindingEntry)>| -> Vec<Element> {
        let groups = group_by_key(of, |(id, f)| {
            (
                *id,
                f.severity,
                f.code.clone(),
                f.cause.clone(),
                f.remedy.clone(),
            )
        });
        groups
            .iter()
            .filter_map(|group| finding_article(report, group, &mut seen))
            .collect()
    };
    let count = harmless.len();
    let bad = articles(bad);
    let harmless = collapsible(&format!("harmless: {count}"), false, articles(harmless));
    let section = section("Findings").with("id", "findings").children(bad);
    some.then(|| section.children((count > 0).then_some(harmless)))
}

/// Findings of one test that have one cause and one remedy.
fn finding_article(
    report: &Report,
    group: &[(&str, &FindingEntry)],
    seen: &mut BTreeSet<String>,
) -> Option<Element> {
    let (test, first) = group.first()?;
    let mut named = group_by_key(group, |(_, finding)| &finding.subject);
    let more = named.len().saturating_sub(MAX_LISTED);
    named.truncate(MAX_LISTED);
    let named: Vec<_> = named
        .iter()
        .filter_map(|same| Some(same.first()?.1))
        .collect();
    let subjects: Vec<_> = named
        .iter()
        .map(|finding| finding.subject.to_string())
        .collect();
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    let head = element("h3")
        .child(colored("b", words::severity(first.severity)))
        .child(element("span").text(&format!("{}: {}{more}", first.code, subjects.join(", "))));
    let gpus = named
        .iter()
        .flat_map(|finding| gpus_of(finding.about(), report))
        .collect::<BTreeSet<_>>();
    let gpus = gpus
        .into_iter()
        .map(|gpu| words::gpu(report, gpu))
        .collect::<Vec<_>>();
    let place = (1..=MAX_LISTED)
        .contains(&gpus.len())
        .then(|| ("where", gpus.join("; ")));
    let said = [
        ("cause", first.cause.to_string()),
        ("remedy", first.remedy.to_string()),
        ("test", (*test).to_owned()),
    ];
    let list = place.into_iter().chain(said);
    let list = list.flat_map(|(name, text)| [element("dt").text(name), prose("dd", &text)]);
    let mut messages = group
        .iter()
        .map(|(_, f)| prose("p", &f.message.to_string()));
    let shown: Vec<_> = messages.by_ref().take(MAX_LISTED).collect();
    let rest: Vec<_> = messages.collect();
    let rest =
        (!rest.is_empty()).then(|| collapsible(&format!("{} more", rest.len()), false, rest));
    let findings = group.iter().map(|(_, finding)| *finding);
    let article = element("article")
        .child(head)
        .children(shown)
        .children(rest);
    Some(
        article
            .child(element("dl").children(list))
            .children(evidence(findings, seen)),
    )
}

/// The evidence lines that no earlier article has, and the number of those that an earlier one has.
fn evidence<'a>(
    findings: impl Iterator<Item = &'a FindingEntry>,
    seen: &mut BTreeSet<String>,
) -> Option<Element> {
    let all: BTreeSet<_> = findings.flat_map(|finding| &finding.evidence).collect();
    let new: Vec<_> = all
        .iter()
        .filter(|line| seen.insert((**line).clone()))
        .collect();
    let again = match all.len() - new.len() {
        0 => String::new(),
        n => format!("; {n} of them above"),
    };
    let lines = element("pre").text(
        &new.iter()
            .map(|line| line.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    );
    let lines = (!new.is_empty()).then_some(lines);
    (!all.is_empty()).then(|| {
        collapsible(
            &format!("evidence: {} lines{again}", all.len()),
            false,
            lines,
        )
    })
}

#[cfg(test)]
mod tests;
