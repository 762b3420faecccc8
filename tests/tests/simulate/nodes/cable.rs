//! Do nodes in two network namespaces with a cable between them find each other by multicast DNS, and do they notice when
//! the cable is pulled?

use super::{NodeGroup, four_gpus, wait_for_meeting, wait_for_node, with_nodes};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Two network namespaces with a cable between them, and with link-local addresses.
struct Cable([String; 2]);

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(
        done.status.success(),
        "ip {words}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

impl Cable {
    fn new(test: &str) -> Self {
        let cable =
            Self(["a", "b"].map(|end| format!("firstlight-{}-{test}-{end}", std::process::id())));
        let Self([a, b]) = &cable;
        [a, b]
            .iter()
            .for_each(|name| ip(&format!("netns add {name}")));
        ip(&format!(
            "-n {a} link add cable0 type veth peer name cable0 netns {b}"
        ));
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
        group: &NodeGroup<'_>,
        end: usize,
        (name, gpus): (&str, &str),
        token: &str,
        words: &[&str],
    ) -> Child {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.0[end]])
            .arg(group.base.get_program());
        command.args(group.base.get_args()).args(words);
        command.args([
            "nodes",
            "--gpus",
            gpus,
            "--rendezvous",
            "mdns",
            "--size",
            "2",
            "--json",
        ]);
        command.arg(group.dir.join(format!("{name}.json")));
        command.arg("--token-file").arg(group.dir.join(token));
        command.args(["--meeting-timeout", &group.timeout.to_string()]);
        command
            .env_clear()
            .env("NCCL_HOSTID", name)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The sockets at one end that listen for connections or for multicast DNS.
    fn open_sockets(&self, end: usize) -> Vec<String> {
        let files = ["tcp", "tcp6", "udp", "udp6"].map(|name| format!("/proc/net/{name}"));
        let read = Command::new("ip")
            .args(["netns", "exec", &self.0[end], "cat"])
            .args(files)
            .output()
            .unwrap();
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

#[test]
fn nodes_on_one_cable_find_each_other_by_mdns_and_leave_no_port_open() {
    with_nodes(&four_gpus(""), 2, |group| {
        let cable = Cable::new("meet");
        let a = cable.node(group, 0, ("a", "0,1"), "token", &[]);
        sleep(Duration::from_secs(3));
        assert!(
            !cable.open_sockets(0).is_empty(),
            "it does not wait for the other one"
        );
        let since = Instant::now();
        let b = cable.node(
            group,
            1,
            ("b", "2,3"),
            "token",
            &["--set", "nodes.interfaces=cable0"],
        );
        let (sender, _receiver) = mpsc::channel();
        let ends = [
            wait_for_meeting(a, since, &sender),
            wait_for_meeting(b, since, &sender),
        ]
        .map(|end| end.join().unwrap());
        for (when, end) in &ends {
            assert_eq!(end.status, 0, "{}{}", end.text, end.log);
            println!("met {:?} after the start of the later one", when.unwrap());
            assert!(when.unwrap() < Duration::from_secs(20));
        }
        let leads = ends
            .iter()
            .filter(|(_, end)| end.text.contains("nodes-nccl-socket"))
            .count();
        assert_eq!(leads, 1, "{}\n{}", ends[0].1.text, ends[1].1.text);
        for (end, name) in ["a", "b"].iter().enumerate() {
            assert_eq!(cable.open_sockets(end), Vec::<String>::new());
            let report = fs::read(group.dir.join(format!("{name}.json"))).unwrap();
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
    with_nodes(&four_gpus(slow), 2, |group| {
        let cable = Cable::new("pulled");
        let (sender, receiver) = mpsc::channel();
        let both = [("a", "0,1", 0), ("b", "2,3", 1)].map(|(name, gpus, end)| {
            wait_for_meeting(
                cable.node(group, end, (name, gpus), "token", &[]),
                Instant::now(),
                &sender,
            )
        });
        both.iter()
            .for_each(|_| receiver.recv_timeout(Duration::from_secs(30)).unwrap());
        sleep(Duration::from_secs(3));
        ip(&format!("-n {} link set cable0 down", cable.0[0]));
        let pulled = Instant::now();
        for (end, other) in both.into_iter().zip(["Simulated.b", "Simulated.a"]) {
            let (_, node) = end.join().unwrap();
            println!("ended {:?} after the cable was pulled", pulled.elapsed());
            assert!(
                pulled.elapsed() < Duration::from_secs(60),
                "{}\n{}",
                node.text,
                node.log
            );
            node.assert_ended(
                2,
                &[
                    "NODES-LOST",
                    "its machine does not answer",
                    "codes=NODES-LOST ",
                ],
            );
            let name = if other == "Simulated.b" { "a" } else { "b" };
            let report = fs::read(group.dir.join(format!("{name}.json"))).unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
            let lost = report["findings"]
                .as_array()
                .unwrap()
                .iter()
                .find(|f| f["code"] == "NODES-LOST")
                .unwrap();
            assert_eq!(
                (&report["verdict"], &lost["subject"]),
                (&"ERROR".into(), &other.into()),
                "{report}"
            );
        }
    });
}

#[test]
fn nodes_on_one_cable_that_do_not_belong_together_report_what_they_saw() {
    with_nodes(&four_gpus(""), 2, |group| {
        let group = NodeGroup {
            timeout: 8,
            ..NodeGroup::new(group.base, group.dir, 2)
        };
        let cable = Cable::new("apart");
        let both = [("a", "0,1", "token", 0), ("b", "2,3", "other", 1)];
        let both =
            both.map(|(name, gpus, token, end)| cable.node(&group, end, (name, gpus), token, &[]));
        for node in both.map(wait_for_node) {
            let seen = "no other node was seen within 8 s; 1 firstlight node with another token or another nodes.size was seen";
            node.assert_ended(2, &["NODES-ABSENT", seen]);
        }
        // On another interface they do not see each other.
        let group = NodeGroup {
            timeout: 3,
            ..group
        };
        let words = ["--set", "nodes.interfaces=lo"];
        let both = [("a", 0), ("b", 1)]
            .map(|(name, end)| cable.node(&group, end, (name, "0"), "token", &words));
        for node in both.map(wait_for_node) {
            node.assert_ended(2, &["NODES-ABSENT", "no other node was seen within 3 s"]);
            assert!(!node.text.contains("firstlight node with"), "{}", node.text);
        }
        let words = ["--set", "nodes.interfaces=cable9"];
        let wrong = wait_for_node(cable.node(&group, 0, ("a", "0"), "token", &words));
        wrong.assert_ended(
            2,
            &[
                "NODES-UNREACHED",
                "nodes.interfaces: cable9: No such device",
            ],
        );
        assert_eq!(
            (cable.open_sockets(0), cable.open_sockets(1)),
            (Vec::new(), Vec::new())
        );
    });
}
