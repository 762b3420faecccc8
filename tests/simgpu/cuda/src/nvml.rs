//! What the simulated NVML in the same process asks about a GPU.

use crate::state::{driver, put};

/// Bytes in use by this process, 1 for a context, 1 for work going on.
pub(crate) type Now = [u64; 3];

#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_now(gpu: usize, now: *mut Now) {
    let driver = driver();
    let Some(driver) = driver.as_ref() else { return };
    let machine = &driver.scenario().machine;
    let (free, total) = driver.memory(gpu);
    let used = total.saturating_sub(free).saturating_sub(machine.taken(gpu));
    let found = [used, u64::from(driver.has_context(gpu)), u64::from(driver.engine.busy(gpu))];
    // SAFETY: the pointer of the library beside this one; a null pointer is not written.
    let _ = unsafe { put(now, found) };
}
