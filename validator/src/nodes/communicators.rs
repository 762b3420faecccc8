//! Communicators over nodes, driven step by step by the leading node: CUDA starts on all nodes, the node of rank 0 makes
//! the id and all receive it, all measure each row, and NCCL's lines are collected. Several communicators of
//! different nodes go through the same steps at the same time; one that fails does not stop the others.

use super::cluster::{Cluster, NodeReply};
use super::order::{Failure, Open, Order, Reply};
use crate::nccl::Row;
use crate::nccl::ranks::{Device, NetworkKind, Opening, RowAsk, TroubleKind, WholeCommunicator};
use crate::net::meeting::LinkError;
use gpu::UniqueId;
use machine::Rank;
use std::time::Duration;

/// Extra time beyond a node's own time limit, for its answer to arrive.
const ANSWER_MARGIN: Duration = Duration::from_secs(15);
/// The time limit for stopping NCCL's processes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(40);

/// What all communicators have in common.
#[derive(Debug, Clone, Copy)]
pub struct CommunicatorConfig {
    /// The network.
    pub kind: NetworkKind,
    /// The rail; `None`: all.
    pub rail: Option<usize>,
    /// Whether NCCL merges rails; `None`: its own choice.
    pub merge: Option<bool>,
    /// Minimum and wanted bytes of each buffer.
    pub bytes: (u64, u64),
    /// The time limit of the start.
    pub start: Duration,
}

/// A communicator.
#[derive(Debug)]
pub struct Communicator {
    /// Its nodes; the first has rank 0.
    pub nodes: Vec<usize>,
    /// NCCL's version on each node.
    pub nccl: Vec<u32>,
    /// The GPU of each rank, with its node.
    pub devices: Vec<(usize, Device)>,
    /// Bytes that rows may use.
    pub room: u64,
    /// Why it has ended, if it has.
    pub stop: Option<StopReason>,
    whole: WholeCommunicator,
}

/// Why a communicator has ended.
#[derive(Debug, Clone)]
pub enum StopReason {
    /// A node is gone.
    Lost {
        /// The node.
        node: usize,
        /// The error of its connection.
        why: LinkError,
        /// The step that was in progress.
        doing: String,
    },
    /// A node has failed.
    Failed {
        /// The node.
        node: usize,
        /// Why.
        failure: Failure,
        /// The step that was in progress.
        doing: String,
    },
    /// Two nodes have different versions of NCCL.
    Versions([(usize, u32); 2]),
}

/// `ncclRemoteError`: another rank failed first.
const REMOTE_ERROR: i32 = 6;

impl StopReason {
    /// How close to the cause this reason is; a larger number is closer.
    const fn closeness_to_cause(&self) -> u8 {
        match self {
            Self::Lost {
                why: LinkError::Silent(_),
                ..
            } => 2,
            Self::Lost { .. } | Self::Versions(_) => 5,
            Self::Failed { failure, .. } => match failure.kind {
                TroubleKind::Hang => 1,
                TroubleKind::Nccl(REMOTE_ERROR) => 3,
                _ => 4,
            },
        }
    }
}

/// Communicators that have no node in common.
#[derive(Debug)]
pub struct Communicators<'c> {
    cluster: &'c mut Cluster,
    /// The communicators.
    pub list: Vec<Communicator>,
    start: Duration,
}

impl<'c> Communicators<'c> {
    /// Starts the communicators. A group whose start failed contains the reason.
    pub fn start(
        cluster: &'c mut Cluster,
        nodes: Vec<Vec<usize>>,
        config: &CommunicatorConfig,
    ) -> Self {
        let group = |nodes: Vec<usize>| {
            let ranks = nodes
                .iter()
                .filter_map(|node| cluster.card(*node))
                .map(|card| card.gpus)
                .sum();
            let (nccl, devices, whole) = (Vec::new(), Vec::new(), WholeCommunicator::new(ranks));
            Communicator {
                nodes,
                nccl,
                devices,
                room: u64::MAX,
                stop: None,
                whole,
            }
        };
        let list = nodes.into_iter().map(group).collect();
        let mut all = Self {
            cluster,
            list,
            start: config.start,
        };
        all.open(config);
        all
    }

    /// The nodes.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        self.cluster
    }

    fn open(&mut self, config: &CommunicatorConfig) {
        let gpus = |node: &usize| self.cluster.card(*node).map_or(0, |card| card.gpus);
        let mut orders = Vec::new();
        for group in &self.list {
            let mut first = 0;
            for node in &group.nodes {
                let (most_bytes, room) = config.bytes;
                let (ranks, start_s) = (group.whole.ranks, config.start.as_secs());
                let open = Open {
                    first: Rank::new(first),
                    ranks,
                    kind: config.kind,
                    rail: config.rail,
                    merge: config.merge,
                    most_bytes,
                    room,
                    start_s,
                };
                orders.push((*node, Order::Open(open)));
                first += gpus(node);
            }
        }
        let order = |node| {
            orders
                .iter()
                .find(|(n, _)| *n == node)
                .map(|(_, order)| order.clone())
        };
        let within = self.start + ANSWER_MARGIN;
        let openings: Vec<Option<Vec<Opening>>> =
            self.step("starting CUDA", order, within, |reply| match reply {
                Reply::Opened(opening) => Some(opening),
                _ => None,
            });
        let mut ids: Vec<Option<UniqueId>> = Vec::new();
        for (group, openings) in self.list.iter_mut().zip(openings) {
            ids.push(group.store_openings(openings.unwrap_or_default()));
        }
        let id_of = |groups: &[Communicator], node| {
            let group = groups
                .iter()
                .position(|group| group.nodes.contains(&node))?;
            ids.get(group)?.clone()
        };
        let orders: Vec<_> = (0..self.cluster.len())
            .map(|node| id_of(&self.list, node).map(Order::Join))
            .collect();
        let order = |node: usize| orders.get(node).cloned().flatten();
        self.step("making the communicator", order, within, |reply| {
            matches!(reply, Reply::Done).then_some(())
        });
    }

    /// One row of every communicator; `None` for one that has ended.
    pub fn row(&mut self, ask: &RowAsk) -> Vec<Option<Row>> {
        let mut orders = Vec::new();
        let mut limit = Duration::ZERO;
        for group in self.list.iter_mut().filter(|group| group.stop.is_none()) {
            limit = limit.max(group.whole.time_limit(ask));
            let order = Order::Row(*ask, group.whole.seeds(), group.room);
            orders.extend(group.nodes.iter().map(|node| (*node, order.clone())));
        }
        if self
            .list
            .iter()
            .any(|group| group.whole.empty(ask).is_some())
        {
            return self
                .list
                .iter()
                .map(|group| group.whole.empty(ask))
                .collect();
        }
        let order = |node| {
            orders
                .iter()
                .find(|(n, _)| *n == node)
                .map(|(_, order)| order.clone())
        };
        let done = self.step(
            &ask.to_string(),
            order,
            limit + ANSWER_MARGIN,
            |reply| match reply {
                Reply::Row(done) => Some(*done),
                _ => None,
            },
        );
        let row =
            |(group, parts): (&Communicator, Option<Vec<_>>)| Some(group.whole.row(ask, parts?));
        self.list.iter().zip(done).map(row).collect()
    }

    /// NCCL's lines of every communicator; `None` for one that has ended.
    pub fn log(&mut self) -> Vec<Option<String>> {
        let nodes: Vec<_> = self
            .list
            .iter()
            .flat_map(|group| group.nodes.clone())
            .collect();
        let order = |node| nodes.contains(&node).then_some(Order::Log);
        let logs = self.step(
            "collecting NCCL's lines",
            order,
            ANSWER_MARGIN,
            |reply| match reply {
                Reply::Log(text) => Some(text),
                _ => None,
            },
        );
        logs.into_iter().map(|log| Some(log?.concat())).collect()
    }

    /// Sends an order to the nodes of all communicators that have not ended, and records those that end now.
    fn step<T>(
        &mut self,
        doing: &str,
        order: impl Fn(usize) -> Option<Order>,
        within: Duration,
        want: impl Fn(Reply) -> Option<T>,
    ) -> Vec<Option<Vec<T>>> {
        let is_needed = |node: usize| {
            let mut going = self.list.iter().filter(|group| group.stop.is_none());
            going.any(|group| group.nodes.contains(&node))
        };
        let active: Vec<_> = (0..self.cluster.len()).map(is_needed).collect();
        let is_active = |node: usize| active.get(node).copied().unwrap_or_default();
        let together = self.list.len() == 1;
        let order = |node| if is_active(node) { order(node) } else { None };
        let mut replies: Vec<_> = self
            .cluster
            .execute(order, within, together)
            .into_iter()
            .map(|(n, h)| (n, Some(h)))
            .collect();
        let mut all = Vec::new();
        for group in &mut self.list {
            if group.stop.is_some() {
                all.push(None);
                continue;
            }
            let mut got = Vec::new();
            for node in group.nodes.clone() {
                let found = replies
                    .iter_mut()
                    .find(|(n, _)| *n == node)
                    .and_then(|(_, reply)| reply.take());
                let doing = doing.to_owned();
                match found {
                    Some(NodeReply::Reply(reply)) => match want(reply) {
                        Some(value) => got.push(value),
                        None => {
                            let why = LinkError::Malformed(
                                "the answer does not match the order".to_owned(),
                            );
                            group.stop_with(StopReason::Lost { node, why, doing });
                        }
                    },
                    Some(NodeReply::Failed(failure)) => {
                        group.stop_with(StopReason::Failed {
                            node,
                            failure,
                            doing,
                        });
                    }
                    Some(NodeReply::Lost(why)) => {
                        group.stop_with(StopReason::Lost { node, why, doing });
                    }
                    Some(NodeReply::Abandoned) | None => {}
                }
            }
            all.push((group.stop.is_none() && got.len() == group.nodes.len()).then_some(got));
        }
        all
    }
}

impl Communicator {
    /// Keeps the reason that is closer to the cause.
    fn stop_with(&mut self, stop: StopReason) {
        if self
            .stop
            .as_ref()
            .is_none_or(|before| before.closeness_to_cause() < stop.closeness_to_cause())
        {
            self.stop = Some(stop);
        }
    }

    /// Stores what the nodes report after CUDA has started; returns the communicator's id.
    fn store_openings(&mut self, openings: Vec<Opening>) -> Option<UniqueId> {
        let mut id = None;
        for (node, opening) in self.nodes.iter().zip(openings) {
            self.nccl.push(opening.nccl);
            self.room = self.room.min(opening.room);
            self.devices
                .extend(opening.devices.into_iter().map(|device| (*node, device)));
            id = id.or(opening.id);
        }
        let versions: Vec<_> = self
            .nodes
            .iter()
            .copied()
            .zip(self.nccl.iter().copied())
            .collect();
        if let Some((first, others)) = versions.split_first()
            && let Some(other) = others.iter().find(|(_, nccl)| *nccl != first.1)
        {
            self.stop_with(StopReason::Versions([*first, *other]));
        }
        id.filter(|_| self.stop.is_none())
    }
}

impl Drop for Communicators<'_> {
    fn drop(&mut self) {
        let nodes: Vec<_> = self
            .list
            .iter()
            .flat_map(|group| group.nodes.clone())
            .collect();
        // Nodes that do not answer are recorded as lost.
        let order = |node| nodes.contains(&node).then_some(Order::Close);
        let _ = self.cluster.execute(order, CLOSE_TIMEOUT, false);
    }
}
