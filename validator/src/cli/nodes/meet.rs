//! Brings this node into the meeting, as the node that leads or as one that joins. The leading node also joins its own
//! meeting, in a thread.

use super::display::NodesConsole;
use super::local::LocalNode;
use super::settings::{MeetingSettings, meeting_settings};
use crate::cli::args::Meet;
use crate::cli::fabric::log_gpus;
use crate::cli::{CommandError, NOT_DONE};
use crate::config::Config;
use crate::net::discovery::{self, Beacon, MeetingError, MeetingRole};
use crate::net::meeting::{Host, JoinError, Link, LinkError, PORT, Token, join, random_id};
use crate::nodes::cluster::Cluster;
use crate::nodes::gather::{GatheredNodes, gather_nodes};
use crate::nodes::interface;
use crate::nodes::member::{MemberResult, serve};
use crate::nodes::order::{Ending, Order};
use outcome::finding::{Code, Finding, Severity, Subject};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time limit for the first message and the last.
const SENDING: Duration = Duration::from_secs(10);

/// The role of this node in the meeting.
pub(super) enum Role {
    /// It leads.
    Leader(Box<Leader>),
    /// It joins.
    Member(Link),
    /// There is no meeting, for this reason.
    Alone(Box<Finding>),
}

/// The node that leads.
pub(super) struct Leader {
    pub(super) gathered: GatheredNodes,
    own: Option<JoinHandle<Option<MemberResult>>>,
}

/// Meets the others.
pub(super) fn meet(config: &Config, asked: &Meet, node: &LocalNode) -> Result<Role, CommandError> {
    let settings = meeting_settings(config, asked)?;
    log_gpus(&node.gpus);
    let due = Instant::now() + settings.timeout;
    if settings.rendezvous == MDNS {
        return meet_by_mdns(&config.nodes.interfaces, &settings, node, due);
    }
    let at = match resolve(&settings.rendezvous, due) {
        Ok(at) => at,
        Err(why) => return Ok(no_meeting(node, format!("{}: {why}", settings.rendezvous))),
    };
    let listened = match settings.leads {
        Some(false) => Ok(None),
        Some(true) => listen(
            &listen_addresses(&settings.rendezvous, &at),
            &settings.token,
        )
        .map(Some),
        None => match listen(&at, &settings.token) {
            // The address is another machine's, or another node of this machine already listens there.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse
                ) =>
            {
                Ok(None)
            }
            listened => listened.map(Some),
        },
    };
    match listened {
        Ok(Some(host)) => lead(host, &settings, node, due),
        Ok(None) => Ok(join_as_member(&at, &settings, node, due)),
        Err(error) => Ok(no_meeting(
            node,
            format!(
                "this node cannot listen at {}: {error}",
                settings.rendezvous
            ),
        )),
    }
}

/// The value of the rendezvous for nodes that find each other.
const MDNS: &str = "mdns";
/// Meets the others without an address; the nodes themselves decide which one leads.
fn meet_by_mdns(
    interfaces: &[String],
    settings: &MeetingSettings,
    node: &LocalNode,
    due: Instant,
) -> Result<Role, CommandError> {
    // IPv6 and IPv4, if the kernel has both.
    let all = |port| {
        [
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]
    };
    // A free port if another node of the same machine uses it.
    let host =
        match listen(&all(PORT), &settings.token).or_else(|_| listen(&all(0), &settings.token)) {
            Ok(host) => host,
            Err(error) => {
                return Ok(no_meeting(
                    node,
                    format!("this node cannot listen: {error}"),
                ));
            }
        };
    let port = host.address().map_err(|e| CommandError::undone(&e))?.port();
    let id = random_id().map_err(|e| CommandError::undone(&e))?;
    let no_id = || CommandError::Undone("no MAC".to_owned());
    let meeting = settings.token.meeting(settings.size).ok_or_else(no_id)?;
    let beacon = match Beacon::new(&meeting, &id, port, interfaces) {
        Ok(beacon) => beacon,
        Err(why) => return Ok(no_meeting(node, why)),
    };
    match discovery::meet(
        beacon,
        host,
        (settings.size, &settings.token, &node.card.name),
        due,
    ) {
        Ok(MeetingRole::Leads(host, _announced)) => lead(host, settings, node, due),
        Ok(MeetingRole::Joined(link)) => {
            Ok(send_card(link, node, "the node that leads").map_or_else(Role::Alone, Role::Member))
        }
        Err(why) => Ok(Role::Alone(Box::new(meeting_finding(
            &why,
            settings.size,
            settings.timeout,
            &node.card.name,
        )))),
    }
}

fn meeting_finding(why: &MeetingError, size: usize, timeout: Duration, name: &str) -> Finding {
    let within = timeout.as_secs();
    let (code, message) = match why {
        MeetingError::Few(number, others) => {
            let others = match others {
                0 => String::new(),
                1 => "; 1 firstlight node with another token or another nodes.size was seen"
                    .to_owned(),
                n => format!(
                    "; {n} firstlight nodes with another token or another nodes.size were seen"
                ),
            };
            let seen = match number {
                1 => "no other node was seen".to_owned(),
                n => format!("{n} of {size} nodes were seen"),
            };
            (
                Code::NodesAbsent,
                format!("mDNS: {seen} within {within} s{others}"),
            )
        }
        MeetingError::Many(number) => (
            Code::NodesMany,
            format!("mDNS: {number} nodes with this token were seen; nodes.size is {size}"),
        ),
        MeetingError::Protocol(theirs) => (
            Code::NodesUnreached,
            format!("mDNS: the leading node uses {theirs}"),
        ),
        MeetingError::System(error) => (
            Code::NodesUnreached,
            format!("this node cannot listen: {error}"),
        ),
    };
    code.finding(Severity::Error, Subject::node(name), message)
}

fn join_as_member(
    at: &[SocketAddr],
    settings: &MeetingSettings,
    node: &LocalNode,
    due: Instant,
) -> Role {
    match join_meeting(at, &settings.token, node, due) {
        Ok(link) => Role::Member(link),
        Err(finding) => Role::Alone(finding),
    }
}

fn listen(at: &[SocketAddr], token: &Token) -> std::io::Result<Host> {
    Host::bind(at, token.clone())
}

/// Where rank 0 listens: on all addresses if the name resolves to loopback (distributions write the machine's own
/// name to /etc/hosts so), because the other nodes resolve it to another address.
fn listen_addresses(rendezvous: &str, at: &[SocketAddr]) -> Vec<SocketAddr> {
    let host = rendezvous
        .rsplit_once(':')
        .map_or(rendezvous, |(host, _)| host);
    let literal = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>()
        .is_ok()
        || host == "localhost";
    let all = |to: &SocketAddr| match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, to.port())),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, to.port())),
    };
    at.iter()
        .map(|to| {
            if to.ip().is_loopback() && !literal {
                all(to)
            } else {
                *to
            }
        })
        .collect()
}

/// The addresses of a name, which another node's name server may know only later.
fn resolve(rendezvous: &str, due: Instant) -> Result<Vec<SocketAddr>, String> {
    loop {
        let found = rendezvous
            .to_socket_addrs()
            .map(Iterator::collect::<Vec<_>>);
        match found {
            Ok(found) if !found.is_empty() => return Ok(found),
            _ if Instant::now() < due => thread::sleep(Duration::from_millis(500)),
            Ok(_) => return Err("the name has no address".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn no_meeting(node: &LocalNode, message: String) -> Role {
    Role::Alone(Box::new(Code::NodesUnreached.finding(
        Severity::Error,
        Subject::node(&node.card.name),
        message,
    )))
}

fn join_meeting(
    at: &[SocketAddr],
    token: &Token,
    node: &LocalNode,
    due: Instant,
) -> Result<Link, Box<Finding>> {
    let name = &node.card.name;
    let to = at
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let link = join(at, token, name, due).map_err(|why| {
        let code = if why == JoinError::Token {
            Code::NodesToken
        } else {
            Code::NodesUnreached
        };
        Box::new(code.finding(
            Severity::Error,
            Subject::node(name),
            format!("node {name}, joining at {to}: {why}"),
        ))
    })?;
    send_card(link, node, &format!("the node that leads, at {to}"))
}

/// Sends this node's card.
fn send_card(mut link: Link, node: &LocalNode, to: &str) -> Result<Link, Box<Finding>> {
    let lost = |why| {
        Box::new(Code::NodesLost.finding(
            Severity::Error,
            Subject::node(to),
            format!("{to}: {why}"),
        ))
    };
    link.to.send(&node.card, SENDING).map_err(lost)?;
    Ok(link)
}

fn lead(
    host: Host,
    settings: &MeetingSettings,
    node: &LocalNode,
    due: Instant,
) -> Result<Role, CommandError> {
    let at = host.address().map_err(|e| CommandError::undone(&e))?;
    let loopback = match at {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    let to = if at.ip().is_unspecified() {
        SocketAddr::from((loopback, at.port()))
    } else {
        at
    };
    let (token, mut own) = (settings.token.clone(), node.clone());
    own.card.hosts = true;
    let work = move || match join_meeting(&[to], &token, &own, due) {
        // The leading side of this process reports whatever happens in this thread.
        Ok(link) => serve_with(link, &own, &mut |_| ())
            .ok()
            .and_then(Result::ok),
        Err(finding) => {
            log::error!("{}", finding.message);
            None
        }
    };
    let own = thread::Builder::new()
        .name("own node".to_owned())
        .spawn(work);
    let own = own.map_err(|e| CommandError::undone(&e))?;
    let gathered = gather_nodes(host, settings.size, due).map_err(|e| CommandError::undone(&e))?;
    Ok(Role::Leader(Box::new(Leader {
        gathered,
        own: Some(own),
    })))
}

/// Follows the orders of the node that leads; returns the result from that node, and the names of all nodes if all were
/// present. If the leading node is lost, the loss is the result. `begun`: when the command began.
pub(super) fn follow(
    link: Link,
    node: &LocalNode,
    shown: bool,
    begun: Instant,
) -> Result<(MemberResult, Vec<String>), CommandError> {
    let at = link
        .to
        .other_address()
        .map_err(|e| CommandError::undone(&e))?;
    let (mut screen, mut names) = (NodesConsole::new(shown), Vec::<String>::new());
    let served = serve_with(link, node, &mut |order| match order {
        Order::Welcome(welcome) => {
            names.clone_from(&welcome.names);
            screen.welcome(welcome);
        }
        Order::Open(open) => {
            log::info!(
                "NCCL starts: {:?}, ranks from {} of {}",
                open.kind,
                open.first,
                open.ranks
            );
        }
        _ => {}
    })?;
    let is_lost = served.is_err();
    // The node that leads has the first rank.
    let leader = names.first().map_or("that leads", String::as_str);
    let ended = served.unwrap_or_else(|why| {
        let message = format!("node {leader} at {at}, which leads, is lost: {why}");
        let finding = Code::NodesLost.finding(Severity::Error, Subject::node(leader), message);
        let ending = Ending {
            status: NOT_DONE,
            findings: vec![finding],
            network: None,
        };
        MemberResult {
            ending,
            interface: Err(why.to_string()),
        }
    });
    NodesConsole::new(true).findings(&ended.ending.findings);
    screen.member(
        &node.card.name,
        &ended.ending,
        if is_lost {
            "the node that leads is lost"
        } else {
            "of the node that leads"
        },
        begun.elapsed().as_secs_f64(),
    );
    Ok((ended, names))
}

/// As `serve`; the outer error is one of the operating system.
fn serve_with(
    link: Link,
    node: &LocalNode,
    heard: &mut dyn FnMut(&Order),
) -> Result<Result<MemberResult, LinkError>, CommandError> {
    let address = link
        .to
        .own_address()
        .map_err(|e| CommandError::undone(&e))?
        .ip();
    let find = |other: Option<IpAddr>| interface::name_of(other.unwrap_or(address));
    Ok(serve(link, &node.local, &find, heard))
}

impl Leader {
    /// All nodes, if the tests over them can run.
    pub(super) fn complete(&mut self) -> Result<&mut Cluster, Vec<Finding>> {
        super::messages(&self.gathered.findings).for_each(|line| log::warn!("{line}"));
        if self.gathered.complete {
            Ok(&mut self.gathered.cluster)
        } else {
            Err(self.gathered.findings.clone())
        }
    }

    /// Sends the end to all nodes, and waits for this node's own member thread; returns that thread's result.
    pub(super) fn end(&mut self, ending: &Ending) -> Option<MemberResult> {
        self.gathered.cluster.end(ending);
        // The thread does not panic.
        self.own.take()?.join().ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nodes_did_not_meet_by_mdns_has_a_code_and_the_numbers() {
        let said = |why| {
            let finding = meeting_finding(&why, 2, Duration::from_secs(9), "node1");
            (finding.code, finding.message.to_string())
        };
        let many = "mDNS: 3 nodes with this token were seen; nodes.size is 2";
        assert_eq!(
            said(MeetingError::Many(3)),
            (Code::NodesMany, many.to_owned())
        );
        let few = "mDNS: no other node was seen within 9 s; 1 firstlight node with another token or another nodes.size was seen";
        assert_eq!(
            said(MeetingError::Few(1, 1)),
            (Code::NodesAbsent, few.to_owned())
        );
    }
}
