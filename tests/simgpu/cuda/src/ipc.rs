//! Memory of other processes: through CUDA IPC, and through exported descriptors of virtual memory allocations. The files
//! that contain shared memory have no name in any file system and disappear with their last holder. An exported descriptor
//! is such a file; a CUDA IPC token contains the number of its owner's descriptor.

use crate::state::{call, current_alive, put};
use rustix::fd::{BorrowedFd, IntoRawFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use simgpu_model::memory::{Backing, StoreId, StoreInfo};
use simgpu_model::{Result, Simulation, Status};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A CUDA IPC token: magic, the process, its descriptor, and the offset in the allocation; the rest is zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct IpcMemHandle {
    magic: [u8; 8],
    process: u32,
    descriptor: c_int,
    offset: u64,
    rest: [u8; 40],
}

const MAGIC: [u8; 8] = *b"simipc/1";
/// The only kind of shareable handle: a file descriptor.
const DESCRIPTOR: c_uint = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuIpcGetMemHandle(handle: *mut IpcMemHandle, address: u64) -> c_int {
    call(|driver| {
        current_alive(driver)?;
        driver.engine.run();
        let (store, offset) = driver.engine.memory.allocation(address)?;
        let descriptor = share(driver, store)?;
        let process = std::process::id();
        // SAFETY: the caller's pointer is valid.
        unsafe {
            put(
                handle,
                IpcMemHandle {
                    magic: MAGIC,
                    process,
                    descriptor,
                    offset,
                    rest: [0; 40],
                },
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuIpcOpenMemHandle_v2(
    address: *mut u64,
    handle: IpcMemHandle,
    flags: c_uint,
) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        if handle.magic != MAGIC || flags != 1 {
            return Err(Status::INVALID_VALUE);
        }
        // As in the real driver: not in the process that exported it.
        if handle.process == std::process::id() {
            return Err(Status::INVALID_CONTEXT);
        }
        let (store, info) = adopt(driver, &handle.process.to_string(), handle.descriptor)?;
        // The flag requests peer access if it is needed.
        if info.gpu != gpu {
            if !driver.has_context(info.gpu) {
                driver.retain(info.gpu);
            }
            match driver.enable_peer(gpu, info.gpu) {
                Ok(()) => lazy_peer_access().push((gpu, info.gpu)),
                Err(Status::PEER_ACCESS_ALREADY_ENABLED) => {}
                Err(status) => return Err(status),
            }
        }
        let start = driver.engine.memory.open(store)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(address, start + handle.offset) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuIpcCloseMemHandle(address: u64) -> c_int {
    call(|driver| {
        current_alive(driver)?;
        driver.engine.run();
        let (_, offset) = driver.engine.memory.allocation(address)?;
        let gpu = current_alive(driver)?;
        let owner = driver.engine.memory.free_at(address - offset)?;
        // Peer access that was enabled for it ends when the last user is closed.
        let memory = &driver.engine.memory;
        let opened = |s: &simgpu_model::memory::Store| s.is_adopted() && s.gpu == owner;
        if !memory.stores.values().any(opened) {
            let mut lazy_peer_access = lazy_peer_access();
            if let Some(n) = lazy_peer_access
                .iter()
                .position(|pair| *pair == (gpu, owner))
            {
                lazy_peer_access.swap_remove(n);
                driver.disable_peer(gpu, owner)?;
            }
        }
        Ok(())
    })
}

/// The peer access that opening memory has enabled: from which GPU to whose memory.
fn lazy_peer_access() -> MutexGuard<'static, Vec<(usize, usize)>> {
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
        unsafe { put(to.cast(), duplicate(descriptor)?) }
    })
}

/// A duplicate of the descriptor, which the caller owns.
fn duplicate(descriptor: RawFd) -> Result<RawFd> {
    // SAFETY: it stays open while its store is shared.
    let own = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_dupfd_cloexec(own, 0)
        .map(IntoRawFd::into_raw_fd)
        .map_err(|_| Status::OUT_OF_MEMORY)
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
        // The pointer argument is the descriptor's number itself.
        let descriptor = RawFd::try_from(from.addr()).map_err(|_| Status::INVALID_VALUE)?;
        let (store, _) = adopt(driver, "self", descriptor)?;
        let found = driver.engine.memory.handle_for(store);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, found) }
    })
}

const _: () = assert!(size_of::<IpcMemHandle>() == 64);

/// The magic at the start of a file.
const FILE_MAGIC: [u8; 8] = *b"simgpu/1";
/// Size of the file's header: the magic and the store's information.
const HEADER_BYTES: usize = 32;

/// The files of the stores that this process shares.
static SHARED_STORES: Mutex<BTreeMap<StoreId, OwnedFd>> = Mutex::new(BTreeMap::new());

/// Shares a store, and returns its file's descriptor, which this process keeps.
pub(crate) fn share(driver: &mut Simulation, store: StoreId) -> Result<RawFd> {
    let memory = &mut driver.engine.memory;
    let mut own = SHARED_STORES.lock().unwrap_or_else(PoisonError::into_inner);
    own.retain(|id, _| memory.stores.contains_key(id));
    let entry = match own.entry(store) {
        Entry::Occupied(known) => return Ok(known.get().as_raw_fd()),
        Entry::Vacant(entry) => entry,
    };
    let file = SharedFile::new(memory.info(store)?)?;
    let kept: OwnedFd = file
        .0
        .try_clone()
        .map_err(|_| Status::OUT_OF_MEMORY)?
        .into();
    memory.share(store, Box::new(file))?;
    Ok(entry.insert(kept).as_raw_fd())
}

/// Adds the store of another process's descriptor `fd`, or of this process's if `process` is `self`.
pub(crate) fn adopt(
    driver: &mut Simulation,
    process: &str,
    fd: RawFd,
) -> Result<(StoreId, StoreInfo)> {
    let (file, info) = SharedFile::opened(process, fd)?;
    Ok((driver.engine.memory.adopt(info, Box::new(file)), info))
}

/// The file of a shared store.
#[derive(Debug)]
struct SharedFile(File);

impl SharedFile {
    fn new(info: StoreInfo) -> Result<Self> {
        let file =
            memfd_create("simgpu", MemfdFlags::CLOEXEC).map_err(|_| Status::OUT_OF_MEMORY)?;
        let numbers = [info.gpu as u64, info.bytes, info.physical];
        let head: Vec<_> = FILE_MAGIC
            .into_iter()
            .chain(numbers.into_iter().flat_map(u64::to_le_bytes))
            .collect();
        let file = File::from(file);
        file.write_all_at(&head, 0)
            .map_err(|_| Status::OUT_OF_MEMORY)?;
        Ok(Self(file))
    }

    /// Opened anew instead of duplicated: locks belong to open files, not to descriptors.
    fn opened(process: &str, fd: RawFd) -> Result<(Self, StoreInfo)> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{process}/fd/{fd}"));
        let file = file.map_err(|_| Status::INVALID_VALUE)?;
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, 0)
            .map_err(|_| Status::INVALID_VALUE)?;
        let (magic, rest) = head.split_at(FILE_MAGIC.len());
        let numbers: Vec<_> = rest
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b))
            .collect();
        match numbers[..] {
            [gpu, bytes, physical] if magic == FILE_MAGIC => {
                let gpu = usize::try_from(gpu).map_err(|_| Status::INVALID_VALUE)?;
                Ok((
                    Self(file),
                    StoreInfo {
                        gpu,
                        bytes,
                        physical,
                    },
                ))
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn content(&self) -> std::io::Result<Vec<u8>> {
        let bytes = usize::try_from(self.0.metadata()?.len())
            .unwrap_or_default()
            .saturating_sub(HEADER_BYTES);
        let mut content = vec![0; bytes];
        self.0.read_exact_at(&mut content, HEADER_BYTES as u64)?;
        Ok(content)
    }

    fn replace(&self, content: &[u8]) -> std::io::Result<()> {
        self.0.set_len((HEADER_BYTES + content.len()) as u64)?;
        self.0.write_all_at(content, HEADER_BYTES as u64)
    }
}

impl Backing for SharedFile {
    fn load(&self) -> Vec<u8> {
        let content = self
            .0
            .lock()
            .and_then(|()| self.content())
            .unwrap_or_else(|e| die(&e));
        self.0.unlock().unwrap_or_else(|e| die(&e));
        content
    }

    fn change(&self, f: &mut dyn FnMut(&[u8]) -> Vec<u8>) {
        let old = self
            .0
            .lock()
            .and_then(|()| self.content())
            .unwrap_or_else(|e| die(&e));
        self.replace(&f(&old))
            .and_then(|()| self.0.unlock())
            .unwrap_or_else(|e| die(&e));
    }
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn die(error: &std::io::Error) -> ! {
    eprintln!("simgpu: memory that processes share: {error}");
    std::process::abort();
}
