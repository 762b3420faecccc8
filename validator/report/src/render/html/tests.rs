//! The content of the page, and that no report can inject markup.

use super::*;
use crate::render::fixture::{call, gpu, report, test};
use machine::pcie::model::{Device, Kind};
use machine::pcie::sample::{self, device};
use outcome::finding::{Code, Severity, Subject};
use outcome::metric::Metric;
use outcome::platform::Host;
use outcome::platform::Pair;
use outcome::table::{CallRow, CallTable, GpuState, SampleRow, Table};
use outcome::{Matrix, Outcome};
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The page is also well-formed XML, so a parser separates markup from text.
#[track_caller]
fn parsed<T>(report: &Report, ask: impl Fn(Node<'_, '_>) -> T) -> T {
    let text = page(report).unwrap();
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(&text, options).unwrap_or_else(|e| panic!("{e}: {text}"));
    ask(document.root_element())
}

fn texts(root: Node<'_, '_>, name: &str) -> Vec<String> {
    let of = |node: Node<'_, '_>| {
        node.descendants()
            .filter(Node::is_text)
            .filter_map(|n| n.text())
            .map(str::trim)
            .collect::<String>()
    };
    root.descendants()
        .filter(|n| n.has_tag_name(name))
        .map(of)
        .collect()
}

fn full() -> Report {
    let found = |code: Code, severity| {
        code.finding(severity, "port <1>", "seen & told")
            .seen(format!("kmsg: {code}"))
    };
    let mut broken = test(
        "acs",
        Outcome::Fail,
        "1 port redirects",
        vec![
            found(Code::LinkSlow, Severity::Info),
            found(Code::AcsRedirect, Severity::Fail),
        ],
    );
    broken.log_tail = vec!["one".into(), "two".into()];
    let mut measured = test(
        "p2p-bandwidth",
        Outcome::Warn,
        "slow",
        vec![found(Code::P2pSlow, Severity::Warn)],
    );
    measured.matrices = vec![Matrix {
        name: "ce.write".into(),
        unit: "GB/s".into(),
        rows: vec!["0".into(), "1".into()],
        columns: vec!["0".into(), "1".into()],
        values: vec![vec![None, Some(20.6)], vec![Some(26.0), None]],
    }];
    let columns = json!([{ "heading": "size", "unit": "bytes" }, { "heading": "via", "unit": "" }]);
    measured.tables = vec![
        json!({ "name": "by-size", "columns": columns, "rows": [[4096, "SHM"], [8192, 0.000_697_641]] }).into(),
        json!(["of another shape"]).into(),
    ];
    let mut report = report(vec![broken, measured]);
    report.gpus = vec![gpu("Simulated NVIDIA H200")];
    report.root = "/sim/machine".into();
    report.effects.insert("p2p_speedup_1M".into(), Some(1.43));
    report
        .workload_env
        .insert("NCCL_P2P_LEVEL".into(), "SYS".into());
    report
        .workload_reasons
        .insert("NCCL_P2P_LEVEL".into(), "pairs reach each other".into());
    report
}

#[test]
fn the_page_starts_with_the_verdict_and_the_machine() {
    parsed(&full(), |root| {
        assert_eq!(root.attribute("lang"), Some("en"));
        assert_eq!(
            texts(root, "title")[0],
            "firstlight: FAIL, node7, 1 x Simulated NVIDIA H200"
        );
        assert_eq!(texts(root, "h1"), ["FAIL".to_owned() + &full().answer]);
        let top = texts(root, "header").concat();
        let words = [
            "1 x Simulated NVIDIA H200",
            "1 failed, 1 warned",
            "the machine in /sim/machine",
            "ACSFAIL1 port redirects",
        ];
        for words in words {
            assert!(top.contains(words), "{top}");
        }
    });
    let real = Report {
        root: "/".into(),
        ..full()
    };
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
            "1 26.0",
            "P2P, all_reduce of 1 MiB1.43",
            "4096SHM",
            "81920.0007",
        ] {
            let row = row.replace(' ', "");
            assert!(
                rows.iter()
                    .any(|r| r.replace(' ', "").ends_with(&row) || r.replace(' ', "") == row),
                "{row}: {rows:?}"
            );
        }
        let heads: Vec<_> = root
            .descendants()
            .filter(|n| n.has_tag_name("th"))
            .map(|n| n.attribute("scope"))
            .collect();
        assert!(
            heads.contains(&Some("row")) && heads.contains(&Some("col")) && !heads.contains(&None)
        );
        let captions = texts(root, "figcaption");
        let caption = "Copy engine, write, GB/susual 23.3 GB/s";
        assert!(captions.iter().any(|text| text == caption), "{captions:?}");
        let articles = texts(root, "article");
        assert_eq!(articles.len(), 3);
        for (article, (finding, place)) in articles.iter().zip([
            (&report.tests[0].findings[1], "FAIL"),
            (&report.tests[1].findings[0], "WARN"),
            (&report.tests[0].findings[0], "INFO"),
        ]) {
            assert!(
                article.starts_with(&format!("{place}{}: port <1>", finding.code)),
                "{article}"
            );
            for part in [
                finding.message.as_str(),
                finding.cause.as_str(),
                finding.remedy.as_str(),
                finding.evidence[0].as_str(),
            ] {
                // Text between backticks is an element of its own, and each text is trimmed.
                let bare = |text: &str| text.replace(['`', ' '], "");
                assert!(
                    bare(article).contains(&bare(part)),
                    "{article} lacks {part}"
                );
            }
        }
        let folded = texts(root, "details");
        assert!(
            folded.iter().any(|d| d == "acs: last linesone\ntwo"),
            "{folded:?}"
        );
        assert!(
            folded.iter().any(|d| d.contains("of another shape")),
            "{folded:?}"
        );
    });
}

/// A report of 16 GPUs with as much as level full measures, and a pair that is slow.
fn large() -> Report {
    let labels: Vec<_> = (0..16).map(|n: usize| n.to_string()).collect();
    let figure = |n: usize, row: usize, column: usize| {
        let steps =
            u32::try_from((n * 7919 + row * 104_729 + column * 1_299_709) % 99_991).unwrap();
        10.0 + f64::from(steps) / 1000.0
    };
    let row = |n, row| {
        (0..16)
            .map(|column| (row != column).then(|| figure(n, row, column)))
            .collect()
    };
    let matrix = |n: usize| Matrix {
        name: if n == 0 {
            "sample.uni.on".into()
        } else {
            format!("matrix {n}")
        },
        unit: "GB/s".into(),
        rows: labels.clone(),
        columns: labels.clone(),
        values: (0..16).map(|r| row(n, r)).collect(),
    };
    let slow = Code::P2pSlow.finding(Severity::Fail, Pair::of(0, 1), "copy engine, write: slow");
    let slow = slow.values(figure(0, 0, 1), 200.5, Some("GB/s"));
    let cleared = Code::AcsCleared
        .finding(Severity::Info, Subject::Machine, "x")
        .seen("0000:00:00.0: 0x001d -> 0x0000");
    let mut p2p = test(
        "p2p-bandwidth",
        Outcome::Fail,
        "slow",
        vec![slow.clone(), slow, cleared],
    );
    p2p.matrices = (0..24).map(matrix).collect();
    let swept = |table| {
        let size = |n: u32| (1_u64 << (n % 25 + 3), f64::from(n % 25) + 0.25);
        let row = |n| CallRow {
            out_of_place_us: 1.5,
            out_of_place_busbw: size(n).1,
            ..call("all_reduce", size(n).0)
        };
        Table::Calls(table, (0..200).map(row).collect())
    };
    let tables = [
        CallTable::AllReduce,
        CallTable::AllReduceOff,
        CallTable::Collectives,
        CallTable::Processes,
    ];
    p2p.tables = tables.map(swept).to_vec();
    let second = |n: u32| SampleRow {
        time: f64::from(n / 16),
        state: GpuState {
            gpu: usize::try_from(n % 16).unwrap().into(),
            sm: Some(2500.0),
            memory: Some(10_000.0),
            temperature: Some(f64::from(30 + n % 16)),
            power: Some(250.5),
            held_down_by: Some(String::new()),
        },
        lanes: Some(8),
    };
    p2p.tables
        .push(Table::Samples((0..960).map(second).collect()));
    let mut devices = Vec::new();
    for n in 0..16 {
        let (port, end) = (
            format!("0000:{:02x}:00.0", n * 2),
            format!("0000:{:02x}:00.0", n * 2 + 1),
        );
        devices.push(Device {
            slot: Some(n + 1),
            ..device(&port, Kind::RootPort, None)
        });
        devices.push(sample::gpu(&end, &port));
    }
    let fabric = sample::fabric(devices);
    let mut report = report(vec![p2p]);
    report.gpus = Gpu::all(&fabric, &BTreeMap::new());
    report.fabric = Some(fabric.shown(&Host::default()));
    report.explain();
    report
}

/// A number on the page has up to four decimals.
#[test]
fn every_number_of_the_json_is_on_the_page() {
    for report in [large(), full()] {
        parsed(&report, |root| {
            let all: BTreeSet<String> = root
                .descendants()
                .filter(|n| n.has_tag_name("td"))
                .map(|n| {
                    n.text()
                        .unwrap_or_default()
                        .trim_start_matches("▼ ")
                        .to_owned()
                })
                .collect();
            let json = serde_json::to_value(&report).unwrap();
            let mut count = 0;
            for test in json["tests"].as_array().unwrap() {
                let mut numbers = Vec::new();
                for part in ["matrices", "tables"] {
                    for item in test[part].as_array().unwrap() {
                        collect(
                            item.get("values")
                                .or_else(|| item.get("rows"))
                                .unwrap_or(&json!([])),
                            &mut numbers,
                        );
                    }
                }
                count += numbers.len();
                for n in numbers {
                    let mut shown = (0..5).map(|decimals| format!("{n:.decimals$}"));
                    assert!(
                        shown.any(|text| all.contains(&text)),
                        "{n} is in no cell of the page"
                    );
                }
            }
            assert!(count > 2, "{count}");
        });
    }
    fn collect(value: &serde_json::Value, into: &mut Vec<f64>) {
        match value {
            serde_json::Value::Array(all) => all.iter().for_each(|value| collect(value, into)),
            other => into.extend(other.as_f64()),
        }
    }
}

/// The page must be small enough to be sent by mail.
#[test]
fn the_page_of_sixteen_gpus_is_small_enough() {
    let size = page(&large()).unwrap().len();
    assert!((200_000..2_000_000).contains(&size), "{size}");
}

#[test]
fn drawings_show_slots_links_acs_and_the_pair_that_is_slow() {
    parsed(&large(), |root| {
        let drawings: Vec<_> = root
            .descendants()
            .filter(|n| n.has_tag_name("svg"))
            .collect();
        // Topology, all_reduce, boot, tests, and three for the load.
        assert_eq!(drawings.len(), 7);
        assert_eq!(texts(drawings[2], "text")[3..], ["kernel", "5.03 s"]);
        for drawing in &drawings {
            assert_eq!(drawing.attribute("role"), Some("img"));
            for name in ["title", "desc"] {
                assert!(!texts(*drawing, name).concat().is_empty(), "{name}");
            }
        }
        let topology = texts(drawings[0], "text");
        for text in [
            "GPU 0, slot 1",
            "0000:01:00.0",
            "Gen4",
            "x16",
            "x8 load",
            "ACS cleared",
            "P2P-SLOW",
            "NUMA 0",
        ] {
            assert!(topology.iter().any(|t| t == text), "{text}: {topology:?}");
        }
        assert_eq!(topology.iter().filter(|t| *t == "ACS cleared").count(), 1);
        let arcs = drawings[0]
            .descendants()
            .filter(|n| n.attribute("class") == Some("arc bad"))
            .count();
        assert_eq!(arcs, 1);
        let missed: Vec<_> = root
            .descendants()
            .filter(|n| n.attribute("class") == Some("number missed"))
            .collect();
        assert_eq!(missed.len(), 1, "the slow pair in one matrix");
        assert!(
            missed[0].text().unwrap().starts_with("▼ ")
                && missed[0].attribute("title") == Some("expected at least 200.5")
        );
        let curves = texts(drawings[1], "text");
        for text in ["P2P on", "P2P off", "8 B", "128 MiB"] {
            assert!(curves.iter().any(|t| t == text), "{text}: {curves:?}");
        }
        let articles = texts(root, "article");
        assert_eq!(articles.len(), 2, "equal findings are one: {articles:?}");
        assert!(
            articles[0].contains("copy engine, write: slow")
                && articles[0].contains("GPU 0, 0000:01:00.0, slot 1")
        );
    });
}

/// A finding about many pairs names only some of them.
#[test]
fn refused_access_between_all_gpus_is_a_sentence() {
    let mut large = large();
    let refused =
        Code::P2pUnsupported.finding(Severity::Fail, "GPU 0 -> 1, GPU 0 -> 2, ..", "refused");
    let mut test = test("p2p-capability", Outcome::Fail, "refused", vec![refused]);
    let values = (0..4)
        .map(|row| {
            (0..4)
                .map(|column| Some(f64::from(u8::from(row == column))))
                .collect()
        })
        .collect();
    let labels: Vec<_> = (0..4).map(|n: usize| n.to_string()).collect();
    test.matrices = vec![Matrix {
        name: "p2p.connectivity".into(),
        unit: "1".into(),
        rows: labels.clone(),
        columns: labels,
        values,
    }];
    large.tests = vec![test];
    large.gpus.truncate(4);
    parsed(&large, |root| {
        let count = |class| {
            root.descendants()
                .filter(|n| n.attribute("class") == Some(class))
                .count()
        };
        assert_eq!((count("arc bad"), count("number missed")), (0, 12));
        let notes = texts(root, "p").concat();
        assert!(
            notes.contains("All 6 pairs have findings: P2P-UNSUPPORTED. They are not drawn."),
            "{notes}"
        );
    });
}

/// The classes of an element and of all that it has.
fn classes(root: Node<'_, '_>) -> Vec<String> {
    let all = root.descendants().filter_map(|n| n.attribute("class"));
    all.flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

fn square(metric: Metric, values: [[Option<f64>; 3]; 3]) -> Matrix {
    let labels: Vec<_> = (0..3).map(|n: usize| n.to_string()).collect();
    Matrix {
        name: metric.name().into(),
        unit: metric.unit().into(),
        rows: labels.clone(),
        columns: labels,
        values: values.map(|row| row.to_vec()).to_vec(),
    }
}

#[test]
fn the_first_matrix_is_one_direction_with_peer_access() {
    let even = [
        [Some(900.0), Some(20.7), Some(21.6)],
        [Some(20.9), Some(900.0), Some(21.0)],
        [Some(21.6), Some(14.0), None],
    ];
    let access = [[Some(1.0); 3]; 3];
    let mut capability = test("p2p-capability", Outcome::Pass, "", vec![]);
    capability.matrices = vec![square(Metric::ACCESS, access)];
    let mut speed = test("p2p-bandwidth", Outcome::Pass, "", vec![]);
    speed.matrices = [
        Metric::SAMPLE_UNI_OFF,
        Metric::CE_WRITE,
        Metric::SAMPLE_UNI_ON,
    ]
    .map(|m| square(m, even))
    .to_vec();
    let mut report = report(vec![capability, speed]);
    let captions = |report: &Report| {
        parsed(report, |root| {
            let all = root.descendants().filter(|n| n.has_tag_name("figcaption"));
            all.filter_map(|n| n.attribute("title").map(str::to_owned))
                .collect::<Vec<_>>()
        })
    };
    // Each matrix is shown once, and those without peer access come last.
    assert_eq!(
        captions(&report),
        [
            "sample.uni.on",
            "p2p.connectivity",
            "ce.write",
            "sample.uni.off"
        ]
    );
    parsed(&report, |root| {
        let first = root
            .descendants()
            .find(|n| n.has_tag_name("figure"))
            .unwrap();
        let of = |text: &str| {
            first
                .descendants()
                .find(|n| n.has_tag_name("td") && n.text() == Some(text))
                .unwrap()
                .attribute("class")
        };
        // Figures that hardly differ have one color, a third less is darker, and a GPU with itself has none.
        assert_eq!(
            ["20.7", "21.6", "14.0", "900.0"].map(of),
            ["number h0", "number h0", "number h3", "number"].map(Some)
        );
    });
    // Without any pair that has access, the matrix of the access takes its place.
    let none = [
        [Some(900.0), None, None],
        [None, Some(900.0), None],
        [None, None, Some(900.0)],
    ];
    report.tests[1].matrices = vec![
        square(Metric::SAMPLE_UNI_ON, none),
        square(Metric::SAMPLE_UNI_OFF, even),
    ];
    assert_eq!(captions(&report)[0], "p2p.connectivity");
    let text = parsed(&report, |root| texts(root, "figure")[0].clone());
    assert!(text.ends_with("0OKOKOK1OKOKOK2OKOKOK"), "{text}");
}

#[test]
fn what_did_not_run_is_not_green() {
    let not_run = test(
        "nccl",
        Outcome::NotApplicable,
        "no pair has peer access",
        vec![],
    );
    let mut idle = test(
        "p2p-bandwidth",
        Outcome::Pass,
        "no pair has peer access; through host memory 18.7 GB/s",
        vec![],
    );
    let own = [
        [Some(900.0), None, None],
        [None, Some(900.0), None],
        [None, None, Some(900.0)],
    ];
    idle.matrices = vec![
        square(Metric::SAMPLE_UNI_ON, own),
        square(Metric::SAMPLE_UNI_OFF, [[Some(18.7); 3]; 3]),
    ];
    let mut report = report(vec![not_run, idle]);
    let rows = |report: &Report| {
        parsed(report, |root| {
            let rows = root
                .descendants()
                .filter(|n| n.has_tag_name("tr"))
                .filter(|n| n.attribute("title").is_none());
            let of = |row: Node<'_, '_>| {
                (
                    texts(row, "b").concat(),
                    classes(row).contains(&"good".to_owned()),
                )
            };
            rows.map(of)
                .filter(|(word, _)| !word.is_empty())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(rows(&report), vec![("N/A".to_owned(), false); 4]);
    // With one pair it has run.
    report.tests[1].matrices[0].values[0][1] = Some(20.0);
    assert_eq!(
        rows(&report)
            .iter()
            .filter(|row| **row == ("PASS".to_owned(), true))
            .count(),
        2
    );
}

#[test]
fn commands_in_a_sentence_are_code() {
    let mut report = full();
    report.explain();
    report.causes[0].remedy = "run `lspci -vv -s 0000:01:00.0`, then look".into();
    parsed(&report, |root| {
        assert_eq!(texts(root, "code")[0], "lspci -vv -s 0000:01:00.0");
        assert!(
            texts(root, "ol")[0].starts_with("run lspci")
                || texts(root, "ol")[0].starts_with("runlspci")
        );
    });
}

#[test]
fn boxes_of_a_mixed_machine_have_the_models() {
    let mut report = large();
    let labels = |report: &Report| {
        parsed(report, |root| {
            texts(
                root.descendants().find(|n| n.has_tag_name("svg")).unwrap(),
                "text",
            )
        })
    };
    let same = labels(&report);
    report.gpus[0].name = Some("NVIDIA GeForce RTX 4090".into());
    report.gpus[1].name = Some("NVIDIA RTX PRO 6000 Blackwell Workstation Edition".into());
    let mixed = labels(&report);
    assert!(!same.iter().any(|text| text.contains("RTX")), "{same:?}");
    assert!(mixed.contains(&"GeForce RTX 4090".to_owned()), "{mixed:?}");
    assert!(
        mixed.contains(&"RTX PRO 6000 Blackwe..".to_owned()),
        "{mixed:?}"
    );
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
    let text = page(&large()).unwrap();
    assert!(
        text.starts_with(
            "<!DOCTYPE html>\n<html lang=\"en\">\n <head>\n  <meta charset=\"utf-8\"/>\n"
        ),
        "{text}"
    );
    // HTML parsers do not unescape the content of `style`.
    let style = text
        .split("<style>")
        .nth(1)
        .unwrap()
        .split("</style>")
        .next()
        .unwrap();
    assert!(
        !style.contains('&') && !style.contains("url(") && !style.contains("@import"),
        "{style}"
    );
    let mut large = large();
    large
        .workload_env
        .insert("NCCL_P2P_LEVEL".into(), "SYS".into());
    parsed(&large, |root| {
        let known: BTreeSet<_> = root
            .descendants()
            .filter(Node::is_element)
            .map(|n| n.tag_name().name())
            .collect();
        let ours = [
            "article",
            "b",
            "body",
            "br",
            "caption",
            "circle",
            "code",
            "dd",
            "desc",
            "details",
            "div",
            "dl",
            "dt",
            "figcaption",
            "figure",
            "h1",
            "h2",
            "h3",
            "head",
            "header",
            "html",
            "li",
            "line",
            "meta",
            "ol",
            "p",
            "path",
            "polygon",
            "polyline",
            "pre",
            "rect",
            "section",
            "span",
            "strong",
            "style",
            "summary",
            "svg",
            "table",
            "tbody",
            "td",
            "text",
            "th",
            "thead",
            "title",
            "tr",
        ];
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ours);
        let attributes: BTreeSet<_> = root
            .descendants()
            .flat_map(|n| n.attributes().map(|a| a.name()).collect::<Vec<_>>())
            .collect();
        let ours = [
            "charset",
            "class",
            "content",
            "cx",
            "cy",
            "d",
            "height",
            "http-equiv",
            "id",
            "lang",
            "lengthAdjust",
            "name",
            "points",
            "r",
            "role",
            "rx",
            "scope",
            "text-anchor",
            "textLength",
            "title",
            "transform",
            "viewBox",
            "width",
            "x",
            "x1",
            "x2",
            "y",
            "y1",
            "y2",
        ];
        assert_eq!(attributes.into_iter().collect::<Vec<_>>(), ours);
        let policy = root
            .descendants()
            .find(|n| n.attribute("http-equiv") == Some("Content-Security-Policy"));
        assert!(
            policy
                .unwrap()
                .attribute("content")
                .unwrap()
                .starts_with("default-src 'none'; style-src 'unsafe-inline'")
        );
    });
    // In HTML only `meta` and `br` may end with `/>`; in SVG, as in XML, every element may.
    let svg: usize = text
        .split("<svg ")
        .skip(1)
        .map(|svg| svg.split("</svg>").next().unwrap().matches("/>").count())
        .sum();
    let page = text.matches("/>").count() - svg;
    assert_eq!(
        page,
        text.matches("<meta ").count() + text.matches("<br/>").count()
    );
}

/// All markup of a page: its elements with the names of their attributes.
/// All elements with the names of their attributes, except `code`, which is text between backticks.
fn markup(report: &Report) -> Vec<String> {
    parsed(report, |root| {
        let all = root
            .descendants()
            .filter(|n| n.is_element() && !n.has_tag_name("code"));
        all.map(|n| {
            n.attributes()
                .fold(n.tag_name().name().to_owned(), |text, a| {
                    text + " " + a.name()
                })
        })
        .collect()
    })
}

fn saying(text: &str) -> Report {
    let finding = Code::CpusLost
        .finding(Severity::Fail, text, text)
        .seen(text);
    let mut entry = test(text, Outcome::Fail, text, vec![finding]);
    (entry.findings[0].cause, entry.findings[0].remedy) = (text.into(), text.into());
    entry.log_tail = vec![text.into()];
    entry.matrices = vec![Matrix {
        name: text.into(),
        unit: text.into(),
        rows: vec![text.into()],
        columns: vec![text.into()],
        values: vec![vec![Some(1.0)]],
    }];
    entry.tables = vec![json!({ "name": text, "columns": [text], "rows": [[text]] }).into()];
    let mut report = Report {
        root: "/x".to_owned() + text,
        started: text.into(),
        ..report(vec![entry])
    };
    report.gpus = vec![gpu(text)];
    report.effects.insert(text.into(), Some(1.0));
    report.workload_env.insert(text.into(), text.into());
    report.workload_reasons.insert(text.into(), text.into());
    report
}

#[test]
fn markup_in_a_report_is_shown_as_text() {
    let plain = markup(&saying("plain"));
    for text in [
        "<script>alert(1)</script>",
        "--></style></pre><img src=x onerror=y>",
        "\"><b onclick='x'>&lt;",
    ] {
        let hostile = saying(text);
        assert_eq!(markup(&hostile), plain);
        assert!(!page(&hostile).unwrap().contains("<script"));
        parsed(&hostile, |root| {
            assert!(texts(root, "article").concat().contains(text));
        });
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

#[test]
fn known_problems_are_a_table_of_their_own_only_where_there_are_some() {
    let mut seen = report(vec![test("a", Outcome::Pass, "fine", vec![])]);
    assert!(!page(&seen).unwrap().contains("id=\"known\""));
    seen.known_problems = vec![KnownProblem {
        id: "x-1".to_owned(),
        says: "data <arrives> wrong".to_owned(),
        seen: "driver 580.142".to_owned(),
        thread: "https://example.org/1".to_owned(),
        read: "2026-11-27".to_owned(),
        tests: vec![],
    }];
    let html = page(&seen).unwrap();
    for text in [
        "id=\"known\"",
        "x-1",
        "data &lt;arrives&gt; wrong",
        "driver 580.142",
        "https://example.org/1, read 2026-11-27",
    ] {
        assert!(html.contains(text), "{text}");
    }
}
