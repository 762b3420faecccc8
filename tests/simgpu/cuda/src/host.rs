//! The host is this process: its own memory, and the system's clock. An access to page-locked memory that the model has
//! closed faults; the handler writes the contents and the program continues. All other faults are handled as before.

use crate::state::driver;
use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// This process.
#[derive(Debug)]
pub(crate) struct ProcessHost {
    began: Instant,
}

impl ProcessHost {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl simgpu_model::Host for ProcessHost {
    fn read(&self, address: u64, bytes: u64) -> Vec<u8> {
        let (Ok(address), Ok(bytes)) = (usize::try_from(address), usize::try_from(bytes)) else {
            return Vec::new();
        };
        let mut out = Vec::with_capacity(bytes);
        // SAFETY: the program under test passed this address for that many bytes, as it would to a real driver; `out` has
        // room for them.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, out.as_mut_ptr(), bytes);
            out.set_len(bytes);
        }
        out
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let Ok(address) = usize::try_from(address) else {
            return;
        };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    fn close(&mut self, address: u64, bytes: u64) {
        let Some((memory, bytes)) = pointer_and_size(address, bytes) else {
            return;
        };
        // SAFETY: whole pages of memory that cuMemHostAlloc mapped. An access to them calls [`handle_faults`]' handler,
        // which opens them; the model has their contents.
        let closed = unsafe {
            mprotect(memory, bytes, MprotectFlags::empty())
                .and_then(|()| madvise(memory, bytes, Advice::LinuxDontNeed))
        };
        closed.unwrap_or_else(|e| die("holding memory back", e));
    }

    fn open(&mut self, address: u64, bytes: u64) {
        let Some((memory, bytes)) = pointer_and_size(address, bytes) else {
            return;
        };
        // SAFETY: as above.
        let opened = unsafe { mprotect(memory, bytes, MprotectFlags::READ | MprotectFlags::WRITE) };
        opened.unwrap_or_else(|e| die("giving memory back", e));
    }

    fn word(&self, address: u64) -> u32 {
        let Ok(address) = usize::try_from(address) else {
            return 0;
        };
        // SAFETY: as above; the host may write it at any time.
        unsafe { (address as *const u32).read_volatile() }
    }

    fn clock(&self) -> Duration {
        self.began.elapsed()
    }
}

fn pointer_and_size(address: u64, bytes: u64) -> Option<(*mut c_void, usize)> {
    Some((
        usize::try_from(address).ok()? as *mut c_void,
        usize::try_from(bytes).ok()?,
    ))
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn die(doing: &str, error: rustix::io::Errno) {
    eprintln!("simgpu: {doing}: {error}");
    std::process::abort();
}

/// The signal handling before this library's.
static PREVIOUS_HANDLER: OnceLock<libc::sigaction> = OnceLock::new();

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler that opens closed memory on access.
pub(crate) fn handle_faults() {
    PREVIOUS_HANDLER.get_or_init(|| {
        // SAFETY: an all-zero sigaction is valid, and both pointers point to one.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            let mut old: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_fault as Handler as usize;
            // On the thread's own stack, since the model needs more than a signal stack has.
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(libc::SIGSEGV, &raw const new, &raw mut old);
            old
        }
    });
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() }.addr() as u64;
    if open_if_closed(address) {
        return;
    }
    let Some(before) = PREVIOUS_HANDLER.get() else {
        return;
    };
    if before.sa_flags & libc::SA_SIGINFO != 0 && before.sa_sigaction != libc::SIG_DFL {
        // SAFETY: it was installed as a handler of this type.
        let handler: Handler = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal, info, context);
        return;
    }
    // The fault occurs again and is then handled as before.
    // SAFETY: the kernel returned this structure.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

/// Whether the address is in page-locked memory, which is then open. It faults only while it is closed; another thread may
/// have opened it in the meantime.
fn open_if_closed(address: u64) -> bool {
    let mut driver = driver();
    let Some(driver) = driver.as_mut() else {
        return false;
    };
    driver.engine.materialize(address);
    let before = driver.engine.memory.pinned.range(..=address).next_back();
    before.is_some_and(|(base, memory)| address < base + memory.bytes)
}
