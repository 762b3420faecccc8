//! Does restoring give each BAR1 its old size, also after a pass that died in its work?

use super::*;
use firstlight::fabric::rebar::BarOutcome;

#[track_caller]
fn put_back(copy: &Copy) -> Restored {
    firstlight::fabric::restore::restore(&copy.root(), &copy.at(JOURNAL)).unwrap()
}

/// A pass over everything that died at the worst moment: sizes are in the hardware, decode is off,
/// and nothing is removed yet.
#[track_caller]
fn killed(copy: &Copy) -> Vec<u8> {
    let kernel = Simulated { movable: false, dies: true, ..Simulated::new(copy) };
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fixed(copy, &kernel)));
    assert!(died.is_err());
    fs::read(copy.at(JOURNAL)).unwrap()
}

#[test]
fn a_pass_that_died_after_its_writes_is_undone_in_the_registers() {
    let copy = machine();
    let before = files(&copy);
    killed(&copy);
    let off = |bdf: &str| files(&copy)[bdf].0[4] & 2 == 0;
    let moved = [SWITCHED[0], "0000:03:00.1", SWITCHED[1], CARD];
    assert!(moved.iter().all(|bdf| off(bdf)) && files(&copy) != before);
    let restored = put_back(&copy);
    assert!(restored.is_done(), "{restored:?}");
    let told: Vec<String> = restored.bars.iter().map(ToString::to_string).collect();
    assert_eq!(told.last().unwrap(), "0000:03:00.0 BAR1 the size that an unfinished pass left -> 256 MiB");
    let on: Vec<String> = restored.decode.iter().map(ToString::to_string).collect();
    assert!(moved.iter().all(|bdf| on.contains(&format!("{bdf} memory decode off -> on"))), "{on:?}");
    assert_eq!(files(&copy), before);
    assert_eq!(put_back(&copy).decode, [], "there is nothing left to do");
}

#[test]
fn a_journal_without_decode_puts_the_size_back_and_says_what_it_does_not_know() {
    let copy = machine();
    let mut kept: serde_json::Value = serde_json::from_slice(&killed(&copy)).unwrap();
    kept.as_object_mut().unwrap().remove("decode").unwrap();
    fs::write(copy.at(JOURNAL), kept.to_string()).unwrap();
    let restored = put_back(&copy);
    has(&copy, SWITCHED[0], FIRMWARE);
    let told: Vec<String> = restored.decode.iter().map(ToString::to_string).collect();
    let off = "memory decode not changed: it is off, and the journal does not say what it was";
    assert_eq!(told, SWITCHED.map(|gpu| format!("{gpu} {off}")));
    assert!(!restored.is_done());
}

#[test]
fn registers_that_a_dead_pass_left_are_told_where_a_driver_is_bound_and_where_it_was_not_the_pass() {
    let copy = machine();
    killed(&copy);
    symlink("../../../bus/pci/drivers/nvidia", copy.file(SWITCHED[0], "driver")).unwrap();
    Simulated::new(&copy).control(bdf(SWITCHED[1]), 128 * GIB);
    let before = files(&copy);
    let told: Vec<String> = put_back(&copy).bars.iter().map(ToString::to_string).collect();
    let left = |why: &str| told.iter().any(|line| line.contains(why));
    assert!(
        left("0000:03:00.0 BAR1 not changed: the driver nvidia is bound: ReBAR control 32 GiB"),
        "{told:?}"
    );
    assert!(left("0000:04:00.0 BAR1 not changed: the pass did not request this size"), "{told:?}");
    assert_eq!(files(&copy)[SWITCHED[0]], before[SWITCHED[0]]);
}

#[test]
fn a_pass_that_ended_leaves_no_decode_in_its_journal() {
    for movable in [true, false] {
        let copy = machine();
        fixed(&copy, &Simulated { movable, ..Simulated::new(&copy) });
        let journal = Journal::load(&copy.at(JOURNAL), copy.root().path()).unwrap().unwrap();
        assert_eq!(journal.decode, []);
    }
}

#[test]
fn restore_gives_every_bar1_its_old_size() {
    let copy = machine();
    let kernel = Simulated::new(&copy);
    let done = fixed(&copy, &kernel);
    for expected in [BarOutcome::Restored, BarOutcome::Already] {
        let steps = restore(&copy.root(), &kernel, &done.rebar);
        assert!(steps.iter().all(|s| s.outcome == expected), "{steps:?}");
        [SWITCHED[0], SWITCHED[1], ALONE].iter().for_each(|gpu| has(&copy, gpu, FIRMWARE));
    }
}

#[test]
fn restore_leaves_what_somebody_else_changed_and_what_is_in_use() {
    let copy = machine();
    let kernel = Simulated::new(&copy);
    let done = fixed(&copy, &kernel);
    kernel.resize(bdf(ALONE), 1, GIB).unwrap();
    symlink("../../../bus/pci/drivers/nvidia", copy.file(SWITCHED[0], "driver")).unwrap();
    let steps: Vec<String> =
        restore(&copy.root(), &kernel, &done.rebar).iter().map(ToString::to_string).collect();
    assert_eq!(steps[0], "0000:06:00.0 BAR1 not changed: is 1 GiB, the pass had made it 32 GiB");
    assert_eq!(steps[1], "0000:04:00.0 BAR1 32 GiB -> 256 MiB");
    assert_eq!(steps[2], "0000:03:00.0 BAR1 not changed: the driver nvidia is bound");
}

/// A pass that died between removing and rescanning.
#[test]
fn restore_looks_for_gpus_that_were_removed() {
    let copy = machine();
    let kernel = Simulated::new(&copy);
    let mut done = fixed(&copy, &kernel);
    kernel.remove(bdf("0000:00:01.0")).unwrap();
    done.rebar.iter_mut().for_each(|entry| entry.after_bytes = None);
    let steps = restore(&copy.root(), &kernel, &done.rebar);
    assert!(steps.iter().all(|s| s.outcome == BarOutcome::Restored), "{steps:?}");
}
