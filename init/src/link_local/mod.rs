//! Link-local IPv4 addresses (RFC 3927) for several ports, and the peers behind each port, as a state machine without
//! sockets: packets, carriers and the time are its input, the actions to perform ([`PortAction`]) its output.
//! `helper::ports` performs them.
//!
//! The waiting times before an address is taken are a third of the RFC's: they are meant for cables between a few machines,
//! where no wireless link and no slow bridge delays an answer. All other numbers are the RFC's (section 9).
//!
//! A peer is a machine whose address was heard on a port. The addresses of all ports are in the same network, so each peer
//! needs its own route, which determines the port that leads to it.

pub mod arp;
mod port;

use crate::config::mac::Mac;
use arp::{ArpPacket, RandomSequence};
use port::Port;
pub use port::PortAction;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// How long one broadcast may take to arrive on all ports. A peer that is heard on another port, and within this time not
/// on its own port, has moved.
const SAME_BROADCAST: Duration = Duration::from_millis(300);
/// As many nodes as `nodes.size` allows, with four ports each.
const MOST_PEERS: usize = 4096;

#[derive(Debug)]
struct Peer {
    port: usize,
    heard: Instant,
    /// Whether it was heard a second time: one packet may name any address.
    again: bool,
    /// Another port on which it was heard, and when it counts as moved there.
    elsewhere: Option<(usize, Instant)>,
}

/// All ports of this machine.
#[derive(Debug)]
pub struct Ports {
    ports: Vec<Port>,
    peers: BTreeMap<Ipv4Addr, Peer>,
}

impl Ports {
    /// Ports with these Ethernet addresses, without a carrier.
    #[must_use]
    pub fn new(macs: &[Mac]) -> Self {
        let mut all = Self {
            ports: Vec::new(),
            peers: BTreeMap::new(),
        };
        for mac in macs {
            let mut random = RandomSequence::seeded_by(*mac);
            let address = all.free_address(&mut random);
            all.ports.push(Port::new(*mac, random, address));
        }
        all
    }

    /// An address that neither a port nor a peer has.
    fn free_address(&self, random: &mut RandomSequence) -> Ipv4Addr {
        loop {
            let address = random.address();
            let is_taken = self.ports.iter().any(|port| port.address == address);
            if !is_taken && !self.peers.contains_key(&address) {
                return address;
            }
        }
    }

    /// The address of each port that has one in use.
    pub fn addresses(&self) -> impl Iterator<Item = Option<Ipv4Addr>> {
        self.ports
            .iter()
            .map(|port| port.is_used().then_some(port.address))
    }

    /// When [`Ports::tick`] next has something to do.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let of_ports = self
            .ports
            .iter()
            .flat_map(|port| [port.due, port.answer_due])
            .flatten();
        of_ports
            .chain(
                self.peers
                    .values()
                    .filter_map(|peer| peer.elsewhere.map(|(_, at)| at)),
            )
            .min()
    }

    /// Records the carrier of a port. After a new carrier, an address in use is announced again, because the cable may lead
    /// elsewhere.
    pub fn set_carrier(&mut self, at: usize, is_up: bool, now: Instant) -> Vec<PortAction> {
        let is_used = self
            .ports
            .get_mut(at)
            .is_some_and(|port| port.set_carrier(is_up, now));
        if is_used { self.routes(at) } else { Vec::new() }
    }

    /// Records that a packet could not be sent. A probe that was not sent proves nothing, so the port begins again.
    pub fn send_failed(&mut self, at: usize, now: Instant) {
        if let Some(port) = self.ports.get_mut(at) {
            port.send_failed(now);
        }
    }

    /// Records that the port could not be given its address: it begins again.
    pub fn address_failed(&mut self, at: usize, now: Instant) {
        if let Some(port) = self.ports.get_mut(at) {
            port.wait_and_probe(now);
        }
    }

    /// Performs everything that is due.
    pub fn tick(&mut self, now: Instant) -> Vec<PortAction> {
        let mut actions = Vec::new();
        for at in 0..self.ports.len() {
            let routes = self.routes(at);
            if let Some(port) = self.ports.get_mut(at) {
                port.tick(at, now, routes, &mut actions);
            }
        }
        for (address, peer) in &mut self.peers {
            if let Some((to, _)) = peer.elsewhere.filter(|(_, due)| now >= *due) {
                (peer.port, peer.heard, peer.elsewhere) = (to, now, None);
                actions.extend(
                    self.ports
                        .get_mut(to)
                        .and_then(|port| port.add_peer(to, *address, now)),
                );
            }
        }
        actions
    }

    /// Handles a packet that arrived on a port. The kernel answers probes for an address in use, like any other request.
    pub fn receive(&mut self, at: usize, packet: &ArpPacket, now: Instant) -> Vec<PortAction> {
        // Two ports of this machine may be on the same switch.
        if self.ports.iter().any(|port| port.mac == packet.mac) {
            return Vec::new();
        }
        let claimed = if packet.is_probe() {
            packet.target
        } else {
            packet.sender
        };
        let ours = self
            .ports
            .iter()
            .position(|port| port.claims(claimed, packet.is_probe()));
        if let Some(ours) = ours {
            return self.conflict(ours, at, now);
        }
        if let Some(unplugged) = self
            .ports
            .iter()
            .position(|port| port.address == packet.sender)
        {
            self.choose_address(unplugged);
        }
        let Some(port) = self.ports.get_mut(at) else {
            return Vec::new();
        };
        if packet.is_probe() {
            // It has just started, and knows of no peer.
            port.schedule_answer(now);
            return Vec::new();
        }
        if !arp::is_usable(packet.sender) {
            return Vec::new();
        }
        let peers = self.peers.len();
        match self.peers.get_mut(&packet.sender) {
            Some(peer) if peer.port == at => {
                peer.again |= now.saturating_duration_since(peer.heard) >= SAME_BROADCAST;
                (peer.heard, peer.elsewhere) = (now, None);
            }
            Some(peer) if now.saturating_duration_since(peer.heard) < SAME_BROADCAST => {}
            Some(peer) => {
                peer.elsewhere.get_or_insert((at, now + SAME_BROADCAST));
            }
            None => {
                let added = port.add_peer(at, packet.sender, now);
                let removed = if peers >= MOST_PEERS {
                    self.forget_one()
                } else {
                    None
                };
                self.peers.insert(
                    packet.sender,
                    Peer {
                        port: at,
                        heard: now,
                        again: false,
                        elsewhere: None,
                    },
                );
                return removed.into_iter().chain(added).collect();
            }
        }
        Vec::new()
    }

    /// Forgets the peer that was heard longest ago, of those that were heard only once if there are any: packets with addresses
    /// of nobody must not keep other machines out.
    fn forget_one(&mut self) -> Option<PortAction> {
        let (address, _) = self
            .peers
            .iter()
            .min_by_key(|(_, peer)| (peer.again, peer.heard))?;
        let address = *address;
        let peer = self.peers.remove(&address)?;
        let port = self.ports.get(peer.port).filter(|port| port.is_used())?;
        Some(PortAction::RemoveRoute(peer.port, port.address, address))
    }

    /// Handles a conflict: another machine, heard on port `at`, claims the address of port `ours`.
    fn conflict(&mut self, ours: usize, at: usize, now: Instant) -> Vec<PortAction> {
        let Some(port) = self.ports.get_mut(ours) else {
            return Vec::new();
        };
        let address = port.address;
        if port.defends(now) {
            return vec![PortAction::SendArp(at, address, address)];
        }
        let was_used = port.begin_again(now);
        self.choose_address(ours);
        was_used
            .then_some(PortAction::RemoveAddress(ours, address))
            .into_iter()
            .collect()
    }

    /// Chooses another address for a port.
    fn choose_address(&mut self, at: usize) {
        let Some(port) = self.ports.get_mut(at) else {
            return;
        };
        let mut random = std::mem::replace(&mut port.random, RandomSequence::seeded_by(port.mac));
        let another = self.free_address(&mut random);
        if let Some(port) = self.ports.get_mut(at) {
            (port.random, port.address) = (random, another);
        }
    }

    /// The routes to the peers behind a port, once it has an address.
    fn routes(&self, at: usize) -> Vec<PortAction> {
        let Some(port) = self.ports.get(at) else {
            return Vec::new();
        };
        let behind = self.peers.iter().filter(|(_, peer)| peer.port == at);
        behind
            .map(|(address, _)| PortAction::SetRoute(at, port.address, *address))
            .collect()
    }
}

#[cfg(test)]
mod tests;
