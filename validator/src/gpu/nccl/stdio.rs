//! C's standard output, to which NCCL writes its log. To a file it would be fully buffered, and a killed
//! process would lose its last lines, which matter most.
#![expect(unsafe_code, reason = "C's standard output is a variable of the C library")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `_IOLBF`, the same in glibc and musl: output is written at the end of each line.
const LINE_BUFFERED: c_int = 1;

unsafe extern "C" {
    static stdout: *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// Makes NCCL's output line buffered; to be called before anything was written.
pub fn log_at_once() {
    // SAFETY: the C library sets the variable before `main` and our code does not write to it.
    let stream = unsafe { stdout };
    // SAFETY: an open stream before any output; without a buffer C allocates its own. A failure only means
    // that lines may come late.
    let _ = unsafe { setvbuf(stream, ptr::null_mut(), LINE_BUFFERED, 0) };
}
