//! The content of the page, and that no report can inject markup.

use super::*;
use crate::outcome::finding::{Code, Severity};
use crate::outcome::{Matrix, Outcome};
use crate::render::fixture::{gpu, report, test};
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::json;
use std::collections::BTreeSet;

/// The page is also well-formed XML, so a parser separates markup from text.
#[track_caller]
fn parsed<T>(report: &Report, ask: impl Fn(Node<'_, '_>) -> T) -> T {
    let text = page(report).unwrap();
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).unwrap_or_else(|e| panic!("{e}: {text}"));
    ask(document.root_element())
}

fn texts(root: Node<'_, '_>, name: &str) -> Vec<String> {
    let of = |node: Node<'_, '_>| {
        node.descendants().filter(Node::is_text).filter_map(|n| n.text()).map(str::trim).collect::<String>()
    };
    root.descendants().filter(|n| n.has_tag_name(name)).map(of).collect()
}

fn full() -> Report {
    let found = |code: Code, severity| code.finding(severity, "port <1>", "seen & told").seen("kmsg: x");
    let mut broken = test(
        "acs",
        Outcome::Fail,
        "1 port redirects",
        vec![found(Code::LinkSlow, Severity::Info), found(Code::AcsRedirect, Severity::Fail)],
    );
    broken.log_tail = vec!["one".into(), "two".into()];
    let mut measured =
        test("p2p-bandwidth", Outcome::Warn, "slow", vec![found(Code::P2pSlow, Severity::Warn)]);
    measured.matrices = vec![Matrix {
        name: "ce.write".into(),
        unit: "GB/s".into(),
        rows: vec!["0".into(), "1".into()],
        columns: vec!["0".into(), "1".into()],
        values: vec![vec![None, Some(20.6)], vec![Some(26.0), None]],
    }];
    let columns = json!([{ "heading": "size", "unit": "bytes" }, { "heading": "via", "unit": "" }]);
    measured.tables = vec![
        json!({ "name": "by-size", "columns": columns, "rows": [[4096, "SHM"], [8192, 0.000_697_641]] }),
        json!(["of another shape"]),
    ];
    let mut report = report(vec![broken, measured]);
    report.gpus = vec![gpu("Simulated NVIDIA H200")];
    report.root = "/sim/machine".into();
    report.effects.insert("p2p_speedup_1M".into(), Some(1.43));
    report.workload_env.insert("NCCL_P2P_LEVEL".into(), "SYS".into());
    report.workload_reasons.insert("NCCL_P2P_LEVEL".into(), "pairs reach each other".into());
    report
}

#[test]
fn the_page_starts_with_the_verdict_and_the_machine() {
    parsed(&full(), |root| {
        assert_eq!(root.attribute("lang"), Some("en"));
        assert_eq!(texts(root, "title"), ["firstlight: FAIL, node7, 1 x Simulated NVIDIA H200"]);
        assert_eq!(texts(root, "h1"), ["FAIL"]);
        let top = texts(root, "header").concat();
        for words in ["1 x Simulated NVIDIA H200", "1 failed, 1 warned", "the machine in /sim/machine"] {
            assert!(top.contains(words), "{top}");
        }
    });
    let real = Report { root: "/".into(), ..full() };
    assert!(!page(&real).unwrap().contains("recorded"));
}

#[test]
fn every_test_finding_and_measurement_is_there() {
    let report = full();
    parsed(&report, |root| {
        let rows = texts(root, "tr");
        for row in [
            "FAILacs1 port redirects0.0",
            "WARNp2p-bandwidthslow0.0",
            "NCCL_P2P_LEVELSYSpairs reach each other",
            "0 20.6",
            "1 26",
            "p2p_speedup_1M1.43",
            "4096SHM",
            "81920.000698",
        ] {
            let row = row.replace(' ', "");
            assert!(
                rows.iter().any(|r| r.replace(' ', "").ends_with(&row) || r.replace(' ', "") == row),
                "{row}: {rows:?}"
            );
        }
        let heads: Vec<_> =
            root.descendants().filter(|n| n.has_tag_name("th")).map(|n| n.attribute("scope")).collect();
        assert!(heads.contains(&Some("row")) && heads.contains(&Some("col")) && !heads.contains(&None));
        assert!(texts(root, "caption").contains(&"ce.write, GB/s".to_owned()));
        let articles = texts(root, "article");
        assert_eq!(articles.len(), 3);
        for (article, (finding, place)) in articles.iter().zip([
            (&report.tests[0].findings[1], "FAIL"),
            (&report.tests[1].findings[0], "WARN"),
            (&report.tests[0].findings[0], "INFO"),
        ]) {
            assert!(article.starts_with(&format!("{place}{}: port <1>", finding.code)), "{article}");
            for part in [&finding.message, &finding.cause, &finding.remedy, &finding.evidence[0]] {
                assert!(article.contains(part.as_str()), "{article} lacks {part}");
            }
        }
        let folded = texts(root, "details");
        assert!(folded.iter().any(|d| d == "acs: last linesone\ntwo"), "{folded:?}");
        assert!(folded.iter().any(|d| d.contains("of another shape")), "{folded:?}");
    });
}

#[test]
fn a_machine_without_anything_has_a_page() {
    parsed(&report(vec![]), |root| {
        assert_eq!(texts(root, "h2"), ["Tests", "Machine"]);
        assert!(texts(root, "header").concat().contains("no test ran"));
    });
}

#[test]
fn the_page_loads_and_runs_nothing() {
    let text = page(&full()).unwrap();
    assert!(
        text.starts_with("<!DOCTYPE html>\n<html lang=\"en\">\n <head>\n  <meta charset=\"utf-8\"/>\n"),
        "{text}"
    );
    // A style is not unescaped by a reader of HTML.
    let style = text.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
    assert!(!style.contains('&') && !style.contains("url(") && !style.contains("@import"), "{style}");
    parsed(&full(), |root| {
        let known: BTreeSet<_> =
            root.descendants().filter(Node::is_element).map(|n| n.tag_name().name()).collect();
        let ours = [
            "article", "b", "body", "caption", "dd", "details", "div", "dl", "dt", "h1", "h2", "h3", "head",
            "header", "html", "meta", "p", "pre", "section", "span", "strong", "style", "summary", "table",
            "tbody", "td", "th", "thead", "title", "tr",
        ];
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ours);
        let attributes: BTreeSet<_> =
            root.descendants().flat_map(|n| n.attributes().map(|a| a.name()).collect::<Vec<_>>()).collect();
        let ours = ["charset", "class", "content", "http-equiv", "lang", "name", "open", "scope", "title"];
        assert_eq!(attributes.into_iter().collect::<Vec<_>>(), ours);
        let policy =
            root.descendants().find(|n| n.attribute("http-equiv") == Some("Content-Security-Policy"));
        assert!(
            policy
                .unwrap()
                .attribute("content")
                .unwrap()
                .starts_with("default-src 'none'; style-src 'unsafe-inline'")
        );
    });
    // HTML takes the end of an element only from `meta` in its start.
    assert_eq!(text.matches("/>").count(), text.matches("<meta ").count());
}

/// All markup of a page: its elements with the names of their attributes.
fn markup(report: &Report) -> Vec<String> {
    parsed(report, |root| {
        let all = root.descendants().filter(Node::is_element);
        all.map(|n| n.attributes().fold(n.tag_name().name().to_owned(), |text, a| text + " " + a.name()))
            .collect()
    })
}

fn saying(text: &str) -> Report {
    let finding = Code::CpusLost.finding(Severity::Fail, text, text).seen(text).because(text).remedy(text);
    let mut entry = test(text, Outcome::Fail, text, vec![finding]);
    entry.log_tail = vec![text.into()];
    entry.matrices = vec![Matrix {
        name: text.into(),
        unit: text.into(),
        rows: vec![text.into()],
        columns: vec![text.into()],
        values: vec![vec![Some(1.0)]],
    }];
    entry.tables = vec![json!({ "name": text, "columns": [text], "rows": [[text]] })];
    let mut report = Report { root: "/x".to_owned() + text, started: text.into(), ..report(vec![entry]) };
    report.gpus = vec![gpu(text)];
    report.effects.insert(text.into(), Some(1.0));
    report.workload_env.insert(text.into(), text.into());
    report.workload_reasons.insert(text.into(), text.into());
    report
}

#[test]
fn markup_in_a_report_is_shown_as_text() {
    let plain = markup(&saying("plain"));
    for text in
        ["<script>alert(1)</script>", "--></style></pre><img src=x onerror=y>", "\"><b onclick='x'>&lt;"]
    {
        let hostile = saying(text);
        assert_eq!(markup(&hostile), plain);
        assert!(!page(&hostile).unwrap().contains("<script"));
        parsed(&hostile, |root| assert!(texts(root, "article").concat().contains(text)));
    }
}

proptest! {
    #[test]
    fn no_text_of_a_report_becomes_markup(text in any::<String>(), sharp in "[<>&'\"/!\\-\\]a=\0-\u{1f}]{0,30}") {
        let plain = markup(&saying("plain"));
        for text in [&text, &sharp] {
            prop_assert_eq!(&markup(&saying(text)), &plain);
        }
    }
}
