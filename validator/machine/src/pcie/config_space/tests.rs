//! Configuration spaces as hostile devices show them.

use super::*;
use crate::pcie::routing::Pch;

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
    assert_eq!(
        (space.vendor, space.device, space.class),
        (0x10de, 0x2684, 0x030000)
    );
    let express = space.express.unwrap();
    assert_eq!(express.port, PortType::RootPort);
    assert_eq!(
        (
            express.speed,
            express.width,
            express.max_speed,
            express.max_width
        ),
        (3, 8, 4, 16)
    );
    assert_eq!(space.faults, []);
}

#[test]
fn a_function_that_fell_off_the_bus_is_gone_and_not_walked() {
    for len in [64, 256, 4096] {
        let space = parse(&vec![0xff; len]);
        assert!(space.gone);
        assert_eq!(
            (
                space.capabilities.len(),
                space.extended.len(),
                space.faults.len()
            ),
            (0, 0, 0)
        );
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
    assert_eq!(
        fault(&[0; 63]),
        "only 63 bytes of configuration space, a header has 64"
    );
    assert_eq!(
        fault(&[]),
        "only 0 bytes of configuration space, a header has 64"
    );
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
    let faults: Vec<_> = other.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        ["the registers say 10de:2684, sysfs says 15b3:101d"]
    );
    assert!(other.acs.is_none() && other.express.is_none());
    assert!(
        parse(&bytes).of("unknown", "0x2684").faults.is_empty(),
        "sysfs says nothing"
    );
    assert!(
        parse(&[0xff; 4096])
            .of("0x10de", "0x2684")
            .faults
            .is_empty(),
        "it is gone"
    );
}

/// A fault makes only the data that it hides unknown.
#[test]
fn a_fault_hides_its_own_data_and_what_follows_it() {
    use Undetermined::{Acs, PortType, Rebar};
    let hidden = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = image(4096);
        extended(&mut bytes, 0x100, 0x000d, 0x140);
        extended(&mut bytes, 0x140, 0x0015, 0x180);
        put(&mut bytes, 0x148, &(1_u32 << 5).to_le_bytes());
        extended(&mut bytes, 0x180, 0x0001, 0);
        change(&mut bytes);
        parse(&bytes).undetermined
    };
    assert_eq!(hidden(&|_| ()), []);
    assert_eq!(
        hidden(&|b| put(b, 0x148, &(7_u32 << 5).to_le_bytes())),
        [Rebar],
        "a malformed capability"
    );
    assert_eq!(
        hidden(&|b| extended(b, 0x180, 0x0001, 0x100)),
        [],
        "a loop behind both"
    );
    assert_eq!(
        hidden(&|b| extended(b, 0x100, 0x000d, 0x0c8)),
        [Rebar],
        "broken before the second"
    );
    assert_eq!(hidden(&|b| extended(b, 0x100, 0x0001, 0x0c8)), [Acs, Rebar]);
    assert_eq!(
        hidden(&|b| b[0x61] = 0x20),
        [],
        "broken after the relevant part"
    );
    assert_eq!(hidden(&|b| b[0x34] = 0x20), [PortType]);
    assert_eq!(
        hidden(&|b| b[0x62] = 0xf2),
        [PortType],
        "an invalid port type"
    );
    assert_eq!(hidden(&|b| b.fill(0)), [PortType, Acs, Rebar]);
    let other = parse(&image(4096)).of("0x15b3", "0x101d");
    assert_eq!(other.undetermined, [PortType, Acs, Rebar]);
}

#[test]
fn a_chain_that_points_into_the_header_is_a_fault() {
    let mut bytes = image(4096);
    bytes[0x34] = 0x20;
    assert_eq!(
        fault(&bytes),
        "capability chain leaves its range at 0x034: points to 0x020"
    );
}

#[test]
fn a_chain_that_loops_ends() {
    let mut bytes = image(256);
    bytes[0x61] = 0x60;
    assert_eq!(
        fault(&bytes),
        "capability chain loops at 0x061: points back to 0x060"
    );
}

#[test]
fn a_capability_of_ones_ends_the_chain() {
    let mut bytes = image(256);
    bytes[0x61] = 0xf0;
    bytes[0xf0] = 0xff;
    assert_eq!(fault(&bytes), "capability at 0x0f0 reads as all ones");
}

#[test]
fn a_capability_that_is_cut_off_is_a_fault() {
    let mut bytes = image(256);
    bytes[0x34] = 0xf8;
    bytes[0xf8] = 0x10;
    assert_eq!(
        fault(&bytes),
        "PCI Express capability at 0x0f8 is cut off after 256 bytes of configuration space"
    );
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x0003, 0xffc);
    extended(&mut bytes, 0xffc, 0x000d, 0);
    assert_eq!(
        fault(&bytes),
        "ACS capability at 0xffc is cut off after 4096 bytes of configuration space"
    );
}

#[test]
fn an_extended_chain_that_loops_ends_and_keeps_what_it_found() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x000d, 0x140);
    put(&mut bytes, 0x104, &[0x5f, 0x00, 0x1d, 0x00]);
    extended(&mut bytes, 0x140, 0x0001, 0x100);
    assert_eq!(
        fault(&bytes),
        "capability chain loops at 0x140: points back to 0x100"
    );
    assert_eq!(parse(&bytes).acs.unwrap().ctrl, 0x001d);
}

#[test]
fn an_extended_chain_that_points_below_its_space_is_a_fault() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x0001, 0x0c8);
    assert_eq!(
        fault(&bytes),
        "capability chain leaves its range at 0x100: points to 0x0c8"
    );
}

#[test]
fn an_extended_header_of_ones_is_a_fault_and_of_zeros_is_none() {
    let mut bytes = image(4096);
    assert_eq!(parse(&bytes).faults, []);
    put(&mut bytes, 0x100, &[0xff; 4]);
    assert_eq!(fault(&bytes), "capability at 0x100 reads as all ones");
    extended(&mut bytes, 0x100, 0x0001, 0x200);
    put(&mut bytes, 0x200, &[0xff; 4]);
    assert_eq!(fault(&bytes), "capability at 0x200 reads as all ones");
}

/// Random bytes of every length: nothing panics, no walk exceeds its bound.
#[test]
fn random_bytes_are_walked_within_bounds() {
    let mut state: u64 = 1;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    for round in 0..2000 {
        let len = [0, 1, 63, 64, 65, 255, 256, 257, 300, 4095, 4096][round % 11];
        let mut bytes: Vec<u8> = (0..len).map(|_| noise()).collect();
        put(&mut bytes, 0x06, &[0x10]);
        let space = parse(&bytes);
        assert!(space.capabilities.len() <= 48 && space.extended.len() <= 480);
    }
}

/// The longest chains that fit are walked to their ends.
#[test]
fn full_chains_are_walked_whole() {
    let mut bytes = vec![0; 4096];
    put(&mut bytes, 0x06, &[0x10]);
    bytes[0x34] = 0x40;
    for at in (0x40..0x100).step_by(4) {
        bytes[at] = 0x09;
        bytes[at + 1] = u8::try_from(at + 4).unwrap_or(0);
    }
    for at in (0x100..0x1000).step_by(8) {
        let next = if at + 8 < 0x1000 { at + 8 } else { 0 };
        extended(&mut bytes, at, 0x0b, u32::try_from(next).unwrap());
    }
    let space = parse(&bytes);
    assert_eq!((space.capabilities.len(), space.extended.len()), (48, 480));
    assert_eq!(space.faults, []);
}

#[test]
fn acs_is_read_where_the_specification_puts_it() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x000d, 0);
    put(&mut bytes, 0x104, &[0x5f, 0x00, 0x1d, 0x00, 0x11, 0x22]);
    let acs = parse(&bytes).acs.unwrap();
    assert_eq!(
        (acs.offset, acs.cap, acs.ctrl, acs.quirk),
        (0x100, 0x005f, 0x001d, false)
    );
    assert_eq!(acs.enabled, ["SV", "RR", "CR", "UF"]);
}

/// Both ends of every range of device ids, and their neighbours.
#[test]
fn intel_chipset_root_ports_have_their_control_at_8() {
    let quirk = |vendor: u16, device: u16, kind: u8| {
        let mut bytes = image(4096);
        put(&mut bytes, 0x00, &vendor.to_le_bytes());
        put(&mut bytes, 0x02, &device.to_le_bytes());
        put(&mut bytes, 0x62, &[kind << 4 | 2]);
        extended(&mut bytes, 0x100, 0x000d, 0);
        put(&mut bytes, 0x104, &[0x0f, 0, 0, 0, 0x1d, 0, 0, 0]);
        let acs = parse(&bytes).acs.unwrap();
        assert_eq!(acs.ctrl, if acs.quirk { 0x001d } else { 0 });
        acs.quirk
    };
    for (first, last) in [
        (0xa110, 0xa11f),
        (0xa167, 0xa16a),
        (0xa290, 0xa29f),
        (0xa2e7, 0xa2ee),
        (0x9d10, 0x9d1b),
    ] {
        assert!(quirk(0x8086, first, 4) && quirk(0x8086, last, 4));
        assert!(!quirk(0x8086, first - 1, 4) && !quirk(0x8086, last + 1, 4));
    }
    assert!(!quirk(0x1022, 0xa110, 4), "another vendor");
    assert!(!quirk(0x8086, 0xa110, 6), "a switch's port");
}

#[test]
fn every_resizable_bar_is_read() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x0015, 0);
    put(&mut bytes, 0x104, &0x0000_0100_u32.to_le_bytes());
    put(&mut bytes, 0x108, &(0x40_u32 | 4 << 8).to_le_bytes());
    put(&mut bytes, 0x10c, &(0xffc0_u32 << 4).to_le_bytes());
    put(
        &mut bytes,
        0x110,
        &(0x41_u32 | 8 << 8 | 1 << 16).to_le_bytes(),
    );
    let rebar = parse(&bytes).rebar;
    assert_eq!(rebar.len(), 2);
    assert_eq!((rebar[0].bar, rebar[0].current_bytes), (0, 16 << 20));
    assert_eq!(rebar[0].supported_bytes, [16 << 20]);
    assert_eq!((rebar[1].bar, rebar[1].current_bytes), (1, 256 << 20));
    assert_eq!(rebar[1].supported_bytes.first(), Some(&(64 << 20)));
    assert_eq!(
        rebar[1].supported_bytes.last(),
        Some(&(1 << 48)),
        "sizes beyond 128 TiB are in the control register"
    );
}

#[test]
fn impossible_resizable_bars_are_faults() {
    let with_control = |control: u32| {
        let mut bytes = image(4096);
        extended(&mut bytes, 0x100, 0x0015, 0);
        put(&mut bytes, 0x108, &control.to_le_bytes());
        fault(&bytes)
    };
    assert_eq!(
        with_control(7 << 5),
        "number of resizable BARs at 0x108 is 7, allowed is 0 to 6"
    );
    assert_eq!(
        with_control(1 << 5 | 6),
        "resizable BAR's index at 0x108 is 6, allowed is 0 to 5"
    );
    assert_eq!(
        with_control(1 << 5 | 44 << 8),
        "resizable BAR's size at 0x108 is 44, allowed is 0 (1 MiB) to 43 (8 EiB)"
    );
}

/// As an Intel 8086:466e has it.
#[test]
fn a_resizable_bar_capability_for_no_bar_is_not_a_fault() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x0015, 0);
    let space = parse(&bytes);
    assert!(
        space.faults.is_empty() && space.rebar.is_empty() && space.undetermined.is_empty(),
        "{space:?}"
    );
}

#[test]
fn a_bridges_open_windows_are_read_as_bus_addresses() {
    let mut bytes = image(4096);
    bytes[0x0e] = 1;
    assert_eq!(parse(&bytes).windows, [], "nothing was ever written there");
    put(&mut bytes, 0x20, &[0x00, 0xc0, 0xf0, 0xcf]);
    put(&mut bytes, 0x24, &[0x01, 0x00, 0xf1, 0xff]);
    put(&mut bytes, 0x28, &[0x40, 0, 0, 0, 0x47, 0, 0, 0]);
    let memory = BridgeWindow {
        prefetchable: false,
        base: 0xc000_0000,
        bytes: 256 << 20,
    };
    let wide = BridgeWindow {
        prefetchable: true,
        base: 0x40_0000_0000,
        bytes: 32 << 30,
    };
    assert_eq!(parse(&bytes).windows, [memory, wide]);
    put(&mut bytes, 0x20, &[0xf0, 0xff, 0x00, 0x00]);
    assert_eq!(parse(&bytes).windows, [wide], "the limit is below the base");
}

#[test]
fn other_routing_registers_are_read() {
    let mut bytes = image(4096);
    bytes[0x6f] = 7;
    extended(&mut bytes, 0x100, 0x000d, 0x140);
    put(&mut bytes, 0x104, &[0x7f, 12, 0x24, 0x00, 0x81, 0xf8]);
    extended(&mut bytes, 0x140, 0x000f, 0);
    put(&mut bytes, 0x146, &[0, 0x80]);
    let space = parse(&bytes);
    assert_eq!(
        (
            space.routing.port_number,
            space.routing.ats,
            space.routing.pch
        ),
        (Some(7), true, None)
    );
    assert_eq!(space.acs.unwrap().egress, Some(vec![0, 7, 11]), "12 bits");
    put(&mut bytes, 0x106, &[0x04]);
    assert_eq!(
        parse(&bytes).acs.unwrap().egress,
        None,
        "egress control is off"
    );
    put(&mut bytes, 0x00, &[0x86, 0x80, 0x10, 0x8d]);
    assert_eq!(parse(&bytes).routing.pch, Some(Pch::Open));
    bytes[0xdb] = 0x04;
    assert_eq!(parse(&bytes).routing.pch, Some(Pch::Isolated));
}
