//! The meeting on the leading node: admits nodes until all are there or the time is up, and reports those that are
//! missing, came twice, or have another token.

use super::card::{Card, differences};
use super::cluster::Cluster;
use super::order::{Numbered, Order, Welcome};
use crate::net::meeting::{Admitted, Event, Host};
use outcome::finding::{Code, Finding, Severity, Subject};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The time limit for notifying a node that it is turned away.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The most findings about strangers and wrong tokens that are kept.
const MAX_FINDINGS: usize = 16;

/// The nodes of a meeting, and the problems that were found.
#[derive(Debug)]
pub struct GatheredNodes {
    /// The nodes, sorted by rank.
    pub cluster: Cluster,
    /// How long the meeting took, seconds.
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
pub fn gather_nodes(host: Host, size: usize, due: Instant) -> io::Result<GatheredNodes> {
    let begun = Instant::now();
    let (mut admitted, mut findings, mut strangers) = (Vec::new(), Vec::new(), Vec::new());
    host.admit(due, |event| {
        match event {
            Event::Admitted(guest) => admit_node(*guest, size, &mut admitted, &mut findings),
            Event::WrongToken(from, name) if findings.len() < MAX_FINDINGS => {
                let message =
                    format!("the node at {from}, which calls itself {name}, has another token");
                findings.push(Code::NodesToken.finding(
                    Severity::Warn,
                    Subject::node(from),
                    message,
                ));
            }
            Event::Stranger(from, why) if strangers.len() < MAX_FINDINGS => {
                strangers.push(format!("{from}: {why}"));
            }
            Event::WrongToken(..) | Event::Stranger(..) => {}
        }
        admitted.len() == size
    })?;
    drop(host);
    admitted.sort_by(|a: &Admitted<Card>, b| sort_key(&a.card).cmp(&sort_key(&b.card)));
    let complete = admitted.len() == size;
    if !complete {
        findings.insert(
            0,
            absent_finding(&admitted, size, begun.elapsed(), strangers),
        );
    }
    let leader_address = admitted.iter().find(|node| !node.card.hosts);
    let leader_address = leader_address
        .and_then(|node| node.link.to.own_address().ok())
        .map(|address| address.ip());
    make_names_unique(&mut admitted, leader_address);
    findings.extend(differences(
        &admitted.iter().map(|node| &node.card).collect::<Vec<_>>(),
    ));
    let complete = complete
        && findings
            .iter()
            .all(|finding| finding.severity < Severity::Fail);
    let mut cluster = Cluster::new(admitted);
    let hosts: Vec<_> = cluster.cards().iter().map(|card| card.hosts).collect();
    let address = |node: usize| leader_address.filter(|_| hosts.get(node) == Some(&true));
    let names: Vec<_> = cluster
        .cards()
        .iter()
        .map(|card| card.name.clone())
        .collect();
    let welcome = |node| {
        Some(Order::Welcome(Welcome {
            node,
            names: names.clone(),
            address: address(node),
        }))
    };
    if complete {
        cluster.execute(welcome, SEND_TIMEOUT, false);
    }
    Ok(GatheredNodes {
        cluster,
        seconds: begun.elapsed().as_secs_f64(),
        findings,
        complete,
    })
}

/// Appends the address to names that several nodes share, and the node's number if the address is the same too;
/// `leader_address` is the address of the leading node.
fn make_names_unique(admitted: &mut [Admitted<Card>], leader_address: Option<IpAddr>) {
    let address = |admitted: &Admitted<Card>| {
        leader_address
            .filter(|_| admitted.card.hosts)
            .unwrap_or_else(|| admitted.from.ip())
    };
    let named: Vec<_> = admitted
        .iter()
        .map(|node| (node.card.name.clone(), address(node)))
        .collect();
    for (admitted, name) in admitted.iter_mut().zip(unique_names(&named)) {
        admitted.card.name = name;
    }
}

fn unique_names(named: &[(String, IpAddr)]) -> Vec<String> {
    let one = |(n, (name, address)): (usize, &(String, IpAddr))| {
        let same = named.iter().filter(|(other, _)| other == name);
        match (
            same.clone().count(),
            same.filter(|(_, other)| other == address).count(),
        ) {
            (1, _) => name.clone(),
            (_, 1) => format!("{name} ({address})"),
            _ => format!("{name} ({address}, node {})", n + 1),
        }
    };
    named.iter().enumerate().map(one).collect()
}

/// The sort key of a node: the launcher's rank if there is one; otherwise the leading node is first, the others by name.
fn sort_key(card: &Card) -> (Option<usize>, bool, &str, &str) {
    (card.rank, !card.hosts, &card.name, &card.identity)
}

/// Adds a node, unless it is there already. Of two with one identity the leading node itself stays, even if the other came first;
/// otherwise the first.
fn admit_node(
    mut guest: Admitted<Card>,
    size: usize,
    admitted: &mut Vec<Admitted<Card>>,
    findings: &mut Vec<Finding>,
) {
    let leads_instead = |other: &&mut Admitted<Card>| {
        other.card.identity == guest.card.identity && guest.card.hosts && !other.card.hosts
    };
    if let Some(other) = admitted.iter_mut().find(leads_instead) {
        std::mem::swap(other, &mut guest);
    }
    let card = &guest.card;
    let twice = admitted.iter().find(|other| {
        other.card.identity == card.identity
            || (card.rank.is_some() && other.card.rank == card.rank)
    });
    let problem = match (twice, card.rank) {
        (Some(other), Some(rank)) if other.card.identity != card.identity => Some(format!(
            "node {} at {} says that it is rank {rank}, which is node {} at {}",
            card.name, guest.from, other.card.name, other.from
        )),
        (Some(other), _) => Some(format!(
            "node {} came from {} and again from {}",
            card.name, other.from, guest.from
        )),
        (None, Some(rank)) if rank >= size => Some(format!(
            "node {} at {} says that it is rank {rank} of {size}",
            card.name, guest.from
        )),
        (None, _) => None,
    };
    let Some(message) = problem else {
        return admitted.push(guest);
    };
    let finding =
        Code::NodesTwice.finding(Severity::Warn, Subject::node(&guest.card.name), message);
    // The node may be gone already.
    let what = Order::TurnedAway(Box::new(finding.clone()));
    let _ = guest
        .link
        .to
        .send(&Numbered { number: 0, what }, SEND_TIMEOUT);
    if findings.len() < MAX_FINDINGS {
        findings.push(finding);
    }
}

fn absent_finding(
    admitted: &[Admitted<Card>],
    size: usize,
    after: Duration,
    strangers: Vec<String>,
) -> Finding {
    let names: Vec<_> = admitted
        .iter()
        .map(|admitted| format!("{} ({})", admitted.card.name, admitted.from.ip()))
        .collect();
    let is_there = |rank: &usize| admitted.iter().any(|node| node.card.rank == Some(*rank));
    let ranks: Vec<_> = (0..size)
        .filter(|rank| !is_there(rank))
        .map(|rank| rank.to_string())
        .collect();
    let numbered = admitted.iter().any(|node| node.card.rank.is_some());
    let missing = if numbered {
        format!("rank {}", ranks.join(", "))
    } else {
        "the others".to_owned()
    };
    let message = format!(
        "{} of {size} nodes joined within {:.0} s: {}; {missing} did not",
        admitted.len(),
        after.as_secs_f64(),
        names.join(", ")
    );
    let finding = Code::NodesAbsent.finding(Severity::Error, Subject::node(missing), message);
    finding
        .values(admitted.len(), size, Some("nodes"))
        .seen_all(strangers)
}

#[cfg(test)]
mod tests {
    use super::super::card::tests::card;
    use super::*;
    use crate::net::meeting::{Link, Token, join};
    use std::thread;

    #[test]
    fn the_leading_node_stays_although_another_program_on_its_machine_came_first() {
        let token = || Token::new("a token of tests").unwrap();
        let host = Host::bind(&["127.0.0.1:0".parse().unwrap()], token()).unwrap();
        let at = [host.address().unwrap()];
        let due = Instant::now() + Duration::from_secs(20);
        let come = |card: &Card| {
            let mut link = join(&at, &token(), &card.name, due).unwrap();
            link.to.send(card, SEND_TIMEOUT).unwrap();
            link
        };
        let leading = Card {
            hosts: true,
            ..card("a")
        };
        let gathered = thread::scope(|scope| {
            let gathering = scope.spawn(|| gather_nodes(host, 2, due));
            let mut first = come(&card("a"));
            let mut own = come(&leading);
            let turned_away = |link: &mut Link| {
                let told = link.from.receive::<Numbered<Order>>(SEND_TIMEOUT).unwrap();
                matches!(told.what, Order::TurnedAway(_))
            };
            assert!(turned_away(&mut first));
            let mut other = come(&card("b"));
            assert!(!turned_away(&mut own) && !turned_away(&mut other));
            // No more answers come.
            drop((own, other));
            gathering.join().unwrap().unwrap()
        });
        assert!(gathered.complete && gathered.findings.iter().all(|f| f.is(Code::NodesTwice)));
        let hosts: Vec<_> = gathered
            .cluster
            .cards()
            .iter()
            .map(|card| (card.name.as_str(), card.hosts))
            .collect();
        assert_eq!(hosts, [("a", true), ("b", false)]);
    }

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
