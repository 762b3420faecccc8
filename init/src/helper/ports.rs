//! The children that give ports link-local addresses. `take_addresses` loads drivers, waits for carriers, and starts
//! `keep_addresses` in its own session. That child takes the addresses, reports and defends them, and writes a route to
//! each peer that it hears. `link_local` decides what must be done.

use super::network::{candidates, cards, has_carrier, link_up, load_drivers, not_found};
use super::request::{Helper, PortInUse};
use super::{SUCCESS, say};
use crate::config::mac::Mac;
use crate::link_local::PortAction::{
    self, AddAddress, RemoveAddress, RemoveRoute, SendArp, SetRoute,
};
use crate::link_local::{Ports, arp};
use crate::sys::process::{Terminal, own_session, readable, unblock_signals};
use crate::sys::{netlink, packet};
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Precedes the name of a port.
pub const PORT: &str = "port ";
/// Precedes the process id of the child that keeps running.
pub const KEEPER: &str = "keeper ";

/// The largest MTU that is set on a port, in bytes: what most switches and cards forward.
const LARGEST_MTU: u32 = 9216;
/// How long all cards must have no new carrier before those with one are used: links of both ends come up one by one.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// The time that remains for probing addresses, whatever carriers may still come.
const PROBING: Duration = Duration::from_millis(2500);
/// How often carriers are checked.
const CARRIER_INTERVAL: Duration = Duration::from_millis(250);

/// Brings the ports up and starts the child that keeps their addresses. Prints their names, the process id of that child,
/// and one line for people.
pub(super) fn take_addresses(timeout_s: u64, ports: &[String]) -> Result<i32, String> {
    let until = Instant::now() + Duration::from_secs(timeout_s);
    if let Err(why) = load_drivers() {
        // A card whose driver is built in needs no module.
        let _no_reader = writeln!(io::stderr(), "{why}");
    }
    let ports = find(ports, until, timeout_s)?;
    let left = until.saturating_duration_since(Instant::now()).as_millis();
    let keep = Helper::KeepLinkLocal {
        limit_ms: u64::try_from(left).unwrap_or(u64::MAX),
        ports,
    };
    let mut command = Command::new("/proc/self/exe");
    command.args(keep.words()).env_clear().current_dir("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    unblock_signals(&mut command);
    own_session(&mut command, Terminal::Plain);
    let mut child = command
        .spawn()
        .map_err(|e| format!("the keeper of the addresses: {e}"))?;
    let lines = child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines().map_while(Result::ok));
    for line in lines {
        if line.starts_with(PORT) {
            say(&line);
            continue;
        }
        say(&format!("{KEEPER}{}\n{line}", child.id()));
        return Ok(SUCCESS);
    }
    let mut why = String::new();
    let _unreadable = child
        .stderr
        .take()
        .map(|mut err| err.read_to_string(&mut why));
    let ended = child
        .wait()
        .map_or_else(|e| e.to_string(), |status| status.to_string());
    Err(why.lines().last().map_or_else(
        || format!("the keeper of the addresses: {ended}"),
        str::to_owned,
    ))
}

/// Brings the ports up, and waits for their carriers: those that are named, or all cards, of which those without a carrier
/// are late.
fn find(ports: &[String], until: Instant, timeout_s: u64) -> Result<Vec<PortInUse>, String> {
    let (mut up, mut had, mut since) = (Vec::new(), 0, Instant::now());
    loop {
        let seen = cards(Path::new("/sys"));
        let every = [String::new()];
        let wanted = if ports.is_empty() { &every } else { ports };
        let named: Vec<_> = wanted
            .iter()
            .map(|card| (card, candidates(card, &seen)))
            .collect();
        let mut all: Vec<String> = Vec::new();
        for name in named.iter().flat_map(|(_, names)| names) {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        for name in &all {
            if !up.contains(name) && bring_up(name).is_ok() {
                up.push(name.clone());
            }
        }
        let with: Vec<_> = all
            .iter()
            .filter(|name| up.contains(name) && has_carrier(name))
            .collect();
        if std::mem::replace(&mut had, with.len()) != with.len() {
            since = Instant::now();
        }
        let missing = named
            .iter()
            .find(|(_, names)| !names.iter().any(|name| with.contains(&name)));
        let is_late = Instant::now() + PROBING >= until;
        let is_settled = with.len() == all.len() || since.elapsed() >= SETTLE_TIME || is_late;
        match missing {
            None if !ports.is_empty() || is_settled => {
                let port = |name: &String| PortInUse {
                    name: name.clone(),
                    late: !with.contains(&name),
                };
                return Ok(all
                    .iter()
                    .filter(|name| up.contains(name))
                    .map(port)
                    .collect());
            }
            Some((card, names)) if Instant::now() >= until => {
                return Err(not_found(card, &seen, names, timeout_s));
            }
            None | Some(_) => sleep(Duration::from_millis(100)),
        }
    }
}

/// Brings a port up, with the largest MTU that its device offers.
fn bring_up(name: &str) -> io::Result<()> {
    let index = index_of(name)?;
    let (now, largest) = netlink::mtu(index)?;
    if let Some(wanted) = largest
        .map(|largest| largest.min(LARGEST_MTU))
        .filter(|wanted| *wanted != now)
        && let Err(e) = netlink::request(&netlink::set_mtu(index, wanted))
    {
        // The port works with the MTU that it has, and the stage's line shows it.
        let _no_reader = writeln!(io::stderr(), "{name}: MTU {wanted}: {e}");
    }
    netlink::request(&netlink::separate_arp(index))?;
    link_up(name).map(drop)
}

fn index_of(name: &str) -> io::Result<u32> {
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    index.trim().parse().map_err(io::Error::other)
}

/// One port, as the kernel sees it.
struct Link {
    name: String,
    index: u32,
    mac: Mac,
    mtu: u32,
    socket: OwnedFd,
    /// Whether the other ports wait for it; a late port is used only if it is in time.
    is_awaited: bool,
    /// Whether it was not in time.
    is_left_out: bool,
}

impl Link {
    fn open(port: &PortInUse) -> io::Result<Self> {
        let (name, is_awaited) = (&port.name, !port.late);
        let index = index_of(name)?;
        let mac = fs::read_to_string(format!("/sys/class/net/{name}/address"))?;
        let mac = Mac::parse(mac.trim()).ok_or_else(|| io::Error::other("no Ethernet address"))?;
        let (mtu, _) = netlink::mtu(index)?;
        let (name, socket) = (name.clone(), packet::arp_socket(index)?);
        Ok(Self {
            name,
            index,
            mac,
            mtu,
            socket,
            is_awaited,
            is_left_out: false,
        })
    }

    /// Performs the action; returns a description of it, and its result.
    fn perform(&self, action: PortAction) -> (String, io::Result<()>) {
        match action {
            SendArp(_, sender, target) => {
                let sent = packet::send(&self.socket, &arp::request(self.mac, sender, target));
                (format!("ARP about {target}"), sent)
            }
            AddAddress(_, own) => {
                let taken = netlink::request(&netlink::link_local(self.index, own, true));
                (format!("address {own}"), taken)
            }
            RemoveAddress(_, own) => {
                log(&format!(
                    "{}: {own} is in use elsewhere and given up",
                    self.name
                ));
                let given_up = netlink::request(&netlink::link_local(self.index, own, false));
                (format!("giving up {own}"), given_up)
            }
            SetRoute(_, own, peer) => {
                log(&format!("{}: peer {peer}", self.name));
                let route = netlink::peer_route(self.index, peer, own, self.mtu);
                (format!("route to {peer}"), netlink::request(&route))
            }
            RemoveRoute(_, own, peer) => {
                let gone = netlink::request(&netlink::no_peer_route(self.index, peer, own));
                (format!("removing the route to {peer}"), gone)
            }
        }
    }
}

/// Takes addresses, prints the ports and one line when every port has an address, and continues until it is ended.
pub(super) fn keep_addresses(limit: Duration, ports: &[PortInUse]) -> Result<i32, String> {
    let until = Instant::now() + limit;
    let open = |port: &PortInUse| Link::open(port).map_err(|e| format!("{}: {e}", port.name));
    let links: Vec<Link> = ports.iter().map(open).collect::<Result<_, _>>()?;
    let macs: Vec<_> = links.iter().map(|link| link.mac).collect();
    let mut keeper = AddressKeeper {
        links,
        ports: Ports::new(&macs),
        last_failure: None,
        is_ready: false,
    };
    let mut next_check = Instant::now();
    loop {
        let now = Instant::now();
        if now >= next_check {
            keeper.check_carriers(now);
            next_check = now + CARRIER_INTERVAL;
        }
        let actions = keeper.ports.tick(now);
        keeper.perform(actions, now);
        if !keeper.is_ready {
            keeper.report(now >= until)?;
        }
        let next = keeper
            .ports
            .next()
            .map_or(next_check, |next| next.min(next_check));
        keeper.listen(next.saturating_duration_since(Instant::now()));
    }
}

struct AddressKeeper {
    links: Vec<Link>,
    ports: Ports,
    last_failure: Option<String>,
    is_ready: bool,
}

impl AddressKeeper {
    fn check_carriers(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            let is_up = self
                .links
                .get(at)
                .is_some_and(|link| !link.is_left_out && has_carrier(&link.name));
            let actions = self.ports.set_carrier(at, is_up, now);
            self.perform(actions, now);
        }
    }

    /// Waits for packets, and handles those that arrived.
    fn listen(&mut self, limit: Duration) {
        let sockets: Vec<_> = self.links.iter().map(|link| link.socket.as_fd()).collect();
        for (at, _) in readable(&sockets, Some(limit))
            .into_iter()
            .enumerate()
            .filter(|(_, ready)| *ready)
        {
            // A flood on one port must not hold up the others.
            for _ in 0..32 {
                let Some(link) = self.links.get(at) else {
                    break;
                };
                let frame = match packet::receive(&link.socket) {
                    Ok(Some(frame)) => frame,
                    Ok(None) => break,
                    Err(_) => {
                        sleep(Duration::from_millis(10));
                        break;
                    }
                };
                if let Some(packet) = arp::parse(&frame).filter(|_| !link.is_left_out) {
                    let now = Instant::now();
                    let actions = self.ports.receive(at, &packet, now);
                    self.perform(actions, now);
                }
            }
        }
    }

    fn perform(&mut self, actions: Vec<PortAction>, now: Instant) {
        let mut refused = Vec::new();
        for action in actions {
            let (SendArp(at, ..)
            | AddAddress(at, _)
            | RemoveAddress(at, _)
            | SetRoute(at, ..)
            | RemoveRoute(at, ..)) = action;
            let Some(link) = self.links.get(at).filter(|_| !refused.contains(&at)) else {
                continue;
            };
            let (what, done) = link.perform(action);
            let Err(e) = done else { continue };
            match action {
                SendArp(..) => self.ports.send_failed(at, now),
                AddAddress(..) => {
                    self.ports.address_failed(at, now);
                    refused.push(at);
                }
                RemoveAddress(..) | SetRoute(..) | RemoveRoute(..) => {}
            }
            let failure = format!("{}: {what}: {e}", link.name);
            log(&failure);
            self.last_failure = Some(failure);
        }
    }

    /// Prints the ports and the line once every port with a carrier has its address. When `is_late`, it no longer waits for
    /// the other ports, and a port that must have an address and has none is an error.
    fn report(&mut self, is_late: bool) -> Result<(), String> {
        let (mut names, mut have, mut missing, mut on_the_way) =
            (Vec::new(), Vec::new(), Vec::new(), false);
        for (link, own) in self.links.iter().zip(self.ports.addresses()) {
            match own {
                Some(own) => {
                    names.push(link.name.as_str());
                    have.push(format!("{} {own} MTU {}", link.name, link.mtu));
                }
                None if link.is_awaited => missing.push(link.name.as_str()),
                None => on_the_way |= has_carrier(&link.name),
            }
        }
        if missing.is_empty() && (is_late || !on_the_way) {
            names.iter().for_each(|name| say(&format!("{PORT}{name}")));
            say(&have.join(", "));
            self.is_ready = true;
            let used: Vec<_> = self.ports.addresses().map(|own| own.is_some()).collect();
            self.links
                .iter_mut()
                .zip(used)
                .for_each(|(link, is_used)| link.is_left_out = !is_used);
        } else if is_late {
            let why = self
                .last_failure
                .as_ref()
                .map_or_else(String::new, |why| format!(" ({why})"));
            return Err(format!(
                "no link-local address in time: {}{why}",
                missing.join(" ")
            ));
        }
        Ok(())
    }
}

/// Writes a line to the kernel's log: process 1 reads this child's output only until it is ready.
fn log(line: &str) {
    let log = OpenOptions::new().write(true).open("/dev/kmsg");
    let _no_log =
        log.and_then(|mut log| log.write_all(format!("<6>firstlight: {line}\n").as_bytes()));
}
