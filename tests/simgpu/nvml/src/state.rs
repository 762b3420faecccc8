//! The scenario while NVML is initialised, the callers' device handles, and NVML's result codes.

use simgpu_model::scenario::NvmlHangs;
use simgpu_model::{Scenario, events};
use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Mutex, PoisonError};

/// Number of initialisations, and the scenario that was read.
static STARTED: Mutex<(u32, Option<Scenario>)> = Mutex::new((0, None));

/// A device handle.
pub(crate) type Handle = usize;
/// The first device's handle.
const DEVICES: Handle = 0x0d00_0000;

/// Initialises NVML once more.
pub(crate) fn start(read: impl FnOnce() -> Result<Scenario>) -> Result<()> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if started.1.is_none() {
        started.1 = Some(read()?);
    }
    started.0 += 1;
    Ok(())
}

/// Reverts one initialisation.
pub(crate) fn stop() -> Result<()> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.0 = started.0.checked_sub(1).ok_or(Code::UNINITIALIZED)?;
    if started.0 == 0 {
        started.1 = None;
    }
    Ok(())
}

/// Makes a query of the scenario.
pub(crate) fn call(f: impl FnOnce(&Scenario) -> Result<()>) -> c_int {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if started
        .1
        .as_ref()
        .is_some_and(|scenario| scenario.machine.nvml_hangs == NvmlHangs::Use)
    {
        hang();
    }
    code(started.1.as_ref().map_or(Err(Code::UNINITIALIZED), f))
}

/// Never returns, like a call that hangs in the kernel.
pub(crate) fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Makes a query about one device.
pub(crate) fn query_device(
    device: Handle,
    f: impl FnOnce(&Scenario, usize) -> Result<()>,
) -> c_int {
    call(|scenario| f(scenario, gpu(scenario, device)?))
}

/// The GPU of a device handle.
pub(crate) fn gpu(scenario: &Scenario, device: Handle) -> Result<usize> {
    let gpu = device.checked_sub(DEVICES).ok_or(Code::INVALID_ARGUMENT)?;
    if !scenario.visible().contains(&gpu) {
        return Err(Code::INVALID_ARGUMENT);
    }
    if events::is_lost(scenario, gpu) {
        Err(Code::GPU_IS_LOST)
    } else {
        Ok(gpu)
    }
}

/// The device handle of a GPU.
pub(crate) fn device(gpu: usize) -> Handle {
    DEVICES + gpu
}

/// Writes a value to the caller's pointer.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: it is not null, and the caller guarantees the rest.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes text and its zero byte into a buffer of `length` bytes.
///
/// # Safety
/// `to` is null or has room for `length` bytes.
pub(crate) unsafe fn put_text(to: *mut c_char, length: c_uint, text: &str) -> Result<()> {
    let length = usize::try_from(length).map_err(|_| Code::INVALID_ARGUMENT)?;
    if to.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    if text.len() >= length {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    for (n, byte) in text.bytes().chain([0]).enumerate() {
        // SAFETY: `n` is below `length`.
        unsafe { to.cast::<u8>().add(n).write(byte) };
    }
    Ok(())
}

/// A result code, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// The result of a call.
pub(crate) type Result<T> = core::result::Result<T, Code>;

impl Code {
    pub(crate) const UNINITIALIZED: Self = Self(1);
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    pub(crate) const NOT_SUPPORTED: Self = Self(3);
    pub(crate) const NOT_FOUND: Self = Self(6);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const GPU_IS_LOST: Self = Self(15);
    pub(crate) const VERSION_MISMATCH: Self = Self(18);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// A result as a C return code.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|code| code.0, |()| 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    let text = match Code(code) {
        Code(0) => c"The operation was successful",
        Code::UNINITIALIZED => c"NVML was not first initialized with nvmlInit()",
        Code::INVALID_ARGUMENT => c"A supplied argument is invalid",
        Code::NOT_SUPPORTED => c"The requested operation is not available on target device",
        Code::NOT_FOUND => c"A query to find an object was unsuccessful",
        Code::INSUFFICIENT_SIZE => c"An input argument is not large enough",
        Code::GPU_IS_LOST => c"GPU is lost",
        Code::VERSION_MISMATCH => c"RM detects a driver/library version mismatch.",
        _ => c"An internal driver error occurred",
    };
    text.as_ptr()
}
