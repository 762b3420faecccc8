//! The host's memory is this process's own; its clock is the system's.

use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// This process.
#[derive(Debug)]
pub(crate) struct Process {
    began: Instant,
}

impl Process {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl simgpu_model::host::Host for Process {
    fn read(&self, address: u64, bytes: u64) -> Vec<u8> {
        let (Ok(address), Ok(bytes)) = (usize::try_from(address), usize::try_from(bytes)) else {
            return Vec::new();
        };
        let mut out = Vec::with_capacity(bytes);
        // SAFETY: the program under test gave this address for so many bytes, as it would to a real
        // driver; `out` has room for them.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, out.as_mut_ptr(), bytes);
            out.set_len(bytes);
        }
        out
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let Ok(address) = usize::try_from(address) else { return };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    fn close(&mut self, address: u64, bytes: u64) {
        let Some((memory, bytes)) = stretch(address, bytes) else { return };
        // SAFETY: whole pages of memory that cuMemHostAlloc mapped. Who touches them meets `fault`, which
        // gives them back; what stood in them is in the model.
        let closed = unsafe {
            mprotect(memory, bytes, MprotectFlags::empty())
                .and_then(|()| madvise(memory, bytes, Advice::LinuxDontNeed))
        };
        closed.unwrap_or_else(|e| die("holding memory back", e));
    }

    fn open(&mut self, address: u64, bytes: u64) {
        let Some((memory, bytes)) = stretch(address, bytes) else { return };
        // SAFETY: as above.
        let opened = unsafe { mprotect(memory, bytes, MprotectFlags::READ | MprotectFlags::WRITE) };
        opened.unwrap_or_else(|e| die("giving memory back", e));
    }

    fn word(&self, address: u64) -> u32 {
        let Ok(address) = usize::try_from(address) else { return 0 };
        // SAFETY: as above; the host may write it at any time.
        unsafe { (address as *const u32).read_volatile() }
    }

    fn clock(&self) -> Duration {
        self.began.elapsed()
    }
}

fn stretch(address: u64, bytes: u64) -> Option<(*mut c_void, usize)> {
    Some((usize::try_from(address).ok()? as *mut c_void, usize::try_from(bytes).ok()?))
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn die(doing: &str, error: rustix::io::Errno) {
    eprintln!("simgpu: {doing}: {error}");
    std::process::abort();
}
