//! Registered memory: the process's own, or that of a simulated GPU.

use libloading::os::unix::{Library, RTLD_LAZY};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// Of glibc: only a library that is there already.
const RTLD_NOLOAD: i32 = 4;

/// A registered stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) gpu: bool,
}

static REGIONS: Mutex<BTreeMap<u32, Region>> = Mutex::new(BTreeMap::new());

/// Registers it; its key.
pub(crate) fn add(region: Region) -> u32 {
    let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = regions.keys().next_back().map_or(0x1000, |last| last + 0x100);
    regions.insert(key, region);
    key
}

/// Forgets it.
pub(crate) fn remove(key: u32) {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
}

/// The region of a key that holds so many bytes from an address on.
pub(crate) fn by_rkey(key: u32, address: u64, bytes: u64) -> Option<Region> {
    let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let region = regions.get(&key)?;
    let end = address.checked_add(bytes)?;
    (address >= region.address && end <= region.address + region.bytes).then_some(*region)
}

/// Moves data into a region or out of it.
pub(crate) fn access(region: &Region, address: u64, data: &mut [u8], write: bool) -> bool {
    if region.gpu {
        return card(address, data, write);
    }
    let Ok(at) = usize::try_from(address) else { return false };
    // SAFETY: the program under test registered this memory, and holds it until it takes the registration back.
    unsafe {
        if write {
            std::ptr::copy_nonoverlapping(data.as_ptr(), at as *mut u8, data.len());
        } else {
            std::ptr::copy_nonoverlapping(at as *const u8, data.as_mut_ptr(), data.len());
        }
    }
    true
}

/// Moves data into a GPU's memory or out of it; whether there is a GPU's memory.
pub(crate) fn card(address: u64, data: &mut [u8], write: bool) -> bool {
    type Card = unsafe extern "C" fn(u64, *mut u8, usize, bool) -> c_int;
    // SAFETY: nothing is loaded, so nothing is run.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | RTLD_NOLOAD) };
    let Ok(library) = library else { return false };
    // SAFETY: the simulated libcuda's function has this type; NVIDIA's has none of this name.
    let Ok(card) = (unsafe { library.get::<Card>(b"simgpu_card\0") }) else { return false };
    // SAFETY: the pointer and the length of a slice.
    unsafe { card(address, data.as_mut_ptr(), data.len(), write) == 0 }
}
