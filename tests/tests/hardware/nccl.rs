//! The comparison of NCCL's collectives with nccl-tests' tables, as recorded on machines with 2 and 4 H200:
//! what is read, what counts as reached, and how the program obtains our figures.

use super::{folder, report};
use harness::hardware::compare::LimitResult;
use harness::hardware::nccl::compare::{Comparison, FigureKind, compare};
use harness::hardware::nccl::{NcclRun, ReferenceTable, Sweep, ours, table};
use harness::hardware::read_references;
use harness::hardware::run::Options;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn reference_tables(machine: &str) -> Vec<ReferenceTable> {
    read_references(&folder(machine)).unwrap().sweeps
}

#[track_caller]
fn reference_table(machine: &str, name: &str) -> ReferenceTable {
    reference_tables(machine)
        .into_iter()
        .find(|t| t.run.name() == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

/// nccl-tests' output of that collective on four H200.
fn saved(collective: &str) -> String {
    let all = fs::read_to_string(folder("h200-4").join("nccl-tests.txt")).unwrap();
    let of = format!("starting: {collective}_perf\n");
    table::outputs(&all)
        .find(|output| output.contains(&of))
        .unwrap()
        .to_owned()
}

#[test]
fn every_table_is_read_with_its_gpus() {
    let all = reference_tables("h200-4");
    let names: Vec<_> = all.iter().map(|t| t.run.name()).collect();
    assert_eq!(
        names,
        [
            "all_reduce",
            "all_reduce off",
            "all_gather",
            "reduce_scatter",
            "broadcast",
            "reduce",
            "alltoall",
            "sendrecv"
        ]
    );
    assert!(
        all.iter()
            .all(|t| t.sweep.gpus == 4 && t.sweep.data == "float" && t.sweep.rows.len() == 25)
    );
    let two = reference_tables("h200-2");
    assert_eq!(
        (two.len(), two[0].sweep.gpus, two[0].sweep.ends()),
        (1, 2, Some((8, 134_217_728)))
    );
    let row = *reference_table("h200-4", "all_reduce")
        .sweep
        .row(134_217_728)
        .unwrap();
    assert_eq!(
        (
            row.placements[0].us,
            row.placements[0].busbw,
            row.placements[1].busbw
        ),
        (612.26, 328.82, 328.93)
    );
    assert_eq!(
        reference_table("h200-4", "all_reduce off")
            .sweep
            .row(134_217_728)
            .unwrap()
            .placements[0]
            .busbw,
        26.84
    );
    // 8, 16 and 32 B are too small to give each of 4 GPUs 16 B.
    let gather = reference_table("h200-4", "all_gather").sweep;
    assert_eq!(
        (gather.ends(), gather.row(0)),
        (Some((64, 134_217_728)), None)
    );
    let in_place = reference_table("h200-4", "alltoall")
        .sweep
        .row(64)
        .unwrap()
        .placements
        .map(|t| t.wrong);
    assert_eq!(in_place, [Some(0), None]);
}

#[test]
fn a_file_of_outputs_has_each_program_once_and_no_other() {
    let (reduce, gather) = (saved("all_reduce"), saved("all_gather"));
    let names: Vec<_> = table::parse_all(&format!("{gather}{reduce}"))
        .unwrap()
        .into_iter()
        .map(|(n, _)| n)
        .collect();
    assert_eq!(names, ["all_gather", "all_reduce"]);
    let why = |text: &str| table::parse_all(text).unwrap_err();
    assert_eq!(why(""), "there is no \"# nccl-tests version\"");
    assert_eq!(
        why(&format!("{reduce}{reduce}")),
        "there are two outputs of all_reduce_perf"
    );
    let other = reduce.replace("starting: all_reduce_perf", "starting: hypercube_perf");
    assert!(
        why(&other).starts_with("hypercube_perf is unknown; known are all_reduce, "),
        "{}",
        why(&other)
    );
    // The second output is cut off after its first line.
    let cut: String = gather
        .lines()
        .take(1)
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(
        why(&format!("{reduce}{cut}")),
        "there is no line \"# Collective test starting:\""
    );
}

#[test]
fn a_damaged_table_is_an_error_and_never_fewer_figures() {
    let good = saved("all_reduce");
    assert!(table::parse(&good, "all_reduce").is_ok());
    let why = |text: &str| table::parse(text, "all_reduce").unwrap_err();
    for (from, to, expected) in [
        (
            "# nccl-tests version",
            "# other",
            "there is no \"# nccl-tests version\"",
        ),
        (
            "starting: all_reduce_perf",
            "starting: reduce_perf",
            "it is of reduce_perf, expected all_reduce_perf",
        ),
        ("#  Rank  2", "#  Rank  3", "expected rank 2"),
        (
            "redop",
            "root",
            "there is no line \"size count type redop root",
        ),
        ("(us)", "(ms)", "the units read"),
        (
            "   612.26",
            "   412.26",
            "algbw is 219.22, but size and time make 325.57",
        ),
        ("   612.26", "     fast", "fast is no figure"),
        ("   612.26", "      nan", "nan is no figure"),
        ("   612.26", "     0.00", "it took no time"),
        ("   612.26", "", "12 columns, expected 13"),
        (
            "  328.82 ",
            "  329.92 ",
            "busbw is 329.92, but size and time make 328.8",
        ),
        (
            "  328.82       0",
            "  328.82       1",
            "elements were wrong there (0 OK)",
        ),
        (
            "  328.82       0",
            "  328.82     N/A",
            "its elements were not checked",
        ),
        (
            ": 0 OK",
            ": 7 FAILED",
            "elements were wrong there (7 FAILED): it is no yardstick",
        ),
        (
            "bandwidth    : 70.952",
            "bandwidth    : 71.952",
            "the average is 71.952, but the 25 rows make 70.95",
        ),
        ("\n   134217728 ", "\n# 134217728 ", "the 24 rows make"),
        (
            "33554432     float     sum      -1   612",
            "33554432      half     sum      -1   612",
            "row 24 is of half",
        ),
        (
            "           8             2",
            "vm:1:1 [0] NCCL INFO 8 2",
            "row 0 reads",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let error = why(&good.replacen(from, to, 1));
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
    // A run that was cut off in the middle.
    for lines in 0..good.lines().count() - 4 {
        let cut: Vec<_> = good.lines().take(lines).collect();
        assert!(
            table::parse(&cut.join("\n"), "all_reduce").is_err(),
            "{lines} lines"
        );
    }
}

/// The JSON with the figures of a table as ours; `change` returns the new time for (size, placement, time).
fn ours(sweep: &Sweep, change: impl Fn(u64, usize, f64) -> f64) -> Value {
    let row = |row: &harness::hardware::nccl::SizeRow| {
        let placement = |n: usize| {
            let timed = row.placements[n];
            let us = change(row.bytes, n, timed.us);
            let busbw = timed.busbw * (timed.us / us);
            json!({ "time": us, "alg_bw": busbw, "bus_bw": busbw, "nwrong": timed.wrong.map(|n| n as f64) })
        };
        json!({ "size": row.bytes, "count": 1, "type": "float", "redop": "sum", "root": "-1",
                "out_of_place": placement(0), "in_place": placement(1) })
    };
    let devices: Vec<_> = (0..sweep.gpus)
        .map(|rank| json!({ "rank": rank }))
        .collect();
    let rows: Vec<_> = sweep.rows.iter().map(row).collect();
    json!({ "config": { "ngpus": sweep.gpus, "devices": devices }, "results": rows })
}

fn compared(theirs: &ReferenceTable, ours: &Value) -> Comparison {
    compare(&ours::parse(&ours.to_string()).unwrap(), theirs).unwrap()
}

fn missed(comparison: &Comparison) -> Vec<(FigureKind, &str)> {
    let missed = comparison
        .figures
        .iter()
        .filter(|figure| figure.limit_result() == LimitResult::Missed);
    missed
        .map(|figure| (figure.kind, figure.placement))
        .collect()
}

#[test]
fn the_same_figures_reach_everything() {
    for theirs in reference_tables("h200-4")
        .iter()
        .chain(&reference_tables("h200-2"))
    {
        let same = compared(theirs, &ours(&theirs.sweep, |_, _, us| us));
        assert!(same.reached() && same.figures.len() == 4, "{same:?}");
        assert!(
            same.figures
                .iter()
                .all(|figure| figure.limit_result() == LimitResult::Within
                    && figure.ratio() == Some(1.0))
        );
    }
}

#[test]
fn bandwidth_is_held_at_the_largest_size_and_time_at_the_smallest() {
    let theirs = reference_table("h200-4", "all_gather");
    let with = |at: u64, placement: usize, by: f64| {
        let change = |bytes, n, us| {
            if (bytes, n) == (at, placement) {
                us * by
            } else {
                us
            }
        };
        compared(&theirs, &ours(&theirs.sweep, change))
    };
    assert_eq!(
        missed(&with(134_217_728, 0, 1.03)),
        [(FigureKind::Busbw, "out of place")]
    );
    assert_eq!(
        missed(&with(134_217_728, 1, 1.03)),
        [(FigureKind::Busbw, "in place")]
    );
    assert_eq!(missed(&with(134_217_728, 0, 1.019)), []);
    assert_eq!(
        missed(&with(64, 0, 1.11)),
        [(FigureKind::Time, "out of place")]
    );
    assert_eq!(missed(&with(64, 0, 1.09)), []);
    // Sizes between them are shown but have no limit.
    assert_eq!(missed(&with(1 << 20, 0, 9.0)), []);
    let better = with(64, 0, 0.5);
    assert!(better.reached() && better.count(LimitResult::Better) == 1);
}

#[test]
fn wrong_unchecked_or_missing_elements_are_not_reached() {
    let theirs = reference_table("h200-4", "all_reduce");
    let good = ours(&theirs.sweep, |_, _, us| us);
    let with = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        bad
    };
    let one = compared(&theirs, &with("/results/3/in_place/nwrong", json!(1.0)));
    assert_eq!((one.reached(), &one.wrong), (false, &Ok(1)));
    let blind = compared(
        &theirs,
        &with("/results/3/out_of_place/nwrong", json!(null)),
    );
    assert_eq!(
        (blind.reached(), &blind.wrong),
        (false, &Err("64 B out of place was not checked".to_owned()))
    );
    let gone = compared(&theirs, &with("/results/24/size", json!(1)));
    assert_eq!(
        missed(&gone),
        [
            (FigureKind::Busbw, "out of place"),
            (FigureKind::Busbw, "in place")
        ]
    );
    // What nccl-tests cannot check, we need not check either.
    let exchange = reference_table("h200-4", "alltoall");
    assert!(compared(&exchange, &ours(&exchange.sweep, |_, _, us| us)).reached());
}

#[test]
fn invalid_json_is_refused() {
    let theirs = reference_table("h200-4", "all_reduce");
    let good = ours(&theirs.sweep, |_, _, us| us);
    assert_eq!(ours::parse(&good.to_string()).unwrap(), theirs.sweep);
    for (path, value) in [
        ("/results", json!([])),
        ("/results", json!(null)),
        ("/config/devices", json!(4)),
        ("/results/0/size", json!("8")),
        ("/results/1/type", json!("half")),
        ("/results/2/out_of_place", json!(null)),
        ("/results/2/out_of_place/time", json!("nan")),
        ("/results/2/in_place/bus_bw", json!(-1.0)),
        ("/results/2/in_place/nwrong", json!("0")),
        ("/results/2/in_place", json!({ "time": 1.0, "bus_bw": 1.0 })),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        assert!(ours::parse(&bad.to_string()).is_err(), "{path}");
    }
    let mut broken = good;
    broken["errors"] = json!(["rank 1 does not answer"]);
    assert_eq!(
        ours::parse(&broken.to_string()).unwrap_err(),
        "it ended with \"rank 1 does not answer\""
    );
    let mut other = theirs.clone();
    other.sweep.data = "half".to_owned();
    assert!(
        compare(&theirs.sweep, &other)
            .unwrap_err()
            .contains("ours is of float, theirs of half")
    );
}

/// Writes our JSON for all tables of a reference into a folder.
fn write_own_json(machine: &str, into: &Path, change: impl Fn(&NcclRun, u64, usize, f64) -> f64) {
    for theirs in reference_tables(machine) {
        let json = ours(&theirs.sweep, |bytes, n, us| {
            change(&theirs.run, bytes, n, us)
        });
        fs::write(into.join(theirs.run.our_file()), json.to_string()).unwrap();
    }
}

fn hardware(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hardware"))
        .args(words)
        .output()
        .unwrap()
}

fn texts(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn every_collective_is_reported_with_its_figures_and_what_it_reached() {
    let dir = tempfile::tempdir().unwrap();
    let slow = |run: &NcclRun, bytes: u64, _: usize, us: f64| {
        if run.collective == "reduce" && bytes == 134_217_728 {
            us * 2.0
        } else {
            us
        }
    };
    write_own_json("h200-4", dir.path(), slow);
    let reference = folder("h200-4").display().to_string();
    let run = |words: &[&str]| {
        let all = [
            "--only",
            "nccl",
            "--against",
            &reference,
            "--nccl",
            dir.path().to_str().unwrap(),
        ];
        hardware(&[&all[..], words].concat())
    };
    let output = run(&[]);
    let text = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for line in [
        "all_reduce     busbw 128 MiB out GB/s   328.82   328.82  1.000  2 % reached\n",
        "all_reduce off busbw 128 MiB in  GB/s    26.68    26.68  1.000  2 % reached\n",
        "all_gather     time  64 B    out us      19.08    19.08  1.000 10 % reached\n",
        "reduce         busbw 128 MiB in  GB/s   171.59   343.18  0.500  2 % not reached\n",
        "alltoall       wrong elements                0                      reached\n",
        "8 collectives, 32 figures: 2 not reached, 0 better than the limit (+); 8 without a wrong element; 0 not run",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let table = text.lines().skip_while(|l| !l.starts_with("collective "));
    let wide: Vec<_> = table
        .filter(|l| l.chars().count() > 80 && !l.contains("figures:"))
        .collect();
    assert!(wide.is_empty(), "{wide:?}");
    write_own_json("h200-4", dir.path(), |_, _, _, us| us);
    assert_eq!(run(&[]).status.code(), Some(0));
    // A reference with another number of GPUs is reported and not compared, and the other folder suffices.
    let two = folder("h200-2").display().to_string();
    let output = run(&["--against", &two]);
    assert!(texts(&output).contains("h200-2/nccl-tests.txt: 2 GPUs, here are 4: not compared"));
    assert_eq!(output.status.code(), Some(0));
    fs::remove_file(dir.path().join("nccl.alltoall.json")).unwrap();
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", texts(&output));
    assert!(
        texts(&output).contains("alltoall: not reached: read"),
        "{}",
        texts(&output)
    );
    assert!(texts(&output).contains("1 not run"), "{}", texts(&output));
}

#[test]
fn a_machine_whose_number_of_gpus_no_reference_has_is_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    write_own_json("h200-4", dir.path(), |_, _, _, us| us);
    let (two, dir) = (
        folder("h200-2").display().to_string(),
        dir.path().display().to_string(),
    );
    let output = hardware(&["--only", "nccl", "--against", &two, "--nccl", &dir]);
    assert_eq!(output.status.code(), Some(2), "{}", texts(&output));
    assert!(
        texts(&output).contains("no output of a peer is of 4 GPUs"),
        "{}",
        texts(&output)
    );
}

#[test]
fn a_saved_report_says_nothing_about_nccl() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    fs::write(&path, report("h200-4", |_, _, v| Some(v)).to_string()).unwrap();
    write_own_json("h200-4", dir.path(), |_, _, _, us| us);
    let (reference, path) = (
        folder("h200-4").display().to_string(),
        path.display().to_string(),
    );
    let words = ["--against", &reference, "--report", &path];
    let output = hardware(&words);
    assert_eq!(output.status.code(), Some(2));
    assert!(texts(&output).contains("--report runs nothing; say --nccl DIR or --only matrices"));
    let both = [&words[..], &["--nccl", dir.path().to_str().unwrap()]].concat();
    let output = hardware(&both);
    assert_eq!(output.status.code(), Some(0), "{}", texts(&output));
    assert!(
        texts(&output).contains("8 matrices, 128 cells: 0 MISS"),
        "{}",
        texts(&output)
    );
    assert!(
        texts(&output).contains("8 collectives, 32 figures: 0 not reached"),
        "{}",
        texts(&output)
    );
}

/// A substitute for `firstlight`: records its arguments, and copies the JSON in its folder to the path after `-J`.
fn program(dir: &Path, end: &str) -> String {
    let path = dir.join("program");
    let script = format!(
        "#!/bin/sh\nset -eu\necho \"$@\" >> {0}/words\nfor word; do last=$word; done\n\
         case $(basename $last) in nccl.sendrecv.json) {end} ;; esac\ncp {0}/$(basename $last) $last\n",
        dir.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn each_table_causes_one_run_with_the_guides_arguments() {
    let (dir, keep) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_own_json("h200-4", dir.path(), |_, _, _, us| us);
    let (reference, kept) = (
        folder("h200-4").display().to_string(),
        keep.path().display().to_string(),
    );
    let stale = keep.path().join("nccl.sendrecv.json");
    fs::write(&stale, "{}").unwrap();
    let run = |end: &str| {
        let program = program(dir.path(), end);
        let words = [
            "--only",
            "nccl",
            "--against",
            &reference,
            "--firstlight",
            &program,
            "--keep",
            &kept,
        ];
        hardware(&[&words[..], &["--library-path", "/x:/y"]].concat())
    };
    let output = run("true");
    assert_eq!(output.status.code(), Some(0), "{}", texts(&output));
    let words = fs::read_to_string(dir.path().join("words")).unwrap();
    let lines: Vec<_> = words.lines().collect();
    let line = |words: &str, file: &str| {
        format!("--set validate.library_path=/x,/y nccl {words} -J {kept}/nccl.{file}.json")
    };
    assert_eq!(lines.len(), 8);
    assert_eq!(lines[0], line("all_reduce -b 8 -e 128M -f 2", "all_reduce"));
    assert_eq!(
        lines[1],
        line("all_reduce -b 8 -e 128M -f 2 --p2p off", "all_reduce.off")
    );
    assert_eq!(lines[7], line("sendrecv -b 8 -e 128M -f 2", "sendrecv"));
    assert!(stale.is_file());
    // The output of an earlier run is not used in place of one that failed.
    let output = run("exit 2");
    assert_eq!(output.status.code(), Some(1), "{}", texts(&output));
    assert!(
        texts(&output).contains("firstlight nccl sendrecv: exit status: 2, and it wrote no JSON")
    );
    let output = run("cp {0}/nccl.sendrecv.json $last; kill -9 $$"
        .replace("{0}", &dir.path().display().to_string())
        .as_str());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).contains("firstlight nccl sendrecv: signal: 9 (SIGKILL)"),
        "{}",
        texts(&output)
    );
}

#[test]
fn arguments_for_nccl_are_parsed_or_named() {
    let parse = |line: &str| Options::parse(line.split_whitespace().map(OsString::from));
    let options = parse("--against a --only nccl --nccl b --keep c").unwrap();
    assert_eq!(
        (options.nccl, options.keep),
        (Some("b".into()), Some("c".into()))
    );
    assert_eq!(
        parse("--only all").unwrap_err(),
        "--only: read 'all'; allowed are matrices, nccl"
    );
    assert!(
        parse("--only nccl")
            .unwrap_err()
            .contains("--against is missing")
    );
}
