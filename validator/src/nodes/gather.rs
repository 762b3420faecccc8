//! The meeting on the leading node: admits nodes until all are there or the time is up, and reports those that are
//! missing, came twice, or have another token.

use super::card::{Card, differences};
use super::cluster::Cluster;
use super::order::{Numbered, Order, Welcome};
use crate::net::meeting::{Came, Event, Host};
use crate::outcome::finding::{Code, Finding, Severity};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The time limit for notifying a node that it is turned away.
const SENDING: Duration = Duration::from_secs(5);
/// The most findings about strangers and wrong tokens that are kept.
const MOST: usize = 16;

/// The result of a meeting.
#[derive(Debug)]
pub struct Gathered {
    /// The nodes that came, the first rank's first.
    pub cluster: Cluster,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Problems that were found.
    pub findings: Vec<Finding>,
    /// Whether the tests over all nodes can run: all are there, with the same firstlight.
    pub complete: bool,
}

/// Admits `size` nodes, until `due`. The port is closed when it returns.
///
/// # Errors
/// The system's error.
pub fn gather(host: Host, size: usize, due: Instant) -> io::Result<Gathered> {
    let begun = Instant::now();
    let (mut came, mut findings, mut strangers) = (Vec::new(), Vec::new(), Vec::new());
    host.admit(due, |event| {
        match event {
            Event::Came(guest) => take(*guest, size, &mut came, &mut findings),
            Event::WrongToken(from, name) if findings.len() < MOST => {
                let message = format!("the node at {from}, which calls itself {name}, has another token");
                findings.push(Code::NodesToken.finding(Severity::Warn, &from, message));
            }
            Event::Stranger(from, why) if strangers.len() < MOST => strangers.push(format!("{from}: {why}")),
            Event::WrongToken(..) | Event::Stranger(..) => {}
        }
        came.len() == size
    })?;
    drop(host);
    came.sort_by(|a: &Came<Card>, b| order(&a.card).cmp(&order(&b.card)));
    let complete = came.len() == size;
    if !complete {
        findings.insert(0, absent(&came, size, begun.elapsed(), strangers));
    }
    let reached = came.iter().find(|came| !came.card.hosts);
    let reached = reached.and_then(|came| came.link.to.own_address().ok()).map(|address| address.ip());
    make_names_unique(&mut came, reached);
    findings.extend(differences(&came.iter().map(|came| &came.card).collect::<Vec<_>>()));
    let complete = complete && findings.iter().all(|finding| finding.severity < Severity::Fail);
    let mut cluster = Cluster::new(came);
    let hosts: Vec<_> = cluster.cards().iter().map(|card| card.hosts).collect();
    let address = |node: usize| reached.filter(|_| hosts.get(node) == Some(&true));
    let names: Vec<_> = cluster.cards().iter().map(|card| card.name.clone()).collect();
    let welcome = |node| Some(Order::Welcome(Welcome { node, names: names.clone(), address: address(node) }));
    if complete {
        cluster.ask(welcome, SENDING, false);
    }
    Ok(Gathered { cluster, seconds: begun.elapsed().as_secs_f64(), findings, complete })
}

/// Appends the address to names that several nodes share, and the node's number if the address is the same too;
/// `reached` is the address of the leading node.
fn make_names_unique(came: &mut [Came<Card>], reached: Option<IpAddr>) {
    let address = |came: &Came<Card>| reached.filter(|_| came.card.hosts).unwrap_or_else(|| came.from.ip());
    let named: Vec<_> = came.iter().map(|came| (came.card.name.clone(), address(came))).collect();
    for (came, name) in came.iter_mut().zip(unique_names(&named)) {
        came.card.name = name;
    }
}

fn unique_names(named: &[(String, IpAddr)]) -> Vec<String> {
    let one = |(n, (name, address)): (usize, &(String, IpAddr))| {
        let same = named.iter().filter(|(other, _)| other == name);
        match (same.clone().count(), same.filter(|(_, other)| other == address).count()) {
            (1, _) => name.clone(),
            (_, 1) => format!("{name} ({address})"),
            _ => format!("{name} ({address}, node {})", n + 1),
        }
    };
    named.iter().enumerate().map(one).collect()
}

/// The sort key of a node: the launcher's rank if there is one; otherwise the leading node is first, the others by name.
fn order(card: &Card) -> (Option<usize>, bool, &str, &str) {
    (card.rank, !card.hosts, &card.name, &card.identity)
}

/// Adds a node, unless it is there already.
fn take(mut guest: Came<Card>, size: usize, came: &mut Vec<Came<Card>>, findings: &mut Vec<Finding>) {
    let card = &guest.card;
    let twice = came.iter().find(|other| {
        other.card.identity == card.identity || (card.rank.is_some() && other.card.rank == card.rank)
    });
    let wrong = match (twice, card.rank) {
        (Some(other), Some(rank)) if other.card.identity != card.identity => Some(format!(
            "node {} at {} says that it is rank {rank}, which is node {} at {}",
            card.name, guest.from, other.card.name, other.from
        )),
        (Some(other), _) => {
            Some(format!("node {} came from {} and again from {}", card.name, other.from, guest.from))
        }
        (None, Some(rank)) if rank >= size => {
            Some(format!("node {} at {} says that it is rank {rank} of {size}", card.name, guest.from))
        }
        (None, _) => None,
    };
    let Some(message) = wrong else { return came.push(guest) };
    let finding = Code::NodesTwice.finding(Severity::Warn, &guest.card.name, message);
    // The node may be gone already.
    let what = Order::TurnedAway(Box::new(finding.clone()));
    let _ = guest.link.to.say(&Numbered { number: 0, what }, SENDING);
    if findings.len() < MOST {
        findings.push(finding);
    }
}

fn absent(came: &[Came<Card>], size: usize, after: Duration, strangers: Vec<String>) -> Finding {
    let names: Vec<_> = came.iter().map(|came| format!("{} ({})", came.card.name, came.from.ip())).collect();
    let is_there = |rank: &usize| came.iter().any(|came| came.card.rank == Some(*rank));
    let ranks: Vec<_> = (0..size).filter(|rank| !is_there(rank)).map(|rank| rank.to_string()).collect();
    let numbered = came.iter().any(|came| came.card.rank.is_some());
    let missing = if numbered { format!("rank {}", ranks.join(", ")) } else { "the others".to_owned() };
    let message = format!(
        "{} of {size} nodes joined within {:.0} s: {}; {missing} did not",
        came.len(),
        after.as_secs_f64(),
        names.join(", ")
    );
    let finding = Code::NodesAbsent.finding(Severity::Error, &missing, message);
    finding.values(came.len(), size, Some("nodes")).seen_all(strangers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_name_are_distinguished() {
        let node = |name: &str, address: &str| (name.to_owned(), address.parse().unwrap());
        let named = [
            node("firstlight", "169.254.1.7"),
            node("other", "169.254.1.7"),
            node("firstlight", "169.254.1.8"),
            node("twin", "127.0.0.1"),
            node("twin", "127.0.0.1"),
        ];
        let names = [
            "firstlight (169.254.1.7)",
            "other",
            "firstlight (169.254.1.8)",
            "twin (127.0.0.1, node 4)",
            "twin (127.0.0.1, node 5)",
        ];
        assert_eq!(unique_names(&named), names);
    }
}
