//! The chains of capabilities: loops, ends, and pointers to where nothing is.

use super::*;

#[test]
fn a_chain_that_points_into_the_header_is_a_fault() {
    let mut bytes = image(4096);
    bytes[0x34] = 0x20;
    assert_eq!(fault(&bytes), "capability chain leaves its range at 0x034: points to 0x020");
}

#[test]
fn a_chain_that_loops_ends() {
    let mut bytes = image(256);
    bytes[0x61] = 0x60;
    assert_eq!(fault(&bytes), "capability chain loops at 0x061: points back to 0x060");
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
    assert_eq!(fault(&bytes), "ACS capability at 0xffc is cut off after 4096 bytes of configuration space");
}

#[test]
fn an_extended_chain_that_loops_ends_and_keeps_what_it_found() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x000d, 0x140);
    put(&mut bytes, 0x104, &[0x5f, 0x00, 0x1d, 0x00]);
    extended(&mut bytes, 0x140, 0x0001, 0x100);
    assert_eq!(fault(&bytes), "capability chain loops at 0x140: points back to 0x100");
    assert_eq!(parse(&bytes).acs.unwrap().ctrl, 0x001d);
}

#[test]
fn an_extended_chain_that_points_below_its_space_is_a_fault() {
    let mut bytes = image(4096);
    extended(&mut bytes, 0x100, 0x0001, 0x0c8);
    assert_eq!(fault(&bytes), "capability chain leaves its range at 0x100: points to 0x0c8");
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
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
