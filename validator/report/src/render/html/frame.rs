//! The frame of a page and its small parts: head, sections, tables, folded parts, and drawings. A page loads and runs
//! nothing; colors are in the style, so that they follow light, dark and paper inside drawings too.

use crate::render::element::{Element, element, html};
use std::io;

/// Nothing may be loaded or run; only the page's own style is allowed.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A whole page with this title and this content of its body.
///
/// # Errors
/// The XML writer's error.
pub fn page_frame(title: &str, body: impl IntoIterator<Item = Element>) -> io::Result<String> {
    let meta =
        |name: &str, content: &str| element("meta").with("name", name).with("content", content);
    let head = element("head")
        .child(element("meta").with("charset", "utf-8"))
        .child(
            element("meta")
                .with("http-equiv", "Content-Security-Policy")
                .with("content", POLICY),
        )
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(meta("color-scheme", "light dark"))
        .child(element("title").text(title))
        .child(element("style").text(include_str!("style.css")));
    let body = element("body").children(body);
    html(&element("html").with("lang", "en").child(head).child(body))
}

/// The color class of a word: an outcome, a severity or a verdict.
pub fn color_class(word: &str) -> &'static str {
    match word {
        "PASS" => "good",
        "WARN" | "DEGRADED" => "warn",
        "FAIL" | "ERROR" => "bad",
        _ => "dim",
    }
}

/// An element with a word in the color of its meaning: an outcome, a severity or a verdict.
#[must_use]
pub fn colored(name: &'static str, word: &str) -> Element {
    element(name).with("class", color_class(word)).text(word)
}

/// A section with its heading.
pub fn section(title: &str) -> Element {
    element("section").child(element("h2").text(title))
}

/// A paragraph that explains the part below it.
pub fn note(text: &str) -> Element {
    element("p").with("class", "dim").text(text)
}

/// A table that scrolls by itself on narrow screens.
pub fn table(
    caption: Option<Element>,
    head: &[&str],
    rows: impl IntoIterator<Item = Element>,
) -> Element {
    figure_table(caption, head, |_| false, rows)
}

/// A table of which some columns, by their place from 0, have figures: their headings are right-aligned, as the figures are.
pub fn figure_table(
    caption: Option<Element>,
    head: &[&str],
    has_figures: impl Fn(usize) -> bool,
    rows: impl IntoIterator<Item = Element>,
) -> Element {
    let cell = |(place, text): (usize, &&str)| {
        let cell = element("th").with("scope", "col");
        if has_figures(place) {
            cell.with("class", "number")
        } else {
            cell
        }
        .text(text)
    };
    let head = element("tr").children(head.iter().enumerate().map(cell));
    let table = element("table")
        .children(caption)
        .child(element("thead").child(head))
        .child(element("tbody").text("").children(rows));
    element("div").with("class", "wide").child(table)
}

/// The caption of a table.
pub fn caption(text: &str) -> Element {
    element("caption").text(text)
}

/// A row: its header and its cells.
pub fn row(head: &str, cells: impl IntoIterator<Item = Element>) -> Element {
    element("tr")
        .child(element("th").with("scope", "row").text(head))
        .children(cells)
}

/// A cell with a text.
#[must_use]
pub fn cell(text: &str) -> Element {
    element("td").text(text)
}

/// A cell with a figure.
#[must_use]
pub fn number(text: &str) -> Element {
    cell(text).with("class", "number")
}

/// A cell with a text that is not broken into lines, such as a time.
#[must_use]
pub fn unbroken(text: &str) -> Element {
    cell(text).with("class", "when")
}

/// An element with a text. Text between backticks becomes `code`.
pub fn prose(name: &'static str, text: &str) -> Element {
    let part = |whole: Element, (n, part): (usize, &str)| match n % 2 {
        _ if part.is_empty() => whole,
        0 => whole.text(part),
        _ => whole.child(element("code").text(part)),
    };
    // A backtick without its partner stays as it is.
    if text.matches('`').count() % 2 == 1 {
        element(name).text(text)
    } else {
        text.split('`').enumerate().fold(element(name), part)
    }
}

/// A part that the reader can open and close.
pub fn collapsible(title: &str, open: bool, inside: impl IntoIterator<Item = Element>) -> Element {
    let details = element("details")
        .child(element("summary").text(title))
        .children(inside);
    if open {
        details.with("open", "")
    } else {
        details
    }
}

/// A drawing of this width and height in its own units, which are pixels if there is room. It has a title and a
/// description for readers who cannot see it.
pub fn drawing(size: (f64, f64), title: &str, desc: &str, parts: Vec<Element>) -> Element {
    let (width, height) = size;
    let svg = element("svg")
        .with("role", "img")
        .with("viewBox", &format!("0 0 {width:.0} {height:.0}"))
        .with("width", &format!("{width:.0}"))
        .with("height", &format!("{height:.0}"))
        .child(element("title").text(title))
        .child(element("desc").text(desc))
        .children(parts);
    element("div").with("class", "wide").child(svg)
}

/// A text of a drawing; `x` and `y` are the left end of its baseline.
pub fn label(x: f64, y: f64, class: &str, text: &str) -> Element {
    shape("text", [("x", x), ("y", y)])
        .with("class", class)
        .text(text)
}

/// A straight line of a drawing.
pub fn line(from: (f64, f64), to: (f64, f64), class: &str) -> Element {
    shape(
        "line",
        [("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)],
    )
    .with("class", class)
}

/// A box of a drawing, with rounded corners.
pub fn rectangle(x: f64, y: f64, width: f64, height: f64, class: &str) -> Element {
    let sizes = [
        ("x", x),
        ("y", y),
        ("width", width),
        ("height", height),
        ("rx", 2.0),
    ];
    shape("rect", sizes).with("class", class)
}

/// An SVG element with numeric attributes.
pub fn shape<const N: usize>(name: &'static str, numbers: [(&'static str, f64); N]) -> Element {
    let with = |element: Element, (name, value): (&'static str, f64)| {
        element.with(name, &coordinate(value))
    };
    numbers.into_iter().fold(element(name), with)
}

/// A number as text, with one decimal at most.
pub fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
