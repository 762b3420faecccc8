//! Checks that the fabric pass writes exactly what it reports, that it can be undone, and that nothing else is undone.

use crate::modelled::{MachineCopy, bdf, names};
use fabric::acs::AcsPolicy;
use fabric::apply::{Applied, fix};
use fabric::journal::{Entry, Journal, JournalError};
use fabric::plan::plan;
use fabric::restore::{Outcome, RestoreError, restore};
use outcome::finding::{Code, FindingEntry, Severity};
use outcome::platform::Host;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

fn journal(copy: &MachineCopy) -> PathBuf {
    copy.at("run/firstlight/fabric.json")
}

#[track_caller]
fn fixed(copy: &MachineCopy, policy: AcsPolicy) -> Applied {
    fix(&copy.root(), &plan(&copy.fabric(), policy), &journal(copy)).unwrap()
}

/// Every configuration space of the machine.
fn configs(copy: &MachineCopy) -> BTreeMap<String, Vec<u8>> {
    let devices = copy.fabric().devices;
    devices
        .iter()
        .map(|d| {
            (
                d.bdf.to_string(),
                fs::read(copy.file(&d.bdf.to_string(), "config")).unwrap(),
            )
        })
        .collect()
}

/// The differences between two states of a machine: function, offset, before, after.
fn changes(before: &BTreeMap<String, Vec<u8>>, copy: &MachineCopy) -> Vec<(String, usize, u8, u8)> {
    let after = configs(copy);
    let changed = before.iter().flat_map(|(bdf, old)| {
        let pairs = old.iter().zip(&after[bdf]).enumerate();
        pairs
            .filter(|(_, (a, b))| a != b)
            .map(move |(at, (a, b))| (bdf.clone(), at, *a, *b))
    });
    changed.collect()
}

/// Changes the journal's entry of 0000:02:08.0, the first one.
fn changed_entry(copy: &MachineCopy, change: fn(&mut Entry)) {
    let mut kept = Journal::load(&journal(copy), copy.root().path())
        .unwrap()
        .unwrap();
    change(&mut kept.entries[0]);
    kept.save(&journal(copy)).unwrap();
}

#[test]
fn restore_puts_every_byte_back() {
    for name in ["switch-acs", "epyc-8x4090-before", "iommu-translated"] {
        let copy = MachineCopy::of(name);
        let before = configs(&copy);
        fixed(&copy, AcsPolicy::All);
        assert_ne!(changes(&before, &copy), []);
        let restored = restore(&copy.root(), &journal(&copy)).unwrap();
        assert!(
            restored
                .steps
                .iter()
                .all(|s| s.outcome == Outcome::Restored { held: 0 })
        );
        assert_eq!(changes(&before, &copy), [], "{name}");
    }
}

#[test]
fn two_passes_are_undone_together_and_restoring_twice_does_no_harm() {
    let copy = MachineCopy::of("switch-acs");
    let before = configs(&copy);
    fixed(&copy, AcsPolicy::Path);
    fixed(&copy, AcsPolicy::All);
    for expected in [Outcome::Restored { held: 0 }, Outcome::Already] {
        let restored = restore(&copy.root(), &journal(&copy)).unwrap();
        assert_eq!(restored.steps.len(), 6);
        assert!(
            restored.steps.iter().all(|s| s.outcome == expected),
            "{restored:?}"
        );
        assert_eq!(changes(&before, &copy), []);
    }
}

#[test]
fn what_somebody_else_changed_since_is_left_alone() {
    let copy = MachineCopy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    copy.root()
        .write_at("sys/bus/pci/devices/0000:02:08.0/config", 0x14e, &[0x40, 0])
        .unwrap();
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    let other = restored.steps.iter().find(|s| !s.is_done()).unwrap();
    assert_eq!(
        (other.bdf, &other.outcome),
        (bdf("0000:02:08.0"), &Outcome::Changed { present: 0x40 })
    );
    assert_eq!(
        other.to_string(),
        "0000:02:08.0 ACS control not changed: has 0x0040, firstlight had written 0x0000"
    );
    assert_eq!(restored.steps.iter().filter(|s| s.is_done()).count(), 3);
}

/// A port that keeps one bit still counts as changed by the pass.
#[test]
fn a_port_that_took_the_write_in_part_is_put_back() {
    let copy = MachineCopy::of("switch-acs");
    let before = configs(&copy);
    fixed(&copy, AcsPolicy::Path);
    copy.root()
        .write_at("sys/bus/pci/devices/0000:02:08.0/config", 0x14e, &[0x10, 0])
        .unwrap();
    changed_entry(&copy, |entry| {
        (entry.readback, entry.finding) = (Some(0x10), Some("ACS-STUCK".into()));
    });
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    let port = restored.steps.last().unwrap();
    assert_eq!(
        port.to_string(),
        "0000:02:08.0 ACS control 0x0010 -> 0x001d"
    );
    assert!(
        restored.is_done() && changes(&before, &copy).is_empty(),
        "{restored:?}"
    );
}

#[test]
fn a_port_whose_write_was_refused_was_cleared_by_somebody_else() {
    let copy = MachineCopy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    changed_entry(&copy, |entry| {
        (entry.readback, entry.finding) = (None, Some("ACS-REFUSED".into()));
    });
    let before = configs(&copy);
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    let port = restored.steps.last().unwrap();
    assert_eq!(
        port.to_string(),
        "0000:02:08.0 ACS control not changed: has 0x0000, firstlight's write of 0x0000 had been refused"
    );
    assert!(
        !restored.is_done()
            && changes(&before, &copy)
                .iter()
                .all(|c| c.0 != "0000:02:08.0")
    );
}

#[test]
fn a_pass_that_died_after_its_first_write_can_be_undone() {
    let copy = MachineCopy::of("switch-acs");
    let before = configs(&copy);
    fixed(&copy, AcsPolicy::Path);
    let mut interrupted = Journal::load(&journal(&copy), copy.root().path())
        .unwrap()
        .unwrap();
    for entry in &mut interrupted.entries {
        entry.readback = None;
    }
    interrupted.save(&journal(&copy)).unwrap();
    copy.root()
        .write_at("sys/bus/pci/devices/0000:02:11.0/config", 0x14e, &[0x1d, 0])
        .unwrap();
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    assert_eq!(restored.steps[0].outcome, Outcome::Already);
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn a_journal_that_names_another_register_writes_nothing() {
    let copy = MachineCopy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    let mut wrong = Journal::load(&journal(&copy), copy.root().path())
        .unwrap()
        .unwrap();
    wrong.entries.truncate(1);
    wrong.entries[0].offset = 0x04;
    wrong.save(&journal(&copy)).unwrap();
    let before = configs(&copy);
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    assert_eq!(
        restored.steps[0].to_string(),
        "0000:02:08.0 ACS control not changed: 0000:02:08.0 has no ACS control register at 0x004"
    );
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn restoring_without_a_journal_is_an_error() {
    let copy = MachineCopy::of("switch-acs");
    let error = restore(&copy.root(), &journal(&copy)).unwrap_err();
    assert!(matches!(error, RestoreError::Missing(_)), "{error}");
}

#[test]
fn not_even_a_journal_that_asks_for_it_has_an_intel_chipset_port_written() {
    let copy = MachineCopy::of("intel-pch");
    let asked = MachineCopy::of("switch-acs");
    fixed(&asked, AcsPolicy::Path);
    let mut forged = Journal::load(&journal(&asked), asked.root().path())
        .unwrap()
        .unwrap();
    forged.root = copy.root().path().display().to_string();
    forged.entries.truncate(1);
    forged.entries[0].bdf = bdf("0000:00:1c.0");
    forged.entries[0].after = 0x001d;
    forged.save(&journal(&copy)).unwrap();
    let before = configs(&copy);
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    assert!(
        matches!(restored.steps[0].outcome, Outcome::Unreachable { .. }),
        "{restored:?}"
    );
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn a_plan_writes_nothing() {
    for name in names() {
        let copy = MachineCopy::of(name);
        let before = configs(&copy);
        let _ = plan(&copy.fabric(), AcsPolicy::All);
        assert_eq!(changes(&before, &copy), [], "{name}");
        assert!(!journal(&copy).exists());
    }
}

#[test]
fn the_pass_clears_the_ports_on_gpu_paths_and_nothing_else() {
    let copy = MachineCopy::of("switch-acs");
    let before = configs(&copy);
    let applied = fixed(&copy, AcsPolicy::Path);
    assert_eq!(applied.findings, []);
    let port = |bdf: &str| (bdf.to_owned(), 0x14e, 0x1d, 0x00);
    let ports = [
        "0000:02:08.0",
        "0000:02:09.0",
        "0000:02:10.0",
        "0000:02:11.0",
    ];
    assert_eq!(changes(&before, &copy), ports.map(port));
    assert_eq!(copy.fabric().findings, []);
}

#[test]
fn policy_all_clears_every_port_and_policy_off_none() {
    let copy = MachineCopy::of("switch-acs");
    let before = configs(&copy);
    assert_eq!(fixed(&copy, AcsPolicy::Off).entries.len(), 0);
    assert_eq!(changes(&before, &copy), []);
    assert_eq!(
        fixed(&copy, AcsPolicy::All).entries.len(),
        6,
        "the root port too"
    );
}

#[test]
fn the_journal_says_what_was_and_what_is() {
    let copy = MachineCopy::of("epyc-8x4090-before");
    let applied = fixed(&copy, AcsPolicy::Path);
    assert_eq!(
        applied.entries.len(),
        8,
        "not the ports of the cards, which exchange nothing with a GeForce"
    );
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
    assert_eq!(
        (number("before"), number("after"), number("readback")),
        (Some(0x1d), Some(0), Some(0))
    );
    assert!(number("when") > Some(1_500_000_000));
    assert_eq!(entry["finding"], serde_json::Value::Null);
}

#[test]
fn a_pass_with_nothing_to_do_leaves_an_empty_journal() {
    let copy = MachineCopy::of("switch-acs");
    let before = configs(&copy);
    assert_eq!(fixed(&copy, AcsPolicy::Off).entries.len(), 0);
    let kept: serde_json::Value =
        serde_json::from_slice(&fs::read(journal(&copy)).unwrap()).unwrap();
    assert_eq!(kept["entries"], serde_json::json!([]));
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn a_second_pass_writes_nothing_and_keeps_the_journal() {
    let copy = MachineCopy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    let kept = fs::read(journal(&copy)).unwrap();
    assert_eq!(fixed(&copy, AcsPolicy::Path).entries.len(), 0);
    assert_eq!(fs::read(journal(&copy)).unwrap(), kept);
}

#[test]
fn nothing_is_changed_without_a_journal() {
    let copy = MachineCopy::of("switch-acs");
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
    assert!(matches!(
        fix(&copy.root(), &plan, &journal(&copy)),
        Err(JournalError::Malformed { .. })
    ));
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn an_intel_chipset_port_is_never_written() {
    let copy = MachineCopy::of("intel-pch");
    let before = configs(&copy);
    let applied = fixed(&copy, AcsPolicy::All);
    assert_eq!(changes(&before, &copy), []);
    let codes: Vec<_> = applied
        .findings
        .iter()
        .map(|f| (f.code, f.severity))
        .collect();
    assert_eq!(codes, [(Code::AcsQuirk, Severity::Fail)]);
    let shown = FindingEntry::of(&applied.findings[0], &Host::default());
    assert!(
        shown
            .remedy
            .to_string()
            .contains("disable_acs_redir=0000:00:1c.0")
    );
}

#[test]
fn a_function_that_vanished_since_the_plan_is_refused_and_the_others_are_written() {
    let copy = MachineCopy::of("switch-acs");
    let plan = plan(&copy.fabric(), AcsPolicy::Path);
    let config = copy.file("0000:02:08.0", "config");
    fs::write(&config, [0xff; 4096]).unwrap();
    let applied = fix(&copy.root(), &plan, &journal(&copy)).unwrap();
    let codes: Vec<_> = applied
        .findings
        .iter()
        .map(|f| (f.code, f.severity, f.subject.clone()))
        .collect();
    assert_eq!(
        codes,
        [(Code::AcsRefused, Severity::Fail, bdf("0000:02:08.0").into())]
    );
    assert_eq!(
        fs::read(&config).unwrap(),
        [0xff; 4096],
        "a function that does not answer is not written"
    );
    let readbacks: Vec<_> = applied.entries.iter().map(|e| e.readback).collect();
    assert_eq!(readbacks, [None, Some(0), Some(0), Some(0)]);
    let kept = Journal::load(&journal(&copy), copy.root().path())
        .unwrap()
        .unwrap();
    let kept_codes: Vec<_> = kept.entries.iter().map(|e| e.finding.as_deref()).collect();
    assert_eq!(kept_codes, [Some("ACS-REFUSED"), None, None, None]);
}

/// A machine with links that lead out of it: their targets on this host do not belong to it.
#[test]
fn a_link_that_leads_out_of_the_root_is_neither_read_nor_written() {
    let (copy, outside) = (MachineCopy::of("switch-acs"), tempfile::tempdir().unwrap());
    let precious = outside.path().join("config");
    let config = copy.file("0000:02:08.0", "config").canonicalize().unwrap();
    fs::rename(&config, &precious).unwrap();
    symlink(&precious, &config).unwrap();
    symlink(outside.path(), copy.at("run")).unwrap();
    let before = fs::read(&precious).unwrap();
    let applied = fix(
        &copy.root(),
        &plan(&copy.fabric(), AcsPolicy::All),
        &Journal::place(&copy.root()).unwrap(),
    );
    assert_eq!(applied.unwrap().entries.len(), 5, "the others are written");
    assert_eq!(fs::read(&precious).unwrap(), before);
    let names: Vec<_> = fs::read_dir(outside.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["config"], "the journal is not there");
    let inside = outside
        .path()
        .strip_prefix("/")
        .unwrap()
        .join("firstlight/fabric.json");
    assert!(
        copy.at(inside.to_str().unwrap()).is_file(),
        "it is where the link leads inside"
    );
    let restored = restore(&copy.root(), &Journal::place(&copy.root()).unwrap()).unwrap();
    assert!(
        restored.is_done() && fs::read(&precious).unwrap() == before,
        "{restored:?}"
    );
}

#[test]
fn a_pipe_in_the_place_of_a_register_file_or_of_the_journal_is_not_waited_for() {
    let copy = MachineCopy::of("switch-acs");
    let pipe = |path: &std::path::Path| {
        let _ = fs::remove_file(path);
        assert!(
            std::process::Command::new("mkfifo")
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    };
    pipe(&copy.file("0000:02:08.0", "config").canonicalize().unwrap());
    let applied = fixed(&copy, AcsPolicy::All);
    assert_eq!(applied.entries.len(), 5, "{applied:?}");
    pipe(&journal(&copy));
    let plan = plan(&copy.fabric(), AcsPolicy::All);
    assert!(matches!(
        fix(&copy.root(), &plan, &journal(&copy)),
        Err(JournalError::Read { .. })
    ));
}
