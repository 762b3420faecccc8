//! C's standard output, through which NCCL writes its lines. Into a file it would gather them and a killed
//! process would take its last ones along, which are the ones that matter.
#![expect(unsafe_code, reason = "C's standard output is a variable of the C library")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `_IOLBF`, the same in glibc and musl: what is written goes out at the end of each line.
const LINE_BUFFERED: c_int = 1;

unsafe extern "C" {
    static stdout: *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// From now on each line of NCCL's goes out at once; to be called before anything was written.
pub fn log_at_once() {
    // SAFETY: the C library sets the variable before `main` and nobody here writes to it.
    let stream = unsafe { stdout };
    // SAFETY: an open stream of which nothing was written yet; without a buffer C makes its own. What it
    // returns says only that lines may come late.
    let _ = unsafe { setvbuf(stream, ptr::null_mut(), LINE_BUFFERED, 0) };
}
