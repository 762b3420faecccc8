//! Memory from the driver's virtual memory functions: physical memory, an address range, a mapping between
//! them and a list of GPUs that may use it. NCCL and the frameworks' allocators use this, so it is tested in
//! addition to ordinary allocations.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::span::{Extent, size};
use crate::cuda::api::Api;
use crate::cuda::context::Context;
use crate::cuda::error::GpuError;
use cudarc::driver::sys;

/// The smallest granularity (`CU_MEM_ALLOC_GRANULARITY_MINIMUM`).
const MINIMUM: u32 = 0;

/// One mapping.
#[derive(Debug)]
pub(in crate::cuda) struct Mapping {
    pub(in crate::cuda) handle: sys::CUmemGenericAllocationHandle,
    address: u64,
    bytes: usize,
}

/// Memory of `device` that may be handed to another process as a file descriptor.
pub(in crate::cuda) fn properties(device: sys::CUdevice) -> sys::CUmemAllocationProp {
    let handle_type = sys::CUmemAllocationHandleType_enum::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: handle_type,
        location: place(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

const fn place(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

impl Mapping {
    /// Physical memory of the context's GPU, mapped, without access for any GPU yet.
    pub(in crate::cuda) fn make(context: &Context, bytes: u64) -> Result<Self, GpuError> {
        context.bind()?;
        let doing = || format!("GPU {}: mapping {bytes} bytes", context.ordinal);
        let properties = properties(context.device);
        let bytes = rounded(bytes, granularity(context, &properties)?)?;
        let mut handle = 0;
        // SAFETY: one handle is written; the properties live for the call.
        let code =
            unsafe { (context.api.create)(&raw mut handle, bytes, &raw const properties, 0) };
        context.check("cuMemCreate", code, doing)?;
        Self::of(context, handle, bytes)
    }

    /// Maps memory whose handle is already held; on failure the handle is released.
    pub(in crate::cuda) fn of(
        context: &Context,
        handle: sys::CUmemGenericAllocationHandle,
        bytes: usize,
    ) -> Result<Self, GpuError> {
        let doing = || format!("GPU {}: mapping {bytes} bytes", context.ordinal);
        let api = context.api;
        let mut address = 0;
        // SAFETY: one address is written.
        let code = unsafe { (api.reserve)(&raw mut address, bytes, 0, 0, 0) };
        if let Err(error) = context.check("cuMemAddressReserve", code, doing) {
            // SAFETY: the handle is held once, by us.
            unsafe { (api.create_release)(handle) };
            return Err(error);
        }
        let made = Self {
            handle,
            address,
            bytes,
        };
        // SAFETY: the range was reserved with this size, the memory is of this size.
        let code = unsafe { (api.map)(address, bytes, 0, handle, 0) };
        if let Err(error) = context.check("cuMemMap", code, doing) {
            // SAFETY: reserved and held above, not mapped.
            unsafe {
                (api.reserve_free)(address, bytes);
                (api.create_release)(handle);
            }
            return Err(error);
        }
        Ok(made)
    }

    pub(in crate::cuda) const fn extent(&self) -> Extent {
        Extent {
            address: self.address,
            bytes: self.bytes as u64,
        }
    }

    /// Lets these devices read and write; on failure the mapping is undone.
    pub(in crate::cuda) fn allow(
        &self,
        context: &Context,
        devices: &[sys::CUdevice],
    ) -> Result<(), GpuError> {
        context.bind()?;
        let flags = sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access: Vec<_> = devices
            .iter()
            .map(|d| sys::CUmemAccessDesc {
                location: place(*d),
                flags,
            })
            .collect();
        // SAFETY: the list lives for the call and has the length that is given.
        let code = unsafe {
            (context.api.set_access)(self.address, self.bytes, access.as_ptr(), access.len())
        };
        let allowed = context.check("cuMemSetAccess", code, || {
            format!(
                "GPU {}: letting {} GPUs use its memory",
                context.ordinal,
                devices.len()
            )
        });
        if allowed.is_err() {
            self.undo(context.api);
        }
        allowed
    }

    /// Unmaps and frees everything. Errors are ignored, because no caller could handle them.
    pub(in crate::cuda) fn undo(&self, api: &Api) {
        // SAFETY: mapped, reserved and held by this value, which is undone once.
        unsafe {
            (api.unmap)(self.address, self.bytes);
            (api.reserve_free)(self.address, self.bytes);
            (api.create_release)(self.handle);
        }
    }
}

fn granularity(
    context: &Context,
    properties: &sys::CUmemAllocationProp,
) -> Result<usize, GpuError> {
    let mut granularity = 0;
    // SAFETY: one size is written; the properties live for the call.
    let code =
        unsafe { (context.api.granularity)(&raw mut granularity, &raw const *properties, MINIMUM) };
    context.check("cuMemGetAllocationGranularity", code, || {
        format!("GPU {}", context.ordinal)
    })?;
    Ok(granularity.max(1))
}

/// `bytes` rounded up to whole steps.
fn rounded(bytes: u64, step: usize) -> Result<usize, GpuError> {
    let bytes = size(bytes.max(1))?;
    bytes
        .checked_next_multiple_of(step)
        .ok_or_else(|| GpuError::Nonsense(format!("{bytes} bytes are too many")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_whole_steps() {
        assert_eq!(rounded(1, 2 << 20), Ok(2 << 20));
        assert_eq!(rounded(2 << 20, 2 << 20), Ok(2 << 20));
        assert_eq!(rounded((2 << 20) + 1, 2 << 20), Ok(4 << 20));
        assert!(rounded(u64::MAX, 2 << 20).is_err());
    }
}
