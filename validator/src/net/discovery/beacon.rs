//! Announces this node by mDNS, and collects the announcements of other nodes.

use mdns_sd::{
    IfKind, Receiver, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo,
};
use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

/// The UDP port of mDNS (RFC 6762, section 3).
const PORT: u16 = 5353;
/// The service type.
const SERVICE: &str = "_firstlight._tcp.local.";
/// Keys of the TXT record: the name of the meeting, and the id of the node.
const MEETING: &str = "meeting";
const NODE: &str = "node";
/// The time limit for withdrawing the announcement.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);
/// The most nodes, and addresses of each, that are kept: any machine on the network can announce anything.
const MAX_NODES_AND_ADDRESSES: (usize, usize) = (4096, 16);

/// This node's announcement, and the nodes that it has found; the announcement ends when this is dropped.
pub struct Beacon {
    daemon: ServiceDaemon,
    events: Receiver<ServiceEvent>,
    meeting: String,
    pub(super) own: String,
    pub(super) nodes: BTreeMap<String, Vec<SocketAddr>>,
    pub(super) refused: BTreeSet<String>,
    pub(super) other_meetings: BTreeSet<String>,
    pub(super) changed: Instant,
}

impl Beacon {
    /// Announces that node `own` of `meeting` listens at `port`, on these network interfaces; if the list is empty, on all
    /// that are up except loopback.
    ///
    /// # Errors
    /// An interface does not exist, or none can be used; in one line.
    pub fn new(meeting: &str, own: &str, port: u16, interfaces: &[String]) -> Result<Self, String> {
        interfaces
            .iter()
            .try_for_each(|name| check_interface(name))?;
        let begin = || -> mdns_sd::Result<Self> {
            let daemon = ServiceDaemon::new_with_port(PORT)?;
            if interfaces.is_empty() {
                daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
            } else {
                daemon.disable_interface(IfKind::All)?;
                let names: Vec<_> = interfaces.iter().cloned().map(IfKind::Name).collect();
                daemon.enable_interface(names)?;
            }
            let host = format!("firstlight-{own}.local.");
            let about = [(MEETING, meeting), (NODE, own)];
            let mut info = ServiceInfo::new(SERVICE, own, &host, "", port, about.as_slice())?
                .enable_addr_auto();
            // The name is random, so no other machine has it: probing for it first would take most of a second.
            info.set_requires_probe(false);
            daemon.register(info)?;
            let events = daemon.browse(SERVICE)?;
            Ok(Self {
                daemon,
                events,
                meeting: meeting.to_owned(),
                own: own.to_owned(),
                nodes: BTreeMap::new(),
                refused: BTreeSet::new(),
                other_meetings: BTreeSet::new(),
                changed: Instant::now(),
            })
        };
        begin().map_err(|e| format!("mDNS: {e}"))
    }

    /// Processes announcements until that time.
    pub(super) fn listen(&mut self, until: Instant) {
        while let Ok(event) = self.events.recv_deadline(until) {
            match event {
                ServiceEvent::ServiceResolved(service) => self.add_node(&service),
                ServiceEvent::ServiceRemoved(_, name) => {
                    let node = name.split('.').next().unwrap_or_default();
                    if self.nodes.remove(node).is_some() {
                        self.changed = Instant::now();
                    }
                }
                _ => {}
            }
        }
    }

    fn add_node(&mut self, service: &ResolvedService) {
        let text = |key| service.get_property_val_str(key).unwrap_or_default();
        let (meeting, node) = (text(MEETING), text(NODE));
        let is_id =
            !node.is_empty() && node.len() <= 64 && node.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id
            || node == self.own
            || self.nodes.len() + self.other_meetings.len() >= MAX_NODES_AND_ADDRESSES.0
        {
            return;
        }
        if meeting != self.meeting {
            self.other_meetings.insert(node.to_owned());
            return;
        }
        let mut at: Vec<_> = service
            .get_addresses()
            .iter()
            .filter_map(|ip| socket_of(ip, service.port))
            .collect();
        at.sort_by_key(|at| (at.is_ipv6(), *at));
        at.truncate(MAX_NODES_AND_ADDRESSES.1);
        if !at.is_empty() && self.nodes.insert(node.to_owned(), at.clone()) != Some(at) {
            self.changed = Instant::now();
        }
    }
}

/// The socket address, with the scope of its interface if the address is link-local.
fn socket_of(ip: &ScopedIp, port: u16) -> Option<SocketAddr> {
    match ip {
        ScopedIp::V4(v4) => Some((*v4.addr(), port).into()),
        ScopedIp::V6(v6) => {
            let scope = if v6.addr().is_unicast_link_local() {
                v6.scope_id().index
            } else {
                0
            };
            Some(SocketAddrV6::new(*v6.addr(), port, 0, scope).into())
        }
        _ => None,
    }
}

fn check_interface(name: &str) -> Result<(), String> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None);
    let found = any.and_then(|any| name_to_index(&any, name));
    found
        .map(drop)
        .map_err(|e| format!("nodes.interfaces: {name}: {e}"))
}

impl Drop for Beacon {
    fn drop(&mut self) {
        // The process can end even if the last announcements fail.
        if let Ok(ended) = self.daemon.shutdown() {
            let _ = ended.recv_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

impl std::fmt::Debug for Beacon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beacon")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
