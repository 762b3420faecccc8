//! The shipped program on simulated GPUs: does each scenario get its verdict, wherever the fault is
//! and however many GPUs there are, and is nothing else blamed for it?

use harness::matrix::parallel_map;
use harness::simgpu::{Scenario, ValidatorRun, firstlight, validate, with_prepared};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::sync::OnceLock;

/// Faults of one ordered pair.
const PAIR_FAULTS: &[&str] = &[
    "zeros",
    "stale",
    "mirror",
    "offset",
    "partial",
    "flip",
    "one-direction",
    "vmm-only",
    "victim",
    "misdirected",
    "reach",
    "hole",
    "stray",
    "rare",
    "odd-sizes",
    "unaligned",
    "huge",
    "shared-memory",
    "allreduce-stale",
    "allreduce-stalled",
    "allreduce-zeros",
    "reorder",
    "slow-pair",
    "enable-refused",
    "lying-capability",
    "lying-nvml",
    "sticky-error",
];

#[track_caller]
fn check_verdict(name: &str, scenario: &Scenario, words: &[&str]) -> ValidatorRun {
    let judged = validate(scenario, words).unwrap();
    let expect = scenario.expect();
    let details = format!(
        "{name}, {} GPUs:\n{}\n{}",
        scenario.count(),
        judged.text,
        judged.log
    );
    assert_eq!(judged.verdict(), expect.verdict, "{details}");
    let blamed: Vec<_> = judged
        .fails()
        .into_iter()
        .filter(|id| !expect.also.iter().any(|a| a == id))
        .collect();
    assert_eq!(blamed, expect.fails, "{details}");
    assert_causes(&judged, &expect.cause, &details);
    assert_fits_schema(&judged);
    judged
}

/// The first cause is one of `expected`, no other cause is a failure, and the text contains the answer.
#[track_caller]
fn assert_causes(judged: &ValidatorRun, expected: &[String], details: &str) {
    let causes = judged.report.0["causes"].as_array().unwrap();
    let codes: Vec<_> = causes
        .iter()
        .map(|cause| cause["code"].as_str().unwrap())
        .collect();
    if expected.is_empty() {
        assert_eq!(codes, [""; 0], "{details}");
        return;
    }
    assert!(
        codes
            .first()
            .is_some_and(|code| expected.iter().any(|e| e == code)),
        "{codes:?}, not {expected:?}\n{details}"
    );
    let bad: Vec<_> = causes
        .iter()
        .filter(|cause| cause["severity"] != "warn")
        .collect();
    assert!(bad.len() <= 1, "{bad:#?}\n{details}");
    let answer = judged.report.0["answer"].as_str().unwrap();
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        plain(&judged.text).contains(&plain(&format!("ANSWER {answer} FIRST "))),
        "{answer}\n{details}"
    );
}

/// The report is valid under the schema that `firstlight schema` prints.
#[track_caller]
fn assert_fits_schema(judged: &ValidatorRun) {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let healthy = Scenario::named("healthy").unwrap().gpus(2);
        let printed = firstlight(&healthy, &["schema"], |output, _| Ok(output.stdout)).unwrap();
        jsonschema::draft202012::new(&serde_json::from_slice(&printed).unwrap()).unwrap()
    });
    let wrong: Vec<_> = schema
        .iter_errors(&judged.report.0)
        .map(|e| e.to_string())
        .collect();
    assert_eq!(wrong, [""; 0]);
    let mut other = judged.report.0.clone();
    other["a key of a later version"] = 1.into();
    assert!(schema.is_valid(&other));
    other["tests"][0]["outcome"] = "good".into();
    assert!(!schema.is_valid(&other));
}

/// What `firstlight p2p` prints about every pair, and its exit status.
fn pairs(name: &str, gpus: usize) -> (String, Option<i32>) {
    let scenario = Scenario::named(name).unwrap().gpus(gpus).pair(0, 1);
    let result = firstlight(&scenario, &["p2p", "--level", "quick"], |output, _| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let from = text
            .find("\nPairs: ")
            .unwrap_or_else(|| panic!("{name}: no pairs in\n{text}"));
        Ok((
            text[from + 1..]
                .lines()
                .take(2 + gpus)
                .map(|l| l.to_owned() + "\n")
                .collect(),
            output.status.code(),
        ))
    });
    result.unwrap()
}

/// A bad pair of any kind does not keep the others from being tried and measured.
#[test]
fn p2p_finishes_every_pair() {
    parallel_map(
        2,
        &[
            ("zeros", "ZEROS", 5),
            ("offset", "WRONG", 4),
            ("hang-copy", "HANG", 4),
        ],
        |(name, word, good)| {
            let (text, status) = pairs(name, 3);
            assert_eq!(status, Some(1), "{name}\n{text}");
            assert!(
                text.starts_with(&format!("Pairs: {good} of 6 ok;")) && text.contains(word),
                "{name}\n{text}"
            );
            let row = text
                .lines()
                .last()
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>();
            let speeds = row[1..3]
                .iter()
                .filter(|cell| cell.parse::<f64>().is_ok_and(|gb_s| gb_s > 15.0))
                .count();
            assert_eq!((row[0], speeds, row[3]), ("2", 2, "-"), "{name}\n{text}");
        },
    );
    let (text, status) = pairs("stock", 2);
    assert_eq!(
        (status, text.matches("refused").count()),
        (Some(1), 2),
        "{text}"
    );
    let (text, status) = pairs("slow-pair", 2);
    let slow = text
        .lines()
        .nth(2)
        .unwrap()
        .split_whitespace()
        .nth(2)
        .unwrap();
    assert_eq!(
        (status, slow.starts_with("slow")),
        (Some(1), true),
        "{text}"
    );
}

/// Faults of a GPU itself, which only level `acceptance` looks for.
const WORN_PREFIX: &str = "worn-";

/// The scenarios whose names contain the word, or, unless `with`, do not contain it.
fn scenarios(word: &str, with: bool) -> Vec<String> {
    let of_any_level = |name: &String| word == WORN_PREFIX || !name.starts_with(WORN_PREFIX);
    let all = Scenario::names().unwrap().into_iter().filter(of_any_level);
    all.filter(|name| name.contains(word) == with).collect()
}

/// With how many of the reference machine's eight GPUs a scenario is judged. Three need a quarter of the time of eight, but
/// some faults are those of a fourth GPU, or begin after transfers that fewer GPUs do not have.
fn gpu_count(name: &str) -> usize {
    match name {
        // With fewer GPUs to share the time, other tests also try the fault's size.
        "between-sizes" => 8,
        "bursts" | "collapse-half" | "log-assertion" | "log-lost" | "log-nmi"
        | "nccl-slow-rank" | "nccl-slow-size" | "needs-reboot" | "taint-oops" => 4,
        _ => 3,
    }
}

/// Scenarios with a fault of one pair are judged at random places, below.
#[test]
fn each_scenario_gets_its_verdict_and_its_tests_are_blamed() {
    let mut names = scenarios("hang", false);
    names.retain(|name| !PAIR_FAULTS.contains(&name.as_str()));
    parallel_map(2, &names, |name| {
        let scenario = Scenario::named(name).unwrap();
        let scenario = if scenario.count() == 8 {
            scenario.gpus(gpu_count(name))
        } else {
            scenario
        };
        check_verdict(name, &scenario, &[]);
    });
}

/// In the order that chance gives, such GPUs move half to three quarters of what their links carry.
#[test]
fn gpus_that_move_one_transfer_after_the_other_are_measured_in_order() {
    let judged = check_verdict(
        "nvlink4-one-by-one",
        &Scenario::named("nvlink4-one-by-one").unwrap(),
        &[],
    );
    let tests = judged.report.0["tests"].as_array().unwrap();
    let together = tests
        .iter()
        .find(|test| test["id"] == "p2p-together")
        .unwrap();
    let rows = together["tables"][0]["rows"].as_array().unwrap();
    let all = rows.iter().find(|row| row[0] == "all to all").unwrap();
    assert!(all[4].as_f64() >= Some(0.9), "{all}");
}

/// An error that is not sticky ends its pair's transfers and does not leave wrong data in the memory of other pairs.
#[test]
fn a_refused_copy_is_blamed_on_its_own_pair() {
    for [from, to] in [[0, 1], [2, 0], [3, 2]] {
        let scenario = Scenario::named("copy-refused")
            .unwrap()
            .gpus(4)
            .pair(from, to);
        assert_blames_only(
            &check_verdict("copy-refused", &scenario, &[]),
            "copy-refused",
            [from, to],
        );
    }
}

/// One finding reports that a GPU's memory is full; no pair is blamed.
#[test]
fn a_full_gpu_is_one_finding() {
    let judged = check_verdict("memory-full", &Scenario::named("memory-full").unwrap(), &[]);
    let tests = judged.report.0["tests"].as_array().unwrap();
    let findings = tests.iter().flat_map(|t| t["findings"].as_array().unwrap());
    let bad: Vec<_> = findings
        .filter(|f| ["fail", "error"].contains(&f["severity"].as_str().unwrap()))
        .collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert_eq!(
        (&bad[0]["code"], &bad[0]["subject"]),
        (&"GPU-IN-USE".into(), &"GPU 1".into())
    );
}

/// The table of what was tried has each kind of transfer, and the summary says what that rules out.
#[test]
fn the_report_lists_what_was_tried() {
    let judged = check_verdict("healthy", &Scenario::named("healthy").unwrap().gpus(4), &[]);
    let tests = judged.report.0["tests"].as_array().unwrap();
    let of = |id: &str| tests.iter().find(|t| t["id"] == id).unwrap();
    let rows = |id: &str| of(id)["tables"][0]["rows"].as_array().unwrap().clone();
    let integrity = rows("p2p-integrity");
    // Each engine: three kinds of memory and simple values one pair at a time, and two rows of each of two kinds all at once.
    assert_eq!(integrity.len(), 16);
    let simple: Vec<_> = integrity
        .iter()
        .filter(|r| r[0].as_str().unwrap().ends_with("walking bits"))
        .collect();
    assert!(
        simple.len() == 2 && simple.iter().all(|row| row[5] == 2 && row[3] == 65_536),
        "{simple:?}"
    );
    let small: Vec<_> = integrity
        .iter()
        .filter(|r| r[0].as_str().unwrap().starts_with("odd sizes"))
        .collect();
    assert!(
        small
            .iter()
            .all(|row| row[5].as_u64() >= Some(1000) && row[3].as_u64() < Some(8)),
        "{small:?}"
    );
    let line = of("p2p-integrity")["summary"].as_str().unwrap();
    assert!(
        line.contains("faults are below 0.2 % per pair (95 %)")
            && line.contains("nothing else changes in 9"),
        "{line}"
    );
    let reach = rows("p2p-reach");
    assert!(
        reach.iter().any(|row| row[4].as_u64() > Some(512 << 20)),
        "{reach:?}"
    );
    assert_eq!(rows("p2p-processes").len(), 2);
}

#[test]
fn mapped_memory_that_does_not_arrive_fails_at_every_level() {
    for level in ["quick", "standard"] {
        check_verdict(
            "vmm-only",
            &Scenario::named("vmm-only").unwrap(),
            &["--level", level],
        );
    }
}

/// All at the same time, because they wait for deadlines.
#[test]
fn each_hang_gets_its_verdict_and_its_tests_are_blamed() {
    let names = scenarios("hang", true);
    assert!(names.len() >= 5, "{names:?}");
    parallel_map(names.len(), &names, |name| {
        check_verdict(name, &Scenario::named(name).unwrap(), &[])
    });
}

#[test]
fn healthy_machines_of_every_size_pass() {
    for gpus in [2, 3, 5, 16] {
        check_verdict(
            "healthy",
            &Scenario::named("healthy").unwrap().gpus(gpus),
            &[],
        );
    }
}

/// The healthy machine passes the tests that find them, and below that level none of these tests runs.
#[test]
fn worn_gpus_are_found_at_level_acceptance() {
    let names = [&scenarios(WORN_PREFIX, true)[..], &["healthy".to_owned()]].concat();
    assert!(names.len() >= 5, "{names:?}");
    let words = ["--only", "cuda,gpu-memory,gpu-products,gpu-power"];
    parallel_map(2, &names, |name| {
        let scenario = Scenario::named(name)
            .unwrap()
            .gpus(2)
            .set(&["validate.acceptance_s=6".to_owned()]);
        let judged = check_verdict(name, &scenario, &words);
        for (id, table) in [
            ("gpu-memory", "memory"),
            ("gpu-products", "products"),
            ("gpu-power", "products"),
        ] {
            let tests = judged.report.0["tests"].as_array().unwrap();
            let test = tests.iter().find(|test| test["id"] == id).unwrap();
            assert_eq!(test["tables"][0]["name"], table, "{}", judged.text);
        }
    });
    let judged = validate(
        &Scenario::named("worn-memory").unwrap().gpus(2),
        &["--level", "quick"],
    )
    .unwrap();
    assert_eq!(judged.verdict(), "PASS", "{}", judged.text);
}

#[test]
fn level_full_tries_everything_also_between_processes() {
    let words = ["--level", "full", "--skip", "p2p-soak"];
    for name in ["healthy", "nvlink4"] {
        let judged = check_verdict(name, &Scenario::named(name).unwrap(), &words);
        assert_eq!(
            judged.report.outcome("p2p-processes"),
            "pass",
            "{}",
            judged.text
        );
    }
}

/// The workload's variables of NCCL, without their reasons.
fn settings(judged: &ValidatorRun) -> Vec<String> {
    let (set, why) = (
        &judged.report.0["workload_env"],
        &judged.report.0["workload_reasons"],
    );
    let nccl = set
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| name.starts_with("NCCL_"));
    let one = |(name, value): (&String, &serde_json::Value)| {
        assert!(
            why[name].as_str().is_some_and(|why| !why.is_empty()),
            "{name} without a reason"
        );
        format!("{name}={}", value.as_str().unwrap())
    };
    nccl.map(one)
        .filter(|set| !set.starts_with("NCCL_IB_HCA"))
        .collect()
}

#[test]
fn after_any_verdict_the_workload_gets_settings_that_are_proven_or_need_no_proof() {
    let healthy = Scenario::named("healthy").unwrap();
    for words in [
        &["--level", "quick"][..],
        &["--skip", "nccl-allreduce,nccl-collective,nccl-types"],
    ] {
        let judged = check_verdict("healthy", &healthy, words);
        let set = settings(&judged);
        assert_eq!(set, ["NCCL_P2P_LEVEL=SYS", "NCCL_SOCKET_IFNAME==lo"]);
    }
    parallel_map(2, &["nccl-hang-init", "nccl-no-transport"], |name| {
        let judged = check_verdict(name, &Scenario::named(name).unwrap(), &["--level", "quick"]);
        let set = settings(&judged);
        assert_eq!(
            set,
            ["NCCL_P2P_DISABLE=1", "NCCL_SOCKET_IFNAME==lo"],
            "{name}"
        );
    });
}

/// Where NVLinks carry all data, level standard leaves both tests to level full; who names one gets it.
#[test]
fn over_pcie_level_standard_tries_channels_and_the_frameworks_all_reduce() {
    let few = Scenario::named("nccl-few-channels").unwrap();
    let judged = check_verdict("nccl-few-channels", &few, &[]);
    assert!(
        settings(&judged).contains(&"NCCL_MIN_NCHANNELS=8".to_owned()),
        "{:?}",
        settings(&judged)
    );
    let both = |judged: &ValidatorRun| {
        ["p2p-allreduce", "nccl-channels"].map(|id| judged.report.outcome(id).to_owned())
    };
    assert_eq!(both(&judged), ["pass", "pass"]);
    let nvlink = Scenario::named("nvlink4").unwrap();
    assert_eq!(
        both(&check_verdict("nvlink4", &nvlink, &[])),
        ["not-applicable", "not-applicable"]
    );
    let named = &["--only", "p2p-integrity,p2p-allreduce,nccl,nccl-channels"];
    assert_eq!(
        both(&check_verdict("nvlink4", &nvlink, named)),
        ["pass", "pass"]
    );
}

/// Multicast that goes wrong can take GPUs out of service, so whoever forbids NVLS outside of firstlight is obeyed.
#[test]
fn an_inherited_switch_for_nvls_wins_over_the_configuration_and_reaches_the_workload() {
    let nvlink = Scenario::named("nvlink4").unwrap();
    let run = |inherited: Option<&str>, set: &str| {
        let words = [
            "--set",
            set,
            "validate",
            "--level",
            "quick",
            "--only",
            "nccl,nccl-nvls",
            "--json",
            "{}/r.json",
        ];
        with_prepared(&nvlink, &words, |mut command, dir| {
            let output = command
                .envs(inherited.map(|value| ("NCCL_NVLS_ENABLE", value)))
                .output()
                .unwrap();
            let report: serde_json::Value =
                serde_json::from_slice(&fs::read(dir.join("r.json")).unwrap()).unwrap();
            let env = report["workload_env"].clone();
            let untested = report.to_string().contains("NVLS-UNTESTED");
            Ok((
                env["NCCL_NVLS_ENABLE"].clone(),
                untested,
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ))
        })
        .unwrap()
    };
    let (value, untested, log) = run(Some("0"), "validate.nvls=true");
    assert_eq!((&value, untested), (&"0".into(), false), "{log}");
    assert!(
        log.contains("validate.nvls = true has no effect: NCCL_NVLS_ENABLE=0 in the environment"),
        "{log}"
    );
    let (value, untested, log) = run(Some("2"), "validate.nvls=false");
    assert_eq!(
        (&value, untested),
        (&serde_json::Value::Null, true),
        "{log}"
    );
    let (value, untested, log) = run(None, "validate.nvls=true");
    assert_eq!((&value, untested), (&"1".into(), false), "{log}");
}

/// A framework brings its own NCCL: `--nccl` proves that one, and the report says which it was.
#[test]
fn the_nccl_library_of_a_file_is_the_one_that_is_tested() {
    let healthy = Scenario::named("healthy").unwrap().gpus(2);
    let run = |file: &str| {
        let words = [
            "validate",
            "--level",
            "quick",
            "--only",
            "nccl",
            "--nccl",
            file,
            "--json",
            "{}/r.json",
        ];
        with_prepared(&healthy, &words, |mut command, dir| {
            // The library that the loader would find cannot be loaded.
            fs::copy(
                dir.join("lib/libnccl.so.2"),
                dir.join("lib/libnccl-wheel.so"),
            )
            .unwrap();
            fs::remove_file(dir.join("lib/libnccl.so.2")).unwrap();
            fs::write(dir.join("lib/libnccl.so.2"), "").unwrap();
            let output = command.output().unwrap();
            let report = fs::read_to_string(dir.join("r.json")).unwrap_or_default();
            Ok((
                output.status.code(),
                report,
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ))
        })
        .unwrap()
    };
    let (status, report, log) = run("{}/lib/libnccl-wheel.so");
    assert_eq!(status, Some(0), "{report}{log}");
    assert!(
        report.contains("tested NCCL 2.29.7 of /") && report.contains("libnccl-wheel.so"),
        "{report}"
    );
    let (status, report, log) = run("{}/lib/libnccl.so.2");
    assert!(
        status == Some(2) && report.contains("NCCL-MISSING"),
        "{report}{log}"
    );
    let (status, report, log) = run("{}/nothing.so");
    assert_eq!((status, report.as_str()), (Some(64), ""), "{log}");
    assert!(
        log.contains("--nccl /") && log.contains("nothing.so: No such file"),
        "{log}"
    );
}

/// All rows of the report's table with this name.
fn table<'a>(judged: &'a ValidatorRun, name: &str) -> &'a [serde_json::Value] {
    let tests = judged.report.0["tests"].as_array().unwrap();
    let mut tables = tests
        .iter()
        .flat_map(|test| test["tables"].as_array().unwrap());
    tables.find(|table| table["name"] == name).unwrap()["rows"]
        .as_array()
        .unwrap()
}

/// What differs from one communicator to the next is no gain, and one series of calls is timed as nccl-tests times it.
#[test]
fn a_gain_is_shown_where_it_exceeds_what_an_arms_communicators_differ_by() {
    let judged = check_verdict(
        "nccl-two-levels",
        &Scenario::named("nccl-two-levels").unwrap(),
        &[],
    );
    let line = |size: &str| {
        let found = judged
            .text
            .lines()
            .find(|line| line.trim_start().starts_with(size) && line.contains(" %"));
        found
            .or_else(|| {
                judged
                    .text
                    .lines()
                    .find(|line| line.trim_start().starts_with(size))
            })
            .unwrap()
            .to_owned()
    };
    for small in ["8 B ", "128 B ", "32 KiB "] {
        assert!(
            line(small).ends_with("no difference"),
            "{small}: {}",
            line(small)
        );
    }
    assert!(line("128 MiB ").ends_with("+43 %"), "{}", line("128 MiB "));
    let (first, last) = (
        &table(&judged, "nccl.gain")[0],
        &table(&judged, "nccl.gain")[24],
    );
    assert!(
        first[6].as_f64() > Some(10.0) && last[6].is_null(),
        "{first} {last}"
    );
    // The time of the table that the machine was measured with: 16253 us.
    assert!(
        (last[1].as_f64().unwrap() - 16_253.0).abs() < 20.0,
        "{last}"
    );
    let effects = judged.report.0["effects"].as_object().unwrap();
    assert!(
        !effects.contains_key("p2p_speedup_8") && effects.contains_key("p2p_speedup_128M"),
        "{effects:?}"
    );
}

#[test]
fn a_wrong_value_of_the_second_turn_is_in_the_table_too() {
    let judged = check_verdict(
        "nccl-wrong-later",
        &Scenario::named("nccl-wrong-later").unwrap(),
        &[],
    );
    let rows = table(&judged, "nccl.all_reduce");
    let wrong: Vec<_> = rows
        .iter()
        .map(|row| row[8].as_u64().unwrap() + row[12].as_u64().unwrap())
        .collect();
    assert_eq!(
        (rows[24][1].as_u64(), wrong.iter().sum::<u64>(), wrong[24]),
        (Some(128 << 20), 1, 1)
    );
    assert!(!judged.text.contains("more sizes"), "{}", judged.text);
}

#[test]
fn collectives_are_counted_with_any_number_of_gpus() {
    let judged = check_verdict("healthy", &Scenario::named("healthy").unwrap().gpus(3), &[]);
    assert!(judged.text.contains("8 collectives"), "{}", judged.text);
}

/// What `firstlight nccl` prints for a scenario, and its exit status.
fn nccl(name: &str, words: &[&str]) -> (String, Option<i32>) {
    let words: Vec<_> = ["nccl"].iter().chain(words).copied().collect();
    let scenario = Scenario::named(name).unwrap();
    let result = firstlight(&scenario, &words, |output, _| {
        Ok((
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.code(),
        ))
    });
    result.unwrap()
}

/// The two recorded runs of nccl-tests on 8 x RTX 4090, without peer-to-peer and with it. nccl-tests computed the average
/// from times with more digits than it prints.
#[test]
fn nccl_prints_the_recorded_tables_of_the_reference_machine() {
    for (p2p, small, large, average) in [
        (
            "off",
            "38.83",
            "16253.0   8.26   14.45       0  16227.0   8.27   14.47",
            "4.8526",
        ),
        (
            "on",
            "38.82",
            "11382.0   11.79   20.64       0  11380.0   11.79   20.64",
            "6.1116",
        ),
    ] {
        let words = [
            "all_reduce",
            "-b",
            "8",
            "-e",
            "128M",
            "-f",
            "2",
            "--p2p",
            p2p,
        ];
        let (text, status) = nccl("healthy", &words);
        assert_eq!(status, Some(0), "{text}");
        let rows: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .collect();
        assert_eq!(rows.len(), 25, "{text}");
        assert!(rows[0].contains(small), "{text}");
        let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain(rows[24]).contains(&plain(large)), "{text}");
        assert!(
            text.contains(&format!("# Avg bus bandwidth    : {average}")),
            "{text}"
        );
    }
}

#[test]
fn wrong_values_and_a_missing_transport_have_their_own_exit_status() {
    let (text, status) = nccl(
        "nccl-wrong-element",
        &["all_reduce", "-b", "64M", "-e", "64M"],
    );
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("# Out of bounds values : 2 FAILED"), "{text}");
    let (text, status) = nccl(
        "nccl-no-transport",
        &["all_reduce", "-b", "8", "-e", "8", "--p2p", "strict"],
    );
    assert_eq!(status, Some(1), "{text}");
    assert_eq!(nccl("nccl-missing", &["all_reduce"]).1, Some(2));
    assert_eq!(
        nccl(
            "healthy",
            &[
                "all_reduce",
                "-b",
                "64",
                "-e",
                "1M",
                "-f",
                "4",
                "--processes"
            ]
        )
        .1,
        Some(0)
    );
}

#[test]
fn findings_are_printed_even_if_the_json_cannot_be_written() {
    let all = |name: &str, words: &[&str]| {
        let scenario = Scenario::named(name).unwrap();
        let result = firstlight(&scenario, words, |output, _| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok((
                text(&output.stdout),
                text(&output.stderr),
                output.status.code(),
            ))
        });
        result.unwrap()
    };
    let words = ["nccl", "all_reduce", "-b", "64M", "-e", "64M", "-J"];
    let (text, log, status) = all("nccl-wrong-element", &[&words[..], &["/dev/full"]].concat());
    assert_eq!(status, Some(1), "{text}{log}");
    assert!(text.contains("# Out of bounds values : 2 FAILED"), "{text}");
    assert!(
        log.contains(", expected ") && log.contains("/dev/full: cannot be written"),
        "{log}"
    );
    let (text, log, status) = all("healthy", &[&words[..], &["/nowhere/x.json"]].concat());
    assert_eq!((text.as_str(), status), ("", Some(64)));
    assert!(
        log.contains("'/nowhere/x.json': cannot be written: No such file"),
        "{log}"
    );
}

#[test]
fn one_gpu_alone_gives_right_values_and_the_exchange_names_its_reduction() {
    let (text, status) = nccl(
        "healthy",
        &["all_reduce", "-g", "1", "-b", "512K", "-e", "512K"],
    );
    assert_eq!(status, Some(0), "{text}");
    let (text, _) = nccl(
        "healthy",
        &["sendrecv", "-o", "max", "-b", "1K", "-e", "1K"],
    );
    assert!(text.contains("     float     max  "), "{text}");
}

/// Warnings, failures and errors that name a pair of GPUs name only this one.
#[track_caller]
fn assert_blames_only(judged: &ValidatorRun, name: &str, pair: [usize; 2]) {
    let allowed = [
        format!("GPU {} -> {}", pair[0], pair[1]),
        format!("GPU {} -> {}", pair[1], pair[0]),
    ];
    let tests = judged.report.0["tests"].as_array().unwrap();
    let findings = tests.iter().flat_map(|t| t["findings"].as_array().unwrap());
    let bad =
        findings.filter(|f| ["warn", "fail", "error"].contains(&f["severity"].as_str().unwrap()));
    let subjects: Vec<_> = bad.filter_map(|f| f["subject"].as_str()).collect();
    assert!(!subjects.is_empty(), "{name} {pair:?}");
    for subject in subjects.iter().filter(|s| s.contains(" -> ")) {
        assert!(
            allowed.iter().any(|a| a == subject),
            "{name} {pair:?} blames {subject}:\n{}",
            judged.text
        );
    }
}

/// A number of GPUs, and two of them.
fn gpu_count_and_pair() -> impl Strategy<Value = (usize, [usize; 2])> {
    (2..=8_usize).prop_flat_map(|gpus| {
        let pair =
            (0..gpus, 1..gpus).prop_map(move |(from, further)| [from, (from + further) % gpus]);
        (Just(gpus), pair)
    })
}

/// Each fault once, at a random pair of a machine of random size; `./run matrix` tries them on up to 16 GPUs.
#[test]
fn a_fault_is_found_where_it_is_and_nowhere_else() {
    parallel_map(2, PAIR_FAULTS, |name| {
        let mut runner = TestRunner::new(Config {
            cases: 1,
            failure_persistence: None,
            ..Config::default()
        });
        let found = runner.run(&gpu_count_and_pair(), |(gpus, [from, to])| {
            let scenario = Scenario::named(name).unwrap().gpus(gpus).pair(from, to);
            assert_blames_only(&check_verdict(name, &scenario, &[]), name, [from, to]);
            Ok(())
        });
        found.unwrap();
    });
}
