//! Faults on page-locked memory that the model holds back: what should stand there is put there, and
//! the program goes on. Every other fault is as it was before.

use crate::state::driver;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// What was done about faults before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// From now on faults on closed memory open it.
pub(crate) fn handle() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zero is a valid sigaction, and both pointers lead to one.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            let mut old: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_fault as Handler as usize;
            // On the thread's own stack: what the model does needs more than a signal stack has.
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(libc::SIGSEGV, &raw const new, &raw mut old);
            old
        }
    });
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid structure with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() }.addr() as u64;
    if opened(address) {
        return;
    }
    let Some(before) = BEFORE.get() else { return };
    if before.sa_flags & libc::SA_SIGINFO != 0 && before.sa_sigaction != libc::SIG_DFL {
        // SAFETY: it was installed as such a handler.
        let handler: Handler = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal, info, context);
        return;
    }
    // The fault comes again and does what it did before.
    // SAFETY: the structure is one that the kernel gave.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

/// Whether the address is of page-locked memory, which is open now. It faults only where it was closed;
/// another thread may have opened it meanwhile.
fn opened(address: u64) -> bool {
    let mut driver = driver();
    let Some(driver) = driver.as_mut() else { return false };
    driver.engine.settle(address);
    let before = driver.engine.memory.pinned.range(..=address).next_back();
    before.is_some_and(|(base, memory)| address < base + memory.bytes)
}
