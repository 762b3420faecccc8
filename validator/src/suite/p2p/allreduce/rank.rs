//! One rank's process: it has the GPU of one rank, opens the memory of all others, and makes all-reduces as
//! requested. It judges nothing.

use super::super::processes::messages::Trouble;
use crate::process::partner::Worker;
use gpu::{
    Books, Buffer, Clique, Gpu, GpuError, Graph, IpcHandle, LAUNCHES, Late, Reduced, Reduction,
    SIGNALS, Stream,
};
use machine::{GpuId, Rank};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// The name of the hidden command that runs this.
pub(in crate::suite) const COMMAND: &str = "reducer";
/// The largest all-reduce, bytes.
pub(super) const LARGEST: u64 = 512 << 10;
/// A kernel stops waiting for a flag after this many seconds of its clock.
pub(super) const GIVE_UP_S: u64 = 3;
/// The host waits longer: clocks of an idle GPU are slow at first, and each barrier of a round may give up.
pub(super) const HANG: Duration = Duration::from_secs(15);
/// Allocations of this size share no page with others; opening a shared page would expose the others too.
const PAGE: u64 = 2 << 20;

/// A request to a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Start CUDA on this GPU alone, and allocate.
    Open { gpu: GpuId },
    /// Open all ranks' memory.
    Join(Join),
    /// Make all-reduces.
    Run(Run),
    /// Close the other ranks' memory.
    Leave,
}

/// The group that a rank joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Join {
    pub(super) rank: Rank,
    /// The handles of each rank's signal and data area.
    pub(super) handles: Vec<[Vec<u8>; 2]>,
}

/// All-reduces of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) bytes: u64,
    pub(super) seed: u64,
    /// How often the graph is launched.
    pub(super) launches: u64,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Ready; the GPU's id, and the handles of its two areas.
    Opened { id: String, handles: [Vec<u8>; 2] },
    /// All ranks' memory is open.
    Joined,
    /// What the rank found.
    Ran(Ran),
    /// The other ranks' memory is closed.
    Left,
    /// The memory of this rank could not be opened.
    Refused { peer: Rank, trouble: Trouble },
    /// Failed.
    Failed(Trouble),
}

/// A rank's results: what it found in all rounds of this size so far, and the times of the last launches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ran {
    /// One-shot and two-shot.
    pub(super) reduced: [Reduced; 2],
    pub(super) late: Option<Late>,
    /// Each launch's rounds, nanoseconds.
    pub(super) times: Vec<Vec<u64>>,
}

/// The rank's own GPU, stream and memory.
struct RankGpu {
    gpu: Gpu,
    stream: Stream,
    signals: Buffer,
    data: Buffer,
    out: Buffer,
    books: Books,
}

/// Serves a worker until it has no more requests.
///
/// # Errors
/// The worker sent something malformed, or is gone.
pub(in crate::suite) fn serve() -> io::Result<()> {
    let worker = Worker::connect()?;
    let Some(Ask::Open { gpu }) = next(&worker)? else {
        return Err(malformed());
    };
    let own = match RankGpu::open(gpu) {
        Ok((own, answer)) => {
            worker.send(&answer)?;
            own
        }
        Err(error) => return worker.send(&failed(&error)),
    };
    let mut asked = next(&worker)?;
    while let Some(ask) = asked {
        let Ask::Join(join) = ask else {
            return Err(malformed());
        };
        asked = match own.peers(&join) {
            Ok(peers) => {
                worker.send(&Answer::Joined)?;
                if !joined(&worker, &own, join.rank, &peers)? {
                    return Ok(());
                }
                drop(peers);
                worker.send(&Answer::Left)?;
                next(&worker)?
            }
            Err((peer, error)) => {
                worker.send(&Answer::Refused {
                    peer,
                    trouble: Trouble::from(&error),
                })?;
                next(&worker)?
            }
        };
    }
    Ok(())
}

fn next(worker: &Worker) -> io::Result<Option<Ask>> {
    Ok(worker.receive()?.map(|(ask, _)| ask))
}

fn malformed() -> io::Error {
    io::Error::other("the worker asked for this at the wrong time")
}

fn failed(error: &GpuError) -> Answer {
    Answer::Failed(Trouble::from(error))
}

/// Makes all-reduces in one group. True when it must leave the group, false when the worker has no more requests.
fn joined(
    worker: &Worker,
    own: &RankGpu,
    rank: Rank,
    peers: &[Option<[Buffer; 2]>],
) -> io::Result<bool> {
    let mut graph = None;
    loop {
        let run = match next(worker)? {
            Some(Ask::Run(run)) => run,
            Some(Ask::Leave) => return Ok(true),
            None => return Ok(false),
            Some(Ask::Open { .. } | Ask::Join(_)) => return Err(malformed()),
        };
        let mut work = || {
            if graph
                .as_ref()
                .is_none_or(|(of, _)| *of != (run.bytes, run.seed))
            {
                // The graph of the previous size is destroyed first.
                drop(graph.take());
                graph = Some((
                    (run.bytes, run.seed),
                    own.stream.reductions(&own.reduction(rank, peers, run)?)?,
                ));
            }
            let graph = graph
                .as_ref()
                .ok_or_else(|| GpuError::Nonsense("no graph".to_owned()))?;
            own.run(&graph.1, run)
        };
        let answer = work().map_or_else(|error| failed(&error), Answer::Ran);
        worker.send(&answer)?;
    }
}

impl RankGpu {
    fn open(gpu: GpuId) -> Result<(Self, Answer), GpuError> {
        let clique = Clique::open_only(&[gpu])?;
        let none = || GpuError::Nonsense(format!("there is no GPU {gpu}"));
        let device = clique.gpus.first().ok_or_else(none)?.clone();
        let stream = device.stream()?;
        let (signals, data) = (device.alloc(PAGE)?, device.alloc(PAGE)?);
        let handles = [signals.ipc_handle()?, data.ipc_handle()?].map(|handle| handle.0.to_vec());
        // Flags that another program left in this memory must not be mistaken for new ones.
        stream.set_bytes(signals.whole(), 0)?;
        let (out, books) = (device.alloc(LARGEST)?, Books::new(&device, &stream)?);
        stream.finish(&format!("GPU {gpu}: clearing its memory"), HANG)?;
        let answer = Answer::Opened {
            id: device.uuid.clone(),
            handles,
        };
        Ok((
            Self {
                gpu: device,
                stream,
                signals,
                data,
                out,
                books,
            },
            answer,
        ))
    }

    /// The areas of all ranks but this one; or the first rank whose memory cannot be opened, and why.
    fn peers(&self, join: &Join) -> Result<Vec<Option<[Buffer; 2]>>, (Rank, GpuError)> {
        let open = |handle: &Vec<u8>| {
            let name = <[u8; 64]>::try_from(handle.as_slice());
            let name =
                name.map_err(|_| GpuError::Nonsense("a handle of another size".to_owned()))?;
            self.gpu.open_ipc(IpcHandle(name), PAGE)
        };
        let of = |(rank, [signals, data]): (Rank, &[Vec<u8>; 2])| {
            if rank == join.rank {
                return Ok(None);
            }
            let opened = open(signals).and_then(|signals| Ok(Some([signals, open(data)?])));
            opened.map_err(|error| (rank, error))
        };
        Rank::each(&join.handles).map(of).collect()
    }

    fn reduction<'m>(
        &'m self,
        rank: Rank,
        peers: &'m [Option<[Buffer; 2]>],
        run: Run,
    ) -> Result<Reduction<'m>, GpuError> {
        let own = || [&self.signals, &self.data];
        let all: Vec<[&Buffer; 2]> = peers
            .iter()
            .map(|peer| {
                peer.as_ref()
                    .map_or_else(own, |[signals, data]| [signals, data])
            })
            .collect();
        let signals = all.iter().map(|[signals, _]| signals.span(0, SIGNALS));
        Ok(Reduction {
            rank,
            signals: signals.collect::<Result<_, _>>()?,
            data: all
                .iter()
                .map(|[_, data]| data.span(0, 2 * LARGEST))
                .collect::<Result<_, _>>()?,
            out: self.out.span(0, run.bytes)?,
            seed: run.seed,
            max_cycles: u64::from(self.gpu.clock_khz) * 1000 * GIVE_UP_S,
            books: &self.books,
        })
    }

    fn run(&self, graph: &Graph<'_>, run: Run) -> Result<Ran, GpuError> {
        let launches = run.launches.clamp(1, LAUNCHES);
        self.stream.replay(graph, launches, &self.books)?;
        self.stream.finish(
            &format!("GPU {}: all-reduces in a graph", self.gpu.id()),
            HANG,
        )?;
        Ok(Ran {
            reduced: [0, 1].map(|kind| self.books.reduced(kind)),
            late: self.books.late(launches),
            times: (0..launches)
                .map(|launch| self.books.nanoseconds(launch))
                .collect(),
        })
    }
}
