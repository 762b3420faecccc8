//! The other process: opens the worker's buffers, writes to them and reads from them, as requested. It judges
//! nothing.

use super::messages::{Answer, Ask, Job, Trouble};
use crate::gpu::{Buffer, Clique, Gpu, GpuError, IpcHandle, Span};
use crate::machine::GpuId;
use crate::process::partner;
use crate::suite::shared::seat::Seat;
use crate::suite::shared::transfer::Engine;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A transfer of 64 MiB over the slowest link.
pub(super) const ACROSS: Duration = Duration::from_secs(6);

/// Serves a worker until it has no more requests.
///
/// # Errors
/// The worker sent something malformed, or is gone.
pub(in crate::suite) fn serve() -> io::Result<()> {
    let clique = OnceCell::new();
    let mut desk = Desk { clique: &clique, seats: BTreeMap::new(), opened: None };
    partner::serve(|ask, descriptor| {
        desk.answer(ask, descriptor).unwrap_or_else(|error| Answer::Failed(Trouble::from(&error)))
    })
}

/// The state of this process.
struct Desk<'c> {
    clique: &'c OnceCell<Clique>,
    /// The seats of the GPUs that have already acted.
    seats: BTreeMap<GpuId, Seat<'c>>,
    opened: Option<Opened>,
}

/// The acting GPU, and the worker's buffer.
struct Opened {
    gpu: GpuId,
    theirs: Buffer,
    own: Buffer,
}

fn nonsense(what: &str) -> GpuError {
    GpuError::Nonsense(format!("the worker asked for {what}"))
}

impl<'c> Desk<'c> {
    fn answer(&mut self, ask: Ask, descriptor: Option<OwnedFd>) -> Result<Answer, GpuError> {
        match ask {
            Ask::Start => {
                let clique = Clique::open()?;
                let ids = clique.gpus.iter().map(|g| g.uuid.clone()).collect();
                self.clique.set(clique).map_err(|_| nonsense("a second start"))?;
                Ok(Answer::Started(ids))
            }
            Ask::Open { gpu: id, ipc, bytes } => {
                // The last buffer is closed before the next one is opened.
                drop(self.opened.take());
                let gpu = self.gpu(id)?;
                let name = ipc.and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
                let theirs = match (name, descriptor) {
                    (Some(name), None) => gpu.open_ipc(IpcHandle(name), bytes)?,
                    (None, Some(descriptor)) => gpu.import(descriptor.as_fd(), bytes)?,
                    _ => return Err(nonsense("a buffer without a handle")),
                };
                self.opened = Some(Opened { gpu: id, theirs, own: gpu.alloc(bytes)? });
                if let Entry::Vacant(seat) = self.seats.entry(id) {
                    seat.insert(Seat::new(gpu)?);
                }
                Ok(Answer::Done)
            }
            Ask::Close => {
                drop(self.opened.take());
                Ok(Answer::Done)
            }
            Ask::Write(job) => {
                let (seat, opened) = self.working()?;
                write(seat, opened, job)
            }
            Ask::Read(job) => {
                let (seat, opened) = self.working()?;
                read(seat, opened, job)
            }
        }
    }

    fn gpu(&self, gpu: GpuId) -> Result<&'c Gpu, GpuError> {
        let clique = self.clique.get().ok_or_else(|| nonsense("work before the start"))?;
        clique.gpu(gpu).ok_or_else(|| nonsense("a GPU that does not exist"))
    }

    fn working(&self) -> Result<(&Seat<'c>, &Opened), GpuError> {
        let opened = self.opened.as_ref().ok_or_else(|| nonsense("a transfer without a buffer"))?;
        let seat = self.seats.get(&opened.gpu).ok_or_else(|| nonsense("a GPU that does not exist"))?;
        Ok((seat, opened))
    }
}

fn write(seat: &Seat<'_>, opened: &Opened, job: Job) -> Result<Answer, GpuError> {
    let (own, theirs) = spans(opened, job)?;
    seat.stream.fill(own, job.seed, job.first)?;
    copy(seat, job, theirs, own)?;
    Ok(Answer::Done)
}

fn read(seat: &Seat<'_>, opened: &Opened, job: Job) -> Result<Answer, GpuError> {
    let (own, theirs) = spans(opened, job)?;
    let [tally, ..] = &seat.tallies;
    seat.stream.fill(own, job.sentinel, job.first)?;
    copy(seat, job, own, theirs)?;
    seat.stream.check(own, job.first, job.seed, job.sentinel, tally)?;
    seat.wait()?;
    let checked = tally.checked();
    let found = checked.first.map_or(Ok(Vec::new()), |place| seat.sample(own, place))?;
    Ok(Answer::Read(checked.into(), found))
}

fn spans(opened: &Opened, job: Job) -> Result<(Span<'_>, Span<'_>), GpuError> {
    Ok((opened.own.span(0, job.bytes)?, opened.theirs.span(job.offset, job.bytes)?))
}

fn copy(seat: &Seat<'_>, job: Job, to: Span<'_>, from: Span<'_>) -> Result<(), GpuError> {
    match job.engine {
        Engine::Sm => seat.stream.copy_sm(to, from)?,
        Engine::Copy | Engine::Staged => seat.stream.copy(to, from)?,
    }
    seat.stream.finish(&format!("GPU {}: {} bytes between processes", seat.gpu.id(), job.bytes), ACROSS)
}
