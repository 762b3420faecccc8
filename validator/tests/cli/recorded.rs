//! `record`, and `--root` with the file that it wrote.

use crate::machine::Machine;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The machine of which the repository has a recording.
const H200: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/machines/recorded/h200-2.txt");

fn firstlight(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firstlight")).args(words).output().unwrap()
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
        let output = firstlight(&["--root", root.to_str().unwrap(), "record", file.to_str().unwrap()]);
        assert!(output.status.success(), "{name}: {output:?}");
        for words in [&["fabric", "show"][..], &["topo"]] {
            assert_eq!(json(&root, words), json(&file, words), "{name}: {words:?}");
        }
        let outcomes = |root: &Path| {
            let report = json(root, &["validate", "--scope", "fabric"]);
            let tests = report["tests"].as_array().unwrap().clone();
            tests.iter().map(|t| format!("{} {} {}", t["id"], t["outcome"], t["summary"])).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&root), outcomes(&file), "{name}");
    }
}

#[test]
fn a_real_machine_with_two_h200_is_read() {
    let report = json(Path::new(H200), &["validate", "--scope", "fabric"]);
    assert_eq!(report["fabric"]["gpus"].as_array().unwrap().len(), 2);
    let outcome = |id: &str| {
        let tests = report["tests"].as_array().unwrap();
        tests.iter().find(|t| t["id"] == id).map(|t| t["outcome"].as_str().unwrap().to_owned())
    };
    for (id, expected) in [("fabric", "pass"), ("driver", "pass"), ("bar1", "pass"), ("xid", "pass")] {
        assert_eq!(outcome(id).as_deref(), Some(expected), "{id}: {report}");
    }
}

#[test]
fn a_file_that_is_no_recorded_machine_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.txt");
    fs::write(&file, "hello\n").unwrap();
    let output = firstlight(&["--root", file.to_str().unwrap(), "fabric", "show"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.ends_with("x.txt: line 1: a recorded machine begins with 'firstlight machine 1'\n"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}
