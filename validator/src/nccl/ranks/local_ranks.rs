//! A process's ranks: their GPUs, and their parts of the communicator.

use super::Device;
use super::messages::{Fault, Open, Opened};
use super::rank_gpu::RankGpu;
use gpu::{Call, Captured, Clique, Comm, Gpu, GpuError, Graph, Group, Nccl, Registered, UniqueId};
use machine::host::nvidia::nccl::mapped_file;
use machine::root::Root;
use machine::{GpuId, Rank};

/// A communicator is set aside only while each of its GPUs has this much free memory, bytes: several times what a communicator
/// takes on GPUs with NVLink, where it takes most.
const AMPLE_MEMORY: u64 = 4 << 30;

/// When it is dropped, communicators are dropped first and contexts last.
#[derive(Debug)]
pub(super) struct LocalRanks {
    /// Empty before it has joined.
    pub(super) comms: Vec<Comm>,
    /// Communicators that are no longer used and were not destroyed.
    aside: Vec<Comm>,
    /// The communicator of all ranks, and the GPUs that have no part in the present one.
    whole: Option<(Vec<Comm>, Vec<RankGpu>)>,
    pub(super) gpus: Vec<RankGpu>,
    clique: Clique,
    /// The number of ranks of the communicator, in all processes.
    pub(super) ranks: usize,
    /// Bytes of the smallest of its GPUs' buffers.
    pub(super) room: u64,
}

impl LocalRanks {
    /// Starts CUDA on these GPUs only, and allocates memory there.
    pub(super) fn open(open: &Open) -> Result<(Self, Opened), Fault> {
        let nccl = Nccl::load(open.library.as_deref())?;
        let (version, library) = (
            nccl.version()?,
            mapped_file(&Root::new("/"), nccl.address()),
        );
        let clique = Clique::open_only(&open.gpus)?;
        let (mut rank_gpus, mut devices) = (Vec::new(), Vec::new());
        for (rank, ordinal) in (open.first.index()..).map(Rank::new).zip(&open.gpus) {
            let gpu = find(&clique, *ordinal)?;
            rank_gpus.push(RankGpu::alloc(gpu, rank, open.most_bytes, open.room)?);
            let (bdf, name, pid) = (gpu.bdf, gpu.name.clone(), std::process::id());
            devices.push(Device {
                rank,
                pid,
                ordinal: *ordinal,
                bdf,
                name,
            });
        }
        let id = open.id.then(|| nccl.unique_id()).transpose()?;
        let room = rank_gpus
            .iter()
            .map(|own| own.room)
            .min()
            .unwrap_or_default();
        let local = Self {
            comms: Vec::new(),
            aside: Vec::new(),
            whole: None,
            gpus: rank_gpus,
            clique,
            ranks: 0,
            room,
        };
        Ok((
            local,
            Opened {
                nccl: version,
                library,
                devices,
                room,
                id,
            },
        ))
    }

    /// Joins the communicator of `ranks`.
    pub(super) fn join(&mut self, id: Option<&UniqueId>, ranks: usize) -> Result<(), Fault> {
        let opened = self.gpus.iter().map(|own| find(&self.clique, own.gpu));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let comms = match (id, self.gpus.as_slice(), opened.as_slice()) {
            (None, own, opened) if own.len() == ranks => Comm::all(opened)?,
            (Some(id), [own], [gpu]) => {
                let joined = Comm::join(gpu, id, ranks, own.rank);
                vec![joined.map_err(|error| Fault::of(Some(own.rank), &error))?]
            }
            (_, own, _) => {
                let have = own.len();
                return Err(Fault::broken(format!(
                    "a process with {have} GPUs cannot join {ranks} ranks in this way"
                )));
            }
        };
        let (found, wanted) = (
            comms.iter().map(|c| (c.rank(), c.ranks())),
            self.gpus.iter(),
        );
        if !found.eq(wanted.map(|own| (own.rank, ranks))) {
            return Err(Fault::broken(
                "NCCL has assigned ranks that were not requested",
            ));
        }
        (self.comms, self.ranks) = (comms, ranks);
        Ok(())
    }

    /// Makes a communicator of the first `members` ranks the present one.
    pub(super) fn split(&mut self, members: usize) -> Result<(), Fault> {
        if self.whole.is_some()
            || self.comms.len() != self.ranks
            || !(1..=self.ranks).contains(&members)
        {
            return Err(Fault::broken(format!(
                "a communicator of {members} of {} ranks was asked for",
                self.ranks
            )));
        }
        let split = Comm::split(&self.comms, members)?;
        let others = self.gpus.split_off(members);
        self.whole = Some((std::mem::replace(&mut self.comms, split), others));
        self.ranks = members;
        Ok(())
    }

    /// Makes the communicator of all ranks the present one again, and destroys the other one.
    pub(super) fn unsplit(&mut self) -> Result<(), Fault> {
        self.swap_whole_back().map(drop)
    }

    /// Makes the communicator of all ranks the present one again. The other one is destroyed only where memory is short,
    /// because NCCL waits for half a second before that.
    pub(super) fn set_aside(&mut self) -> Result<(), Fault> {
        let other = self.swap_whole_back()?;
        for own in &self.gpus {
            let memory = find(&self.clique, own.gpu)?.memory();
            let (free, _) = memory.map_err(|error| Fault::of(Some(own.rank), &error))?;
            if free < AMPLE_MEMORY {
                return Ok(());
            }
        }
        self.aside.extend(other);
        Ok(())
    }

    /// Makes the communicator of all ranks the present one again; returns the other one.
    fn swap_whole_back(&mut self) -> Result<Vec<Comm>, Fault> {
        let Some((comms, others)) = self.whole.take() else {
            return Err(Fault::broken("nothing was split"));
        };
        self.ranks = comms.len();
        self.gpus.extend(others);
        Ok(std::mem::replace(&mut self.comms, comms))
    }

    /// Aborts the communicator and makes another.
    pub(super) fn renew(&mut self) -> Result<(), Fault> {
        if self.whole.is_some() || self.comms.len() != self.ranks {
            return Err(Fault::broken("a part of a communicator cannot be renewed"));
        }
        for comm in self.comms.drain(..) {
            comm.abort()?;
        }
        self.join(None, self.ranks)
    }

    /// One call of every rank here, ready to be queued.
    pub(super) fn group<'t>(
        &'t self,
        call: impl Fn(&'t RankGpu) -> Result<Call<'t>, GpuError>,
    ) -> Result<Group<'t>, Fault> {
        let ranks = self.comms.iter().zip(&self.gpus);
        let calls = ranks.map(|(comm, own)| Ok((comm, &own.stream, call(own)?)));
        let group = calls
            .collect::<Result<Vec<_>, GpuError>>()
            .and_then(|calls| Group::new(&calls));
        group.map_err(|error| self.fault(&error))
    }

    /// Registers the buffers of all ranks here, until the result is dropped.
    pub(super) fn register(&self) -> Result<Vec<Registered<'_>>, Fault> {
        let both =
            |(comm, own)| RankGpu::buffers(own).map(move |buffer| Comm::register(comm, buffer));
        let all: Result<_, GpuError> = self.comms.iter().zip(&self.gpus).flat_map(both).collect();
        all.map_err(|error| self.fault(&error))
    }

    /// Queues a call.
    pub(super) fn enqueue(&self, group: &Group<'_>) -> Result<(), Fault> {
        group.enqueue().map_err(|error| self.fault(&error))
    }

    /// Captures calls in a graph for each rank here. As frameworks do it, the streams of all ranks capture while the calls are
    /// queued.
    pub(super) fn capture<'t>(&'t self, groups: &[Group<'t>]) -> Result<Vec<Graph<'t>>, Fault> {
        let begun = self
            .gpus
            .iter()
            .try_for_each(|own| own.stream.begin_capture());
        let queued = begun.and_then(|()| groups.iter().try_for_each(Group::enqueue));
        // Ended in any case: a stream that captures does nothing else, and while one does, no graph can be made ready.
        let captured: Vec<_> = self
            .gpus
            .iter()
            .map(|own| own.stream.end_capture())
            .collect();
        let captured: Result<Vec<_>, GpuError> =
            queued.and_then(|()| captured.into_iter().collect());
        let ready = |(own, captured): (&RankGpu, &Captured)| own.stream.instantiate(captured);
        let graphs =
            captured.and_then(|captured| self.gpus.iter().zip(&captured).map(ready).collect());
        graphs.map_err(|error| self.fault(&error))
    }

    /// Launches each rank's graph.
    pub(super) fn launch(&self, graphs: &[Graph<'_>]) -> Result<(), Fault> {
        let launched = self
            .gpus
            .iter()
            .zip(graphs)
            .try_for_each(|(own, graph)| own.stream.launch_graph(graph));
        launched.map_err(|error| self.fault(&error))
    }

    /// An error of all ranks of this process; of the one rank if it has only one.
    fn fault(&self, error: &GpuError) -> Fault {
        let only = if let [own] = self.gpus.as_slice() {
            Some(own.rank)
        } else {
            None
        };
        Fault::of(only, error)
    }

    /// Aborts the communicator; those that were set aside have no work. NCCL may never return from that.
    pub(super) fn abort(&mut self) {
        let whole = self
            .whole
            .take()
            .map(|(comms, _)| comms)
            .unwrap_or_default();
        for comm in self.comms.drain(..).chain(whole) {
            if let Err(error) = comm.abort() {
                log::warn!("aborting the communicator: {error}");
            }
        }
    }
}

fn find(clique: &Clique, id: GpuId) -> Result<&Gpu, Fault> {
    let found = clique.gpus.iter().find(|gpu| gpu.id() == id);
    found.ok_or_else(|| Fault::broken(format!("GPU {id} was not opened")))
}
