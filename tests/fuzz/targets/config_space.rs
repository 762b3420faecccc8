//! Configuration space from a device that says anything at all: the walk ends, stays inside, and what
//! it believes lies in the bytes.
#![no_main]

use firstlight::machine::pcie::config_space::{parse, rebar_control};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(4096)];
    let space = parse(bytes);
    assert_eq!(space.bytes, bytes.len());
    for chain in [&space.capabilities, &space.extended] {
        let places: BTreeSet<_> = chain.iter().map(|c| c.offset).collect();
        assert_eq!(places.len(), chain.len(), "a capability was visited twice");
        assert!(places.iter().all(|p| usize::from(*p) < bytes.len()), "outside of {} bytes", bytes.len());
    }
    if let Some(acs) = &space.acs {
        let at = usize::from(acs.offset) + if acs.quirk { 8 } else { 6 };
        assert_eq!(acs.ctrl, u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    }
    for bar in 0..8 {
        let Some((at, value)) = rebar_control(bytes, bar) else { continue };
        let at = usize::from(at);
        assert_eq!(bytes[at..at + 4], value.to_le_bytes());
        assert_eq!(value & 7, u32::from(bar), "another BAR's control register");
    }
    assert!(!space.gone || space.acs.is_none());
    for fault in &space.faults {
        assert!(!fault.to_string().contains('\n'));
    }
});
