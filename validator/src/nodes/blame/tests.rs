//! Networks with planted faults. A wrong accusation is one of a part that was not planted.

use super::*;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A small generator (xorshift): the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }

    /// A factor within 4 % of 1.
    fn noise(&mut self) -> f64 {
        0.96 + 0.08 * self.next(1000) as f64 / 1000.0
    }
}

/// The effect of a planted fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FaultKind {
    Slow,
    Wrong,
    Dead,
}

#[derive(Debug, Clone)]
struct TestNetwork {
    network: Network,
    /// Parts at fault; a leaf's fault affects everything that passes through it.
    parts: Vec<(Part, FaultKind)>,
    /// Leaves that are cut off from all others, and work within.
    uplinks: Vec<usize>,
}

impl TestNetwork {
    fn new(nodes: usize, rails: usize) -> Self {
        Self {
            network: Network {
                nodes,
                rails,
                leaves: None,
            },
            parts: Vec::new(),
            uplinks: Vec::new(),
        }
    }

    /// Adds leaves of so many nodes each; every rail has separate leaves.
    fn leaves(mut self, of: usize) -> Self {
        let (nodes, rails) = (self.network.nodes, self.network.rails);
        let leaf = |node: usize, rail: usize| rail * nodes.div_ceil(of) + node / of;
        let leaves = (0..nodes).map(|node| (0..rails).map(|rail| leaf(node, rail)).collect());
        self.network.leaves = Some(leaves.collect());
        self
    }

    fn with(mut self, part: Part, kind: FaultKind) -> Self {
        self.parts.push((part, kind));
        self
    }

    fn touches(&self, part: Part, port: Port) -> bool {
        match part {
            Part::Node(node) => node == port.node,
            Part::Port(own) => own == port,
            Part::Leaf(leaf) => self.network.leaf(port) == Some(leaf),
            Part::Rail(rail) => rail == port.rail,
        }
    }

    fn result(&self, pair: (usize, usize), rail: usize, random: &mut Random) -> MeasurementResult {
        let [a, b] = [pair.0, pair.1].map(|node| Port { node, rail });
        let [la, lb] = [a, b].map(|port| self.network.leaf(port));
        if la != lb
            && self
                .uplinks
                .iter()
                .any(|up| la == Some(*up) || lb == Some(*up))
        {
            return MeasurementResult::Rate(2.0 * random.noise());
        }
        let fault = self
            .parts
            .iter()
            .find(|(part, _)| self.touches(*part, a) || self.touches(*part, b));
        match fault.map(|(_, kind)| kind) {
            Some(FaultKind::Slow) => MeasurementResult::Rate(5.0 * random.noise()),
            Some(FaultKind::Wrong) => MeasurementResult::WrongData,
            Some(FaultKind::Dead) => MeasurementResult::NoTransfer,
            None => MeasurementResult::Rate(24.0 * random.noise()),
        }
    }

    fn measure(&self, rounds: &[Round], random: &mut Random) -> Vec<Measurement> {
        let each = |round: &Round| {
            round
                .pairs
                .iter()
                .map(|pair| (round.rail, *pair))
                .collect::<Vec<_>>()
        };
        let all = rounds.iter().flat_map(each);
        all.map(|(rail, pair)| Measurement {
            pair,
            rail,
            result: self.result(pair, rail, random),
        })
        .collect()
    }

    /// Everything, with the second attempt.
    fn inference(&self, random: &mut Random) -> Inference {
        self.inference_above(None, random)
    }

    fn inference_above(&self, floor: Option<f64>, random: &mut Random) -> Inference {
        let first = self.measure(&rounds(self.network.nodes, self.network.rails), random);
        let before = infer(&self.network, &first, &[], floor);
        let retried = self.measure(&retry_rounds(&before), random);
        infer(&self.network, &first, &retried, floor)
    }

    /// Fails if a part is accused that is not at fault.
    #[track_caller]
    fn checked(&self, random: &mut Random) -> Inference {
        let inference = self.inference(random);
        for blame in &inference.blames {
            let uplink = matches!(blame.part, Part::Leaf(leaf) if self.uplinks.contains(&leaf));
            let planted = self
                .parts
                .iter()
                .any(|(part, _)| *part == blame.part || self.same(*part, blame.part));
            assert!(uplink || planted, "{self:?}\n{inference:?}");
        }
        if !self.parts.is_empty() && self.network.nodes > 1 {
            assert!(!inference.is_clean(), "{self:?}\n{inference:?}");
        }
        inference
    }

    /// With a single rail a port is its node.
    fn same(&self, planted: Part, accused: Part) -> bool {
        matches!((planted, accused), (Part::Port(port), Part::Node(node)) if self.network.rails == 1 && port.node == node)
    }

    #[track_caller]
    fn names(&self, parts: &[Part]) -> Inference {
        let inference = self.checked(&mut Random(7));
        let named: BTreeSet<_> = inference.blames.iter().map(|blame| blame.part).collect();
        assert_eq!(
            named,
            parts.iter().copied().collect(),
            "{self:?}\n{inference:?}"
        );
        inference
    }

    #[track_caller]
    fn lists_only(&self, candidates: &[Part]) {
        let inference = self.names(&[]);
        let listed: BTreeSet<_> = inference
            .unclear
            .iter()
            .flat_map(|u| u.candidates.clone())
            .collect();
        assert_eq!(
            listed,
            candidates.iter().copied().collect(),
            "{inference:?}"
        );
    }
}

const NAMES: Names<'_> = Names {
    node: &|node| format!("n{node}"),
    leaf: &|leaf| format!("l{leaf}"),
};

const ALL: [FaultKind; 3] = [FaultKind::Slow, FaultKind::Wrong, FaultKind::Dead];

const fn port(node: usize, rail: usize) -> Part {
    Part::Port(Port { node, rail })
}

#[test]
fn a_healthy_network_accuses_nothing_in_any_size() {
    let mut random = Random(99);
    for nodes in (2..=40).chain([63, 64, 65, 128]) {
        for rails in [1, 2, 4] {
            let inference = TestNetwork::new(nodes, rails)
                .leaves(4)
                .inference(&mut random);
            assert!(inference.is_clean(), "{nodes} {rails} {inference:?}");
            assert_eq!(inference.proven.len(), nodes * rails);
        }
    }
}

#[test]
fn one_bad_node_of_three_and_more_is_named_with_its_figures() {
    for kind in ALL {
        for nodes in [3, 4, 5, 8, 17, 64] {
            for rails in [1, 2] {
                TestNetwork::new(nodes, rails)
                    .with(Part::Node(nodes - 1), kind)
                    .names(&[Part::Node(nodes - 1)]);
            }
        }
    }
    let inference = TestNetwork::new(8, 1)
        .with(Part::Node(3), FaultKind::Slow)
        .names(&[Part::Node(3)]);
    let figures = inference.blames[0].figures.text(&inference);
    assert!(
        figures.starts_with("7 of 7 measurements are bad: at most 5."),
        "{figures}"
    );
    assert!(figures.contains(" are usual, "), "{figures}");
    let inference = TestNetwork::new(4, 1)
        .with(Part::Node(3), FaultKind::Dead)
        .names(&[Part::Node(3)]);
    let figures = inference.blames[0].figures.text(&inference);
    assert_eq!(
        figures,
        "3 of 3 measurements are bad: no end or no connection in 3"
    );
}

#[test]
fn a_bad_port_is_named_and_not_its_node() {
    for kind in ALL {
        let world = TestNetwork::new(8, 2).with(port(5, 1), kind);
        world.names(&[port(5, 1)]);
        world.leaves(4).names(&[port(5, 1)]);
    }
    assert_eq!(
        port(5, 1).text(&NAMES),
        "the port of node n5 on rail 1, or its cable"
    );
}

#[test]
fn of_two_nodes_neither_is_accused() {
    for kind in [FaultKind::Wrong, FaultKind::Dead] {
        TestNetwork::new(2, 1)
            .with(Part::Node(1), kind)
            .lists_only(&[Part::Node(0), Part::Node(1)]);
        TestNetwork::new(2, 2)
            .with(port(0, 1), kind)
            .lists_only(&[port(0, 1), port(1, 1)]);
    }
}

#[test]
fn two_slow_nodes_are_measured_against_a_floor() {
    let slow = [Measurement {
        pair: (0, 1),
        rail: 0,
        result: MeasurementResult::Rate(3.0),
    }];
    let network = TestNetwork::new(2, 1).network;
    assert!(
        infer(&network, &slow, &[], None).is_clean(),
        "nothing else was measured"
    );
    assert_eq!(infer(&network, &slow, &[], Some(20.0)).unclear.len(), 1);
}

#[test]
fn a_leaf_is_named_where_the_switches_are_known_and_a_list_is_given_where_they_are_not() {
    for kind in ALL {
        let world = TestNetwork::new(16, 2).leaves(4).with(Part::Leaf(5), kind);
        world.names(&[Part::Leaf(5)]);
        let nodes: Vec<_> = (4..8).map(|node| port(node, 1)).collect();
        let ports = nodes.iter().fold(TestNetwork::new(16, 2), |world, part| {
            world.with(*part, kind)
        });
        ports.lists_only(&nodes);
    }
}

#[test]
fn a_leaf_that_works_within_and_not_to_others_is_named_if_there_are_two_others() {
    let cut = |nodes, of| TestNetwork {
        uplinks: vec![1],
        ..TestNetwork::new(nodes, 1).leaves(of)
    };
    cut(16, 4).names(&[Part::Leaf(1)]);
    // With two leaves it may be the one or the other.
    for (nodes, of) in [(8, 4), (7, 4), (10, 8), (5, 4)] {
        let inference = cut(nodes, of).names(&[]);
        assert!(!inference.unclear.is_empty(), "{nodes} {of} {inference:?}");
    }
}

#[test]
fn leaves_with_few_ports_are_not_distinguished_from_their_ports() {
    TestNetwork::new(6, 1)
        .leaves(1)
        .with(Part::Node(2), FaultKind::Slow)
        .lists_only(&[Part::Node(2), Part::Leaf(2)]);
    TestNetwork::new(8, 2)
        .leaves(2)
        .with(Part::Leaf(1), FaultKind::Dead)
        .lists_only(&[port(2, 0), port(3, 0), Part::Leaf(1)]);
}

#[test]
fn a_rail_on_which_nothing_works_is_named() {
    for kind in ALL {
        TestNetwork::new(8, 4)
            .with(Part::Rail(2), kind)
            .names(&[Part::Rail(2)]);
        TestNetwork::new(3, 2)
            .with(Part::Rail(1), FaultKind::Dead)
            .names(&[]);
    }
}

#[test]
fn a_bad_way_between_two_good_nodes_accuses_neither() {
    let world = TestNetwork::new(8, 1);
    let mut first = world.measure(&rounds(8, 1), &mut Random(3));
    first
        .iter_mut()
        .filter(|m| m.pair == (2, 6))
        .for_each(|m| m.result = MeasurementResult::Rate(1.0));
    let inference = infer(&world.network, &first, &[], None);
    assert!(inference.blames.is_empty());
    let text = inference.unclear[0].text(&NAMES);
    assert!(
        text.starts_with("node n2 or node n6: only the path between these two"),
        "{text}"
    );
}

#[test]
fn what_is_good_when_tried_again_is_not_accused() {
    let world = TestNetwork::new(6, 1).with(Part::Node(4), FaultKind::Slow);
    let first = world.measure(&rounds(6, 1), &mut Random(3));
    let before = infer(&world.network, &first, &[], None);
    assert_eq!(before.suspects, [Port { node: 4, rail: 0 }]);
    let healthy = TestNetwork::new(6, 1).measure(&retry_rounds(&before), &mut Random(4));
    assert_eq!(healthy.len(), 3);
    let after = infer(&world.network, &first, &healthy, None);
    assert!(
        after.blames.is_empty() && after.unclear.is_empty(),
        "{after:?}"
    );
    assert_eq!(after.passing, [Port { node: 4, rail: 0 }]);
}

#[test]
fn a_node_that_is_bad_only_most_of_the_time_is_named_by_majority() {
    let world = TestNetwork::new(16, 1).with(Part::Node(9), FaultKind::Slow);
    let mut first = world.measure(&rounds(16, 1), &mut Random(3));
    let own = first.iter_mut().filter(|m| m.pair.0 == 9 || m.pair.1 == 9);
    own.step_by(4)
        .for_each(|m| m.result = MeasurementResult::Rate(24.0));
    let inference = infer(&world.network, &first, &[], None);
    assert_eq!(
        inference.blames.iter().map(|b| b.part).collect::<Vec<_>>(),
        [Part::Node(9)]
    );
    assert_eq!(
        (
            inference.blames[0].figures.bad,
            inference.blames[0].figures.of
        ),
        (11, 15)
    );
}

#[test]
fn whatever_is_planted_no_other_part_is_accused() {
    let mut random = Random(20_261_123);
    let (mut named, mut worlds) = (0, 0);
    for _ in 0..800 {
        let nodes = 2 + random.next(if worlds % 20 == 0 { 100 } else { 30 });
        let rails = 1 + random.next(4);
        let mut world = TestNetwork::new(nodes, rails);
        if random.next(2) == 1 {
            world = world.leaves(1 + random.next(8));
        }
        for _ in 0..=random.next(3) {
            let node = random.next(nodes);
            let leaf = world.network.leaf(Port {
                node,
                rail: random.next(rails),
            });
            let part = match (random.next(5), leaf) {
                (0, Some(leaf)) => Part::Leaf(leaf),
                (1, _) if nodes > 3 && rails > 1 => Part::Rail(random.next(rails)),
                (2 | 3, _) => port(node, random.next(rails)),
                _ => Part::Node(node),
            };
            let kind = ALL[random.next(3)];
            world = world.with(part, kind);
        }
        if let (true, 0, Some(leaf)) = (
            world.parts.len() < 3,
            random.next(4),
            world.network.leaf(Port {
                node: random.next(nodes),
                rail: 0,
            }),
        ) {
            world.uplinks.push(leaf);
        }
        let rates = (0..nodes).any(|a| {
            (a + 1..nodes).any(|b| {
                (0..rails).any(|rail| {
                    world.result((a, b), rail, &mut Random(1))
                        == MeasurementResult::Rate(24.0 * Random(1).noise())
                })
            })
        });
        if !rates {
            continue;
        }
        worlds += 1;
        named += usize::from(!world.checked_loosely(&mut random).blames.is_empty());
    }
    assert!(worlds > 400 && named * 3 > worlds, "{named} of {worlds}");
}

impl TestNetwork {
    /// As `checked`, for faults that hide each other: an accused part is at fault if everything that passes through it
    /// meets planted faults.
    #[track_caller]
    fn checked_loosely(&self, random: &mut Random) -> Inference {
        // If most parts are slow, the usual rate is a slow one, so a floor is given.
        let inference = self.inference_above(Some(20.0), random);
        let ports: Vec<_> = (0..self.network.rails)
            .flat_map(|rail| self.network.ports(rail))
            .collect();
        for blame in &inference.blames {
            let own = ports
                .iter()
                .copied()
                .filter(|port| self.touches(blame.part, *port));
            let planted = |port: Port| self.parts.iter().any(|(part, _)| self.touches(*part, port));
            let uplink = matches!(blame.part, Part::Leaf(leaf) if self.uplinks.contains(&leaf));
            let is_right = uplink || (own.clone().count() > 0 && own.clone().all(planted));
            assert!(is_right, "{blame:?} {self:?}\n{inference:?}");
        }
        assert!(!inference.is_clean(), "{self:?}\n{inference:?}");
        inference
    }
}

#[test]
fn a_thousand_nodes_are_planned_and_judged_in_a_moment() {
    let world = TestNetwork::new(1024, 1)
        .leaves(32)
        .with(Part::Node(700), FaultKind::Slow)
        .with(Part::Leaf(3), FaultKind::Wrong);
    let mut random = Random(5);
    let begun = Instant::now();
    let plan = rounds(1024, 1);
    let planned = begun.elapsed();
    assert_eq!((plan.len(), plan[0].pairs.len()), (1023, 512));
    let first = world.measure(&plan, &mut random);
    let begun = Instant::now();
    let inference = infer(&world.network, &first, &[], None);
    let judged = begun.elapsed();
    let named: Vec<_> = inference.blames.iter().map(|blame| blame.part).collect();
    assert_eq!(named, [Part::Leaf(3), Part::Node(700)]);
    println!("1,024 nodes: the plan takes {planned:?}, the inference {judged:?}");
    assert!(
        planned + judged < Duration::from_secs(10),
        "{planned:?} {judged:?}"
    );
}

#[test]
fn a_fault_without_a_place_fails_and_one_that_passes_warns() {
    let unclear = UnclearFault {
        candidates: vec![Part::Node(2), Part::Node(6)],
        why: "only the path between them",
    };
    let passing = Port { node: 4, rail: 0 };
    let inference = Inference {
        unclear: vec![unclear],
        passing: vec![passing],
        ..Inference::default()
    };
    let found = blame_findings(&inference, &|node| format!("n{node}"), &|leaf| {
        format!("l{leaf}")
    });
    let found: Vec<_> = found
        .iter()
        .map(|f| (f.code.as_str(), f.severity, &*f.message))
        .collect();
    let expected = [
        (
            "NODES-UNCLEAR",
            Severity::Fail,
            "node n2 or node n6: only the path between them",
        ),
        (
            "NODES-UNCLEAR",
            Severity::Warn,
            "node n4 was bad with most others on rail 0, and good when tried again",
        ),
    ];
    assert_eq!(found, expected);
}
