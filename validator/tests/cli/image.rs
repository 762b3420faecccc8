//! Commands about the machine itself. `firstlight image` and the test `image`: their output, their exit status, and
//! that the test does not run unless requested. `record`, and `--root` with the file that it wrote.

use super::machine::{Machine, codes, test};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const LIST: &str = "usr/lib/firstlight/files";
/// SHA-256 of "x".
const X: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

/// A machine that runs a small image.
fn appliance() -> Machine {
    let machine = Machine::small();
    machine.write("init", "x");
    machine.write(LIST, &format!("{X}\t/init\tbuilt here\n"));
    // SHA-256 of that list.
    let manifest = "e140b76474294821aa7158d5892d13075cb8ab99115753ca432c477b4c3bacf4";
    let json =
        format!(r#"{{ "version": "9.1", "image_id": "abc", "manifest_sha256": "{manifest}" }}"#);
    machine.write("etc/firstlight/image.json", &json);
    machine
}

#[test]
fn an_image_tells_its_name_and_ends_with_the_answers_status() {
    let machine = appliance();
    let run = machine.run("image");
    assert_eq!((run.status, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(
        run.out
            .starts_with("version   9.1\nimage     abc\nmanifest  "),
        "{}",
        run.out
    );
    assert!(
        run.out.ends_with("golden: 1 file as listed, image abc\n"),
        "{}",
        run.out
    );
    machine.write("etc/extra", "x");
    let run = machine.run("image --json -");
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (run.status, &json["added"], &json["schema"]),
        (1, &1.into(), &"firstlight.image/1".into())
    );
    machine.write(LIST, "");
    let run = machine.run("image");
    assert!(
        run.status == 2 && run.out.contains("not known: /usr/lib/firstlight/files: "),
        "{}",
        run.out
    );
}

#[test]
fn a_machine_that_is_no_appliance_is_told_and_not_called_golden() {
    let run = Machine::modelled("epyc-8x4090").run("image");
    let last = run.out.lines().last().unwrap();
    assert_eq!(
        last,
        "not applicable: no /etc/firstlight/image.json, so this is not a firstlight image"
    );
    assert_eq!(run.status, 2);
}

#[test]
fn a_golden_image_is_looked_for_where_it_is_expected_and_else_at_level_full_only() {
    let machine = appliance();
    machine.write("etc/extra", "x");
    let ids = |report: &Value| report["tests"].to_string().contains("\"id\":\"image\"");
    assert!(!ids(&machine.report("--level standard")));
    let full = machine.report("--level full");
    assert_eq!(
        (&test(&full, "image")["outcome"], &full["verdict"]),
        (&"not-applicable".into(), &"PASS".into())
    );
    assert_eq!(codes(&full, "image"), ["IMAGE-CHANGED"]);
    let expecting = |words: &str| {
        let run = machine.run(&format!(
            "--set expect.gpus=0 --set expect.golden=true validate --json - {words}"
        ));
        serde_json::from_str::<Value>(&run.out).unwrap()
    };
    let quick = expecting("--level quick");
    assert_eq!(
        (&test(&quick, "image")["outcome"], &quick["verdict"]),
        (&"fail".into(), &"FAIL".into())
    );
    let skipped = expecting("--skip image");
    assert_eq!(
        (codes(&skipped, "image"), &skipped["verdict"]),
        (vec!["TEST-NOT-RUN".into()], &"ERROR".into())
    );
}

#[test]
fn a_golden_image_that_is_expected_where_there_is_none_fails() {
    let run =
        Machine::small().run("--set expect.gpus=0 --set expect.golden=true validate --json -");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (run.status, codes(&report, "image")),
        (1, vec!["IMAGE-NONE".to_owned()])
    );
}

/// The recorded machines in the repository.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/machines/recorded");

fn firstlight(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firstlight"))
        .args(words)
        .output()
        .unwrap()
}

fn json(root: &Path, words: &[&str]) -> Value {
    let root = root.to_str().unwrap();
    let output = firstlight(&[&["--root", root], words, &["--json", "-"]].concat());
    let mut value: Value = serde_json::from_slice(&output.stdout).unwrap();
    value["root"] = Value::Null;
    value
}

#[test]
fn a_recorded_machine_is_judged_as_the_machine_itself() {
    for name in machines::names() {
        let machine = Machine::modelled(name);
        let (root, file) = (machine.at(""), machine.at("recorded.txt"));
        let output = firstlight(&[
            "--root",
            root.to_str().unwrap(),
            "record",
            file.to_str().unwrap(),
        ]);
        assert!(output.status.success(), "{name}: {output:?}");
        for words in [&["fabric", "show"][..], &["topo"]] {
            assert_eq!(json(&root, words), json(&file, words), "{name}: {words:?}");
        }
        let outcomes = |root: &Path| {
            let report = json(root, &["validate", "--scope", "fabric"]);
            let tests = report["tests"].as_array().unwrap().clone();
            tests
                .iter()
                .map(|t| format!("{} {} {}", t["id"], t["outcome"], t["summary"]))
                .collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&root), outcomes(&file), "{name}");
    }
}

#[test]
fn real_machines_with_h200_and_h100_are_read() {
    for (name, gpus, product) in [("h200-2", 2, "0x2335"), ("h100-1", 1, "0x2330")] {
        let report = json(
            &Path::new(RECORDED).join(format!("{name}.txt")),
            &["validate", "--scope", "fabric"],
        );
        let found = report["fabric"]["gpus"].as_array().unwrap();
        assert_eq!(found.len(), gpus, "{name}");
        let devices = report["fabric"]["devices"].as_array().unwrap();
        let of_product = devices.iter().filter(|device| device["device"] == product);
        assert_eq!(of_product.count(), gpus, "{name}: {devices:?}");
        for id in ["fabric", "driver", "bar1", "xid"] {
            let tests = report["tests"].as_array().unwrap();
            let outcome = tests
                .iter()
                .find(|t| t["id"] == id)
                .map(|t| t["outcome"].as_str().unwrap());
            // One GPU has no peer.
            let expected = if id == "bar1" && gpus == 1 {
                "not-applicable"
            } else {
                "pass"
            };
            assert_eq!(outcome, Some(expected), "{name} {id}: {report}");
        }
    }
}

#[test]
fn a_file_that_is_no_recorded_machine_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.txt");
    fs::write(&file, "hello\n").unwrap();
    let output = firstlight(&["--root", file.to_str().unwrap(), "fabric", "show"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.ends_with("x.txt: line 1: a recorded machine begins with 'firstlight machine 1'\n"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1);
}
