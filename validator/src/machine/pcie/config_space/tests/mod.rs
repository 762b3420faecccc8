//! Configuration spaces as hostile devices show them.

mod chains;
mod content;

use super::*;

/// A PCIe function with an empty extended chain.
fn image(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    put(&mut bytes, 0x00, &[0xde, 0x10, 0x84, 0x26]);
    put(&mut bytes, 0x06, &[0x10]);
    put(&mut bytes, 0x08, &[0xa1, 0x00, 0x00, 0x03]);
    put(&mut bytes, 0x34, &[0x60]);
    put(&mut bytes, 0x60, &[0x10, 0x00, 0x42, 0x00]);
    put(&mut bytes, 0x6c, &[0x04, 0x01]);
    put(&mut bytes, 0x72, &[0x83, 0x00]);
    bytes
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(new) {
        *to = *from;
    }
}

fn extended(bytes: &mut [u8], at: usize, id: u32, next: u32) {
    put(bytes, at, &(id | 1 << 16 | next << 20).to_le_bytes());
}

#[track_caller]
fn fault(bytes: &[u8]) -> String {
    let space = parse(bytes);
    assert_eq!(space.faults.len(), 1, "{:?}", space.faults);
    space.faults[0].to_string()
}

#[test]
fn a_header_and_its_link_are_read() {
    let space = parse(&image(4096));
    assert_eq!((space.vendor, space.device, space.class), (0x10de, 0x2684, 0x030000));
    let express = space.express.unwrap();
    assert_eq!(express.port, PortType::RootPort);
    assert_eq!((express.speed, express.width, express.max_speed, express.max_width), (3, 8, 4, 16));
    assert_eq!(space.faults, []);
}

#[test]
fn a_function_that_fell_off_the_bus_is_gone_and_not_walked() {
    for len in [64, 256, 4096] {
        let space = parse(&vec![0xff; len]);
        assert!(space.gone);
        assert_eq!((space.capabilities.len(), space.extended.len(), space.faults.len()), (0, 0, 0));
    }
}

#[test]
fn a_single_byte_that_is_not_ones_is_not_gone() {
    let mut bytes = vec![0xff; 4096];
    bytes[9] = 0;
    let space = parse(&bytes);
    assert!(!space.gone);
    assert!(!space.faults.is_empty());
}

#[test]
fn a_partial_header_is_a_fault() {
    assert_eq!(fault(&[0; 63]), "only 63 bytes of configuration space, a header has 64");
    assert_eq!(fault(&[]), "only 0 bytes of configuration space, a header has 64");
}

#[test]
fn the_unprivileged_view_is_not_a_fault() {
    assert_eq!(parse(&image(64)).faults, []);
}

#[test]
fn all_zeros_are_not_a_function() {
    assert_eq!(fault(&[0; 4096]), "every register reads as zero");
}

#[test]
fn the_registers_of_another_function_are_discarded() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x000d, 0);
    let same = parse(&bytes).of("0x10de", "0x2684");
    assert!(same.faults.is_empty() && same.acs.is_some() && same.express.is_some());
    let other = parse(&bytes).of("0x15b3", "0x101d");
    let said: Vec<_> = other.faults.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["the registers say 10de:2684, sysfs says 15b3:101d"]);
    assert!(other.acs.is_none() && other.express.is_none());
    assert!(parse(&bytes).of("unknown", "0x2684").faults.is_empty(), "sysfs says nothing");
    assert!(parse(&[0xff; 4096]).of("0x10de", "0x2684").faults.is_empty(), "it is gone");
}

/// A fault makes only the data that it hides unknown.
#[test]
fn a_fault_hides_its_own_data_and_what_follows_it() {
    use Untold::{Acs, PortType, Rebar};
    let untold = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = image(4096);
        extended(&mut bytes, 0x100, 0x000d, 0x140);
        extended(&mut bytes, 0x140, 0x0015, 0x180);
        put(&mut bytes, 0x148, &(1_u32 << 5).to_le_bytes());
        extended(&mut bytes, 0x180, 0x0001, 0);
        change(&mut bytes);
        parse(&bytes).untold
    };
    assert_eq!(untold(&|_| ()), []);
    assert_eq!(untold(&|b| put(b, 0x148, &(7_u32 << 5).to_le_bytes())), [Rebar], "a malformed capability");
    assert_eq!(untold(&|b| extended(b, 0x180, 0x0001, 0x100)), [], "a loop behind both");
    assert_eq!(untold(&|b| extended(b, 0x100, 0x000d, 0x0c8)), [Rebar], "broken before the second");
    assert_eq!(untold(&|b| extended(b, 0x100, 0x0001, 0x0c8)), [Acs, Rebar]);
    assert_eq!(untold(&|b| b[0x61] = 0x20), [], "broken after the relevant part");
    assert_eq!(untold(&|b| b[0x34] = 0x20), [PortType]);
    assert_eq!(untold(&|b| b[0x62] = 0xf2), [PortType], "an invalid port type");
    assert_eq!(untold(&|b| b.fill(0)), [PortType, Acs, Rebar]);
    let other = parse(&image(4096)).of("0x15b3", "0x101d");
    assert_eq!(other.untold, [PortType, Acs, Rebar]);
}
