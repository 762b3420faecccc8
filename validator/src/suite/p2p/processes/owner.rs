//! The owner's side: memory that is shared, requests to the other process, and checks of the result.

use super::messages::{Answer, Ask, Job, Trouble};
use super::{How, Other, Stop, stop};
use crate::config::Level;
use crate::gpu::pattern::{Counts, Evidence, Nonces, Piece, classify};
use crate::gpu::{Buffer, Exported, GpuError, IpcHandle, Span};
use crate::outcome::finding::{Code, Severity};
use crate::schedule::Pair;
use crate::suite::shared::seat::Seat;
use crate::suite::shared::transfer::{Cell, Engine, Fault, Kind, Memory, Traces, Way, What};
use std::os::fd::AsFd;

/// Sizes of the transfers, bytes.
pub(super) const fn sizes(level: Level) -> [u64; 2] {
    match level {
        Level::Quick | Level::Standard => [4100, (2 << 20) + 12],
        Level::Full | Level::Acceptance => [4096, 64 << 20],
    }
}

/// A band that must not change, bytes.
const GUARD: u64 = 64 << 10;

/// Memory of one GPU that the other process may open.
pub(super) struct Shared<'s, 'g> {
    seat: &'s Seat<'g>,
    buffer: Buffer,
    name: Name,
    sizes: [u64; 2],
}

enum Name {
    Ipc(IpcHandle),
    Descriptor(Exported),
}

impl<'s, 'g> Shared<'s, 'g> {
    pub(super) fn new(seat: &'s Seat<'g>, how: How, sizes: [u64; 2]) -> Result<Self, GpuError> {
        let bytes = sizes.into_iter().max().unwrap_or_default() + 2 * GUARD;
        let (buffer, name) = match how {
            How::Ipc => {
                let buffer = seat.gpu.alloc(bytes)?;
                let name = Name::Ipc(buffer.ipc_handle()?);
                // The handle is not passed on yet.
                buffer.returned();
                (buffer, name)
            }
            How::Descriptor => {
                let buffer = seat.gpu.alloc_mapped(bytes, &[])?;
                let name = Name::Descriptor(buffer.export()?);
                (buffer, name)
            }
        };
        Ok(Self { seat, buffer, name, sizes })
    }

    const fn how(&self) -> How {
        match self.name {
            Name::Ipc(_) => How::Ipc,
            Name::Descriptor(_) => How::Descriptor,
        }
    }

    fn target(&self, job: Job) -> Result<Span<'_>, GpuError> {
        self.buffer.span(job.offset, job.bytes)
    }

    /// The owner's check of a transfer's words, and of the bands beside them.
    fn look(&self, job: Job) -> Result<(Counts, bool), GpuError> {
        let [data, below, above] = &self.seat.tallies;
        let stream = &self.seat.stream;
        stream.check(self.target(job)?, job.first, job.seed, job.sentinel, data)?;
        let behind = job.offset + job.bytes;
        for (at, tally) in [(job.offset - GUARD, below), (behind, above)] {
            stream.check(self.buffer.span(at, GUARD)?, at / 4, job.sentinel, job.seed, tally)?;
        }
        self.seat.wait()?;
        let intact = [below, above].iter().all(|t| Counts::from(t.checked()).all_right(GUARD / 4));
        Ok((data.checked().into(), intact))
    }
}

/// All transfers of one pair: `pair.from` is the other process's GPU, `pair.to` the owner's.
pub(super) fn pair(
    other: &mut Other,
    shared: &Shared<'_, '_>,
    pair: Pair,
    faults: &mut Vec<(How, Fault)>,
) -> Result<(), Stop> {
    open(other, shared, pair)?;
    let mut nonces = Nonces::new();
    'ways: for way in [Way::Write, Way::Read] {
        for engine in [Engine::Copy, Engine::Sm] {
            for bytes in shared.sizes {
                let (seed, sentinel) = (nonces.next(), nonces.next());
                let job = Job { engine, offset: GUARD, bytes, seed, sentinel, first: GUARD / 4 };
                if let Some(fault) = transfer(other, shared, pair, way, job)? {
                    faults.push((shared.how(), fault));
                    continue 'ways;
                }
            }
        }
    }
    other.ask(pair, &Ask::Close, None)?;
    shared.buffer.returned();
    Ok(())
}

/// Memory that cannot be opened although there is peer access counts as refused.
fn open(other: &mut Other, shared: &Shared<'_, '_>, pair: Pair) -> Result<(), Stop> {
    if matches!(shared.name, Name::Ipc(_)) {
        shared.buffer.lent();
    }
    let (ipc, descriptor) = match &shared.name {
        Name::Ipc(handle) => (Some(handle.0.to_vec()), None),
        Name::Descriptor(exported) => (None, Some(exported.descriptor.as_fd())),
    };
    let ask = Ask::Open { gpu: pair.from, ipc, bytes: shared.buffer.whole().bytes };
    match other.ask(pair, &ask, descriptor) {
        Ok(_) => Ok(()),
        Err(Stop::Pair(finding)) => {
            let message = format!("{pair}: {} is refused: {}", shared.how(), finding.message);
            Err(Stop::Pair(Box::new(Code::P2pRefused.finding(Severity::Fail, &pair, message))))
        }
        Err(stop) => Err(stop),
    }
}

/// One transfer by the other process, and its faults.
fn transfer(
    other: &mut Other,
    shared: &Shared<'_, '_>,
    pair: Pair,
    way: Way,
    job: Job,
) -> Result<Option<Fault>, Stop> {
    let here = |e: GpuError| stop(&pair.to_string(), &Trouble::from(&e));
    let stream = &shared.seat.stream;
    stream.fill(shared.buffer.whole(), job.sentinel, 0).map_err(here)?;
    let target = shared.target(job).map_err(here)?;
    let memory = if shared.how() == How::Ipc { Memory::Plain } else { Memory::Mapped };
    let cell = Cell { pair, kind: Kind { engine: job.engine, way, memory }, bytes: job.bytes, shift: (0, 0) };
    let (counts, found, intact, through_peer) = match way {
        Way::Write => {
            shared.seat.wait().map_err(here)?;
            other.ask(pair, &Ask::Write(job), None)?;
            let (counts, intact) = shared.look(job).map_err(here)?;
            let found =
                counts.first.map_or(Ok(Vec::new()), |at| shared.seat.sample(target, at)).map_err(here)?;
            let back = if counts.wrong > 0 { Some(read(other, pair, job)?.0) } else { None };
            (counts, found, intact, back)
        }
        Way::Read => {
            stream.fill(target, job.seed, job.first).map_err(here)?;
            shared.seat.wait().map_err(here)?;
            let (counts, found) = read(other, pair, job)?;
            let (source, intact) = shared.look(job).map_err(here)?;
            (counts, found, intact && source.wrong == 0, None)
        }
    };
    let what = if counts.looked != job.bytes / 4 {
        What::Checker("a check did not read every word")
    } else if let Some(place) = counts.first {
        let pieces = [Piece { place, words: found.clone() }];
        let (first, expected) = (job.first, job.seed);
        What::Data(classify(&Evidence {
            counts,
            first,
            expected,
            older: &[],
            pieces: &pieces,
            again: None,
            through_peer,
            source: None,
            elsewhere: None,
        }))
    } else if !intact {
        What::Beside
    } else {
        return Ok(None);
    };
    let traces =
        Traces { counts, address: target.address, first: job.first, seed: job.seed, found, expected: None };
    Ok(Some(Fault { cell, what, traces, times: None, amid: false }))
}

/// The data that the other process reads.
fn read(other: &mut Other, pair: Pair, job: Job) -> Result<(Counts, Vec<u32>), Stop> {
    match other.ask(pair, &Ask::Read(job), None)? {
        Answer::Read(counts, found) => Ok((counts, found)),
        answer => {
            let message = format!("{pair}: unexpected answer {answer:?} of the other process to a read");
            Err(Stop::All(Box::new(Code::P2pChecker.finding(Severity::Error, &pair, message))))
        }
    }
}
