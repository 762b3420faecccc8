//! Reports of an earlier version: every command that reads reports reads them, alone and beside new ones. The files are
//! of simulated machines with four GPUs, from before findings had typed subjects.

use super::machine::{Machine, Run, firstlight, run_of};
use serde_json::Value;
use std::fs;
use std::path::Path;

const FAIL: &str = include_str!("../data/earlier-fail.json");
const PASS: &str = include_str!("../data/earlier-pass.json");
/// The keys that earlier reports lack, by the object that has them now.
const NEW_KEYS: [(&str, &[&str]); 4] = [
    ("FindingEntry", &["about", "represents", "clause"]),
    ("TestEntry", &["unchecked"]),
    ("MachineEntry", &["platform"]),
    ("Cause", &["known_problems"]),
];

/// A folder with both, and each as this version writes it.
fn folder() -> Machine {
    let folder = Machine::small();
    for (name, text) in [("fail", FAIL), ("pass", PASS)] {
        folder.write(&format!("old/{name}.json"), text);
        let again = rendered(&folder.at(&format!("old/{name}.json")), "json");
        assert_eq!((again.status, again.err.as_str()), (0, ""));
        folder.write(&format!("new/{name}.json"), &again.out);
    }
    folder
}

fn rendered(report: &Path, to: &str) -> Run {
    run_of(
        firstlight("render")
            .arg(report)
            .args(["--to", to])
            .output()
            .unwrap(),
    )
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_earlier_report_keeps_its_answer_and_its_causes() {
    let folder = folder();
    for (name, text) in [("fail", FAIL), ("pass", PASS)] {
        let (old, new) = (
            parsed(text),
            parsed(&fs::read_to_string(folder.at(&format!("new/{name}.json"))).unwrap()),
        );
        assert_eq!(new["verdict"], old["verdict"]);
        // The answer may have more words than when the report was made, such as the worst pair.
        let answer = |report: &Value| report["answer"].as_str().unwrap().to_owned();
        assert!(answer(&new).starts_with(&answer(&old)), "{}", answer(&new));
        let causes = |report: &Value| {
            let all = report["causes"].as_array().unwrap().clone();
            let keys = [
                "code", "severity", "says", "subject", "test", "pairs", "symptoms", "remedy",
            ];
            all.iter()
                .map(|cause| keys.map(|key| cause[key].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(causes(&new), causes(&old));
        assert_eq!(
            new["tests"].as_array().unwrap().len(),
            old["tests"].as_array().unwrap().len()
        );
    }
    assert_eq!(parsed(FAIL)["causes"].as_array().unwrap().len(), 2);
}

#[test]
fn an_earlier_report_is_shown_in_every_form() {
    let folder = folder();
    for (form, has) in [
        ("text", "P2P-WRONG-DATA"),
        ("html", "what is written to the peer does not arrive"),
        ("junit", "failures="),
        ("prometheus", "firstlight_findings{"),
    ] {
        let old = rendered(&folder.at("old/fail.json"), form);
        assert_eq!((old.status, old.err.as_str()), (0, ""), "{form}");
        assert!(old.out.contains(has), "{form}: {}", old.out);
        // What was added when it was read changes nothing of what is shown.
        let new = rendered(&folder.at("new/fail.json"), form).out;
        assert_eq!(
            old.out.replace("/old/fail.json", "/new/fail.json"),
            new,
            "{form}"
        );
    }
}

#[test]
fn earlier_and_new_reports_are_compared_with_each_other() {
    let folder = folder();
    let all = run_of(
        firstlight("compare")
            .arg(folder.at("old"))
            .arg(folder.at("new"))
            .output()
            .unwrap(),
    );
    assert_eq!((all.status, all.err.as_str()), (0, ""), "{}", all.out);
    assert!(
        all.out.contains("\n4 files: ") && all.out.contains("first: P2P-WRONG-DATA"),
        "{}",
        all.out
    );
    for (saved, other) in [("old", "new"), ("new", "old")] {
        let base = folder.at(&format!("{saved}-base.json"));
        let made = run_of(
            firstlight("baseline save")
                .arg(folder.at(&format!("{saved}/pass.json")))
                .arg("--to")
                .arg(&base)
                .output()
                .unwrap(),
        );
        assert_eq!(made.status, 0, "{}{}", made.out, made.err);
        let compared = |name: &str| {
            let report = folder.at(&format!("{other}/{name}.json"));
            run_of(
                firstlight("baseline compare")
                    .arg(&base)
                    .arg(report)
                    .output()
                    .unwrap(),
            )
        };
        let same = compared("pass");
        assert_eq!(same.status, 0, "{}{}", same.out, same.err);
        // Its tests of speed did not run.
        let worse = compared("fail");
        assert!(
            worse.status == 2 && worse.out.contains("BASELINE-MISSING"),
            "{}{}",
            worse.out,
            worse.err
        );
    }
}

#[test]
fn the_schema_describes_what_earlier_reports_lack() {
    let schema = parsed(&run_of(firstlight("schema").output().unwrap()).out);
    let entries = schema["$defs"].as_object().unwrap();
    for (object, keys) in NEW_KEYS {
        for key in keys {
            let about = &entries[object]["properties"][key]["description"];
            assert!(
                about.as_str().is_some_and(|text| text.len() > 10),
                "{object}.{key}: {about}"
            );
            assert!(
                !FAIL.contains(&format!("\"{key}\"")),
                "{key} is in an earlier report"
            );
        }
    }
}
