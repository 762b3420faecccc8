//! The output as Prometheus reads it: names, units, labels, and that no report can break the format.

use super::*;
use crate::Gpu;
use crate::render::fixture::{gpu, report, test};
use outcome::finding::Code;
use outcome::finding::Subject;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn matrix(name: &str, unit: &str, values: &[&[Option<f64>]]) -> Matrix {
    let labels = |n: usize| (0..n).map(|n| n.to_string()).collect();
    Matrix {
        name: name.into(),
        unit: unit.into(),
        rows: labels(values.len()),
        columns: labels(values[0].len()),
        values: values.iter().map(|row| row.to_vec()).collect(),
    }
}

/// The lines of a metric.
fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines()
        .filter(|l| {
            l.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
        .collect()
}

/// Whether a text follows `[a-zA-Z_][a-zA-Z0-9_]*`, with `:` too where it is the name of a metric.
fn is_name(text: &str, of_metric: bool) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || of_metric && c == ':';
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// A series as Prometheus reads it: its name, and its labels with their values.
#[track_caller]
fn parsed(series: &str) -> (&str, Vec<(&str, String)>) {
    let Some((name, mut rest)) = series.split_once('{') else {
        assert!(is_name(series, true), "{series}");
        return (series, vec![]);
    };
    assert!(is_name(name, true), "{series}");
    let mut labels: Vec<(&str, String)> = Vec::new();
    while rest != "}" {
        let (label, value) = rest.split_once("=\"").unwrap();
        let escapes = |text: &str| text.chars().rev().take_while(|c| *c == '\\').count();
        let mut ends = value.match_indices('"').map(|(at, _)| value.split_at(at));
        let (value, after) = ends.find(|(before, _)| escapes(before) % 2 == 0).unwrap();
        assert!(
            is_name(label, false) && labels.iter().all(|(other, _)| *other != label),
            "{label} in {series}"
        );
        labels.push((label, unescaped(value)));
        let after = after.strip_prefix('"').unwrap();
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name, labels)
}

/// Fails if the format is violated: comments first, then the metric's lines, each series once.
#[track_caller]
fn keeps_the_format(text: &str) -> BTreeSet<&str> {
    let (mut metrics, mut series, mut name) = (BTreeSet::new(), BTreeSet::new(), "");
    assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            name = help.split(' ').next().unwrap();
            assert!(
                name.starts_with("firstlight_") && metrics.insert(name),
                "{name} comes again"
            );
            assert_eq!(lines.next(), Some(format!("# TYPE {name} gauge").as_str()));
            assert!(
                lines.peek().unwrap().starts_with(name),
                "{name} has no series"
            );
        } else if !line.is_empty() {
            let (labels, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(parsed(labels).0, name, "{line}");
            assert!(
                value.parse::<f64>().is_ok() && series.insert(labels),
                "{line}"
            );
        }
    }
    metrics
}

#[test]
fn matrices_can_be_left_out_and_nothing_else_goes_with_them() {
    let mut entry = test("p2p-bandwidth", Outcome::Pass, "fine", vec![]);
    let labels = vec!["0".to_owned()];
    let values = vec![vec![Some(20.6)]];
    entry.matrices = vec![Matrix {
        name: "ce.write".into(),
        unit: "GB/s".into(),
        rows: labels.clone(),
        columns: labels,
        values,
    }];
    let report = report(vec![entry]);
    let lines = |with| {
        families(&report, with)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (all, without) = (lines(true), lines(false));
    let left: Vec<_> = all.iter().filter(|line| !without.contains(line)).collect();
    assert!(
        left.len() == 3 && left.iter().all(|line| line.contains("firstlight_matrix_")),
        "{left:?}"
    );
}

#[test]
fn the_verdict_and_each_outcome_are_sets_of_states() {
    let tests = vec![
        test("acs", Outcome::Pass, "", vec![]),
        test("bar1", Outcome::Warn, "", vec![]),
    ];
    let text = families(&report(tests), true);
    let verdicts = ["PASS\"} 0", "DEGRADED\"} 1", "FAIL\"} 0", "ERROR\"} 0"];
    assert_eq!(
        lines(&text, "firstlight_verdict"),
        verdicts.map(|v| format!("firstlight_verdict{{verdict=\"{v}"))
    );
    let outcomes = lines(&text, "firstlight_test_outcome");
    assert_eq!(outcomes.len(), 10);
    let is: Vec<_> = outcomes.iter().filter(|l| l.ends_with(" 1")).collect();
    assert_eq!(
        is,
        [
            &"firstlight_test_outcome{test=\"acs\",outcome=\"pass\"} 1",
            &"firstlight_test_outcome{test=\"bar1\",outcome=\"warn\"} 1"
        ]
    );
    assert_eq!(
        lines(&text, "firstlight_test_duration_seconds")[0],
        "firstlight_test_duration_seconds{test=\"acs\"} 0.04"
    );
    assert_eq!(
        lines(&text, "firstlight_duration_seconds"),
        ["firstlight_duration_seconds 12.44"]
    );
    assert_eq!(
        lines(&text, "firstlight_boot_stage_duration_seconds"),
        ["firstlight_boot_stage_duration_seconds{stage=\"kernel\"} 5.03"]
    );
    assert_eq!(
        lines(&text, "firstlight_start_time_seconds"),
        ["firstlight_start_time_seconds 1795176000"]
    );
}

#[test]
fn matrices_are_in_base_units() {
    let mut entry = test("p2p", Outcome::Pass, "", vec![]);
    entry.matrices = vec![
        matrix(
            "ce.write",
            "GB/s",
            &[&[None, Some(20.6)], &[Some(26.0), None]],
        ),
        matrix("latency", "us", &[&[None, Some(1.2)]]),
        matrix("hop", "ns", &[&[Some(1135.0)]]),
        matrix("connectivity", "1", &[&[Some(1.0), Some(0.0)]]),
        matrix("heat", "K", &[&[Some(300.5)]]),
    ];
    let text = families(&report(vec![entry]), true);
    let all: Vec<_> = text
        .lines()
        .filter(|l| l.starts_with("firstlight_matrix_"))
        .collect();
    let expected = [
        "bytes_per_second{test=\"p2p\",matrix=\"ce.write\",row=\"0\",column=\"1\"} 20600000000",
        "bytes_per_second{test=\"p2p\",matrix=\"ce.write\",row=\"1\",column=\"0\"} 26000000000",
        "seconds{test=\"p2p\",matrix=\"latency\",row=\"0\",column=\"1\"} 0.0000012",
        "seconds{test=\"p2p\",matrix=\"hop\",row=\"0\",column=\"0\"} 0.000001135",
        "ratio{test=\"p2p\",matrix=\"connectivity\",row=\"0\",column=\"0\"} 1",
        "ratio{test=\"p2p\",matrix=\"connectivity\",row=\"0\",column=\"1\"} 0",
        "value{test=\"p2p\",matrix=\"heat\",row=\"0\",column=\"0\",unit=\"K\"} 300.5",
    ];
    assert_eq!(all, expected.map(|l| format!("firstlight_matrix_{l}")));
    keeps_the_format(&text);
}

#[test]
fn every_figure_of_a_matrix_and_every_time_is_a_series() {
    let (mut tests, mut written) = (Vec::new(), BTreeSet::new());
    for (number, (unit, factor)) in [("GB/s", 1e9), ("us", 1e-6), ("ns", 1e-9)]
        .into_iter()
        .enumerate()
    {
        let figure =
            |n: u32| f64::from(n) + 0.5 + f64::from(u32::try_from(number).unwrap()) * 100.0;
        let mut entry = test(&format!("test-{number}"), Outcome::Pass, "", vec![]);
        entry.seconds = figure(50);
        entry.matrices = vec![matrix(
            "m",
            unit,
            &[
                &[Some(figure(1)), None],
                &[Some(figure(2)), Some(figure(3))],
            ],
        )];
        written.extend([1, 2, 3].map(|n| format!("{:.9e}", figure(n) * factor)));
        written.insert(format!("{:.9e}", figure(50)));
        tests.push(entry);
    }
    let text = families(&report(tests), true);
    let values = text
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    let values: BTreeSet<_> = values.map(|value| format!("{value:.9e}")).collect();
    assert_eq!(written.len(), 12);
    assert!(
        written.is_subset(&values),
        "{:?} are missing in {text}",
        written.difference(&values)
    );
}

#[test]
fn findings_are_counted_by_severity_and_code() {
    let found =
        |severity, n: usize| vec![Code::CpusLost.finding(severity, Subject::Machine, ""); n];
    let tests = vec![
        test("a", Outcome::Fail, "", found(Severity::Fail, 2)),
        test(
            "b",
            Outcome::Fail,
            "",
            [found(Severity::Fail, 1), found(Severity::Info, 1)].concat(),
        ),
    ];
    let text = families(&report(tests), true);
    let expected = [
        "info\",code=\"CPUS-LOST\"} 1",
        "fail\",code=\"CPUS-LOST\"} 3",
    ];
    assert_eq!(
        lines(&text, "firstlight_findings"),
        expected.map(|l| format!("firstlight_findings{{severity=\"{l}"))
    );
}

#[test]
fn values_missing_in_the_report_are_absent() {
    let mut bare = report(vec![]);
    bare.started = "yesterday".into();
    bare.boot.clear();
    bare.effects.insert("p2p_speedup_8".into(), None);
    let metrics = families(&bare, true);
    let expected = [
        "firstlight_duration_seconds",
        "firstlight_info",
        "firstlight_scope",
        "firstlight_verdict",
    ];
    assert_eq!(
        keeps_the_format(&metrics).into_iter().collect::<Vec<_>>(),
        expected
    );
    assert!(
        metrics.contains("firstlight_verdict{verdict=\"ERROR\"} 1"),
        "{metrics}"
    );
    bare.effects.insert("p2p_speedup_1M".into(), Some(1.43));
    assert!(
        families(&bare, true)
            .contains("\nfirstlight_effect_ratio{effect=\"p2p_speedup_1M\"} 1.43\n")
    );
}

#[test]
fn simulated_gpus_and_recorded_machines_say_so() {
    let mut simulated = report(vec![]);
    simulated.root = "/sim/machine".into();
    simulated.gpus = vec![gpu("Simulated NVIDIA H200")];
    let text = families(&simulated, true);
    let info = lines(&text, "firstlight_info").concat();
    assert!(
        info.contains("gpus=\"1 x Simulated NVIDIA H200\",recorded=\"/sim/machine\""),
        "{info}"
    );
    let gpu = lines(&text, "firstlight_gpu_info");
    assert_eq!(
        gpu,
        ["firstlight_gpu_info{bdf=\"0000:01:00.0\",name=\"Simulated NVIDIA H200\"} 1"]
    );
}

/// A report with every metric, of a machine that has all that a real one has and a simulated one may lack.
fn complete() -> Report {
    let finding = Code::CpusLost.finding(Severity::Fail, "machine", "");
    let mut entry = test("p2p", Outcome::Fail, "", vec![finding]);
    entry.matrices = ["GB/s", "us", "1", "K"]
        .map(|unit| matrix(unit, unit, &[&[Some(1.0)]]))
        .into();
    let mut report = report(vec![entry]);
    let some = |text: &str| Some(text.to_owned());
    report.root = "/recorded/machine.txt".into();
    report.effects.insert("p2p_speedup_1M".into(), Some(1.43));
    let machine = &mut report.machine;
    (machine.machine_id, machine.serial) = (
        some("0c0f51ad713af448fb4b0c0790d41161"),
        some("S\\N \"42\""),
    );
    machine.kernel = some("6.12.0");
    machine.dmi = [
        ("sys_vendor", some("Example")),
        ("product_name", some("G492")),
    ]
    .map(|(k, v)| (k.into(), v))
    .into();
    let driver = &mut report.driver;
    (driver.module, driver.cuda, driver.nccl) = (some("580.95.05"), some("13.0"), some("2.29.7"));
    report.appliance.as_mut().unwrap().image_id = some("3f2a");
    report.gpus = vec![Gpu {
        uuid: some("GPU-1"),
        vbios: some("95.02.3c.80.b4"),
        ..gpu("NVIDIA H200")
    }];
    report
}

/// Prometheus refuses a whole file for one bad name.
#[test]
fn every_fact_of_a_machine_is_a_label() {
    let report = complete();
    let facts = words::all_facts(&report)
        .map(|(name, value)| (name, value.unwrap_or_else(|| panic!("no {name}"))));
    let text = families(&report, true);
    keeps_the_format(&text);
    let info = lines(&text, "firstlight_info").concat();
    assert_eq!(parsed(info.strip_suffix(" 1").unwrap()).1, facts);
    let gpu = lines(&text, "firstlight_gpu_info").concat();
    let labels: Vec<_> = parsed(gpu.strip_suffix(" 1").unwrap())
        .1
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(labels, ["bdf", "name", "uuid", "vbios"]);
}

/// Every metric with its HELP text. A released line never changes, because node_exporter drops series of a metric that has
/// another text in another file, without an error.
const HELP: [(&str, &str); 15] = [
    (
        "firstlight_info",
        "What was validated, as labels; always 1.",
    ),
    (
        "firstlight_verdict",
        "The verdict: 1 for the one that was given.",
    ),
    (
        "firstlight_scope",
        "The scope of the verdict; always 1. A verdict whose scope is not machine says nothing about its GPUs.",
    ),
    (
        "firstlight_start_time_seconds",
        "When the run began, seconds since 1970 UTC.",
    ),
    ("firstlight_duration_seconds", "How long the run took."),
    (
        "firstlight_boot_stage_duration_seconds",
        "How long a stage of the boot took.",
    ),
    ("firstlight_gpu_info", "One for each NVIDIA GPU; always 1."),
    (
        "firstlight_test_outcome",
        "How a test ended: 1 for the outcome that it had.",
    ),
    ("firstlight_test_duration_seconds", "How long a test took."),
    (
        "firstlight_findings",
        "How many findings have that severity and code.",
    ),
    (
        "firstlight_matrix_bytes_per_second",
        "A matrix of speeds; row: from, column: to.",
    ),
    (
        "firstlight_matrix_seconds",
        "A matrix of times; row: from, column: to.",
    ),
    (
        "firstlight_matrix_ratio",
        "A matrix without a unit; of connectivity: 1 where the row's GPU may reach the column's, else 0.",
    ),
    (
        "firstlight_matrix_value",
        "A matrix in the unit that its label names, as reported.",
    ),
    (
        "firstlight_effect_ratio",
        "Effect of switching something on, as a ratio: 1 is no change.",
    ),
];

#[test]
fn the_help_of_a_metric_is_the_same_in_every_version_and_for_every_report() {
    let text = families(&complete(), true);
    let help: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '))
        .collect();
    assert_eq!(help, HELP);
}

#[test]
fn bad_label_names_and_special_characters_in_help_are_mended() {
    let labels = [
        ("machine-id", "a"),
        ("2nd", "b"),
        ("", "c"),
        ("gr\u{f6}\u{df}e:x", "d\\\n\""),
    ];
    let text = Family::single("firstlight_x", "One \\ and\nanother.", &labels, 1.0).text();
    let expected = "# HELP firstlight_x One \\\\ and\\nanother.\n# TYPE firstlight_x gauge\n\
        firstlight_x{machine_id=\"a\",_2nd=\"b\",_=\"c\",gr__e_x=\"d\\\\\\n\\\"\"} 1\n";
    assert_eq!(text, expected);
    keeps_the_format(&text);
}

#[test]
fn two_tests_of_one_name_stay_two_series() {
    let tests = vec![
        test("acs", Outcome::Pass, "", vec![]),
        test("acs", Outcome::Fail, "", vec![]),
    ];
    let text = families(&report(tests), true);
    keeps_the_format(&text);
    assert!(
        text.contains("{test=\"acs\",outcome=\"fail\",again=\"2\"} 1\n"),
        "{text}"
    );
}

/// Parses a label's value.
fn unescaped(text: &str) -> String {
    let (mut value, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        assert!(c != '"', "a quote ends {text}");
        let meant = if c == '\\' { chars.next().unwrap() } else { c };
        value.push(if c == '\\' && meant == 'n' {
            '\n'
        } else {
            meant
        });
    }
    value
}

proptest! {
    #[test]
    fn no_text_of_a_report_breaks_the_format(text in any::<String>(), sharp in "[\\\\\"\n\r{}, #=a\0\u{85}]{0,20}") {
        for text in [&text, &sharp] {
            let finding = Code::CpusLost.finding(Severity::Fail, text, text.as_str());
            let mut entry = test(text, Outcome::Fail, text, vec![finding]);
            entry.matrices = vec![Matrix { rows: vec![text.clone(); 2], ..matrix(text, text, &[&[Some(1.0)], &[Some(1.0)]]) }];
            let mut hostile = report(vec![entry.clone(), entry]);
            hostile.root.clone_from(text);
            hostile.gpus = vec![gpu(text), gpu(text)];
            hostile.effects.insert(text.clone(), Some(1.0));
            let all = families(&hostile, true);
            keeps_the_format(&all);
            let line = lines(&all, "firstlight_effect_ratio").concat();
            let label = line.strip_prefix("firstlight_effect_ratio{effect=\"").unwrap().strip_suffix("\"} 1").unwrap();
            let hidden = outcome::text::is_invisible;
            let clean: String = text.chars().map(|c| if hidden(c) && c != '\n' { '?' } else { c }).collect();
            prop_assert_eq!(unescaped(label), clean);
        }
    }
}
