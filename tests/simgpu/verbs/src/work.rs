//! Work requests: a transfer is done when it is posted, and its completion is put into the queue.

use crate::memory::{self, Completion, QueuePair, Registration, ScatterGatherEntry, WorkRequest};
use crate::{RATE, REMOTE_ACCESS, RETRY_EXCEEDED, faults};
use simgpu_model::library_folder::{count, count_data};
use simgpu_model::scenario::{VerbsFault, VerbsKind};
use std::ffi::{CStr, CString, c_int};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, park, sleep};
use std::time::{Duration, Instant};

pub(crate) unsafe extern "C" fn post(
    pair: *mut QueuePair,
    work: *mut WorkRequest,
    _refused: *mut *mut WorkRequest,
) -> c_int {
    // SAFETY: the caller's structures.
    let (pair, work) = unsafe { (&mut *pair, &*work) };
    // SAFETY: as above; there is exactly one scatter/gather entry.
    let entry = unsafe { &*work.sg_list };
    pair.posted += 1;
    // SAFETY: the context is open.
    let device = unsafe { &(*(*pair.context).device).name };
    let (bytes, read) = (u64::from(entry.bytes), work.opcode == 4);
    let Some(region) = memory::by_rkey(entry.lkey, entry.address, bytes) else {
        return crate::EINVAL;
    };
    let concerns = |fault: &&VerbsFault| {
        bytes >= fault.from_bytes
            && fault.read.is_none_or(|wanted| wanted == read)
            && fault.gpu.is_none_or(|wanted| wanted == region.gpu)
            && pair.posted.is_multiple_of(fault.every.max(1))
    };
    let fault = faults(None, device).find(concerns).map(|fault| fault.kind);
    let begun = Instant::now();
    let status = transfer(&region, entry, work, (pair.remote_qp, device), fault);
    let Some(status) = status else { return 0 };
    // Small transfers are not slowed down, and one that is lost or failed ends immediately.
    if bytes >= 1 << 16
        && fault.is_none_or(|kind| !matches!(kind, VerbsKind::Error | VerbsKind::Dropped))
    {
        let slow = if fault == Some(VerbsKind::Slow) {
            10
        } else {
            1
        };
        pair.burst.pace(
            begun,
            bytes,
            !read,
            Duration::from_micros(slow * bytes / RATE),
        );
    }
    let (id, opcode, vendor) = (work.id, work.opcode, 0);
    let completion = Completion {
        id,
        status,
        opcode,
        vendor,
        bytes: entry.bytes,
        reserved: [0; 6],
    };
    // SAFETY: the queue of this pair.
    unsafe { &*pair.queue }
        .done
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push_back(completion);
    0
}

/// Moves the data; returns the status of its completion, if there is one.
fn transfer(
    region: &Registration,
    entry: &ScatterGatherEntry,
    work: &WorkRequest,
    (other, device): (u32, &CStr),
    fault: Option<VerbsKind>,
) -> Option<c_int> {
    let bytes = u64::from(entry.bytes);
    let write = work.opcode == 0;
    match fault {
        Some(VerbsKind::Late) => return None,
        Some(VerbsKind::Error) => return Some(RETRY_EXCEEDED),
        Some(VerbsKind::Crash) => std::process::abort(),
        Some(VerbsKind::Hang) => loop {
            park();
        },
        Some(VerbsKind::Dropped) => return Some(0),
        _ => {}
    }
    let short = usize::from(fault == Some(VerbsKind::Short) && bytes > 1);
    // A stray byte after the last transfer of the memory would be outside of the test's memory.
    let stray = usize::from(fault == Some(VerbsKind::Stray) && bytes < 1 << 16);
    let length = (entry.bytes as usize).saturating_sub(short) + stray;
    let mut data = vec![0; length];
    let flip_bit = |data: &mut [u8]| {
        if let Some(byte) = data.first_mut().filter(|_| fault == Some(VerbsKind::Wrong)) {
            *byte ^= 4;
        }
    };
    // A write's data leaves this port, a read's data arrives at it.
    let counted = fault != Some(VerbsKind::Uncounted);
    if counted {
        count_data(&device.to_string_lossy(), write, bytes);
    }
    if fault == Some(VerbsKind::Counts) {
        let wanted = faults(Some(VerbsKind::Counts), device);
        wanted.for_each(|fault| count(&device.to_string_lossy(), &fault.counter, 1));
    }
    let moved = if write {
        let mut read = memory::access(region, entry.address, &mut data, false);
        flip_bit(&mut data);
        read &= access_remote(other, work.rkey, work.remote, &mut data, true).unwrap_or_default();
        read
    } else {
        let mut read = match access_remote(other, work.rkey, work.remote, &mut data, false) {
            Ok(read) => read,
            Err(_) => return Some(RETRY_EXCEEDED),
        };
        flip_bit(&mut data);
        read &= memory::access(region, entry.address, &mut data, true);
        read
    };
    Some(if moved { 0 } else { REMOTE_ACCESS })
}

// The connection between two processes: each process with a queue pair serves its registered memory to the other one, at a
// Unix socket whose abstract name contains its process id, which is also the number of its queue pair.

/// Size of a request's header: operation, key, address, number of bytes.
const HEAD: usize = 1 + 4 + 8 + 8;

static CONNECTION: Mutex<Option<(u32, UnixStream)>> = Mutex::new(None);

fn name(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("simgpu-verbs-{pid}"))
}

/// Starts to serve this process's memory; `device` is the card through which other processes reach it.
pub(crate) fn serve(device: &CStr) -> io::Result<()> {
    static STARTED: Once = Once::new();
    let device = device.to_owned();
    let mut result = Ok(());
    STARTED.call_once(|| {
        result = name(std::process::id())
            .and_then(|name| UnixListener::bind_addr(&name))
            .map(|listener| {
                thread::spawn(move || {
                    for stream in listener.incoming().flatten() {
                        let device = device.clone();
                        thread::spawn(move || while serve_request(&stream, &device).is_ok() {});
                    }
                });
            });
    });
    result
}

fn serve_request(mut stream: &UnixStream, device: &CString) -> io::Result<()> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head)?;
    let (opcode, rest) = head.split_at(1);
    let (key, rest) = rest.split_at(4);
    let (address, bytes) = rest.split_at(8);
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let (key, address, bytes) = (number(key), number(address), number(bytes));
    let mut data = vec![0; usize::try_from(bytes).unwrap_or_default()];
    if faults(Some(VerbsKind::Uncounted), device).next().is_none() {
        count_data(&device.to_string_lossy(), opcode != [1], bytes);
    }
    let region = u32::try_from(key)
        .ok()
        .and_then(|key| memory::by_rkey(key, address, bytes));
    if opcode == [1] {
        stream.read_exact(&mut data)?;
        let done = region.is_some_and(|region| memory::access(&region, address, &mut data, true));
        stream.write_all(&[u8::from(done)])
    } else {
        let done = region.is_some_and(|region| memory::access(&region, address, &mut data, false));
        stream.write_all(&[u8::from(done)])?;
        stream.write_all(&data)
    }
}

/// Writes to the memory of another process, or reads it; returns whether that process allowed it.
///
/// # Errors
/// If that process is gone.
pub(crate) fn access_remote(
    pid: u32,
    rkey: u32,
    address: u64,
    data: &mut [u8],
    write: bool,
) -> io::Result<bool> {
    let mut other = CONNECTION.lock().unwrap_or_else(PoisonError::into_inner);
    if other.as_ref().is_none_or(|(of, _)| *of != pid) {
        *other = Some((pid, UnixStream::connect_addr(&name(pid)?)?));
    }
    let Some((_, stream)) = other.as_mut() else {
        return Ok(false);
    };
    let mut head = vec![u8::from(write)];
    head.extend(rkey.to_le_bytes());
    head.extend(address.to_le_bytes());
    head.extend((data.len() as u64).to_le_bytes());
    if write {
        head.extend(&*data);
    }
    stream.write_all(&head)?;
    let mut done = [0];
    stream.read_exact(&mut done)?;
    if !write {
        stream.read_exact(data)?;
    }
    Ok(done == [1])
}

/// A pause between two transfers at least this long ends a burst.
const PAUSE: Duration = Duration::from_millis(20);

/// Consecutive transfers of one size in one direction.
#[derive(Default)]
pub(crate) struct Burst {
    bytes: u64,
    write: bool,
    /// By how much they have been too slow in total so far.
    late: Duration,
    /// When the last transfer ended.
    ended: Option<Instant>,
}

impl Burst {
    /// Waits until a transfer that began at `begun` has taken as long as it should. If a busy host delays one transfer, the
    /// next ones of the burst are shortened by the delay, so that the rate is the scenario's and not the host's.
    pub(crate) fn pace(&mut self, begun: Instant, bytes: u64, write: bool, whole: Duration) {
        let follows = self
            .ended
            .is_some_and(|ended| begun.duration_since(ended) < PAUSE);
        if (self.bytes, self.write) != (bytes, write) || !follows {
            *self = Self {
                bytes,
                write,
                ..Self::default()
            };
        }
        let since = self.ended.unwrap_or(begun);
        let due = whole.saturating_sub(self.late);
        sleep(due.saturating_sub(since.elapsed()));
        self.late = (self.late + since.elapsed()).saturating_sub(whole);
        self.ended = Some(Instant::now());
    }
}
