//! The nodes of a meeting, as the leading node has them: sends them orders and receives their answers within a deadline.

use super::card::Card;
use super::order::{Ending, Failure, Numbered, Order, Reply};
use crate::net::meeting::{Admitted, LinkError, LinkReceiver, LinkSender};
use machine::Rank;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the other nodes may take to answer once one has failed.
const REMAINING_TIMEOUT: Duration = Duration::from_secs(3);
/// The time limit for sending an order.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest silence of a node between orders; every order has a separate deadline.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The connections to all nodes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    answers: Receiver<(usize, Result<Numbered<Reply>, LinkError>)>,
    number: u64,
}

#[derive(Debug)]
struct Node {
    card: Card,
    to: LinkSender,
    /// Why the connection is lost, if it is.
    lost: Option<LinkError>,
}

/// A node's answer to an order, or why there is none.
#[derive(Debug, Clone)]
pub enum NodeReply {
    /// The answer.
    Reply(Reply),
    /// The order failed on the node.
    Failed(Failure),
    /// Its connection is lost, or its answer did not arrive in time.
    Lost(LinkError),
    /// The wait for its answer was ended early, because another node failed.
    Abandoned,
}

impl Cluster {
    /// A cluster of the admitted nodes, in this order.
    pub(super) fn new(admitted: Vec<Admitted<Card>>) -> Self {
        let (sender, answers) = channel();
        let node = |(number, admitted): (usize, Admitted<Card>)| {
            let lost = forward_replies(number, admitted.link.from, sender.clone()).err();
            Node {
                card: admitted.card,
                to: admitted.link.to,
                lost,
            }
        };
        let nodes = admitted.into_iter().enumerate().map(node).collect();
        Self {
            nodes,
            answers,
            number: 0,
        }
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The card of a node.
    #[must_use]
    pub fn card(&self, node: usize) -> Option<&Card> {
        self.nodes.get(node).map(|node| &node.card)
    }

    /// All cards.
    #[must_use]
    pub fn cards(&self) -> Vec<&Card> {
        self.nodes.iter().map(|node| &node.card).collect()
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, node: usize) -> String {
        self.card(node)
            .map_or_else(|| format!("number {node}"), |card| card.name.clone())
    }

    /// The number of GPUs of all nodes, which is the number of ranks.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.nodes.iter().map(|node| node.card.gpus).sum()
    }

    /// The node of a rank.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> usize {
        let mut ends = self.nodes.iter().scan(0, |end, node| {
            *end += node.card.gpus;
            Some(*end)
        });
        ends.position(|end| rank.index() < end)
            .unwrap_or(self.nodes.len())
    }

    /// The first node on the same machine as that of a rank.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> usize {
        let node = self.node_of(rank);
        let host = |node: usize| self.card(node).map(|card| card.host.as_str());
        (0..node)
            .find(|other| host(*other) == host(node))
            .unwrap_or(node)
    }

    /// The first node that is gone, and why.
    #[must_use]
    pub fn lost(&self) -> Option<(usize, &LinkError)> {
        self.nodes
            .iter()
            .enumerate()
            .find_map(|(n, node)| Some((n, node.lost.as_ref()?)))
    }

    /// Sends each node the order that `order` returns for it, if any; returns the answers of these nodes, by node. If
    /// `together`, the wait for the other nodes is cut short once one has failed.
    pub fn execute(
        &mut self,
        order: impl Fn(usize) -> Option<Order>,
        within: Duration,
        together: bool,
    ) -> Vec<(usize, NodeReply)> {
        // Messages since the last order: a late answer, or why a connection was lost, which sending would not reveal.
        while let Ok((n, reply)) = self.answers.try_recv() {
            if let Err(error) = reply {
                self.mark_lost(n, error);
            }
        }
        self.number += 1;
        let number = self.number;
        let mut replies = Vec::new();
        for (n, node) in self.nodes.iter_mut().enumerate() {
            let Some(what) = order(n) else { continue };
            if node.lost.is_none() {
                node.lost = node.to.send(&Numbered { number, what }, SEND_TIMEOUT).err();
            }
            replies.push((n, node.lost.clone().map(NodeReply::Lost)));
        }
        let mut due = Instant::now() + within;
        let is_bad = |reply: &NodeReply| !matches!(reply, NodeReply::Reply(_));
        while replies.iter().any(|(_, reply)| reply.is_none()) {
            if together
                && replies
                    .iter()
                    .any(|(_, reply)| reply.as_ref().is_some_and(is_bad))
            {
                due = due.min(Instant::now() + REMAINING_TIMEOUT);
            }
            match self
                .answers
                .recv_timeout(due.saturating_duration_since(Instant::now()))
            {
                Ok((n, answer)) => {
                    let reply = match answer {
                        Ok(answer) if answer.number != number => continue,
                        Ok(Numbered {
                            what: Reply::Failed(failure),
                            ..
                        }) => NodeReply::Failed(failure),
                        Ok(Numbered { what, .. }) => NodeReply::Reply(what),
                        Err(error) => {
                            self.mark_lost(n, error.clone());
                            NodeReply::Lost(error)
                        }
                    };
                    if let Some((_, slot)) = replies.iter_mut().find(|(node, _)| *node == n) {
                        *slot = Some(reply);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let failed = replies
            .iter()
            .any(|(_, reply)| reply.as_ref().is_some_and(is_bad));
        let mut all = Vec::new();
        for (n, reply) in replies {
            let reply = match reply {
                Some(reply) => reply,
                None if together && failed => NodeReply::Abandoned,
                None => {
                    let error = LinkError::Silent(within);
                    self.mark_lost(n, error.clone());
                    NodeReply::Lost(error)
                }
            };
            all.push((n, reply));
        }
        all
    }

    /// Sends the result to all nodes that are still connected; the tests end with it.
    pub fn end(&mut self, ending: &Ending) {
        self.number += 1;
        for node in self.nodes.iter_mut().filter(|node| node.lost.is_none()) {
            let what = Order::End(Box::new(ending.clone()));
            node.lost = node
                .to
                .send(
                    &Numbered {
                        number: self.number,
                        what,
                    },
                    SEND_TIMEOUT,
                )
                .err();
        }
    }

    fn mark_lost(&mut self, node: usize, error: LinkError) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.lost.get_or_insert(error);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| node.to.close());
    }
}

/// Forwards a node's messages until its connection ends.
fn forward_replies(
    node: usize,
    mut from: LinkReceiver,
    answers: Sender<(usize, Result<Numbered<Reply>, LinkError>)>,
) -> Result<(), LinkError> {
    let work = move || {
        loop {
            let reply = from.receive(SILENCE_TIMEOUT);
            let ended = reply.is_err();
            if answers.send((node, reply)).is_err() || ended {
                return;
            }
        }
    };
    thread::Builder::new()
        .name(format!("node {node}"))
        .spawn(work)?;
    Ok(())
}
