//! Functions for the other simulated libraries in the same process. For NCCL: which GPU a device is, communicators, and
//! their calls on streams; ranks in other processes are reached through functions that NCCL's library passes in. For NVML:
//! what this process currently uses on a GPU.

use crate::state::{Handle, HandleKind, unwrap};
use crate::state::{call, current, driver, put};
use simgpu_model::Status;
use simgpu_model::collective::Call;
use simgpu_model::engine::{Comm, RemoteRanks, Work};
use std::ffi::{c_int, c_void};

/// Receives bytes.
type Sink = unsafe extern "C" fn(to: *mut c_void, bytes: *const u8, length: usize);

/// The connection to the ranks of other processes, as in [`RemoteRanks`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RankFunctions {
    context: *mut c_void,
    send_contribution:
        unsafe extern "C" fn(*mut c_void, rank: usize, number: u64, part: *const u8, length: usize),
    contributions:
        unsafe extern "C" fn(*mut c_void, number: u64, sink: Sink, to: *mut c_void) -> bool,
    wait_for_message: unsafe extern "C" fn(*mut c_void) -> bool,
    close: unsafe extern "C" fn(*mut c_void),
}

#[derive(Debug)]
struct ForeignRanks(RankFunctions);

// SAFETY: the NCCL library allows its functions to be called from any thread, one at a time.
unsafe impl Send for ForeignRanks {}

impl RemoteRanks for ForeignRanks {
    fn send_contribution(&self, rank: usize, number: u64, part: &[u8]) {
        // SAFETY: the context was passed together with the function, and the length is that of the bytes.
        unsafe {
            (self.0.send_contribution)(self.0.context, rank, number, part.as_ptr(), part.len());
        };
    }

    fn contributions(&self, number: u64) -> Option<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        // SAFETY: `append_bytes` stores the bytes in `found`, to which this points.
        let all = unsafe {
            (self.0.contributions)(
                self.0.context,
                number,
                append_bytes,
                (&raw mut found).cast(),
            )
        };
        all.then_some(found)
    }

    fn wait_for_message(&self) -> bool {
        // SAFETY: the context was passed together with the function.
        unsafe { (self.0.wait_for_message)(self.0.context) }
    }
}

impl Drop for ForeignRanks {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        unsafe { (self.0.close)(self.0.context) };
    }
}

/// # Safety
/// `to` points to a list of byte vectors, and `bytes` to `length` bytes.
unsafe extern "C" fn append_bytes(to: *mut c_void, bytes: *const u8, length: usize) {
    // SAFETY: guaranteed by the caller.
    let (to, bytes) = unsafe {
        (
            &mut *to.cast::<Vec<Vec<u8>>>(),
            std::slice::from_raw_parts(bytes, length),
        )
    };
    to.push(bytes.to_vec());
}

/// The GPU of an ordinal, or of the thread's current context if that is negative; -1 if there is none.
#[unsafe(no_mangle)]
extern "C" fn simgpu_gpu(ordinal: c_int) -> i64 {
    let mut driver = driver();
    let Some(driver) = driver.as_mut() else {
        return -1;
    };
    let gpu = if ordinal < 0 {
        current(driver)
    } else {
        driver.gpu(ordinal)
    };
    gpu.ok()
        .and_then(|gpu| i64::try_from(gpu).ok())
        .unwrap_or(-1)
}

/// Lets a rank of this process join a communicator; `remote_functions` is null if all ranks are in this process.
#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_join(
    id: u64,
    ranks: usize,
    rank: usize,
    remote_functions: *const RankFunctions,
) -> c_int {
    call(|driver| {
        // SAFETY: null, or functions that may be called until `end` has been called.
        let remote = unsafe { remote_functions.as_ref() };
        let remote = || remote.map(|f| Box::new(ForeignRanks(*f)) as Box<dyn RemoteRanks>);
        driver.engine.join(id, rank, || Comm::new(ranks, remote()));
        Ok(())
    })
}

/// Lets a rank of this process leave a communicator.
#[unsafe(no_mangle)]
extern "C" fn simgpu_leave(id: u64, rank: usize) -> c_int {
    call(|driver| {
        driver.engine.leave_comm(id, rank);
        Ok(())
    })
}

/// Queues one rank's part in a collective on a stream of its GPU.
#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_collective(
    gpu: usize,
    on: Handle,
    bytes: *const u8,
    length: usize,
) -> c_int {
    call(|driver| {
        driver.engine.check_alive(gpu)?;
        if !driver.has_context(gpu) {
            return Err(Status::INVALID_CONTEXT);
        }
        let id = if on == 0 {
            driver.default_stream(gpu)
        } else {
            unwrap(HandleKind::Stream, on)?
        };
        if driver.engine.gpu_of(id)? != gpu {
            return Err(Status::INVALID_HANDLE);
        }
        // SAFETY: the NCCL library passes `length` bytes.
        let asked = Call::decode(unsafe { std::slice::from_raw_parts(bytes, length) });
        driver.engine.push(
            id,
            Work::Collective(Box::new(asked.ok_or(Status::INVALID_VALUE)?)),
        )
    })
}

/// Bytes in use by this process, 1 if it has a context, 1 if it has unfinished work.
pub(crate) type UsageNumbers = [u64; 3];

#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_now(gpu: usize, now: *mut UsageNumbers) {
    let driver = driver();
    let Some(driver) = driver.as_ref() else {
        return;
    };
    let machine = &driver.scenario().machine;
    let (free, total) = driver.memory(gpu);
    let used = total
        .saturating_sub(free)
        .saturating_sub(machine.taken(gpu));
    let found = [
        used,
        u64::from(driver.has_context(gpu)),
        u64::from(driver.engine.busy(gpu)),
    ];
    // SAFETY: the NVML library's pointer; a null pointer is not written.
    let _ = unsafe { put(now, found) };
}
