//! Finding the other nodes of a meeting by multicast DNS (RFC 6762) as a service (RFC 6763): without an address that somebody
//! has to know. Who announces himself proves nothing; that comes with the meeting itself.

use mdns_sd::{IfKind, Receiver, ServiceDaemon, ServiceEvent, ServiceInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The kind of service.
const SERVICE: &str = "_firstlight._tcp.local.";
/// Keys of its TXT record: the meeting, and the node.
const MEETING: &str = "meeting";
const NODE: &str = "node";
/// How long the last announcements may take.
const FAREWELL: Duration = Duration::from_millis(500);

/// This node's announcement; it ends when this is dropped.
pub struct Beacon {
    daemon: ServiceDaemon,
    events: Receiver<ServiceEvent>,
    meeting: String,
    own: String,
}

/// Who has been seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The nodes of this meeting, by their numbers; this node's own addresses are not among them.
    pub nodes: BTreeMap<String, Vec<SocketAddr>>,
    /// How many nodes of other meetings there are, or with another token.
    pub strangers: usize,
}

impl Beacon {
    /// Announces that node `own` of `meeting` listens at `port`, on these network interfaces; on all if there are none.
    ///
    /// # Errors
    /// No interface can be used; in one line.
    pub fn new(meeting: &str, own: &str, port: u16, interfaces: &[String]) -> Result<Self, String> {
        let begin = || -> mdns_sd::Result<Self> {
            let daemon = ServiceDaemon::new()?;
            if !interfaces.is_empty() {
                daemon.disable_interface(IfKind::All)?;
                let names: Vec<_> = interfaces.iter().cloned().map(IfKind::Name).collect();
                daemon.enable_interface(names)?;
            }
            let host = format!("firstlight-{own}.local.");
            let about = [(MEETING, meeting), (NODE, own)];
            let info = ServiceInfo::new(SERVICE, own, &host, "", port, about.as_slice())?.enable_addr_auto();
            daemon.register(info)?;
            let events = daemon.browse(SERVICE)?;
            Ok(Self { daemon, events, meeting: meeting.to_owned(), own: own.to_owned() })
        };
        begin().map_err(|e| format!("mDNS: {e}"))
    }

    /// Waits until `size` nodes are seen, this one included, or until `due`.
    #[must_use]
    pub fn see(&self, size: usize, due: Instant) -> Seen {
        let mut seen = Seen { nodes: BTreeMap::from([(self.own.clone(), Vec::new())]), strangers: 0 };
        let mut strangers = BTreeSet::new();
        while seen.nodes.len() < size {
            let Ok(event) = self.events.recv_deadline(due) else { break };
            let ServiceEvent::ServiceResolved(service) = event else { continue };
            let text = |key| service.txt_properties.get_property_val_str(key).unwrap_or_default().to_owned();
            let (meeting, node) = (text(MEETING), text(NODE));
            if meeting != self.meeting {
                strangers.insert(node);
                continue;
            }
            let v4 = service.addresses.iter().map(mdns_sd::ScopedIp::to_ip_addr).filter(IpAddr::is_ipv4);
            let mut at: Vec<_> = v4.map(|ip| SocketAddr::new(ip, service.port)).collect();
            // A node on another machine is not reached by loopback.
            at.sort_by_key(|at| (at.ip().is_loopback(), *at));
            if node != self.own && !at.is_empty() {
                seen.nodes.insert(node, at);
            }
        }
        seen.strangers = strangers.len();
        seen
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        // The process ends without it too.
        if let Ok(ended) = self.daemon.shutdown() {
            let _ = ended.recv_timeout(FAREWELL);
        }
    }
}

impl std::fmt::Debug for Beacon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beacon").field("own", &self.own).finish_non_exhaustive()
    }
}
