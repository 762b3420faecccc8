//! Checked little-endian reads: reads beyond the end return nothing and never panic.

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
