//! The files in which memory lies that several processes share: they have no name in any file system
//! and go with their last holder. A descriptor is such a file; a token for CUDA IPC says which of
//! its owner's descriptors it is.

use rustix::fs::{MemfdFlags, memfd_create};
use simgpu_model::memory::{Backing, StoreId, Told};
use simgpu_model::{Result, Simulation, Status};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// How a file begins.
const MAGIC: [u8; 8] = *b"simgpu/1";
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
        let head: Vec<_> = MAGIC.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect();
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
        let (magic, rest) = head.split_at(MAGIC.len());
        let numbers: Vec<_> = rest.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        match numbers[..] {
            [gpu, bytes, physical] if magic == MAGIC => {
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
