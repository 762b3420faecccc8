//! Where reports are written: through links, in place if the target is not a regular file, never partially, and all
//! with the same content.

use super::machine::{Machine, firstlight, run_of};
use std::fs::{self, File};
use std::os::unix::fs::symlink;

#[test]
fn a_link_to_standard_output_is_standard_output_and_stays_a_link() {
    let machine = Machine::modelled("epyc-8x4090");
    let (link, out) = (machine.at("stdout"), machine.at("out.json"));
    symlink("/proc/self/fd/1", &link).unwrap();
    let mut program = machine.program(&format!(
        "validate --scope fabric --json {}",
        link.display()
    ));
    let ended = run_of(
        program
            .stdout(File::create(&out).unwrap())
            .output()
            .unwrap(),
    );
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(fs::read_link(&link).is_ok());
    let report: serde_json::Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    assert_eq!(report["verdict"], "PASS");
}

#[test]
fn a_text_that_cannot_be_written_makes_report_status_and_last_line_agree() {
    let machine = Machine::modelled("epyc-8x4090");
    let json = machine.at("r.json");
    for (words, last) in [
        (format!("--json {} --text /dev/full", json.display()), None),
        (
            format!("--json {} --text -", json.display()),
            Some("/dev/full"),
        ),
        (
            format!("--json /dev/full --text {}", machine.at("r.txt").display()),
            None,
        ),
    ] {
        let mut program = machine.program(&format!("validate --scope fabric {words}"));
        if let Some(device) = last {
            program.stdout(File::options().write(true).open(device).unwrap());
        }
        let ended = run_of(program.output().unwrap());
        assert_eq!(ended.status, 2, "{words}: {}", ended.err);
        assert!(ended.err.contains("No space left"), "{}", ended.err);
    }
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(report["verdict"], "ERROR");
    assert_eq!(report["workload_env"]["FIRSTLIGHT_VERDICT"], "ERROR");
    assert!(report["workload_env"].get("NCCL_P2P_LEVEL").is_none());
    let text = fs::read_to_string(machine.at("r.txt")).unwrap();
    assert!(
        text.lines().last().unwrap().starts_with(
            "FIRSTLIGHT verdict=ERROR failed=report warned=none codes=REPORT-UNWRITABLE "
        ),
        "{text}"
    );
}

#[test]
fn a_report_on_standard_output_tells_of_a_text_that_failed_and_is_there_once() {
    let ended =
        Machine::modelled("epyc-8x4090").run("validate --scope fabric --json - --text /dev/full");
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (ended.status, &report["verdict"]),
        (2, &"ERROR".into()),
        "{}",
        ended.err
    );
}

#[test]
fn no_verdict_that_nobody_could_read_is_a_pass() {
    let machine = Machine::modelled("epyc-8x4090");
    let mut program = machine.program("validate --scope fabric");
    let ended = run_of(
        program
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap(),
    );
    assert_eq!(ended.status, 2, "{}", ended.err);
}

#[test]
fn two_forms_in_one_file_are_refused_by_any_of_its_names() {
    let machine = Machine::modelled("epyc-8x4090");
    symlink("r", machine.at("link")).unwrap();
    for name in ["r", "./r", "link"] {
        let ended = machine.run(&format!(
            "validate --json {} --text {}",
            machine.at("r").display(),
            machine.at(name).display()
        ));
        assert_eq!(
            (ended.status, ended.err.lines().count()),
            (64, 1),
            "{}",
            ended.err
        );
    }
    assert_eq!(
        machine.run("validate --json - --text /dev/stdout").status,
        64
    );
    assert_eq!(
        machine
            .run("validate --scope fabric --json /dev/null --text /dev/null")
            .status,
        0
    );
}

#[test]
fn a_report_that_contradicts_itself_is_refused_in_one_line() {
    let machine = Machine::modelled("epyc-8x4090");
    let good = machine.run("validate --scope fabric --json -").out;
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let mut twice: serde_json::Value = serde_json::from_str(&good).unwrap();
    let tests = twice["tests"].as_array_mut().unwrap();
    tests.push(tests[0].clone());
    let mut ragged: serde_json::Value = serde_json::from_str(&good).unwrap();
    ragged["tests"][0]["matrices"] = serde_json::json!([
        { "name": "m", "unit": "GB/s", "rows": ["0", "1"], "columns": ["0", "1"], "values": [[1.0, 2.0], [3.0]] }
    ]);
    let mut found: serde_json::Value = serde_json::from_str(&good).unwrap();
    found["tests"][0]["findings"] = serde_json::json!([{
        "code": "PCI-MALFORMED", "severity": "fail", "subject": "s", "message": "m", "measured": null,
        "expected": null, "unit": null, "evidence": [], "cause": "c", "remedy": "r"
    }]);
    for (text, why) in [
        (
            changed("\"verdict\": \"PASS\"", "\"verdict\": \"FAIL\""),
            "is FAIL, but its tests give PASS",
        ),
        (
            changed("\"outcome\": \"pass\"", "\"outcome\": \"fail\""),
            "is PASS, but its tests give FAIL",
        ),
        (found.to_string(), "its outcome is better than its findings"),
        (
            changed(
                "\"FIRSTLIGHT_VERDICT\": \"PASS\"",
                "\"FIRSTLIGHT_VERDICT\": \"FAIL\"",
            ),
            "its verdict is PASS",
        ),
        (
            changed("\"scope\": \"fabric\"", "\"scope\": \"machine\""),
            "its scope is machine",
        ),
        (
            changed("\"scope\": \"fabric\"", "\"scope\": \"machine\"").replace(
                "\"FIRSTLIGHT_SCOPE\": \"fabric\"",
                "\"FIRSTLIGHT_SCOPE\": \"machine\"",
            ),
            "is PASS for the machine, but no test ran on its GPUs",
        ),
        (
            changed("\"scope\": \"fabric\"", "\"scope\": \"all\""),
            "\"all\" is not a scope; allowed: machine, fabric",
        ),
        (
            changed(
                "\"id\": \"cmdline\"",
                "\"id\": \"x\\nFIRSTLIGHT verdict=PASS\"",
            ),
            "allowed in an id",
        ),
        (
            changed(
                "\"verdict\": \"PASS\"",
                "\"verdict\": \"PASS\", \"verdict\": \"FAIL\"",
            ),
            "duplicate key \"verdict\"",
        ),
        (
            changed(
                "\"workload_env\": {",
                "\"workload_env\": {\"A\": \"1\", \"A\": \"2\",",
            ),
            "duplicate key \"A\"",
        ),
        (
            changed("\"verdict\": \"PASS\"", "\"verdict\": \"PASS\\nX\""),
            "unknown variant `PASS\\nX`",
        ),
        (twice.to_string(), "listed twice"),
        (
            ragged.to_string(),
            "matrix \"m\" does not have 2 rows of 2 values",
        ),
    ] {
        machine.write("r.json", &text);
        for command in ["env", "next-step", "render --to text", "render --to json"] {
            let ended = run_of(
                firstlight(&format!("{command} {}", machine.at("r.json").display()))
                    .output()
                    .unwrap(),
            );
            assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{why}");
            assert!(
                ended.err.contains(why) && ended.err.lines().count() == 1,
                "{}",
                ended.err
            );
        }
    }
}

#[test]
fn a_file_without_an_end_is_not_read_to_its_end() {
    for (words, status, why) in [
        (
            "render /dev/zero --to text",
            2,
            "/dev/zero: larger than 64 MiB",
        ),
        ("env /dev/zero", 2, "/dev/zero: larger than 64 MiB"),
        (
            "--config /dev/zero fabric show",
            64,
            "/dev/zero: larger than 1 MiB",
        ),
    ] {
        let ended = run_of(firstlight(words).output().unwrap());
        assert_eq!(ended.status, status, "{}", ended.err);
        assert!(
            ended.err.contains(why) && ended.err.lines().count() == 1,
            "{}",
            ended.err
        );
    }
}
