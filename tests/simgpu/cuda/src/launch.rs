//! Modules, their kernels, and kernel launches.

use crate::state::{Handle, HandleKind, unwrap, wrap};
use crate::state::{call, current_alive, get, put, stream};
use simgpu_model::api::image_length;
use simgpu_model::engine::Work;
use simgpu_model::kernel::{self, Kernel};
use simgpu_model::{Result, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Maximum number of kernels of a module: a function's number is its module's number times this, plus the kernel's index.
const KERNELS: u64 = 64;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(handle: *mut Handle, image: *const c_void) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        if image.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let bytes = image.cast::<u8>();
        // SAFETY: by the interface, an image is as long as its own header says, or ends with a zero byte.
        let image = unsafe {
            let length = image_length(|n| bytes.add(n).read());
            std::slice::from_raw_parts(bytes, length)
        };
        let module = driver.load(gpu, image)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, wrap(HandleKind::Module, module)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> c_int {
    call(|driver| {
        current_alive(driver)?;
        driver.unload(unwrap(HandleKind::Module, module)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    handle: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> c_int {
    call(|driver| {
        let module = unwrap(HandleKind::Module, module)?;
        if name.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: by the interface, the text ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }
            .to_str()
            .map_err(|_| Status::NOT_FOUND)?;
        let place = driver.function(module, name)? as u64;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, wrap(HandleKind::Function, module * KERNELS + place)) }
    })
}

/// The module and kernel of a function handle.
fn function(handle: Handle) -> Result<(u64, usize)> {
    let number = unwrap(HandleKind::Function, handle)?;
    Ok((
        number / KERNELS,
        usize::try_from(number % KERNELS).map_err(|_| Status::INVALID_HANDLE)?,
    ))
}

/// Reads the arguments of a kernel.
///
/// # Safety
/// `parameters` points to one pointer per argument of the kernel, each to a value of the argument's size.
unsafe fn arguments(kernel: usize, parameters: *const *const c_void) -> Result<Vec<u64>> {
    let one = |(n, size): (usize, &u8)| {
        // SAFETY: guaranteed by the caller.
        let pointer = unsafe { get(parameters.wrapping_add(n)) }?;
        // SAFETY: the same.
        unsafe {
            match size {
                4 => get(pointer.cast::<u32>()).map(u64::from),
                _ => get(pointer.cast::<u64>()),
            }
        }
    };
    kernel::sizes(kernel).iter().enumerate().map(one).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    handle: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _shared: c_uint,
    on: Handle,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> c_int {
    call(|driver| {
        let (module, kernel) = function(handle)?;
        let id = stream(driver, on)?;
        let size = |parts: [c_uint; 3]| parts.into_iter().map(u64::from).product::<u64>();
        let (blocks, threads) = (
            size([grid_x, grid_y, grid_z]),
            size([block_x, block_y, block_z]),
        );
        if driver.module_gpu(module)? != driver.engine.gpu_of(id)? {
            return Err(Status::INVALID_HANDLE);
        }
        if blocks == 0 || !(1..=1024).contains(&threads) || !extra.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's parameters are those of the kernel whose handle it has.
        let arguments = unsafe { arguments(kernel, parameters) }?;
        let kernel = Kernel::of(kernel, &arguments).ok_or(Status::INVALID_VALUE)?;
        driver.engine.push(
            id,
            Work::Launch {
                kernel,
                threads: blocks * threads,
            },
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    handle: Handle,
    threads: c_int,
    _shared: usize,
) -> c_int {
    call(|driver| {
        function(handle)?;
        let found = driver.occupancy(threads)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(blocks, found) }
    })
}
