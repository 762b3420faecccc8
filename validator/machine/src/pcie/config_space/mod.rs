//! Parses configuration space: bytes to header, capabilities and the registers by which the fabric is judged.
//! The bytes are not trusted: every walk is bounded, every read is checked, and malformed data is reported
//! with its offset instead of guessed. `fabric::read` reads the bytes.

mod clique;
mod express;
mod rebar;
mod registers;
mod routing;
mod walk;

pub use express::{Express, PortType};
pub use registers::BridgeWindow;
pub use walk::Capability;

use super::model::{Acs, Rebar};
use super::routing::{Routing, Undetermined};
use registers::Registers;

/// Capability id.
const VENDOR_SPECIFIC: u16 = 0x09;
/// Bytes that Linux gives to a reader without privilege: the header alone.
pub const HEADER_BYTES: usize = 64;
/// Configuration space without the extended part: conventional PCI, or PCIe without ECAM.
pub const CONVENTIONAL_BYTES: usize = 256;

/// A function's configuration space, as far as it could be parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSpace {
    /// How many bytes were given.
    pub bytes: usize,
    /// Every byte reads as all ones: the function has fallen off the bus.
    pub gone: bool,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, subclass and interface, 24 bits.
    pub class: u32,
    /// Header layout: 0 device, 1 bridge, 2 CardBus.
    pub layout: u8,
    /// Capabilities of the first 256 bytes, in chain order.
    pub capabilities: Vec<Capability>,
    /// Extended capabilities, in chain order.
    pub extended: Vec<Capability>,
    /// The clique of GPUs that may reach each other, by a hypervisor's capability.
    pub clique: Option<u8>,
    /// The PCI Express capability.
    pub express: Option<Express>,
    /// Access Control Services.
    pub acs: Option<Acs>,
    /// Resizable BARs.
    pub rebar: Vec<Rebar>,
    /// The addresses in the memory BARs, without their flags; the upper half of a 64-bit BAR and an I/O BAR
    /// have none.
    pub bases: [Option<u64>; 6],
    /// The memory windows of a bridge that are open.
    pub windows: Vec<BridgeWindow>,
    /// Other registers that determine how peer traffic is routed.
    pub routing: Routing,
    /// Malformed parts, each with its offset.
    pub faults: Vec<Fault>,
    /// What is unknown because of that.
    pub undetermined: Vec<Undetermined>,
}

/// One malformed part of configuration space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is smaller than a header.
    #[error("only {0} bytes of configuration space, a header has 64")]
    Short(usize),
    /// A pointer leads outside the range of capabilities.
    #[error("capability chain leaves its range at {at:#05x}: points to {to:#05x}")]
    OutOfRange {
        /// The offset of the pointer.
        at: u16,
        /// Its value.
        to: u16,
    },
    /// A pointer leads back to a capability that was already seen.
    #[error("capability chain loops at {at:#05x}: points back to {to:#05x}")]
    Loop {
        /// The offset of the pointer.
        at: u16,
        /// Its value.
        to: u16,
    },
    /// A capability reads as all ones although the function answers.
    #[error("capability at {0:#05x} reads as all ones")]
    Ones(u16),
    /// A capability does not fit into the space that was read.
    #[error("{name} capability at {at:#05x} is cut off after {bytes} bytes of configuration space")]
    Cut {
        /// The capability.
        name: &'static str,
        /// Its offset.
        at: u16,
        /// The number of bytes.
        bytes: usize,
    },
    /// Every register reads as zero, including the ids: no function does that.
    #[error("every register reads as zero")]
    Zeros,
    /// The registers are those of another function.
    #[error("the registers say {registers}, sysfs says {sysfs}")]
    Ids {
        /// Vendor and device id in the registers.
        registers: String,
        /// Vendor and device id in sysfs.
        sysfs: String,
    },
    /// A field has a value that the specification does not allow.
    #[error("{field} at {at:#05x} is {value}, allowed is {allowed}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its offset.
        at: u16,
        /// Its value.
        value: u32,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// Parses `bytes` as a configuration space. Never fails: errors are in `faults`, unreadable parts are absent,
/// and what is absent for that reason is in `undetermined`.
#[must_use]
pub fn parse(bytes: &[u8]) -> ConfigSpace {
    let space = Registers(bytes);
    let whole = bytes.len() >= HEADER_BYTES;
    let gone = whole && bytes.iter().all(|b| *b == 0xff);
    let mut header = Vec::new();
    if !whole {
        header.push(Fault::Short(bytes.len()));
    } else if bytes.iter().all(|b| *b == 0) {
        header.push(Fault::Zeros);
    }
    let usable = header.is_empty() && !gone;
    let (mut near, mut far) = (Vec::new(), Vec::new());
    let (capabilities, extended) = if usable {
        (
            walk::conventional(space, &mut near),
            walk::extended(space, &mut far),
        )
    } else {
        (Vec::new(), Vec::new())
    };
    // A broken chain hides the capabilities after the break.
    let (near_broken, far_broken) = (!near.is_empty() || !usable, !far.is_empty() || !usable);
    let mut faults = [header, near, far].concat();
    let vendor = space.u16(0x00).unwrap_or(0xffff);
    let device = space.u16(0x02).unwrap_or(0xffff);
    let layout = space.u8(0x0e).map_or(0x7f, |v| v & 0x7f);
    let mut undetermined = Vec::new();
    // A malformed capability hides only its own content.
    let mut hidden = |what, broken: bool, found: Option<u16>, read: bool| {
        if if found.is_some() { !read } else { broken } {
            undetermined.push(what);
        }
    };
    let found = at(&capabilities, express::ID);
    let express = found.and_then(|o| express::parse(space, o, &mut faults));
    hidden(
        Undetermined::PortType,
        near_broken,
        found,
        express.is_some(),
    );
    let quirk = express.is_some_and(|e| e.port == PortType::RootPort)
        && routing::is_intel_pch(vendor, device);
    let found = at(&extended, routing::ACS);
    let acs = found.and_then(|o| routing::acs(space, o, quirk, &mut faults));
    hidden(Undetermined::Acs, far_broken, found, acs.is_some());
    let found = at(&extended, rebar::ID);
    let before = faults.len();
    let rebar = found.map_or_else(Vec::new, |o| rebar::parse(space, o, &mut faults));
    hidden(
        Undetermined::Rebar,
        far_broken,
        found,
        faults.len() == before,
    );
    let port = express.map(|e| (e.port, e.offset));
    ConfigSpace {
        bytes: bytes.len(),
        gone,
        vendor,
        device,
        class: space.u32(0x08).map_or(0x00ff_ffff, |v| v >> 8),
        layout,
        acs,
        rebar,
        bases: if usable {
            registers::bases(space)
        } else {
            [None; 6]
        },
        windows: if usable && layout == 1 {
            registers::windows(space)
        } else {
            Vec::new()
        },
        routing: routing::other(space, (vendor, device), port, at(&extended, routing::ATS)),
        clique: clique::clique(space, &capabilities),
        express,
        capabilities,
        extended,
        faults,
        undetermined: if gone { Vec::new() } else { undetermined },
    }
}

impl ConfigSpace {
    /// The ids in the registers, `10de:2684`.
    #[must_use]
    pub fn ids(&self) -> String {
        format!("{:04x}:{:04x}", self.vendor, self.device)
    }

    /// The space, compared with the ids that the kernel found at this address (`0x10de`, `0x2684`). Registers
    /// of another function are discarded.
    #[must_use]
    pub fn of(mut self, vendor: &str, device: &str) -> Self {
        let id = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let Some((vendor, device)) = id(vendor).zip(id(device)) else {
            return self;
        };
        if self.gone || self.bytes < HEADER_BYTES || (self.vendor, self.device) == (vendor, device)
        {
            return self;
        }
        self.faults.push(Fault::Ids {
            registers: self.ids(),
            sysfs: format!("{vendor:04x}:{device:04x}"),
        });
        (self.express, self.acs, self.bases, self.clique) = (None, None, [None; 6], None);
        self.rebar.clear();
        self.windows.clear();
        self.routing = Routing::default();
        self.undetermined = vec![
            Undetermined::PortType,
            Undetermined::Acs,
            Undetermined::Rebar,
        ];
        self
    }
}

/// The control register of the resizable BAR `bar`: its offset and value. `None` if there is no such
/// register, or if the space does not include it.
#[must_use]
pub fn rebar_control(bytes: &[u8], bar: u8) -> Option<(u16, u32)> {
    let extended = walk::extended(Registers(bytes), &mut Vec::new());
    rebar::control(Registers(bytes), at(&extended, rebar::ID)?, bar)
}

/// The size in a Resizable BAR control register, bytes.
#[must_use]
pub fn rebar_size(control: u32) -> Option<u64> {
    rebar::bytes((control >> 8) & 0x3f)
}

/// The peer-to-peer clique that a hypervisor gave a GPU: NVIDIA's vendor-specific capability of 8 bytes with the signature
/// `P2P`, its version 0 in bits 2:0 and the clique in bits 6:3 of the byte behind it (QEMU's `x-nv-gpudirect-clique`).
/// `None` if there is none.
#[must_use]
pub fn clique(bytes: &[u8]) -> Option<u8> {
    let space = Registers(bytes);
    let cliques = walk::conventional(space, &mut Vec::new())
        .into_iter()
        .filter(|c| c.id == VENDOR_SPECIFIC);
    cliques.into_iter().find_map(|capability| {
        let at = |n: u16| space.u8(capability.offset.checked_add(n)?);
        let signed = at(2)? >= 8 && [at(3)?, at(4)?, at(5)?] == *b"P2P";
        at(6)
            .filter(|value| signed && value & 0b111 == 0)
            .map(|value| (value >> 3) & 0xf)
    })
}

/// The subsystem's vendor and device id of a device that is not a bridge.
#[must_use]
pub fn subsystem(bytes: &[u8]) -> Option<(u16, u16)> {
    let space = Registers(bytes);
    space.u8(0x0e).filter(|layout| layout & 0x7f == 0)?;
    space.u16(0x2c).zip(space.u16(0x2e))
}

/// The command register.
#[must_use]
pub fn command(bytes: &[u8]) -> Option<u16> {
    Registers(bytes).u16(0x04)
}

/// The offset of the first capability `id` of a chain.
fn at(chain: &[Capability], id: u16) -> Option<u16> {
    chain.iter().find(|c| c.id == id).map(|c| c.offset)
}

#[cfg(test)]
mod tests;
