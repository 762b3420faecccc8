//! A part of memory, as all GPUs address it, and sizes in the driver's form.

use crate::cuda::error::GpuError;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;

/// The address and size of some memory, for reports and arithmetic. It gives no access to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Extent {
    /// The number of 4-byte words.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.bytes / 4
    }
}

/// A part of some memory that GPUs can reach; the address is the same for all of them. It borrows its buffer,
/// so that work can be queued only for memory that is still allocated, and it stays in the buffer's thread.
/// Only buffers make spans; dereferencing one gives its address and size.
///
/// A span cannot outlive its memory:
///
/// ```compile_fail,E0505
/// use gpu::{Gpu, GpuError, Pinned, Stream};
/// fn late(gpu: &Gpu, stream: &Stream) -> Result<(), GpuError> {
///     let (from, to) = (gpu.alloc(4096)?, Pinned::alloc(gpu, 4096)?);
///     let target = to.whole();
///     drop(to);
///     stream.copy_out(target, from.whole())
/// }
/// ```
///
/// The same without the early drop compiles:
///
/// ```
/// use gpu::{Gpu, GpuError, Pinned, Stream};
/// fn in_time(gpu: &Gpu, stream: &Stream) -> Result<(), GpuError> {
///     let (from, to) = (gpu.alloc(4096)?, Pinned::alloc(gpu, 4096)?);
///     let target = to.whole();
///     stream.copy_out(target, from.whole())
/// }
/// ```
///
/// Nor can one be made outside this crate, here with the borrow of nothing:
///
/// ```compile_fail,E0451
/// fn forever(span: gpu::Span<'_>) -> gpu::Span<'static> {
///     gpu::Span { memory: std::marker::PhantomData, ..span }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<'m> {
    extent: Extent,
    /// The borrow of the buffer; an `Rc`, because buffers do not leave their thread.
    memory: PhantomData<&'m Rc<()>>,
}

impl<'m> Span<'m> {
    /// The memory of `owner`, which must own all of it until `owner` is dropped.
    pub(in crate::cuda) const fn of<T>(_owner: &'m T, address: u64, bytes: u64) -> Self {
        Self {
            extent: Extent { address, bytes },
            memory: PhantomData,
        }
    }

    /// The part of this one that begins `offset` bytes after its start.
    ///
    /// # Errors
    /// [`GpuError::Bounds`] if it is not inside.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Self, GpuError> {
        let Extent { address, bytes: of } = self.extent;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > of) {
            return Err(GpuError::Bounds { offset, bytes, of });
        }
        Ok(Self {
            extent: Extent {
                address: address.wrapping_add(offset),
                bytes,
            },
            memory: PhantomData,
        })
    }

    /// The part of this span at these addresses.
    ///
    /// # Errors
    /// [`GpuError::Bounds`] if it is not inside.
    pub fn at(&self, place: Extent) -> Result<Self, GpuError> {
        let outside = GpuError::Bounds {
            offset: 0,
            bytes: place.bytes,
            of: self.extent.bytes,
        };
        self.part(
            place
                .address
                .checked_sub(self.extent.address)
                .ok_or(outside)?,
            place.bytes,
        )
    }

    /// A span without memory behind it: for tests of code that queues no work.
    #[cfg(any(test, feature = "samples"))]
    pub const fn fixture(address: u64, bytes: u64) -> Self {
        Self {
            extent: Extent { address, bytes },
            memory: PhantomData,
        }
    }
}

impl Deref for Span<'_> {
    type Target = Extent;

    fn deref(&self) -> &Extent {
        &self.extent
    }
}

/// A size in the form that the driver needs.
pub(in crate::cuda) fn size(bytes: u64) -> Result<usize, GpuError> {
    usize::try_from(bytes)
        .map_err(|_| GpuError::Nonsense(format!("{bytes} bytes do not fit this machine")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_outside_is_refused() {
        let span = Span::fixture(0x1000, 100);
        assert_eq!(span.part(60, 40), Ok(Span::fixture(0x103c, 40)));
        assert_eq!(
            span.part(60, 41),
            Err(GpuError::Bounds {
                offset: 60,
                bytes: 41,
                of: 100
            })
        );
        assert!(span.part(u64::MAX, 2).is_err());
    }

    #[test]
    fn only_addresses_inside_are_a_part() {
        let span = Span::fixture(0x1000, 100);
        let at = |address, bytes| span.at(Extent { address, bytes }).map(|part| *part);
        assert_eq!(
            at(0x1004, 96),
            Ok(Extent {
                address: 0x1004,
                bytes: 96
            })
        );
        assert!(at(0x1004, 97).is_err() && at(0xfff, 4).is_err());
    }
}
