//! What the capabilities and the header of a bridge say.

use super::*;
use crate::machine::pcie::routing::Pch;

#[test]
fn acs_is_read_where_the_specification_puts_it() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x000d, 0);
    put(&mut bytes, 0x104, &[0x5f, 0x00, 0x1d, 0x00, 0x11, 0x22]);
    let acs = parse(&bytes).acs.unwrap();
    assert_eq!((acs.offset, acs.cap, acs.ctrl, acs.quirk), (0x100, 0x005f, 0x001d, false));
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
    for (first, last) in
        [(0xa110, 0xa11f), (0xa167, 0xa16a), (0xa290, 0xa29f), (0xa2e7, 0xa2ee), (0x9d10, 0x9d1b)]
    {
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
    put(&mut bytes, 0x110, &(0x41_u32 | 8 << 8 | 1 << 16).to_le_bytes());
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
    assert_eq!(with_control(7 << 5), "number of resizable BARs at 0x108 is 7, allowed is 0 to 6");
    assert_eq!(with_control(1 << 5 | 6), "resizable BAR's index at 0x108 is 6, allowed is 0 to 5");
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
    assert!(space.faults.is_empty() && space.rebar.is_empty() && space.untold.is_empty(), "{space:?}");
}

#[test]
fn a_bridges_open_windows_are_read_as_bus_addresses() {
    let mut bytes = image(4096);
    bytes[0x0e] = 1;
    assert_eq!(parse(&bytes).windows, [], "nothing was ever written there");
    put(&mut bytes, 0x20, &[0x00, 0xc0, 0xf0, 0xcf]);
    put(&mut bytes, 0x24, &[0x01, 0x00, 0xf1, 0xff]);
    put(&mut bytes, 0x28, &[0x40, 0, 0, 0, 0x47, 0, 0, 0]);
    let memory = Window { prefetchable: false, base: 0xc000_0000, bytes: 256 << 20 };
    let wide = Window { prefetchable: true, base: 0x40_0000_0000, bytes: 32 << 30 };
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
    assert_eq!((space.routing.port_number, space.routing.ats, space.routing.pch), (Some(7), true, None));
    assert_eq!(space.acs.unwrap().egress, Some(vec![0, 7, 11]), "12 bits");
    put(&mut bytes, 0x106, &[0x04]);
    assert_eq!(parse(&bytes).acs.unwrap().egress, None, "egress control is off");
    put(&mut bytes, 0x00, &[0x86, 0x80, 0x10, 0x8d]);
    assert_eq!(parse(&bytes).routing.pch, Some(Pch::Open));
    bytes[0xdb] = 0x04;
    assert_eq!(parse(&bytes).routing.pch, Some(Pch::Isolated));
}
