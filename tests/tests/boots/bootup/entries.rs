//! Does each boot entry boot to a hand-over, and does it do what its title says?

use super::assert_handed_over;
use harness::config_space::{SAVE_ALL_DEVICES, SAVE_PORTS};
use harness::fakepci::Topology;
use harness::{Boot, Booted};

fn boot(entry: &str) -> Booted {
    Boot::shipped()
        .entry(entry)
        .unwrap()
        .append("firstlight.expect.gpus=0")
        .run()
        .unwrap()
}

#[test]
fn the_entry_pt_boots_the_other_kernel_and_expects_it() {
    let booted = boot("pt");
    assert_handed_over(&booted);
    booted.says("3 of 3 required parameters");
}

#[test]
fn three_entries_change_the_level() {
    for level in ["quick", "full", "acceptance"] {
        let booted = boot(level);
        assert_handed_over(&booted);
        booted.says(&format!("level {level}"));
    }
}

/// The tests of init's `screen` cover the release of a framebuffer on a GPU; this one checks that the word is accepted.
#[test]
fn the_entry_headless_boots_without_any_screen() {
    assert_handed_over(&boot("headless"));
}

/// Boots an entry after firmware that left ACS on and BAR1 small, on two ports with a GPU each.
fn left_by_firmware(entry: &str) -> Booted {
    let mut topology = Topology::new();
    for slot in 1..=2 {
        let port = topology.root_port(slot, "fw=0x1d");
        topology.gpu(port, "");
    }
    // There is room for both to grow.
    topology.parameter("window=0x2000000000");
    Boot::shipped()
        .entry(entry)
        .unwrap()
        .fakepci(&topology)
        .unwrap()
        .workload(&[SAVE_ALL_DEVICES, SAVE_PORTS].concat())
        .on_any_verdict()
        .run()
        .unwrap()
}

const PORTS: [&str; 2] = ["0001:00:01.0", "0001:00:02.0"];
const GPUS: [&str; 2] = ["0001:01:00.0", "0001:02:00.0"];

/// How many registers and BARs the pass changed or tried to change.
fn journalled_changes(booted: &Booted) -> usize {
    let Some(journal) = booted.find("firstlight/fabric.json") else {
        return 0;
    };
    let journal: serde_json::Value = serde_json::from_slice(journal).unwrap();
    ["entries", "bars"]
        .iter()
        .filter_map(|list| journal[*list].as_array())
        .map(Vec::len)
        .sum()
}

#[test]
fn the_entry_firmware_writes_nothing_and_reports_what_firmware_set() {
    let booted = left_by_firmware("firmware");
    for port in PORTS {
        assert_eq!(booted.acs_control(port), 0x1d, "{port}\n{booted}");
    }
    for gpu in GPUS {
        assert!(
            booted.bar1(gpu).agrees_on(256 << 20),
            "{:x?}\n{booted}",
            booted.bar1(gpu)
        );
    }
    assert_eq!(journalled_changes(&booted), 0, "{booted}");
    let report = booted.report();
    for port in PORTS {
        assert_eq!(report.device(port)["acs"]["ctrl"], 0x1d);
    }
    assert_eq!(report.outcome("cmdline"), "not-applicable", "{}", report.0);
}

/// Also proves that the test above would notice a change.
#[test]
fn the_entry_default_changes_what_firmware_set() {
    let booted = left_by_firmware("default");
    for port in PORTS {
        assert_eq!(booted.acs_control(port), 0, "{port}\n{booted}");
    }
    for gpu in GPUS {
        assert!(
            booted.bar1(gpu).agrees_on(32 << 30),
            "{:x?}\n{booted}",
            booted.bar1(gpu)
        );
    }
    assert_eq!(journalled_changes(&booted), 2, "{booted}");
    booted.says("BAR1 2 of 2 full size");
}
