//! The meeting on the leading node: admits nodes until all are there or the time is up, and reports those that are
//! missing, came twice, are too many, or have another token.

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

/// Admits `size` nodes, the leading one among them, until `due`. The port is closed when it returns.
///
/// # Errors
/// The system's error.
pub fn gather_nodes(host: Host, size: usize, due: Instant) -> io::Result<GatheredNodes> {
    let begun = Instant::now();
    let mut gathering = Gathering::new(size);
    host.admit(due, |event| gathering.add(event))?;
    drop(host);
    let complete = gathering.is_complete();
    let Gathering {
        mut admitted,
        mut findings,
        strangers,
        ..
    } = gathering;
    admitted.sort_by(|a, b| sort_key(&a.card).cmp(&sort_key(&b.card)));
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

/// Whether only one of them can take part: they are the same GPUs, or have the same rank.
fn is_twin(one: &Card, other: &Card) -> bool {
    one.identity == other.identity || (one.rank.is_some() && one.rank == other.rank)
}

/// The nodes that have joined so far.
struct Gathering {
    size: usize,
    admitted: Vec<Admitted<Card>>,
    findings: Vec<Finding>,
    strangers: Vec<String>,
}

impl Gathering {
    const fn new(size: usize) -> Self {
        Self {
            size,
            admitted: Vec::new(),
            findings: Vec::new(),
            strangers: Vec::new(),
        }
    }

    /// Whether all are there, the leading node among them, which joins its own meeting over a connection as all others do.
    fn is_complete(&self) -> bool {
        self.admitted.len() == self.size && self.admitted.iter().any(|node| node.card.hosts)
    }

    /// Adds what happened at the port; whether all are there now.
    fn add(&mut self, event: Event<Card>) -> bool {
        match event {
            Event::Admitted(guest) => self.admit(*guest),
            Event::WrongToken(from, name) => {
                let message =
                    format!("the node at {from}, which calls itself {name}, has another token");
                self.find(Code::NodesToken.finding(Severity::Warn, Subject::node(from), message));
            }
            Event::Stranger(from, why) if self.strangers.len() < MAX_FINDINGS => {
                self.strangers.push(format!("{from}: {why}"));
            }
            Event::Stranger(..) => {}
        }
        self.is_complete()
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }

    /// Adds a node, unless it is there already or has no place. The leading node itself always has one, even if others came
    /// first: that of a node with its identity or rank, otherwise that of the last. Of two others the first stays.
    fn admit(&mut self, mut guest: Admitted<Card>) {
        let gives_way = |other: &&mut Admitted<Card>| {
            guest.card.hosts && !other.card.hosts && is_twin(&other.card, &guest.card)
        };
        if let Some(other) = self.admitted.iter_mut().find(gives_way) {
            std::mem::swap(other, &mut guest);
        }
        let (code, message) = match self.problem(&guest) {
            Some(problem) => (Code::NodesTwice, problem),
            None if self.admitted.len() < self.size => return self.admitted.push(guest),
            None => {
                if let Some(last) = self.admitted.last_mut().filter(|_| guest.card.hosts) {
                    std::mem::swap(last, &mut guest);
                }
                let message = format!(
                    "node {} at {} joined although {} nodes had",
                    guest.card.name, guest.from, self.size
                );
                (Code::NodesMany, message)
            }
        };
        let finding = code.finding(Severity::Warn, Subject::node(&guest.card.name), message);
        // The node may be gone already.
        let what = Order::TurnedAway(Box::new(finding.clone()));
        let _ = guest
            .link
            .to
            .send(&Numbered { number: 0, what }, SEND_TIMEOUT);
        self.find(finding);
    }

    /// Why a node cannot take part beside those that are there.
    fn problem(&self, guest: &Admitted<Card>) -> Option<String> {
        let card = &guest.card;
        let twin = self
            .admitted
            .iter()
            .find(|other| is_twin(&other.card, card));
        match (twin, card.rank) {
            (Some(other), Some(rank)) if other.card.identity != card.identity => Some(format!(
                "node {} at {} says that it is rank {rank}, which is node {} at {}",
                card.name, guest.from, other.card.name, other.from
            )),
            (Some(other), _) => Some(format!(
                "node {} came from {} and again from {}",
                card.name, other.from, guest.from
            )),
            (None, Some(rank)) if rank >= self.size => Some(format!(
                "node {} at {} says that it is rank {rank} of {}",
                card.name, guest.from, self.size
            )),
            (None, _) => None,
        }
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
    let missing = if admitted.len() >= size {
        "the leading node".to_owned()
    } else if numbered {
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

    /// Lets two nodes gather while these cards join one after the other over real connections: which of `cards` were turned
    /// away, the names of the nodes that stay, and the findings. All are there when the last one comes.
    fn gathered(cards: &[Card]) -> (Vec<usize>, Vec<String>, Vec<Finding>) {
        let token = || Token::new("a token of tests").unwrap();
        let host = Host::bind(&["127.0.0.1:0".parse().unwrap()], token()).unwrap();
        let at = [host.address().unwrap()];
        let due = Instant::now() + Duration::from_secs(20);
        let come = |card: &Card| {
            let mut link = join(&at, &token(), &card.name, due).unwrap();
            link.to.send(card, SEND_TIMEOUT).unwrap();
            link
        };
        let mut gathering = Gathering::new(2);
        let mut links = Vec::new();
        for (n, card) in cards.iter().enumerate() {
            let last = n + 1 == cards.len();
            links.push(thread::scope(|scope| {
                let joining = scope.spawn(|| come(card));
                let one = |event| {
                    assert_eq!(gathering.add(event), last, "{n}");
                    true
                };
                assert!(host.admit(due, one).unwrap());
                joining.join().unwrap()
            }));
        }
        let names = gathering.admitted.iter().map(|node| &node.card);
        let names = names.map(|card| card.name.clone()).collect();
        // The connections of the nodes that stay are closed, so that their links give an error and not an order.
        gathering.admitted.clear();
        let turned_away = |link: &mut Link| {
            let told = link.from.receive::<Numbered<Order>>(SEND_TIMEOUT);
            told.is_ok_and(|told| matches!(told.what, Order::TurnedAway(_)))
        };
        let away = (0..).zip(&mut links);
        let away = away
            .filter_map(|(n, link)| turned_away(link).then_some(n))
            .collect();
        (away, names, gathering.findings)
    }

    #[test]
    fn the_leading_node_has_a_place_although_others_came_first() {
        let leading = || Card {
            hosts: true,
            ..card("a")
        };
        let twin = || Card {
            name: "twin".to_owned(),
            ..card("a")
        };
        let ranked = |card: Card, rank| Card {
            rank: Some(rank),
            ..card
        };
        for (what, cards, away, code) in [
            (
                "a second program on its machine",
                vec![twin(), leading(), card("b")],
                0,
                Code::NodesTwice,
            ),
            (
                "the same, and all other nodes",
                vec![twin(), card("b"), leading()],
                0,
                Code::NodesTwice,
            ),
            (
                "a node too many",
                vec![card("b"), card("c"), leading()],
                1,
                Code::NodesMany,
            ),
            (
                "a node with its rank",
                vec![
                    ranked(card("c"), 0),
                    ranked(leading(), 0),
                    ranked(card("b"), 1),
                ],
                0,
                Code::NodesTwice,
            ),
        ] {
            let (turned_away, mut names, findings) = gathered(&cards);
            names.sort();
            assert_eq!(
                (turned_away, names),
                (vec![away], vec!["a".to_owned(), "b".to_owned()]),
                "{what}"
            );
            assert!(
                matches!(findings.as_slice(), [one] if one.is(code)),
                "{what}: {findings:?}"
            );
        }
    }

    #[test]
    fn a_meeting_without_its_leading_node_is_not_complete() {
        let mut gathering = Gathering::new(0);
        assert!(!gathering.is_complete());
        gathering.size = 1;
        assert!(!gathering.is_complete());
        let missing = absent_finding(&[], 0, Duration::from_secs(1), Vec::new());
        assert!(
            missing.message.ends_with("the leading node did not"),
            "{}",
            missing.message
        );
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
