//! A communicator as seen by one of its ranks: the other ranks, and the transports to them, which are chosen when they are
//! first needed.

use crate::driver::{Driver, driver};
use crate::environment::environment;
use crate::log::{Code, Result};
use crate::log::{INIT, NET, P2P, SHM, info, warn};
use crate::transport::{Transport, network_transport, peers, transport_between};
use simgpu_model::collective::{Call, Collective, Path};
use simgpu_model::library_folder::count_data;
use simgpu_model::scenario::{Fault, How, Kind};
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    pub(crate) process: u32,
    pub(crate) gpu: usize,
    pub(crate) ordinal: usize,
    /// The host that it is on, as a number.
    pub(crate) host: u64,
}

/// A communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) id: u64,
    pub(crate) rank: usize,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) channels: u32,
    /// How it was made: bits of [`How`].
    pub(crate) how: u32,
    state: Mutex<State>,
    /// The slowest paths of the ring and of an exchange, which do not change.
    paths: [OnceLock<Path>; 2],
}

/// The part of a communicator that changes.
#[derive(Debug, Default)]
struct State {
    /// The next collective's number.
    next: u64,
    ring: bool,
    /// Ranks that are connected in addition to the ring.
    others: BTreeSet<usize>,
    /// Registered memory: address and bytes.
    registered: Vec<(u64, u64)>,
}

/// A buffer that is sent or received: peer rank, address, bytes.
pub(crate) type PeerBuffer = (usize, u64, u64);

/// One call on a stream.
#[derive(Debug)]
pub(crate) struct StreamCall {
    pub(crate) stream: usize,
    pub(crate) collective: Collective,
    pub(crate) send: Vec<PeerBuffer>,
    pub(crate) receive: Vec<PeerBuffer>,
    pub(crate) in_place: bool,
    /// Whether its group has more calls of the same communicator.
    pub(crate) grouped: bool,
}

/// Channels for sends and receives to one peer.
const CHANNELS_PER_PEER: u32 = 2;

impl Comm {
    pub(crate) fn new(id: u64, rank: usize, ranks: Vec<Rank>, channels: u32, how: u32) -> Self {
        Self {
            id,
            rank,
            ranks,
            channels,
            how,
            state: Mutex::default(),
            paths: Default::default(),
        }
    }

    /// Registers memory.
    pub(crate) fn register(&self, address: u64, bytes: u64) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .registered
            .push((address, bytes));
    }

    /// Forgets the memory that was registered at this address; false if there is none.
    pub(crate) fn deregister(&self, address: u64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = state.registered.iter().position(|(at, _)| *at == address);
        place
            .map(|place| state.registered.swap_remove(place))
            .is_some()
    }

    /// The rank of this communicator.
    pub(crate) fn own(&self) -> Rank {
        self.ranks.get(self.rank).copied().unwrap_or(Rank {
            process: 0,
            gpu: 0,
            ordinal: 0,
            host: 0,
        })
    }

    /// Channels for sends and receives to one peer.
    pub(crate) fn channels_per_peer(&self) -> u32 {
        self.channels.min(CHANNELS_PER_PEER)
    }

    /// Whether every rank can reach every other rank directly.
    pub(crate) fn all_peers(&self) -> Result<bool> {
        let (scenario, env) = (&driver()?.scenario, environment());
        let pairs = self
            .ranks
            .iter()
            .flat_map(|a| self.ranks.iter().map(move |b| (a.gpu, b.gpu)));
        Ok(pairs
            .filter(|(a, b)| a != b)
            .all(|(a, b)| peers(scenario, env, a, b)))
    }

    fn transport(&self, driver: &Driver, from: usize, to: usize) -> Option<Transport> {
        let (a, b) = (self.ranks.get(from)?, self.ranks.get(to)?);
        if a.host != b.host {
            return network_transport(&driver.scenario, environment());
        }
        transport_between(
            &driver.scenario,
            environment(),
            a.gpu,
            b.gpu,
            a.process == b.process,
        )
    }

    fn neighbour(&self, further: usize) -> usize {
        (self.rank + further) % self.ranks.len().max(1)
    }

    /// Chooses the transports around the ring, once, and logs them.
    pub(crate) fn connect_ring(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, last) = (
            self.neighbour(1),
            self.neighbour(self.ranks.len().saturating_sub(1)),
        );
        if state.ring || next == self.rank {
            return Ok(());
        }
        self.connect(last, next, 0, self.channels)?;
        info(
            INIT,
            self.own().ordinal,
            "Connected all rings, use ring PXN 0 GDR 1",
        );
        state.ring = true;
        Ok(())
    }

    /// Chooses the transports to the peers of an exchange.
    fn connect_others(&self, peers: &BTreeSet<usize>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for peer in peers.iter().filter(|p| **p != self.rank) {
            if !state.others.contains(peer) {
                self.connect(*peer, *peer, 1, self.channels_per_peer())?;
                state.others.insert(*peer);
            }
        }
        Ok(())
    }

    fn all_connected(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.others.len() + 1 >= self.ranks.len()
    }

    fn connect(&self, from: usize, to: usize, kind: u32, channels: u32) -> Result<()> {
        let driver = driver()?;
        let receive =
            self.require_transport(driver, from, self.transport(driver, from, self.rank))?;
        let send = self.require_transport(driver, to, self.transport(driver, self.rank, to))?;
        if matches!(send, Transport::Direct | Transport::CuMem | Transport::Ipc) {
            self.enable_peer_access(driver, to)?;
        }
        if receive.is_net() {
            (0..channels)
                .for_each(|c| self.log_channel(c, kind, from, self.rank, receive, "[receive] "));
        }
        let what = if send.is_net() { "[send] " } else { "" };
        (0..channels).for_each(|c| self.log_channel(c, kind, self.rank, to, send, what));
        Ok(())
    }

    fn require_transport(
        &self,
        driver: &Driver,
        peer: usize,
        way: Option<Transport>,
    ) -> Result<Transport> {
        way.ok_or_else(|| {
            let bus = |rank: usize| self.ranks.get(rank).map_or(0, |r| bus_id(driver, r.gpu));
            let (own, device) = (self.rank, self.own().ordinal);
            let text = format!(
                "No transport found for rank {own}[{:x}] -> rank {peer}[{:x}]",
                bus(own),
                bus(peer)
            );
            warn(device, "transport.cc:40", &text);
            for place in [
                "transport.cc:162",
                "transport/generic.cc:25",
                "group.cc:149",
                "group.cc:209",
            ] {
                info(INIT, device, &format!("{place} -> 2"));
            }
            Code::SYSTEM
        })
    }

    /// Enables peer access, which the driver may refuse even if it reported that access is possible.
    fn enable_peer_access(&self, driver: &Driver, to: usize) -> Result<()> {
        let Some(peer) = self.ranks.get(to) else {
            return Err(Code::INTERNAL);
        };
        let Some(fault) = driver
            .scenario
            .faults(Kind::Refuse, self.own().gpu, peer.gpu)
            .next()
        else {
            return Ok(());
        };
        let bus = bus_id(driver, peer.gpu);
        let text = format!(
            "failed to peer with device {}(={bus:x}): {}",
            peer.ordinal, fault.code
        );
        warn(self.own().ordinal, "transport/p2p.cc:310", &text);
        Err(Code::INTERNAL)
    }

    fn log_channel(
        &self,
        channel: u32,
        kind: u32,
        from: usize,
        to: usize,
        way: Transport,
        what: &str,
    ) {
        let device = |rank: usize| self.ranks.get(rank).map_or(0, |r| r.ordinal);
        let (a, b) = (device(from), device(to));
        // The line about shared memory has one number less.
        let (kind, subsystem) = match way {
            Transport::Shm => (String::new(), SHM),
            net if net.is_net() => (format!("/{kind}"), NET),
            _ => (format!("/{kind}"), P2P),
        };
        let way = way.name();
        let text = format!("Channel {channel:02}{kind} : {from}[{a}] -> {to}[{b}] {what}via {way}");
        info(INIT | subsystem, self.own().ordinal, &text);
    }

    /// The slowest path that a call may use.
    fn path(&self, driver: &Driver, exchange: bool) -> Path {
        let [ring, all] = &self.paths;
        *if exchange { all } else { ring }.get_or_init(|| self.slowest(driver, exchange))
    }

    fn slowest(&self, driver: &Driver, exchange: bool) -> Path {
        let n = self.ranks.len();
        let all = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        let used = all.filter(|(a, b)| a != b && (exchange || (a + 1) % n == *b));
        let slowest = used
            .filter_map(|(a, b)| self.transport(driver, a, b))
            .map(Transport::path)
            .max();
        let lies = |f: &Fault| matches!(f.kind, Kind::NcclLies | Kind::NcclDeaf);
        let least = if driver.scenario.fault.iter().any(lies) {
            Path::Shm
        } else {
            Path::P2p
        };
        slowest.unwrap_or(Path::P2p).max(least)
    }

    /// Chooses the transports that a call needs.
    pub(crate) fn prepare(&self, step: &StreamCall) -> Result<()> {
        if step.collective == Collective::Exchange {
            if self.all_connected() {
                return Ok(());
            }
            let peers = step
                .send
                .iter()
                .chain(&step.receive)
                .map(|(peer, ..)| *peer);
            self.connect_others(&peers.collect())
        } else {
            self.connect_ring()
        }
    }

    /// Counts the bytes of a call that leave and reach this host on the ring, spread evenly over the RDMA ports in use.
    fn count_port_bytes(&self, driver: &Driver, send: &[PeerBuffer], receive: &[PeerBuffer]) {
        let hcas = &environment().hcas;
        let one = driver
            .scenario
            .fault
            .iter()
            .any(|fault| fault.kind == Kind::NcclOneRail);
        let used = hcas
            .get(..if one { 1 } else { hcas.len() })
            .unwrap_or_default();
        let bytes = |all: &[PeerBuffer]| all.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
        let most = bytes(send).max(bytes(receive));
        let is_away = |rank: usize, way: Option<Transport>| {
            let other = self
                .ranks
                .get(rank)
                .is_some_and(|other| other.host != self.own().host);
            other && matches!(way, Some(Transport::Ib | Transport::Gdr))
        };
        let (next, last) = (
            self.neighbour(1),
            self.neighbour(self.ranks.len().saturating_sub(1)),
        );
        let sends = is_away(next, self.transport(driver, self.rank, next));
        let receives = is_away(last, self.transport(driver, last, self.rank));
        for (device, sent) in used.iter().flat_map(|d| [(d, true), (d, false)]) {
            if if sent { sends } else { receives } {
                count_data(device, sent, most / used.len() as u64);
            }
        }
    }

    /// Queues a call.
    pub(crate) fn push(&self, step: StreamCall) -> Result<()> {
        let driver = driver()?;
        let StreamCall {
            stream,
            collective,
            send,
            receive,
            in_place,
            grouped,
        } = step;
        let (number, registered) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.next += 1;
            let is_registered = |(_, at, bytes): &PeerBuffer| {
                state
                    .registered
                    .iter()
                    .any(|(from, all)| from <= at && at + bytes <= from + all)
            };
            (
                state.next - 1,
                send.iter().chain(&receive).all(is_registered),
            )
        };
        let bit = |on: bool, how: How| if on { how.bit() } else { 0 };
        let how = self.how | bit(grouped, How::Grouped) | bit(registered, How::Registered);
        let (path, channels) = (
            self.path(driver, collective == Collective::Exchange),
            self.channels,
        );
        self.count_port_bytes(driver, &send, &receive);
        let (comm, rank) = (self.id, self.rank);
        driver.push(
            self.own().gpu,
            stream,
            &Call {
                comm,
                number,
                rank,
                collective,
                send,
                receive,
                in_place,
                path,
                channels,
                how,
            },
        )
    }
}

/// A GPU's PCI address as NCCL numbers it: `0000:25:00.0` is 25000.
pub(crate) fn bus_id(driver: &Driver, gpu: usize) -> u64 {
    let (domain, bus, device) = driver.scenario.machine.address(gpu);
    u64::from(domain) << 20 | u64::from(bus) << 12 | u64::from(device) << 4
}
