//! The rendezvous of the ranks of several processes: shared memory in a file without a name. It disappears with the
//! last process, however that ends. Each rank writes into its own areas; waiting for a message means waiting until
//! one counter changes. A process of another machine has a copy (`relay.rs`).

use crate::driver::{RankFunctions, Sink};
use crate::init::UniqueId;
use crate::log::{Code, Result};
use crate::relay;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::ffi::c_void;
use std::fs::File;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The maximum number of ranks.
pub(crate) const MAX_RANKS: usize = 64;
/// Sizes in bytes: the counter's page, a rank's description of itself, and its data for each of two simultaneous
/// collectives.
const HEAD: usize = 4096;
const IDENTITY: usize = 4096;
const SLOT: usize = 1 << 20;
const AREA: usize = IDENTITY + 2 * SLOT;
const ALL: usize = HEAD + MAX_RANKS * AREA;
/// Duration of a single wait.
const WAIT: Duration = Duration::from_millis(2);

/// The rendezvous that this process created; they are kept for ranks that join later.
static CREATED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// A mapping of a rendezvous.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    base: *mut u8,
}

// SAFETY: all shared data is accessed by atomic operations, or written before one and read after it.
unsafe impl Send for SharedMapping {}
// SAFETY: the same.
unsafe impl Sync for SharedMapping {}

/// A mapping as used by the ranks of one communicator.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    mapping: Arc<SharedMapping>,
    ranks: usize,
    seen: AtomicU32,
    /// The connection to the original rendezvous, if this is a copy on another machine.
    original: Option<Mutex<TcpStream>>,
}

/// Creates a rendezvous and keeps it; returns its descriptor's number.
pub(crate) fn create() -> Result<i32> {
    let fd = memory()?;
    let number = fd.as_raw_fd();
    CREATED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(fd);
    Ok(number)
}

fn memory() -> Result<OwnedFd> {
    let fd = memfd_create("simgpu-nccl", MemfdFlags::CLOEXEC).map_err(|_| Code::SYSTEM)?;
    ftruncate(&fd, ALL as u64).map_err(|_| Code::SYSTEM)?;
    Ok(fd)
}

impl SharedMapping {
    /// The rendezvous that a process of this machine made.
    pub(crate) fn of(process: u32, descriptor: i32) -> Result<Self> {
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|_| Code::SYSTEM)?;
        Self::new(&file)
    }

    fn new(file: impl AsFd) -> Result<Self> {
        let (rights, null) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: a new mapping, which overlaps no other.
        let base = unsafe { mmap(null, ALL, rights, MapFlags::SHARED, file, 0) }
            .map_err(|_| Code::SYSTEM)?;
        Ok(Self { base: base.cast() })
    }

    fn counter(&self) -> &AtomicU32 {
        // SAFETY: the mapping is larger than this, page-aligned, and outlives the reference.
        unsafe { AtomicU32::from_ptr(self.base.cast()) }
    }

    /// A rank's area for its description of itself (0), or for its data of an even (1) or odd (2) collective.
    fn area(&self, rank: usize, area_index: usize) -> *mut u8 {
        let inside = if area_index == 0 {
            0
        } else {
            IDENTITY + (area_index - 1) * SLOT
        };
        self.base
            .wrapping_add(HEAD + rank.min(MAX_RANKS - 1) * AREA + inside)
    }

    /// An area's mark: the number that is written last and read first.
    fn mark(area: *mut u8) -> &'static AtomicU64 {
        // SAFETY: areas are within the mapping and page-aligned; `self` outlives all callers in this file.
        unsafe { AtomicU64::from_ptr(area.cast()) }
    }

    /// Writes a rank's data, and then its mark.
    pub(crate) fn write(&self, rank: usize, area_index: usize, mark: u64, bytes: &[u8]) {
        let area = self.area(rank, area_index);
        let room = if area_index == 0 { IDENTITY } else { SLOT } - 16;
        if bytes.len() > room {
            die(&format!(
                "rank {rank} brings {} bytes, and there is room for {room}",
                bytes.len()
            ));
        }
        // SAFETY: the bytes fit; other processes read them only after the mark.
        unsafe {
            area.wrapping_add(8).cast::<u64>().write(bytes.len() as u64);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), area.wrapping_add(16), bytes.len());
        }
        Self::mark(area).store(mark, Ordering::Release);
        self.counter().fetch_add(1, Ordering::Release);
        // An error means only that nothing was waiting.
        let _ = futex::wake(
            self.counter(),
            futex::Flags::empty(),
            u32::try_from(i32::MAX).unwrap_or(1),
        );
    }

    fn read(&self, rank: usize, area_index: usize, mark: u64) -> Option<Vec<u8>> {
        self.read_if(rank, area_index, |there| there == mark)
            .map(|(_, bytes)| bytes)
    }

    /// A rank's data and its mark, if the mark is wanted.
    pub(crate) fn read_if(
        &self,
        rank: usize,
        area_index: usize,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<(u64, Vec<u8>)> {
        let area = self.area(rank, area_index);
        let mark = Self::mark(area).load(Ordering::Acquire);
        if !wanted(mark) {
            return None;
        }
        // SAFETY: it was written before the mark, in the same area, and is not overwritten before all ranks have read it.
        unsafe {
            let length = area.wrapping_add(8).cast::<u64>().read();
            let length = usize::try_from(length).unwrap_or_default().min(SLOT - 16);
            Some((
                mark,
                std::slice::from_raw_parts(area.wrapping_add(16), length).to_vec(),
            ))
        }
    }

    /// Waits a moment for another write; false if there was none.
    pub(crate) fn wait_for_message(&self, seen: &AtomicU32) -> bool {
        let before = seen.load(Ordering::Acquire);
        if self.counter().load(Ordering::Acquire) == before {
            let moment = futex::Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(WAIT.subsec_nanos()),
            };
            // The counter may have changed meanwhile, or the time is up: both cases are handled below.
            let _ = futex::wait(self.counter(), futex::Flags::empty(), before, Some(&moment));
        }
        let now = self.counter().load(Ordering::Acquire);
        seen.store(now, Ordering::Release);
        now != before
    }
}

impl Rendezvous {
    /// Opens the rendezvous of an id.
    pub(crate) fn open(id: &UniqueId, ranks: usize) -> Result<Self> {
        let seen = AtomicU32::new(0);
        let Some(at) = id.remote_address()? else {
            let mapping = Arc::new(SharedMapping::of(id.process, id.descriptor)?);
            return Ok(Self {
                mapping,
                ranks,
                seen,
                original: None,
            });
        };
        let mapping = Arc::new(SharedMapping::new(memory()?)?);
        let original = relay::join(at, &mapping).map_err(|_| Code::SYSTEM)?;
        Ok(Self {
            mapping,
            ranks,
            seen,
            original: Some(Mutex::new(original)),
        })
    }

    fn write(&self, rank: usize, area_index: usize, mark: u64, bytes: &[u8]) {
        self.mapping.write(rank, area_index, mark, bytes);
        if let Some(original) = &self.original {
            let mut original = original.lock().unwrap_or_else(PoisonError::into_inner);
            // If the connection is lost, nothing arrives any more, and waiting ranks wait until their process is ended.
            let _ = relay::send(&mut original, rank, area_index, mark, bytes);
        }
    }

    /// Writes a rank's description of itself.
    pub(crate) fn publish_identity(&self, rank: usize, identity: &[u8]) {
        self.write(rank, 0, 1, identity);
    }

    /// Waits until all ranks have described themselves, and returns the descriptions.
    pub(crate) fn wait_for_identities(&self) -> Vec<Vec<u8>> {
        loop {
            let all: Option<Vec<_>> = (0..self.ranks)
                .map(|rank| self.mapping.read(rank, 0, 1))
                .collect();
            match all {
                Some(all) => return all,
                None => self.mapping.wait_for_message(&self.seen),
            };
        }
    }

    /// Converts the rendezvous to the functions that the simulated libcuda calls.
    pub(crate) fn functions(self) -> RankFunctions {
        RankFunctions {
            context: Box::into_raw(Box::new(self)).cast(),
            send_contribution,
            contributions,
            wait_for_message,
            close,
        }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more. If unmapping fails, the process is about to end anyway.
        let _ = unsafe { munmap(self.base.cast(), ALL) };
    }
}

/// The area of a collective's data: no rank is more than one collective ahead of another.
fn slot(number: u64) -> usize {
    if number.is_multiple_of(2) { 1 } else { 2 }
}

/// # Safety
/// `context` is a rendezvous, and `part` has `length` bytes.
unsafe extern "C" fn send_contribution(
    context: *mut c_void,
    rank: usize,
    number: u64,
    part: *const u8,
    length: usize,
) {
    // SAFETY: guaranteed by the caller.
    let (rendezvous, part) = unsafe {
        (
            &*context.cast::<Rendezvous>(),
            std::slice::from_raw_parts(part, length),
        )
    };
    rendezvous.write(rank, slot(number), number + 1, part);
}

/// # Safety
/// `context` is a rendezvous, and `to` is a valid argument of `sink`.
unsafe extern "C" fn contributions(
    context: *mut c_void,
    number: u64,
    sink: Sink,
    to: *mut c_void,
) -> bool {
    // SAFETY: guaranteed by the caller.
    let rendezvous = unsafe { &*context.cast::<Rendezvous>() };
    let all: Option<Vec<_>> = (0..rendezvous.ranks)
        .map(|r| rendezvous.mapping.read(r, slot(number), number + 1))
        .collect();
    let Some(all) = all else { return false };
    for part in all {
        // SAFETY: the same.
        unsafe { sink(to, part.as_ptr(), part.len()) };
    }
    true
}

/// # Safety
/// `context` is a rendezvous.
unsafe extern "C" fn wait_for_message(context: *mut c_void) -> bool {
    // SAFETY: guaranteed by the caller.
    let rendezvous = unsafe { &*context.cast::<Rendezvous>() };
    rendezvous.mapping.wait_for_message(&rendezvous.seen)
}

/// # Safety
/// `context` is a rendezvous that is not used again.
unsafe extern "C" fn close(context: *mut c_void) {
    // SAFETY: `functions` created it.
    drop(unsafe { Box::from_raw(context.cast::<Rendezvous>()) });
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn die(why: &str) -> ! {
    eprintln!("simgpu: {why}");
    std::process::abort();
}
