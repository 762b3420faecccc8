//! Names and words of result codes.

use crate::state::{code, put};
use simgpu_model::Status;
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { tell(Status(error).name(), text) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { tell(Status(error).text(), text) }
}

/// # Safety
/// `to` is null or may be written.
unsafe fn tell(text: Option<&'static str>, to: *mut *const c_char) -> c_int {
    let pointer = text.map_or(std::ptr::null(), |t| t.as_ptr().cast());
    // SAFETY: the caller's promise.
    let put = unsafe { put(to, pointer) };
    code(put.and(text.map(|_| ()).ok_or(Status::INVALID_VALUE)))
}
