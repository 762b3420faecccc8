//! Reads the output with an XML parser that refuses malformed input, as a CI system does.

use super::*;
use crate::render::fixture::{gpu, report, test};
use outcome::finding::Code;
use outcome::finding::Subject;
use proptest::prelude::*;
use roxmltree::{Document, Node};

#[track_caller]
fn parsed<T>(report: &Report, ask: impl Fn(Node<'_, '_>) -> T) -> T {
    let text = suites(report).unwrap();
    let document = Document::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    ask(document.root_element())
}

/// The only element of that name below `node`.
#[track_caller]
fn one<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Node<'a, 'i> {
    let mut all = node.descendants().filter(|n| n.has_tag_name(name));
    let found = all.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(all.next().is_none(), "another {name}");
    found
}

fn property(report: &Report, name: &str) -> Option<String> {
    parsed(report, |root| {
        let mut all = root.descendants().filter(|n| n.has_tag_name("property"));
        all.find(|n| n.attribute("name") == Some(name))
            .map(|n| n.attribute("value").unwrap().to_owned())
    })
}

/// The attributes that Jenkins' junit-10.xsd allows, for the elements that are written here.
fn allowed(element: &str) -> &'static [&'static str] {
    match element {
        "testsuites" => &["name", "time", "tests", "failures", "errors"],
        "testsuite" => &[
            "name",
            "time",
            "tests",
            "failures",
            "errors",
            "group",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        ],
        "testcase" => &["name", "time", "classname", "group"],
        "property" => &["name", "value"],
        "failure" | "error" | "skipped" => &["type", "message"],
        _ => &[],
    }
}

/// Those that it requires, and the elements that may be inside.
fn required(element: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match element {
        "testsuites" => (&[], &["testsuite"]),
        "testsuite" => (
            &["name", "tests", "failures", "errors"],
            &[
                "testsuite",
                "properties",
                "testcase",
                "system-out",
                "system-err",
            ],
        ),
        "testcase" => (
            &["name"],
            &["skipped", "error", "failure", "system-out", "system-err"],
        ),
        "properties" => (&[], &["property"]),
        "property" => (&["name", "value"], &[]),
        _ => (&[], &[]),
    }
}

#[test]
fn elements_have_only_the_attributes_of_the_schema() {
    let outcomes = [
        Outcome::Pass,
        Outcome::Fail,
        Outcome::Error,
        Outcome::NotApplicable,
    ];
    let found = || {
        vec![Code::CpusLost.finding(Severity::Fail, Subject::Machine, "1 is online, expected 2")]
    };
    parsed(
        &report(
            outcomes
                .map(|outcome| test("a", outcome, "said", found()))
                .to_vec(),
        ),
        |root| {
            for node in root.descendants().filter(Node::is_element) {
                let name = node.tag_name().name();
                for attribute in node.attributes() {
                    assert!(
                        allowed(name).contains(&attribute.name()),
                        "{name} {}",
                        attribute.name()
                    );
                }
                let (attributes, inside) = required(name);
                assert!(
                    attributes
                        .iter()
                        .all(|attribute| node.has_attribute(*attribute)),
                    "{name}"
                );
                for child in node.children().filter(Node::is_element) {
                    assert!(
                        inside.contains(&child.tag_name().name()),
                        "{name}: {}",
                        child.tag_name().name()
                    );
                }
                // SUREFIRE_TIME: digits with at most one point.
                let time = node.attribute("time").unwrap_or("0");
                assert!(
                    time.parse::<f64>().is_ok()
                        && time.bytes().all(|b| b.is_ascii_digit() || b == b'.'),
                    "{time}"
                );
            }
        },
    );
}

#[test]
fn every_outcome_has_its_junit_form() {
    let found = |severity| {
        vec![Code::CpusLost.finding(severity, Subject::Machine, "1 is online, expected 2")]
    };
    let tests = vec![
        test("a", Outcome::Pass, "fine", vec![]),
        test("b", Outcome::Warn, "less", found(Severity::Warn)),
        test("c", Outcome::Fail, "broken", found(Severity::Fail)),
        test("d", Outcome::Error, "unknown", found(Severity::Error)),
        test("e", Outcome::NotApplicable, "no GPU", vec![]),
    ];
    parsed(&report(tests), |root| {
        for suite in [root, one(root, "testsuite")] {
            let counted =
                ["tests", "failures", "errors", "time"].map(|a| suite.attribute(a).unwrap());
            assert_eq!(counted, ["5", "1", "1", "12.440"]);
        }
        assert_eq!(one(root, "testsuite").attribute("skipped"), Some("1"));
        assert_eq!(
            one(root, "testsuite").attribute("timestamp"),
            Some("2026-11-20T12:00:00")
        );
        let cases: Vec<_> = root
            .descendants()
            .filter(|n| n.has_tag_name("testcase"))
            .collect();
        let said: Vec<_> = cases
            .iter()
            .map(|case| {
                let first = case.first_element_child().unwrap();
                let name = case.attribute("name").unwrap();
                (
                    name,
                    first.tag_name().name(),
                    first.attribute("message"),
                    first.attribute("type"),
                )
            })
            .collect();
        let expected = [
            ("a", "system-out", None, None),
            ("b", "system-out", None, None),
            ("c", "failure", Some("broken"), Some("CPUS-LOST")),
            ("d", "error", Some("unknown"), Some("CPUS-LOST")),
            ("e", "skipped", Some("no GPU"), None),
        ];
        assert_eq!(said, expected);
        let failure = one(root, "failure").text().unwrap();
        for words in [
            "FAIL CPUS-LOST machine\n",
            "1 is online, expected 2",
            "cause   ",
            "remedy  ",
        ] {
            assert!(failure.contains(words), "{failure}");
        }
        let warned = one(cases[1], "system-out").text().unwrap();
        assert!(
            warned.starts_with("WARN  less\nWARN CPUS-LOST machine\n"),
            "{warned}"
        );
        assert_eq!(cases[0].attribute("time"), Some("0.040"));
    });
}

#[test]
fn the_last_lines_of_a_worker_are_in_the_output_of_the_case() {
    let mut entry = test("cuda", Outcome::Error, "the worker died", vec![]);
    entry.log_tail = vec!["before <it> & after".to_owned(), "\u{1b}[31mred".to_owned()];
    parsed(&report(vec![entry]), |root| {
        let said = one(root, "system-out").text().unwrap();
        assert!(
            said.contains("  before <it> & after\n  ?[31mred\n"),
            "{said}"
        );
        assert_eq!(one(root, "error").attribute("type"), Some("ERROR"));
    });
}

#[test]
fn properties_name_the_verdict_the_driver_and_simulated_gpus() {
    let mut good = report(vec![test("a", Outcome::Pass, "fine", vec![])]);
    assert_eq!(property(&good, "driver").as_deref(), Some("none"));
    assert_eq!(property(&good, "recorded"), None);
    good.driver.module = Some("555.58.02".to_owned());
    good.root = "/sim/machine".to_owned();
    good.gpus = vec![
        gpu("Simulated NVIDIA H200"),
        gpu("NVIDIA H200"),
        gpu("NVIDIA H200"),
    ];
    let all = ["verdict", "driver", "level", "recorded", "gpus"]
        .map(|name| property(&good, name).unwrap());
    let gpus = "1 x Simulated NVIDIA H200, 2 x NVIDIA H200";
    assert_eq!(all, ["PASS", "555.58.02", "standard", "/sim/machine", gpus]);
}

#[test]
fn a_known_problem_is_a_property_and_the_end_of_the_failure_that_it_may_explain() {
    let finding = Code::P2pWrongData.finding(Severity::Fail, Subject::Machine, "zeros arrive");
    let fails = |id: &str| test(id, Outcome::Fail, "zeros arrive", vec![finding.clone()]);
    let mut bad = report(vec![
        fails("p2p-integrity"),
        fails("p2p-order"),
        test("nccl", Outcome::Pass, "fine", vec![]),
    ]);
    bad.known_problems = vec![crate::KnownProblem {
        id: "x".to_owned(),
        says: "data arrives wrong".to_owned(),
        seen: "driver 580.142".to_owned(),
        thread: "https://example.org/1".to_owned(),
        read: "2026-11-27".to_owned(),
        tests: vec!["p2p-integrity".to_owned(), "nccl".to_owned()],
    }];
    let sentence = "driver 580.142: data arrives wrong (read 2026-11-27, https://example.org/1)";
    assert_eq!(property(&bad, "known_problem").as_deref(), Some(sentence));
    parsed(&bad, |root| {
        let failures: Vec<_> = root
            .descendants()
            .filter(|n| n.has_tag_name("failure"))
            .collect();
        let ends = format!("possible, and not shown by any test: {sentence}\n");
        let quoted: Vec<_> = failures
            .iter()
            .map(|n| n.text().unwrap().ends_with(&ends))
            .collect();
        assert_eq!(quoted, [true, false]);
        let outputs: Vec<_> = root
            .descendants()
            .filter(|n| n.has_tag_name("system-out"))
            .collect();
        assert!(
            !outputs
                .iter()
                .any(|n| n.text().unwrap().contains("example.org"))
        );
    });
}

#[test]
fn a_bad_verdict_that_no_test_explains_is_an_error() {
    let mut forged = report(vec![test("a", Outcome::Pass, "fine", vec![])]);
    forged.verdict = Verdict::Fail;
    for (report, tests, message) in [
        (report(vec![]), "1", "verdict ERROR: no test ran"),
        (forged, "2", "verdict FAIL: 1 passed"),
    ] {
        parsed(&report, |root| {
            assert_eq!(one(root, "error").attribute("message"), Some(message));
            assert_eq!(
                (root.attribute("tests"), root.attribute("errors")),
                (Some(tests), Some("1"))
            );
        });
    }
}

proptest! {
    #[test]
    fn no_text_of_a_report_breaks_the_document(text in any::<String>(), ends in "[\\PC\0-\u{1f}<>&'\"\\]\\-\u{fffe}\u{ffff}]{0,40}") {
        for text in [&text, &ends] {
            let finding = Code::CpusLost.finding(Severity::Fail, text, text.as_str()).seen(text.as_str());
            let mut entry = test(text, Outcome::Fail, text, vec![finding]);
            entry.log_tail = vec![text.clone()];
            let hostile = Report { root: text.clone(), started: text.clone(), ..report(vec![entry]) };
            let written = suites(&hostile).unwrap();
            let document = Document::parse(&written).unwrap();
            let names: Vec<_> = document.descendants().filter(Node::is_element).map(|n| n.tag_name().name()).collect();
            prop_assert_eq!(names.iter().filter(|n| **n == "testcase").count(), 1);
            prop_assert_eq!(names.len() - names.iter().filter(|n| **n == "property").count(), 6);
            let same = |c: char| !outcome::text::is_invisible(c) && !matches!(c, '\u{fffe}' | '\u{ffff}');
            if text.chars().all(same) {
                let failure = document.descendants().find(|n| n.has_tag_name("failure")).unwrap();
                prop_assert_eq!(failure.attribute("message"), Some(text.as_str()));
            }
            let forbidden = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            prop_assert!(!written.contains(forbidden));
        }
    }
}
