//! Registered memory: this process's own, or that of a simulated GPU.

use crate::work::Burst;
use libloading::os::unix::{Library, RTLD_LAZY};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// glibc's flag to open only a library that is already loaded.
const RTLD_NOLOAD: i32 = 4;

/// A registered stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) gpu: bool,
}

static REGIONS: Mutex<BTreeMap<u32, Registration>> = Mutex::new(BTreeMap::new());

/// Adds a registration, and returns its key.
pub(crate) fn add(region: Registration) -> u32 {
    let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = regions
        .keys()
        .next_back()
        .map_or(0x1000, |last| last + 0x100);
    regions.insert(key, region);
    key
}

/// Removes a registration.
pub(crate) fn remove(key: u32) {
    REGIONS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&key);
}

/// The region with this key, if it contains `bytes` bytes at `address`.
pub(crate) fn by_rkey(key: u32, address: u64, bytes: u64) -> Option<Registration> {
    let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let region = regions.get(&key)?;
    let end = address.checked_add(bytes)?;
    (address >= region.address && end <= region.address + region.bytes).then_some(*region)
}

/// Copies data into a region or out of it.
pub(crate) fn access(region: &Registration, address: u64, data: &mut [u8], write: bool) -> bool {
    if region.gpu {
        return access_gpu_memory(address, data, write);
    }
    let Ok(at) = usize::try_from(address) else {
        return false;
    };
    // SAFETY: the program under test registered this memory, and keeps it until it deregisters it.
    unsafe {
        if write {
            std::ptr::copy_nonoverlapping(data.as_ptr(), at as *mut u8, data.len());
        } else {
            std::ptr::copy_nonoverlapping(at as *const u8, data.as_mut_ptr(), data.len());
        }
    }
    true
}

/// Copies data into GPU memory or out of it; false if the address is not GPU memory.
pub(crate) fn access_gpu_memory(address: u64, data: &mut [u8], write: bool) -> bool {
    type CardFunction = unsafe extern "C" fn(u64, *mut u8, usize, bool) -> c_int;
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | RTLD_NOLOAD) };
    let Ok(library) = library else { return false };
    // SAFETY: the simulated libcuda's function has this type; NVIDIA's library has no function of this name.
    let Ok(card) = (unsafe { library.get::<CardFunction>(b"simgpu_card\0") }) else {
        return false;
    };
    // SAFETY: the pointer and length are those of a slice.
    unsafe { card(address, data.as_mut_ptr(), data.len(), write) == 0 }
}

// Types in the layout of `infiniband/verbs.h`; the simulation's own fields follow the caller's part of a handle.

/// `struct ibv_context`
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut Device,
    pub(crate) reserved: [*mut c_void; 11],
    pub(crate) poll: unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut Completion) -> c_int,
    pub(crate) reserved_too: [*mut c_void; 13],
    pub(crate) post:
        unsafe extern "C" fn(*mut QueuePair, *mut WorkRequest, *mut *mut WorkRequest) -> c_int,
    pub(crate) rest: [*mut c_void; 15],
}

pub(crate) struct Device {
    pub(crate) name: CString,
}

#[repr(C)]
pub(crate) struct CompletionQueue {
    pub(crate) context: *mut Context,
    pub(crate) done: Mutex<VecDeque<Completion>>,
}

#[repr(C)]
pub(crate) struct QueuePair {
    pub(crate) context: *mut Context,
    pub(crate) reserved: [*mut c_void; 5],
    pub(crate) handle: u32,
    pub(crate) number: u32,
    pub(crate) queue: *mut CompletionQueue,
    pub(crate) remote_qp: u32,
    pub(crate) posted: u64,
    pub(crate) burst: Burst,
}

#[repr(C)]
pub(crate) struct MemoryRegion {
    pub(crate) context: *mut Context,
    pub(crate) domain: *mut c_void,
    pub(crate) address: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

#[repr(C)]
pub(crate) struct WorkRequest {
    pub(crate) id: u64,
    pub(crate) next: *mut Self,
    pub(crate) sg_list: *const ScatterGatherEntry,
    pub(crate) count: c_int,
    pub(crate) opcode: c_int,
    pub(crate) flags: u32,
    pub(crate) immediate: u32,
    pub(crate) remote: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
pub(crate) struct ScatterGatherEntry {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) id: u64,
    pub(crate) status: c_int,
    pub(crate) opcode: c_int,
    pub(crate) vendor: u32,
    pub(crate) bytes: u32,
    pub(crate) reserved: [u32; 6],
}
