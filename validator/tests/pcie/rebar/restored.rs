//! Does restoring give each BAR1 its old size?

use super::*;
use firstlight::fabric::rebar::BarOutcome;

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
