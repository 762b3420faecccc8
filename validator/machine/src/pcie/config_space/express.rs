//! The PCI Express capability: the port type of a function, and its link according to the registers (PCI
//! Express Base Specification, 7.5.3).

use super::Fault;
use super::registers::Registers;

/// Capability id.
pub(super) const ID: u16 = 0x10;

const FLAGS: u16 = 0x02;
const LINK_CAPABILITIES: u16 = 0x0c;
const LINK_STATUS: u16 = 0x12;
const SLOT_CAPABILITIES: u16 = 0x14;
/// Slot implemented, in Flags: the port's link goes to a slot, so that Slot Capabilities has its number.
const HAS_SLOT: u16 = 1 << 8;
/// Hot-Plug Surprise and Hot-Plug Capable, in Slot Capabilities.
const HOT_PLUG: u32 = 1 << 5 | 1 << 6;

/// Device or port type, Flags bits 7:4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortType {
    /// Endpoint or legacy endpoint.
    Endpoint,
    /// Root port.
    RootPort,
    /// A switch's upstream port.
    Upstream,
    /// A switch's downstream port.
    Downstream,
    /// PCI Express to PCI bridge, or PCI to PCI Express.
    Bridge,
    /// Integrated into the root complex: has no link.
    Integrated,
}

/// The PCI Express capability's registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Express {
    /// Where the capability starts, bytes.
    pub offset: u16,
    /// The port type.
    pub port: PortType,
    /// Speed code in force (1 is 2.5 GT/s, 6 is 64 GT/s), 0 when the link is down.
    pub speed: u8,
    /// Lanes in use, 0 when the link is down.
    pub width: u8,
    /// Fastest speed code.
    pub max_speed: u8,
    /// Most lanes.
    pub max_width: u8,
    /// The number that the firmware gave to the slot below this port; `None` if it has no slot.
    pub slot: Option<u16>,
    /// Whether a card may be plugged into that slot and pulled out by surprise (Slot Capabilities, Hot-Plug Capable and
    /// Hot-Plug Surprise).
    pub hot_plug: bool,
}

pub(super) fn parse(space: Registers, offset: u16, faults: &mut Vec<Fault>) -> Option<Express> {
    let read = || {
        let flags = space.u16(offset.checked_add(FLAGS)?)?;
        let capable = space.u32(offset.checked_add(LINK_CAPABILITIES)?)?;
        let status = space.u16(offset.checked_add(LINK_STATUS)?)?;
        Some((flags, capable.to_le_bytes(), status.to_le_bytes()))
    };
    let Some((flags, [cap0, cap1, ..], [sta0, sta1])) = read() else {
        faults.push(Fault::Cut {
            name: "PCI Express",
            at: offset,
            bytes: space.len(),
        });
        return None;
    };
    let code = (flags >> 4) & 0xf;
    let Some(port) = port(code) else {
        faults.push(Fault::Field {
            field: "PCI Express port type",
            at: offset.saturating_add(FLAGS),
            value: u32::from(code),
            allowed: "0, 1, 4 to 10",
        });
        return None;
    };
    Some(Express {
        offset,
        port,
        speed: sta0 & 0x0f,
        width: width(sta0, sta1),
        max_speed: cap0 & 0x0f,
        max_width: width(cap0, cap1),
        slot: slot_capabilities(space, offset, flags)
            .and_then(|register| u16::try_from(register >> 19).ok()),
        hot_plug: slot_capabilities(space, offset, flags)
            .is_some_and(|register| register & HOT_PLUG == HOT_PLUG),
    })
}

/// Slot Capabilities (7.5.3.9); bits 31:19 are the Physical Slot Number. Only ports that lead down have slots.
fn slot_capabilities(space: Registers, offset: u16, flags: u16) -> Option<u32> {
    let leads_down = matches!(
        port((flags >> 4) & 0xf)?,
        PortType::RootPort | PortType::Downstream
    );
    space
        .u32(offset.checked_add(SLOT_CAPABILITIES)?)
        .filter(|_| leads_down && flags & HAS_SLOT != 0)
}

/// Bits 9:4 of a register, given its two low bytes.
fn width(low: u8, high: u8) -> u8 {
    (low >> 4) | ((high & 0x03) << 4)
}

fn port(code: u16) -> Option<PortType> {
    Some(match code {
        0 | 1 => PortType::Endpoint,
        4 => PortType::RootPort,
        5 => PortType::Upstream,
        6 => PortType::Downstream,
        7 | 8 => PortType::Bridge,
        9 | 10 => PortType::Integrated,
        _ => return None,
    })
}
