//! Queues a collective on all ranks of this process, as one NCCL group: its functions return before the work
//! is done, and with several ranks in one thread only a group keeps them from waiting for each other.
#![expect(unsafe_code, reason = "calls into NCCL")]

use super::api::{Api, api, newer};
use super::comm::{Comm, int};
use super::steps::{Step, steps};
use crate::cuda::{GpuError, Span, Stream, forget_current};
use crate::{Collective, DataType, RedOp};
use cudarc::driver::sys::CUstream;
use machine::Rank;
use std::ffi::{c_int, c_void};
use std::ptr;

/// One rank's part of a collective.
#[derive(Debug, Clone, Copy)]
pub struct Call<'m> {
    /// The collective.
    pub collective: Collective,
    /// The memory that this rank sends; as long as the shape requires, or longer.
    pub send: Span<'m>,
    /// The memory that receives, of the same minimum length. In place it is `send`, a part of it, or contains it.
    pub receive: Span<'m>,
    /// The call's count, elements: `Shape::count`.
    pub count: u64,
    /// Element type.
    pub data: DataType,
    /// The reduction, if any.
    pub op: RedOp,
    /// The root, if any.
    pub root: Rank,
}

/// One collective's parts, one for each communicator of this process, ready to be queued repeatedly:
/// everything is prepared, so that only NCCL's own time passes between two calls.
pub struct Group<'a> {
    api: &'static Api,
    parts: Vec<Part<'a>>,
}

impl<'a> Group<'a> {
    /// Prepares the calls, each on a stream of its communicator's GPU.
    ///
    /// # Errors
    /// NCCL is missing; a buffer that is too small.
    pub fn new(calls: &[(&'a Comm, &'a Stream, Call<'a>)]) -> Result<Self, GpuError> {
        let api = api()?;
        let parts = calls
            .iter()
            .map(|call| Part::new(api, call))
            .collect::<Result<_, _>>()?;
        Ok(Self { api, parts })
    }

    /// All calls of several groups as one.
    ///
    /// # Errors
    /// There is no group.
    pub fn merged(groups: Vec<Self>) -> Result<Self, GpuError> {
        let api = api()?;
        let parts: Vec<_> = groups.into_iter().flat_map(|group| group.parts).collect();
        if parts.is_empty() {
            Err(GpuError::Nonsense("a group without calls".to_owned()))
        } else {
            Ok(Self { api, parts })
        }
    }

    /// Queues the calls.
    ///
    /// # Errors
    /// NCCL's error. Then only `Comm::abort` may be called on the communicators.
    pub fn enqueue(&self) -> Result<(), GpuError> {
        let Self { api, parts } = self;
        let Some(first) = parts.first() else {
            return Ok(());
        };
        // NCCL restores the GPU that it finds current, and without one it would make a context on GPU 0.
        first.stream.handle()?;
        // SAFETY: the function has no arguments and only increments a counter.
        let code = unsafe { (api.group_start)() };
        api.check("ncclGroupStart", code, || first.text())?;
        let queued = parts.iter().try_for_each(|part| part.queue(api));
        // An open group would hold back any later call, so it is closed even after an error.
        // SAFETY: the function has no arguments; the group was started above.
        let code = unsafe { (api.group_end)() };
        forget_current();
        let done = queued.and(api.check("ncclGroupEnd", code, || first.text()));
        if done.is_err() {
            parts.iter().for_each(|part| part.comm.mark_failed());
        }
        done
    }
}

/// One rank's part, with all checks already done.
struct Part<'a> {
    comm: &'a Comm,
    stream: &'a Stream,
    handle: CUstream,
    call: Call<'a>,
    steps: Vec<Step<'a>>,
    count: usize,
    root: c_int,
}

impl<'a> Part<'a> {
    fn new(
        api: &Api,
        (comm, stream, call): &(&'a Comm, &'a Stream, Call<'a>),
    ) -> Result<Self, GpuError> {
        let count = usize::try_from(call.count).map_err(|_| {
            GpuError::Nonsense(format!("{} elements do not fit this machine", call.count))
        })?;
        Ok(Self {
            comm,
            stream,
            handle: stream.handle()?,
            call: *call,
            steps: steps(call, comm.rank(), comm.ranks(), api.has(call.collective))?,
            count,
            root: int(call.root.index())?,
        })
    }

    fn queue(&self, api: &Api) -> Result<(), GpuError> {
        self.steps.iter().try_for_each(|step| {
            let (name, code) = self.call(api, *step)?;
            api.check(name, code, || self.text())
        })
    }

    /// One call, and what it returned.
    fn call(&self, api: &Api, step: Step<'_>) -> Result<(&'static str, c_int), GpuError> {
        let (count, data, op) = (self.count, self.call.data.code(), self.call.op.code());
        let (comm, stream, root) = (self.comm.handle, self.handle, self.root);
        Ok(match step {
            Step::AllReduce(from, to) => {
                let (from, to) = (source(from)?, place(to)?);
                // SAFETY: communicator and stream are alive; the spans are of live buffers and as long as the
                // count requires, which `steps` has checked. The same holds for all calls below.
                ("ncclAllReduce", unsafe {
                    (api.all_reduce)(from, to, count, data, op, comm, stream)
                })
            }
            Step::AllGather(from, to) => {
                let (from, to) = (source(from)?, place(to)?);
                // SAFETY: as above.
                ("ncclAllGather", unsafe {
                    (api.all_gather)(from, to, count, data, comm, stream)
                })
            }
            Step::ReduceScatter(from, to) => {
                let (from, to) = (source(from)?, place(to)?);
                // SAFETY: as above.
                let code = unsafe { (api.reduce_scatter)(from, to, count, data, op, comm, stream) };
                ("ncclReduceScatter", code)
            }
            Step::Broadcast(from, to) => {
                let (from, to) = (source(from)?, place(to)?);
                // SAFETY: as above; only the root's first buffer is read.
                ("ncclBroadcast", unsafe {
                    (api.broadcast)(from, to, count, data, root, comm, stream)
                })
            }
            Step::Reduce(from, to) => {
                let (from, to) = (source(from)?, place(to)?);
                // SAFETY: as above; only the root's second buffer is written.
                ("ncclReduce", unsafe {
                    (api.reduce)(from, to, count, data, op, root, comm, stream)
                })
            }
            Step::Alltoall(from, to) => {
                let (from, to, all_to_all) = (
                    source(from)?,
                    place(to)?,
                    newer("ncclAlltoAll", api.all_to_all)?,
                );
                // SAFETY: as above.
                ("ncclAlltoAll", unsafe {
                    all_to_all(from, to, count, data, comm, stream)
                })
            }
            Step::Gather(from, to) => {
                let (from, to, gather) =
                    (source(from)?, place(to)?, newer("ncclGather", api.gather)?);
                // SAFETY: as above; only the root's second buffer is written.
                ("ncclGather", unsafe {
                    gather(from, to, count, data, root, comm, stream)
                })
            }
            Step::Scatter(from, to) => {
                let (from, to, scatter) = (
                    source(from)?,
                    place(to)?,
                    newer("ncclScatter", api.scatter)?,
                );
                // SAFETY: as above; only the root's first buffer is read.
                ("ncclScatter", unsafe {
                    scatter(from, to, count, data, root, comm, stream)
                })
            }
            Step::Send(from, rank) => {
                let (from, rank) = (source(from)?, int(rank.index())?);
                // SAFETY: as above.
                ("ncclSend", unsafe {
                    (api.send)(from, count, data, rank, comm, stream)
                })
            }
            Step::Receive(to, rank) => {
                let (to, rank) = (place(to)?, int(rank.index())?);
                // SAFETY: as above.
                ("ncclRecv", unsafe {
                    (api.receive)(to, count, data, rank, comm, stream)
                })
            }
        })
    }

    /// The rank and its call, for messages.
    fn text(&self) -> String {
        format!(
            "{}: {} of {} {}",
            self.comm.label(),
            self.call.collective,
            self.call.count,
            self.call.data
        )
    }
}

/// GPU memory in the form of NCCL's functions: only the address, because only GPUs access it.
pub(super) fn place(span: Span<'_>) -> Result<*mut c_void, GpuError> {
    let address = usize::try_from(span.address);
    let address = address
        .map_err(|_| GpuError::Nonsense(format!("{:#x} is not a valid address", span.address)))?;
    Ok(ptr::without_provenance_mut(address))
}

fn source(span: Span<'_>) -> Result<*const c_void, GpuError> {
    place(span).map(<*mut c_void>::cast_const)
}
