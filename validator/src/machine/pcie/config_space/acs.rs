//! The Access Control Services capability (include/uapi/linux/pci_regs.h) and the Intel ports
//! that lay it out differently (drivers/pci/quirks.c, `pci_quirk_intel_spt_pch_acs_match`).

use super::Fault;
use super::registers::Registers;
use crate::machine::pcie::acs_bits::{self, EGRESS};
use crate::machine::pcie::model::Acs;

/// Extended capability id.
pub(super) const ID: u16 = 0x000d;

const CAPABILITY: u16 = 0x04;
const CONTROL: u16 = 0x06;
/// 100-series and 200-series PCH root ports have both registers 32 bits wide.
const CONTROL_INTEL_PCH: u16 = 0x08;
/// The Egress Control Vector has as many bits as the highest byte of the capability register says; 0 stands
/// for 256.
const VECTOR: u16 = 0x08;

/// Root ports of Intel's 100-series, 200-series and Sunrise Point-LP chipsets.
pub(super) fn is_intel_pch(vendor: u16, device: u16) -> bool {
    vendor == 0x8086
        && matches!(device,
            0xa110..=0xa11f | 0xa167..=0xa16a | 0xa290..=0xa29f | 0xa2e7..=0xa2ee | 0x9d10..=0x9d1b)
}

pub(super) fn parse(space: Registers, offset: u16, quirk: bool, faults: &mut Vec<Fault>) -> Option<Acs> {
    let control = if quirk { CONTROL_INTEL_PCH } else { CONTROL };
    let read = |register| space.u16(offset.checked_add(register)?);
    let Some((cap, ctrl)) = read(CAPABILITY).zip(read(control)) else {
        faults.push(Fault::Cut { name: "ACS", at: offset, bytes: space.len() });
        return None;
    };
    let controls = !quirk && cap & ctrl & EGRESS != 0;
    let egress = if controls { vector(space, offset, cap) } else { None };
    Some(Acs { offset, cap, ctrl, quirk, enabled: acs_bits::names(ctrl), egress })
}

/// The port numbers whose bits are set.
fn vector(space: Registers, offset: u16, cap: u16) -> Option<Vec<u8>> {
    let last = cap.to_be_bytes()[0].wrapping_sub(1);
    let set = |port: u8| {
        let byte = space.u8(offset.checked_add(VECTOR)?.checked_add(u16::from(port / 8))?)?;
        Some((port, byte >> (port % 8) & 1 == 1))
    };
    let bits: Option<Vec<(u8, bool)>> = (0..=last).map(set).collect();
    Some(bits?.into_iter().filter(|(_, set)| *set).map(|(port, _)| port).collect())
}
