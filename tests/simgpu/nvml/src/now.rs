//! What this process does on a GPU now: the simulated libcuda knows, if it is loaded.

use libloading::os::unix::{Library, RTLD_LAZY};

/// Of glibc: only a library that is there already.
const RTLD_NOLOAD: i32 = 4;

/// What is going on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Now {
    /// Bytes of memory.
    pub(crate) used: u64,
    /// Whether it has a context there.
    pub(crate) context: bool,
    /// Whether there is work.
    pub(crate) busy: bool,
}

/// What is going on on a GPU.
pub(crate) fn now(gpu: usize) -> Now {
    // SAFETY: nothing is loaded, so nothing is run.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | RTLD_NOLOAD) };
    let Ok(library) = library else { return Now::default() };
    // SAFETY: the simulated libcuda's function has this type; NVIDIA's has none of this name.
    let ask = unsafe { library.get::<unsafe extern "C" fn(usize, *mut [u64; 3])>(b"simgpu_now\0") };
    let Ok(ask) = ask else { return Now::default() };
    let mut found = [0; 3];
    // SAFETY: it writes three numbers.
    unsafe { ask(gpu, &raw mut found) };
    let [used, context, busy] = found;
    Now { used, context: context != 0, busy: busy != 0 }
}
