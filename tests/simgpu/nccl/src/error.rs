//! NCCL's result codes, their words, and the last thing that went wrong.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// A code; 0 never stands here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// What a call yields.
pub(crate) type Result<T> = core::result::Result<T, Code>;

impl Code {
    pub(crate) const CUDA: Self = Self(1);
    pub(crate) const SYSTEM: Self = Self(2);
    pub(crate) const INTERNAL: Self = Self(3);
    pub(crate) const ARGUMENT: Self = Self(4);
    pub(crate) const USAGE: Self = Self(5);
}

/// A result as C sees it.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|code| code.0, |()| 0)
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// The text of the last warning.
static LAST: Mutex<Option<CString>> = Mutex::new(None);

/// Keeps a warning's text.
pub(crate) fn remember(text: &str) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = CString::new(text).ok();
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_comm: *const c_void) -> *const c_char {
    // Each text stays where it is for good: the caller may hold on to it.
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    last.map_or(c"".as_ptr(), |text| text.into_raw().cast_const())
}
