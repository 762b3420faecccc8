//! Finds the other nodes of a meeting by multicast DNS (RFC 6762) as a service (RFC 6763), so that no address must be
//! configured. An announcement proves nothing: nodes prove themselves in the meeting. An announcement can also outlive
//! its node, so a node counts only while its port answers.

mod beacon;

use super::meeting::{Host, JoinError, Link, LinkError, Token, join};
pub use beacon::Beacon;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long the list of nodes must be unchanged before their ports are tried, and the pause between two rounds.
const SETTLE_TIME: Duration = Duration::from_millis(300);
const ROUND_PAUSE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The time limit for a connection to a node, and for the first byte from a node that admits others.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a node tries to join the expected leader, before it determines the leader again.
const JOIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The role of this node in the meeting.
#[derive(Debug)]
pub enum MeetingRole {
    /// This node leads. The announcement continues until all nodes have joined, because some may not have seen it yet.
    Leads(Host, Beacon),
    /// This node has joined the node that leads.
    Joined(Link),
}

/// Why there is no meeting.
#[derive(Debug, PartialEq, Eq)]
pub enum MeetingError {
    /// Not all nodes were found; with the number of nodes including this one, and the number seen of other meetings.
    Few(usize, usize),
    /// More nodes were found than the meeting has; with their number.
    Many(usize),
    /// The leading node uses another version of the protocol; with that version.
    Protocol(String),
    /// An error of the operating system.
    System(String),
}

/// The state of a node, as seen at its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortState {
    /// It admits others, because it leads.
    Admits,
    /// It listens, and does not admit others yet.
    Listens,
    /// It does not answer.
    Silent,
}

/// Meets the other nodes: this one listens at `host` and is announced by `beacon`. If a node already admits others, this
/// one joins it. Otherwise, once `size` nodes answer, the one with the lowest id leads; nodes may see different lists for
/// a moment, so this is repeated until `due`.
///
/// # Errors
/// See [`MeetingError`].
pub fn meet(
    mut beacon: Beacon,
    host: Host,
    (size, token, name): (usize, &Token, &str),
    due: Instant,
) -> Result<MeetingRole, MeetingError> {
    let mut reachable = 1;
    loop {
        beacon.listen((Instant::now() + POLL_INTERVAL).min(due));
        host.close_pending()
            .map_err(|e| MeetingError::System(e.to_string()))?;
        if Instant::now() >= due {
            return Err(MeetingError::Few(reachable, beacon.other_meetings.len()));
        }
        if beacon.changed.elapsed() < SETTLE_TIME {
            continue;
        }
        let probed = probe_ports(&beacon);
        let first = |port| {
            probed
                .iter()
                .find(|(.., state)| *state == port)
                .map(|(node, at, _)| (*node, *at))
        };
        reachable = 1 + probed
            .iter()
            .filter(|(.., state)| *state != PortState::Silent)
            .count();
        let leader = match first(PortState::Admits) {
            Some(leader) => Some(leader),
            None if reachable < size => {
                beacon.listen((Instant::now() + ROUND_PAUSE).min(due));
                continue;
            }
            None if reachable > size => return Err(MeetingError::Many(reachable)),
            None => first(PortState::Listens).filter(|(node, _)| **node < beacon.own),
        };
        let Some((node, at)) = leader else {
            return Ok(MeetingRole::Leads(host, beacon));
        };
        match join(at, token, name, due.min(Instant::now() + JOIN_TIMEOUT)) {
            Ok(link) => return Ok(MeetingRole::Joined(link)),
            Err(JoinError::Protocol(theirs)) => return Err(MeetingError::Protocol(theirs)),
            // The announcement was false.
            Err(JoinError::Token | JoinError::Stranger(LinkError::Malformed(_))) => {
                let node = node.clone();
                beacon.refused.insert(node);
            }
            // That node still waits for others, or joins another node that leads.
            Err(JoinError::Nothing(_) | JoinError::Stranger(_)) => {}
        }
    }
}

/// The state of each node; all ports are tried at the same time.
fn probe_ports(beacon: &Beacon) -> Vec<(&String, &Vec<SocketAddr>, PortState)> {
    let wanted = beacon
        .nodes
        .iter()
        .filter(|(node, _)| !beacon.refused.contains(*node));
    thread::scope(|scope| {
        let probed: Vec<_> = wanted
            .map(|(node, at)| (node, at, scope.spawn(move || probe_port(at))))
            .collect();
        let answer = probed
            .into_iter()
            .map(|(node, at, state)| (node, at, state.join().unwrap_or(PortState::Silent)));
        answer.collect()
    })
}

fn probe_port(at: &[SocketAddr]) -> PortState {
    let Some(mut stream) = at
        .iter()
        .find_map(|at| TcpStream::connect_timeout(at, CONNECT_TIMEOUT).ok())
    else {
        return PortState::Silent;
    };
    // A node that admits others sends the first byte.
    let spoke = stream
        .set_read_timeout(Some(FIRST_BYTE_TIMEOUT))
        .and_then(|()| stream.read(&mut [0]));
    if matches!(spoke, Ok(1)) {
        PortState::Admits
    } else {
        PortState::Listens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::meeting::{Event, random_id};
    use std::net::Ipv4Addr;

    /// A query whose answer is lost is repeated after 1 s, and then each time after twice as long.
    const SOON: Duration = Duration::from_secs(50);

    fn token() -> Token {
        Token::new(&format!("a token of tests {}", random_id().unwrap())).unwrap()
    }

    /// A node on loopback that listens and does nothing else. Its id begins with the name of the meeting: announcements of
    /// tests that run at the same time would replace each other if two had the same id.
    fn node(token: &Token, id: &str, size: usize) -> (Beacon, Host) {
        let host = Host::bind(&[(Ipv4Addr::LOCALHOST, 0).into()], token.clone()).unwrap();
        let port = host.address().unwrap().port();
        let meeting = token.meeting(size).unwrap();
        (
            Beacon::new(
                &meeting,
                &format!("{meeting}{id}"),
                port,
                &["lo".to_owned()],
            )
            .unwrap(),
            host,
        )
    }

    fn met(
        token: &Token,
        id: &str,
        size: usize,
        within: Duration,
    ) -> Result<MeetingRole, MeetingError> {
        let (beacon, host) = node(token, id, size);
        meet(beacon, host, (size, token, id), Instant::now() + within)
    }

    #[test]
    fn the_lowest_id_leads_and_the_other_joins() {
        let token = token();
        let other = token.clone();
        let high = thread::spawn(move || match met(&other, "bb", 2, SOON).unwrap() {
            MeetingRole::Joined(mut link) => link.to.send(&"card", SOON).unwrap(),
            MeetingRole::Leads(..) => panic!("both lead"),
        });
        let MeetingRole::Leads(host, _beacon) = met(&token, "aa", 2, SOON).unwrap() else {
            panic!("it does not lead")
        };
        let is_there =
            |event: Event<String>| matches!(event, Event::Admitted(guest) if guest.card == "card");
        assert!(
            host.admit(Instant::now() + SOON, is_there).unwrap(),
            "it did not come"
        );
        high.join().unwrap();
    }

    #[test]
    fn one_that_admits_already_is_joined_whatever_its_id() {
        let token = token();
        let (_beacon, host) = node(&token, "ff", 3);
        let admits = thread::spawn(move || {
            host.admit(Instant::now() + SOON, |event: Event<String>| {
                matches!(event, Event::Admitted(_))
            })
        });
        let MeetingRole::Joined(mut link) = met(&token, "aa", 3, SOON).unwrap() else {
            panic!("it does not join")
        };
        link.to.send(&"card", SOON).unwrap();
        assert!(admits.join().unwrap().unwrap(), "it did not come");
    }

    #[test]
    fn more_nodes_than_the_meeting_has_are_an_error() {
        let token = token();
        let _others = ["bb", "cc"].map(|id| node(&token, id, 2));
        let (mut beacon, host) = node(&token, "aa", 2);
        let due = Instant::now() + SOON;
        // With one of them alone it would be a meeting.
        while beacon.nodes.len() < 2 && Instant::now() < due {
            beacon.listen(Instant::now() + POLL_INTERVAL);
        }
        assert_eq!(
            meet(beacon, host, (2, &token, "aa"), due).unwrap_err(),
            MeetingError::Many(3)
        );
    }

    #[test]
    fn an_announcement_that_outlives_its_node_does_not_count_and_others_are_counted() {
        let (mine, other) = (token(), token());
        let (_stale, host) = node(&mine, "bb", 2);
        drop(host);
        let _stranger = node(&other, "cc", 2);
        let why = met(&mine, "aa", 2, Duration::from_secs(3)).unwrap_err();
        // Other tests announce meetings too.
        assert!(
            matches!(why, MeetingError::Few(1, others) if others > 0),
            "{why:?}"
        );
    }

    #[test]
    fn an_interface_that_does_not_exist_is_named() {
        let why = Beacon::new("m", "aa", 1, &["nowhere0".to_owned()]).unwrap_err();
        assert!(
            why.starts_with("nodes.interfaces: nowhere0: No such device"),
            "{why}"
        );
    }
}
