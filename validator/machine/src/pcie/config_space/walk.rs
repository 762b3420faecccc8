//! The two capability chains. A function that returns garbage must not hang the walk: both walks stop after
//! the maximum number of capabilities, and at the first repeated offset.

use super::registers::Registers;
use super::{CONVENTIONAL_BYTES, Fault, HEADER_BYTES};

/// Capabilities of 4 bytes that fit between the header and byte 256: (256 - 64) / 4.
const CONVENTIONAL_STEPS: usize = 48;
/// Extended capabilities of 8 bytes that fit between byte 256 and byte 4096: (4096 - 256) / 8.
const EXTENDED_STEPS: usize = 480;
/// Status register, and its bit that shows that there is a chain.
const STATUS: u16 = 0x06;
const STATUS_CAPABILITIES: u16 = 0x10;

/// One capability of either chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// The id: 8 bits in the conventional chain, 16 in the extended.
    pub id: u16,
    /// Its offset, bytes.
    pub offset: u16,
}

/// The chain of the first 256 bytes. A 64-byte space contains the pointer but not the chain: that is not a
/// fault, it is the unprivileged view that Linux gives.
pub(super) fn conventional(space: Registers, faults: &mut Vec<Fault>) -> Vec<Capability> {
    let has_chain = space
        .u16(STATUS)
        .is_some_and(|s| s & STATUS_CAPABILITIES != 0);
    if !has_chain || space.len() <= HEADER_BYTES {
        return Vec::new();
    }
    let cardbus = space.u8(0x0e).is_some_and(|layout| layout & 0x7f == 2);
    let mut chain = Vec::new();
    let mut from: u16 = if cardbus { 0x14 } else { 0x34 };
    for _ in 0..CONVENTIONAL_STEPS {
        let Some(to) = space.u8(from).map(|p| u16::from(p & 0xfc)) else {
            break;
        };
        if to == 0 {
            break;
        }
        let fits = usize::from(to) >= HEADER_BYTES && usize::from(to) + 2 <= space.len();
        match space.u8(to).filter(|_| fits) {
            None => faults.push(Fault::OutOfRange { at: from, to }),
            Some(0xff) => faults.push(Fault::Ones(to)),
            Some(_) if seen(&chain, to) => faults.push(Fault::Loop { at: from, to }),
            Some(id) => {
                chain.push(Capability {
                    id: u16::from(id),
                    offset: to,
                });
                from = to.saturating_add(1);
                continue;
            }
        }
        break;
    }
    chain
}

/// The chain that starts at byte 256. A first header of zeros means that there is none. All ones are a fault:
/// Linux shows bytes beyond 256 only if the first header read as something else when it looked.
pub(super) fn extended(space: Registers, faults: &mut Vec<Fault>) -> Vec<Capability> {
    let mut chain: Vec<Capability> = Vec::new();
    let mut from = 0;
    let mut to: u16 = 0x100;
    for _ in 0..EXTENDED_STEPS {
        let Some(header) = space.u32(to) else {
            if space.len() > CONVENTIONAL_BYTES {
                faults.push(Fault::OutOfRange { at: from, to });
            }
            break;
        };
        if header == 0 || header == u32::MAX {
            if header == u32::MAX {
                faults.push(Fault::Ones(to));
            }
            break;
        }
        let [low, high] =
            [header & 0xffff, header >> 20].map(|v| u16::try_from(v).unwrap_or(u16::MAX));
        chain.push(Capability {
            id: low,
            offset: to,
        });
        let next = high & 0xffc;
        if next == 0 {
            break;
        }
        if usize::from(next) < CONVENTIONAL_BYTES {
            faults.push(Fault::OutOfRange { at: to, to: next });
            break;
        }
        if seen(&chain, next) {
            faults.push(Fault::Loop { at: to, to: next });
            break;
        }
        (from, to) = (to, next);
    }
    chain
}

fn seen(chain: &[Capability], offset: u16) -> bool {
    chain.iter().any(|c| c.offset == offset)
}
