//! One node's ranks of a communicator over several nodes: the same steps as on one machine, but the leading node
//! provides the id, the seeds and the size, and receives the results.

use super::{REPORT_MARGIN, Ranks};
use crate::nccl::Row;
use crate::nccl::ranks::merge::{empty_row, row, sum};
use crate::nccl::ranks::messages::{Answer, Ask, Done};
use crate::nccl::ranks::row::values;
use crate::nccl::ranks::watch::calls_time_limit;
use crate::nccl::ranks::{Device, RowAsk, Started, Trouble};
use gpu::pattern::Nonces;
use gpu::{Shape, UniqueId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The result of starting CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// NCCL's version, 22907 for 2.29.7.
    pub nccl: u32,
    /// One for each rank here, in order.
    pub devices: Vec<Device>,
    /// Bytes of each buffer that rows may use.
    pub room: u64,
    /// The communicator's id, from the node of rank 0.
    pub id: Option<UniqueId>,
}

impl Ranks {
    /// Makes every later wait end once `abandoned` is set.
    pub fn set_abandoned(&mut self, abandoned: &Arc<AtomicBool>) {
        self.abandoned = Arc::clone(abandoned);
    }

    /// Waits until CUDA has started on this node.
    ///
    /// # Errors
    /// CUDA has not started `within` that time, or failed.
    pub fn open_part(&mut self, within: Duration) -> Result<Opening, Trouble> {
        let opened = self.opened(Instant::now() + within)?;
        let nccl = opened.first().map_or(0, |opened| opened.nccl);
        let id = opened.iter().find_map(|opened| opened.id.clone());
        let room = self.room();
        let devices = opened
            .into_iter()
            .flat_map(|opened| opened.devices)
            .collect();
        Ok(Opening {
            nccl,
            devices,
            room,
            id,
        })
    }

    /// Joins the communicator with all nodes.
    ///
    /// # Errors
    /// It does not exist `within` that time, or failed.
    pub fn join_part(&mut self, id: &UniqueId, within: Duration) -> Result<(), Trouble> {
        self.enter(id, Instant::now() + within)
    }

    /// This node's part of a row; `room` is the smallest of all nodes.
    ///
    /// # Errors
    /// As for [`Ranks::row`].
    pub fn row_part(&mut self, ask: &RowAsk, seeds: [u64; 2], room: u64) -> Result<Done, Trouble> {
        let shape = ask.shape(self.ranks());
        self.allow(ask, shape)?;
        let room = room.min(self.room());
        Ok(sum(self.measure(ask, shape, seeds, room)?))
    }

    /// Joins a communicator with other nodes.
    fn enter(&mut self, id: &UniqueId, due: Instant) -> Result<(), Trouble> {
        let ranks = self.setup.ranks();
        self.processes.send_all(|_| Ask::Join {
            id: Some(id.clone()),
            ranks,
        });
        self.joined(due)?;
        let seconds = self.begun.elapsed().as_secs_f64();
        self.started = Some(Started {
            nccl: 0,
            library: None,
            devices: Vec::new(),
            seconds,
        });
        Ok(())
    }

    /// The row of each process; all ranks use `room` bytes.
    pub(super) fn measure(
        &mut self,
        ask: &RowAsk,
        shape: Shape,
        seeds: [u64; 2],
        room: u64,
    ) -> Result<Vec<Done>, Trouble> {
        self.processes.send_all(|_| Ask::Row {
            ask: *ask,
            seeds,
            room,
        });
        let due = Instant::now() + time_limit(ask, shape);
        self.receive(&ask.to_string(), due, |answer| match answer {
            Answer::Row(done) => Some(*done),
            _ => None,
        })
    }

    /// Whether the row is a valid request.
    pub(super) fn allow(&self, ask: &RowAsk, shape: Shape) -> Result<(), Trouble> {
        let ranks = self.ranks();
        let refuse = |why: String| Err(Trouble::broken(format!("{ask}: {why}")));
        if self.ended || self.started.is_none() {
            return refuse("the arm's processes are gone".to_owned());
        }
        if shape.bytes > self.room {
            return refuse(format!("the buffers hold {} bytes", self.room));
        }
        if ask.collective.rooted() && ask.root.index() >= ranks {
            return refuse(format!("there is no rank {} among {ranks}", ask.root));
        }
        if ask.check {
            values(ask, ranks)
                .map(drop)
                .or_else(|fault| refuse(fault.text))
        } else {
            Ok(())
        }
    }
}

/// The time limit of a row.
fn time_limit(ask: &RowAsk, shape: Shape) -> Duration {
    let calls = ask
        .warmups
        .max(1)
        .saturating_add(ask.iterations.max(1))
        .saturating_add(1);
    calls_time_limit(shape.bytes, calls.saturating_mul(2)) + REPORT_MARGIN
}

/// The leading node's view of a communicator over several nodes: the rows of all nodes, and their time limit.
#[derive(Debug)]
pub struct WholeCommunicator {
    /// The number of ranks on all nodes.
    pub ranks: usize,
    nonces: Nonces,
}

impl WholeCommunicator {
    /// A communicator of this many ranks.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        Self {
            ranks,
            nonces: Nonces::new(),
        }
    }

    /// Seeds for the next row.
    pub fn seeds(&mut self) -> [u64; 2] {
        [self.nonces.next(), self.nonces.next()]
    }

    /// The time limit of a row.
    #[must_use]
    pub fn time_limit(&self, ask: &RowAsk) -> Duration {
        time_limit(ask, ask.shape(self.ranks))
    }

    /// The row, if it has no elements: no call is made.
    #[must_use]
    pub fn empty(&self, ask: &RowAsk) -> Option<Row> {
        let shape = ask.shape(self.ranks);
        (shape.count == 0).then(|| row(ask, shape, self.ranks, vec![empty_row(ask)]))
    }

    /// The row, merged from all nodes' parts.
    #[must_use]
    pub fn row(&self, ask: &RowAsk, parts: Vec<Done>) -> Row {
        row(ask, ask.shape(self.ranks), self.ranks, parts)
    }
}
