//! The report's forms and places: complete JSON, the same text again, no partial files, and readers that stop reading.

use super::machine::{Machine, Run, firstlight, run_of};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn good() -> Machine {
    Machine::modelled("epyc-8x4090")
}

#[test]
fn the_report_has_every_key_of_its_schema() {
    let report: Value =
        serde_json::from_str(&good().run("validate --scope fabric --json -").out).unwrap();
    let keys = |v: &Value| {
        v.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        keys(&report),
        "answer appliance boot causes covers driver effects fabric gpus level machine next_step root schema scope seconds started tests verdict workload_env workload_reasons"
    );
    assert_eq!(
        keys(&report["machine"]),
        "bound_to cmdline dmi fingerprint host kernel machine_id platform serial"
    );
    assert_eq!(keys(&report["driver"]), "cuda gsp module nccl userspace");
    assert_eq!(
        keys(&report["appliance"]),
        "image_id manifest_sha256 version"
    );
    assert_eq!(
        keys(&report["tests"][0]),
        "began findings id level log_tail matrices outcome proves seconds summary tables title"
    );
    assert_eq!(report["schema"], "firstlight.report/1");
    assert!(report["seconds"].is_number() && report["tests"][0]["seconds"].is_number());
    assert_eq!(report["gpus"].as_array().unwrap().len(), 8);
    assert_eq!(report["gpus"][0]["bar1_bytes"], 32_u64 << 30);
    assert_eq!(report["machine"]["fingerprint"].as_str().unwrap().len(), 64);
    assert_eq!(report["machine"]["bound_to"]["iommu"], "off");
    assert_eq!(report["machine"]["bound_to"]["driver"], "555.58.02");
    assert_eq!(
        report["machine"]["bound_to"]["module_srcversion"],
        "2F5D0C9B1A3E4F607182934"
    );
    let versions = serde_json::json!({ "module": "555.58.02", "userspace": "555.58.02", "gsp": "555.58.02",
                                       "nccl": "2.29.7", "cuda": null });
    assert_eq!(report["driver"], versions);
    assert_eq!(
        report["gpus"][7]["uuid"],
        "GPU-00000000-0000-0000-0000-000000000007"
    );
}

#[test]
fn the_first_line_names_driver_nccl_and_gpus() {
    let out = good().run("validate").out;
    let first = "firstlight 0.1.0   driver 555.58.02   nccl 2.29.7   8 x NVIDIA GeForce RTX 4090   level standard";
    assert!(out.starts_with(first), "{out}");
}

#[test]
fn the_fingerprint_follows_the_machine_and_not_the_run() {
    let fingerprint = |m: &Machine| {
        let report: Value =
            serde_json::from_str(&m.run("validate --scope fabric --json -").out).unwrap();
        report["machine"]["fingerprint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let machine = good();
    let before = fingerprint(&machine);
    assert_eq!(fingerprint(&machine), before);
    machine.write("sys/module/nvidia/srcversion", "another build");
    assert_ne!(fingerprint(&machine), before);
    let machine = good();
    machine.write("proc/cmdline", "something else");
    assert_ne!(fingerprint(&machine), before);
    assert_ne!(
        fingerprint(&Machine::modelled("epyc-8x4090-before")),
        before
    );
}

#[test]
fn a_report_shown_again_is_what_was_shown_at_first() {
    let machine = Machine::modelled("narrow-link");
    let file = machine.at("report.json");
    let first = machine.run(&format!(
        "validate --scope fabric --json {} --text -",
        file.display()
    ));
    let again = run_of(
        firstlight(&format!("render {} --to text", file.display()))
            .output()
            .unwrap(),
    );
    // If rows are shown as tests end, the answer follows them; otherwise it comes first.
    let gpus_and_more = again.out.split_once("\n\n").unwrap().1;
    let (answer, rows) = gpus_and_more
        .split_once("\n\n")
        .unwrap()
        .1
        .split_once("\n\n")
        .unwrap();
    assert!(
        answer.starts_with("ANSWER   P2P: NOT TESTED, ") && answer.contains("\nFIRST    "),
        "{answer}"
    );
    assert!(rows.starts_with("  PASS   fabric "), "{rows}");
    let without = |text: &str| {
        text.replace(&format!("{answer}\n\n"), "")
            .replace(&format!("\n{answer}\n"), "")
    };
    assert_eq!(
        (again.status, without(&again.out)),
        (0, without(&first.out))
    );
    assert!(first.err.is_empty(), "{}", first.err);
    let json = run_of(
        firstlight(&format!("render {} --to json", file.display()))
            .output()
            .unwrap(),
    );
    assert_eq!(json.out, fs::read_to_string(&file).unwrap());
    let to = machine.at("again.txt");
    run_of(
        firstlight(&format!(
            "render {} --to text -o {}",
            file.display(),
            to.display()
        ))
        .output()
        .unwrap(),
    );
    assert_eq!(fs::read_to_string(to).unwrap(), again_text(&machine));
}

#[test]
fn a_report_has_a_form_for_ci_one_for_prometheus_and_one_for_people() {
    let machine = Machine::modelled("narrow-link");
    let file = machine.at("report.json");
    let verdict = machine.run(&format!(
        "validate --scope fabric --json {}",
        file.display()
    ));
    assert!(
        verdict.out.contains("\nVERDICT  DEGRADED"),
        "{}",
        verdict.out
    );
    for (form, words) in [
        ("junit", "<property name=\"verdict\" value=\"DEGRADED\"/>"),
        (
            "prometheus",
            "\nfirstlight_verdict{verdict=\"DEGRADED\"} 1\n",
        ),
        ("html", "<title>firstlight: DEGRADED of fabric, "),
    ] {
        let command = format!("render {} --to {form}", file.display());
        let shown = run_of(firstlight(&command).output().unwrap());
        assert_eq!((shown.status, shown.err.as_str()), (0, ""), "{form}");
        assert!(
            shown.out.contains(words) && shown.out.contains("LINK-NARROW"),
            "{form}: {}",
            shown.out
        );
    }
}

fn again_text(machine: &Machine) -> String {
    run_of(
        firstlight(&format!(
            "render {} --to text",
            machine.at("report.json").display()
        ))
        .output()
        .unwrap(),
    )
    .out
}

#[test]
fn the_workload_gets_one_line_per_variable() {
    let machine = good();
    let file = machine.at("report.json");
    machine.run(&format!(
        "validate --scope fabric --json {}",
        file.display()
    ));
    let env = run_of(
        firstlight(&format!("env {}", file.display()))
            .output()
            .unwrap(),
    );
    assert_eq!(env.status, 0);
    assert!(
        env.out.contains("FIRSTLIGHT_VERDICT=PASS\n") && env.out.contains("FIRSTLIGHT_GPUS=8\n"),
        "{}",
        env.out
    );
    let hcas = "# the ports that are ACTIVE, 2 of 4\nNCCL_IB_HCA==mlx5_0:1,mlx5_2:1\n";
    assert!(env.out.contains(hcas), "{}", env.out);
    // Each variable has its reason, and no reason can be mistaken for a variable.
    let (reasons, variables): (Vec<_>, Vec<_>) = env.out.lines().partition(|l| l.starts_with('#'));
    assert_eq!(reasons.len(), variables.len(), "{}", env.out);
    assert!(
        reasons
            .iter()
            .all(|l| l.starts_with("# ") && !l.contains('=')),
        "{}",
        env.out
    );
    let forged = fs::read_to_string(&file).unwrap().replace(
        "\"FIRSTLIGHT_VERDICT\": \"PASS\"",
        "\"FIRSTLIGHT_VERDICT\": \"PASS\\nLD_PRELOAD=/x\"",
    );
    fs::write(&file, forged).unwrap();
    let env = run_of(
        firstlight(&format!("env {}", file.display()))
            .output()
            .unwrap(),
    );
    assert_eq!((env.status, env.out.as_str()), (2, ""), "{}", env.err);
}

#[test]
fn what_is_no_report_is_refused_with_the_reason() {
    let machine = Machine::small();
    for (text, why) in [
        ("", "not JSON"),
        ("{}", "schema is none, allowed: \"firstlight.report/1\""),
        (
            "{\"schema\":\"firstlight.report/2\"}",
            "schema is \"firstlight.report/2\"",
        ),
        ("{\"schema\":\"firstlight.report/1\"}", "missing field"),
    ] {
        machine.write("r.json", text);
        for command in ["env", "next-step", "render --to text"] {
            let run = run_of(
                firstlight(&format!("{command} {}", machine.at("r.json").display()))
                    .output()
                    .unwrap(),
            );
            assert_eq!((run.status, run.out.as_str()), (2, ""), "{text}");
            assert!(
                run.err.contains(why) && run.err.lines().count() == 1,
                "{}",
                run.err
            );
        }
    }
}

#[test]
fn the_next_step_is_one_line_and_a_later_report_is_no_earlier_one() {
    let machine = good();
    let text = machine.run("validate --scope fabric --json -").out;
    machine.write("r.json", &text);
    let step = |words: &str| {
        let mut command = firstlight(&format!("next-step {words}"));
        run_of(command.current_dir(machine.at("")).output().unwrap())
    };
    let run = step("r.json r.json");
    assert_eq!((run.status, run.out.as_str()), (0, "none\n"), "{}", run.err);
    machine.write(
        "later.json",
        &text.replace("\"started\": \"2", "\"started\": \"9"),
    );
    let run = step("r.json later.json");
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(
        run.err.contains("r.json: began 2") && run.err.lines().count() == 1,
        "{}",
        run.err
    );
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_and_says_so() {
    let run = good().run("validate --scope fabric --json /dev/full");
    assert_eq!(run.status, 2, "{}", run.out);
    assert!(
        run.out.contains("REPORT-UNWRITABLE") && run.out.contains("No space left"),
        "{}",
        run.out
    );
    assert!(run.out.lines().last().unwrap().contains(
        "FIRSTLIGHT verdict=ERROR failed=report warned=none codes=REPORT-UNWRITABLE scope=fabric "
    ));
}

#[test]
fn a_report_file_is_replaced_as_a_whole() {
    let machine = good();
    machine.write("out/report.json", "old");
    machine.run(&format!(
        "validate --scope fabric --json {0}/report.json --text {0}/report.txt",
        machine.at("out").display()
    ));
    let mut names: Vec<_> = fs::read_dir(machine.at("out"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["report.json", "report.txt"]);
    assert!(
        fs::read_to_string(machine.at("out/report.txt"))
            .unwrap()
            .contains("\nVERDICT  PASS   17 passed")
    );
}

#[test]
fn a_reader_that_stops_reading_does_not_change_the_verdict() {
    let machine = good();
    let file = machine.at("report.json");
    let mut command = machine.program(&format!(
        "validate --scope fabric --json {} --text -",
        file.display()
    ));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with("firstlight "));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        fs::read_to_string(file)
            .unwrap()
            .contains("\"verdict\": \"PASS\"")
    );
    let mut child = firstlight("list --findings")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_text_fits_80_columns_apart_from_paths() {
    for name in [
        "bar1-256m",
        "driver-mismatch",
        "epyc-8x4090-before",
        "no-ecam",
        "patch-broken",
        "switch-acs",
    ] {
        let out = Machine::modelled(name).run("validate --scope fabric").out;
        for line in out
            .lines()
            .skip(1)
            .filter(|l| !l.contains("/sys/") && !l.starts_with("FIRSTLIGHT "))
        {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn the_list_names_every_test_and_every_finding() {
    let list = run_of(firstlight("list --json -").output().unwrap());
    let list: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(list["schema"], "firstlight.list/1");
    let ids: Vec<_> = list["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, firstlight::suite::ids());
    let findings = run_of(firstlight("list --findings").output().unwrap()).out;
    assert!(findings.contains("| `ACS-REDIRECT` |") && findings.contains("| `TEST-NOT-RUN` |"));
}

/// The program with these arguments, which may contain blanks.
fn with(words: &[&std::path::Path]) -> Run {
    run_of(firstlight("").args(words).output().unwrap())
}

#[test]
fn a_folder_of_reports_becomes_one_table_and_one_page_and_what_is_no_report_says_why() {
    let machine = Machine::small();
    let folder = machine.at("rack");
    for (host, model) in [
        ("a", "epyc-8x4090"),
        ("b", "epyc-8x4090"),
        ("sub/c", "epyc-8x4090"),
        ("d", "narrow-link"),
    ] {
        let file = folder.join(format!("{host}.json"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        Machine::modelled(model).run(&format!(
            "validate --scope fabric --json {}",
            file.display()
        ));
    }
    let (page, json) = (machine.at("rack.html"), machine.at("fleet.json"));
    let compare =
        |out: &[&std::path::Path]| with(&[&["compare".as_ref(), folder.as_path()], out].concat());
    let good = compare(&["--html".as_ref(), &page, "--json".as_ref(), &json]);
    assert_eq!((good.status, good.err.as_str()), (0, ""), "{}", good.out);
    assert!(
        good.out.starts_with("host ") && good.out.ends_with("\n4 files: 1 DEGRADED, 3 PASS\n"),
        "{}",
        good.out
    );
    assert!(
        good.out.contains("DEGRADED") && good.out.contains("first: LINK-NARROW"),
        "{}",
        good.out
    );
    let fleet: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(
        (
            &fleet["schema"],
            fleet["machines"].as_array().unwrap().len()
        ),
        (&"firstlight.fleet/1".into(), 4)
    );
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("Content-Security-Policy")
            && !html.contains("<script")
            && !html.contains("src="),
        "{html}"
    );
    // Other files that may be next to reports are skipped; everything else has a row.
    machine.write("rack/fabric.json", &machine.run("fabric show --json -").out);
    assert_eq!(compare(&[]).status, 0);
    let whole = fs::read_to_string(folder.join("a.json")).unwrap();
    machine.write(
        "rack/cut.json",
        &whole.chars().take(whole.len() / 2).collect::<String>(),
    );
    machine.write("rack/verdict.json", "{\"schema\":\"firstlight.verdict/1\"}");
    machine.write(
        "rack/nan.json",
        &whole.replacen("\"seconds\": ", "\"seconds\": NaN", 1),
    );
    machine.write("rack/not-read.txt", "no report");
    fs::File::create(folder.join("huge.json"))
        .unwrap()
        .set_len((64 << 20) + 1)
        .unwrap();
    std::os::unix::fs::symlink("nowhere.json", folder.join("dangling.json")).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(folder.join("pipe.json"))
        .status();
    assert!(fifo.unwrap().success());
    machine.write("rack/1/2/3/4/5/r.json", "{}");
    let bad = compare(&["--html".as_ref(), &page]);
    assert_eq!(bad.status, 2, "{}", bad.out);
    for why in [
        "cut.json: not JSON",
        "verdict.json: schema is",
        "nan.json: not JSON",
        "huge.json: larger than 64 MiB",
        "dangling.json: cannot be read: No such file",
        "pipe.json: no regular file",
        "1/2/3/4/5: more than 4 folders deep",
        "11 files: 7 could not be read, 1 DEGRADED, 3 PASS",
    ] {
        let line = bad.out.replace("\n         ", " ");
        assert!(line.contains(why), "{why}: {}", bad.out);
    }
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("7 files could not be read.")
    );
    for (place, why) in [
        ("no-such", "no-such: cannot be read"),
        ("empty", "there is no report"),
    ] {
        fs::create_dir_all(machine.at("empty")).unwrap();
        let run = with(&["compare".as_ref(), &machine.at(place)]);
        assert_eq!(run.status, 2);
        assert!(
            (run.out + &run.err)
                .replace("\n         ", " ")
                .contains(why),
            "{place}"
        );
    }
}

/// Two runs show how much figures vary; one run named twice does not.
#[test]
fn a_report_that_is_named_twice_counts_once_in_a_baseline() {
    let machine = Machine::small();
    let report =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/earlier-pass.json");
    let save = |name: &str, reports: &[&std::path::Path]| {
        let to = machine.at(name);
        let words = [
            &["baseline".as_ref(), "save".as_ref()],
            reports,
            &["--to".as_ref(), to.as_path()],
        ];
        let run = with(&words.concat());
        assert_eq!(run.status, 0, "{}", run.err);
        (fs::read_to_string(&to).unwrap(), run.err)
    };
    let (once, said) = save("once.json", &[&report]);
    assert_eq!(said, "");
    let (twice, said) = save("twice.json", &[&report, &report]);
    assert_eq!(once, twice);
    assert!(
        said.contains("earlier-pass.json: is the same report as another one, and counts once"),
        "{said}"
    );
}

#[test]
fn a_baseline_is_made_of_good_reports_of_whole_machines_only_and_replaces_no_file_unasked() {
    let machine = good();
    let (report, to) = (machine.at("report.json"), machine.at("base.json"));
    machine.run(&format!(
        "validate --scope fabric --json {}",
        report.display()
    ));
    let save = |words: &[&std::path::Path]| {
        with(&[&["baseline".as_ref(), "save".as_ref()], words].concat())
    };
    let refused = |run: &Run, status: i32, why: &str| {
        assert_eq!((run.status, run.out.as_str()), (status, ""), "{}", run.err);
        assert!(
            run.err.contains(why) && run.err.lines().count() == 1,
            "{why}: {}",
            run.err
        );
    };
    refused(
        &save(&[&report, &to]),
        2,
        "the scope is fabric, allowed in a baseline: machine",
    );
    refused(
        &save(&[&report]),
        64,
        "allowed: one report or more, and the file",
    );
    refused(
        &save(&["--force".as_ref(), &report, &report]),
        64,
        "is a report and will not be replaced",
    );
    refused(
        &save(&[&report, "--to".as_ref(), &to]),
        2,
        "the scope is fabric",
    );
    refused(&save(&[&report, "-".as_ref()]), 64, "standard input");
    refused(
        &save(&["-".as_ref(), "-".as_ref(), &to]),
        64,
        "standard input",
    );
    refused(&save(&["-".as_ref(), &to]), 2, "standard input: not JSON");
    machine.run(&format!("validate --json {}", report.display()));
    refused(
        &save(&[&report, &to]),
        2,
        "the verdict is ERROR, allowed in a baseline: PASS, DEGRADED",
    );
    assert!(!to.exists());
    machine.write("base.json", "mine");
    refused(&save(&[&report, &to]), 64, "exists; --force replaces it");
    refused(
        &save(&["--force".as_ref(), &report, &to]),
        2,
        "the verdict is ERROR",
    );
    assert_eq!(fs::read_to_string(&to).unwrap(), "mine");
    let compare =
        |base: &std::path::Path| with(&["baseline".as_ref(), "compare".as_ref(), base, &report]);
    refused(&compare(&to), 2, "base.json: not JSON");
    refused(
        &compare(&report),
        2,
        "schema is \"firstlight.report/1\", allowed: \"firstlight.baseline/1\"",
    );
    refused(&compare("-".as_ref()), 64, "the baseline is a file");
    fs::File::create(&to)
        .unwrap()
        .set_len((64 << 20) + 1)
        .unwrap();
    refused(&compare(&to), 2, "larger than 64 MiB");
}
