//! Which connections may be open: how many at all and from one address, and which one is closed when there are too many. A
//! client that keeps the receiver waiting is closed before one that the receiver keeps waiting. Opens and reads nothing.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the body of a request may take before its connection may be closed for another one.
const GRACE: Duration = Duration::from_secs(2);
/// The part of all connections that is kept for those that have sent the head of a request: a quarter.
const RESERVE: usize = 4;

/// Limits of the number of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Of all.
    pub(crate) all: usize,
    /// From one address, or from one /64 network of IPv6; 0: no limit.
    pub(crate) per_address: usize,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client must send the head of a request, or read a response.
    Head,
    /// The client must send the body of a request.
    Body,
    /// The receiver must respond.
    Response,
}

#[derive(Debug)]
struct Open {
    network: IpAddr,
    phase: Phase,
    /// When the phase began, in the order of all beginnings.
    turn: u64,
    since: Instant,
    close: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    turns: u64,
    open: HashMap<u64, Open>,
    per_network: HashMap<IpAddr, usize>,
    /// The connections that wait for their clients, by turn.
    heads: BTreeMap<u64, u64>,
    bodies: BTreeMap<u64, u64>,
}

/// The open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    most: Most,
    table: Mutex<Table>,
    /// Signalled when one ends.
    ended: Notify,
}

/// One open connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    id: u64,
    close: Arc<Notify>,
}

impl Connections {
    pub(crate) fn new(most: Most) -> Arc<Self> {
        Arc::new(Self {
            most,
            table: Mutex::default(),
            ended: Notify::new(),
        })
    }

    /// Admits a connection from this address; returns whether another one was closed for it. `None`: there is no room.
    pub(crate) fn admit(self: &Arc<Self>, from: IpAddr) -> Option<(Place, bool)> {
        let network = network(from);
        let mut table = self.table();
        let same = table.per_network.get(&network).copied().unwrap_or(0);
        let mut closed = false;
        if self.most.per_address > 0 && same >= self.most.per_address {
            closed = table.close_one(Some(network));
            if !closed {
                return None;
            }
        }
        let heads = self.most.all - self.most.all / RESERVE;
        if table.open.len() >= self.most.all || table.heads.len() >= heads {
            closed = table.close_one(None);
            if !closed {
                return None;
            }
        }
        let (id, close) = (table.turns, Arc::new(Notify::new()));
        let opened = Open {
            network,
            phase: Phase::Response,
            turn: 0,
            since: Instant::now(),
            close: Arc::clone(&close),
        };
        table.open.insert(id, opened);
        *table.per_network.entry(network).or_default() += 1;
        table.enter(id, Phase::Head);
        drop(table);
        Some((
            Place {
                connections: Arc::clone(self),
                id,
                close,
            },
            closed,
        ))
    }

    /// Waits until all have ended.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.table().open.is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete when the lock is released.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The head of a request has arrived; its body follows.
    pub(crate) fn body_follows(&self) {
        self.connections.table().enter(self.id, Phase::Body);
    }

    /// The request has arrived.
    pub(crate) fn has_arrived(&self) {
        self.connections.table().enter(self.id, Phase::Response);
    }

    /// The response is ready: the client must read it, and may send another request.
    pub(crate) fn responds(&self) {
        self.connections.table().enter(self.id, Phase::Head);
    }

    /// Waits until this connection must end to make room.
    pub(crate) async fn must_end(&self) {
        self.close.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.remove(self.id);
        drop(table);
        self.connections.ended.notify_one();
    }
}

impl Table {
    fn enter(&mut self, id: u64, phase: Phase) {
        self.turns += 1;
        let turn = self.turns;
        // One that was closed to make room is no longer here.
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut open.turn, turn);
        (open.phase, open.since) = (phase, Instant::now());
        self.heads.remove(&before);
        self.bodies.remove(&before);
        match phase {
            Phase::Head => self.heads.insert(turn, id),
            Phase::Body => self.bodies.insert(turn, id),
            Phase::Response => None,
        };
    }

    /// Closes the connection that has waited for its client longest, of this network or of all; returns whether there is one.
    fn close_one(&mut self, of: Option<IpAddr>) -> bool {
        let fits = |id: &&u64| {
            self.open
                .get(id)
                .is_some_and(|open| of.is_none_or(|network| open.network == network))
        };
        let late = |id: &&u64| {
            self.open
                .get(id)
                .is_some_and(|open| open.since.elapsed() >= GRACE)
        };
        let head = self.heads.values().find(fits);
        let Some(id) = head
            .or_else(|| self.bodies.values().filter(late).find(fits))
            .copied()
        else {
            return false;
        };
        if let Some(open) = self.remove(id) {
            open.close.notify_one();
        }
        true
    }

    fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.heads.remove(&open.turn);
        self.bodies.remove(&open.turn);
        if let Some(count) = self.per_network.get_mut(&open.network) {
            *count -= 1;
            if *count == 0 {
                self.per_network.remove(&open.network);
            }
        }
        Some(open)
    }
}

/// What one client can have many addresses of: the /64 network of IPv6, or the address itself.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn ends(place: &Place) -> bool {
        !place.connections.table().open.contains_key(&place.id)
    }

    #[test]
    fn the_longest_waiting_client_makes_room_and_one_that_has_sent_its_request_stays() {
        let all = Connections::new(Most {
            all: 4,
            per_address: 0,
        });
        let busy = all.admit(from(1)).unwrap().0;
        busy.body_follows();
        busy.has_arrived();
        let idle: Vec<_> = (0..3).map(|_| all.admit(from(1)).unwrap()).collect();
        assert!(idle.iter().all(|(_, closed)| !closed));
        let (next, closed) = all.admit(from(2)).unwrap();
        let (idle, _): (Vec<_>, Vec<_>) = idle.into_iter().unzip();
        assert!(closed && !ends(&busy) && !ends(&next));
        assert_eq!(
            idle.iter().map(ends).collect::<Vec<_>>(),
            [true, false, false]
        );
        // A client that is served again waits behind the others.
        busy.responds();
        assert!(all.admit(from(2)).unwrap().1 && !ends(&busy));
    }

    #[test]
    fn a_part_is_kept_for_those_that_have_sent_a_head() {
        let all = Connections::new(Most {
            all: 8,
            per_address: 0,
        });
        let idle: Vec<_> = (0..20).map(|_| all.admit(from(1)).unwrap().0).collect();
        assert_eq!(idle.iter().filter(|place| !ends(place)).count(), 6);
        let last = idle.last().unwrap();
        last.body_follows();
        assert!(!all.admit(from(2)).unwrap().1);
    }

    #[test]
    fn an_address_that_has_too_many_makes_room_among_its_own() {
        let all = Connections::new(Most {
            all: 100,
            per_address: 2,
        });
        let other = all.admit(from(9)).unwrap().0;
        let own: Vec<_> = (0..3).map(|_| all.admit(from(1)).unwrap().0).collect();
        assert_eq!(
            own.iter().map(ends).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert!(!ends(&other));
        // Where all of them have requests that the receiver must answer, the new one is refused.
        own.iter().for_each(Place::has_arrived);
        assert!(all.admit(from(1)).is_none() && all.admit(from(2)).is_some());
        drop(own);
        assert!(all.admit(from(1)).is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_ipv4_in_ipv6_is_ipv4() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[test]
    fn a_body_makes_room_only_after_its_grace() {
        let all = Connections::new(Most {
            all: 1,
            per_address: 0,
        });
        let slow = all.admit(from(1)).unwrap().0;
        slow.body_follows();
        assert!(all.admit(from(2)).is_none());
        let long_ago = Instant::now().checked_sub(GRACE).unwrap();
        all.table().open.get_mut(&slow.id).unwrap().since = long_ago;
        assert!(all.admit(from(2)).unwrap().1 && ends(&slow));
    }
}
