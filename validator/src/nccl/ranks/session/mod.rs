//! The worker's side of an arm: starts its processes, requests rows from them, and after an error finds the cause,
//! stops them all and leaves nothing behind. `part` handles rows, and the ranks of one node among several.

mod part;

pub use part::{Opening, WholeCommunicator};

use super::diagnosis::{failure_lines, no_transport};
use super::environment::{LaunchContext, environment};
use super::merge::{empty_row, row};
use super::messages::{Answer, Ask, Fault, Open, Opened};
use super::output::Output;
use super::processes::RankProcesses;
use super::serve::COMMAND;
use super::trouble::{Reply, Responder, Trouble, TroubleKind, cause};
use super::{Arm, RowAsk, Setup, Started, ras};
use crate::nccl::Row;
use crate::process::partner::leftovers::Leftovers;
use crate::process::{lineage, partner};
use gpu::pattern::Nonces;
use machine::root::Root;
use machine::{GpuId, Rank};
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time limit for NCCL's report of its state while it hangs.
const RAS_TIMEOUT: Duration = Duration::from_secs(8);
/// The time limit for reading replies that have arrived.
const READY: Duration = Duration::from_secs(1);
/// The time limit for another communicator of processes that have one.
const CHANGE: Duration = Duration::from_secs(60);
/// The processes notice a hang themselves, and have this much more time to report it.
const REPORT_MARGIN: Duration = Duration::from_secs(5);

/// The processes of an arm. Dropping it stops them, in bounded time.
#[derive(Debug)]
pub struct Ranks {
    setup: Setup,
    processes: RankProcesses,
    environment: Vec<(String, String)>,
    topology: Output,
    graph: Output,
    ras: Option<SocketAddr>,
    leftovers: Leftovers,
    nonces: Nonces,
    begun: Instant,
    /// What the processes have opened, from the time at which they were asked to make the communicator.
    opened: Option<Vec<Opened>>,
    /// When processes for one GPU each were asked for that.
    asked: Option<Instant>,
    started: Option<Started>,
    /// Whether they may exit.
    released: bool,
    /// Bytes of the ranks' buffers, once allocated.
    room: u64,
    /// The number of ranks of the communicator that was split off and is used now.
    members: Option<usize>,
    ended: bool,
    /// Set once the leading node no longer needs these ranks.
    abandoned: Arc<AtomicBool>,
}

impl Ranks {
    /// Starts an arm's processes without waiting for them: several arms start in parallel.
    ///
    /// # Errors
    /// They cannot be started.
    pub fn start(setup: &Setup) -> Result<Self, Trouble> {
        Self::launch(setup, &|| partner::command(COMMAND))
    }

    fn launch(setup: &Setup, command: &dyn Fn() -> io::Result<Command>) -> Result<Self, Trouble> {
        if setup.gpus.is_empty() {
            return Err(Trouble::broken("an arm without GPUs"));
        }
        let started = Self::new(setup).and_then(|mut ranks| ranks.spawn(command).map(|()| ranks));
        started.map_err(|e: io::Error| {
            Trouble::broken(format!("NCCL's processes cannot be started: {e}"))
        })
    }

    fn new(setup: &Setup) -> io::Result<Self> {
        let (topology, graph) = (Output::new()?, Output::new()?);
        // Without a port there is no diagnosis, but everything else works.
        let ras = ras::free_port()
            .inspect_err(|e| log::warn!("no port for NCCL's RAS: {e}"))
            .ok();
        let folders = Some(setup.library_path.join(":")).filter(|folders| !folders.is_empty());
        let library_path = folders.or_else(|| std::env::var("LD_LIBRARY_PATH").ok());
        let context = LaunchContext {
            library_path,
            topology: topology.path(),
            graph: graph.path(),
            ras,
        };
        Ok(Self {
            environment: environment(setup, &context),
            setup: setup.clone(),
            processes: RankProcesses::default(),
            topology,
            graph,
            ras,
            // The processes run on this machine, even if the worker examines another one's files.
            leftovers: Leftovers::before(Root::new("/")),
            nonces: Nonces::new(),
            begun: Instant::now(),
            opened: None,
            asked: None,
            started: None,
            released: false,
            room: 0,
            members: None,
            ended: false,
            abandoned: Arc::default(),
        })
    }

    fn spawn(&mut self, command: &dyn Fn() -> io::Result<Command>) -> io::Result<()> {
        self.dumps(true)?;
        let (ranks, first) = (self.setup.gpus.len(), self.first().index());
        let all = (first..first.saturating_add(ranks))
            .map(Rank::new)
            .map(Responder::Rank);
        let all: Vec<_> = if self.setup.processes {
            all.collect()
        } else {
            vec![Responder::All]
        };
        for responder in all {
            let mut command = command()?;
            command
                .env_clear()
                .envs(self.environment.iter().cloned())
                .stderr(Stdio::inherit());
            command.envs(
                visible_gpus(&self.setup, lineage::visible_devices())
                    .map(|gpus| (lineage::VISIBLE_DEVICES, gpus)),
            );
            self.processes.start(command, responder)?;
        }
        // The next arm's processes must not inherit them.
        self.dumps(false)?;
        let Setup {
            processes,
            gpus,
            most_bytes,
            room,
            library,
            ..
        } = &self.setup;
        self.processes.send_all(|n| {
            let gpus = if *processes {
                gpus.get(n).copied().into_iter().collect()
            } else {
                gpus.clone()
            };
            let rank = Rank::new(first.saturating_add(n));
            let id = *processes && rank == Rank::FIRST;
            let library = library.clone();
            Ask::Open(Open {
                gpus,
                first: rank,
                most_bytes: *most_bytes,
                room: *room,
                id,
                library,
            })
        });
        if !processes {
            // A single process needs no id.
            self.processes.send_all(|_| Ask::Join { id: None, ranks });
        }
        Ok(())
    }

    fn dumps(&self, inherited: bool) -> io::Result<()> {
        self.topology.inherit(inherited)?;
        self.graph.inherit(inherited)
    }

    /// The number of ranks of the present communicator, on all nodes.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.members.unwrap_or_else(|| self.setup.ranks())
    }

    /// The GPUs of this node's ranks, in their order.
    #[must_use]
    pub fn gpus(&self) -> &[GpuId] {
        &self.setup.gpus
    }

    /// NCCL's version, 22907 for 2.29.7; 0 before it has started.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.started.as_ref().map_or(0, |started| started.nccl)
    }

    /// The file of the loaded library; `None` before it has started, or if the kernel does not tell it.
    #[must_use]
    pub fn library(&self) -> Option<&str> {
        self.started.as_ref()?.library.as_deref()
    }

    /// Lets all rows until [`Self::unsplit`] or [`Self::set_aside`] use a communicator of the first `members` ranks, in an arm
    /// of one process.
    ///
    /// # Errors
    /// It cannot be made; the arm is stopped.
    pub fn split(&mut self, members: usize) -> Result<(), Trouble> {
        self.change(&Ask::Split { members })?;
        self.members = Some(members);
        Ok(())
    }

    /// Returns to the communicator of all ranks, and destroys the other one.
    ///
    /// # Errors
    /// The other one cannot be destroyed; the arm is stopped.
    pub fn unsplit(&mut self) -> Result<(), Trouble> {
        self.change(&Ask::Unsplit)?;
        self.members = None;
        Ok(())
    }

    /// Returns to the communicator of all ranks. Where memory allows, the other one stays until the arm ends.
    ///
    /// # Errors
    /// The memory is unknown, or the other one cannot be destroyed; the arm is stopped.
    pub fn set_aside(&mut self) -> Result<(), Trouble> {
        self.change(&Ask::SetAside)?;
        self.members = None;
        Ok(())
    }

    /// Aborts the communicator and makes another, in an arm of one process.
    ///
    /// # Errors
    /// Either fails; the arm is stopped.
    pub fn renew(&mut self) -> Result<(), Trouble> {
        self.change(&Ask::Renew)
    }

    fn change(&mut self, ask: &Ask) -> Result<(), Trouble> {
        self.processes.send_all(|_| ask.clone());
        self.joined(Instant::now() + CHANGE)
    }

    /// The first rank of this node.
    fn first(&self) -> Rank {
        self.setup
            .part
            .as_ref()
            .map_or(Rank::FIRST, |part| part.first)
    }

    /// How long the communicator has been starting: processes for one GPU each make it when [`Self::advance`] or [`Self::join`]
    /// has asked for it.
    #[must_use]
    pub fn age(&self) -> Duration {
        if self.setup.processes {
            self.asked.map_or(Duration::ZERO, |asked| asked.elapsed())
        } else {
            self.begun.elapsed()
        }
    }

    /// Whether it has not started yet, and a test may still need it.
    #[must_use]
    pub const fn is_starting(&self) -> bool {
        self.started.is_none() && !self.released && !self.ended
    }

    /// Waits until the communicator exists.
    ///
    /// # Errors
    /// It does not exist `within` that time, or failed.
    pub fn join(&mut self, within: Duration) -> Result<&Started, Trouble> {
        let started = match self.started.take() {
            Some(started) => started,
            None => self.open(Instant::now() + within)?,
        };
        Ok(self.started.insert(started))
    }

    /// Waits until CUDA has started.
    pub(super) fn opened(&mut self, due: Instant) -> Result<Vec<Opened>, Trouble> {
        let opened = self.receive("starting CUDA", due, |answer| match answer {
            Answer::Opened(opened) => Some(opened),
            _ => None,
        })?;
        self.room = opened
            .iter()
            .map(|opened| opened.room)
            .min()
            .unwrap_or_default();
        Ok(opened)
    }

    /// Asks processes that have all started CUDA to make the communicator, without waiting for either.
    ///
    /// # Errors
    /// One has failed; the arm is stopped.
    pub fn advance(&mut self) -> Result<(), Trouble> {
        if self.is_starting()
            && self.opened.is_none()
            && self.setup.part.is_none()
            && self.processes.all_ready()
        {
            self.opened = Some(self.connect(Instant::now() + READY)?);
        }
        Ok(())
    }

    /// Waits until CUDA has started, and asks for the communicator.
    fn connect(&mut self, due: Instant) -> Result<Vec<Opened>, Trouble> {
        let opened = self.opened(due)?;
        let ranks = self.setup.ranks();
        if self.setup.processes {
            let id = opened.iter().find_map(|opened| opened.id.clone());
            // If no process made an id, each process reports the error itself.
            self.processes.send_all(|_| Ask::Join {
                id: id.clone(),
                ranks,
            });
            self.asked = Some(Instant::now());
        }
        Ok(opened)
    }

    fn open(&mut self, due: Instant) -> Result<Started, Trouble> {
        if self.setup.part.is_some() {
            return Err(Trouble::broken("a part of the ranks cannot start alone"));
        }
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.connect(due)?,
        };
        self.joined(due)?;
        let seconds = self.begun.elapsed().as_secs_f64();
        let nccl = opened.first().map_or(0, |opened: &Opened| opened.nccl);
        let library = opened.first().and_then(|opened| opened.library.clone());
        let devices = opened
            .into_iter()
            .flat_map(|opened| opened.devices)
            .collect();
        Ok(Started {
            nccl,
            library,
            devices,
            seconds,
        })
    }

    fn joined(&mut self, due: Instant) -> Result<(), Trouble> {
        let joined = |answer| matches!(answer, Answer::Joined).then_some(());
        self.receive("making the communicator", due, joined)
            .map(drop)
    }

    /// The largest row, bytes.
    #[must_use]
    pub const fn room(&self) -> u64 {
        self.room
    }

    /// One row: out of place and then in place. The results of the last timed calls are checked: of as many calls
    /// as have separate parts in the buffers.
    ///
    /// # Errors
    /// An invalid request, after which the arm continues; or a failure, after which the arm is stopped.
    pub fn row(&mut self, ask: &RowAsk) -> Result<Row, Trouble> {
        let ranks = self.ranks();
        let shape = ask.shape(ranks);
        self.allow(ask, shape)?;
        let done = if shape.count == 0 {
            vec![empty_row(ask)]
        } else {
            let seeds = [self.nonces.next(), self.nonces.next()];
            self.measure(ask, shape, seeds, self.room)?
        };
        Ok(row(ask, shape, ranks, done))
    }

    /// All of NCCL's lines so far, of all its processes, including those that have exited.
    #[must_use]
    pub fn output(&self) -> String {
        self.processes.output().concat()
    }

    /// NCCL's topology dump, as XML; `None` until it is written.
    #[must_use]
    pub fn topology(&self) -> Option<String> {
        Some(self.topology.text()).filter(|text| !text.is_empty())
    }

    /// NCCL's graph dump, as XML; `None` until it is written.
    #[must_use]
    pub fn graph(&self) -> Option<String> {
        Some(self.graph.text()).filter(|text| !text.is_empty())
    }

    /// The complete environment of the processes.
    #[must_use]
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Lets the processes exit, without waiting for that: they release their GPUs meanwhile.
    pub fn release(&mut self) {
        self.released = true;
        self.processes.close();
    }

    fn receive<T>(
        &mut self,
        doing: &str,
        due: Instant,
        want: impl Fn(Answer) -> Option<T>,
    ) -> Result<Vec<T>, Trouble> {
        if self.ended {
            return Err(Trouble::broken(format!("{doing}: the arm has ended")));
        }
        let left = due.saturating_duration_since(Instant::now());
        let replies = self.processes.receive_all(left, &self.abandoned);
        if let Some(fault) = cause(&replies) {
            return Err(self.end(doing, fault, &replies));
        }
        let all = replies.iter().map(|(_, reply)| match reply {
            Reply::Answered(answer) => want(answer.clone()),
            _ => None,
        });
        let all: Option<Vec<_>> = all.collect();
        all.ok_or_else(|| {
            self.end(
                doing,
                Fault::broken("the answer does not match the request"),
                &replies,
            )
        })
    }

    /// Stops everything, after the cause has been collected.
    fn end(&mut self, doing: &str, fault: Fault, replies: &[(Responder, Reply)]) -> Trouble {
        let mut diagnosis = match self.ras {
            Some(at)
                if fault.kind == TroubleKind::Hang && !self.abandoned.load(Ordering::Acquire) =>
            {
                ras::diagnosis(at, RAS_TIMEOUT)
            }
            _ => Vec::new(),
        };
        // Collected now: what they print while they are stopped says nothing about the cause.
        let outputs = self.processes.output();
        diagnosis.extend(failure_lines(&outputs));
        self.ended = true;
        let without_transport = no_transport(&outputs);
        if without_transport.is_some() {
            // Nothing is connected, so there is nothing to abort, which would take most of a second.
            self.processes.kill();
        } else {
            self.processes.end_after(replies);
        }
        let _ = self.leftovers.remove();
        let Fault {
            rank,
            mut kind,
            text,
        } = fault;
        let mut text = format!("{doing}: {text}");
        if let Some(words) = without_transport {
            kind = TroubleKind::NoTransport;
            if no_transport(std::slice::from_ref(&text)).is_none() {
                text = format!("{text}: {words}");
            }
        }
        Trouble {
            rank,
            text,
            kind,
            diagnosis,
        }
    }
}

/// The GPUs that CUDA shows an arm's processes, as its variable names them; `None`: all. `given`: those that it shows this process.
/// An arm that must fail uses the first ones alone, and CUDA starts the sooner the fewer it shows.
fn visible_gpus(setup: &Setup, given: Option<String>) -> Option<String> {
    if setup.arm != Arm::Withheld {
        return given;
    }
    let own = setup.gpus.iter().map(|gpu| gpu.index().to_string());
    let shown = given.map_or_else(
        || own.collect(),
        |given| given.split(',').map(str::to_owned).collect::<Vec<_>>(),
    );
    let first: Vec<_> = shown.into_iter().take(setup.gpus.len()).collect();
    Some(first.join(","))
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if !self.ended && !self.processes.end() {
            let _ = self.leftovers.remove();
        }
    }
}

#[cfg(test)]
mod tests;
