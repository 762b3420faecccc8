//! Derives accusations from counts. A port is suspected if most of its measurements are bad. It is accused if it is
//! mostly bad with proven partners, of which it has at least two, and good with no other suspect: two suspects that
//! reach each other share a cause, which is between them and the others. If all ports of a node, a leaf or a rail are
//! accused, then it is accused instead of them. Pure.

use super::tally::{PortSet, Tally, is_bad, limits, ports_of};
use super::{Blame, Figures, Inference, Measurement, Network, Part, Port, UnclearFault};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest proven partners for an accusation: with one, either of the two can be the cause.
const MIN_PARTNERS: usize = 2;
/// The fewest nodes of a leaf switch that can be accused: up to three parts may fail at the same time, so that three
/// bad ports may be three separate faults.
const MIN_LEAF_NODES: usize = 4;
/// The fewest nodes of a rail that can be accused because nothing works on it; one good port may have no partner there.
const MIN_RAIL_NODES: usize = 5;

/// Judges all pairs' `first` measurements and the `retried` ones (see [`super::retry_rounds`]; empty: not yet
/// measured). `floor`: the lowest rate that is good, GB/s; without it 80 % of the usual rate.
#[must_use]
pub fn infer(
    network: &Network,
    first: &[Measurement],
    retried: &[Measurement],
    floor: Option<f64>,
) -> Inference {
    let (usual, limit) = limits(network, first, floor);
    let all = Tally::of(network, first, limit, |_, _| true);
    let good = proven(network, first, limit, &all);
    let mut suspects = suspects(network, &all, &good);
    let passing = good_when_retried(network, retried, limit, &suspects);
    let is_passing = |port: &Port| passing.contains(port);
    let listed = suspects.list();
    suspects = PortSet::of(network, |port| listed.contains(&port) && !is_passing(&port));
    let evidence = Evidence {
        network,
        first,
        limit,
        with_proven: Tally::of(network, first, limit, |_, partner| good.contains(partner)),
        good,
        suspects,
    };
    let (blames, unclear) = evidence.judge(&passing);
    Inference {
        limit_gb_s: limit,
        usual_gb_s: usual,
        blames,
        unclear,
        passing,
        suspects: listed,
        proven: evidence.good.list(),
    }
}

/// The ports that are good. If hardly any port of a rail is mostly good, those that have a good partner count as good,
/// as long as they are all good with each other.
fn proven<'n>(
    network: &'n Network,
    first: &[Measurement],
    limit: Option<f64>,
    all: &Tally<'_>,
) -> PortSet<'n> {
    let mostly = |port| {
        all.get(port)
            .is_some_and(|counts| counts.of > 0 && !counts.mostly_bad())
    };
    let majority = PortSet::of(network, mostly);
    // A port that is good only with suspects proves nothing.
    let within = Tally::of(network, first, limit, |_, partner| {
        majority.contains(partner)
    });
    let by_majority = |port| {
        majority.contains(port)
            && within
                .get(port)
                .is_some_and(|counts| counts.of > 0 && !counts.mostly_bad())
    };
    let any_good = |port| all.get(port).is_some_and(|counts| counts.bad < counts.of);
    let reached = PortSet::of(network, any_good);
    let among = Tally::of(network, first, limit, |_, partner| {
        reached.contains(partner)
    });
    let clique: Vec<bool> = (0..network.rails)
        .map(|rail| {
            let mut own = network.ports(rail).filter(|port| reached.contains(*port));
            own.all(|port| among.get(port).is_some_and(|counts| counts.bad == 0))
        })
        .collect();
    let by_majority = PortSet::of(network, by_majority);
    PortSet::of(network, |port| {
        let is_clique = clique.get(port.rail).copied().unwrap_or_default();
        if by_majority.count_on(port.rail) < MIN_PARTNERS && is_clique {
            reached.contains(port)
        } else {
            by_majority.contains(port)
        }
    })
}

fn suspects<'n>(network: &'n Network, all: &Tally<'_>, good: &PortSet<'_>) -> PortSet<'n> {
    PortSet::of(network, |port| {
        !good.contains(port) && all.get(port).is_some_and(super::Figures::mostly_bad)
    })
}

/// Suspects whose measurements are mostly good when they are tried again.
fn good_when_retried(
    network: &Network,
    retried: &[Measurement],
    limit: Option<f64>,
    suspects: &PortSet<'_>,
) -> Vec<Port> {
    let again = Tally::of(network, retried, limit, |own, partner| {
        suspects.contains(own) && !suspects.contains(partner)
    });
    let is_good = |port: &Port| {
        again
            .get(*port)
            .is_some_and(|counts| counts.of > 0 && !counts.mostly_bad())
    };
    suspects.list().into_iter().filter(is_good).collect()
}

/// The measurements and what follows from them.
struct Evidence<'n> {
    network: &'n Network,
    first: &'n [Measurement],
    limit: Option<f64>,
    with_proven: Tally<'n>,
    good: PortSet<'n>,
    suspects: PortSet<'n>,
}

impl Evidence<'_> {
    fn judge(&self, passing: &[Port]) -> (Vec<Blame>, Vec<UnclearFault>) {
        let (mut blames, mut unclear) = (Vec::new(), Vec::new());
        let mut accused = BTreeSet::new();
        for rail in 0..self.network.rails {
            self.judge_rail(rail, &mut accused, &mut blames, &mut unclear);
        }
        self.combine_accused(&accused, &mut blames, &mut unclear);
        unclear.extend(self.unexplained(passing));
        (blames, unclear)
    }

    /// Accuses ports of one rail, or the rail, or gives up.
    fn judge_rail(
        &self,
        rail: usize,
        accused: &mut BTreeSet<Port>,
        blames: &mut Vec<Blame>,
        unclear: &mut Vec<UnclearFault>,
    ) {
        let ports: Vec<_> = self
            .network
            .ports(rail)
            .filter(|port| self.suspects.contains(*port))
            .collect();
        if ports.is_empty() {
            return;
        }
        let candidates = || {
            ports
                .iter()
                .map(|port| self.candidate(*port))
                .collect::<Vec<_>>()
        };
        let mut give_up = |candidates, why| unclear.push(UnclearFault { candidates, why });
        let proven = self.good.count_on(rail);
        if proven < MIN_PARTNERS {
            let others_work = (0..self.network.rails)
                .any(|other| self.good.count_on(other) * 2 > self.network.nodes);
            let figures = self.figures_of(&ports, false);
            match self.rail_of(rail, &ports) {
                Some(part) if proven == 0 && figures.bad == figures.of && others_work => {
                    blames.push(Blame { part, figures });
                }
                _ => give_up(
                    candidates(),
                    "too few nodes are proven good to compare with",
                ),
            }
            return;
        }
        let reach_each_other = self.suspects_that_reach_each_other(rail);
        let convicted = |port: &Port| {
            let counts = self.with_proven.get(*port);
            counts.is_some_and(|c| c.of >= MIN_PARTNERS && c.mostly_bad())
                && !reach_each_other.contains(port)
        };
        let (named, rest): (Vec<_>, Vec<_>) = ports.iter().copied().partition(convicted);
        accused.extend(named);
        if let Some(part) = self.uplink(&rest, &reach_each_other) {
            blames.push(Blame {
                part,
                figures: self.figures_of(&rest, true),
            });
        } else if !rest.is_empty() {
            let why = "these nodes reach each other: a cause between them and the others, or several causes";
            give_up(rest.iter().map(|port| self.candidate(*port)).collect(), why);
        }
    }

    /// The rail, or its only leaf, if nothing else explains that all its ports are bad: neither nodes that are bad on
    /// other rails too, nor one leaf of several.
    fn rail_of(&self, rail: usize, ports: &[Port]) -> Option<Part> {
        let elsewhere = |port: &&Port| {
            let mut others = (0..self.network.rails).filter(|other| *other != rail);
            others.any(|rail| self.suspects.contains(Port { rail, ..**port }))
        };
        let mut leaves = BTreeMap::<Option<usize>, usize>::new();
        for port in ports.iter().filter(|port| !elsewhere(port)) {
            *leaves.entry(self.network.leaf(*port)).or_default() += 1;
        }
        let all: usize = leaves.values().sum();
        let largest = leaves.values().max().copied().unwrap_or_default();
        match leaves.iter().collect::<Vec<_>>()[..] {
            [(Some(leaf), _)] if all >= MIN_RAIL_NODES => Some(Part::Leaf(*leaf)),
            [(None, _)] if all >= MIN_RAIL_NODES => Some(Part::Rail(rail)),
            [_, ..] if all - largest >= MIN_RAIL_NODES => Some(Part::Rail(rail)),
            _ => None,
        }
    }

    /// Suspects with a good measurement between them.
    fn suspects_that_reach_each_other(&self, rail: usize) -> BTreeSet<Port> {
        let on_rail = self
            .first
            .iter()
            .filter(|m| m.rail == rail && !is_bad(m.result, self.limit));
        let pairs = on_rail
            .map(ports_of)
            .filter(|pair| pair.iter().all(|port| self.suspects.contains(*port)));
        pairs.flatten().collect()
    }

    /// The leaf whose ports are exactly these, if they reach each other and no proven port, and if at least two other
    /// leaves have proven ports: otherwise the other side can be the cause.
    fn uplink(&self, ports: &[Port], reach_each_other: &BTreeSet<Port>) -> Option<Part> {
        let leaves: BTreeSet<_> = ports.iter().map(|port| self.network.leaf(*port)).collect();
        let [Some(leaf)] = leaves.into_iter().collect::<Vec<_>>()[..] else {
            return None;
        };
        let own: BTreeSet<_> = self.ports_of_leaf(leaf).into_iter().collect();
        let rail = ports.first()?.rail;
        let others: BTreeSet<_> = self
            .network
            .ports(rail)
            .filter(|port| self.good.contains(*port))
            .filter_map(|port| self.network.leaf(port))
            .collect();
        let cut_off = |port: &Port| {
            self.with_proven
                .get(*port)
                .is_some_and(|c| c.bad == c.of && c.of > 0)
        };
        let whole = own == ports.iter().copied().collect()
            && own.iter().all(|p| reach_each_other.contains(p));
        (whole && own.iter().all(cut_off) && others.len() >= 2).then_some(Part::Leaf(leaf))
    }

    fn ports_of_leaf(&self, leaf: usize) -> Vec<Port> {
        let all = (0..self.network.rails).flat_map(|rail| self.network.ports(rail));
        all.filter(|port| self.network.leaf(*port) == Some(leaf))
            .collect()
    }

    /// Combines accused ports into leaf switches and nodes.
    fn combine_accused(
        &self,
        accused: &BTreeSet<Port>,
        blames: &mut Vec<Blame>,
        unclear: &mut Vec<UnclearFault>,
    ) {
        let mut left = accused.clone();
        let leaves: BTreeSet<_> = accused
            .iter()
            .filter_map(|port| self.network.leaf(*port))
            .collect();
        for leaf in leaves {
            let ports = self.ports_of_leaf(leaf);
            if !ports.iter().all(|port| left.contains(port)) {
                continue;
            }
            let nodes: BTreeSet<_> = ports.iter().map(|port| port.node).collect();
            if nodes.len() >= MIN_LEAF_NODES {
                blames.push(Blame {
                    part: Part::Leaf(leaf),
                    figures: self.figures_of(&ports, true),
                });
            } else {
                let own: BTreeSet<_> = ports
                    .iter()
                    .map(|port| self.node_or_port(*port, accused))
                    .collect();
                let candidates = own
                    .into_iter()
                    .chain(self.with_only_other_leaf(leaf, &ports))
                    .collect();
                unclear.push(UnclearFault {
                    candidates,
                    why: "the leaf switch has too few nodes to decide",
                });
            }
            left.retain(|port| !ports.contains(port));
        }
        // If some ports of a node were already explained, its other ports remain accused as ports.
        let mut parts = BTreeMap::<Part, Vec<Port>>::new();
        left.iter().for_each(|port| {
            parts
                .entry(self.node_or_port(*port, &left))
                .or_default()
                .push(*port);
        });
        if self.network.leaves.is_none() {
            self.list_if_shared_switch(&mut parts, unclear);
        }
        let blame = |(part, ports): (Part, Vec<Port>)| Blame {
            part,
            figures: self.figures_of(&ports, true),
        };
        blames.extend(parts.into_iter().map(blame));
    }

    /// A leaf as a candidate. If it has a single port and there is only one other leaf, that leaf's uplinks would explain
    /// the same.
    fn with_only_other_leaf(&self, leaf: usize, ports: &[Port]) -> Vec<Part> {
        let [port] = ports else {
            return vec![Part::Leaf(leaf)];
        };
        let all: BTreeSet<_> = self
            .network
            .ports(port.rail)
            .filter_map(|port| self.network.leaf(port))
            .collect();
        if all.len() == 2 {
            all.into_iter().map(Part::Leaf).collect()
        } else {
            vec![Part::Leaf(leaf)]
        }
    }

    /// If the switches are unknown, several parts that are bad on the same rail may share one.
    fn list_if_shared_switch(
        &self,
        parts: &mut BTreeMap<Part, Vec<Port>>,
        unclear: &mut Vec<UnclearFault>,
    ) {
        let is_single = |part: &Part| matches!(part, Part::Port(_)) || self.network.rails == 1;
        for rail in 0..self.network.rails {
            let on_rail = parts
                .iter()
                .filter(|(part, ports)| is_single(part) && ports.iter().any(|p| p.rail == rail));
            let candidates: Vec<_> = on_rail.map(|(part, _)| *part).collect();
            if candidates.len() > 1 {
                parts.retain(|part, _| !candidates.contains(part));
                let why = "each of them, or a switch that they share";
                unclear.push(UnclearFault { candidates, why });
            }
        }
    }

    /// The node of a port, if all its ports are `accused`; otherwise the port.
    fn node_or_port(&self, port: Port, accused: &BTreeSet<Port>) -> Part {
        let mut own = (0..self.network.rails).map(|rail| Port { rail, ..port });
        if own.all(|port| accused.contains(&port)) {
            Part::Node(port.node)
        } else {
            Part::Port(port)
        }
    }

    /// The candidate for a port about which nothing else is known.
    fn candidate(&self, port: Port) -> Part {
        if self.network.rails == 1 {
            Part::Node(port.node)
        } else {
            Part::Port(port)
        }
    }

    fn figures_of(&self, ports: &[Port], with_proven: bool) -> Figures {
        let all;
        let tally = if with_proven {
            &self.with_proven
        } else {
            all = Tally::of(self.network, self.first, self.limit, |_, _| true);
            &all
        };
        let none = Figures {
            bad: 0,
            of: 0,
            wrong: 0,
            dead: 0,
            best_gb_s: None,
        };
        ports
            .iter()
            .filter_map(|port| tally.get(*port))
            .fold(none, |sum, more| sum.and(more))
    }

    /// Bad pairs of ports of which neither is suspected.
    fn unexplained(&self, passing: &[Port]) -> Vec<UnclearFault> {
        let is_explained = |port: &Port| self.suspects.contains(*port) || passing.contains(port);
        let bad = self
            .first
            .iter()
            .filter(|measure| is_bad(measure.result, self.limit))
            .map(ports_of);
        let pairs = bad.filter(|pair| !pair.iter().any(is_explained));
        let why = "only the path between these two is bad; both work well with most others";
        pairs
            .map(|pair| UnclearFault {
                candidates: pair.iter().map(|p| self.candidate(*p)).collect(),
                why,
            })
            .collect()
    }
}
