//! Ports without sockets: the test supplies the clock and the packets, and checks what the ports do.

use super::port::{ANNOUNCE_INTERVAL, ANNOUNCE_WAIT, MAX_CONFLICTS, RATE_LIMIT};
use super::*;

/// Ports, the time, and what they did.
struct World {
    ports: Ports,
    began: Instant,
    now: Instant,
    done: Vec<(Duration, Act)>,
}

fn mac(n: u8) -> Mac {
    Mac::of([0x52, 0x54, 0, 0, 0, n])
}

const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn other(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(169, 254, 99, last)
}

fn announcement(n: u8, address: Ipv4Addr) -> Packet {
    Packet { mac: mac(n), sender: address, target: address, is_request: true }
}

fn probe(n: u8, address: Ipv4Addr) -> Packet {
    Packet { sender: NONE, ..announcement(n, address) }
}

impl World {
    /// Ports with the addresses `mac(0)`, `mac(1)` .., all with a carrier.
    fn new(ports: u8) -> Self {
        let macs: Vec<_> = (0..ports).map(mac).collect();
        let now = Instant::now();
        let mut world = Self { ports: Ports::new(&macs), began: now, now, done: Vec::new() };
        (0..macs.len()).for_each(|at| world.carrier(at, true));
        world
    }

    fn note(&mut self, acts: Vec<Act>) {
        let at = self.now - self.began;
        self.done.extend(acts.into_iter().map(|act| (at, act)));
    }

    fn carrier(&mut self, at: usize, is_up: bool) {
        let acts = self.ports.carrier(at, is_up, self.now);
        self.note(acts);
    }

    fn hear(&mut self, at: usize, packet: Packet) {
        let acts = self.ports.heard(at, &packet, self.now);
        self.note(acts);
    }

    /// Advances the clock and performs everything that is due.
    fn pass(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some(next) = self.ports.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            let acts = self.ports.tick(self.now);
            self.note(acts);
        }
        self.now = end;
    }

    /// What was done since the last call.
    fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.done).into_iter().map(|(_, act)| act).collect()
    }

    fn address(&self, at: usize) -> Option<Ipv4Addr> {
        self.ports.addresses().nth(at).flatten()
    }

    /// As [`World::new`], with every address in use and announced.
    fn settled(ports: u8) -> (Self, Vec<Ipv4Addr>) {
        let mut world = Self::new(ports);
        world.pass(10_000);
        world.acts();
        let addresses = world.ports.addresses().map(Option::unwrap).collect();
        (world, addresses)
    }
}

#[test]
fn an_address_is_probed_three_times_taken_and_announced_twice() {
    let mut world = World::new(1);
    assert_eq!(world.address(0), None);
    world.pass(10_000);
    let address = world.address(0).unwrap();
    let (probe, announcement) = (Act::Send(0, NONE, address), Act::Send(0, address, address));
    let (times, acts): (Vec<_>, Vec<_>) = std::mem::take(&mut world.done).into_iter().unzip();
    assert_eq!(acts, [probe, probe, probe, Act::Take(0, address), announcement, announcement]);
    assert!(times[0] <= Duration::from_millis(200), "{times:?}");
    for pair in times[..3].windows(2) {
        assert!((300..=600).contains(&(pair[1] - pair[0]).as_millis()), "{times:?}");
    }
    assert_eq!((times[3] - times[2], times[5] - times[4]), (ANNOUNCE_WAIT, ANNOUNCE_INTERVAL));
    assert_eq!(world.ports.next(), None);
}

#[test]
fn several_ports_take_different_addresses_and_each_speaks_for_itself() {
    let (_, addresses) = World::settled(4);
    let different: std::collections::BTreeSet<_> = addresses.iter().collect();
    assert_eq!(different.len(), 4);
    // Two ports with the same Ethernet address: the second would ask for the same address.
    let twice = Ports::new(&[mac(0), mac(0)]);
    assert_ne!(twice.ports[0].address, twice.ports[1].address);
}

#[test]
fn a_conflict_while_probing_leads_to_another_address() {
    let first = World::settled(1).1[0];
    for packet in [announcement(9, first), probe(9, first)] {
        for after in [0, 300, 1200] {
            let mut world = World::new(1);
            world.pass(after);
            world.hear(0, packet);
            world.pass(10_000);
            assert_ne!(world.address(0), Some(first), "{packet:?} after {after} ms");
            assert!(world.address(0).is_some());
            assert!(!world.acts().contains(&Act::Take(0, first)));
        }
    }
}

#[test]
fn many_conflicts_slow_the_search_down() {
    let mut world = World::new(1);
    for _ in 0..MAX_CONFLICTS {
        world.pass(250);
        let probed = world.ports.ports[0].address;
        world.hear(0, announcement(9, probed));
    }
    world.acts();
    world.pass(59_000);
    assert_eq!(world.acts(), []);
    world.pass(u64::try_from(RATE_LIMIT.as_millis()).unwrap());
    assert!(world.address(0).is_some());
}

#[test]
fn an_address_in_use_is_defended_once_and_then_given_up() {
    let (mut world, addresses) = World::settled(1);
    let own = addresses[0];
    world.hear(0, announcement(9, own));
    assert_eq!(world.acts(), [Act::Send(0, own, own)]);
    world.pass(11_000);
    world.hear(0, announcement(9, own));
    assert_eq!(world.acts(), [Act::Send(0, own, own)]);
    world.pass(9_000);
    world.hear(0, Packet { target: other(1), is_request: false, ..announcement(9, own) });
    assert_eq!(world.acts(), [Act::GiveUp(0, own)]);
    assert_eq!(world.address(0), None);
    world.pass(5_000);
    let next = world.address(0).unwrap();
    assert_ne!(next, own);
    assert!(world.acts().contains(&Act::Take(0, next)));
}

#[test]
fn a_probe_for_an_address_in_use_is_left_to_the_kernel_which_answers_it() {
    let (mut world, addresses) = World::settled(1);
    world.hear(0, probe(9, addresses[0]));
    assert_eq!(world.acts(), []);
    world.pass(1);
    assert_eq!(world.acts(), [Act::Send(0, addresses[0], addresses[0])]);
    assert_eq!(world.address(0), Some(addresses[0]));
}

#[test]
fn packets_of_this_machine_are_no_conflict_and_no_peer() {
    let (mut world, addresses) = World::settled(2);
    for packet in [announcement(0, addresses[0]), announcement(0, other(1)), probe(0, addresses[1])] {
        world.hear(1, packet);
        world.pass(2_000);
        assert_eq!(world.acts(), [], "{packet:?}");
    }
}

#[test]
fn a_new_peer_gets_a_route_and_one_announcement() {
    let (mut world, addresses) = World::settled(2);
    let route = Act::Route(1, addresses[1], other(1));
    world.hear(1, announcement(9, other(1)));
    world.hear(1, announcement(9, other(1)));
    world.pass(5_000);
    assert_eq!(world.acts(), [route, Act::Send(1, addresses[1], addresses[1])]);
    for address in ["10.0.0.1", "169.254.0.7", "169.254.255.7"] {
        world.hear(1, announcement(9, address.parse().unwrap()));
    }
    world.pass(5_000);
    assert_eq!(world.acts(), []);
}

#[test]
fn announcements_for_peers_are_limited_and_none_is_lost() {
    let (mut world, addresses) = World::settled(1);
    for n in 1..=100 {
        world.hear(0, probe(9, other(n)));
        world.pass(20);
    }
    world.pass(2_000);
    assert_eq!(world.acts(), [Act::Send(0, addresses[0], addresses[0]); 3]);
}

#[test]
fn a_peer_that_was_heard_before_the_own_address_gets_its_route_with_it() {
    let mut world = World::new(1);
    world.hear(0, announcement(9, other(1)));
    assert_eq!(world.acts(), []);
    world.pass(5_000);
    let own = world.address(0).unwrap();
    assert!(world.acts().ends_with(&[
        Act::Take(0, own),
        Act::Send(0, own, own),
        Act::Route(0, own, other(1)),
        Act::Send(0, own, own)
    ]));
}

#[test]
fn a_peer_whose_cable_was_moved_moves_its_route() {
    let (mut world, addresses) = World::settled(2);
    world.hear(0, announcement(9, other(1)));
    world.pass(5_000);
    world.acts();
    world.hear(1, announcement(9, other(1)));
    world.pass(2_000);
    let announcement = Act::Send(1, addresses[1], addresses[1]);
    assert_eq!(world.acts(), [Act::Route(1, addresses[1], other(1)), announcement]);
}

#[test]
fn a_peer_on_a_switch_with_two_ports_keeps_its_route() {
    for order in [[0, 1], [1, 0]] {
        let (mut world, _) = World::settled(2);
        world.hear(0, announcement(9, other(1)));
        world.pass(5_000);
        world.acts();
        for at in order {
            world.hear(at, announcement(9, other(1)));
            world.pass(10);
        }
        world.pass(2_000);
        assert_eq!(world.acts(), [], "{order:?}");
    }
}

#[test]
fn without_a_carrier_nothing_is_taken_and_a_new_one_is_announced() {
    let mut world = World::new(1);
    world.pass(800);
    world.carrier(0, false);
    world.acts();
    world.pass(60_000);
    assert_eq!((world.acts(), world.address(0)), (Vec::new(), None));
    world.carrier(0, true);
    world.hear(0, announcement(9, other(1)));
    world.pass(10_000);
    let own = world.address(0).unwrap();
    world.acts();
    world.carrier(0, false);
    world.pass(10_000);
    assert_eq!((world.acts(), world.address(0)), (Vec::new(), Some(own)));
    world.carrier(0, true);
    world.pass(10_000);
    let announcement = Act::Send(0, own, own);
    assert_eq!(world.acts(), [Act::Route(0, own, other(1)), announcement, announcement]);
}

#[test]
fn a_probe_that_could_not_be_sent_proves_nothing() {
    let mut world = World::new(1);
    world.pass(1_300);
    let probes = world.acts().len();
    assert!(probes >= 2, "{probes}");
    world.ports.unsent(0, world.now);
    world.pass(10_000);
    let own = world.address(0).unwrap();
    let probe = Act::Send(0, NONE, own);
    assert_eq!(world.acts().iter().filter(|act| **act == probe).count(), 3);
    world.ports.unsent(0, world.now);
    assert_eq!(world.address(0), Some(own));
    world.ports.untaken(0, world.now);
    assert_eq!(world.address(0), None);
    world.pass(10_000);
    assert!(world.acts().contains(&Act::Take(0, own)));
}

#[test]
fn a_port_without_a_carrier_does_not_wait_for_an_address_that_a_peer_has() {
    let mut world = World::new(2);
    world.carrier(1, false);
    let wanted = world.ports.ports[1].address;
    world.hear(0, announcement(9, wanted));
    world.carrier(1, true);
    world.pass(10_000);
    assert_ne!(world.address(1), Some(wanted));
    assert!(!world.acts().contains(&Act::Take(1, wanted)));
}
