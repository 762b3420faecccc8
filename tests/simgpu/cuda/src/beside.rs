//! What the simulated libraries beside this one ask of it in the same process. NCCL: which GPU a device is, communicators,
//! and their calls on streams; the ranks of other processes are reached by functions that it gives. NVML: what a GPU has in
//! use now.

use crate::state::{Handle, Kind, unwrap};
use crate::state::{call, current, driver, put};
use simgpu_model::Status;
use simgpu_model::collective::Call;
use simgpu_model::engine::{Comm, Wire, Work};
use std::ffi::{c_int, c_void};

/// Where bytes go.
type Sink = unsafe extern "C" fn(to: *mut c_void, bytes: *const u8, length: usize);

/// The way to the ranks of other processes, as [`Wire`] has it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Functions {
    context: *mut c_void,
    give: unsafe extern "C" fn(*mut c_void, rank: usize, number: u64, part: *const u8, length: usize),
    all: unsafe extern "C" fn(*mut c_void, number: u64, sink: Sink, to: *mut c_void) -> bool,
    news: unsafe extern "C" fn(*mut c_void) -> bool,
    end: unsafe extern "C" fn(*mut c_void),
}

#[derive(Debug)]
struct Foreign(Functions);

// SAFETY: the library beside this one lets its functions be called from any thread, one at a time.
unsafe impl Send for Foreign {}

impl Wire for Foreign {
    fn give(&self, rank: usize, number: u64, part: &[u8]) {
        // SAFETY: the context is what came with the function, and the bytes are as many.
        unsafe { (self.0.give)(self.0.context, rank, number, part.as_ptr(), part.len()) };
    }

    fn all(&self, number: u64) -> Option<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        // SAFETY: `keep` puts bytes to where this leads.
        let all = unsafe { (self.0.all)(self.0.context, number, keep, (&raw mut found).cast()) };
        all.then_some(found)
    }

    fn news(&self) -> bool {
        // SAFETY: the context is what came with the function.
        unsafe { (self.0.news)(self.0.context) }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        unsafe { (self.0.end)(self.0.context) };
    }
}

/// # Safety
/// `to` leads to a list of bytes, and `bytes` to as many as `length` says.
unsafe extern "C" fn keep(to: *mut c_void, bytes: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    let (to, bytes) = unsafe { (&mut *to.cast::<Vec<Vec<u8>>>(), std::slice::from_raw_parts(bytes, length)) };
    to.push(bytes.to_vec());
}

/// The GPU of an ordinal, or of the thread's current context if that is negative; -1 if there is none.
#[unsafe(no_mangle)]
extern "C" fn simgpu_gpu(ordinal: c_int) -> i64 {
    let mut driver = driver();
    let Some(driver) = driver.as_mut() else { return -1 };
    let gpu = if ordinal < 0 { current(driver) } else { driver.gpu(ordinal) };
    gpu.ok().and_then(|gpu| i64::try_from(gpu).ok()).unwrap_or(-1)
}

/// A rank of this process joins a communicator; `others` is null where all ranks are here.
#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_join(id: u64, ranks: usize, rank: usize, others: *const Functions) -> c_int {
    call(|driver| {
        // SAFETY: null, or functions that may be called until `end` was.
        let wire = unsafe { others.as_ref() };
        let wire = || wire.map(|f| Box::new(Foreign(*f)) as Box<dyn Wire>);
        driver.engine.join(id, rank, || Comm::new(ranks, wire()));
        Ok(())
    })
}

/// It leaves it.
#[unsafe(no_mangle)]
extern "C" fn simgpu_leave(id: u64, rank: usize) -> c_int {
    call(|driver| {
        driver.engine.leave_comm(id, rank);
        Ok(())
    })
}

/// Queues one rank's part in a collective on a stream of its GPU.
#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_collective(gpu: usize, on: Handle, bytes: *const u8, length: usize) -> c_int {
    call(|driver| {
        driver.engine.well(gpu)?;
        if !driver.has_context(gpu) {
            return Err(Status::INVALID_CONTEXT);
        }
        let id = if on == 0 { driver.default_stream(gpu) } else { unwrap(Kind::Stream, on)? };
        if driver.engine.gpu_of(id)? != gpu {
            return Err(Status::INVALID_HANDLE);
        }
        // SAFETY: the library beside this one gives as many bytes as it says.
        let asked = Call::decode(unsafe { std::slice::from_raw_parts(bytes, length) });
        driver.engine.push(id, Work::Collective(Box::new(asked.ok_or(Status::INVALID_VALUE)?)))
    })
}

/// Bytes in use by this process, 1 for a context, 1 for work going on.
pub(crate) type Now = [u64; 3];

#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_now(gpu: usize, now: *mut Now) {
    let driver = driver();
    let Some(driver) = driver.as_ref() else { return };
    let machine = &driver.scenario().machine;
    let (free, total) = driver.memory(gpu);
    let used = total.saturating_sub(free).saturating_sub(machine.taken(gpu));
    let found = [used, u64::from(driver.has_context(gpu)), u64::from(driver.engine.busy(gpu))];
    // SAFETY: the pointer of the library beside this one; a null pointer is not written.
    let _ = unsafe { put(now, found) };
}
