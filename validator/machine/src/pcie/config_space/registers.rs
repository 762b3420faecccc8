//! Checked little-endian reads: reads beyond the end return nothing and never panic. And the registers of a header
//! that hold bus addresses: a device's BARs, and a bridge's memory windows (PCI-to-PCI Bridge Architecture
//! Specification, 3.2.5.8 and 3.2.5.9).

/// A configuration space's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registers<'a>(pub(super) &'a [u8]);

impl Registers<'_> {
    pub(super) fn u8(self, at: u16) -> Option<u8> {
        self.array::<1>(at).map(u8::from_le_bytes)
    }

    pub(super) fn u16(self, at: u16) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, at: u16) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// How many bytes there are.
    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    fn array<const N: usize>(self, at: u16) -> Option<[u8; N]> {
        let at = usize::from(at);
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }
}

/// The addresses in a device's six BARs.
pub(super) fn bases(space: Registers) -> [Option<u64>; 6] {
    let mut upper = false;
    [0x10_u16, 0x14, 0x18, 0x1c, 0x20, 0x24].map(|at| {
        if std::mem::take(&mut upper) {
            return None;
        }
        let low = space.u32(at)?;
        upper = low & 0b111 == 0b100;
        let high = if upper { space.u32(at + 4)? } else { 0 };
        (low & 1 == 0).then(|| (u64::from(high) << 32) | u64::from(low & !0xf))
    })
}

/// One memory window that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeWindow {
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

pub(super) fn windows(space: Registers) -> Vec<BridgeWindow> {
    let memory = window(space, MEMORY, false, (0, 0));
    let wide = space.u16(PREFETCHABLE).is_some_and(|base| base & 0xf == 1);
    let upper = space
        .u32(PREFETCHABLE_UPPER)
        .zip(space.u32(PREFETCHABLE_UPPER + 4))
        .filter(|_| wide);
    let prefetchable = window(space, PREFETCHABLE, true, upper.unwrap_or((0, 0)));
    memory.into_iter().chain(prefetchable).collect()
}

/// None if the limit is below the base, or if both registers are empty.
fn window(
    space: Registers,
    at: u16,
    prefetchable: bool,
    upper: (u32, u32),
) -> Option<BridgeWindow> {
    let (base, limit) = space.u16(at).zip(space.u16(at + 2))?;
    let address = |low: u16, high: u32| (u64::from(high) << 32) | (u64::from(low & 0xfff0) << 16);
    let (base, limit) = (address(base, upper.0), address(limit, upper.1));
    let bytes = limit.checked_sub(base)?.checked_add(PIECE)?;
    (limit != 0).then_some(BridgeWindow {
        prefetchable,
        base,
        bytes,
    })
}
