//! Memory that another process can open: through CUDA IPC, which older frameworks use, and through an
//! exported file descriptor of mapped memory, which NCCL and newer ones use.
#![expect(
    unsafe_code,
    reason = "calls into the CUDA driver; file descriptors from it"
)]

use super::device::Gpu;
use super::error::GpuError;
use super::memory::Buffer;
use crate::cuda::memory::mapped::Mapping;
use crate::cuda::memory::span::{Extent, size};
use cudarc::driver::sys;
use std::ffi::{c_char, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: opening enables peer access where it is needed.
const LAZY_ENABLE_PEER: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: u32 = 1;

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`
const DMA_BUF: u32 = 1;

/// The handle with which another process opens a buffer through CUDA IPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpcHandle(pub [u8; 64]);

/// A descriptor with which another process maps a buffer.
#[derive(Debug)]
pub struct ExportedBuffer {
    /// The descriptor.
    pub descriptor: OwnedFd,
    /// The buffer's size.
    pub bytes: u64,
}

impl Buffer {
    /// A CUDA IPC handle for another process. From now on the buffer counts as lent.
    ///
    /// # Errors
    /// The driver's error.
    pub fn ipc_handle(&self) -> Result<IpcHandle, GpuError> {
        let context = self.context();
        context.bind()?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: one handle is written; the buffer is alive.
        let code = unsafe { (context.api.ipc_export)(&raw mut handle, self.whole().address) };
        context.check("cuIpcGetMemHandle", code, || {
            format!("GPU {}", context.ordinal)
        })?;
        self.lent();
        Ok(IpcHandle(handle.reserved.map(|byte| byte.to_ne_bytes()[0])))
    }

    /// Records that another process may have it open: it is not freed if it is dropped before `returned`.
    pub fn lent(&self) {
        self.lend(true);
    }

    /// Records that no other process has it open: the other one reported that it closed it, or never received
    /// the handle.
    pub fn returned(&self) {
        self.lend(false);
    }

    /// A descriptor for another process; only for a mapped buffer.
    ///
    /// # Errors
    /// The driver's error.
    pub fn export(&self) -> Result<ExportedBuffer, GpuError> {
        let context = self.context();
        context.bind()?;
        let mapping = self
            .mapping()
            .ok_or_else(|| GpuError::Nonsense("the buffer is not mapped".to_owned()))?;
        let mut descriptor: c_int = -1;
        // SAFETY: one descriptor is written; the handle is held by the mapping.
        let code = unsafe {
            (context.api.export)(
                (&raw mut descriptor).cast(),
                mapping.handle,
                FILE_DESCRIPTOR,
                0,
            )
        };
        context.check("cuMemExportToShareableHandle", code, || {
            format!("GPU {}", context.ordinal)
        })?;
        let descriptor = owned(descriptor, "cuMemExportToShareableHandle")?;
        Ok(ExportedBuffer {
            descriptor,
            bytes: self.whole().bytes,
        })
    }

    /// A dma-buf of it, through which other devices reach it; start and size must be whole pages of the host.
    ///
    /// # Errors
    /// The driver's error; 801 where the GPU has no dma-bufs.
    pub fn dma_buf(&self) -> Result<OwnedFd, GpuError> {
        let context = self.context();
        context.bind()?;
        let Extent { address, bytes } = *self.whole();
        let (bytes, mut descriptor): (_, c_int) = (size(bytes)?, -1);
        let out = (&raw mut descriptor).cast();
        // SAFETY: one descriptor is written; the buffer is alive, and the dma-buf holds its memory.
        let code = unsafe { (context.api.dma_buf)(out, address, bytes, DMA_BUF, 0) };
        context.check("cuMemGetHandleForAddressRange", code, || {
            format!("GPU {}", context.ordinal)
        })?;
        owned(descriptor, "cuMemGetHandleForAddressRange")
    }
}

fn owned(descriptor: c_int, call: &str) -> Result<OwnedFd, GpuError> {
    if descriptor < 0 {
        return Err(GpuError::Nonsense(format!(
            "{call} gave descriptor {descriptor}"
        )));
    }
    // SAFETY: the driver made the descriptor for us, and no other code holds it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

impl Gpu {
    /// Opens another process's buffer of `bytes` by its handle, for use by this GPU.
    ///
    /// # Errors
    /// The driver's error.
    pub fn open_ipc(&self, name: IpcHandle, bytes: u64) -> Result<Buffer, GpuError> {
        let context = &self.context;
        context.bind()?;
        let handle = sys::CUipcMemHandle {
            reserved: name.0.map(|byte| c_char::from_ne_bytes([byte])),
        };
        let mut address = 0;
        // SAFETY: one address is written.
        let code = unsafe { (context.api.ipc_open)(&raw mut address, handle, LAZY_ENABLE_PEER) };
        context.check("cuIpcOpenMemHandle", code, || {
            format!("GPU {}", self.ordinal)
        })?;
        Ok(self.opened(Extent { address, bytes }))
    }

    /// Maps another process's exported buffer of `bytes`, for use by this GPU.
    ///
    /// # Errors
    /// The driver's error.
    pub fn import(&self, descriptor: BorrowedFd<'_>, bytes: u64) -> Result<Buffer, GpuError> {
        let context = &self.context;
        context.bind()?;
        let mut handle = 0;
        // The driver takes the number itself in place of a pointer.
        let number = ptr::without_provenance_mut(
            usize::try_from(descriptor.as_raw_fd()).unwrap_or_default(),
        );
        // SAFETY: one handle is written; the descriptor is open for the call.
        let code = unsafe { (context.api.import)(&raw mut handle, number, FILE_DESCRIPTOR) };
        context.check("cuMemImportFromShareableHandle", code, || {
            format!("GPU {}", self.ordinal)
        })?;
        let mapping = Mapping::of(context, handle, size(bytes)?)?;
        self.over(mapping, &[])
    }
}
