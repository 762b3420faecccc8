//! NVML's result codes.

use std::ffi::{c_char, c_int};

/// A code; 0 never stands here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// What a call yields.
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

/// A result as C sees it.
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
