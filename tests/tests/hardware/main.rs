//! The comparison with other programs, on outputs recorded on machines with 2 and 4 H200: what is
//! read, what counts as missed, and that damaged output is never read as figures.

use harness::hardware::compare::{LimitResult, limit};
use harness::hardware::references::{parse_nvbandwidth, parse_sample};
use harness::hardware::run::Options;
use harness::hardware::{Comparison, Grid, OwnReport, Reference, compare, read_references, text};
use harness::workspace;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

mod nccl;

fn folder(machine: &str) -> PathBuf {
    workspace().join("tests/data/peers").join(machine)
}

fn references(machine: &str) -> Vec<Reference> {
    read_references(&folder(machine)).unwrap().matrices
}

#[track_caller]
fn grid<'a>(references: &'a [Reference], name: &str) -> &'a Grid {
    references
        .iter()
        .flat_map(|p| &p.grids)
        .find(|g| g.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_matrix_of_the_sample_is_read() {
    let references = references("h200-4");
    assert_eq!(
        (
            references.len(),
            references[0].gpus,
            references[0].grids.len()
        ),
        (1, 4, 8)
    );
    assert!(references[0].grids.iter().all(|g| g.size() == Some((4, 4))));
    assert_eq!(
        grid(&references, "sample.uni.off").values[0][0],
        Some(3897.12)
    );
    assert_eq!(
        grid(&references, "sample.uni.on").values[0][1],
        Some(361.03)
    );
    assert_eq!(grid(&references, "sample.bi.off").values[3][2], Some(52.89));
    assert_eq!(grid(&references, "sample.bi.on").values[1][0], Some(771.95));
    assert_eq!(
        grid(&references, "sample.latency.off.gpu").values[2][1],
        Some(18.04)
    );
    assert_eq!(
        grid(&references, "sample.latency.off.cpu").values[0][1],
        Some(4.56)
    );
    assert_eq!(
        grid(&references, "sample.latency.on.gpu").values[3][0],
        Some(2.72)
    );
    assert_eq!(
        grid(&references, "sample.latency.on.cpu").values[3][3],
        Some(3.39)
    );
}

#[test]
fn nvbandwidths_matrices_are_read_with_the_total_of_both_directions() {
    let references = references("h200-2");
    assert_eq!(
        (
            references.len(),
            references[1].gpus,
            references[1].grids.len()
        ),
        (2, 2, 16)
    );
    assert_eq!(
        grid(&references, "ce.read").values,
        [[None, Some(393.745)], [Some(393.745), None]]
    );
    assert_eq!(grid(&references, "ce.write").values[1][0], Some(396.123));
    assert_eq!(
        grid(&references, "ce.bi.read").values,
        [[None, Some(778.744)], [Some(778.673), None]]
    );
    assert_eq!(grid(&references, "sm.bi.write").values[0][1], Some(731.449));
    assert_eq!(
        grid(&references, "host.to.ce").values,
        [[Some(54.8737), Some(55.5533)]]
    );
    assert_eq!(
        grid(&references, "host.from.all.ce").values,
        [[Some(55.3475), Some(55.3529)]]
    );
    assert_eq!(grid(&references, "chase").values[1][0], Some(826.579));
    assert_eq!(
        grid(&references, "local").values,
        [[Some(2078.38), Some(2083.92)]]
    );
}

#[test]
fn a_damaged_output_is_an_error_and_never_fewer_figures() {
    let text = fs::read_to_string(folder("h200-2").join("p2pBandwidthLatencyTest.txt")).unwrap();
    for (from, to) in [
        ("392.47", "fast"),
        ("392.47", "nan"),
        ("392.47 ", ""),
        ("Unidirectional P2P=Enabled", "Something else"),
        ("     1 392.47", "     2 392.47"),
        ("Device: 1,", "Device 1,"),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(
            parse_sample(&text.replacen(from, to, 1)).is_err(),
            "{from} -> {to}"
        );
    }
    assert!(parse_sample(text.split("   CPU").next().unwrap()).is_err());
    let json = fs::read_to_string(folder("h200-2").join("nvbandwidth.json")).unwrap();
    assert!(parse_nvbandwidth(&json[..json.len() / 2]).is_err());
    assert!(parse_nvbandwidth("{}").is_err());
    assert!(parse_nvbandwidth(&json.replacen("\"393.745\"", "\"much\"", 1)).is_err());
    assert!(parse_nvbandwidth(&json.replacen("\"393.745\"", "393.745", 1)).is_err());
    let mut fewer: Value = serde_json::from_str(&json).unwrap();
    let both = fewer["nvbandwidth"]["testcases"][6]["bandwidth_matrix"]
        .as_array_mut()
        .unwrap();
    both.pop();
    assert!(
        parse_nvbandwidth(&fewer.to_string())
            .unwrap_err()
            .contains("5 rows")
    );
}

#[test]
fn a_test_that_did_not_pass_in_the_reference_is_not_compared() {
    let json = fs::read_to_string(folder("h200-2").join("nvbandwidth.json")).unwrap();
    let waived = json.replace("\"Passed\"", "\"Waived\"");
    assert_eq!(parse_nvbandwidth(&waived).unwrap(), (2, Vec::new()));
}

/// A report that has the recorded figures as ours, changed by `change`.
fn report(machine: &str, change: impl Fn(&str, (usize, usize), f64) -> Option<f64>) -> Value {
    let references = references(machine);
    let matrix = |grid: &Grid| {
        let rows = grid.values.iter().enumerate().map(|(r, row)| {
            let cells = row.iter().enumerate();
            cells
                .map(|(c, v)| v.and_then(|v| change(&grid.name, (r, c), v)))
                .collect::<Vec<_>>()
        });
        json!({ "name": grid.name, "unit": "x", "values": rows.collect::<Vec<_>>() })
    };
    let matrices: Vec<_> = references
        .iter()
        .flat_map(|p| &p.grids)
        .map(matrix)
        .collect();
    let test = |id: &str, matrices: Vec<Value>| json!({ "id": id, "outcome": "pass", "seconds": 1.5, "summary": "s", "matrices": matrices });
    json!({
        "schema": "firstlight.report/1", "verdict": "PASS", "level": "standard", "seconds": 5.0,
        "gpus": vec![json!({}); references[0].gpus],
        "tests": [test("acs", vec![]), test("p2p-integrity", vec![]), test("p2p-bandwidth", matrices)],
    })
}

fn compared(
    machine: &str,
    change: impl Fn(&str, (usize, usize), f64) -> Option<f64>,
) -> Vec<Comparison> {
    let ours = OwnReport::parse(&report(machine, change).to_string()).unwrap();
    references(machine)
        .iter()
        .flat_map(|reference| compare(&ours, reference).unwrap())
        .collect()
}

fn misses(comparisons: &[Comparison]) -> Vec<(&str, usize)> {
    let missed = comparisons
        .iter()
        .map(|c| (c.name.as_str(), c.count(LimitResult::Missed)));
    missed.filter(|(_, n)| *n > 0).collect()
}

#[test]
fn the_same_figures_miss_nothing() {
    for machine in ["h200-2", "h200-4"] {
        let all = compared(machine, |_, _, v| Some(v));
        assert_eq!(misses(&all), []);
        assert!(
            all.iter()
                .all(|c| c.range() == Some([1.0; 3]) && c.count(LimitResult::Better) == 0)
        );
    }
}

#[test]
fn each_matrix_has_its_limit_and_only_what_is_worse_misses() {
    assert_eq!(
        [
            "ce.write",
            "sm.bi.read",
            "host.to.ce",
            "sample.uni.on",
            "sample.latency.on.gpu",
            "chase"
        ]
        .map(limit),
        [0.02, 0.02, 0.03, 0.03, 0.10, 0.10]
    );
    let slower = compared("h200-2", |_, _, v| Some(v * 0.975));
    let missed: Vec<_> = misses(&slower).into_iter().map(|(name, _)| name).collect();
    assert!(
        missed
            .iter()
            .all(|n| n.starts_with("ce.") || n.starts_with("sm.")),
        "{missed:?}"
    );
    assert_eq!(missed.len(), 8);
    let larger = compared("h200-2", |_, _, v| Some(v * 1.2));
    let missed: Vec<_> = misses(&larger).into_iter().map(|(name, _)| name).collect();
    assert!(
        missed
            .iter()
            .all(|n| n.contains("latency") || *n == "chase"),
        "{missed:?}"
    );
    assert_eq!(missed.len(), 5);
    assert!(
        larger
            .iter()
            .any(|c| c.name == "ce.read" && c.count(LimitResult::Better) == 2)
    );
}

#[test]
fn one_bad_cell_is_found_and_named() {
    let bad = |name: &str, at: (usize, usize), v: f64| {
        Some(if name == "sample.uni.on" && at == (2, 1) {
            v * 0.5
        } else {
            v
        })
    };
    let all = compared("h200-4", bad);
    assert_eq!(misses(&all), [("sample.uni.on", 1)]);
    let table = text::comparison_table(&references("h200-4")[0], &all);
    assert!(
        table.contains(
            "sample.uni.on            0.500  1.000  1.000   3 % MISS 2,1: 196.16, 392.32"
        ),
        "{table}"
    );
    assert!(
        table.contains("  1.000   0.500!  1.000   1.000\n"),
        "{table}"
    );
    assert!(
        table.lines().skip(1).all(|l| l.chars().count() <= 80),
        "{table}"
    );
}

#[test]
fn missing_figures_count_as_missed() {
    let gone = compared("h200-2", |name, _, v| (name != "chase").then_some(v));
    assert_eq!(misses(&gone), [("chase", 2)]);
    let mut ours = OwnReport::parse(&report("h200-2", |_, _, v| Some(v)).to_string()).unwrap();
    ours.grids.retain(|g| g.name != "ce.write");
    let all: Vec<_> = references("h200-2")
        .iter()
        .flat_map(|p| compare(&ours, p).unwrap())
        .collect();
    assert_eq!(misses(&all), [("ce.write", 2)]);
    ours.grids[0].values.pop();
    assert!(compare(&ours, &references("h200-2")[0]).is_err());
}

#[test]
fn a_report_that_is_not_ours_is_refused() {
    let good = report("h200-2", |_, _, v| Some(v));
    assert!(OwnReport::parse(&good.to_string()).is_ok());
    for (key, value) in [
        ("schema", json!("other/1")),
        ("seconds", json!("1")),
        ("tests", json!(null)),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(OwnReport::parse(&bad.to_string()).is_err(), "{key}");
    }
    let mut bad = good;
    bad["tests"][2]["matrices"][0]["values"][0][0] = json!("fast");
    assert!(
        OwnReport::parse(&bad.to_string())
            .unwrap_err()
            .contains("no figure")
    );
}

#[test]
fn arguments_are_parsed_or_named() {
    let parse = |line: &str| Options::parse(line.split_whitespace().map(OsString::from));
    let options = parse("--against a --against b --library-path /x:/y").unwrap();
    assert_eq!(
        (options.against.len(), options.library_path.as_deref()),
        (2, Some("/x:/y"))
    );
    assert_eq!(parse("--agains a").unwrap_err(), "--agains: not known");
    assert_eq!(
        parse("--against").unwrap_err(),
        "--against: a value is missing"
    );
}

/// Runs the program on a saved report.
fn hardware(report: &Value, against: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    fs::write(&path, report.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hardware"));
    command.args(["--only", "matrices", "--report"]).arg(path);
    for machine in against {
        command.arg("--against").arg(folder(machine));
    }
    command.output().unwrap()
}

#[test]
fn the_exit_status_says_whether_everything_was_reached() {
    let good = report("h200-4", |_, _, v| Some(v));
    let printed = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let output = hardware(&good, &["h200-4", "h200-2"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        printed(&output).contains("8 matrices, 128 cells: 0 MISS (!), 0 better"),
        "{}",
        printed(&output)
    );
    assert!(printed(&output).contains("h200-2/nvbandwidth.json: 2 GPUs, here are 4: not compared"));
    for limit in ["12", "15", "25"] {
        assert!(
            printed(&output).contains(&format!("limit {limit} s  ok")),
            "{}",
            printed(&output)
        );
    }
    assert_eq!(hardware(&good, &[]).status.code(), Some(0));
    assert_eq!(
        hardware(&good, &["h200-2"]).status.code(),
        Some(2),
        "nothing to compare with"
    );
    assert_eq!(hardware(&good, &["nowhere"]).status.code(), Some(2));
    let slow = report("h200-4", |_, _, v| Some(v * 0.9));
    assert_eq!(hardware(&slow, &["h200-4"]).status.code(), Some(1));
    let mut quick = good.clone();
    (quick["level"], quick["tests"][2]["seconds"]) = (json!("quick"), json!(4.0));
    assert_eq!(
        hardware(&quick, &[]).status.code(),
        Some(1),
        "5 s are promised"
    );
    for (path, value) in [
        ("/tests/1/outcome", json!("error")),
        ("/tests/1/outcome", json!("not-applicable")),
        ("/tests/1/id", json!("acs2")),
        ("/tests/2/outcome", json!("fail")),
        ("/tests/2/seconds", json!(11.0)),
        ("/seconds", json!(25.1)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        assert_eq!(hardware(&bad, &[]).status.code(), Some(1), "{path}");
    }
}

#[test]
fn wrong_use_prints_the_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_hardware"))
        .arg("--help")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: hardware"));
}
