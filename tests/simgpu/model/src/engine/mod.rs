//! Streams in simulated time. Work is queued, and done when the host asks for progress: everything that can proceed then
//! does, in the order in which it would complete. Simultaneous transfers share the links on their routes. The clock is
//! simulated and independent of how long the computation takes.

mod begin;
mod collective;
mod finish;
mod pages;
mod pingpong;
mod reduce;
mod resolve;
mod stress;
mod time;

pub use collective::{Comm, RemoteRanks};

use crate::Host;
use crate::collective::{Call, Contribution};
use crate::events::{self, EventTriggers};
use crate::fault::FaultCounters;
use crate::kernel::Kernel;
use crate::links::Route;
use crate::memory::Memory;
use crate::nvlink::NvLinkBytes;
use crate::scenario::{Fault, How, Kind, Scenario};
use crate::status::{Result, Status};
use crate::work_time::WorkTime;
use finish::Effect;
use pingpong::PingPongSide;
use reduce::AllReduceState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Identifies a stream.
pub type StreamId = u64;
/// Identifies an event.
pub type EventId = u64;

/// Work for a stream.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each variant's comment explains its fields")]
pub enum Work {
    /// A copy by a copy engine; `pageable_bytes` has the source's bytes if it was not page-locked.
    Copy {
        dst: u64,
        src: u64,
        bytes: u64,
        pageable_bytes: Option<Vec<u8>>,
    },
    /// Fills memory with one byte.
    Set { dst: u64, byte: u8, bytes: u64 },
    /// A kernel with `threads` threads.
    Launch { kernel: Kernel, threads: u64 },
    /// Records the time in an event, as its record number `version`.
    Record { event: EventId, version: u64 },
    /// Waits for that record.
    Wait { event: EventId, version: u64 },
    /// One rank's part in a collective.
    Collective(Box<Call>),
}

/// What a stream is doing.
#[derive(Debug)]
enum Running {
    /// It moves bytes, or only takes time.
    Moving {
        begins: f64,
        left: f64,
        route: Route,
        effect: Effect,
    },
    /// It waits for a flag of the host until `until` (host clock); `since` has the start in host and in simulated time.
    Spin {
        flag: u64,
        until: Duration,
        takes: f64,
        since: (Duration, f64),
    },
    /// It waits for its partner until `until` (host clock).
    AwaitPartner {
        waiting: PingPongSide,
        until: Duration,
    },
    /// It waits for flags that other ranks write into memory shared with them.
    AllReduce(Box<AllReduceState>),
    /// It waits for the other ranks of a communicator.
    AwaitRanks { call: Box<Call>, part: Contribution },
    /// It never completes; communicator and rank if it is a collective.
    Hung(Option<(u64, usize)>),
}

#[derive(Debug)]
struct Stream {
    gpu: usize,
    queue: VecDeque<Work>,
    running: Option<Running>,
    /// The bytes of the last work that it reached, if that was a collective.
    last_call: Option<u64>,
}

#[derive(Debug)]
struct Event {
    gpu: usize,
    /// How many records were requested.
    requested: u64,
    /// The last record that was reached, and its time.
    done: Option<(u64, f64)>,
}

/// The state of one GPU.
#[derive(Debug, Default, Clone)]
pub struct GpuState {
    /// The error that destroyed its context.
    pub lost: Option<Status>,
    /// Peers that it may access.
    pub peers: BTreeSet<usize>,
}

/// The machine and the work on it.
pub struct Engine {
    /// The machine and its faults.
    pub scenario: Scenario,
    /// All memory.
    pub memory: Memory,
    /// Each GPU.
    pub gpus: Vec<GpuState>,
    /// The host.
    pub host: Box<dyn Host + Send>,
    faults: FaultCounters,
    events_due: EventTriggers,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams with unfinished work.
    active: BTreeSet<StreamId>,
    /// Those of them whose next work may start.
    ready: BTreeSet<StreamId>,
    /// Those of them that wait for an event.
    blocked: BTreeSet<StreamId>,
    events: BTreeMap<EventId, Event>,
    comms: BTreeMap<u64, Comm>,
    /// The works of streams that are being captured.
    captures: BTreeMap<StreamId, Vec<Work>>,
    /// Captured graphs.
    graphs: BTreeMap<u64, Vec<Work>>,
    next: u64,
    /// Simulated ns.
    now: f64,
    /// A host flag that was set, and when it was seen: all streams that wait for one flag continue together.
    released: Option<(u64, f64)>,
    /// What has crossed the NVLinks.
    nvlink_bytes: NvLinkBytes,
    /// How long the GPUs have worked, for the benchmark of large machines.
    work_time: WorkTime,
    /// The last products that were computed: seed, batches and sum.
    cached_sum: Option<(u64, u64, u64)>,
}

/// Up to this size a transfer takes only its latency, and slows no other transfer down.
const SMALL: f64 = 4096.0;
/// The minimum real time that a kernel waits for the host, so that a slow host does not cause a timeout.
const MIN_WAIT: Duration = Duration::from_secs(1);

impl Engine {
    /// The machine of a scenario, without any work.
    #[must_use]
    pub fn new(scenario: Scenario, host: Box<dyn Host + Send>) -> Self {
        let machine = &scenario.machine;
        let left = |gpu| machine.usable().saturating_sub(machine.taken(gpu));
        let capacity = (0..machine.gpus).map(left).collect();
        Self {
            memory: Memory::new(capacity),
            gpus: vec![GpuState::default(); machine.gpus],
            host,
            faults: FaultCounters::default(),
            events_due: EventTriggers::default(),
            streams: BTreeMap::new(),
            active: BTreeSet::new(),
            ready: BTreeSet::new(),
            blocked: BTreeSet::new(),
            events: BTreeMap::new(),
            comms: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            next: 0,
            now: 0.0,
            released: None,
            nvlink_bytes: NvLinkBytes::default(),
            work_time: WorkTime::default(),
            cached_sum: None,
            scenario,
        }
    }

    /// A new stream.
    pub fn add_stream(&mut self, gpu: usize) -> StreamId {
        self.work_time.add_gpu(gpu);
        self.next += 1;
        self.streams.insert(
            self.next,
            Stream {
                gpu,
                queue: VecDeque::new(),
                running: None,
                last_call: None,
            },
        );
        self.next
    }

    /// Removes a stream, after the work that it can still do.
    pub fn drop_stream(&mut self, id: StreamId) -> Result<()> {
        self.run();
        self.active.remove(&id);
        self.streams
            .remove(&id)
            .map(|_| ())
            .ok_or(Status::INVALID_HANDLE)
    }

    /// The GPU of a stream.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn gpu_of(&self, id: StreamId) -> Result<usize> {
        self.streams
            .get(&id)
            .map(|s| s.gpu)
            .ok_or(Status::INVALID_HANDLE)
    }

    /// Starts to capture a stream's work.
    pub fn begin_capture(&mut self, id: StreamId) -> Result<()> {
        self.gpu_of(id)?;
        if self.captures.contains_key(&id) {
            return Err(Status::INVALID_VALUE);
        }
        self.captures.insert(id, Vec::new());
        Ok(())
    }

    /// Ends a capture, and returns the graph's number.
    pub fn end_capture(&mut self, id: StreamId) -> Result<u64> {
        let works = self.captures.remove(&id).ok_or(Status::INVALID_VALUE)?;
        Ok(self.add_graph(works))
    }

    fn add_graph(&mut self, works: Vec<Work>) -> u64 {
        self.next += 1;
        self.graphs.insert(self.next, works);
        self.next
    }

    /// Copies a graph, and returns the copy's number.
    pub fn copy_graph(&mut self, graph: u64) -> Result<u64> {
        let works = self
            .graphs
            .get(&graph)
            .cloned()
            .ok_or(Status::INVALID_HANDLE)?;
        Ok(self.add_graph(works))
    }

    /// Queues a graph's work.
    pub fn launch_graph(&mut self, graph: u64, id: StreamId) -> Result<()> {
        let works = self
            .graphs
            .get(&graph)
            .cloned()
            .ok_or(Status::INVALID_HANDLE)?;
        works.into_iter().try_for_each(|work| self.push(id, work))
    }

    /// Removes a graph.
    pub fn drop_graph(&mut self, graph: u64) -> Result<()> {
        self.graphs
            .remove(&graph)
            .map(|_| ())
            .ok_or(Status::INVALID_HANDLE)
    }

    /// Queues work.
    pub fn push(&mut self, id: StreamId, work: Work) -> Result<()> {
        let gpu = self.gpu_of(id)?;
        if let Some(captured) = self.captures.get_mut(&id) {
            captured.push(match work {
                Work::Collective(call) => {
                    let how = call.how | How::Captured.bit();
                    Work::Collective(Box::new(Call { how, ..*call }))
                }
                other => other,
            });
            return Ok(());
        }
        self.events_due.queued(&self.scenario, &work);
        self.check_alive(gpu)?;
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.queue.push_back(work);
            self.active.insert(id);
        }
        Ok(())
    }

    /// Checks that a GPU's context is alive.
    pub fn check_alive(&self, gpu: usize) -> Result<()> {
        if events::is_lost(&self.scenario, gpu) {
            return Err(Status::UNKNOWN);
        }
        self.gpus.get(gpu).and_then(|g| g.lost).map_or(Ok(()), Err)
    }

    /// The error that the driver returns for a copy between GPUs, if a fault refuses it.
    pub fn refusal(&mut self, by: usize, dst: u64, src: u64, bytes: u64) -> Result<()> {
        if !self
            .scenario
            .fault
            .iter()
            .any(crate::scenario::Fault::is_refusal)
        {
            return Ok(());
        }
        let transfer = self.copy_transfer(by, dst, src, bytes);
        transfer
            .and_then(|p| self.faults.refusal(&self.scenario, &p))
            .map_or(Ok(()), Err)
    }

    /// The state of a stream: complete, not ready, or context lost.
    pub fn query(&mut self, id: StreamId) -> Result<()> {
        let gpu = self.gpu_of(id)?;
        if self.captures.contains_key(&id) {
            return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.run();
        self.check_alive(gpu)?;
        if self.active.contains(&id) {
            Err(Status::NOT_READY)
        } else {
            Ok(())
        }
    }

    /// The state of all streams of a GPU.
    pub fn query_gpu(&mut self, gpu: usize) -> Result<()> {
        self.run();
        self.check_alive(gpu)?;
        if self.of_gpu(gpu).next().is_some() {
            Err(Status::NOT_READY)
        } else {
            Ok(())
        }
    }

    /// The streams of a GPU that have unfinished work.
    fn of_gpu(&self, gpu: usize) -> impl Iterator<Item = StreamId> {
        self.active
            .iter()
            .copied()
            .filter(move |id| self.streams.get(id).is_some_and(|s| s.gpu == gpu))
    }

    /// Whether a GPU has unfinished work.
    #[must_use]
    pub fn busy(&self, gpu: usize) -> bool {
        self.of_gpu(gpu).next().is_some()
    }

    /// Removes all streams and events of a GPU when its context is destroyed.
    pub fn forget(&mut self, gpu: usize) {
        self.streams.retain(|_, s| s.gpu != gpu);
        self.events.retain(|_, e| e.gpu != gpu);
        let streams = &self.streams;
        self.active.retain(|id| streams.contains_key(id));
        self.memory.forget(gpu);
        if let Some(state) = self.gpus.get_mut(gpu) {
            *state = GpuState::default();
        }
    }

    /// A new event.
    pub fn add_event(&mut self, gpu: usize) -> EventId {
        self.next += 1;
        self.events.insert(
            self.next,
            Event {
                gpu,
                requested: 0,
                done: None,
            },
        );
        self.next
    }

    /// Removes an event.
    pub fn drop_event(&mut self, id: EventId) -> Result<()> {
        self.events
            .remove(&id)
            .map(|_| ())
            .ok_or(Status::INVALID_HANDLE)
    }

    /// Records an event after a stream's queued work.
    pub fn record(&mut self, event: EventId, stream: StreamId) -> Result<()> {
        let gpu = self.gpu_of(stream)?;
        let noted = self
            .events
            .get_mut(&event)
            .filter(|e| e.gpu == gpu)
            .ok_or(Status::INVALID_HANDLE)?;
        noted.requested += 1;
        let version = noted.requested;
        self.push(stream, Work::Record { event, version })
    }

    /// Makes a stream wait for an event's latest record.
    pub fn wait(&mut self, event: EventId, stream: StreamId) -> Result<()> {
        let version = self
            .events
            .get(&event)
            .ok_or(Status::INVALID_HANDLE)?
            .requested;
        if version > 0 {
            self.push(stream, Work::Wait { event, version })
        } else {
            Ok(())
        }
    }

    /// When an event's latest record was reached, in simulated ns, if it was.
    pub fn reached(&mut self, id: EventId) -> Result<f64> {
        self.run();
        let event = self.events.get(&id).ok_or(Status::INVALID_HANDLE)?;
        self.check_alive(event.gpu)?;
        match event.done {
            _ if event.requested == 0 => Err(Status::INVALID_HANDLE),
            Some((version, time)) if version == event.requested => Ok(time),
            _ => Err(Status::NOT_READY),
        }
    }

    /// Simulated ns between the latest records of two events, by the clock of their GPU.
    pub fn elapsed(&mut self, start: EventId, end: EventId) -> Result<f64> {
        let (took, gpu) = (
            self.reached(end)? - self.reached(start)?,
            self.event_gpu(end)?,
        );
        let wrong = |f: &&Fault| f.kind == Kind::Clock && f.gpu.is_none_or(|g| g == gpu);
        Ok(took
            * self
                .scenario
                .fault
                .iter()
                .filter(wrong)
                .filter_map(|f| f.rate)
                .product::<f64>())
    }

    /// Whether an event has nothing left to wait for; an event that was never recorded counts as reached.
    pub fn query_event(&mut self, id: EventId) -> Result<()> {
        match self.events.get(&id) {
            Some(event) if event.requested == 0 => Ok(()),
            _ => self.reached(id).map(|_| ()),
        }
    }

    /// The GPU of an event.
    pub fn event_gpu(&self, id: EventId) -> Result<usize> {
        self.events
            .get(&id)
            .map(|e| e.gpu)
            .ok_or(Status::INVALID_HANDLE)
    }
}

#[cfg(test)]
pub(crate) mod tests;
