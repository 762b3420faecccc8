//! Does the pass write exactly what it says?

use super::*;
use crate::modelled::names;
use firstlight::fabric::journal::JournalError;
use firstlight::outcome::finding::Severity;
use std::os::unix::fs::symlink;

#[test]
fn a_plan_writes_nothing() {
    for name in names() {
        let copy = Copy::of(name);
        let before = configs(&copy);
        let _ = plan(&copy.fabric(), AcsPolicy::All);
        assert_eq!(changes(&before, &copy), [], "{name}");
        assert!(!journal(&copy).exists());
    }
}

#[test]
fn the_pass_clears_the_ports_on_gpu_paths_and_nothing_else() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    let applied = fixed(&copy, AcsPolicy::Path);
    assert_eq!(applied.findings, []);
    let port = |bdf: &str| (bdf.to_owned(), 0x14e, 0x1d, 0x00);
    let ports = ["0000:02:08.0", "0000:02:09.0", "0000:02:10.0", "0000:02:11.0"];
    assert_eq!(changes(&before, &copy), ports.map(port));
    assert_eq!(copy.fabric().findings, []);
}

#[test]
fn policy_all_clears_every_port_and_policy_off_none() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    assert_eq!(fixed(&copy, AcsPolicy::Off).entries.len(), 0);
    assert_eq!(changes(&before, &copy), []);
    assert_eq!(fixed(&copy, AcsPolicy::All).entries.len(), 6, "the root port too");
}

#[test]
fn the_journal_says_what_was_and_what_is() {
    let copy = Copy::of("epyc-8x4090-before");
    let applied = fixed(&copy, AcsPolicy::Path);
    assert_eq!(applied.entries.len(), 10);
    let text = fs::read_to_string(journal(&copy)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "firstlight.journal/1");
    let entry = &json["entries"][0];
    assert_eq!(
        (entry["bdf"].as_str(), entry["register"].as_str()),
        (Some("0000:00:01.1"), Some("ACS control"))
    );
    let number = |key: &str| entry[key].as_u64();
    assert_eq!((number("offset"), number("width")), (Some(0x14e), Some(2)));
    assert_eq!((number("before"), number("after"), number("readback")), (Some(0x1d), Some(0), Some(0)));
    assert!(number("when") > Some(1_500_000_000));
    assert_eq!(entry["finding"], serde_json::Value::Null);
}

#[test]
fn a_pass_with_nothing_to_do_leaves_an_empty_journal() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    assert_eq!(fixed(&copy, AcsPolicy::Off).entries.len(), 0);
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(journal(&copy)).unwrap()).unwrap();
    assert_eq!(kept["entries"], serde_json::json!([]));
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn a_second_pass_writes_nothing_and_keeps_the_journal() {
    let copy = Copy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    let kept = fs::read(journal(&copy)).unwrap();
    assert_eq!(fixed(&copy, AcsPolicy::Path).entries.len(), 0);
    assert_eq!(fs::read(journal(&copy)).unwrap(), kept);
}

#[test]
fn nothing_is_changed_without_a_journal() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    let plan = plan(&copy.fabric(), AcsPolicy::Path);
    fs::write(copy.at("run"), "a file where a folder is wanted").unwrap();
    assert!(matches!(
        fix(&copy.root(), &plan, &journal(&copy)),
        Err(JournalError::Read { .. } | JournalError::Write { .. })
    ));
    assert_eq!(changes(&before, &copy), []);
    fs::remove_file(copy.at("run")).unwrap();
    fs::create_dir_all(copy.at("run/firstlight")).unwrap();
    fs::write(journal(&copy), "{").unwrap();
    assert!(matches!(fix(&copy.root(), &plan, &journal(&copy)), Err(JournalError::Malformed { .. })));
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn an_intel_chipset_port_is_never_written() {
    let copy = Copy::of("intel-pch");
    let before = configs(&copy);
    let applied = fixed(&copy, AcsPolicy::All);
    assert_eq!(changes(&before, &copy), []);
    let codes: Vec<_> = applied.findings.iter().map(|f| (f.code.as_str(), f.severity)).collect();
    assert_eq!(codes, [("ACS-QUIRK", Severity::Fail)]);
    assert!(applied.findings[0].remedy.contains("disable_acs_redir=0000:00:1c.0"));
}

#[test]
fn a_function_that_vanished_since_the_plan_is_refused_and_the_others_are_written() {
    let copy = Copy::of("switch-acs");
    let plan = plan(&copy.fabric(), AcsPolicy::Path);
    let config = copy.file("0000:02:08.0", "config");
    fs::write(&config, [0xff; 4096]).unwrap();
    let applied = fix(&copy.root(), &plan, &journal(&copy)).unwrap();
    let codes: Vec<_> =
        applied.findings.iter().map(|f| (f.code.as_str(), f.severity, f.subject.as_str())).collect();
    assert_eq!(codes, [("ACS-REFUSED", Severity::Fail, "0000:02:08.0")]);
    assert_eq!(fs::read(&config).unwrap(), [0xff; 4096], "a function that does not answer is not written");
    let readbacks: Vec<_> = applied.entries.iter().map(|e| e.readback).collect();
    assert_eq!(readbacks, [None, Some(0), Some(0), Some(0)]);
    let kept = Journal::load(&journal(&copy), copy.root().path()).unwrap().unwrap();
    let told: Vec<_> = kept.entries.iter().map(|e| e.finding.as_deref()).collect();
    assert_eq!(told, [Some("ACS-REFUSED"), None, None, None]);
}

/// A machine with links that lead out of it: what they lead to on this machine is not its.
#[test]
fn a_link_that_leads_out_of_the_root_is_neither_read_nor_written() {
    let (copy, outside) = (Copy::of("switch-acs"), tempfile::tempdir().unwrap());
    let precious = outside.path().join("config");
    let config = copy.file("0000:02:08.0", "config").canonicalize().unwrap();
    fs::rename(&config, &precious).unwrap();
    symlink(&precious, &config).unwrap();
    symlink(outside.path(), copy.at("run")).unwrap();
    let before = fs::read(&precious).unwrap();
    let applied =
        fix(&copy.root(), &plan(&copy.fabric(), AcsPolicy::All), &Journal::place(&copy.root()).unwrap());
    assert_eq!(applied.unwrap().entries.len(), 5, "the others are written");
    assert_eq!(fs::read(&precious).unwrap(), before);
    let names: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["config"], "the journal is not there");
    let inside = outside.path().strip_prefix("/").unwrap().join("firstlight/fabric.json");
    assert!(copy.at(inside.to_str().unwrap()).is_file(), "it is where the link leads inside");
    let restored = restore(&copy.root(), &Journal::place(&copy.root()).unwrap()).unwrap();
    assert!(restored.is_done() && fs::read(&precious).unwrap() == before, "{restored:?}");
}

#[test]
fn a_pipe_in_the_place_of_a_register_file_or_of_the_journal_is_not_waited_for() {
    let copy = Copy::of("switch-acs");
    let pipe = |path: &std::path::Path| {
        let _ = fs::remove_file(path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    pipe(&copy.file("0000:02:08.0", "config").canonicalize().unwrap());
    let applied = fixed(&copy, AcsPolicy::All);
    assert_eq!(applied.entries.len(), 5, "{applied:?}");
    pipe(&journal(&copy));
    let plan = plan(&copy.fabric(), AcsPolicy::All);
    assert!(matches!(fix(&copy.root(), &plan, &journal(&copy)), Err(JournalError::Read { .. })));
}
