//! The nodes of a meeting, as the leading node has them: sends them orders and receives their answers within a deadline.

use super::card::Card;
use super::order::{Ending, Failure, Numbered, Order, Reply};
use crate::machine::Rank;
use crate::net::meeting::{Came, Cut, Listener, Speaker};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the others may take to answer once one has failed.
const OTHERS: Duration = Duration::from_secs(3);
/// The time limit for sending an order.
const SENDING: Duration = Duration::from_secs(10);
/// The longest silence of a node between orders; every order has a separate deadline.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// All nodes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    answers: Receiver<(usize, Result<Numbered<Reply>, Cut>)>,
    number: u64,
}

#[derive(Debug)]
struct Node {
    card: Card,
    to: Speaker,
    /// Why the connection is lost, if it is.
    lost: Option<Cut>,
}

/// A node's result.
#[derive(Debug, Clone)]
pub enum Heard {
    /// Its answer.
    Reply(Reply),
    /// It failed.
    Failed(Failure),
    /// Its connection is lost, or its answer did not arrive in time.
    Lost(Cut),
    /// The wait for its answer was ended early, because another node failed.
    Unheard,
}

impl Cluster {
    /// A cluster of the nodes that have come, in order.
    pub(super) fn new(came: Vec<Came<Card>>) -> Self {
        let (sender, answers) = channel();
        let node = |(number, came): (usize, Came<Card>)| {
            let lost = listen(number, came.link.from, sender.clone()).err();
            Node { card: came.card, to: came.link.to, lost }
        };
        let nodes = came.into_iter().enumerate().map(node).collect();
        Self { nodes, answers, number: 0 }
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
        self.card(node).map_or_else(|| format!("number {node}"), |card| card.name.clone())
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
        ends.position(|end| rank.index() < end).unwrap_or(self.nodes.len())
    }

    /// The first node on the same machine as that of a rank.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> usize {
        let node = self.node_of(rank);
        let host = |node: usize| self.card(node).map(|card| card.host.as_str());
        (0..node).find(|other| host(*other) == host(node)).unwrap_or(node)
    }

    /// The first node that is gone, and why.
    #[must_use]
    pub fn lost(&self) -> Option<(usize, &Cut)> {
        self.nodes.iter().enumerate().find_map(|(n, node)| Some((n, node.lost.as_ref()?)))
    }

    /// Sends each node the order that `order` returns for it, if any, and returns the answers of those nodes, in the nodes'
    /// order. If `together`, the wait for the others is cut short once one fails.
    pub fn ask(
        &mut self,
        order: impl Fn(usize) -> Option<Order>,
        within: Duration,
        together: bool,
    ) -> Vec<(usize, Heard)> {
        // Messages since the last order: a late answer, or why a connection was lost, which sending would not reveal.
        while let Ok((n, heard)) = self.answers.try_recv() {
            if let Err(cut) = heard {
                self.lose(n, cut);
            }
        }
        self.number += 1;
        let number = self.number;
        let mut asked = Vec::new();
        for (n, node) in self.nodes.iter_mut().enumerate() {
            let Some(what) = order(n) else { continue };
            if node.lost.is_none() {
                node.lost = node.to.say(&Numbered { number, what }, SENDING).err();
            }
            asked.push((n, node.lost.clone().map(Heard::Lost)));
        }
        let mut due = Instant::now() + within;
        let is_bad = |heard: &Heard| !matches!(heard, Heard::Reply(_));
        while asked.iter().any(|(_, heard)| heard.is_none()) {
            if together && asked.iter().any(|(_, heard)| heard.as_ref().is_some_and(is_bad)) {
                due = due.min(Instant::now() + OTHERS);
            }
            match self.answers.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok((n, answer)) => {
                    let heard = match answer {
                        Ok(answer) if answer.number != number => continue,
                        Ok(Numbered { what: Reply::Failed(failure), .. }) => Heard::Failed(failure),
                        Ok(Numbered { what, .. }) => Heard::Reply(what),
                        Err(cut) => {
                            self.lose(n, cut.clone());
                            Heard::Lost(cut)
                        }
                    };
                    if let Some((_, place)) = asked.iter_mut().find(|(node, _)| *node == n) {
                        *place = Some(heard);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let failed = asked.iter().any(|(_, heard)| heard.as_ref().is_some_and(is_bad));
        let mut all = Vec::new();
        for (n, heard) in asked {
            let heard = match heard {
                Some(heard) => heard,
                None if together && failed => Heard::Unheard,
                None => {
                    let cut = Cut::Silent(within);
                    self.lose(n, cut.clone());
                    Heard::Lost(cut)
                }
            };
            all.push((n, heard));
        }
        all
    }

    /// Sends the end to all nodes that are still connected.
    pub fn end(&mut self, ending: &Ending) {
        self.number += 1;
        for node in self.nodes.iter_mut().filter(|node| node.lost.is_none()) {
            let what = Order::End(Box::new(ending.clone()));
            node.lost = node.to.say(&Numbered { number: self.number, what }, SENDING).err();
        }
    }

    fn lose(&mut self, node: usize, cut: Cut) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.lost.get_or_insert(cut);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| node.to.close());
    }
}

/// Forwards a node's messages until its connection ends.
fn listen(
    node: usize,
    mut from: Listener,
    answers: Sender<(usize, Result<Numbered<Reply>, Cut>)>,
) -> Result<(), Cut> {
    let work = move || {
        loop {
            let heard = from.hear(PATIENCE);
            let ended = heard.is_err();
            if answers.send((node, heard)).is_err() || ended {
                return;
            }
        }
    };
    thread::Builder::new().name(format!("node {node}")).spawn(work)?;
    Ok(())
}
