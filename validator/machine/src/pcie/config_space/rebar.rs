//! The Resizable BAR capability: which BARs can be resized, to which sizes, and their present sizes
//! (drivers/pci/rebar.c, include/uapi/linux/pci_regs.h).

use super::Fault;
use super::registers::Registers;
use crate::pcie::model::Rebar;

/// Extended capability id.
pub(super) const ID: u16 = 0x0015;

/// One entry is a capability and a control register of 4 bytes each, from offset 4 on.
const FIRST: u16 = 0x04;
const ENTRY: u16 = 0x08;

pub(super) fn parse(space: Registers, offset: u16, faults: &mut Vec<Fault>) -> Vec<Rebar> {
    let control_at = offset.saturating_add(FIRST).saturating_add(4);
    let Some(control) = space.u32(control_at) else {
        faults.push(Fault::Cut {
            name: "Resizable BAR",
            at: offset,
            bytes: space.len(),
        });
        return Vec::new();
    };
    let count = (control >> 5) & 7;
    // The specification allows 1 to 6; real ports (8086:466e) have a capability for no BAR, with 0.
    if count > 6 {
        let (field, allowed) = ("number of resizable BARs", "0 to 6");
        faults.push(Fault::Field {
            field,
            at: control_at,
            value: count,
            allowed,
        });
        return Vec::new();
    }
    let starts = (0..).map(|n: u16| {
        offset
            .saturating_add(FIRST)
            .saturating_add(n.saturating_mul(ENTRY))
    });
    starts
        .zip(0..count)
        .filter_map(|(at, _)| entry(space, at, faults))
        .collect()
}

/// The offset and value of the control register of the resizable BAR `bar`.
pub(super) fn control(space: Registers, offset: u16, bar: u8) -> Option<(u16, u32)> {
    let first = offset.checked_add(FIRST + 4)?;
    let count = u16::try_from((space.u32(first)? >> 5) & 7).ok()?;
    let places = (0..count).filter_map(|n| first.checked_add(n * ENTRY));
    places
        .filter_map(|at| Some((at, space.u32(at)?)))
        .find(|(_, control)| control & 7 == u32::from(bar))
}

fn entry(space: Registers, at: u16, faults: &mut Vec<Fault>) -> Option<Rebar> {
    let control_at = at.saturating_add(4);
    let Some((capable, control)) = space.u32(at).zip(space.u32(control_at)) else {
        faults.push(Fault::Cut {
            name: "Resizable BAR",
            at,
            bytes: space.len(),
        });
        return None;
    };
    let mut field = |field, value, allowed| {
        faults.push(Fault::Field {
            field,
            at: control_at,
            value,
            allowed,
        });
        None
    };
    let bar = control & 7;
    if bar > 5 {
        return field("resizable BAR's index", bar, "0 to 5");
    }
    let size = (control >> 8) & 0x3f;
    let Some(current_bytes) = bytes(size) else {
        return field("resizable BAR's size", size, "0 (1 MiB) to 43 (8 EiB)");
    };
    Some(Rebar {
        bar: u8::try_from(bar).ok()?,
        current_bytes,
        supported_bytes: supported(capable, control),
    })
}

/// Capability bits 31:4 offer 1 MiB to 128 TiB, control bits 31:16 continue from 256 TiB.
fn supported(capable: u32, control: u32) -> Vec<u64> {
    let sizes = u64::from(capable >> 4) | (u64::from(control >> 16) << 28);
    (0..44)
        .filter(|n| sizes >> n & 1 == 1)
        .filter_map(bytes)
        .collect()
}

/// Size code n is 2^(20+n) bytes.
pub(super) fn bytes(code: u32) -> Option<u64> {
    (code <= 43).then(|| 1 << (20 + code))
}
