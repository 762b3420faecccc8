//! What a verdict on simulated GPUs covers, and what is left of a run that is ended from outside.

use harness::simgpu::{Scenario, firstlight, validate, with_prepared};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use toml::Value;

fn healthy(gpus: usize) -> Scenario {
    Scenario::named("healthy").unwrap().gpus(gpus)
}

/// The file that vLLM reads has the proven pairs and no others, and none where peer-to-peer has failed.
#[test]
fn vllm_reads_the_proven_pairs_and_none_after_a_failure() {
    for (name, gpus, folder, reached) in [
        ("healthy", 3, "proven", true),
        ("zeros", 3, "none", false),
        ("allreduce-zeros", 3, "none", false),
    ] {
        let scenario = Scenario::named(name).unwrap().gpus(gpus);
        let words = ["validate", "--skip", "nccl-channels", "--json", "{}/r.json"];
        firstlight(&scenario, &words, |_, dir| {
            let (report, to) = (dir.join("r.json").display().to_string(), dir.join("vllm"));
            let words = ["env", &report, "--vllm", &to.display().to_string()];
            let env = firstlight(&scenario, &words, |output, _| Ok(output.stdout)).unwrap();
            let (env, root) = (String::from_utf8(env).unwrap(), to.join(folder));
            let line = format!("VLLM_CACHE_ROOT={}\n", root.display());
            assert!(
                env.contains(&line) && env.contains("\nVLLM_SKIP_P2P_CHECK=0\n"),
                "{name}: {env}"
            );
            // If only the frameworks' own all-reduce fails, NCCL still uses peer-to-peer.
            assert_eq!(
                env.contains("NCCL_P2P_DISABLE=1"),
                name == "zeros",
                "{name}: {env}"
            );
            let text = fs::read(root.join("gpu_p2p_access_cache_for_0,1,2.json")).unwrap();
            let read: std::collections::BTreeMap<String, bool> =
                serde_json::from_slice(&text).unwrap();
            let pairs = (0..gpus).flat_map(|from| (0..gpus).map(move |to| format!("{from}->{to}")));
            assert_eq!(read, pairs.map(|pair| (pair, reached)).collect(), "{name}");
            assert_eq!(to.join("proven").exists(), reached, "{name}");
            Ok(())
        })
        .unwrap();
    }
}

/// Every number in field `inside` of the items under a key of all tests.
fn numbers(report: &serde_json::Value, key: &str, inside: &str) -> Vec<f64> {
    fn collect(value: &serde_json::Value, into: &mut Vec<f64>) {
        match value {
            serde_json::Value::Array(all) => all.iter().for_each(|value| collect(value, into)),
            other => into.extend(other.as_f64()),
        }
    }
    let mut all = Vec::new();
    let tests = report["tests"].as_array().unwrap();
    let items = tests.iter().flat_map(|test| test[key].as_array().unwrap());
    items.for_each(|item| collect(&item[inside], &mut all));
    all
}

/// Every measured number is in the forms that must have it: rounded in HTML, in base units for Prometheus.
fn assert_every_number_shown(report: &serde_json::Value, form: &str, shown: &str) {
    let (matrices, tables) = (
        numbers(report, "matrices", "values"),
        numbers(report, "tables", "rows"),
    );
    assert!(
        matrices.len() > 40 && tables.len() > 200,
        "{} and {}",
        matrices.len(),
        tables.len()
    );
    match form {
        "html" => {
            let cells = shown
                .split("<td")
                .skip(1)
                .filter_map(|cell| cell.split_once('>')?.1.split('<').next());
            let cells: BTreeSet<_> = cells.collect();
            for n in matrices.iter().chain(&tables) {
                let texts = [0, 1, 2, 3, 4].map(|digits| format!("{n:.digits$}"));
                assert!(
                    texts.iter().any(|text| cells.contains(text.as_str())),
                    "{n} is in no cell"
                );
            }
        }
        "prometheus" => {
            let lines = shown
                .lines()
                .filter(|line| line.starts_with("firstlight_matrix_"));
            let values: Vec<f64> = lines
                .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
                .collect();
            assert_eq!(values.len(), matrices.len());
            for n in matrices {
                let near = |value: f64| (value - n).abs() <= n.abs() * 1e-9;
                let scales = [1.0, 1e-9, 1e6, 1e9];
                assert!(
                    values
                        .iter()
                        .any(|v| scales.iter().any(|scale| near(v * scale))),
                    "{n} is in no line"
                );
            }
        }
        _ => {}
    }
}

/// The simulation covers a whole machine, and no form of its report can be taken for that of a real one.
#[test]
fn a_simulated_pass_says_simulated_in_every_form() {
    let words = [
        "validate",
        "--level",
        "standard",
        "--json",
        "{}/r.json",
        "--text",
        "{}/r.txt",
    ];
    firstlight(&healthy(2), &words, |output, dir| {
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report = dir.join("r.json");
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        assert_eq!(
            (&json["verdict"], &json["scope"]),
            (&"PASS".into(), &"machine".into())
        );
        let last = fs::read_to_string(dir.join("r.txt"))
            .unwrap()
            .lines()
            .last()
            .unwrap()
            .to_owned();
        assert!(last.contains(" scope=machine host=Simulated "), "{last}");
        for form in ["json", "text", "junit", "html", "prometheus"] {
            let words = ["render", &report.display().to_string(), "--to", form];
            let shown = firstlight(&healthy(2), &words, |output, _| Ok(output.stdout)).unwrap();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            assert!(shown.contains("2 x Simulated NVIDIA"), "{form}: {shown}");
            assert_every_number_shown(&json, form, &shown);
        }
        let words = ["env", &report.display().to_string()];
        let env = firstlight(&healthy(2), &words, |output, _| Ok(output.stdout)).unwrap();
        let covers = "# 2 x Simulated NVIDIA GeForce RTX 4090 and the paths between them";
        assert!(
            String::from_utf8_lossy(&env).contains(covers),
            "{}",
            String::from_utf8_lossy(&env)
        );
        Ok(())
    })
    .unwrap();
}

/// Every call into such a driver may hang; the tests that need no such call still run.
#[test]
fn no_gpu_is_tested_after_a_driver_that_did_not_finish_its_start() {
    let words = ["validate", "--level", "quick", "--json", "{}/r.json"];
    let judged = with_prepared(&healthy(2), &words, |mut command, dir| {
        let file = dir.join("root/run/firstlight/driver.json");
        let mut account: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        account["findings"] = serde_json::json!([{ "code": "DRIVER-TIMEOUT", "severity": "error", "subject": "nvidia",
            "message": "opening /dev/nvidia0: did not end within 300 s", "evidence": [] }]);
        fs::write(&file, account.to_string()).unwrap();
        assert_eq!(command.output().unwrap().status.code(), Some(2));
        Ok(serde_json::from_slice::<serde_json::Value>(&fs::read(dir.join("r.json")).unwrap()).unwrap())
    })
    .unwrap();
    let ended = |id: &str| {
        judged["tests"]
            .as_array()
            .unwrap()
            .iter()
            .find(|t| t["id"] == id)
            .unwrap()
            .clone()
    };
    for id in [
        "cuda",
        "p2p-capability",
        "p2p-integrity",
        "p2p-bandwidth",
        "p2p-latency",
        "nccl",
    ] {
        let (test, summary) = (
            ended(id),
            "not run, because the driver does not answer: opening /dev/nvidia0",
        );
        assert_eq!(test["outcome"], "error", "{test}");
        assert!(
            test["summary"].as_str().unwrap().starts_with(summary),
            "{test}"
        );
        assert_eq!(test["findings"][0]["recovery"], "reset-gpu", "{test}");
    }
    assert_eq!(ended("iommu")["outcome"], "pass");
}

#[test]
fn one_gpu_alone_passes_and_the_report_says_what_the_verdict_does_not_cover() {
    let judged = validate(&healthy(1), &["--level", "quick"]).unwrap();
    assert_eq!(
        (judged.verdict(), judged.report.outcome("cuda")),
        ("PASS", "pass"),
        "{}",
        judged.text
    );
    let covers = judged.report.0["covers"].as_str().unwrap();
    assert!(
        covers.starts_with(
            "1 x Simulated NVIDIA GeForce RTX 4090 alone; the verdict does not cover peer"
        ),
        "{covers}"
    );
}

/// Four GPUs in pairs, with no peer access between the pairs.
fn bridged_pairs() -> Scenario {
    let group = |gpus: [i64; 2]| Value::Array(gpus.map(Value::Integer).to_vec());
    healthy(4).machine("peers", Value::Array(vec![group([0, 1]), group([2, 3])]))
}

const PAIR_TESTS: &str =
    "cuda,p2p-capability,p2p-integrity,p2p-reach,p2p-order,p2p-bandwidth,p2p-latency,p2p-together";

#[test]
fn bridged_pairs_are_degraded_unless_they_are_expected_and_fail_where_more_is_expected() {
    let judged = validate(&bridged_pairs(), &["--only", PAIR_TESTS]).unwrap();
    assert_eq!(
        (judged.verdict(), judged.fails()),
        ("DEGRADED", vec!["p2p-capability"]),
        "{}",
        judged.text
    );
    assert!(
        judged.text.contains("[0,1] [2,3]") && judged.text.contains(" codes=PEERS-GROUPED "),
        "{}",
        judged.text
    );
    for (peers, verdict) in [
        ("[[0,1],[2,3]]", "PASS"),
        ("[[0,1,2,3]]", "FAIL"),
        ("[[0,1],[2,9]]", "ERROR"),
    ] {
        let set = format!("expect.peers={peers}");
        let words = [
            "--set",
            set.as_str(),
            "validate",
            "--only",
            PAIR_TESTS,
            "--json",
            "-",
        ];
        let verdict_of = |bytes: &[u8]| {
            let report: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            report["verdict"].as_str().unwrap().to_owned()
        };
        let found = firstlight(&bridged_pairs(), &words, |output, _| {
            Ok(verdict_of(&output.stdout))
        })
        .unwrap();
        assert_eq!(found, verdict, "{peers}");
    }
}

#[test]
fn a_limited_run_covers_its_gpus_and_names_the_others() {
    let zeros = Scenario::named("zeros").unwrap().gpus(4).pair(0, 1);
    let judged = validate(&zeros, &["--level", "quick", "--gpus", "0,2,3"]).unwrap();
    assert_eq!(judged.verdict(), "PASS", "{}{}", judged.text, judged.log);
    let report = &judged.report.0;
    assert_eq!(
        (&report["scope"], report["gpus"].as_array().unwrap().len()),
        (&"gpus:0,2,3".into(), 3)
    );
    let covers = report["covers"].as_str().unwrap();
    assert!(
        covers.contains("3 x Simulated NVIDIA") && covers.contains("; left out: GPU 1 (0000:"),
        "{covers}"
    );
    assert!(
        judged.report.test("p2p-integrity")["summary"]
            .as_str()
            .unwrap()
            .starts_with("6 of 6 "),
        "{}",
        judged.text
    );
    let judged = validate(&zeros, &["--level", "quick", "--gpus", "1,0"]).unwrap();
    assert_eq!(
        (judged.verdict(), judged.fails()),
        ("FAIL", vec!["p2p-integrity"]),
        "{}",
        judged.text
    );
    let refused = firstlight(&zeros, &["validate", "--gpus", "4"], |output, _| {
        Ok(output.status.code())
    })
    .unwrap();
    assert_eq!(refused, Some(64));
}

/// The command lines of the processes with the validator's PID after `--beneath`: those that it started, and their children.
fn started_by(validator: &Child) -> Vec<String> {
    let number = validator.id().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let started = processes.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<_> = line
            .split(|b| *b == 0)
            .map(String::from_utf8_lossy)
            .collect();
        let ours = words
            .windows(2)
            .any(|pair| pair[0] == "--beneath" && pair[1] == number);
        ours.then(|| words.join(" "))
    });
    started.collect()
}

/// Starts a run in which NCCL hangs, and passes it to `then` once one of its processes has `word` in its command line.
fn with_hanging_nccl(word: &str, then: impl FnOnce(&mut Child, &std::path::Path)) {
    let words = ["validate", "--only", "nccl", "--json", "{}/r.json"];
    with_prepared(
        &Scenario::named("nccl-hang-init").unwrap().gpus(2),
        &words,
        |mut command, dir| {
            let mut child = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let due = Instant::now() + Duration::from_secs(60);
            while !started_by(&child).iter().any(|line| line.contains(word)) {
                assert!(
                    Instant::now() < due && child.try_wait().unwrap().is_none(),
                    "{:?}",
                    started_by(&child)
                );
                sleep(Duration::from_millis(5));
            }
            then(&mut child, dir);
            Ok(())
        },
    )
    .unwrap();
}

#[track_caller]
fn assert_no_process_left(validator: &Child) {
    let due = Instant::now() + Duration::from_secs(2);
    while !started_by(validator).is_empty() {
        assert!(Instant::now() < due, "{:?}", started_by(validator));
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_validator_leaves_no_worker_and_no_rank() {
    for word in [" worker ", " rank "] {
        with_hanging_nccl(word, |child, _| {
            child.kill().unwrap();
            child.wait().unwrap();
            assert_no_process_left(child);
        });
    }
}

#[test]
fn an_interrupted_run_leaves_its_report_and_no_rank() {
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        with_hanging_nccl(" rank ", |child, dir| {
            let sent = Command::new("kill")
                .args([signal, &child.id().to_string()])
                .status()
                .unwrap();
            assert!(sent.success());
            assert_eq!(child.wait().unwrap().code(), Some(status));
            assert_no_process_left(child);
            let report: serde_json::Value =
                serde_json::from_slice(&fs::read(dir.join("r.json")).unwrap()).unwrap();
            assert_eq!(
                (
                    &report["verdict"],
                    &report["tests"][0]["findings"][0]["code"]
                ),
                (&"ERROR".into(), &"INTERRUPTED".into())
            );
        });
    }
}

/// A machine of RTX 4090 and, from GPU `from` on, RTX 3090, with no peer access between the two kinds.
fn mixed_boards(gpus: usize, from: usize) -> Scenario {
    let number = |n: usize| Value::Integer(i64::try_from(n).unwrap());
    let group = |range: std::ops::Range<usize>| Value::Array(range.map(number).collect());
    let peers = vec![group(0..from), group(from..gpus)];
    let scenario = healthy(gpus)
        .machine("peers", Value::Array(peers))
        .machine("p2p_off", "NS");
    let mut machine = machines::epyc_with_gpus(&scenario.addresses());
    for bdf in scenario.addresses().iter().skip(from) {
        let gpu = machine.at(bdf);
        gpu.ids.1 = 0x2204;
        gpu.config[2..4].copy_from_slice(&0x2204_u16.to_le_bytes());
    }
    scenario.within(machine)
}

/// Boards of two generations have peer access on no machine: the verdict covers the pairs that can have it.
#[test]
fn mixed_boards_are_not_applicable_and_fail_no_machine() {
    let judged = validate(&mixed_boards(3, 2), &["--only", PAIR_TESTS]).unwrap();
    assert_eq!(
        (judged.verdict(), judged.fails()),
        ("PASS", vec![]),
        "{}",
        judged.text
    );
    let test = judged.report.test("p2p-capability").clone();
    let finding = &test["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["severity"]),
        (&"P2P-MIXED".into(), &"info".into()),
        "{test}"
    );
    assert!(
        finding["cause"]
            .as_str()
            .unwrap()
            .contains("Ada AD102 and Ampere GA102"),
        "{test}"
    );
    let rows = test["tables"][0]["rows"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row[1] == "access")
            && rows.iter().any(|row| row[1] == "not applicable")
    );
    // Two boards that cannot reach each other: nothing is proven between them, and nothing failed.
    let judged = validate(&mixed_boards(2, 1), &["--level", "quick"]).unwrap();
    let ended = ["p2p-capability", "nccl"].map(|id| judged.report.outcome(id).to_owned());
    assert_eq!(
        (judged.verdict(), ended),
        (
            "ERROR",
            ["not-applicable", "not-applicable"].map(str::to_owned)
        )
    );
    assert_eq!(judged.fails(), ["scope"], "{}", judged.text);
    assert!(
        judged.text.contains("Ada AD102 and Ampere GA102"),
        "{}",
        judged.text
    );
    // If the settings expect it anyway, it is a failure.
    let asked = mixed_boards(3, 2).set(&["expect.peers=[[0,1,2]]".to_owned()]);
    let judged = validate(&asked, &["--only", "cuda,p2p-capability"]).unwrap();
    assert_eq!(
        (judged.verdict(), judged.fails()),
        ("FAIL", vec!["p2p-capability"]),
        "{}",
        judged.text
    );
}

/// Every command that needs NVML reports that NVML hangs, long before the command itself seems dead; the others work.
#[test]
fn a_hanging_nvml_is_an_error_of_every_command_within_its_deadline() {
    let hanging =
        ["nvml-hang-start", "nvml-hang-use"].map(|name| Scenario::named(name).unwrap().gpus(2));
    let commands: [(&[&str], i32, &str); 8] = [
        (&["topo"], 2, "NVML does not answer within 20.0 s"),
        (&["p2p", "--plan"], 2, "NVML does not answer within 20.0 s"),
        (&["p2p", "--level", "quick"], 2, "NVML-TIMEOUT"),
        (
            &["nccl", "all_reduce"],
            2,
            "NVML does not answer within 10.0 s",
        ),
        (
            &[
                "validate",
                "--level",
                "acceptance",
                "--only",
                "gpu-memory,gpu-power",
            ],
            2,
            "NVML-TIMEOUT",
        ),
        (&["validate", "--only", "bar1-static"], 0, "2 of 2 GPUs"),
        (&["record", "{}/machine.txt"], 0, ""),
        (&["fabric", "show"], 0, "0000:01:00.0"),
    ];
    // All at the same time, because they wait for deadlines.
    std::thread::scope(|scope| {
        for (words, status, expected) in commands {
            for scenario in &hanging {
                scope.spawn(move || {
                    let start = Instant::now();
                    let output = firstlight(scenario, words, |output, _| Ok(output)).unwrap();
                    let printed = [output.stdout, output.stderr]
                        .map(|t| String::from_utf8_lossy(&t).into_owned());
                    assert_eq!(output.status.code(), Some(status), "{words:?}: {printed:?}");
                    assert!(
                        printed.iter().any(|text| text.contains(expected)),
                        "{words:?}: {printed:?}"
                    );
                    assert!(
                        start.elapsed() < Duration::from_secs(120),
                        "{words:?}: {:?}",
                        start.elapsed()
                    );
                });
            }
        }
    });
}

/// A baseline of this machine agrees, the same with a faster pair is drift, and one that cannot be read is an error, both in a
/// run and in `baseline compare`.
#[test]
fn a_figure_below_the_baseline_degrades_the_verdict_and_a_missing_baseline_is_an_error() {
    with_prepared(&healthy(2), &[], |command, dir| {
        let at = |name: &str| dir.join(name).display().to_string();
        // One simulated machine for all commands, as on real hardware.
        let run = |words: &[&str]| {
            let mut again = Command::new(command.get_program());
            let output = again
                .args(command.get_args())
                .args(words)
                .env_clear()
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let text =
                [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
            (output.status.code(), text.concat())
        };
        let (report, base, other) = (at("r.json"), at("base.json"), at("other.json"));
        let (status, printed) = run(&["validate", "--level", "quick", "--json", &report]);
        assert_eq!(status, Some(0), "{printed}");
        let (status, printed) = run(&["baseline", "save", &report, &base]);
        assert!(
            status == Some(0) && printed.contains("2 x Simulated NVIDIA"),
            "{printed}"
        );
        let mut value: serde_json::Value =
            serde_json::from_slice(&fs::read(&base).unwrap()).unwrap();
        let cell = value
            .pointer_mut("/figures/p2p-bandwidth~1sample.uni.on/cells/0 -> 1/value")
            .unwrap();
        *cell = (cell.as_f64().unwrap() * 1.5).into();
        fs::write(&other, value.to_string()).unwrap();
        for (base, status, expected) in [
            (&base, 0, "figures are as in the baseline"),
            (&other, 3, "BASELINE-DRIFT"),
            (&at("none.json"), 2, "cannot be read"),
        ] {
            let key = format!("validate.baseline={base}");
            let (ended, printed) = run(&["--set", &key, "validate", "--level", "quick"]);
            assert!(
                ended == Some(status) && printed.contains(expected),
                "{base}: {printed}"
            );
            let (ended, printed) = run(&["baseline", "compare", base, &report]);
            assert!(
                ended == Some(status) && printed.contains(expected),
                "{base}: {printed}"
            );
        }
        // A report of a lower level cannot be compared.
        fs::write(
            &base,
            fs::read_to_string(&base)
                .unwrap()
                .replace("\"level\": \"quick\"", "\"level\": \"full\""),
        )
        .unwrap();
        let (ended, printed) = run(&["baseline", "compare", &base, &report]);
        assert!(
            ended == Some(2) && printed.contains("of level quick, but the baseline of level full"),
            "{printed}"
        );
        Ok(())
    })
    .unwrap();
}
