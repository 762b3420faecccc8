//! One port: when it probes an address, takes it, announces it, defends it and gives it up (RFC 3927, 2).

use super::arp::RandomSequence;
use crate::config::mac::Mac;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const PROBE_WAIT: Duration = Duration::from_millis(200);
const PROBES: u32 = 3;
const PROBE_MIN: Duration = Duration::from_millis(300);
const PROBE_MAX: Duration = Duration::from_millis(600);
pub(super) const ANNOUNCE_WAIT: Duration = Duration::from_millis(500);
const ANNOUNCEMENTS: u32 = 2;
pub(super) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
pub(super) const MAX_CONFLICTS: u32 = 10;
pub(super) const RATE_LIMIT: Duration = Duration::from_secs(60);
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum time between two announcements to new peers.
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);
/// An action that a port requires. Ports are numbered as in [`Ports::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortAction {
    /// Send an ARP request: port, sender, target.
    SendArp(usize, Ipv4Addr, Ipv4Addr),
    /// Give the port this address.
    AddAddress(usize, Ipv4Addr),
    /// Remove this address from the port, with the routes that it is the source of.
    RemoveAddress(usize, Ipv4Addr),
    /// Write the route to a peer: port, the port's address, the peer.
    SetRoute(usize, Ipv4Addr, Ipv4Addr),
    /// Remove this route.
    RemoveRoute(usize, Ipv4Addr, Ipv4Addr),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is no carrier, so a probe would prove nothing.
    Unplugged,
    /// The number of probes sent.
    Probing(u32),
    /// The address is in use; the number of announcements sent.
    Used(u32),
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) mac: Mac,
    pub(super) random: RandomSequence,
    /// The address in use, or the one to probe.
    pub(super) address: Ipv4Addr,
    pub(super) state: State,
    /// The time of the next probe or announcement.
    pub(super) due: Option<Instant>,
    conflicts: u32,
    last_defence: Option<Instant>,
    /// The time at which new peers are answered.
    pub(super) answer_due: Option<Instant>,
    last_answer: Option<Instant>,
    has_carrier: bool,
}

impl Port {
    /// A port without a carrier.
    pub(super) const fn new(mac: Mac, random: RandomSequence, address: Ipv4Addr) -> Self {
        Self {
            mac,
            random,
            address,
            state: State::Unplugged,
            due: None,
            conflicts: 0,
            last_defence: None,
            answer_due: None,
            last_answer: None,
            has_carrier: false,
        }
    }

    pub(super) const fn is_used(&self) -> bool {
        matches!(self.state, State::Used(_))
    }

    /// Records the carrier. Returns whether the carrier is new and the address in use: the address is then announced again.
    pub(super) fn set_carrier(&mut self, is_up: bool, now: Instant) -> bool {
        if std::mem::replace(&mut self.has_carrier, is_up) == is_up {
            return false;
        }
        match (self.is_used(), is_up) {
            (true, true) => (self.state, self.due) = (State::Used(0), Some(now)),
            (true, false) => {}
            (false, true) => self.probe(now),
            (false, false) => (self.state, self.due) = (State::Unplugged, None),
        }
        self.is_used() && is_up
    }

    pub(super) fn send_failed(&mut self, now: Instant) {
        if matches!(self.state, State::Probing(_)) {
            self.wait_and_probe(now);
        }
    }

    pub(super) fn wait_and_probe(&mut self, now: Instant) {
        (self.state, self.due) = (State::Probing(0), Some(now + PROBE_MAX));
    }

    /// Whether an address in use is defended: at most once per interval (RFC 3927, 2.5, b).
    pub(super) fn defends(&mut self, now: Instant) -> bool {
        let is_over = |last| now.saturating_duration_since(last) > DEFEND_INTERVAL;
        let is_first = self.last_defence.is_none_or(is_over);
        if self.is_used() && is_first {
            self.last_defence = Some(now);
        }
        self.is_used() && is_first
    }

    /// Begins again after a conflict, with an address that the caller chooses; returns whether the old one was in use. After
    /// many conflicts it waits (RFC 3927, 2.2.1).
    pub(super) fn begin_again(&mut self, now: Instant) -> bool {
        let was_used = self.is_used();
        (self.conflicts, self.last_defence, self.answer_due) = (self.conflicts + 1, None, None);
        let pause = if self.conflicts >= MAX_CONFLICTS {
            RATE_LIMIT
        } else {
            Duration::ZERO
        };
        if self.has_carrier {
            self.probe(now + pause);
        } else {
            (self.state, self.due) = (State::Unplugged, None);
        }
        was_used
    }

    /// Whether a packet about `address` conflicts with this port's address. A probe for an address in use is no conflict.
    pub(super) fn claims(&self, address: Ipv4Addr, is_probe: bool) -> bool {
        let counts = match self.state {
            State::Unplugged => false,
            State::Probing(_) => true,
            State::Used(_) => !is_probe,
        };
        counts && self.address == address
    }

    fn probe(&mut self, from: Instant) {
        self.state = State::Probing(0);
        self.due = Some(from + self.random.between(Duration::ZERO, PROBE_WAIT));
    }

    /// Handles a new peer behind this port: schedules an announcement for it and returns its route.
    pub(super) fn add_peer(
        &mut self,
        at: usize,
        peer: Ipv4Addr,
        now: Instant,
    ) -> Option<PortAction> {
        self.schedule_answer(now);
        self.is_used()
            .then_some(PortAction::SetRoute(at, self.address, peer))
    }

    /// Schedules an announcement for new peers. A port that has no address yet announces it anyway once it has one.
    pub(super) fn schedule_answer(&mut self, now: Instant) {
        if self.is_used() {
            let earliest = self
                .last_answer
                .map_or(now, |last| now.max(last + ANSWER_INTERVAL));
            self.answer_due.get_or_insert(earliest);
        }
    }

    pub(super) fn tick(
        &mut self,
        at: usize,
        now: Instant,
        routes: Vec<PortAction>,
        actions: &mut Vec<PortAction>,
    ) {
        let announcement = PortAction::SendArp(at, self.address, self.address);
        if self.answer_due.is_some_and(|due| now >= due) {
            (self.answer_due, self.last_answer) = (None, Some(now));
            actions.push(announcement);
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        match self.state {
            State::Unplugged => self.due = None,
            State::Probing(sent) if sent < PROBES => {
                let last = sent + 1 == PROBES;
                let wait = if last {
                    ANNOUNCE_WAIT
                } else {
                    self.random.between(PROBE_MIN, PROBE_MAX)
                };
                (self.state, self.due) = (State::Probing(sent + 1), Some(now + wait));
                actions.push(PortAction::SendArp(at, Ipv4Addr::UNSPECIFIED, self.address));
            }
            State::Probing(_) => {
                (self.state, self.due, self.conflicts) =
                    (State::Used(1), Some(now + ANNOUNCE_INTERVAL), 0);
                actions.extend([PortAction::AddAddress(at, self.address), announcement]);
                actions.extend(routes);
            }
            State::Used(sent) => {
                let is_last = sent + 1 >= ANNOUNCEMENTS;
                (self.state, self.due) = (
                    State::Used(sent + 1),
                    (!is_last).then(|| now + ANNOUNCE_INTERVAL),
                );
                actions.push(announcement);
            }
        }
    }
}
