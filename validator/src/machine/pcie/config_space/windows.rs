//! The memory windows in a bridge's registers, which are bus addresses (PCI-to-PCI Bridge Architecture
//! Specification, 3.2.5.8 and 3.2.5.9).

use super::registers::Registers;

/// One window that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Whether it is the prefetchable one.
    pub prefetchable: bool,
    /// Its first address on the bus.
    pub base: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// Base and limit are 16 bits each: bits 15:4 are bits 31:20 of the address.
const MEMORY: u16 = 0x20;
const PREFETCHABLE: u16 = 0x24;
const PREFETCHABLE_UPPER: u16 = 0x28;
/// Windows are multiples of 1 MiB.
const PIECE: u64 = 1 << 20;

pub(super) fn parse(space: Registers) -> Vec<Window> {
    let memory = window(space, MEMORY, false, (0, 0));
    let wide = space.u16(PREFETCHABLE).is_some_and(|base| base & 0xf == 1);
    let upper = space.u32(PREFETCHABLE_UPPER).zip(space.u32(PREFETCHABLE_UPPER + 4)).filter(|_| wide);
    let prefetchable = window(space, PREFETCHABLE, true, upper.unwrap_or((0, 0)));
    memory.into_iter().chain(prefetchable).collect()
}

/// None if the limit is below the base, or if both registers are empty.
fn window(space: Registers, at: u16, prefetchable: bool, upper: (u32, u32)) -> Option<Window> {
    let (base, limit) = space.u16(at).zip(space.u16(at + 2))?;
    let address = |low: u16, high: u32| (u64::from(high) << 32) | (u64::from(low & 0xfff0) << 16);
    let (base, limit) = (address(base, upper.0), address(limit, upper.1));
    let bytes = limit.checked_sub(base)?.checked_add(PIECE)?;
    (limit != 0).then_some(Window { prefetchable, base, bytes })
}
