//! Work: a transfer is done when it is posted, and its completion waits in the queue.

use crate::memory::Region;
use crate::types::{Completion, Pair, Place, Work};
use crate::{RATE, REMOTE_ACCESS, RETRY_EXCEEDED, faults, memory, peer};
use simgpu_model::scenario::{VerbsFault, VerbsKind};
use std::ffi::c_int;
use std::sync::PoisonError;
use std::thread::{park, sleep};
use std::time::{Duration, Instant};

pub(crate) unsafe extern "C" fn post(pair: *mut Pair, work: *mut Work, _refused: *mut *mut Work) -> c_int {
    // SAFETY: the caller's structures.
    let (pair, work) = unsafe { (&mut *pair, &*work) };
    // SAFETY: as above; there is one place.
    let place = unsafe { &*work.places };
    pair.posted += 1;
    // SAFETY: the context is open.
    let device = unsafe { &(*(*pair.context).device).name };
    let (bytes, read) = (u64::from(place.bytes), work.what == 4);
    let Some(region) = memory::by_rkey(place.lkey, place.address, bytes) else { return crate::EINVAL };
    let concerns = |fault: &&VerbsFault| {
        bytes >= fault.from_bytes
            && fault.read.is_none_or(|wanted| wanted == read)
            && fault.gpu.is_none_or(|wanted| wanted == region.gpu)
            && pair.posted.is_multiple_of(fault.every.max(1))
    };
    let fault = faults(None, device).find(concerns).map(|fault| fault.kind);
    let status = transfer(&region, place, work, pair.other, fault);
    let Some(status) = status else { return 0 };
    let (id, what, vendor) = (work.id, work.what, 0);
    let completion = Completion { id, status, what, vendor, bytes: place.bytes, reserved: [0; 6] };
    // SAFETY: the queue of this pair.
    unsafe { &*pair.queue }.done.lock().unwrap_or_else(PoisonError::into_inner).push_back(completion);
    0
}

/// Moves the data; the status of its completion, if there is one.
fn transfer(
    region: &Region,
    place: &Place,
    work: &Work,
    other: u32,
    fault: Option<VerbsKind>,
) -> Option<c_int> {
    let bytes = u64::from(place.bytes);
    let write = work.what == 0;
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
    let begun = Instant::now();
    let slow = if fault == Some(VerbsKind::Slow) { 10 } else { 1 };
    let whole = Duration::from_micros(slow * bytes / RATE);
    let short = usize::from(fault == Some(VerbsKind::Short) && bytes > 1);
    // The last byte of the memory has none beyond it that belongs to the test.
    let stray = usize::from(fault == Some(VerbsKind::Stray) && bytes < 1 << 16);
    let length = (place.bytes as usize).saturating_sub(short) + stray;
    let mut data = vec![0; length];
    let spoil = |data: &mut [u8]| {
        if let Some(byte) = data.first_mut().filter(|_| fault == Some(VerbsKind::Wrong)) {
            *byte ^= 4;
        }
    };
    let moved = if write {
        let mut read = memory::access(region, place.address, &mut data, false);
        spoil(&mut data);
        read &= peer::access(other, work.rkey, work.remote, &mut data, true).unwrap_or_default();
        read
    } else {
        let mut read = match peer::access(other, work.rkey, work.remote, &mut data, false) {
            Ok(read) => read,
            Err(_) => return Some(RETRY_EXCEEDED),
        };
        spoil(&mut data);
        read &= memory::access(region, place.address, &mut data, true);
        read
    };
    // Small transfers cost what they cost.
    if bytes >= 1 << 16 {
        sleep(whole.saturating_sub(begun.elapsed()));
    }
    Some(if moved { 0 } else { REMOTE_ACCESS })
}
