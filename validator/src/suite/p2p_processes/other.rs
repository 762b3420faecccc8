//! The other process: opens the worker's buffers and writes to them and reads from them, as it is
//! asked to. It judges nothing.

use super::speech::{Answer, Ask, Job, Trouble};
use crate::gpu::{Buffer, Clique, GpuError, IpcHandle, Span};
use crate::partner;
use crate::suite::p2p_integrity::Engine;
use crate::suite::seat::Seat;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The largest transfer, bytes.
pub(super) const MOST: u64 = 64 << 20;
/// A transfer of that much over the slowest link.
pub(super) const ACROSS: Duration = Duration::from_secs(6);

/// Serves a worker until that has no more to ask.
///
/// # Errors
/// A worker that makes no sense or is gone.
pub(in crate::suite) fn serve() -> io::Result<()> {
    let mut clique = None;
    let mut opened = None;
    partner::serve(|ask, descriptor| {
        answer(&mut clique, &mut opened, ask, descriptor)
            .unwrap_or_else(|error| Answer::Failed(Trouble::from(&error)))
    })
}

/// The GPU that works, and the worker's buffer.
struct Opened {
    gpu: usize,
    theirs: Buffer,
    own: Buffer,
}

fn answer(
    clique: &mut Option<Clique>,
    opened: &mut Option<Opened>,
    ask: Ask,
    descriptor: Option<OwnedFd>,
) -> Result<Answer, GpuError> {
    let nonsense = |what: &str| GpuError::Nonsense(format!("the worker asked for {what}"));
    if ask == Ask::Start {
        let ids = clique.insert(Clique::open()?).gpus.iter().map(|g| g.uuid.clone()).collect();
        return Ok(Answer::Started(ids));
    }
    let Some(clique) = clique else { return Err(nonsense("work before the start")) };
    match ask {
        Ask::Open { gpu: n, ipc, bytes } => {
            // The last one is closed before the next is opened.
            drop(opened.take());
            let gpu = clique.gpu(n).ok_or_else(|| nonsense("a GPU that is not there"))?;
            let name = ipc.and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
            let theirs = match (name, descriptor) {
                (Some(name), None) => gpu.open_ipc(IpcHandle(name), bytes)?,
                (None, Some(descriptor)) => gpu.import(descriptor.as_fd(), bytes)?,
                _ => return Err(nonsense("a buffer without a name")),
            };
            *opened = Some(Opened { gpu: n, theirs, own: gpu.alloc(bytes)? });
            Ok(Answer::Done)
        }
        Ask::Close => {
            drop(opened.take());
            Ok(Answer::Done)
        }
        Ask::Write(job) | Ask::Read(job) => {
            let opened = opened.as_ref().ok_or_else(|| nonsense("a transfer without a buffer"))?;
            let gpu = clique.gpu(opened.gpu).ok_or_else(|| nonsense("a GPU that is not there"))?;
            let seat = Seat::new(gpu)?;
            if matches!(ask, Ask::Write(_)) { write(&seat, opened, job) } else { read(&seat, opened, job) }
        }
        Ask::Start => Err(nonsense("a second start")),
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
    let said = tally.checked();
    let found = said.first.map_or(Ok(Vec::new()), |place| seat.sample(own, place))?;
    Ok(Answer::Read(said.into(), found))
}

fn spans(opened: &Opened, job: Job) -> Result<(Span, Span), GpuError> {
    Ok((opened.own.span(0, job.bytes)?, opened.theirs.span(job.offset, job.bytes)?))
}

fn copy(seat: &Seat<'_>, job: Job, to: Span, from: Span) -> Result<(), GpuError> {
    match job.engine {
        Engine::Sm => seat.stream.copy_sm(to, from)?,
        Engine::Copy | Engine::Staged => seat.stream.copy(to, from)?,
    }
    seat.stream.finish(&format!("GPU {}: {} bytes between processes", seat.gpu.ordinal, job.bytes), ACROSS)
}
