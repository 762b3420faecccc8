//! The simulated driver of this process, the current context of each thread, the numbers that callers have as opaque
//! pointers, and the names and descriptions of result codes.

use simgpu_model::engine::StreamId;
use simgpu_model::{Result, Simulation, Status};
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static DRIVER: Mutex<Option<Simulation>> = Mutex::new(None);

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The driver, which is `None` before cuInit.
pub(crate) fn driver() -> MutexGuard<'static, Option<Simulation>> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a call of the driver.
pub(crate) fn call(f: impl FnOnce(&mut Simulation) -> Result<()>) -> c_int {
    let mut driver = driver();
    code(driver.as_mut().map_or(Err(Status::NOT_INITIALIZED), f))
}

/// Repeats a call that waits for the GPU until it no longer returns "not ready". Other threads may make calls in between.
pub(crate) fn wait(mut f: impl FnMut(&mut Simulation) -> Result<()>) -> c_int {
    loop {
        let result = call(&mut f);
        if result != Status::NOT_READY.0 {
            return result;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A result as a C return code.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|status| status.0, |()| 0)
}

/// The GPU whose context is current on this thread.
pub(crate) fn current(driver: &Simulation) -> Result<usize> {
    let gpu = CURRENT.get().ok_or(Status::INVALID_CONTEXT)?;
    if driver.has_context(gpu) {
        Ok(gpu)
    } else {
        Err(Status::INVALID_CONTEXT)
    }
}

/// The same, if that context is alive.
pub(crate) fn current_alive(driver: &Simulation) -> Result<usize> {
    let gpu = current(driver)?;
    driver.engine.check_alive(gpu)?;
    Ok(gpu)
}

/// Makes a context current on this thread.
pub(crate) fn set_current(gpu: Option<usize>) {
    CURRENT.set(gpu);
}

/// Makes a context current on this thread, and returns the previous one.
pub(crate) fn replace_current(gpu: Option<usize>) -> Option<usize> {
    CURRENT.replace(gpu)
}

/// The GPU of a context.
pub(crate) fn context(driver: &Simulation, handle: Handle) -> Result<usize> {
    let gpu = usize::try_from(unwrap(HandleKind::Context, handle)?)
        .map_err(|_| Status::INVALID_CONTEXT)?;
    if driver.has_context(gpu) {
        Ok(gpu)
    } else {
        Err(Status::INVALID_CONTEXT)
    }
}

/// The stream of a handle; 0 is the current context's default stream.
pub(crate) fn stream(driver: &mut Simulation, handle: Handle) -> Result<StreamId> {
    let gpu = current(driver)?;
    let id = if handle == 0 {
        driver.default_stream(gpu)
    } else {
        unwrap(HandleKind::Stream, handle)?
    };
    driver.engine.gpu_of(id).map(|_| id)
}

/// Writes a value to the caller's pointer.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: it is not null, and the caller guarantees the rest.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Reads a value from the caller's pointer.
///
/// # Safety
/// `from` is null or readable.
pub(crate) unsafe fn get<T: Copy>(from: *const T) -> Result<T> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: it is not null, and the caller guarantees the rest.
    Ok(unsafe { from.read_unaligned() })
}

/// Writes text and its zero byte into a buffer of `length` bytes, truncated if it is too long.
///
/// # Safety
/// `to` is null or has room for `length` bytes.
pub(crate) unsafe fn put_text(to: *mut u8, length: c_int, text: &str) -> Result<()> {
    let room = usize::try_from(length)
        .ok()
        .and_then(|n| n.checked_sub(1))
        .ok_or(Status::INVALID_VALUE)?;
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let bytes = text.bytes().take(room).chain([0]);
    for (n, byte) in bytes.enumerate() {
        // SAFETY: `n` is below `length`.
        unsafe { to.add(n).write(byte) };
    }
    Ok(())
}

/// A handle that a caller has.
pub(crate) type Handle = usize;

/// A kind of handle. Each kind has its own range, so that a handle is never mistaken for one of another kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandleKind {
    Context,
    Stream,
    Event,
    Module,
    Function,
    Graph,
    Exec,
}

impl HandleKind {
    fn base(self) -> Handle {
        (self as Handle + 1) << 40
    }
}

/// A handle for a number.
pub(crate) fn wrap(kind: HandleKind, number: u64) -> Handle {
    kind.base() + usize::try_from(number).unwrap_or_default()
}

/// The number of a handle.
pub(crate) fn unwrap(kind: HandleKind, handle: Handle) -> Result<u64> {
    let wrong = if matches!(kind, HandleKind::Context) {
        Status::INVALID_CONTEXT
    } else {
        Status::INVALID_HANDLE
    };
    let number = handle
        .checked_sub(kind.base())
        .filter(|n| *n < 1 << 40)
        .ok_or(wrong)?;
    u64::try_from(number).map_err(|_| wrong)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's pointer is valid.
    unsafe { put_static(Status(error).name(), text) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's pointer is valid.
    unsafe { put_static(Status(error).text(), text) }
}

/// # Safety
/// `to` is null or writable.
unsafe fn put_static(text: Option<&'static str>, to: *mut *const c_char) -> c_int {
    let pointer = text.map_or(std::ptr::null(), |t| t.as_ptr().cast());
    // SAFETY: guaranteed by the caller.
    let put = unsafe { put(to, pointer) };
    code(put.and(text.map(|_| ()).ok_or(Status::INVALID_VALUE)))
}
