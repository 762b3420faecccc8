//! A rank's part of a communicator: joining, leaving, and checking for errors.
#![expect(unsafe_code, reason = "calls into NCCL")]

use super::UniqueId;
use super::api::{Api, api, newer};
use super::enqueue::place;
use crate::cuda::{Gpu, GpuError, Span, forget_current, is_cuda_lost};
use cudarc::nccl::sys;
use machine::Rank;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

/// `ncclInProgress`: not an error, work is still in progress.
const IN_PROGRESS: c_int = 7;
/// `NCCL_SPLIT_NOCOLOR`: the rank joins no new communicator.
const NO_COLOR: c_int = -1;

/// One rank. It belongs to the thread that made it, like its GPU's context. Dropping it destroys it, unless
/// it failed or this process can no longer call CUDA: destroying waits for running work, which would then
/// never end.
pub struct Comm {
    pub(super) api: &'static Api,
    /// Null after an abort.
    pub(super) handle: sys::ncclComm_t,
    /// Whether it has failed.
    failed: Cell<bool>,
    rank: Rank,
    ranks: usize,
    /// Holds the context, which must outlive the communicator, and the thread.
    gpu: Gpu,
}

impl Comm {
    /// A communicator of this process alone, one rank for each GPU, in their order.
    ///
    /// # Errors
    /// The library is missing; NCCL's.
    pub fn all(gpus: &[&Gpu]) -> Result<Vec<Self>, GpuError> {
        let api = api()?;
        let devices = gpus
            .iter()
            .map(|gpu| int(gpu.ordinal))
            .collect::<Result<Vec<_>, _>>()?;
        let first = gpus
            .first()
            .ok_or_else(|| GpuError::Nonsense("a communicator of no GPUs".to_owned()))?;
        first.make_current()?;
        let count = int(devices.len())?;
        let mut handles = vec![ptr::null_mut(); devices.len()];
        // SAFETY: as many handles are written as GPUs are listed; both lists live for the call.
        let code = unsafe { (api.init_all)(handles.as_mut_ptr(), count, devices.as_ptr()) };
        forget_current();
        api.check("ncclCommInitAll", code, || {
            format!("a communicator of GPUs {devices:?} in one process")
        })?;
        let ranks = handles.len();
        let all = handles.into_iter().zip(gpus);
        Rank::each(all)
            .map(|(rank, (handle, gpu))| Self::of(api, handle, "ncclCommInitAll", rank, ranks, gpu))
            .collect()
    }

    /// One rank of a communicator of several processes; returns when all have joined, without a time limit of
    /// its own.
    ///
    /// # Errors
    /// The library is missing; the id is invalid; NCCL's error.
    pub fn join(gpu: &Gpu, id: &UniqueId, ranks: usize, rank: Rank) -> Result<Self, GpuError> {
        let api = api()?;
        let id = id.raw()?;
        let (count, number) = (int(ranks)?, int(rank.index())?);
        gpu.make_current()?;
        let mut handle = ptr::null_mut();
        // SAFETY: one handle is written; the id is passed by value.
        let code = unsafe { (api.init_rank)(&raw mut handle, count, id, number) };
        forget_current();
        let n = gpu.ordinal;
        api.check("ncclCommInitRank", code, || {
            format!("GPU {n}: joining as rank {rank} of {ranks}")
        })?;
        Self::of(api, handle, "ncclCommInitRank", rank, ranks, gpu)
    }

    /// A second communicator of the first `members` ranks of `all`, which are the ranks of one communicator of this process in
    /// their order; its ranks have the same numbers.
    ///
    /// # Errors
    /// This NCCL is older than 2.18; NCCL's error.
    pub fn split(all: &[Self], members: usize) -> Result<Vec<Self>, GpuError> {
        let api = api()?;
        let split = newer("ncclCommSplit", api.split)?;
        let first = all
            .first()
            .ok_or_else(|| GpuError::Nonsense("a split of no communicator".to_owned()))?;
        let doing = || format!("{}: a communicator of {members} ranks", first.label());
        let colored = |comm: &Self| {
            Ok((
                if comm.rank.index() < members {
                    0
                } else {
                    NO_COLOR
                },
                int(comm.rank.index())?,
            ))
        };
        let colors = all
            .iter()
            .map(colored)
            .collect::<Result<Vec<_>, GpuError>>()?;
        let mut handles = vec![ptr::null_mut(); all.len()];
        first.gpu.make_current()?;
        // SAFETY: the function has no arguments.
        let code = unsafe { (api.group_start)() };
        api.check("ncclGroupStart", code, doing)?;
        let mut made = Ok(());
        for ((comm, (color, key)), handle) in all.iter().zip(colors).zip(&mut handles) {
            // SAFETY: the communicator is alive; one handle is written when the group ends, and lives until then; without a
            // configuration the new communicator has its parent's.
            let code = unsafe {
                split(
                    comm.handle,
                    color,
                    key,
                    ptr::from_mut(handle),
                    ptr::null_mut(),
                )
            };
            made = made.and(api.check("ncclCommSplit", code, doing));
        }
        // SAFETY: the group was started above, and is closed even after an error.
        let code = unsafe { (api.group_end)() };
        forget_current();
        made.and(api.check("ncclGroupEnd", code, doing))?;
        let new = handles.into_iter().zip(all).take(members);
        new.map(|(handle, old)| {
            Self::of(
                api,
                handle,
                "ncclCommSplit",
                old.rank,
                members.min(all.len()),
                &old.gpu,
            )
        })
        .collect()
    }

    /// Registers memory of this rank's GPU for NCCL's calls, until the result is dropped.
    ///
    /// # Errors
    /// This NCCL is older than 2.19; NCCL's error.
    pub fn register<'m>(&'m self, memory: Span<'m>) -> Result<Registered<'m>, GpuError> {
        let register = newer("ncclCommRegister", self.api.register)?;
        let doing = || format!("{}: registering {} bytes", self.label(), memory.bytes);
        let bytes = usize::try_from(memory.bytes).map_err(|_| GpuError::Nonsense(doing()))?;
        self.gpu.make_current()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the communicator is alive, and so is the memory as long as the result; one handle is written.
        let code = unsafe { register(self.handle, place(memory)?, bytes, &raw mut handle) };
        forget_current();
        self.api.check("ncclCommRegister", code, doing)?;
        Ok(Registered { comm: self, handle })
    }

    fn of(
        api: &'static Api,
        handle: sys::ncclComm_t,
        call: &str,
        rank: Rank,
        ranks: usize,
        gpu: &Gpu,
    ) -> Result<Self, GpuError> {
        if handle.is_null() {
            return Err(GpuError::Nonsense(format!(
                "{call} gave rank {rank} no communicator"
            )));
        }
        Ok(Self {
            api,
            handle,
            failed: Cell::new(false),
            rank,
            ranks,
            gpu: gpu.clone(),
        })
    }

    /// Its number.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> usize {
        self.ranks
    }

    /// Checks for errors without waiting: a waiting rank may learn here that the others are gone.
    ///
    /// # Errors
    /// An error that occurred since it was made, or the failure of the check itself.
    pub fn async_error(&self) -> Result<(), GpuError> {
        let mut state = 0;
        // SAFETY: the handle is alive; one int is written, because the enum is an int.
        let code = unsafe { (self.api.async_error)(self.handle, &raw mut state) };
        let doing = || format!("{}: checking for errors", self.label());
        self.api.check("ncclCommGetAsyncError", code, doing)?;
        if matches!(state, 0 | IN_PROGRESS) {
            return Ok(());
        }
        self.mark_failed();
        Err(self.api.error("ncclCommGetAsyncError", state, self.label()))
    }

    /// Aborts it with all its running work, even if nothing responds any more. May itself never return.
    ///
    /// # Errors
    /// NCCL's error.
    pub fn abort(mut self) -> Result<(), GpuError> {
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        // SAFETY: the handle was alive until now and is not used afterwards.
        let code = unsafe { (self.api.abort)(handle) };
        forget_current();
        self.api.check("ncclCommAbort", code, || {
            format!("{}: aborting", self.label())
        })
    }

    /// Marks it as failed: it will not be destroyed.
    pub(super) fn mark_failed(&self) {
        self.failed.set(true);
    }

    /// The GPU and rank, for messages.
    pub(super) fn label(&self) -> String {
        format!(
            "GPU {}, rank {} of {}",
            self.gpu.ordinal, self.rank, self.ranks
        )
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        let over = self.handle.is_null() || self.failed.get() || is_cuda_lost();
        if over || self.gpu.make_current().is_err() {
            return;
        }
        // SAFETY: made once, destroyed once. Errors are ignored, because no caller could handle them.
        unsafe { (self.api.destroy)(self.handle) };
        forget_current();
    }
}

/// Memory that is registered with a communicator.
pub struct Registered<'m> {
    comm: &'m Comm,
    /// Null where NCCL had nothing to do.
    handle: *mut c_void,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let over = self.handle.is_null()
            || self.comm.handle.is_null()
            || self.comm.failed.get()
            || is_cuda_lost();
        let Some(deregister) = self.comm.api.deregister.filter(|_| !over) else {
            return;
        };
        // SAFETY: the communicator is alive, and the handle is its own. Errors are ignored, because no caller could handle
        // them.
        unsafe { deregister(self.comm.handle, self.handle) };
        forget_current();
    }
}

impl std::fmt::Debug for Registered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "memory that is registered with {}", self.comm.label())
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.label())
    }
}

/// A number in the form of NCCL's functions.
pub(super) fn int(number: usize) -> Result<c_int, GpuError> {
    c_int::try_from(number)
        .map_err(|_| GpuError::Nonsense(format!("{number} is too large for NCCL")))
}
