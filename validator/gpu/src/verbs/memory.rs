//! Memory that a card may read and write: the host's, or a GPU's.
#![expect(unsafe_code, reason = "memory of devices, and calls into libibverbs")]

use super::VerbsError;
use super::abi::{ACCESS, Mr};
use super::port::Port;
use crate::{Buffer, Gpu, GpuError, Pinned, Stream};
use serde::{Deserialize, Serialize};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::time::Duration;

/// The alignment of host memory: a page.
const PAGE: usize = 4096;
/// The time limit of a copy between host and GPU.
const COPY: Duration = Duration::from_secs(10);

/// How the card reaches the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Registration {
    /// The host's memory.
    Host,
    /// A GPU's memory, exported as a dma-buf.
    DmaBuf,
    /// A GPU's memory, through the module `nvidia_peermem`.
    Peermem,
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host memory",
            Self::DmaBuf => "dma-buf",
            Self::Peermem => "nvidia_peermem",
        })
    }
}

/// Registered memory; released when dropped.
pub struct Region {
    // Fields are dropped in this order: the registration must be first.
    mr: RegisteredMr,
    backing: Backing,
    bytes: usize,
    how: Registration,
}

struct RegisteredMr {
    mr: *mut Mr,
    port: Rc<Port>,
}

enum Backing {
    Host(HostPages),
    Gpu {
        buffer: Buffer,
        staging: Pinned,
        stream: Stream,
    },
}

/// Pages of the host's memory.
struct HostPages {
    at: NonNull<u8>,
    layout: Layout,
}

impl HostPages {
    fn new(bytes: usize) -> Result<Self, VerbsError> {
        let none =
            || VerbsError::Bounds(format!("{bytes} bytes of host memory cannot be allocated"));
        let layout = Layout::from_size_align(bytes.max(PAGE), PAGE).map_err(|_| none())?;
        // SAFETY: the size is not 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        Ok(Self { at, layout })
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once; its registration is dropped before.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}

impl Drop for RegisteredMr {
    fn drop(&mut self) {
        // SAFETY: registered at this port, released once.
        unsafe { (self.port.api.dereg_mr)(self.mr) };
    }
}

impl Region {
    /// `bytes` of the host's memory.
    ///
    /// # Errors
    /// There is not enough, or it cannot be registered with the card.
    pub fn host(port: &Rc<Port>, bytes: usize) -> Result<Self, VerbsError> {
        let host = HostPages::new(bytes)?;
        let at = host.at.as_ptr();
        // SAFETY: the memory lives longer than the registration.
        let mr = unsafe { register(port, at, bytes) }
            .map_err(|e| registration_error(port, bytes, "host memory", &e))?;
        Ok(Self {
            mr,
            backing: Backing::Host(host),
            bytes,
            how: Registration::Host,
        })
    }

    /// `bytes` of the memory of `gpu`: through a dma-buf, or else through `nvidia_peermem`.
    ///
    /// # Errors
    /// There is not enough, or it cannot be registered with the card in either way.
    pub fn gpu(port: &Rc<Port>, gpu: &Gpu, bytes: usize) -> Result<Self, VerbsError> {
        let failed = |e: GpuError| VerbsError::Call {
            what: "CUDA".to_owned(),
            why: e.to_string(),
        };
        let buffer = gpu.alloc(bytes as u64).map_err(failed)?;
        let staging = Pinned::alloc(gpu, bytes as u64).map_err(failed)?;
        let stream = gpu.stream().map_err(failed)?;
        let address = buffer.whole().address;
        let by_dma_buf = by_dma_buf(port, &buffer, bytes);
        let (mr, how) = match by_dma_buf {
            Ok(mr) => (mr, Registration::DmaBuf),
            Err(first) => {
                let at =
                    ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or_default());
                // SAFETY: the buffer lives longer than the registration; this process never dereferences the pointer.
                let mr = unsafe { register(port, at, bytes) };
                let mr = mr.map_err(|second| {
                    VerbsError::Unregistered(format!(
                        "the memory of GPU {} cannot be registered at {}: by dma-buf: {first}; by nvidia_peermem: {second}",
                        gpu.ordinal, port.name
                    ))
                })?;
                (mr, Registration::Peermem)
            }
        };
        Ok(Self {
            mr,
            backing: Backing::Gpu {
                buffer,
                staging,
                stream,
            },
            bytes,
            how,
        })
    }

    /// How the card reaches it.
    #[must_use]
    pub const fn registration(&self) -> Registration {
        self.how
    }

    /// Its size.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its first address, as the card uses it.
    pub(super) fn address(&self) -> u64 {
        match &self.backing {
            Backing::Host(host) => host.at.as_ptr().expose_provenance() as u64,
            Backing::Gpu { buffer, .. } => buffer.whole().address,
        }
    }

    /// Its keys: for this side, and for the other side.
    pub(super) fn keys(&self) -> (u32, u32) {
        // SAFETY: registered, not yet released.
        unsafe { ((*self.mr.mr).lkey, (*self.mr.mr).rkey) }
    }

    /// Writes `with` at `offset`. No transfer may be using that range.
    ///
    /// # Errors
    /// A range outside, or CUDA's error.
    pub fn put(&mut self, offset: usize, with: &[u8]) -> Result<(), VerbsError> {
        self.check_range(offset, with.len())?;
        match &mut self.backing {
            Backing::Host(host) => {
                // SAFETY: inside of the allocation; nothing else has a reference into it.
                unsafe {
                    ptr::copy_nonoverlapping(
                        with.as_ptr(),
                        host.at.as_ptr().add(offset),
                        with.len(),
                    );
                };
                Ok(())
            }
            Backing::Gpu {
                buffer,
                staging,
                stream,
            } => {
                staging.write(with);
                let (at, bytes) = (offset as u64, with.len() as u64);
                let copied = || -> Result<(), GpuError> {
                    stream.copy_in(buffer.span(at, bytes)?, staging.span(0, bytes)?)?;
                    stream.finish("copying the memory under test", COPY)
                };
                copied().map_err(|e| VerbsError::Call {
                    what: "CUDA".to_owned(),
                    why: e.to_string(),
                })
            }
        }
    }

    /// Reads `bytes` from `offset` on. No transfer may be using that range.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn get(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, VerbsError> {
        self.check_range(offset, bytes)?;
        match &self.backing {
            Backing::Host(host) => {
                let mut found = vec![0; bytes];
                // SAFETY: inside of the allocation.
                unsafe {
                    ptr::copy_nonoverlapping(
                        host.at.as_ptr().add(offset),
                        found.as_mut_ptr(),
                        bytes,
                    );
                };
                Ok(found)
            }
            Backing::Gpu {
                buffer,
                staging,
                stream,
            } => {
                let copied = || -> Result<(), GpuError> {
                    stream.copy_out(
                        staging.span(0, bytes as u64)?,
                        buffer.span(offset as u64, bytes as u64)?,
                    )?;
                    stream.finish("copying the memory under test", COPY)
                };
                copied().map_err(|e| VerbsError::Call {
                    what: "CUDA".to_owned(),
                    why: e.to_string(),
                })?;
                Ok(staging.read(bytes))
            }
        }
    }

    pub(super) fn check_range(&self, offset: usize, bytes: usize) -> Result<(), VerbsError> {
        let end = offset.checked_add(bytes);
        if end.is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(VerbsError::Bounds(format!(
            "{bytes} bytes at {offset} are not inside of {} bytes",
            self.bytes
        )))
    }
}

fn registration_error(port: &Port, bytes: usize, what: &str, error: &VerbsError) -> VerbsError {
    VerbsError::Unregistered(format!(
        "{bytes} bytes of {what} cannot be registered at {}: {error}",
        port.name
    ))
}

/// # Safety
/// The memory must live longer than the returned registration.
unsafe fn register(port: &Rc<Port>, at: *mut u8, bytes: usize) -> Result<RegisteredMr, VerbsError> {
    // SAFETY: the caller's promise; the domain exists.
    let mr = unsafe { (port.api.reg_mr)(port.pd, at.cast(), bytes, ACCESS) };
    if mr.is_null() {
        return Err(VerbsError::last("ibv_reg_mr"));
    }
    Ok(RegisteredMr {
        mr,
        port: Rc::clone(port),
    })
}

fn by_dma_buf(port: &Rc<Port>, buffer: &Buffer, bytes: usize) -> Result<RegisteredMr, VerbsError> {
    let missing = || VerbsError::Missing("this libibverbs has no ibv_reg_dmabuf_mr".to_owned());
    let reg = port.api.reg_dmabuf_mr.ok_or_else(missing)?;
    let exported = buffer.dma_buf();
    let exported = exported.map_err(|e| VerbsError::Call {
        what: "CUDA".to_owned(),
        why: e.to_string(),
    })?;
    let iova = buffer.whole().address;
    // SAFETY: the dma-buf holds the memory, which lives longer than the registration.
    let mr = unsafe { reg(port.pd, 0, bytes, iova, exported.as_raw_fd(), ACCESS) };
    if mr.is_null() {
        return Err(VerbsError::last("ibv_reg_dmabuf_mr"));
    }
    Ok(RegisteredMr {
        mr,
        port: Rc::clone(port),
    })
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("bytes", &self.bytes)
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}
