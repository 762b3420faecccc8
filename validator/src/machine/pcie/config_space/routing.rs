//! Registers besides ACS that determine how peer traffic is routed: a port's number, Address Translation
//! Services, and Intel's older chipsets, which isolate without an ACS capability.

use super::express::PortType;
use super::registers::Registers;
use crate::machine::pcie::routing::{Pch, Routing};

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

/// `express`: the port type and offset of its capability. `ats`: the offset of that capability.
pub(super) fn parse(
    space: Registers,
    ids: (u16, u16),
    express: Option<(PortType, u16)>,
    ats: Option<u16>,
) -> Routing {
    let port = express.filter(|(port, _)| !matches!(port, PortType::Endpoint | PortType::Integrated));
    let capabilities = port.and_then(|(_, at)| space.u32(at.checked_add(LINK_CAPABILITIES)?));
    let control = ats.and_then(|at| space.u16(at.checked_add(ATS_CONTROL)?));
    let root_port = matches!(express, Some((PortType::RootPort, _)));
    let mpc = space.u32(MPC).filter(|_| root_port && is_older_pch(ids));
    Routing {
        port_number: capabilities.map(|value| value.to_le_bytes()[3]),
        ats: control.is_some_and(|control| control & ATS_ENABLE != 0),
        pch: mpc.map(|mpc| if mpc & IRBNCE == 0 { Pch::Open } else { Pch::Isolated }),
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
