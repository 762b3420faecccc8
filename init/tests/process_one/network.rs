//! Link-local addresses over veth pairs: network namespaces are the machines, and a pair is a cable. Needs root, ip, nsenter
//! and unshare; without them the tests fail, they are not skipped.

use super::CONFIG;
use super::hand_over::new_root;
use super::namespace::{Disk, Down, Machine, PASS, Running};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A separate network with its own /sys, and without the host's modules.
const NAMESPACE_SCRIPT: &str = "mount --make-rprivate / && mount -t sysfs sysfs /sys\n\
                     if [ -d /lib/modules ]; then mount -t tmpfs tmpfs /lib/modules; fi\n\
                     echo up; exec sleep 600";

/// A machine without process 1: a network, and the children that keep its addresses.
struct NetworkNamespace {
    holder: Child,
    keepers: Vec<String>,
}

/// What `ip` shows of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PortAddress {
    port: String,
    address: Ipv4Addr,
}

/// A route to one peer: the peer, the port, the port's address.
type Route = (Ipv4Addr, String, Ipv4Addr);

/// The request to the helper that gives these ports addresses.
fn link_local(timeout_s: u64, ports: &[&str]) -> String {
    json!({ "take-link-local": { "timeout_s": timeout_s, "ports": ports } }).to_string()
}

impl NetworkNamespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--mount", "sh", "-c", NAMESPACE_SCRIPT])
            .stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut up = [0; 3];
        holder.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        Self {
            holder,
            keepers: Vec::new(),
        }
    }

    fn id(&self) -> u32 {
        self.holder.id()
    }

    /// Runs a program in this network; returns whether it succeeded, and its output.
    fn try_run(&self, words: &[&str]) -> (bool, String, String) {
        let id = self.id().to_string();
        let mut command = Command::new("nsenter");
        let output = command
            .args(["-t", &id, "--net", "--mount", "--"])
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn run(&self, words: &[&str]) -> String {
        let (is_fine, out, err) = self.try_run(words);
        assert!(is_fine, "{words:?}: {out}{err}");
        out
    }

    /// Takes addresses on these ports, as the stage `network` does.
    fn take(&mut self, ports: &[&str]) {
        let said = self.run(&[env!("CARGO_BIN_EXE_init"), "helper", &link_local(20, ports)]);
        let lines: Vec<_> = said.lines().collect();
        let named: Vec<_> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("port "))
            .collect();
        assert_eq!(named, ports, "{said}");
        self.keepers.extend(
            lines
                .iter()
                .filter_map(|line| line.strip_prefix("keeper "))
                .map(str::to_owned),
        );
        let shown: Vec<_> = addresses(self.id())
            .iter()
            .map(|own| format!("{} {} MTU 9216", own.port, own.address))
            .collect();
        assert_eq!(lines.last(), Some(&shown.join(", ").as_str()), "{said}");
    }

    fn end_keepers(&mut self) {
        for keeper in self.keepers.drain(..) {
            assert!(
                Command::new("kill")
                    .args(["-KILL", &keeper])
                    .status()
                    .unwrap()
                    .success()
            );
        }
    }

    /// The number of bytes that a port has sent.
    fn sent(&self, port: &str) -> u64 {
        let file = format!("/sys/class/net/{port}/statistics/tx_bytes");
        self.run(&["cat", &file]).trim().parse().unwrap()
    }

    /// Runs a function in this network.
    fn inside<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/proc/{}/ns/net", self.id())).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                function()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        for keeper in &self.keepers {
            let _has_ended = Command::new("kill")
                .args(["-KILL", keeper])
                .stderr(Stdio::null())
                .status();
        }
        let _has_ended = self.holder.kill();
        let _is_reaped = self.holder.wait();
    }
}

/// `ip` in the network of a process.
fn ip(id: u32, words: &[&str]) -> serde_json::Value {
    let mut command = Command::new("nsenter");
    let output = command
        .args(["-t", &id.to_string(), "--net", "ip", "-json", "-4"])
        .args(words)
        .output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

/// The link-local addresses in that network, by port. Each is set without a network (/32).
fn addresses(id: u32) -> Vec<PortAddress> {
    let mut found = Vec::new();
    for link in ip(id, &["address", "show", "scope", "link"])
        .as_array()
        .unwrap()
    {
        for address in link["addr_info"].as_array().into_iter().flatten() {
            assert_eq!(address["prefixlen"], 32, "{link}");
            let port = link["ifname"].as_str().unwrap().to_owned();
            found.push(PortAddress {
                port,
                address: address["local"].as_str().unwrap().parse().unwrap(),
            });
        }
    }
    found
}

/// The routes in that network. Each has the port's own MTU.
fn routes(id: u32) -> BTreeSet<Route> {
    let address = |value: &serde_json::Value| value.as_str().unwrap().parse().unwrap();
    let all = ip(id, &["route", "show"]);
    let one = |route: &serde_json::Value| {
        assert_eq!(route["metrics"][0]["mtu"], 9216, "{route}");
        (
            address(&route["dst"]),
            route["dev"].as_str().unwrap().to_owned(),
            address(&route["prefsrc"]),
        )
    };
    all.as_array().unwrap().iter().map(one).collect()
}

/// The routes that `own` needs to reach `peers`, port by port.
fn wanted(own: &[PortAddress], peers: &[PortAddress]) -> BTreeSet<Route> {
    own.iter()
        .zip(peers)
        .map(|(own, peer)| (peer.address, own.port.clone(), own.address))
        .collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < limit, "not {what} in time");
        sleep(Duration::from_millis(50));
    }
}

/// A cable between two processes' networks.
fn cable(one: (u32, &str), other: (u32, &str)) {
    let (id, other_id) = (one.0.to_string(), other.0.to_string());
    let mut command = Command::new("ip");
    command.args(["link", "add", one.1, "netns", &id, "type", "veth"]);
    command.args(["peer", "name", other.1, "netns", &other_id]);
    assert!(command.status().unwrap().success(), "{one:?} {other:?}");
}

#[test]
fn two_ports_take_addresses_and_reach_each_peer_by_its_own_cable() {
    let (mut a, mut b) = (NetworkNamespace::new(), NetworkNamespace::new());
    cable((a.id(), "a1"), (b.id(), "b1"));
    cable((a.id(), "a2"), (b.id(), "b2"));
    for port in ["b1", "b2"] {
        b.run(&["ip", "link", "set", port, "up"]);
    }
    // A peer that has been there for a long time is found as well.
    a.take(&["a1", "a2"]);
    sleep(Duration::from_secs(3));
    b.take(&["b1", "b2"]);
    let (of_a, of_b) = (addresses(a.id()), addresses(b.id()));
    until("every peer's route", || {
        routes(a.id()) == wanted(&of_a, &of_b) && routes(b.id()) == wanted(&of_b, &of_a)
    });
    for (file, value) in [("arp_ignore", "1\n"), ("arp_announce", "2\n")] {
        assert_eq!(
            a.run(&["cat", &format!("/proc/sys/net/ipv4/conf/a2/{file}")]),
            value
        );
    }

    const BYTES: usize = 5_000_000;
    let before = ["a1", "a2"].map(|port| a.sent(port));
    let to = of_b[1].address;
    let listener = b.inside(|| TcpListener::bind((to, 7000)).unwrap());
    let mut stream = a.inside(|| TcpStream::connect((to, 7000)).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        accepted.read_to_end(&mut all).unwrap();
        all.len()
    });
    stream.write_all(&vec![7; BYTES]).unwrap();
    drop(stream);
    assert_eq!(reader.join().unwrap(), BYTES);
    let [first, second] =
        [("a1", before[0]), ("a2", before[1])].map(|(port, old)| a.sent(port) - old);
    assert!(
        second > 5_000_000 && first < 100_000,
        "{first} bytes by a1, {second} by a2"
    );
}

#[test]
fn a_cable_that_was_moved_moves_the_routes() {
    let (mut a, mut b, switch) = (
        NetworkNamespace::new(),
        NetworkNamespace::new(),
        NetworkNamespace::new(),
    );
    for n in ["1", "2"] {
        switch.run(&["ip", "link", "add", &format!("cable{n}"), "type", "bridge"]);
        for (id, name) in [(a.id(), "a"), (b.id(), "b")] {
            let (port, inside) = (format!("{name}{n}"), format!("to-{name}{n}"));
            cable((id, &port), (switch.id(), &inside));
            switch.run(&[
                "ip",
                "link",
                "set",
                &inside,
                "master",
                &format!("cable{n}"),
                "mtu",
                "9216",
                "up",
            ]);
        }
        switch.run(&["ip", "link", "set", &format!("cable{n}"), "up"]);
    }
    a.take(&["a1", "a2"]);
    b.take(&["b1", "b2"]);
    let (of_a, mut of_b) = (addresses(a.id()), addresses(b.id()));
    until("every peer's route", || {
        routes(a.id()) == wanted(&of_a, &of_b) && routes(b.id()) == wanted(&of_b, &of_a)
    });
    // The cables are unplugged from a, and plugged in the other way round.
    for port in ["to-a1", "to-a2"] {
        switch.run(&["ip", "link", "set", port, "down"]);
    }
    sleep(Duration::from_secs(1));
    for (port, to) in [("to-a1", "cable2"), ("to-a2", "cable1")] {
        switch.run(&["ip", "link", "set", port, "master", to, "up"]);
    }
    of_b.reverse();
    until("every route moved", || {
        let mut of_a = of_a.clone();
        let moved = routes(a.id()) == wanted(&of_a, &of_b);
        of_a.reverse();
        let (mut b_in_order, id) = (of_b.clone(), b.id());
        b_in_order.reverse();
        moved && routes(id) == wanted(&b_in_order, &of_a)
    });
    assert_eq!(addresses(a.id()), of_a);
}

#[test]
fn an_address_in_use_is_not_taken_and_one_that_is_claimed_twice_is_given_up() {
    let (mut a, b) = (NetworkNamespace::new(), NetworkNamespace::new());
    cable((a.id(), "a1"), (b.id(), "b1"));
    b.run(&["ip", "link", "set", "b1", "up"]);
    a.take(&["a1"]);
    let first = addresses(a.id()).remove(0).address;
    a.end_keepers();
    a.run(&["ip", "address", "flush", "dev", "a1"]);
    let claim = |address: Ipv4Addr| {
        b.run(&[
            "ip",
            "address",
            "add",
            &format!("{address}/32"),
            "dev",
            "b1",
        ])
    };
    claim(first);
    a.take(&["a1"]);
    let second = addresses(a.id()).remove(0).address;
    assert_ne!(second, first);
    // A machine that has the same first address takes the same second one: the choice comes from the card's address.
    a.end_keepers();
    a.run(&["ip", "address", "flush", "dev", "a1"]);
    a.take(&["a1"]);
    assert_eq!(addresses(a.id()).remove(0).address, second);

    // With arp_notify the kernel announces its addresses when the card's address changes.
    b.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/b1/arp_notify"]);
    claim(second);
    b.run(&["ip", "link", "set", "b1", "address", "52:54:00:00:00:01"]);
    sleep(Duration::from_secs(1));
    assert_eq!(
        addresses(a.id())
            .iter()
            .map(|own| own.address)
            .collect::<Vec<_>>(),
        [second]
    );
    b.run(&["ip", "link", "set", "b1", "address", "52:54:00:00:00:02"]);
    until("another address", || {
        let own = addresses(a.id());
        own.len() == 1 && ![first, second].contains(&own[0].address)
    });
}

/// The link of a port's peer comes up while the other port probes its address, or only later.
#[test]
fn a_carrier_that_comes_while_the_others_probe_adds_its_port_and_a_later_one_does_not() {
    for in_time in [true, false] {
        let (a, b) = (NetworkNamespace::new(), NetworkNamespace::new());
        for (port, peer) in [("a1", "b1"), ("a2", "b2")] {
            cable((a.id(), port), (b.id(), peer));
            a.run(&["ip", "link", "set", port, "up"]);
        }
        b.run(&["ip", "link", "set", "b1", "up"]);
        let id = a.id().to_string();
        let words = [
            "-t",
            &id,
            "--net",
            "--mount",
            "--",
            env!("CARGO_BIN_EXE_init"),
            "helper",
        ];
        let mut command = Command::new("nsenter");
        let keep = json!({ "keep-link-local": { "limit_ms": 20_000, "ports": [
            { "name": "a1", "late": false },
            { "name": "a2", "late": true },
        ] } });
        command
            .args(words)
            .arg(keep.to_string())
            .stdout(Stdio::piped());
        let mut keeper = command.spawn().unwrap();
        sleep(Duration::from_millis(300));
        if in_time {
            b.run(&["ip", "link", "set", "b2", "up"]);
        }
        let lines = BufReader::new(keeper.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let ports: Vec<_> = lines
            .map_while(|line| line.strip_prefix("port ").map(str::to_owned))
            .collect();
        b.run(&["ip", "link", "set", "b2", "up"]);
        sleep(Duration::from_millis(if in_time { 0 } else { 3000 }));
        let found: Vec<_> = addresses(a.id()).into_iter().map(|own| own.port).collect();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        let wanted = if in_time {
            &["a1", "a2"].map(String::from)[..]
        } else {
            &["a1"].map(String::from)
        };
        assert_eq!((ports, found), (wanted.to_vec(), wanted.to_vec()));
    }
}

#[test]
fn ports_that_cannot_be_used_are_named_and_no_child_is_left() {
    let (a, b) = (NetworkNamespace::new(), NetworkNamespace::new());
    cable((a.id(), "a1"), (b.id(), "b1"));
    let init = env!("CARGO_BIN_EXE_init");
    for (ports, why) in [
        (&["a1"][..], "no carrier within 1 s: a1"),
        (&["a7"], "no carrier within 1 s: a7"),
        // A veth is not a card, so there is no card to name.
        (&["52:54:00:00:00:09"], "no network card"),
        (&[], "no network card"),
    ] {
        let (is_fine, out, err) = a.try_run(&[init, "helper", &link_local(1, ports)]);
        assert!(
            !is_fine && err.lines().last() == Some(why),
            "{ports:?}: {out}{err}"
        );
    }
    // The links are up, but there is no time left to probe.
    b.run(&["ip", "link", "set", "b1", "up"]);
    let keep = json!({ "keep-link-local": { "limit_ms": 300, "ports": [{ "name": "a1", "late": false }] } });
    let (is_fine, out, err) = a.try_run(&[init, "helper", &keep.to_string()]);
    assert_eq!(
        (is_fine, out.as_str(), err.as_str()),
        (false, "", "no link-local address in time: a1\n")
    );
    let rdma = json!({ "rdma": { "soft": true, "interfaces": ["a1"] } });
    let (is_fine, _, err) = a.try_run(&[init, "helper", &rdma.to_string()]);
    assert!(
        !is_fine && err.contains("modules.dep: No such file"),
        "{err}"
    );
}

/// Boots a machine with two ports, and connects them to `peer`.
fn boot(machine: Machine, peer: &NetworkNamespace, words: &str) -> Running {
    let words =
        format!("firstlight.network.mode=link-local firstlight.network.ports=m1,m2 {words}");
    let running = machine.file("bus/none", "").cmdline(&words).boot();
    let network = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
    let id = running.id().to_string();
    until("a network of the machine", || {
        network(&id).is_some_and(|own| Some(own) != network("self"))
    });
    for (own, other) in [("m1", "p1"), ("m2", "p2")] {
        cable((running.id(), own), (peer.id(), other));
        peer.run(&["ip", "link", "set", other, "up"]);
    }
    running
}

#[test]
fn the_boot_continues_with_addresses_and_they_are_kept_while_the_workload_runs() {
    let mut peer = NetworkNamespace::new();
    let script = "echo WORKLOAD keepers $(cat /proc/[0-9]*/cmdline | grep -ac keep-link-local)\n\
                  while [ $(ip -4 route | wc -l) != 2 ]; do sleep 0.1; done; ip -4 route";
    let machine = Machine::new(PASS, CONFIG).workload(script);
    let mut running = boot(machine, &peer, "firstlight.network.soft_roce=true");
    running.until("WORKLOAD ");
    peer.take(&["p1", "p2"]);
    let of_peer = addresses(peer.id());
    let (down, _, console) = running.down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(
        console.contains("\nnetwork   firstlight, m1 169.254."),
        "{console}"
    );
    assert!(
        console.contains(" MTU 9216, warning: no RDMA: /lib/modules/"),
        "{console}"
    );
    assert!(console.contains("WORKLOAD keepers 1\n"), "{console}");
    for (own, port) in of_peer.iter().zip(["m1", "m2"]) {
        let route = format!("{} dev {port} ", own.address);
        assert!(
            console.lines().any(|line| line.starts_with(&route)),
            "{route}: {console}"
        );
    }
}

#[test]
fn a_recovery_ends_the_keeper_and_starts_it_again() {
    let peer = NetworkNamespace::new();
    let script = "echo WORKLOAD keepers $(cat /proc/[0-9]*/cmdline | grep -ac keep-link-local); ip -4 -o address";
    let machine = super::recover::machine("gpu", "reset-gpu", 0).workload(script);
    let (_, _, console) = boot(machine, &peer, "").held_or_down();
    assert!(
        console.contains("recover   end processes: only process 1 is left\n"),
        "{console}"
    );
    assert!(console.contains("WORKLOAD keepers 1\n"), "{console}");
    // The same addresses, and no additional ones.
    let of_ports = console
        .lines()
        .filter(|line| line.contains(" inet 169.254."))
        .count();
    assert_eq!(of_ports, 2, "{console}");
}

#[test]
fn the_keeper_ends_before_the_root_is_switched_and_the_addresses_stay() {
    let (peer, root) = (NetworkNamespace::new(), tempfile::tempdir().unwrap());
    for folder in ["sbin", "bin", "etc"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    let disk = Disk::of(&new_root(root.path()));
    let words = format!(
        "firstlight.workload.mode=switch-root firstlight.workload.exec=/sbin/init firstlight.workload.root=/dev/{}",
        disk.name
    );
    let machine = Machine::new("report PASS pass\nexit 0", CONFIG).device(&disk.name);
    let mut running = boot(machine, &peer, &words);
    running.until("network   firstlight, m1 169.254.");
    // The new init finds no configuration, and holds.
    running.until("HOLD ");
    assert_eq!(running.others(), [""; 0]);
    let ports: Vec<_> = addresses(running.id())
        .into_iter()
        .map(|own| own.port)
        .collect();
    assert_eq!(ports, ["m1", "m2"]);
    running.signal("TERM");
    assert_eq!(running.down().0, Down::PoweredOff);
}
