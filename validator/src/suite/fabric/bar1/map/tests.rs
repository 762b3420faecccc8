//! Boards of public threads, before and after the driver is loaded.

use super::*;
use crate::machine::pcie::model::{Bar, Rebar};
use crate::suite::shared::fixture;

/// A GPU of this id that offers BAR1 up to so many MiB, and has it.
fn gpu(device: &str, mib: u64) -> Device {
    let mut fabric = fixture::machine(1);
    let at = fabric.gpus[0];
    let gpu = fixture::device(&mut fabric, at);
    gpu.device = device.into();
    gpu.bars = vec![Bar { index: 1, start: 0x40_0000_0000, bytes: mib << 20, flags: 0x14220c }];
    gpu.rebar = vec![Rebar {
        bar: 1,
        current_bytes: mib << 20,
        supported_bytes: vec![64 << 20, 256 << 20, mib << 20],
    }];
    gpu.clone()
}

fn say(device: &str, mib: u64, console: Option<&str>, driver: Driver) -> Option<Finding> {
    let gpu = gpu(device, mib);
    finding(&gpu, of_board(&gpu), console, driver)
}

fn loaded(dwords: &str) -> Driver {
    Driver::Loaded(Keys::of(590, dwords))
}

const FORCED: &str = "ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1";

#[test]
fn a_5090_without_a_console_fits_and_one_with_a_console_needs_the_forced_map() {
    assert_eq!(say("0x2b85", 32768, None, Driver::Absent), None);
    let said = say("0x2b85", 32768, Some("fb0"), Driver::Absent).unwrap();
    assert!(said.is(Code::Bar1MapShort) && said.severity == Severity::Warn, "{said:?}");
    assert!(said.message.ends_with("what the driver keeps for itself"), "{}", said.message);
    let said = say("0x2b85", 32768, Some("fb0"), loaded(FORCED)).unwrap();
    assert!(said.is(Code::Bar1MapUnknown) && said.severity == Severity::Info, "{said:?}");
    let said = say("0x2b85", 32768, Some("fb0"), loaded("RMPcieP2PType=1")).unwrap();
    assert!(said.is(Code::Bar1MapShort) && said.severity == Severity::Warn, "{said:?}");
    assert_eq!(
        said.message,
        "BAR1 of 0000:10:00.0 (GeForce RTX 5090, 32607 MiB) is at least 362 MiB too small for the driver's map of \
         all memory: 32766 MiB are there, 33128 are needed"
    );
    assert!(said.remedy.contains("firstlight.console.screen=release"), "{}", said.remedy);
    assert!(said.remedy.contains("RMForceStaticBar1=1"), "{}", said.remedy);
    assert_eq!(said.evidence, ["Resizable BAR offers 64 MiB to 32 GiB"]);
}

#[test]
fn mailboxes_take_the_first_512_mib_where_no_key_says_bar1() {
    // Nothing asks for peers through BAR1: for information.
    let said = say("0x2c05", 16384, None, loaded("")).unwrap();
    assert!(said.is(Code::Bar1MapShort) && said.severity == Severity::Info, "{said:?}");
    assert_eq!((said.measured, said.expected), (16382.into(), (16304 + 8 + 512).into()));
    assert_eq!(say("0x2c05", 16384, None, loaded(FORCED)), None);
}

#[test]
fn a_4080_has_no_automatic_map_and_the_remedy_is_the_key() {
    let said = say("0x2704", 16384, None, Driver::Absent).unwrap();
    assert!(said.is(Code::Bar1MapShort) && said.severity == Severity::Info, "{said:?}");
    assert!(said.message.contains("at least 2 MiB too small"), "{}", said.message);
    assert!(said.remedy.contains("/etc/modprobe.d/nvidia.conf"), "{}", said.remedy);
}

#[test]
fn an_unknown_board_is_unknown() {
    for (device, mib) in [("0x2fff", 32768), ("0x2b85", 65536), ("odd", 32768)] {
        let said = say(device, mib, None, Driver::Absent).unwrap();
        assert!(said.is(Code::Bar1MapUnknown) && said.severity == Severity::Info, "{said:?}");
    }
}

#[test]
fn a_board_with_room_to_spare_has_no_finding() {
    for console in [None, Some("fb0")] {
        for driver in [Driver::Absent, loaded(FORCED), loaded("RMForceStaticBar1=0")] {
            assert_eq!(say("0x2684", 32768, console, driver), None, "{console:?} {driver:?}");
        }
    }
}
