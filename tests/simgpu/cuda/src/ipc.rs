//! Memory of other processes: by CUDA IPC, and by descriptors of memory that is mapped by hand. The files in which memory
//! lies that several processes share have no name in any file system and go with their last holder. A descriptor is such a file;
//! a token for CUDA IPC says which of its owner's descriptors it is.

use crate::state::{call, current_well, put};
use rustix::fd::{BorrowedFd, IntoRawFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use simgpu_model::memory::{Backing, StoreId, Told};
use simgpu_model::{Result, Simulation, Status};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A token as it travels: how it begins, the process, its descriptor, how far behind the allocation's
/// beginning; the rest is zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Token {
    magic: [u8; 8],
    process: u32,
    descriptor: c_int,
    offset: u64,
    rest: [u8; 40],
}

const MAGIC: [u8; 8] = *b"simipc/1";
/// The one kind of handle: a file descriptor.
const DESCRIPTOR: c_uint = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuIpcGetMemHandle(token: *mut Token, address: u64) -> c_int {
    call(|driver| {
        current_well(driver)?;
        driver.engine.run();
        let (store, offset) = driver.engine.memory.allocation(address)?;
        let descriptor = share(driver, store)?;
        let process = std::process::id();
        // SAFETY: the caller's pointer.
        unsafe { put(token, Token { magic: MAGIC, process, descriptor, offset, rest: [0; 40] }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuIpcOpenMemHandle_v2(address: *mut u64, token: Token, flags: c_uint) -> c_int {
    call(|driver| {
        let gpu = current_well(driver)?;
        if token.magic != MAGIC || flags != 1 {
            return Err(Status::INVALID_VALUE);
        }
        // As the real driver has it: not in the process that exported it.
        if token.process == std::process::id() {
            return Err(Status::INVALID_CONTEXT);
        }
        let (store, told) = adopt(driver, &token.process.to_string(), token.descriptor)?;
        // The flag asks for peer access where it is needed.
        if told.gpu != gpu {
            if !driver.has_context(told.gpu) {
                driver.retain(told.gpu);
            }
            match driver.enable_peer(gpu, told.gpu) {
                Ok(()) => lazily().push((gpu, told.gpu)),
                Err(Status::PEER_ACCESS_ALREADY_ENABLED) => {}
                Err(status) => return Err(status),
            }
        }
        let start = driver.engine.memory.open(store)?;
        // SAFETY: the caller's pointer.
        unsafe { put(address, start + token.offset) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuIpcCloseMemHandle(address: u64) -> c_int {
    call(|driver| {
        current_well(driver)?;
        driver.engine.run();
        let (_, offset) = driver.engine.memory.allocation(address)?;
        let gpu = current_well(driver)?;
        let owner = driver.engine.memory.free_at(address - offset)?;
        // What was enabled for it ends with the last that needs it.
        let memory = &driver.engine.memory;
        let opened = |s: &simgpu_model::memory::Store| s.is_adopted() && s.gpu == owner;
        if !memory.stores.values().any(opened) {
            let mut lazily = lazily();
            if let Some(n) = lazily.iter().position(|pair| *pair == (gpu, owner)) {
                lazily.swap_remove(n);
                driver.disable_peer(gpu, owner)?;
            }
        }
        Ok(())
    })
}

/// Peer access that opening memory has enabled: from whom to whose.
fn lazily() -> MutexGuard<'static, Vec<(usize, usize)>> {
    static PAIRS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    PAIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemExportToShareableHandle(
    to: *mut c_void,
    handle: u64,
    kind: c_uint,
    flags: u64,
) -> c_int {
    call(|driver| {
        if kind != DESCRIPTOR || flags != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        driver.engine.run();
        let store = driver.engine.memory.store_of(handle)?;
        let descriptor = share(driver, store)?;
        // SAFETY: the caller's pointer to an int.
        unsafe { put(to.cast(), again(descriptor)?) }
    })
}

/// The same file once more, for the caller to keep.
fn again(descriptor: RawFd) -> Result<RawFd> {
    // SAFETY: it stays open while its store is shared.
    let own = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_dupfd_cloexec(own, 0).map(IntoRawFd::into_raw_fd).map_err(|_| Status::OUT_OF_MEMORY)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemImportFromShareableHandle(
    handle: *mut u64,
    from: *mut c_void,
    kind: c_uint,
) -> c_int {
    call(|driver| {
        if kind != DESCRIPTOR {
            return Err(Status::NOT_SUPPORTED);
        }
        // The descriptor's number itself stands where a pointer would.
        let descriptor = RawFd::try_from(from.addr()).map_err(|_| Status::INVALID_VALUE)?;
        let (store, _) = adopt(driver, "self", descriptor)?;
        let found = driver.engine.memory.handle_for(store);
        // SAFETY: the caller's pointer.
        unsafe { put(handle, found) }
    })
}

const _: () = assert!(size_of::<Token>() == 64);

/// How a file begins.
const BEGINNING: [u8; 8] = *b"simgpu/1";
/// Bytes before the content: the beginning, and what is told of the store.
const HEAD: usize = 32;

/// The files of the stores that this process shares.
static OWN: Mutex<BTreeMap<StoreId, OwnedFd>> = Mutex::new(BTreeMap::new());

/// Shares a store, and returns its file's descriptor, which stays this process's.
pub(crate) fn share(driver: &mut Simulation, store: StoreId) -> Result<RawFd> {
    let memory = &mut driver.engine.memory;
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.retain(|id, _| memory.stores.contains_key(id));
    let entry = match own.entry(store) {
        Entry::Occupied(known) => return Ok(known.get().as_raw_fd()),
        Entry::Vacant(entry) => entry,
    };
    let file = Shared::new(memory.told(store)?)?;
    let kept: OwnedFd = file.0.try_clone().map_err(|_| Status::OUT_OF_MEMORY)?.into();
    memory.share(store, Box::new(file))?;
    Ok(entry.insert(kept).as_raw_fd())
}

/// The store of another process's descriptor `fd`, or of this process's, where `process` is `self`.
pub(crate) fn adopt(driver: &mut Simulation, process: &str, fd: RawFd) -> Result<(StoreId, Told)> {
    let (file, told) = Shared::opened(process, fd)?;
    Ok((driver.engine.memory.adopt(told, Box::new(file)), told))
}

/// One such file.
#[derive(Debug)]
struct Shared(File);

impl Shared {
    fn new(told: Told) -> Result<Self> {
        let file = memfd_create("simgpu", MemfdFlags::CLOEXEC).map_err(|_| Status::OUT_OF_MEMORY)?;
        let numbers = [told.gpu as u64, told.bytes, told.physical];
        let head: Vec<_> =
            BEGINNING.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect();
        let file = File::from(file);
        file.write_all_at(&head, 0).map_err(|_| Status::OUT_OF_MEMORY)?;
        Ok(Self(file))
    }

    /// Opened anew rather than taken over: locks are between openings, not between descriptors.
    fn opened(process: &str, fd: RawFd) -> Result<(Self, Told)> {
        let file = File::options().read(true).write(true).open(format!("/proc/{process}/fd/{fd}"));
        let file = file.map_err(|_| Status::INVALID_VALUE)?;
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0).map_err(|_| Status::INVALID_VALUE)?;
        let (magic, rest) = head.split_at(BEGINNING.len());
        let numbers: Vec<_> = rest.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        match numbers[..] {
            [gpu, bytes, physical] if magic == BEGINNING => {
                let gpu = usize::try_from(gpu).map_err(|_| Status::INVALID_VALUE)?;
                Ok((Self(file), Told { gpu, bytes, physical }))
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn content(&self) -> std::io::Result<Vec<u8>> {
        let bytes = usize::try_from(self.0.metadata()?.len()).unwrap_or_default().saturating_sub(HEAD);
        let mut content = vec![0; bytes];
        self.0.read_exact_at(&mut content, HEAD as u64)?;
        Ok(content)
    }

    fn replace(&self, content: &[u8]) -> std::io::Result<()> {
        self.0.set_len((HEAD + content.len()) as u64)?;
        self.0.write_all_at(content, HEAD as u64)
    }
}

impl Backing for Shared {
    fn load(&self) -> Vec<u8> {
        let content = self.0.lock().and_then(|()| self.content()).unwrap_or_else(|e| die(&e));
        self.0.unlock().unwrap_or_else(|e| die(&e));
        content
    }

    fn change(&self, f: &mut dyn FnMut(&[u8]) -> Vec<u8>) {
        let old = self.0.lock().and_then(|()| self.content()).unwrap_or_else(|e| die(&e));
        self.replace(&f(&old)).and_then(|()| self.0.unlock()).unwrap_or_else(|e| die(&e));
    }
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn die(error: &std::io::Error) -> ! {
    eprintln!("simgpu: memory that processes share: {error}");
    std::process::abort();
}
