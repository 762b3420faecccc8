//! The other process: opens the worker's buffers, writes to them and reads from them, as requested. It judges
//! nothing.

use super::messages::{Answer, Ask, Job, Trouble};
use crate::process::partner;
use crate::suite::shared::gpu_resources::GpuResources;
use crate::suite::shared::transfer::Engine;
use gpu::{Buffer, Clique, Gpu, GpuError, IpcHandle, Span};
use machine::GpuId;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The time limit for a transfer of 64 MiB over the slowest link.
pub(super) const ACROSS: Duration = Duration::from_secs(6);

/// Serves a worker until it has no more requests.
///
/// # Errors
/// The worker sent something malformed, or is gone.
pub(in crate::suite) fn serve() -> io::Result<()> {
    let clique = OnceCell::new();
    let mut state = ServerState {
        clique: &clique,
        resources: BTreeMap::new(),
        opened: None,
    };
    partner::serve(|ask, descriptor| {
        state
            .answer(ask, descriptor)
            .unwrap_or_else(|error| Answer::Failed(Trouble::from(&error)))
    })
}

/// The state of this process.
struct ServerState<'c> {
    clique: &'c OnceCell<Clique>,
    /// The resources of the GPUs that have already acted.
    resources: BTreeMap<GpuId, GpuResources<'c>>,
    opened: Option<OpenedBuffer>,
}

/// The acting GPU, the worker's buffer, and a buffer of the same size on the acting GPU.
struct OpenedBuffer {
    gpu: GpuId,
    shared: Buffer,
    own: Buffer,
}

fn nonsense(what: &str) -> GpuError {
    GpuError::Nonsense(format!("the worker asked for {what}"))
}

impl<'c> ServerState<'c> {
    fn answer(&mut self, ask: Ask, descriptor: Option<OwnedFd>) -> Result<Answer, GpuError> {
        match ask {
            Ask::Start => {
                let clique = Clique::open()?;
                let ids = clique.gpus.iter().map(|g| g.uuid.clone()).collect();
                self.clique
                    .set(clique)
                    .map_err(|_| nonsense("a second start"))?;
                Ok(Answer::Started(ids))
            }
            Ask::Open {
                gpu: id,
                ipc,
                bytes,
            } => {
                // The last buffer is closed before the next one is opened.
                drop(self.opened.take());
                let gpu = self.gpu(id)?;
                let handle = ipc.and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
                let shared = match (handle, descriptor) {
                    (Some(handle), None) => gpu.open_ipc(IpcHandle(handle), bytes)?,
                    (None, Some(descriptor)) => gpu.import(descriptor.as_fd(), bytes)?,
                    _ => return Err(nonsense("a buffer without a handle")),
                };
                self.opened = Some(OpenedBuffer {
                    gpu: id,
                    shared,
                    own: gpu.alloc(bytes)?,
                });
                if let Entry::Vacant(resources) = self.resources.entry(id) {
                    resources.insert(GpuResources::new(gpu)?);
                }
                Ok(Answer::Done)
            }
            Ask::Close => {
                drop(self.opened.take());
                Ok(Answer::Done)
            }
            Ask::Write(job) => {
                let (resources, opened) = self.opened_buffer()?;
                write(resources, opened, job)
            }
            Ask::Read(job) => {
                let (resources, opened) = self.opened_buffer()?;
                read(resources, opened, job)
            }
        }
    }

    fn gpu(&self, gpu: GpuId) -> Result<&'c Gpu, GpuError> {
        let clique = self
            .clique
            .get()
            .ok_or_else(|| nonsense("work before the start"))?;
        clique
            .gpu(gpu)
            .ok_or_else(|| nonsense("a GPU that does not exist"))
    }

    fn opened_buffer(&self) -> Result<(&GpuResources<'c>, &OpenedBuffer), GpuError> {
        let opened = self
            .opened
            .as_ref()
            .ok_or_else(|| nonsense("a transfer without a buffer"))?;
        let resources = self
            .resources
            .get(&opened.gpu)
            .ok_or_else(|| nonsense("a GPU that does not exist"))?;
        Ok((resources, opened))
    }
}

fn write(
    resources: &GpuResources<'_>,
    opened: &OpenedBuffer,
    job: Job,
) -> Result<Answer, GpuError> {
    let (own, shared) = spans(opened, job)?;
    resources.stream.fill(own, job.seed, job.first)?;
    copy(resources, job, shared, own)?;
    Ok(Answer::Done)
}

fn read(resources: &GpuResources<'_>, opened: &OpenedBuffer, job: Job) -> Result<Answer, GpuError> {
    let (own, shared) = spans(opened, job)?;
    let [tally, ..] = &resources.tallies;
    resources.stream.fill(own, job.sentinel, job.first)?;
    copy(resources, job, own, shared)?;
    resources
        .stream
        .check(own, job.first, job.seed, job.sentinel, tally)?;
    resources.wait()?;
    let checked = tally.checked();
    let found = checked
        .first
        .map_or(Ok(Vec::new()), |place| resources.sample(own, place))?;
    Ok(Answer::Read(checked.into(), found))
}

fn spans(opened: &OpenedBuffer, job: Job) -> Result<(Span<'_>, Span<'_>), GpuError> {
    Ok((
        opened.own.span(0, job.bytes)?,
        opened.shared.span(job.offset, job.bytes)?,
    ))
}

fn copy(
    resources: &GpuResources<'_>,
    job: Job,
    to: Span<'_>,
    from: Span<'_>,
) -> Result<(), GpuError> {
    match job.engine {
        Engine::Sm => resources.stream.copy_sm(to, from)?,
        Engine::Copy | Engine::Staged => resources.stream.copy(to, from)?,
    }
    resources.stream.finish(
        &format!(
            "GPU {}: {} bytes between processes",
            resources.gpu.id(),
            job.bytes
        ),
        ACROSS,
    )
}
