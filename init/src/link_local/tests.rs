//! Ports without sockets: the test supplies the clock and the packets, and checks what the ports do.

use super::port::{ANNOUNCE_INTERVAL, ANNOUNCE_WAIT, MAX_CONFLICTS, RATE_LIMIT};
use super::*;

/// Ports with a simulated clock, and the actions that they required.
struct Simulation {
    ports: Ports,
    began: Instant,
    now: Instant,
    done: Vec<(Duration, PortAction)>,
}

fn mac(n: u8) -> Mac {
    Mac::new([0x52, 0x54, 0, 0, 0, n])
}

const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn other(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(169, 254, 99, last)
}

fn announcement(n: u8, address: Ipv4Addr) -> ArpPacket {
    ArpPacket {
        mac: mac(n),
        sender: address,
        target: address,
        is_request: true,
    }
}

fn probe(n: u8, address: Ipv4Addr) -> ArpPacket {
    ArpPacket {
        sender: NONE,
        ..announcement(n, address)
    }
}

impl Simulation {
    /// Ports with the addresses `mac(0)`, `mac(1)` .., all with a carrier.
    fn new(ports: u8) -> Self {
        let macs: Vec<_> = (0..ports).map(mac).collect();
        let now = Instant::now();
        let mut simulation = Self {
            ports: Ports::new(&macs),
            began: now,
            now,
            done: Vec::new(),
        };
        (0..macs.len()).for_each(|at| simulation.carrier(at, true));
        simulation
    }

    fn record(&mut self, actions: Vec<PortAction>) {
        let at = self.now - self.began;
        self.done
            .extend(actions.into_iter().map(|action| (at, action)));
    }

    fn carrier(&mut self, at: usize, is_up: bool) {
        let actions = self.ports.set_carrier(at, is_up, self.now);
        self.record(actions);
    }

    fn receive(&mut self, at: usize, packet: ArpPacket) {
        let actions = self.ports.receive(at, &packet, self.now);
        self.record(actions);
    }

    /// Advances the clock and performs everything that is due.
    fn advance(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some(next) = self.ports.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            let actions = self.ports.tick(self.now);
            self.record(actions);
        }
        self.now = end;
    }

    /// What was done since the last call.
    fn actions(&mut self) -> Vec<PortAction> {
        std::mem::take(&mut self.done)
            .into_iter()
            .map(|(_, action)| action)
            .collect()
    }

    fn address(&self, at: usize) -> Option<Ipv4Addr> {
        self.ports.addresses().nth(at).flatten()
    }

    /// As [`Simulation::new`], with every address in use and announced.
    fn settled(ports: u8) -> (Self, Vec<Ipv4Addr>) {
        let mut simulation = Self::new(ports);
        simulation.advance(10_000);
        simulation.actions();
        let addresses = simulation.ports.addresses().map(Option::unwrap).collect();
        (simulation, addresses)
    }
}

#[test]
fn an_address_is_probed_three_times_taken_and_announced_twice() {
    let mut simulation = Simulation::new(1);
    assert_eq!(simulation.address(0), None);
    simulation.advance(10_000);
    let address = simulation.address(0).unwrap();
    let probe = PortAction::SendArp(0, NONE, address);
    let announcement = PortAction::SendArp(0, address, address);
    let (times, actions): (Vec<_>, Vec<_>) =
        std::mem::take(&mut simulation.done).into_iter().unzip();
    let add = PortAction::AddAddress(0, address);
    assert_eq!(
        actions,
        [probe, probe, probe, add, announcement, announcement]
    );
    assert!(times[0] <= Duration::from_millis(200), "{times:?}");
    for pair in times[..3].windows(2) {
        assert!(
            (300..=600).contains(&(pair[1] - pair[0]).as_millis()),
            "{times:?}"
        );
    }
    assert_eq!(
        (times[3] - times[2], times[5] - times[4]),
        (ANNOUNCE_WAIT, ANNOUNCE_INTERVAL)
    );
    assert_eq!(simulation.ports.next(), None);
}

#[test]
fn several_ports_take_different_addresses_and_each_speaks_for_itself() {
    let (_, addresses) = Simulation::settled(4);
    let different: std::collections::BTreeSet<_> = addresses.iter().collect();
    assert_eq!(different.len(), 4);
    // Two ports with the same Ethernet address: the second would ask for the same address.
    let twice = Ports::new(&[mac(0), mac(0)]);
    assert_ne!(twice.ports[0].address, twice.ports[1].address);
}

#[test]
fn a_conflict_while_probing_leads_to_another_address() {
    let first = Simulation::settled(1).1[0];
    for packet in [announcement(9, first), probe(9, first)] {
        for after in [0, 300, 1200] {
            let mut simulation = Simulation::new(1);
            simulation.advance(after);
            simulation.receive(0, packet);
            simulation.advance(10_000);
            assert_ne!(
                simulation.address(0),
                Some(first),
                "{packet:?} after {after} ms"
            );
            assert!(simulation.address(0).is_some());
            assert!(
                !simulation
                    .actions()
                    .contains(&PortAction::AddAddress(0, first))
            );
        }
    }
}

#[test]
fn many_conflicts_slow_the_search_down() {
    let mut simulation = Simulation::new(1);
    for _ in 0..MAX_CONFLICTS {
        simulation.advance(250);
        let probed = simulation.ports.ports[0].address;
        simulation.receive(0, announcement(9, probed));
    }
    simulation.actions();
    simulation.advance(59_000);
    assert_eq!(simulation.actions(), []);
    simulation.advance(u64::try_from(RATE_LIMIT.as_millis()).unwrap());
    assert!(simulation.address(0).is_some());
}

#[test]
fn an_address_in_use_is_defended_once_and_then_given_up() {
    let (mut simulation, addresses) = Simulation::settled(1);
    let own = addresses[0];
    simulation.receive(0, announcement(9, own));
    assert_eq!(simulation.actions(), [PortAction::SendArp(0, own, own)]);
    simulation.advance(11_000);
    simulation.receive(0, announcement(9, own));
    assert_eq!(simulation.actions(), [PortAction::SendArp(0, own, own)]);
    simulation.advance(9_000);
    simulation.receive(
        0,
        ArpPacket {
            target: other(1),
            is_request: false,
            ..announcement(9, own)
        },
    );
    assert_eq!(simulation.actions(), [PortAction::RemoveAddress(0, own)]);
    assert_eq!(simulation.address(0), None);
    simulation.advance(5_000);
    let next = simulation.address(0).unwrap();
    assert_ne!(next, own);
    assert!(
        simulation
            .actions()
            .contains(&PortAction::AddAddress(0, next))
    );
}

#[test]
fn a_probe_for_an_address_in_use_is_left_to_the_kernel_which_answers_it() {
    let (mut simulation, addresses) = Simulation::settled(1);
    simulation.receive(0, probe(9, addresses[0]));
    assert_eq!(simulation.actions(), []);
    simulation.advance(1);
    assert_eq!(
        simulation.actions(),
        [PortAction::SendArp(0, addresses[0], addresses[0])]
    );
    assert_eq!(simulation.address(0), Some(addresses[0]));
}

#[test]
fn packets_of_this_machine_are_no_conflict_and_no_peer() {
    let (mut simulation, addresses) = Simulation::settled(2);
    for packet in [
        announcement(0, addresses[0]),
        announcement(0, other(1)),
        probe(0, addresses[1]),
    ] {
        simulation.receive(1, packet);
        simulation.advance(2_000);
        assert_eq!(simulation.actions(), [], "{packet:?}");
    }
}

#[test]
fn a_new_peer_gets_a_route_and_one_announcement() {
    let (mut simulation, addresses) = Simulation::settled(2);
    let route = PortAction::SetRoute(1, addresses[1], other(1));
    simulation.receive(1, announcement(9, other(1)));
    simulation.receive(1, announcement(9, other(1)));
    simulation.advance(5_000);
    assert_eq!(
        simulation.actions(),
        [route, PortAction::SendArp(1, addresses[1], addresses[1])]
    );
    for address in ["10.0.0.1", "169.254.0.7", "169.254.255.7"] {
        simulation.receive(1, announcement(9, address.parse().unwrap()));
    }
    simulation.advance(5_000);
    assert_eq!(simulation.actions(), []);
}

#[test]
fn a_full_table_forgets_addresses_of_nobody_before_machines_that_are_heard_again() {
    let (mut simulation, addresses) = Simulation::settled(1);
    for _ in 0..2 {
        simulation.receive(0, announcement(9, other(1)));
        simulation.advance(1_000);
    }
    simulation.actions();
    let nobody = |n: u16| Ipv4Addr::new(169, 254, 100 + (n >> 8) as u8, (n & 255) as u8);
    for n in 0..5000 {
        simulation.receive(0, announcement(8, nobody(n)));
    }
    let actions = simulation.actions();
    assert!(actions.contains(&PortAction::RemoveRoute(0, addresses[0], nobody(0))));
    assert!(
        !actions.contains(&PortAction::RemoveRoute(0, addresses[0], other(1))),
        "it was heard a second time"
    );
    // A machine that comes now gets its route.
    simulation.receive(0, announcement(7, other(2)));
    assert!(
        simulation
            .actions()
            .contains(&PortAction::SetRoute(0, addresses[0], other(2)))
    );
}

#[test]
fn announcements_for_peers_are_limited_and_none_is_lost() {
    let (mut simulation, addresses) = Simulation::settled(1);
    for n in 1..=100 {
        simulation.receive(0, probe(9, other(n)));
        simulation.advance(20);
    }
    simulation.advance(2_000);
    assert_eq!(
        simulation.actions(),
        [PortAction::SendArp(0, addresses[0], addresses[0]); 3]
    );
}

#[test]
fn a_peer_that_was_heard_before_the_own_address_gets_its_route_with_it() {
    let mut simulation = Simulation::new(1);
    simulation.receive(0, announcement(9, other(1)));
    assert_eq!(simulation.actions(), []);
    simulation.advance(5_000);
    let own = simulation.address(0).unwrap();
    assert!(simulation.actions().ends_with(&[
        PortAction::AddAddress(0, own),
        PortAction::SendArp(0, own, own),
        PortAction::SetRoute(0, own, other(1)),
        PortAction::SendArp(0, own, own)
    ]));
}

#[test]
fn a_peer_whose_cable_was_moved_moves_its_route() {
    let (mut simulation, addresses) = Simulation::settled(2);
    simulation.receive(0, announcement(9, other(1)));
    simulation.advance(5_000);
    simulation.actions();
    simulation.receive(1, announcement(9, other(1)));
    simulation.advance(2_000);
    let announcement = PortAction::SendArp(1, addresses[1], addresses[1]);
    assert_eq!(
        simulation.actions(),
        [
            PortAction::SetRoute(1, addresses[1], other(1)),
            announcement
        ]
    );
}

#[test]
fn a_peer_on_a_switch_with_two_ports_keeps_its_route() {
    for order in [[0, 1], [1, 0]] {
        let (mut simulation, _) = Simulation::settled(2);
        simulation.receive(0, announcement(9, other(1)));
        simulation.advance(5_000);
        simulation.actions();
        for at in order {
            simulation.receive(at, announcement(9, other(1)));
            simulation.advance(10);
        }
        simulation.advance(2_000);
        assert_eq!(simulation.actions(), [], "{order:?}");
    }
}

#[test]
fn without_a_carrier_nothing_is_taken_and_a_new_one_is_announced() {
    let mut simulation = Simulation::new(1);
    simulation.advance(800);
    simulation.carrier(0, false);
    simulation.actions();
    simulation.advance(60_000);
    assert_eq!(
        (simulation.actions(), simulation.address(0)),
        (Vec::new(), None)
    );
    simulation.carrier(0, true);
    simulation.receive(0, announcement(9, other(1)));
    simulation.advance(10_000);
    let own = simulation.address(0).unwrap();
    simulation.actions();
    simulation.carrier(0, false);
    simulation.advance(10_000);
    assert_eq!(
        (simulation.actions(), simulation.address(0)),
        (Vec::new(), Some(own))
    );
    simulation.carrier(0, true);
    simulation.advance(10_000);
    let announcement = PortAction::SendArp(0, own, own);
    assert_eq!(
        simulation.actions(),
        [
            PortAction::SetRoute(0, own, other(1)),
            announcement,
            announcement
        ]
    );
}

#[test]
fn a_probe_that_could_not_be_sent_proves_nothing() {
    let mut simulation = Simulation::new(1);
    simulation.advance(1_300);
    let probes = simulation.actions().len();
    assert!(probes >= 2, "{probes}");
    simulation.ports.send_failed(0, simulation.now);
    simulation.advance(10_000);
    let own = simulation.address(0).unwrap();
    let probe = PortAction::SendArp(0, NONE, own);
    assert_eq!(
        simulation
            .actions()
            .iter()
            .filter(|action| **action == probe)
            .count(),
        3
    );
    simulation.ports.send_failed(0, simulation.now);
    assert_eq!(simulation.address(0), Some(own));
    simulation.ports.address_failed(0, simulation.now);
    assert_eq!(simulation.address(0), None);
    simulation.advance(10_000);
    assert!(
        simulation
            .actions()
            .contains(&PortAction::AddAddress(0, own))
    );
}

#[test]
fn a_port_without_a_carrier_does_not_wait_for_an_address_that_a_peer_has() {
    let mut simulation = Simulation::new(2);
    simulation.carrier(1, false);
    let wanted = simulation.ports.ports[1].address;
    simulation.receive(0, announcement(9, wanted));
    simulation.carrier(1, true);
    simulation.advance(10_000);
    assert_ne!(simulation.address(1), Some(wanted));
    assert!(
        !simulation
            .actions()
            .contains(&PortAction::AddAddress(1, wanted))
    );
}
