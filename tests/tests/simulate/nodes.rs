//! Several nodes: processes of the shipped program on this host, which meet over loopback. Each has its own GPUs of one
//! simulated machine and its own NCCL_HOSTID.

use harness::simgpu::{Scenario, prepared};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const TOKEN: &str = "a token of the simulation";

/// A scenario of four GPUs, with additional keys.
pub(super) fn machine(more: &str) -> Scenario {
    let text = format!("on = \"epyc-8x4090\"\n{more}");
    Scenario::of(text.parse().unwrap()).unwrap().gpus(4)
}

/// A port that is free now.
fn port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The nodes of one meeting.
pub(super) struct Meeting<'c> {
    /// The program with its options for the simulated machine, without a command.
    pub(super) base: &'c Command,
    pub(super) dir: &'c Path,
    port: u16,
    size: usize,
    timeout: u32,
}

/// A node that has ended: its exit status, standard output and standard error.
pub(super) struct Ended {
    pub(super) status: i32,
    pub(super) text: String,
    pub(super) log: String,
}

impl<'c> Meeting<'c> {
    fn new(base: &'c Command, dir: &'c Path, size: usize) -> Self {
        fs::write(dir.join("token"), TOKEN).unwrap();
        fs::write(dir.join("other"), "another token, as long").unwrap();
        Self { base, dir, port: port(), size, timeout: 30 }
    }

    /// The command line of a node, not yet started; `words` come before the options.
    pub(super) fn node(&self, base: &Command, name: &str, words: &[&str], token: &str) -> Command {
        let mut command = Command::new(base.get_program());
        command.args(base.get_args()).args(words).env_clear().env("NCCL_HOSTID", name);
        command.arg("--token-file").arg(self.dir.join(token)).args(["--size", &self.size.to_string()]);
        command.args(["--rendezvous", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--meeting-timeout", &self.timeout.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, name: &str, gpus: &str) -> Child {
        self.node(self.base, name, &["nodes", "--gpus", gpus], "token").spawn().unwrap()
    }

    /// Starts the node that leads, and waits until it listens.
    pub(super) fn lead(&self, mut command: Command) -> Child {
        let child = command.spawn().unwrap();
        let due = Instant::now() + Duration::from_secs(20);
        let listens = |table: String| {
            let own = format!("0100007F:{:04X} 00000000:0000 0A", self.port);
            table.contains(&own)
        };
        while !listens(fs::read_to_string("/proc/net/tcp").unwrap()) {
            assert!(Instant::now() < due, "it does not listen");
            sleep(Duration::from_millis(10));
        }
        child
    }

    fn start_leader(&self, gpus: &str) -> Child {
        self.lead(self.node(self.base, "a", &["nodes", "--gpus", gpus, "--json", &self.json()], "token"))
    }

    pub(super) fn json(&self) -> String {
        self.dir.join("nodes.json").display().to_string()
    }

    pub(super) fn report(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.json()).unwrap()).unwrap()
    }
}

pub(super) fn ended(child: Child) -> Ended {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { status: status.code().unwrap_or(-1), text: text(&stdout), log: text(&stderr) }
}

impl Ended {
    #[track_caller]
    pub(super) fn ends(&self, status: i32, has: &[&str]) {
        assert_eq!(self.status, status, "{}\n{}", self.text, self.log);
        // Long texts are wrapped.
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in has {
            assert!(text.contains(part), "{part}:\n{}\n{}", self.text, self.log);
        }
    }
}

pub(super) fn with(scenario: &Scenario, size: usize, then: impl FnOnce(&Meeting<'_>)) {
    prepared(scenario, &[], |base, dir| {
        then(&Meeting::new(&base, dir, size));
        Ok(())
    })
    .unwrap();
}

/// Runs two nodes with two GPUs each; `then` receives the results of both.
fn two(scenario: &Scenario, then: impl FnOnce(&Meeting<'_>, &Ended, &Ended)) {
    with(scenario, 2, |meeting| {
        let leader = meeting.start_leader("0,1");
        let member = meeting.start("b", "2,3");
        let (leader, member) = (ended(leader), ended(member));
        then(meeting, &leader, &member);
    });
}

#[test]
fn two_nodes_pass_with_every_value_checked_and_the_network_proven() {
    two(&machine(""), |meeting, leader, member| {
        leader.ends(
            0,
            &[
                "PASS nodes-meeting 2 nodes with 4 GPUs: Simulated.a, Simulated.b",
                "PASS nodes-nccl-socket NET/Socket/0 for 8 ordered pairs of ranks on",
                "N/A nodes-nccl-rdma no node has an RDMA port that is ACTIVE",
                "# Rank 3 Group 0 Pid",
                "Simulated.b device 3",
                "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=nodes host=Simulated.a",
            ],
        );
        let sizes = |text: &str| text.lines().filter(|line| line.contains(" float ")).count();
        assert_eq!(sizes(&leader.text), 52, "25 sizes and the largest, twice: {}", leader.text);
        member.ends(0, &["node 2 of 2: Simulated.a, Simulated.b", "VERDICT PASS of the node that leads"]);
        assert_eq!(sizes(&member.text), 0, "only rank 0's node prints the table");
        let report = meeting.report();
        assert_eq!((&report["schema"], &report["verdict"]), (&"firstlight.nodes/1".into(), &"PASS".into()));
        assert_eq!(report["nodes"][1]["name"], "Simulated.b");
        assert!(!report.to_string().contains(TOKEN));
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, meeting.port)).is_err(), "the port is still open");
    });
}

/// Two network namespaces with a cable between them, and with link-local addresses.
struct Cable([String; 2]);

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Cable {
    fn new(test: &str) -> Self {
        let cable = Self(["a", "b"].map(|end| format!("firstlight-{}-{test}-{end}", std::process::id())));
        let Self([a, b]) = &cable;
        [a, b].iter().for_each(|name| ip(&format!("netns add {name}")));
        ip(&format!("-n {a} link add cable0 type veth peer name cable0 netns {b}"));
        for (name, address) in [(a, "169.254.10.1/16"), (b, "169.254.10.2/16")] {
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("-n {name} addr add {address} dev cable0"));
            ip(&format!("-n {name} link set cable0 up"));
        }
        cable
    }

    /// Starts a node at one end that finds the others by multicast DNS; `words` come before the command.
    fn node(
        &self,
        meeting: &Meeting<'_>,
        end: usize,
        (name, gpus): (&str, &str),
        token: &str,
        words: &[&str],
    ) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[end]]).arg(meeting.base.get_program());
        command.args(meeting.base.get_args()).args(words);
        command.args(["nodes", "--gpus", gpus, "--rendezvous", "mdns", "--size", "2", "--json"]);
        command.arg(meeting.dir.join(format!("{name}.json")));
        command.arg("--token-file").arg(meeting.dir.join(token));
        command.args(["--meeting-timeout", &meeting.timeout.to_string()]);
        command.env_clear().env("NCCL_HOSTID", name).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The sockets at one end that listen for connections or for multicast DNS.
    fn open(&self, end: usize) -> Vec<String> {
        let files = ["tcp", "tcp6", "udp", "udp6"].map(|name| format!("/proc/net/{name}"));
        let read =
            Command::new("ip").args(["netns", "exec", &self.0[end], "cat"]).args(files).output().unwrap();
        let text = String::from_utf8(read.stdout).unwrap();
        let is_open = |line: &&str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.get(3) == Some(&"0A") || words.get(1).is_some_and(|own| own.ends_with(":14E9"))
        };
        assert_eq!(text.matches("local_address").count(), 4, "{text}");
        text.lines().filter(is_open).map(str::to_owned).collect()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// The time from `since` until a node has met the others, taken at the first line that reports it, and the node's result;
/// `sender` sends a message at that time.
fn met(
    mut node: Child,
    since: Instant,
    sender: &mpsc::Sender<()>,
) -> thread::JoinHandle<(Option<Duration>, Ended)> {
    let (out, sender) = (node.stdout.take().unwrap(), sender.clone());
    thread::spawn(move || {
        let (mut when, mut text) = (None, String::new());
        for line in BufReader::new(out).lines() {
            let line = line.unwrap();
            if when.is_none() && (line.contains("node 2 of 2") || line.contains("nodes-meeting")) {
                when = Some(since.elapsed());
                let _not_awaited = sender.send(());
            }
            text += &(line + "\n");
        }
        (when, Ended { text, ..ended(node) })
    })
}

#[test]
fn nodes_on_one_cable_find_each_other_by_mdns_and_leave_no_port_open() {
    with(&machine(""), 2, |meeting| {
        let cable = Cable::new("meet");
        let a = cable.node(meeting, 0, ("a", "0,1"), "token", &[]);
        sleep(Duration::from_secs(3));
        assert!(!cable.open(0).is_empty(), "it does not wait for the other one");
        let since = Instant::now();
        let b = cable.node(meeting, 1, ("b", "2,3"), "token", &["--set", "nodes.interfaces=cable0"]);
        let (sender, _receiver) = mpsc::channel();
        let ends = [met(a, since, &sender), met(b, since, &sender)].map(|end| end.join().unwrap());
        for (when, end) in &ends {
            assert_eq!(end.status, 0, "{}{}", end.text, end.log);
            println!("met {:?} after the start of the later one", when.unwrap());
            assert!(when.unwrap() < Duration::from_secs(20));
        }
        let leads = ends.iter().filter(|(_, end)| end.text.contains("nodes-nccl-socket")).count();
        assert_eq!(leads, 1, "{}\n{}", ends[0].1.text, ends[1].1.text);
        for (end, name) in ["a", "b"].iter().enumerate() {
            assert_eq!(cable.open(end), Vec::<String>::new());
            let report = fs::read(meeting.dir.join(format!("{name}.json"))).unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
            let names: Vec<_> = report["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|node| node["name"].as_str().unwrap())
                .collect();
            let mut sorted = names.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, ["Simulated.a", "Simulated.b"], "{report}");
        }
    });
}

/// NCCL's start takes longer than the test, so there is no traffic between the nodes when the cable is pulled.
#[test]
fn a_cable_that_is_pulled_after_the_meeting_is_found_at_both_ends_in_bounded_time() {
    let slow = "[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 110\n";
    with(&machine(slow), 2, |meeting| {
        let cable = Cable::new("pulled");
        let (sender, receiver) = mpsc::channel();
        let both = [("a", "0,1", 0), ("b", "2,3", 1)].map(|(name, gpus, end)| {
            met(cable.node(meeting, end, (name, gpus), "token", &[]), Instant::now(), &sender)
        });
        both.iter().for_each(|_| receiver.recv_timeout(Duration::from_secs(30)).unwrap());
        sleep(Duration::from_secs(3));
        ip(&format!("-n {} link set cable0 down", cable.0[0]));
        let pulled = Instant::now();
        for (end, other) in both.into_iter().zip(["Simulated.b", "Simulated.a"]) {
            let (_, node) = end.join().unwrap();
            println!("ended {:?} after the cable was pulled", pulled.elapsed());
            assert!(pulled.elapsed() < Duration::from_secs(60), "{}\n{}", node.text, node.log);
            node.ends(2, &["NODES-LOST", "its machine does not answer", "codes=NODES-LOST "]);
            let name = if other == "Simulated.b" { "a" } else { "b" };
            let report = fs::read(meeting.dir.join(format!("{name}.json"))).unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
            let lost =
                report["findings"].as_array().unwrap().iter().find(|f| f["code"] == "NODES-LOST").unwrap();
            assert_eq!((&report["verdict"], &lost["subject"]), (&"ERROR".into(), &other.into()), "{report}");
        }
    });
}

#[test]
fn nodes_on_one_cable_that_do_not_belong_together_report_what_they_saw() {
    with(&machine(""), 2, |meeting| {
        let meeting = Meeting { timeout: 8, ..Meeting::new(meeting.base, meeting.dir, 2) };
        let cable = Cable::new("apart");
        let both = [("a", "0,1", "token", 0), ("b", "2,3", "other", 1)];
        let both = both.map(|(name, gpus, token, end)| cable.node(&meeting, end, (name, gpus), token, &[]));
        for node in both.map(ended) {
            let seen = "no other node was seen within 8 s; 1 firstlight node with another token or another nodes.size was seen";
            node.ends(2, &["NODES-ABSENT", seen]);
        }
        // On another interface they do not see each other.
        let meeting = Meeting { timeout: 3, ..meeting };
        let words = ["--set", "nodes.interfaces=lo"];
        let both =
            [("a", 0), ("b", 1)].map(|(name, end)| cable.node(&meeting, end, (name, "0"), "token", &words));
        for node in both.map(ended) {
            node.ends(2, &["NODES-ABSENT", "no other node was seen within 3 s"]);
            assert!(!node.text.contains("firstlight node with"), "{}", node.text);
        }
        let words = ["--set", "nodes.interfaces=cable9"];
        let wrong = ended(cable.node(&meeting, 0, ("a", "0"), "token", &words));
        wrong.ends(2, &["NODES-UNREACHED", "nodes.interfaces: cable9: No such device"]);
        assert_eq!((cable.open(0), cable.open(1)), (Vec::new(), Vec::new()));
    });
}

#[test]
fn a_missing_node_is_one_finding_within_the_timeout() {
    with(&machine(""), 3, |meeting| {
        let meeting = Meeting { timeout: 3, ..Meeting::new(meeting.base, meeting.dir, 3) };
        let begun = Instant::now();
        let (leader, member) = (meeting.start_leader("0"), meeting.start("b", "1"));
        let (leader, member) = (ended(leader), ended(member));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let text = "2 of 3 nodes came within 3 s: Simulated.a (127.0.0.1), Simulated.b (127.0.0.1)";
        leader.ends(2, &["ERROR nodes-meeting", text, "codes=NODES-ABSENT"]);
        member.ends(2, &["NODES-ABSENT", text]);
    });
}

#[test]
fn a_node_with_another_token_is_rejected_and_named() {
    with(&machine(""), 2, |meeting| {
        let meeting = Meeting { timeout: 5, ..Meeting::new(meeting.base, meeting.dir, 2) };
        let leader = meeting.start_leader("0,1");
        let words = ["nodes", "--gpus", "2,3"];
        let stranger = ended(meeting.node(meeting.base, "x", &words, "other").spawn().unwrap());
        stranger.ends(2, &["NODES-TOKEN", "it has another token"]);
        let leader = ended(leader);
        leader.ends(2, &["NODES-ABSENT", "NODES-TOKEN", "calls itself Simulated.x, has another token"]);
        assert!(!leader.text.contains(TOKEN) && !stranger.text.contains("another token, as long"));
    });
}

#[test]
fn the_same_node_twice_is_rejected_and_the_others_continue() {
    with(&machine(""), 2, |meeting| {
        let leader = meeting.start_leader("0,1");
        let again = ended(meeting.start("a", "0,1"));
        again.ends(2, &["NODES-TWICE", "node Simulated.a came from 127.0.0.1"]);
        let member = ended(meeting.start("b", "2,3"));
        let leader = ended(leader);
        leader.ends(3, &["WARN nodes-meeting", "PASS nodes-nccl-socket", "codes=NODES-TWICE"]);
        member.ends(3, &["VERDICT DEGRADED of the node that leads"]);
    });
}

/// Runs two nodes whose machines differ; `then` receives the leader's result.
fn unlike(other: &Scenario, change: impl FnOnce(&Path), then: impl FnOnce(&Ended)) {
    with(&machine(""), 2, |meeting| {
        prepared(other, &[], |base, dir| {
            change(dir);
            let leader = meeting.start_leader("0,1");
            let member = meeting.node(&base, "b", &["nodes", "--gpus", "2,3"], "token").spawn().unwrap();
            let (leader, _) = (ended(leader), ended(member));
            then(&leader);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn another_nccl_is_found_before_it_is_used() {
    unlike(
        &machine("[nccl]\nversion = 22809\n"),
        |_| (),
        |leader| {
            leader.ends(
                1,
                &["NODES-DIFFER", "NCCL is 2.29.7 on node Simulated.a, and 2.28.9 on node Simulated.b"],
            );
        },
    );
}

#[test]
fn another_driver_is_a_warning_that_names_both() {
    let older = |dir: &Path| fs::write(dir.join("root/sys/module/nvidia/version"), "550.90.07\n").unwrap();
    unlike(&machine(""), older, |leader| {
        let (one, other) = ("the driver is 5", "and 550.90.07 on node Simulated.b");
        leader.ends(3, &["WARN nodes-meeting", one, other, "PASS nodes-nccl-socket", "codes=NODES-DIFFER"]);
    });
}

#[test]
fn wrong_values_are_found_and_their_node_is_named() {
    let fault =
        "[[fault]]\nkind = \"nccl-wrong\"\ngpu = 2\ncollective = \"all_gather\"\nfrom_bytes = 1048576\n";
    two(&machine(fault), |_, leader, member| {
        leader.ends(
            1,
            &["FAIL nodes-nccl-socket", "of rank 2 (node Simulated.b) is", "codes=NODES-WRONG-DATA"],
        );
        member.ends(1, &["NODES-WRONG-DATA", "VERDICT FAIL"]);
    });
}

#[test]
fn a_node_that_vanishes_in_the_middle_is_named_in_bounded_time() {
    let slow = "[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 4\n";
    with(&machine(slow), 3, |meeting| {
        let (leader, mut member) = (meeting.start_leader("0,1"), meeting.start("b", "2"));
        let third = meeting.start("c", "3");
        sleep(Duration::from_secs(2));
        member.kill().unwrap();
        member.wait().unwrap();
        let begun = Instant::now();
        let (leader, third) = (ended(leader), ended(third));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        leader
            .ends(2, &["ERROR nodes-nccl-socket", "node Simulated.b, making the communicator", "NODES-LOST"]);
        third.ends(2, &["NODES-LOST Simulated.b", "VERDICT ERROR of the node that leads"]);
        let lost = leader.text.matches("it closed the connection").count();
        assert!(lost >= 1 && leader.text.contains("codes=NODES-LOST "), "{}", leader.text);
    });
}

#[test]
fn a_member_whose_leader_vanishes_says_so() {
    let slow = "[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 4\n";
    with(&machine(slow), 2, |meeting| {
        let (mut leader, member) = (meeting.start_leader("0,1"), meeting.start("b", "2,3"));
        sleep(Duration::from_secs(2));
        leader.kill().unwrap();
        leader.wait().unwrap();
        let member = ended(member);
        let lost = "which leads, is lost: it closed the connection";
        member.ends(2, &["NODES-LOST", "node Simulated.a at 127.0.0.1", lost, "codes=NODES-LOST "]);
    });
}

/// A workload runs with the environment that firstlight wrote for it.
#[test]
fn the_interfaces_that_firstlight_advised_are_not_taken_for_the_users_choice() {
    for (advised, status) in [("=nowhere0", 0), ("=eth0", 2)] {
        with(&machine(""), 2, |meeting| {
            let node = |name: &str, gpus: &str| {
                let mut command = meeting.node(meeting.base, name, &["nodes", "--gpus", gpus], "token");
                command.env("NCCL_SOCKET_IFNAME", "=nowhere0").env("FIRSTLIGHT_NCCL_SOCKET_IFNAME", advised);
                command
            };
            let leader = meeting.lead(node("a", "0,1"));
            let member = node("b", "2,3").spawn().unwrap();
            let (leader, member) = (ended(leader), ended(member));
            assert_eq!((leader.status, member.status), (status, status), "{}{}", leader.text, leader.log);
        });
    }
}

#[test]
fn the_pairs_name_the_slow_one_of_four_nodes() {
    let slow = "[[fault]]\nkind = \"nccl-slow\"\ngpu = 2\nrate = 0.3\n";
    for (fault, status, has) in [
        ("", 0, "PASS nodes-pairs 6 pairs on 1 rails"),
        (slow, 1, "NODES-BAD node Simulated.c node Simulated.c: 3 of 3 measurements are bad: at most"),
    ] {
        with(&machine(fault), 4, |meeting| {
            let leader = meeting.start_leader("0");
            let members: Vec<_> =
                [("b", "1"), ("c", "2"), ("d", "3")].map(|(name, gpu)| meeting.start(name, gpu)).into();
            let leader = ended(leader);
            leader.ends(status, &[has]);
            members.into_iter().for_each(|member| assert_eq!(ended(member).status, status));
        });
    }
}

#[test]
fn a_leaf_switch_is_named_if_the_settings_list_its_nodes() {
    let slow = |gpu: usize| format!("[[fault]]\nkind = \"nccl-slow\"\ngpu = {gpu}\nrate = 0.3\n");
    let scenario = machine(&(2..6).map(slow).collect::<String>()).gpus(6);
    let leaves = |west: &str| {
        format!(
            "nodes.leaves=[\"east: Simulated.a Simulated.b\", \"west: Simulated.c Simulated.d Simulated.e{west}\"]"
        )
    };
    for (map, has) in [
        (leaves(" Simulated.f"), "NODES-BAD leaf switch west leaf switch west: 8 of 8 measurements are bad"),
        (leaves(""), "NODES-UNCLEAR"),
    ] {
        with(&scenario, 6, |meeting| {
            let node = |name: &str, gpu: &str| {
                meeting.node(meeting.base, name, &["--set", &map, "nodes", "--gpus", gpu], "token")
            };
            let leader = meeting.lead(node("a", "0"));
            let members: Vec<_> = [("b", "1"), ("c", "2"), ("d", "3"), ("e", "4"), ("f", "5")]
                .map(|(name, gpu)| node(name, gpu).spawn().unwrap())
                .into();
            ended(leader).ends(1, &[has]);
            members.into_iter().for_each(|member| assert_eq!(ended(member).status, 1));
        });
    }
}

/// Writes an RDMA card with one ACTIVE port, as the kernel shows it in sysfs.
pub(super) fn card(dir: &Path, name: &str) {
    let port = dir.join(format!("root/sys/class/infiniband/{name}/ports/1"));
    for folder in ["gids", "counters", "hw_counters"] {
        fs::create_dir_all(port.join(folder)).unwrap();
    }
    let counters =
        ["port_xmit_data", "port_rcv_data", "symbol_error", "link_downed"].map(|c| format!("counters/{c}"));
    for counter in counters.into_iter().chain(["hw_counters/out_of_sequence".to_owned()]) {
        fs::write(port.join(counter), "7\n").unwrap();
    }
    for (name, text) in [
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("link_layer", "InfiniBand"),
        ("rate", "400 Gb/sec (4X NDR)"),
    ] {
        fs::write(port.join(name), format!("{text}\n")).unwrap();
    }
}

/// Runs two nodes, each on its own machine, with two cards; `more` follows the scenario's keys of NCCL.
fn with_rails(more: &str, then: impl FnOnce(&Meeting<'_>, &Ended, &Ended)) {
    let text = format!("[nccl]\nhca = \"gdr\"\n{more}[verbs]\ndevices = [\"mlx5_0\", \"mlx5_1\"]\n");
    let scenario = machine(&text);
    with(&scenario, 2, |meeting| {
        prepared(&scenario, &[], |base, dir| {
            for (dir, name) in
                [meeting.dir, dir].into_iter().flat_map(|dir| [(dir, "mlx5_0"), (dir, "mlx5_1")])
            {
                card(dir, name);
            }
            let leader = meeting.start_leader("0,1");
            let json = meeting.dir.join("member.json").display().to_string();
            let words = ["nodes", "--gpus", "2,3", "--json", &json];
            let member = meeting.node(&base, "b", &words, "token").spawn().unwrap();
            let (leader, member) = (ended(leader), ended(member));
            then(meeting, &leader, &member);
            Ok(())
        })
        .unwrap();
    });
}

/// The NCCL settings for the workload in a node's report.
fn settings(meeting: &Meeting<'_>, file: &str) -> Vec<String> {
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(meeting.dir.join(file)).unwrap()).unwrap();
    let all = report["workload_env"].as_object().unwrap().iter();
    let all = all.filter(|(name, _)| name.starts_with("NCCL_"));
    all.map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect()
}

#[test]
fn both_rails_carry_their_shares_and_the_workload_of_each_node_gets_the_settings_that_passed() {
    with_rails("", |meeting, leader, member| {
        leader.ends(
            0,
            &[
                "PASS nodes-nccl-rails 2 rails carry their shares, the least 50 % of",
                "PASS nodes-ports 12 counters of 4 ports: none has grown",
            ],
        );
        let expected = ["NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "NCCL_SOCKET_IFNAME==lo"];
        assert_eq!(
            (settings(meeting, "nodes.json"), settings(meeting, "member.json")),
            (expected.map(str::to_owned).into(), expected.map(str::to_owned).into())
        );
        assert_eq!(member.status, 0);
        // With --nodes, `env` prints these instead of the settings for the single machine.
        let at = |name: &str| meeting.dir.join(name).display().to_string();
        let run = |words: &[&str]| {
            let mut command = Command::new(meeting.base.get_program());
            let output = command.args(meeting.base.get_args()).args(words).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        run(&["validate", "--level", "quick", "--only", "nics", "--json", &at("report.json"), "--quiet"]);
        let env = run(&["env", &at("report.json"), "--nodes", &at("nodes.json")]);
        let alone = run(&["env", &at("report.json")]);
        for line in
            ["NCCL_SOCKET_IFNAME==lo", "FIRSTLIGHT_NCCL_SOCKET_IFNAME==lo", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"]
        {
            assert!(env.lines().any(|l| l == line), "{env}");
        }
        assert!(
            env.contains("the ACTIVE ports of the rails that passed") && !alone.contains("that passed"),
            "{env}\n{alone}"
        );
        assert!(
            ![&env, &alone].iter().any(|text| text.contains("GID_INDEX") || text.contains("MERGE_NICS")),
            "{env}"
        );
    });
}

#[test]
fn merging_rails_is_advised_where_it_is_faster() {
    for (channels, apart, advised) in [(2, 1, "NCCL_IB_MERGE_NICS=1"), (1, 2, "NCCL_IB_MERGE_NICS=0")] {
        let more =
            format!("channels = {channels}\napart = {apart}\nrate_by_channels = [[1, 0.6], [2, 1.0]]\n");
        with_rails(&more, |meeting, leader, member| {
            leader.ends(0, &["GB/s with NCCL_IB_MERGE_NICS=1"]);
            assert_eq!(member.status, 0);
            for file in ["nodes.json", "member.json"] {
                assert!(
                    settings(meeting, file).contains(&advised.to_owned()),
                    "{:?}",
                    settings(meeting, file)
                );
            }
        });
    }
}

#[test]
fn a_rail_that_carries_none_of_nccls_data_is_named_and_left_out() {
    with_rails("[[fault]]\nkind = \"nccl-one-rail\"\n", |meeting, leader, member| {
        let idle =
            "Simulated.b mlx5_1:1 carried 0.0 % of NCCL's bytes (0 B sent, 0 B received); its share is 50 %";
        leader.ends(3, &["PASS rdma-host", "WARN nodes-nccl-rails", idle, "codes=NODES-RAIL "]);
        assert_eq!(member.status, 3);
        assert_eq!(settings(meeting, "member.json")[0], "NCCL_IB_HCA==mlx5_0:1");
    });
}

/// The environment variable with the number of runs of the healthy pair, which `./run bench-nodes` sets; one by default.
const RUNS: &str = "HEALTHY_PAIRS";

/// Runs two machines with two rails and `gpus` GPUs each. Returns the time from the start of the later one until they had
/// met, and the seconds that the meeting and each test took, by name.
fn healthy(gpus: usize) -> (Duration, Vec<(String, f64)>) {
    let text = "[nccl]\nhca = \"gdr\"\n[verbs]\ndevices = [\"mlx5_0\", \"mlx5_1\"]\n";
    let scenario = machine(text).gpus(gpus);
    let mut result = None;
    with(&scenario, 2, |meeting| {
        prepared(&scenario, &[], |base, dir| {
            for dir in [meeting.dir, dir] {
                // The modelled machine has other cards, whose slots would have to be as slow as a simulated card.
                let modelled = fs::read_dir(dir.join("root/sys/class/infiniband")).into_iter().flatten();
                modelled.for_each(|entry| fs::remove_dir_all(entry.unwrap().path()).unwrap());
                ["mlx5_0", "mlx5_1"].iter().for_each(|name| card(dir, name));
            }
            let words = ["nodes", "--json", &meeting.json()];
            let leader = meeting.lead(meeting.node(meeting.base, "a", &words, "token"));
            let (sender, _receiver) = mpsc::channel();
            let since = Instant::now();
            let member = meeting.node(&base, "b", &["nodes"], "token").spawn().unwrap();
            let (when, member) = met(member, since, &sender).join().unwrap();
            let leader = ended(leader);
            leader.ends(0, &["PASS nodes-nccl-gdr", "PASS nodes-nccl-rails", "PASS nodes-ports"]);
            assert_eq!(member.status, 0, "{}{}", member.text, member.log);
            let report = meeting.report();
            let seconds = |test: &serde_json::Value| {
                (test["id"].as_str().unwrap().to_owned(), test["seconds"].as_f64().unwrap())
            };
            result = Some((when.unwrap(), report["tests"].as_array().unwrap().iter().map(seconds).collect()));
            Ok(())
        })
        .unwrap();
    });
    result.unwrap()
}

#[test]
fn a_healthy_pair_passes_every_time() {
    let runs = std::env::var(RUNS).map_or(1, |runs| runs.parse().unwrap());
    let (mut latest, mut longest) = (Duration::ZERO, 0.0_f64);
    for _ in 0..runs {
        let (when, tests) = healthy(2);
        latest = latest.max(when);
        longest = longest.max(tests.iter().map(|(_, seconds)| seconds).sum());
    }
    println!("{runs} runs of a healthy pair: {runs} passed");
    println!(
        "met at the latest {latest:.2?} after the start of the later node; meeting and tests took at most {longest:.1} s"
    );
    if runs > 1 {
        let (when, tests) = healthy(8);
        let sum: f64 = tests.iter().map(|(_, seconds)| seconds).sum();
        println!("8 GPUs each: met after {when:.2?}; meeting and tests took {sum:.1} s: {tests:.1?}");
    }
}

fn with_card(more: &str, then: impl FnOnce(&Ended)) {
    let more = format!("{more}[verbs]\ndevices = [\"mlx5_0\"]\n");
    with(&machine(&more), 2, |meeting| {
        card(meeting.dir, "mlx5_0");
        let (leader, member) = (meeting.start_leader("0,1"), meeting.start("b", "2,3"));
        let leader = ended(leader);
        assert_eq!(ended(member).status, leader.status);
        then(&leader);
    });
}

#[test]
fn rdma_with_and_without_gpudirect_are_proven_by_nccls_lines() {
    with_card("[nccl]\nhca = \"gdr\"\n", |leader| {
        leader.ends(
            0,
            &[
                "PASS nodes-nccl-socket NET/Socket/0 for",
                "PASS nodes-nccl-rdma NET/IB/0 for 8 ordered pairs",
                "PASS nodes-nccl-gdr NET/IB/0/GDRDMA for 8 ordered pairs",
            ],
        );
    });
}

#[test]
fn gpus_without_gpudirect_rdma_are_no_fault() {
    with_card("[nccl]\nhca = \"host\"\n", |leader| {
        let none = "N/A nodes-nccl-gdr node Simulated.a: GPU 0 has no GPUDirect RDMA";
        leader.ends(0, &["PASS nodes-nccl-rdma NET/IB/0 for 8", none]);
    });
}

#[test]
fn gpudirect_that_nccl_does_not_use_fails_its_arm() {
    with_card("[nccl]\nhca = \"unused\"\n", |leader| {
        leader.ends(
            1,
            &[
                "PASS rdma-gpu",
                "PASS nodes-nccl-rdma",
                "FAIL nodes-nccl-gdr",
                "codes=NODES-PATH",
                "via NET/IB/0",
            ],
        );
    });
}

#[test]
fn gpudirect_that_is_claimed_and_staged_is_a_warning_with_both_figures() {
    with_card("[nccl]\nhca = \"gdr\"\n[[fault]]\nkind = \"nccl-lies\"\n", |leader| {
        leader.ends(3, &["WARN nodes-nccl-gdr with GPUDirect RDMA", "codes=NODES-GDR-STAGED"]);
    });
}

#[test]
fn a_card_that_nccl_does_not_find_fails_both_arms() {
    with_card("", |leader| {
        leader
            .ends(1, &["PASS nodes-nccl-socket", "FAIL nodes-nccl-rdma", "No transport found", "NODES-PATH"]);
    });
}

#[test]
fn under_a_launcher_rank_0_prints_nccl_tests_table_without_any_option() {
    with(&machine(""), 2, |meeting| {
        let start = |rank: &str| {
            let mut command = Command::new(meeting.base.get_program());
            command.args(meeting.base.get_args()).args([
                "nccl",
                "all_gather",
                "-b",
                "8",
                "-e",
                "1M",
                "-f",
                "8",
            ]);
            command.args(["--rendezvous", &format!("127.0.0.1:{}", meeting.port)]).env_clear();
            for (name, value) in
                [("RANK", rank), ("WORLD_SIZE", "2"), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", "2")]
            {
                command.env(name, value);
            }
            command.env("TORCHELASTIC_RUN_ID", "run-7").env("NCCL_HOSTID", rank);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let (second, first) = (start("1"), start("0"));
        let (first, second) = (ended(first), ended(second));
        first.ends(0, &["# Rank 1 Group 0 Pid", "device 1", "# Out of bounds values : 0 OK"]);
        assert_eq!(first.text.lines().filter(|line| line.contains(" float ")).count(), 6, "{}", first.text);
        assert_eq!((second.status, second.text.as_str()), (0, ""), "{}", second.log);
    });
}

#[test]
fn a_rank_gives_up_in_time_if_rank_0_does_not_come() {
    with(&machine(""), 2, |meeting| {
        let meeting = Meeting { timeout: 2, ..Meeting::new(meeting.base, meeting.dir, 2) };
        let mut command = meeting.node(meeting.base, "b", &["nodes"], "token");
        command.env("RANK", "1").env("WORLD_SIZE", "2");
        let begun = Instant::now();
        let alone = ended(command.spawn().unwrap());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        alone.ends(2, &["NODES-UNREACHED", "nothing answers: Connection refused"]);
    });
}

#[test]
fn missing_settings_are_named_in_one_line() {
    with(&machine(""), 2, |meeting| {
        for (words, why) in [
            (&["nodes"][..], "nodes.size is missing: set it, or give --size"),
            (&["nodes", "--size", "2"], "nodes.token is missing: set it, or give --token-file"),
            (&["nodes", "--size", "1"], "--size"),
        ] {
            let mut command = Command::new(meeting.base.get_program());
            let output = command.args(meeting.base.get_args()).args(words).env_clear().output().unwrap();
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(64), "{log}");
            assert!(log.contains(why) && log.lines().count() == 1, "{log}");
        }
    });
}
