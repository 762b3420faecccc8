//! A part of memory, as all GPUs address it, and sizes in the driver's form.

use crate::gpu::cuda::error::GpuError;

/// A part of some memory that GPUs can reach; the address is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Span {
    /// The part of this one that begins `offset` bytes after its start.
    ///
    /// # Errors
    /// [`GpuError::Bounds`] if it is not inside.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Self, GpuError> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(GpuError::Bounds { offset, bytes, of: self.bytes });
        }
        Ok(Self { address: self.address.wrapping_add(offset), bytes })
    }

    /// The number of 4-byte words.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.bytes / 4
    }
}

/// A size in the form that the driver needs.
pub(in crate::gpu::cuda) fn size(bytes: u64) -> Result<usize, GpuError> {
    usize::try_from(bytes).map_err(|_| GpuError::Nonsense(format!("{bytes} bytes do not fit this machine")))
}
