//! Does the fabric pass change exactly what it says, and can it be undone, and only the pass?

mod written;

use crate::modelled::{Copy, bdf};
use firstlight::fabric::acs::AcsPolicy;
use firstlight::fabric::apply::{Applied, fix};
use firstlight::fabric::journal::{Entry, Journal};
use firstlight::fabric::plan::plan;
use firstlight::fabric::restore::{Outcome, RestoreError, restore};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn journal(copy: &Copy) -> PathBuf {
    copy.at("run/firstlight/fabric.json")
}

#[track_caller]
fn fixed(copy: &Copy, policy: AcsPolicy) -> Applied {
    fix(&copy.root(), &plan(&copy.fabric(), policy), &journal(copy)).unwrap()
}

/// Every configuration space of the machine.
fn configs(copy: &Copy) -> BTreeMap<String, Vec<u8>> {
    let devices = copy.fabric().devices;
    devices
        .iter()
        .map(|d| (d.bdf.to_string(), fs::read(copy.file(&d.bdf.to_string(), "config")).unwrap()))
        .collect()
}

/// Where two machines differ: function, offset, before, after.
fn changes(before: &BTreeMap<String, Vec<u8>>, copy: &Copy) -> Vec<(String, usize, u8, u8)> {
    let after = configs(copy);
    let changed = before.iter().flat_map(|(bdf, old)| {
        let pairs = old.iter().zip(&after[bdf]).enumerate();
        pairs.filter(|(_, (a, b))| a != b).map(move |(at, (a, b))| (bdf.clone(), at, *a, *b))
    });
    changed.collect()
}

/// Changes the journal's entry of 0000:02:08.0, the first one.
fn changed_entry(copy: &Copy, change: fn(&mut Entry)) {
    let mut kept = Journal::load(&journal(copy), copy.root().path()).unwrap().unwrap();
    change(&mut kept.entries[0]);
    kept.save(&journal(copy)).unwrap();
}

#[test]
fn restore_puts_every_byte_back() {
    for name in ["switch-acs", "epyc-8x4090-before", "iommu-translated"] {
        let copy = Copy::of(name);
        let before = configs(&copy);
        fixed(&copy, AcsPolicy::All);
        assert_ne!(changes(&before, &copy), []);
        let restored = restore(&copy.root(), &journal(&copy)).unwrap();
        assert!(restored.steps.iter().all(|s| s.outcome == Outcome::Restored { held: 0 }));
        assert_eq!(changes(&before, &copy), [], "{name}");
    }
}

#[test]
fn two_passes_are_undone_together_and_restoring_twice_does_no_harm() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    fixed(&copy, AcsPolicy::Path);
    fixed(&copy, AcsPolicy::All);
    for expected in [Outcome::Restored { held: 0 }, Outcome::Already] {
        let restored = restore(&copy.root(), &journal(&copy)).unwrap();
        assert_eq!(restored.steps.len(), 6);
        assert!(restored.steps.iter().all(|s| s.outcome == expected), "{restored:?}");
        assert_eq!(changes(&before, &copy), []);
    }
}

#[test]
fn what_somebody_else_changed_since_is_left_alone() {
    let copy = Copy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    copy.root().write_at("sys/bus/pci/devices/0000:02:08.0/config", 0x14e, &[0x40, 0]).unwrap();
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    let other = restored.steps.iter().find(|s| !s.is_done()).unwrap();
    assert_eq!((other.bdf, &other.outcome), (bdf("0000:02:08.0"), &Outcome::Changed { present: 0x40 }));
    assert_eq!(
        other.to_string(),
        "0000:02:08.0 ACS control not changed: has 0x0040, firstlight had written 0x0000"
    );
    assert_eq!(restored.steps.iter().filter(|s| s.is_done()).count(), 3);
}

/// A port that keeps a bit is a port that the pass has changed all the same.
#[test]
fn a_port_that_took_the_write_in_part_is_put_back() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    fixed(&copy, AcsPolicy::Path);
    copy.root().write_at("sys/bus/pci/devices/0000:02:08.0/config", 0x14e, &[0x10, 0]).unwrap();
    changed_entry(&copy, |entry| (entry.readback, entry.finding) = (Some(0x10), Some("ACS-STUCK".into())));
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    let port = restored.steps.last().unwrap();
    assert_eq!(port.to_string(), "0000:02:08.0 ACS control 0x0010 -> 0x001d");
    assert!(restored.is_done() && changes(&before, &copy).is_empty(), "{restored:?}");
}

#[test]
fn a_port_whose_write_was_refused_was_cleared_by_somebody_else() {
    let copy = Copy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    changed_entry(&copy, |entry| (entry.readback, entry.finding) = (None, Some("ACS-REFUSED".into())));
    let before = configs(&copy);
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    let port = restored.steps.last().unwrap();
    assert_eq!(
        port.to_string(),
        "0000:02:08.0 ACS control not changed: has 0x0000, firstlight's write of 0x0000 had been refused"
    );
    assert!(!restored.is_done() && changes(&before, &copy).iter().all(|c| c.0 != "0000:02:08.0"));
}

#[test]
fn a_pass_that_died_after_its_first_write_can_be_undone() {
    let copy = Copy::of("switch-acs");
    let before = configs(&copy);
    fixed(&copy, AcsPolicy::Path);
    let mut interrupted = Journal::load(&journal(&copy), copy.root().path()).unwrap().unwrap();
    for entry in &mut interrupted.entries {
        entry.readback = None;
    }
    interrupted.save(&journal(&copy)).unwrap();
    copy.root().write_at("sys/bus/pci/devices/0000:02:11.0/config", 0x14e, &[0x1d, 0]).unwrap();
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    assert_eq!(restored.steps[0].outcome, Outcome::Already);
    assert_eq!(changes(&before, &copy), []);
}

#[test]
fn a_journal_that_names_another_register_writes_nothing() {
    let copy = Copy::of("switch-acs");
    fixed(&copy, AcsPolicy::Path);
    let mut wrong = Journal::load(&journal(&copy), copy.root().path()).unwrap().unwrap();
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
    let copy = Copy::of("switch-acs");
    let error = restore(&copy.root(), &journal(&copy)).unwrap_err();
    assert!(matches!(error, RestoreError::Missing(_)), "{error}");
}

#[test]
fn not_even_a_journal_that_asks_for_it_has_an_intel_chipset_port_written() {
    let copy = Copy::of("intel-pch");
    let asked = Copy::of("switch-acs");
    fixed(&asked, AcsPolicy::Path);
    let mut forged = Journal::load(&journal(&asked), asked.root().path()).unwrap().unwrap();
    forged.root = copy.root().path().display().to_string();
    forged.entries.truncate(1);
    forged.entries[0].bdf = bdf("0000:00:1c.0");
    forged.entries[0].after = 0x001d;
    forged.save(&journal(&copy)).unwrap();
    let before = configs(&copy);
    let restored = restore(&copy.root(), &journal(&copy)).unwrap();
    assert!(matches!(restored.steps[0].outcome, Outcome::Unreachable { .. }), "{restored:?}");
    assert_eq!(changes(&before, &copy), []);
}
