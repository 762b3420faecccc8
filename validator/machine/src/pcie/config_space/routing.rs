//! Registers that determine how peer traffic is routed: Access Control Services (include/uapi/linux/pci_regs.h), also
//! of the Intel ports that lay them out differently (drivers/pci/quirks.c, `pci_quirk_intel_spt_pch_acs_match`); a
//! port's number, Address Translation Services, and Intel's older chipsets, which isolate without an ACS capability.

use super::Fault;
use super::express::PortType;
use super::registers::Registers;
use crate::pcie::model::Acs;
use crate::pcie::routing::{self, EGRESS, Pch, Routing};

/// Link Capabilities, from the start of the PCI Express capability; the port's number is its highest byte.
const LINK_CAPABILITIES: u16 = 0x0c;
/// The extended capability of Address Translation Services.
pub(super) const ATS: u16 = 0x000f;
/// ATS Control and its Enable bit.
const ATS_CONTROL: u16 = 0x06;
const ATS_ENABLE: u16 = 0x8000;
/// Miscellaneous Port Configuration of Intel's older chipset ports, and the bit that Linux sets there when it
/// isolates them: Invalid Receive Bus Number Check Enable (drivers/pci/quirks.c, `INTEL_MPC_REG_IRBNCE`).
const MPC: u16 = 0xd8;
const IRBNCE: u32 = 1 << 26;

/// The routing registers besides ACS. `express`: port type and offset of that capability; `ats`: offset of that
/// capability.
pub(super) fn other(
    space: Registers,
    ids: (u16, u16),
    express: Option<(PortType, u16)>,
    ats: Option<u16>,
) -> Routing {
    let port =
        express.filter(|(port, _)| !matches!(port, PortType::Endpoint | PortType::Integrated));
    let capabilities = port.and_then(|(_, at)| space.u32(at.checked_add(LINK_CAPABILITIES)?));
    let control = ats.and_then(|at| space.u16(at.checked_add(ATS_CONTROL)?));
    let root_port = matches!(express, Some((PortType::RootPort, _)));
    let mpc = space.u32(MPC).filter(|_| root_port && is_older_pch(ids));
    Routing {
        port_number: capabilities.map(|value| value.to_le_bytes()[3]),
        ats: control.is_some_and(|control| control & ATS_ENABLE != 0),
        pch: mpc.map(|mpc| {
            if mpc & IRBNCE == 0 {
                Pch::Open
            } else {
                Pch::Isolated
            }
        }),
    }
}

/// Root ports of Intel's 5 to 9 series chipsets and of X79 and X99 (drivers/pci/quirks.c,
/// `pci_quirk_intel_pch_acs_ids`).
fn is_older_pch((vendor, device): (u16, u16)) -> bool {
    vendor == 0x8086
        && matches!(device,
            0x3b42..=0x3b51 | 0x1c10..=0x1c1f | 0x1e10..=0x1e1f | 0x8c10..=0x8c1f | 0x9c10..=0x9c1b
            | 0x9c90..=0x9c9b | 0x1d10..=0x1d1e | 0x8d10..=0x8d1e | 0x8c90..=0x8c9e)
}

/// Extended capability id of Access Control Services.
pub(super) const ACS: u16 = 0x000d;

const ACS_CAPABILITY: u16 = 0x04;
const ACS_CONTROL: u16 = 0x06;
/// 100-series and 200-series PCH root ports have both registers 32 bits wide.
const ACS_CONTROL_INTEL_PCH: u16 = 0x08;
/// The Egress Control Vector has as many bits as the highest byte of the capability register says; 0 means
/// 256.
const ACS_VECTOR: u16 = 0x08;

/// Root ports of Intel's 100-series, 200-series and Sunrise Point-LP chipsets.
pub(super) fn is_intel_pch(vendor: u16, device: u16) -> bool {
    vendor == 0x8086
        && matches!(device,
            0xa110..=0xa11f | 0xa167..=0xa16a | 0xa290..=0xa29f | 0xa2e7..=0xa2ee | 0x9d10..=0x9d1b)
}

pub(super) fn acs(
    space: Registers,
    offset: u16,
    quirk: bool,
    faults: &mut Vec<Fault>,
) -> Option<Acs> {
    let control = if quirk {
        ACS_CONTROL_INTEL_PCH
    } else {
        ACS_CONTROL
    };
    let read = |register| space.u16(offset.checked_add(register)?);
    let Some((cap, ctrl)) = read(ACS_CAPABILITY).zip(read(control)) else {
        faults.push(Fault::Cut {
            name: "ACS",
            at: offset,
            bytes: space.len(),
        });
        return None;
    };
    let controls = !quirk && cap & ctrl & EGRESS != 0;
    let egress = if controls {
        vector(space, offset, cap)
    } else {
        None
    };
    Some(Acs {
        offset,
        cap,
        ctrl,
        quirk,
        enabled: routing::acs_names(ctrl),
        egress,
    })
}

/// The port numbers whose bits are set.
fn vector(space: Registers, offset: u16, cap: u16) -> Option<Vec<u8>> {
    let last = cap.to_be_bytes()[0].wrapping_sub(1);
    let set = |port: u8| {
        let byte = space.u8(offset
            .checked_add(ACS_VECTOR)?
            .checked_add(u16::from(port / 8))?)?;
        Some((port, byte >> (port % 8) & 1 == 1))
    };
    let bits: Option<Vec<(u8, bool)>> = (0..=last).map(set).collect();
    Some(
        bits?
            .into_iter()
            .filter(|(_, set)| *set)
            .map(|(port, _)| port)
            .collect(),
    )
}
