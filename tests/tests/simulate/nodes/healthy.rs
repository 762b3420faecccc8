//! Do healthy nodes pass, with every value checked and each time that they run, and how soon have they met? Do ranks of a
//! launcher and wrong settings end as they should?

use super::{
    NodeGroup, TOKEN, four_gpus, two_nodes, wait_for_meeting, wait_for_node, with_nodes, write_card,
};
use harness::simgpu::with_prepared;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[test]
fn two_nodes_pass_with_every_value_checked_and_the_network_proven() {
    two_nodes(&four_gpus(""), |group, leader, member| {
        leader.assert_ended(
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
        assert_eq!(
            sizes(&leader.text),
            52,
            "25 sizes and the largest, twice: {}",
            leader.text
        );
        member.assert_ended(
            0,
            &[
                "node 2 of 2: Simulated.a, Simulated.b",
                "VERDICT PASS of the node that leads",
            ],
        );
        assert_eq!(
            sizes(&member.text),
            0,
            "only rank 0's node prints the table"
        );
        let report = group.report();
        assert_eq!(
            (&report["schema"], &report["verdict"]),
            (&"firstlight.nodes/1".into(), &"PASS".into())
        );
        assert_eq!(report["nodes"][1]["name"], "Simulated.b");
        assert!(!report.to_string().contains(TOKEN));
        assert!(
            TcpStream::connect((Ipv4Addr::LOCALHOST, group.port)).is_err(),
            "the port is still open"
        );
    });
}

/// The environment variable with the number of runs of the healthy pair, which `./run bench-nodes` sets; one by default.
const RUNS: &str = "HEALTHY_PAIRS";

/// Runs two machines with two rails and `gpus` GPUs each. Returns the time from the start of the later one until they had
/// met, and the seconds that the meeting and each test took, by name.
fn time_healthy_pair(gpus: usize) -> (Duration, Vec<(String, f64)>) {
    let text = "[nccl]\nhca = \"gdr\"\n[verbs]\ndevices = [\"mlx5_0\", \"mlx5_1\"]\n";
    let scenario = four_gpus(text).gpus(gpus);
    let mut result = None;
    with_nodes(&scenario, 2, |group| {
        with_prepared(&scenario, &[], |base, dir| {
            for dir in [group.dir, dir] {
                // The modelled machine has other cards, whose slots would have to be as slow as a simulated card.
                let modelled = fs::read_dir(dir.join("root/sys/class/infiniband"))
                    .into_iter()
                    .flatten();
                modelled.for_each(|entry| fs::remove_dir_all(entry.unwrap().path()).unwrap());
                ["mlx5_0", "mlx5_1"]
                    .iter()
                    .for_each(|name| write_card(dir, name));
            }
            let words = ["nodes", "--json", &group.json()];
            let leader = group.lead(group.node(group.base, "a", &words, "token"));
            let (sender, _receiver) = mpsc::channel();
            let since = Instant::now();
            let member = group.node(&base, "b", &["nodes"], "token").spawn().unwrap();
            let (when, member) = wait_for_meeting(member, since, &sender).join().unwrap();
            let leader = wait_for_node(leader);
            leader.assert_ended(
                0,
                &[
                    "PASS nodes-nccl-gdr",
                    "PASS nodes-nccl-rails",
                    "PASS nodes-ports",
                ],
            );
            assert_eq!(member.status, 0, "{}{}", member.text, member.log);
            let report = group.report();
            let seconds = |test: &serde_json::Value| {
                (
                    test["id"].as_str().unwrap().to_owned(),
                    test["seconds"].as_f64().unwrap(),
                )
            };
            result = Some((
                when.unwrap(),
                report["tests"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(seconds)
                    .collect(),
            ));
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
        let (when, tests) = time_healthy_pair(2);
        latest = latest.max(when);
        longest = longest.max(tests.iter().map(|(_, seconds)| seconds).sum());
    }
    println!("{runs} runs of a healthy pair: {runs} passed");
    println!(
        "met at the latest {latest:.2?} after the start of the later node; meeting and tests took at most {longest:.1} s"
    );
    if runs > 1 {
        let (when, tests) = time_healthy_pair(8);
        let sum: f64 = tests.iter().map(|(_, seconds)| seconds).sum();
        println!(
            "8 GPUs each: met after {when:.2?}; meeting and tests took {sum:.1} s: {tests:.1?}"
        );
    }
}

/// A workload runs with the environment that firstlight wrote for it.
#[test]
fn the_interfaces_that_firstlight_advised_are_not_taken_for_the_users_choice() {
    for (advised, status) in [("=nowhere0", 0), ("=eth0", 2)] {
        with_nodes(&four_gpus(""), 2, |group| {
            let node = |name: &str, gpus: &str| {
                let mut command = group.node(group.base, name, &["nodes", "--gpus", gpus], "token");
                command
                    .env("NCCL_SOCKET_IFNAME", "=nowhere0")
                    .env("FIRSTLIGHT_NCCL_SOCKET_IFNAME", advised);
                command
            };
            let leader = group.lead(node("a", "0,1"));
            let member = node("b", "2,3").spawn().unwrap();
            let (leader, member) = (wait_for_node(leader), wait_for_node(member));
            assert_eq!(
                (leader.status, member.status),
                (status, status),
                "{}{}",
                leader.text,
                leader.log
            );
        });
    }
}

#[test]
fn under_a_launcher_rank_0_prints_nccl_tests_table_without_any_option() {
    with_nodes(&four_gpus(""), 2, |group| {
        let start = |rank: &str| {
            let mut command = Command::new(group.base.get_program());
            command.args(group.base.get_args()).args([
                "nccl",
                "all_gather",
                "-b",
                "8",
                "-e",
                "1M",
                "-f",
                "8",
            ]);
            command
                .args(["--rendezvous", &format!("127.0.0.1:{}", group.port)])
                .env_clear();
            for (name, value) in [
                ("RANK", rank),
                ("WORLD_SIZE", "2"),
                ("LOCAL_RANK", rank),
                ("LOCAL_WORLD_SIZE", "2"),
            ] {
                command.env(name, value);
            }
            command
                .env("TORCHELASTIC_RUN_ID", "run-7")
                .env("NCCL_HOSTID", rank);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let (second, first) = (start("1"), start("0"));
        let (first, second) = (wait_for_node(first), wait_for_node(second));
        first.assert_ended(
            0,
            &[
                "# Rank 1 Group 0 Pid",
                "device 1",
                "# Out of bounds values : 0 OK",
            ],
        );
        assert_eq!(
            first
                .text
                .lines()
                .filter(|line| line.contains(" float "))
                .count(),
            6,
            "{}",
            first.text
        );
        assert_eq!(
            (second.status, second.text.as_str()),
            (0, ""),
            "{}",
            second.log
        );
    });
}

#[test]
fn a_rank_gives_up_in_time_if_rank_0_does_not_come() {
    with_nodes(&four_gpus(""), 2, |group| {
        let group = NodeGroup {
            timeout: 2,
            ..NodeGroup::new(group.base, group.dir, 2)
        };
        let mut command = group.node(group.base, "b", &["nodes"], "token");
        command.env("RANK", "1").env("WORLD_SIZE", "2");
        let begun = Instant::now();
        let alone = wait_for_node(command.spawn().unwrap());
        assert!(
            begun.elapsed() < Duration::from_secs(50),
            "{:?}",
            begun.elapsed()
        );
        alone.assert_ended(
            2,
            &["NODES-UNREACHED", "nothing answers: Connection refused"],
        );
    });
}

#[test]
fn missing_settings_are_named_in_one_line() {
    with_nodes(&four_gpus(""), 2, |group| {
        for (words, why) in [
            (
                &["nodes"][..],
                "nodes.size is missing: set it, or give --size",
            ),
            (
                &["nodes", "--size", "2"],
                "nodes.token is missing: set it, or give --token-file",
            ),
            (&["nodes", "--size", "1"], "--size"),
        ] {
            let mut command = Command::new(group.base.get_program());
            let output = command
                .args(group.base.get_args())
                .args(words)
                .env_clear()
                .output()
                .unwrap();
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(64), "{log}");
            assert!(log.contains(why) && log.lines().count() == 1, "{log}");
        }
    });
}
