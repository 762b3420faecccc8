//! The driver's functions, looked up by name once. Results are plain numbers here: a newer driver may return
//! codes that our bindings do not name.
#![expect(
    unsafe_code,
    reason = "functions of a shared library are found by name and called as its header declares them"
)]

use super::error::GpuError;
use cudarc::driver::sys;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The name under which the loader finds the driver's library.
const LIBRARY: &str = "libcuda.so.1";

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The functions that firstlight calls, as `cuda.h` declares them.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Api {
            fn find(library: &'static Library) -> Result<Self, GpuError> {
                Ok(Self { $($name: {
                    // SAFETY: the symbol's type is the header's declaration; results are ints there too.
                    let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol) };
                    *found.map_err(|_| GpuError::symbol(LIBRARY, $symbol))?
                },)* })
            }
        }
    };
}

functions! {
    init = "cuInit" (c_uint);
    driver_version = "cuDriverGetVersion" (*mut c_int);
    error_name = "cuGetErrorName" (c_int, *mut *const c_char);
    device_count = "cuDeviceGetCount" (*mut c_int);
    device = "cuDeviceGet" (*mut sys::CUdevice, c_int);
    device_name = "cuDeviceGetName" (*mut c_char, c_int, sys::CUdevice);
    device_uuid = "cuDeviceGetUuid_v2" (*mut sys::CUuuid, sys::CUdevice);
    device_address = "cuDeviceGetPCIBusId" (*mut c_char, c_int, sys::CUdevice);
    device_attribute = "cuDeviceGetAttribute" (*mut c_int, c_uint, sys::CUdevice);
    device_memory = "cuDeviceTotalMem_v2" (*mut usize, sys::CUdevice);
    can_access_peer = "cuDeviceCanAccessPeer" (*mut c_int, sys::CUdevice, sys::CUdevice);
    p2p_attribute = "cuDeviceGetP2PAttribute" (*mut c_int, c_uint, sys::CUdevice, sys::CUdevice);
    retain = "cuDevicePrimaryCtxRetain" (*mut sys::CUcontext, sys::CUdevice);
    release = "cuDevicePrimaryCtxRelease_v2" (sys::CUdevice);
    set_current = "cuCtxSetCurrent" (sys::CUcontext);
    enable_peer = "cuCtxEnablePeerAccess" (sys::CUcontext, c_uint);
    disable_peer = "cuCtxDisablePeerAccess" (sys::CUcontext);
    memory_info = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    alloc = "cuMemAlloc_v2" (*mut sys::CUdeviceptr, usize);
    free = "cuMemFree_v2" (sys::CUdeviceptr);
    host_alloc = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost" (*mut c_void);
    copy = "cuMemcpyAsync" (sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
    copy_peer = "cuMemcpyPeerAsync" (sys::CUdeviceptr, sys::CUcontext, sys::CUdeviceptr, sys::CUcontext, usize, sys::CUstream);
    copy_in = "cuMemcpyHtoDAsync_v2" (sys::CUdeviceptr, *const c_void, usize, sys::CUstream);
    copy_out = "cuMemcpyDtoHAsync_v2" (*mut c_void, sys::CUdeviceptr, usize, sys::CUstream);
    set_bytes = "cuMemsetD8Async" (sys::CUdeviceptr, u8, usize, sys::CUstream);
    stream = "cuStreamCreate" (*mut sys::CUstream, c_uint);
    stream_destroy = "cuStreamDestroy_v2" (sys::CUstream);
    stream_query = "cuStreamQuery" (sys::CUstream);
    stream_wait = "cuStreamWaitEvent" (sys::CUstream, sys::CUevent, c_uint);
    capture = "cuStreamBeginCapture_v2" (sys::CUstream, c_uint);
    capture_end = "cuStreamEndCapture" (sys::CUstream, *mut sys::CUgraph);
    graph_instantiate = "cuGraphInstantiateWithFlags" (*mut sys::CUgraphExec, sys::CUgraph, u64);
    graph_launch = "cuGraphLaunch" (sys::CUgraphExec, sys::CUstream);
    graph_exec_destroy = "cuGraphExecDestroy" (sys::CUgraphExec);
    graph_destroy = "cuGraphDestroy" (sys::CUgraph);
    event = "cuEventCreate" (*mut sys::CUevent, c_uint);
    event_destroy = "cuEventDestroy_v2" (sys::CUevent);
    event_record = "cuEventRecord" (sys::CUevent, sys::CUstream);
    event_elapsed = "cuEventElapsedTime" (*mut f32, sys::CUevent, sys::CUevent);
    module = "cuModuleLoadData" (*mut sys::CUmodule, *const c_void);
    module_unload = "cuModuleUnload" (sys::CUmodule);
    function = "cuModuleGetFunction" (*mut sys::CUfunction, sys::CUmodule, *const c_char);
    launch = "cuLaunchKernel" (sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, sys::CUstream, *mut *mut c_void, *mut *mut c_void);
    ipc_export = "cuIpcGetMemHandle" (*mut sys::CUipcMemHandle, sys::CUdeviceptr);
    ipc_open = "cuIpcOpenMemHandle_v2" (*mut sys::CUdeviceptr, sys::CUipcMemHandle, c_uint);
    ipc_close = "cuIpcCloseMemHandle" (sys::CUdeviceptr);
    granularity = "cuMemGetAllocationGranularity" (*mut usize, *const sys::CUmemAllocationProp, c_uint);
    create = "cuMemCreate" (*mut sys::CUmemGenericAllocationHandle, usize, *const sys::CUmemAllocationProp, u64);
    create_release = "cuMemRelease" (sys::CUmemGenericAllocationHandle);
    reserve = "cuMemAddressReserve" (*mut sys::CUdeviceptr, usize, usize, sys::CUdeviceptr, u64);
    reserve_free = "cuMemAddressFree" (sys::CUdeviceptr, usize);
    map = "cuMemMap" (sys::CUdeviceptr, usize, usize, sys::CUmemGenericAllocationHandle, u64);
    unmap = "cuMemUnmap" (sys::CUdeviceptr, usize);
    set_access = "cuMemSetAccess" (sys::CUdeviceptr, usize, *const sys::CUmemAccessDesc, usize);
    dma_buf = "cuMemGetHandleForAddressRange" (*mut c_void, sys::CUdeviceptr, usize, c_uint, u64);
    export = "cuMemExportToShareableHandle" (*mut c_void, sys::CUmemGenericAllocationHandle, c_uint, u64);
    import = "cuMemImportFromShareableHandle" (*mut sys::CUmemGenericAllocationHandle, *mut c_void, c_uint);
}

/// The driver, loaded and started on the first call.
///
/// # Errors
/// The library or a function is missing, or `cuInit` fails; the same on every later call.
pub(super) fn api() -> Result<&'static Api, GpuError> {
    static API: OnceLock<Result<Api, GpuError>> = OnceLock::new();
    API.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn start() -> Result<Api, GpuError> {
    // SAFETY: loading runs only initialisers of NVIDIA's library. It may do anything, which is why it is loaded
    // only in a worker process.
    let library = unsafe { Library::new(LIBRARY) };
    let library = library.map_err(|e| GpuError::library(LIBRARY, &e))?;
    // The library is never unloaded, because its own threads keep running.
    let api = Api::find(Box::leak(Box::new(library)))?;
    // SAFETY: the first call, with the only flags value that is defined.
    let code = unsafe { (api.init)(0) };
    if code == 0 {
        Ok(api)
    } else {
        Err(GpuError::call(
            "cuInit",
            code,
            name(&api, code),
            "starting CUDA",
        ))
    }
}

/// A driver's name for one of its codes.
fn name(api: &Api, code: c_int) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the function writes one pointer to a constant string, or leaves it null.
    let found = unsafe { (api.error_name)(code, &raw mut text) };
    if found != 0 || text.is_null() {
        return "a code without a name".to_owned();
    }
    // SAFETY: a pointer that the function has set points to a constant C string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Api {
    /// The error of one call, if any; `doing` is the purpose of the call.
    pub(super) fn check(
        &self,
        call: &'static str,
        code: c_int,
        doing: impl FnOnce() -> String,
    ) -> Result<(), GpuError> {
        if code == 0 {
            Ok(())
        } else {
            Err(GpuError::call(call, code, name(self, code), doing()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_with_its_name_and_not_a_panic() {
        // Test machines may have a driver or not: either way the result is one line.
        match api() {
            Ok(_) => {}
            Err(e) => assert!(
                e.to_string().contains(LIBRARY) || e.to_string().contains("cu"),
                "{e}"
            ),
        }
    }
}
