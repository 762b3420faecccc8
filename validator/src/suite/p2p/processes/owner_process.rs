//! The owner's side: memory that is shared, requests to the other process, and checks of the result.

use super::messages::{Answer, Ask, Job, Trouble};
use super::{PeerProcess, ShareMethod, Stop, stop};
use crate::schedule::Pair;
use crate::suite::shared::gpu_resources::GpuResources;
use crate::suite::shared::transfer::{
    Circumstance, Direction, Engine, Fault, FaultKind, Memory, Traces, Transfer, TransferKind,
};
use gpu::pattern::{Counts, Evidence, Excerpt, Nonces, classify};
use gpu::{Buffer, ExportedBuffer, GpuError, IpcHandle, Span};
use outcome::finding::{Code, Finding, Severity};
use report::Level;
use std::os::fd::AsFd;

/// Sizes of the transfers, bytes.
pub(super) const fn sizes(level: Level) -> [u64; 2] {
    match level {
        Level::Quick | Level::Standard => [4100, (2 << 20) + 12],
        Level::Full | Level::Acceptance => [4096, 64 << 20],
    }
}

/// Size of the bands beside the target that must not change, bytes.
const GUARD: u64 = 64 << 10;

/// Memory of one GPU that the other process may open.
pub(super) struct SharedBuffer<'s, 'g> {
    resources: &'s GpuResources<'g>,
    buffer: Buffer,
    handle: BufferHandle,
    sizes: [u64; 2],
}

enum BufferHandle {
    Ipc(IpcHandle),
    Descriptor(ExportedBuffer),
}

impl<'s, 'g> SharedBuffer<'s, 'g> {
    pub(super) fn new(
        resources: &'s GpuResources<'g>,
        method: ShareMethod,
        sizes: [u64; 2],
    ) -> Result<Self, GpuError> {
        let bytes = sizes.into_iter().max().unwrap_or_default() + 2 * GUARD;
        let (buffer, handle) = match method {
            ShareMethod::Ipc => {
                let buffer = resources.gpu.alloc(bytes)?;
                let handle = BufferHandle::Ipc(buffer.ipc_handle()?);
                // The handle is not passed on yet.
                buffer.returned();
                (buffer, handle)
            }
            ShareMethod::Descriptor => {
                let buffer = resources.gpu.alloc_mapped(bytes, &[])?;
                let handle = BufferHandle::Descriptor(buffer.export()?);
                (buffer, handle)
            }
        };
        Ok(Self {
            resources,
            buffer,
            handle,
            sizes,
        })
    }

    const fn method(&self) -> ShareMethod {
        match self.handle {
            BufferHandle::Ipc(_) => ShareMethod::Ipc,
            BufferHandle::Descriptor(_) => ShareMethod::Descriptor,
        }
    }

    fn target(&self, job: Job) -> Result<Span<'_>, GpuError> {
        self.buffer.span(job.offset, job.bytes)
    }

    /// The owner's check of a transfer's words, and of the bands beside them.
    fn check(&self, job: Job) -> Result<(Counts, bool), GpuError> {
        let [data, below, above] = &self.resources.tallies;
        let stream = &self.resources.stream;
        stream.check(self.target(job)?, job.first, job.seed, job.sentinel, data)?;
        let behind = job.offset + job.bytes;
        for (at, tally) in [(job.offset - GUARD, below), (behind, above)] {
            stream.check(
                self.buffer.span(at, GUARD)?,
                at / 4,
                job.sentinel,
                job.seed,
                tally,
            )?;
        }
        self.resources.wait()?;
        let intact = [below, above]
            .iter()
            .all(|t| Counts::from(t.checked()).all_right(GUARD / 4));
        Ok((data.checked().into(), intact))
    }
}

/// Runs all transfers of one pair: `pair.from` is the other process's GPU, `pair.to` the owner's.
pub(super) fn try_pair(
    other: &mut PeerProcess,
    shared: &SharedBuffer<'_, '_>,
    pair: Pair,
    faults: &mut Vec<(ShareMethod, Fault)>,
) -> Result<(), Stop> {
    open(other, shared, pair)?;
    let mut nonces = Nonces::new();
    'directions: for direction in [Direction::Write, Direction::Read] {
        for engine in [Engine::Copy, Engine::Sm] {
            for bytes in shared.sizes {
                let (seed, sentinel) = (nonces.next(), nonces.next());
                let job = Job {
                    engine,
                    offset: GUARD,
                    bytes,
                    seed,
                    sentinel,
                    first: GUARD / 4,
                };
                if let Some(fault) = transfer(other, shared, pair, direction, job)? {
                    faults.push((shared.method(), fault));
                    continue 'directions;
                }
            }
        }
    }
    other.ask(pair, &Ask::Close, None)?;
    shared.buffer.returned();
    Ok(())
}

/// Lets the other process open the buffer. If it cannot although there is peer access, that counts as a refusal.
fn open(other: &mut PeerProcess, shared: &SharedBuffer<'_, '_>, pair: Pair) -> Result<(), Stop> {
    if matches!(shared.handle, BufferHandle::Ipc(_)) {
        shared.buffer.lent();
    }
    let (ipc, descriptor) = match &shared.handle {
        BufferHandle::Ipc(handle) => (Some(handle.0.to_vec()), None),
        BufferHandle::Descriptor(exported) => (None, Some(exported.descriptor.as_fd())),
    };
    let ask = Ask::Open {
        gpu: pair.from,
        ipc,
        bytes: shared.buffer.whole().bytes,
    };
    match other.ask(pair, &ask, descriptor) {
        Ok(_) => Ok(()),
        Err(Stop::Pair(finding)) => {
            let message = format!(
                "{pair}: {} is refused: {}",
                shared.method(),
                finding.message
            );
            let refused = Code::P2pRefused.finding(Severity::Fail, pair, message);
            Err(Stop::Pair(Box::new(Finding {
                lacks: finding.lacks,
                ..refused
            })))
        }
        Err(stop) => Err(stop),
    }
}

/// Runs one transfer by the other process, and returns its fault, if any.
fn transfer(
    other: &mut PeerProcess,
    shared: &SharedBuffer<'_, '_>,
    pair: Pair,
    direction: Direction,
    job: Job,
) -> Result<Option<Fault>, Stop> {
    let to_stop = |e: GpuError| stop(pair, &Trouble::from(&e));
    let stream = &shared.resources.stream;
    stream
        .fill(shared.buffer.whole(), job.sentinel, 0)
        .map_err(to_stop)?;
    let target = shared.target(job).map_err(to_stop)?;
    let memory = if shared.method() == ShareMethod::Ipc {
        Memory::Plain
    } else {
        Memory::Mapped
    };
    let transfer = Transfer {
        pair,
        kind: TransferKind {
            engine: job.engine,
            direction,
            memory,
        },
        bytes: job.bytes,
        shift: (0, 0),
    };
    let (counts, found, intact, through_peer) = match direction {
        Direction::Write => {
            shared.resources.wait().map_err(to_stop)?;
            other.ask(pair, &Ask::Write(job), None)?;
            let (counts, intact) = shared.check(job).map_err(to_stop)?;
            let found = counts
                .first
                .map_or(Ok(Vec::new()), |at| shared.resources.sample(target, at))
                .map_err(to_stop)?;
            let back = if counts.wrong > 0 {
                Some(read(other, pair, job)?.0)
            } else {
                None
            };
            (counts, found, intact, back)
        }
        Direction::Read => {
            stream.fill(target, job.seed, job.first).map_err(to_stop)?;
            shared.resources.wait().map_err(to_stop)?;
            let (counts, found) = read(other, pair, job)?;
            let (source, intact) = shared.check(job).map_err(to_stop)?;
            (counts, found, intact && source.wrong == 0, None)
        }
    };
    let what = if counts.looked != job.bytes / 4 {
        FaultKind::Checker("a check did not read every word")
    } else if let Some(place) = counts.first {
        let pieces = [Excerpt {
            place,
            words: found.clone(),
        }];
        let (first, expected) = (job.first, job.seed);
        FaultKind::Data(classify(&Evidence {
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
        FaultKind::Beside
    } else {
        return Ok(None);
    };
    let traces = Traces {
        counts,
        address: target.address,
        first: job.first,
        seed: job.seed,
        found,
        expected: None,
    };
    Ok(Some(Fault {
        transfer,
        what,
        traces,
        times: None,
        circumstance: Circumstance::Alone,
    }))
}

/// Lets the other process read: its check, and words from the first wrong one on.
fn read(other: &mut PeerProcess, pair: Pair, job: Job) -> Result<(Counts, Vec<u32>), Stop> {
    match other.ask(pair, &Ask::Read(job), None)? {
        Answer::Read(counts, found) => Ok((counts, found)),
        answer => {
            let message =
                format!("{pair}: unexpected answer {answer:?} of the other process to a read");
            Err(Stop::All(Box::new(Code::P2pChecker.finding(
                Severity::Error,
                pair,
                message,
            ))))
        }
    }
}
