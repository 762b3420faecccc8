//! The board on which the ranks of several processes meet: a file without a name that all of them have mapped. It
//! disappears with the last process, however that ends. Each rank writes in its own part, and waiting for news means
//! waiting for one counter. A process of another machine has a copy (`relay.rs`).

use crate::driver::{Functions, Sink};
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
pub(crate) const RANKS: usize = 64;
/// Sizes in bytes: the counter's page, a rank's description of itself, and its data for each of two simultaneous
/// collectives.
const HEAD: usize = 4096;
const HELLO: usize = 4096;
const SLOT: usize = 1 << 20;
const AREA: usize = HELLO + 2 * SLOT;
const ALL: usize = HEAD + RANKS * AREA;
/// Duration of a single wait.
const MOMENT: Duration = Duration::from_millis(2);

/// Boards that this process made; they are kept for ranks that join later.
static MADE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// A mapping of a board.
#[derive(Debug)]
pub(crate) struct Map {
    base: *mut u8,
}

// SAFETY: all shared data is accessed by atomic operations, or written before one and read after it.
unsafe impl Send for Map {}
// SAFETY: the same.
unsafe impl Sync for Map {}

/// A mapping as used by the ranks of one communicator.
#[derive(Debug)]
pub(crate) struct Board {
    map: Arc<Map>,
    ranks: usize,
    seen: AtomicU32,
    /// The connection to the original board, if this is a copy on another machine.
    away: Option<Mutex<TcpStream>>,
}

/// Creates a board and keeps it; returns its descriptor's number.
pub(crate) fn make() -> Result<i32> {
    let fd = memory()?;
    let number = fd.as_raw_fd();
    MADE.lock().unwrap_or_else(PoisonError::into_inner).push(fd);
    Ok(number)
}

fn memory() -> Result<OwnedFd> {
    let fd = memfd_create("simgpu-nccl", MemfdFlags::CLOEXEC).map_err(|_| Code::SYSTEM)?;
    ftruncate(&fd, ALL as u64).map_err(|_| Code::SYSTEM)?;
    Ok(fd)
}

impl Map {
    /// The board that a process of this machine made.
    pub(crate) fn of(process: u32, descriptor: i32) -> Result<Self> {
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = File::options().read(true).write(true).open(path).map_err(|_| Code::SYSTEM)?;
        Self::new(&file)
    }

    fn new(file: impl AsFd) -> Result<Self> {
        let (rights, null) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: a new mapping, which overlaps no other.
        let base = unsafe { mmap(null, ALL, rights, MapFlags::SHARED, file, 0) }.map_err(|_| Code::SYSTEM)?;
        Ok(Self { base: base.cast() })
    }

    fn counter(&self) -> &AtomicU32 {
        // SAFETY: the mapping is larger than this, page-aligned, and outlives the reference.
        unsafe { AtomicU32::from_ptr(self.base.cast()) }
    }

    /// A rank's area for its description of itself (0), or for its data of an even (1) or odd (2) collective.
    fn area(&self, rank: usize, which: usize) -> *mut u8 {
        let inside = if which == 0 { 0 } else { HELLO + (which - 1) * SLOT };
        self.base.wrapping_add(HEAD + rank.min(RANKS - 1) * AREA + inside)
    }

    /// An area's mark: the number that is written last and read first.
    fn mark(area: *mut u8) -> &'static AtomicU64 {
        // SAFETY: areas are within the mapping and page-aligned; `self` outlives all callers in this file.
        unsafe { AtomicU64::from_ptr(area.cast()) }
    }

    /// Writes a rank's data, and then its mark.
    pub(crate) fn write(&self, rank: usize, which: usize, mark: u64, bytes: &[u8]) {
        let area = self.area(rank, which);
        let room = if which == 0 { HELLO } else { SLOT } - 16;
        if bytes.len() > room {
            die(&format!("rank {rank} brings {} bytes, and there is room for {room}", bytes.len()));
        }
        // SAFETY: the bytes fit; other processes read them only after the mark.
        unsafe {
            area.wrapping_add(8).cast::<u64>().write(bytes.len() as u64);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), area.wrapping_add(16), bytes.len());
        }
        Self::mark(area).store(mark, Ordering::Release);
        self.counter().fetch_add(1, Ordering::Release);
        // An error means only that nothing was waiting.
        let _ = futex::wake(self.counter(), futex::Flags::empty(), u32::try_from(i32::MAX).unwrap_or(1));
    }

    fn read(&self, rank: usize, which: usize, mark: u64) -> Option<Vec<u8>> {
        self.after(rank, which, |there| there == mark).map(|(_, bytes)| bytes)
    }

    /// A rank's data and its mark, if the mark is wanted.
    pub(crate) fn after(
        &self,
        rank: usize,
        which: usize,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<(u64, Vec<u8>)> {
        let area = self.area(rank, which);
        let mark = Self::mark(area).load(Ordering::Acquire);
        if !wanted(mark) {
            return None;
        }
        // SAFETY: it was written before the mark, in the same area, and is not overwritten before all ranks have read it.
        unsafe {
            let length = area.wrapping_add(8).cast::<u64>().read();
            let length = usize::try_from(length).unwrap_or_default().min(SLOT - 16);
            Some((mark, std::slice::from_raw_parts(area.wrapping_add(16), length).to_vec()))
        }
    }

    /// Waits a moment for another write; false if there was none.
    pub(crate) fn news(&self, seen: &AtomicU32) -> bool {
        let before = seen.load(Ordering::Acquire);
        if self.counter().load(Ordering::Acquire) == before {
            let moment = futex::Timespec { tv_sec: 0, tv_nsec: i64::from(MOMENT.subsec_nanos()) };
            // The counter may have changed meanwhile, or the time is up: both cases are handled below.
            let _ = futex::wait(self.counter(), futex::Flags::empty(), before, Some(&moment));
        }
        let now = self.counter().load(Ordering::Acquire);
        seen.store(now, Ordering::Release);
        now != before
    }
}

impl Board {
    /// Opens the board of an id.
    pub(crate) fn open(id: &UniqueId, ranks: usize) -> Result<Self> {
        let seen = AtomicU32::new(0);
        let Some(at) = id.elsewhere()? else {
            let map = Arc::new(Map::of(id.process, id.descriptor)?);
            return Ok(Self { map, ranks, seen, away: None });
        };
        let map = Arc::new(Map::new(memory()?)?);
        let away = relay::join(at, &map).map_err(|_| Code::SYSTEM)?;
        Ok(Self { map, ranks, seen, away: Some(Mutex::new(away)) })
    }

    fn write(&self, rank: usize, which: usize, mark: u64, bytes: &[u8]) {
        self.map.write(rank, which, mark, bytes);
        if let Some(away) = &self.away {
            let mut away = away.lock().unwrap_or_else(PoisonError::into_inner);
            // If the connection is lost, nothing arrives any more, and waiting ranks wait until their process is ended.
            let _ = relay::send(&mut away, rank, which, mark, bytes);
        }
    }

    /// Writes a rank's description of itself.
    pub(crate) fn greet(&self, rank: usize, hello: &[u8]) {
        self.write(rank, 0, 1, hello);
    }

    /// Waits until all ranks have described themselves, and returns the descriptions.
    pub(crate) fn all_greeted(&self) -> Vec<Vec<u8>> {
        loop {
            let all: Option<Vec<_>> = (0..self.ranks).map(|rank| self.map.read(rank, 0, 1)).collect();
            match all {
                Some(all) => return all,
                None => self.map.news(&self.seen),
            };
        }
    }

    /// Converts the board to the functions that the simulated libcuda calls.
    pub(crate) fn functions(self) -> Functions {
        Functions { context: Box::into_raw(Box::new(self)).cast(), give, all, news, end }
    }
}

impl Drop for Map {
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
/// `context` is a board, and `part` has `length` bytes.
unsafe extern "C" fn give(context: *mut c_void, rank: usize, number: u64, part: *const u8, length: usize) {
    // SAFETY: guaranteed by the caller.
    let (board, part) = unsafe { (&*context.cast::<Board>(), std::slice::from_raw_parts(part, length)) };
    board.write(rank, slot(number), number + 1, part);
}

/// # Safety
/// `context` is a board, and `to` is a valid argument of `sink`.
unsafe extern "C" fn all(context: *mut c_void, number: u64, sink: Sink, to: *mut c_void) -> bool {
    // SAFETY: guaranteed by the caller.
    let board = unsafe { &*context.cast::<Board>() };
    let all: Option<Vec<_>> = (0..board.ranks).map(|r| board.map.read(r, slot(number), number + 1)).collect();
    let Some(all) = all else { return false };
    for part in all {
        // SAFETY: the same.
        unsafe { sink(to, part.as_ptr(), part.len()) };
    }
    true
}

/// # Safety
/// `context` is a board.
unsafe extern "C" fn news(context: *mut c_void) -> bool {
    // SAFETY: guaranteed by the caller.
    let board = unsafe { &*context.cast::<Board>() };
    board.map.news(&board.seen)
}

/// # Safety
/// `context` is a board that is not used again.
unsafe extern "C" fn end(context: *mut c_void) {
    // SAFETY: `functions` created it.
    drop(unsafe { Box::from_raw(context.cast::<Board>()) });
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn die(why: &str) -> ! {
    eprintln!("simgpu: {why}");
    std::process::abort();
}
