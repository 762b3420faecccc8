//! Streams in simulated time. Work is queued and done when the host asks how far it is: everything
//! that can go on then does, in the order in which it would end. What moves at the same time shares
//! the links on its way. The clock is simulated and has nothing to do with how long that took.

mod begin;
mod collective;
mod finish;
mod pages;
mod pingpong;
mod reach;
mod reduce;
mod stress;
mod time;

pub use collective::{Comm, Wire};

use crate::Host;
use crate::collective::{Call, Part};
use crate::events::{self, Events};
use crate::fault::Faults;
use crate::kernel::Kernel;
use crate::links::Route;
use crate::memory::Memory;
use crate::scenario::{Fault, Kind, Scenario};
use crate::status::{Result, Status};
use finish::Job;
use pingpong::Waiting;
use reduce::Meeting;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A number for a stream.
pub type StreamId = u64;
/// A number for an event.
pub type EventId = u64;

/// Something that a stream is asked to do.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are said above each")]
pub enum Work {
    /// A copy by a copy engine; `kept` has the source's bytes where it was not page-locked.
    Copy { dst: u64, src: u64, bytes: u64, kept: Option<Vec<u8>> },
    /// One byte over and over.
    Set { dst: u64, byte: u8, bytes: u64 },
    /// A kernel on so many threads.
    Launch { kernel: Kernel, threads: u64 },
    /// Notes the time in an event, as its so-manieth record.
    Record { event: EventId, version: u64 },
    /// Waits for that record.
    Wait { event: EventId, version: u64 },
    /// One rank's part in a collective.
    Collective(Box<Call>),
}

/// What a stream is doing.
#[derive(Debug)]
enum Running {
    /// It moves bytes, or just takes its time.
    Moving { begins: f64, left: f64, route: Route, job: Job },
    /// It waits for a flag of the host, until that clock; since when, by the host's clock and simulated.
    Spin { flag: u64, until: Duration, takes: f64, since: (Duration, f64) },
    /// It waits for its partner, until that clock.
    Partner { waiting: Waiting, until: Duration },
    /// It waits for the flags of other ranks, which write them into memory that is shared with them.
    Meeting(Box<Meeting>),
    /// It waits for the other ranks of a communicator.
    Ranks { call: Box<Call>, part: Part },
    /// It never ends; the numbers are of the communicator and the rank, where it is a collective.
    Never(Option<(u64, usize)>),
}

#[derive(Debug)]
struct Stream {
    gpu: usize,
    queue: VecDeque<Work>,
    running: Option<Running>,
    /// Whether the last that it came to was a collective.
    in_calls: bool,
}

#[derive(Debug)]
struct Event {
    gpu: usize,
    /// How often it was recorded.
    asked: u64,
    /// The last record that was reached, and when.
    done: Option<(u64, f64)>,
}

/// What is known of one GPU.
#[derive(Debug, Default, Clone)]
pub struct GpuState {
    /// The error that its context is lost to.
    pub lost: Option<Status>,
    /// Peers that it may reach.
    pub peers: BTreeSet<usize>,
}

/// The machine at work.
pub struct Engine {
    /// The machine and its faults.
    pub scenario: Scenario,
    /// All memory.
    pub memory: Memory,
    /// Each GPU.
    pub gpus: Vec<GpuState>,
    /// The host.
    pub host: Box<dyn Host + Send>,
    faults: Faults,
    events_due: Events,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that have something to do.
    active: BTreeSet<StreamId>,
    /// Of those, the ones whose next work may begin.
    ready: BTreeSet<StreamId>,
    /// And the ones that wait for an event.
    blocked: BTreeSet<StreamId>,
    events: BTreeMap<EventId, Event>,
    comms: BTreeMap<u64, Comm>,
    /// What streams are asked to do while that is only captured.
    captures: BTreeMap<StreamId, Vec<Work>>,
    /// What was captured.
    graphs: BTreeMap<u64, Vec<Work>>,
    next: u64,
    /// Simulated ns.
    now: f64,
    /// When a flag of the host was seen that streams waited for: those that wait for one flag go on together.
    opened: Option<(u64, f64)>,
    /// The last products that were calculated: seed, batches and sum.
    summed: Option<(u64, u64, u64)>,
}

/// Up to here a transfer's time is its latency, and it slows nobody down.
const SMALL: f64 = 4096.0;
/// The least real time that a kernel waits for the host: a slow host is no reason to go on.
const PATIENCE: Duration = Duration::from_secs(1);

impl Engine {
    /// The machine of a scenario, with nothing to do.
    #[must_use]
    pub fn new(scenario: Scenario, host: Box<dyn Host + Send>) -> Self {
        let machine = &scenario.machine;
        let left = |gpu| machine.usable().saturating_sub(machine.taken(gpu));
        let capacity = (0..machine.gpus).map(left).collect();
        Self {
            memory: Memory::new(capacity),
            gpus: vec![GpuState::default(); machine.gpus],
            host,
            faults: Faults::default(),
            events_due: Events::default(),
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
            opened: None,
            summed: None,
            scenario,
        }
    }

    /// A new stream.
    pub fn add_stream(&mut self, gpu: usize) -> StreamId {
        self.next += 1;
        self.streams
            .insert(self.next, Stream { gpu, queue: VecDeque::new(), running: None, in_calls: false });
        self.next
    }

    /// The GPU of a stream.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn stream_gpu(&self, id: StreamId) -> Result<usize> {
        self.streams.get(&id).map(|s| s.gpu).ok_or(Status::INVALID_HANDLE)
    }

    /// Removes a stream, after what it can still do.
    pub fn drop_stream(&mut self, id: StreamId) -> Result<()> {
        self.run();
        self.active.remove(&id);
        self.streams.remove(&id).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    /// The GPU of a stream.
    pub fn gpu_of(&self, id: StreamId) -> Result<usize> {
        self.streams.get(&id).map(|s| s.gpu).ok_or(Status::INVALID_HANDLE)
    }

    /// From now on a stream's work is captured.
    pub fn capture(&mut self, id: StreamId) -> Result<()> {
        self.gpu_of(id)?;
        if self.captures.contains_key(&id) {
            return Err(Status::INVALID_VALUE);
        }
        self.captures.insert(id, Vec::new());
        Ok(())
    }

    /// Ends that, and returns the graph's number.
    pub fn captured(&mut self, id: StreamId) -> Result<u64> {
        let works = self.captures.remove(&id).ok_or(Status::INVALID_VALUE)?;
        Ok(self.add_graph(works))
    }

    fn add_graph(&mut self, works: Vec<Work>) -> u64 {
        self.next += 1;
        self.graphs.insert(self.next, works);
        self.next
    }

    /// The same graph again, under a number of its own.
    pub fn copy_graph(&mut self, graph: u64) -> Result<u64> {
        let works = self.graphs.get(&graph).cloned().ok_or(Status::INVALID_HANDLE)?;
        Ok(self.add_graph(works))
    }

    /// Queues what a graph holds.
    pub fn launch_graph(&mut self, graph: u64, id: StreamId) -> Result<()> {
        let works = self.graphs.get(&graph).cloned().ok_or(Status::INVALID_HANDLE)?;
        works.into_iter().try_for_each(|work| self.push(id, work))
    }

    /// Removes a graph.
    pub fn drop_graph(&mut self, graph: u64) -> Result<()> {
        self.graphs.remove(&graph).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    /// Queues work.
    pub fn push(&mut self, id: StreamId, work: Work) -> Result<()> {
        let gpu = self.gpu_of(id)?;
        if let Some(captured) = self.captures.get_mut(&id) {
            captured.push(work);
            return Ok(());
        }
        self.events_due.queued(&self.scenario, &work);
        self.well(gpu)?;
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.queue.push_back(work);
            self.active.insert(id);
        }
        Ok(())
    }

    /// Whether a GPU's context still lives.
    pub fn well(&self, gpu: usize) -> Result<()> {
        if events::is_lost(&self.scenario, gpu) {
            return Err(Status::UNKNOWN);
        }
        self.gpus.get(gpu).and_then(|g| g.lost).map_or(Ok(()), Err)
    }

    /// What the driver's call comes back with that asks for a copy between GPUs, where it is refused.
    pub fn refusal(&mut self, by: usize, dst: u64, src: u64, bytes: u64) -> Result<()> {
        if !self.scenario.fault.iter().any(crate::scenario::Fault::is_refusal) {
            return Ok(());
        }
        let passage = self.copy_passage(by, dst, src, bytes);
        passage.and_then(|p| self.faults.refusal(&self.scenario, &p)).map_or(Ok(()), Err)
    }

    /// How far a stream is: done, not ready, or lost.
    pub fn query(&mut self, id: StreamId) -> Result<()> {
        let gpu = self.gpu_of(id)?;
        if self.captures.contains_key(&id) {
            return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.run();
        self.well(gpu)?;
        if self.active.contains(&id) { Err(Status::NOT_READY) } else { Ok(()) }
    }

    /// How far all streams of a GPU are.
    pub fn query_gpu(&mut self, gpu: usize) -> Result<()> {
        self.run();
        self.well(gpu)?;
        if self.of_gpu(gpu).next().is_some() { Err(Status::NOT_READY) } else { Ok(()) }
    }

    /// Streams of a GPU that have something to do.
    fn of_gpu(&self, gpu: usize) -> impl Iterator<Item = StreamId> {
        self.active.iter().copied().filter(move |id| self.streams.get(id).is_some_and(|s| s.gpu == gpu))
    }

    /// Whether a GPU has work now.
    #[must_use]
    pub fn busy(&self, gpu: usize) -> bool {
        self.of_gpu(gpu).next().is_some()
    }

    /// Forgets all streams and events of a GPU, as its context goes.
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
        self.events.insert(self.next, Event { gpu, asked: 0, done: None });
        self.next
    }

    /// Removes an event.
    pub fn drop_event(&mut self, id: EventId) -> Result<()> {
        self.events.remove(&id).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    /// Records an event behind what a stream has to do.
    pub fn record(&mut self, event: EventId, stream: StreamId) -> Result<()> {
        let gpu = self.gpu_of(stream)?;
        let noted = self.events.get_mut(&event).filter(|e| e.gpu == gpu).ok_or(Status::INVALID_HANDLE)?;
        noted.asked += 1;
        let version = noted.asked;
        self.push(stream, Work::Record { event, version })
    }

    /// Makes a stream wait for an event as it is recorded now.
    pub fn wait(&mut self, event: EventId, stream: StreamId) -> Result<()> {
        let version = self.events.get(&event).ok_or(Status::INVALID_HANDLE)?.asked;
        if version > 0 { self.push(stream, Work::Wait { event, version }) } else { Ok(()) }
    }

    /// Whether an event's last record was reached, and when, in simulated ns.
    pub fn reached(&mut self, id: EventId) -> Result<f64> {
        self.run();
        let event = self.events.get(&id).ok_or(Status::INVALID_HANDLE)?;
        self.well(event.gpu)?;
        match event.done {
            _ if event.asked == 0 => Err(Status::INVALID_HANDLE),
            Some((version, time)) if version == event.asked => Ok(time),
            _ => Err(Status::NOT_READY),
        }
    }

    /// Simulated ns between the last records of two events, by the clock of their GPU.
    pub fn elapsed(&mut self, start: EventId, end: EventId) -> Result<f64> {
        let (took, gpu) = (self.reached(end)? - self.reached(start)?, self.event_gpu(end)?);
        let wrong = |f: &&Fault| f.kind == Kind::Clock && f.gpu.is_none_or(|g| g == gpu);
        Ok(took * self.scenario.fault.iter().filter(wrong).filter_map(|f| f.rate).product::<f64>())
    }

    /// Whether nothing is left to wait for at an event; one that was never recorded is reached.
    pub fn query_event(&mut self, id: EventId) -> Result<()> {
        match self.events.get(&id) {
            Some(event) if event.asked == 0 => Ok(()),
            _ => self.reached(id).map(|_| ()),
        }
    }

    /// The GPU of an event.
    pub fn event_gpu(&self, id: EventId) -> Result<usize> {
        self.events.get(&id).map(|e| e.gpu).ok_or(Status::INVALID_HANDLE)
    }
}

#[cfg(test)]
pub(crate) mod tests;
