//! The HTML pages, without scripts: the nodes, the reports by time, and the history of one node. Every text of a
//! report is escaped by the element writer. Pure.

use crate::intake::VERDICTS;
use crate::order::{NoStart, began};
use crate::query::{Page, ROWS, RowFilter, StoredReport};
use report::render::element::{Element, element};
use report::render::html::frame::{
    cell, colored, figure_table, number, page_frame, table, unbroken,
};
use report::stats::median;
use std::io;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The minimum deviation at which a figure worse than before is marked, as a fraction of the median.
const WORSE: f64 = 0.1;
const HEAD: [&str; 7] = [
    "verdict",
    "first cause",
    "GPUs",
    "level",
    "received",
    "run began",
    "MAC",
];

/// How many of these cells come before the figures in the history of a node.
const BEFORE_FIGURES: usize = 2;

/// A time in seconds since 1970, as text.
fn moment(seconds: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(seconds).ok();
    at.and_then(|at| at.format(&Rfc3339).ok())
        .map_or_else(|| seconds.to_string(), |text| short(&text))
}

/// A time without its seconds, `2026-11-27 08:02`, if it is one in UTC; another text as it is.
fn short(text: &str) -> String {
    match (
        OffsetDateTime::parse(text, &Rfc3339),
        text.get(..10),
        text.get(11..16),
    ) {
        (Ok(at), Some(day), Some(minute)) if at.offset().is_utc() => format!("{day} {minute}"),
        _ => text.to_owned(),
    }
}

/// `1 node`, `2 nodes`
fn counted(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn link(to: &str, text: &str) -> Element {
    element("a")
        .with("href", to)
        .text(if text.is_empty() { "unknown" } else { text })
}

fn paragraph(text: &str) -> Element {
    element("p").text(text)
}

/// The cells that every list has.
fn cells(row: &StoredReport) -> Vec<Element> {
    let about = if row.scope == "machine" {
        String::new()
    } else {
        format!(" of {}", row.scope)
    };
    let verdict = element("td")
        .child(
            element("a")
                .with("href", &format!("/report/{}?to=html", row.digest))
                .child(colored("b", &row.verdict)),
        )
        .child(element("span").text(&about));
    let code = row.codes.split(' ').next().unwrap_or("");
    let cause = if code.is_empty() {
        row.says.clone()
    } else {
        format!("{code}: {}", row.says)
    };
    let signed = if row.signed { "right" } else { "unsigned" };
    let (began, about) = started(row);
    let began = unbroken(&began).with(
        "title",
        &format!(
            "{}; times are in UTC",
            row.started.as_deref().unwrap_or("unknown")
        ),
    );
    let began = if about.is_empty() {
        began
    } else {
        began.child(element("p").with("class", "dim").text(&about))
    };
    vec![
        verdict,
        cell(&cause).with("class", "says"),
        cell(&row.gpus),
        cell(&row.level),
        unbroken(&moment(row.received)),
        began,
        cell(signed),
    ]
}

/// When the run began, and what its place among the reports of its node follows from.
fn started(row: &StoredReport) -> (String, String) {
    let text = row
        .started
        .as_deref()
        .map_or_else(|| "unknown".to_owned(), short);
    let by = match began(row.started.as_deref(), row.received) {
        Ok(_) => None,
        Err(NoStart::None) => Some("by arrival"),
        Err(NoStart::Unset) => Some("by arrival: the clock was not set"),
        Err(NoStart::Later) => Some("by arrival: it is after the arrival"),
    };
    let parts: Vec<_> = by.into_iter().chain(row.late.then_some("late")).collect();
    (text, parts.join("; "))
}

/// What the order of reports means.
const ORDER: &str = "The newest report of a node is the one whose run began last. Where that cannot be true, or is unknown, its \
    arrival counts instead. A late report arrived after the report of a later run: it may make a node's verdict worse, but never \
    better.";

fn host(row: &StoredReport) -> Element {
    element("th")
        .with("scope", "row")
        .child(link(&format!("/node/{}", row.node), &row.host))
}

/// Links to the other pages of a list.
fn pager(base: &str, number: u32, more: bool) -> Element {
    let other = |number: u32, text: &str| {
        element("span")
            .child(link(&format!("{base}page={number}"), text))
            .text(" ")
    };
    let newer = (number > 1).then(|| other(number - 1, "newer"));
    let older = more.then(|| other(number.saturating_add(1), "older"));
    paragraph(&format!("Page {number}. "))
        .children(newer)
        .children(older)
}

/// The nodes with their newest reports.
///
/// # Errors
/// The writer's error.
pub(crate) fn nodes(
    page: &Page,
    (counts, reports): &(Vec<(String, u32)>, u32),
    filter: &RowFilter,
) -> io::Result<String> {
    let count = |name: &str| {
        counts
            .iter()
            .find(|(verdict, _)| verdict == name)
            .map_or(0, |(_, count)| *count)
    };
    let all: u32 = counts.iter().map(|(_, count)| *count).sum();
    let head = element("header")
        .child(paragraph("firstlight"))
        .child(element("h1").text(&headline(all, &count)))
        .child(paragraph(&format!(
            "Stored: {}. The newest of each node, the worst first:",
            counted(*reports, "report")
        )));
    list("/", head, page, filter, count)
}

/// `2 of 5 nodes do not pass`, `5 nodes pass`
fn headline(all: u32, count: &impl Fn(&str) -> u32) -> String {
    match all.saturating_sub(count("PASS")) {
        _ if all == 0 => counted(0, "node"),
        0 => format!(
            "{} pass{}",
            counted(all, "node"),
            if all == 1 { "es" } else { "" }
        ),
        bad => format!(
            "{bad} of {} do{} not pass",
            counted(all, "node"),
            if bad == 1 { "es" } else { "" }
        ),
    }
}

/// All reports by time.
///
/// # Errors
/// The writer's error.
pub(crate) fn reports(page: &Page, all: u32, filter: &RowFilter) -> io::Result<String> {
    let head = element("header")
        .child(paragraph("firstlight"))
        .child(element("h1").text(&counted(all, "report")))
        .child(paragraph("Those that arrived last come first:"));
    list("/reports", head, page, filter, |_| 0)
}

fn list(
    path: &str,
    head: Element,
    page: &Page,
    filter: &RowFilter,
    count: impl Fn(&str) -> u32,
) -> io::Result<String> {
    let links = VERDICTS.map(|verdict| verdict.to_string()).map(|verdict| {
        let number = if path == "/" {
            format!(" {}", count(&verdict))
        } else {
            String::new()
        };
        let word = element("a")
            .with("href", &format!("{path}?verdict={verdict}"))
            .child(colored("b", &verdict));
        element("span").child(word).text(&format!("{number}; "))
    });
    let filters = element("p")
        .children(links)
        .child(link(path, "all verdicts"))
        .text("; ");
    let filters = filters.child(if path == "/" {
        link("/reports", "by time")
    } else {
        link("/", "by node")
    });
    let base = filter
        .verdict
        .as_ref()
        .map_or(format!("{path}?"), |verdict| {
            format!("{path}?verdict={verdict}&")
        });
    let line = |row: &StoredReport| element("tr").child(host(row)).children(cells(row));
    let heads: Vec<_> = ["node"].into_iter().chain(HEAD).collect();
    let title = format!(
        "firstlight: {}",
        if path == "/" { "nodes" } else { "reports" }
    );
    let body = [
        head,
        filters,
        table(None, &heads, page.rows.iter().map(line)),
        paragraph(ORDER),
        pager(&base, filter.page, page.more),
    ];
    page_frame(&title, body)
}

/// The history of a node: its reports, and how their figures differ from earlier ones. `behind` are the reports
/// before the page's.
///
/// # Errors
/// The writer's error.
pub(crate) fn history(
    page: &Page,
    behind: &[StoredReport],
    number_of_page: u32,
) -> io::Result<String> {
    let newest = page.rows.first();
    let (node, name) = newest.map_or(("", "unknown"), |row| {
        (row.node.as_str(), row.host.as_str())
    });
    let title = format!("firstlight: {name}");
    let figures = ["slowest pair, GB/s", "all_reduce, GB/s", "run, s"];
    // The figures before what says less on a narrow screen.
    let (first, others) = HEAD.split_at(BEFORE_FIGURES);
    let heads: Vec<_> = first
        .iter()
        .chain(&figures)
        .chain(others)
        .copied()
        .collect();
    let line = |(at, row): (usize, &StoredReport)| {
        let before = page.rows.iter().skip(at + 1).chain(behind);
        let alike =
            |earlier: &&StoredReport| earlier.level == row.level && earlier.gpus == row.gpus;
        let before: Vec<_> = before
            .filter(alike)
            .take(ROWS)
            .map(|earlier| earlier.figures)
            .collect();
        // More is better, except for seconds.
        let of = |figure: fn(&[Option<f64>; 3]) -> Option<f64>, sign: f64| {
            drift(
                figure(&row.figures),
                &before
                    .iter()
                    .filter_map(figure)
                    .filter(|figure| *figure > 0.0)
                    .collect::<Vec<_>>(),
                sign,
            )
        };
        let drifts = [
            of(|[pair, ..]| *pair, 1.0),
            of(|[_, busbw, _]| *busbw, 1.0),
            of(|[.., took]| *took, -1.0),
        ];
        let mut first = cells(row);
        let others = first.split_off(BEFORE_FIGURES.min(first.len()));
        element("tr")
            .children(first)
            .children(drifts)
            .children(others)
    };
    let has_figures = |place| (BEFORE_FIGURES..BEFORE_FIGURES + figures.len()).contains(&place);
    let rows = figure_table(
        None,
        &heads,
        has_figures,
        page.rows.iter().enumerate().map(line),
    );
    let remark = format!(
        "The slowest pair has the lowest figure of one direction, written or read. In brackets: the difference from the median of the node's earlier reports of the same level and GPUs, up to {ROWS}."
    );
    let body = [
        element("header")
            .child(paragraph("firstlight"))
            .child(element("h1").text(name)),
        element("p")
            .text("Node ")
            .child(element("code").text(node))
            .text("; ")
            .child(link("/", "all nodes")),
        rows,
        paragraph(&remark),
        paragraph(ORDER),
        pager(&format!("/node/{node}?"), number_of_page, page.more),
    ];
    page_frame(&title, body)
}

/// A figure, and how it differs from the median of earlier ones; `sign`: -1 if less is better.
fn drift(figure: Option<f64>, earlier: &[f64], sign: f64) -> Element {
    let Some(figure) = figure else {
        return number("");
    };
    let Ok(median) = median(earlier) else {
        return number(&format!("{figure:.1}"));
    };
    let part = figure / median - 1.0;
    let text = format!("{figure:.1} ({:+.1} %)", part * 100.0);
    let worse = part * sign <= -WORSE;
    let text = if worse {
        element("b").with("class", "warn").text(&text)
    } else {
        element("span").text(&text)
    };
    element("td").with("class", "number wraps").child(text)
}
