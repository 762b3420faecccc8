//! Is a node found and named that is missing, rejected, unlike the others, wrong, lost or slow, and does the meeting end in
//! time?

use super::{NodeGroup, NodeResult, TOKEN, four_gpus, two_nodes, wait_for_node, with_nodes};
use harness::simgpu::{Scenario, with_prepared};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn a_missing_node_is_one_finding_within_the_timeout() {
    with_nodes(&four_gpus(""), 3, |group| {
        let group = NodeGroup {
            timeout: 3,
            ..NodeGroup::new(group.base, group.dir, 3)
        };
        let begun = Instant::now();
        let (leader, member) = (group.start_leader("0"), group.start("b", "1"));
        let (leader, member) = (wait_for_node(leader), wait_for_node(member));
        assert!(
            begun.elapsed() < Duration::from_secs(50),
            "{:?}",
            begun.elapsed()
        );
        let text =
            "2 of 3 nodes joined within 3 s: Simulated.a (127.0.0.1), Simulated.b (127.0.0.1)";
        leader.assert_ended(2, &["ERROR nodes-meeting", text, "codes=NODES-ABSENT"]);
        member.assert_ended(2, &["NODES-ABSENT", text]);
    });
}

#[test]
fn a_node_with_another_token_is_rejected_and_named() {
    with_nodes(&four_gpus(""), 2, |group| {
        let group = NodeGroup {
            timeout: 5,
            ..NodeGroup::new(group.base, group.dir, 2)
        };
        let leader = group.start_leader("0,1");
        let words = ["nodes", "--gpus", "2,3"];
        let stranger = wait_for_node(
            group
                .node(group.base, "x", &words, "other")
                .spawn()
                .unwrap(),
        );
        stranger.assert_ended(2, &["NODES-TOKEN", "it has another token"]);
        let leader = wait_for_node(leader);
        leader.assert_ended(
            2,
            &[
                "NODES-ABSENT",
                "NODES-TOKEN",
                "calls itself Simulated.x, has another token",
            ],
        );
        assert!(!leader.text.contains(TOKEN) && !stranger.text.contains("another token, as long"));
    });
}

#[test]
fn the_same_node_twice_is_rejected_and_the_others_continue() {
    with_nodes(&four_gpus(""), 2, |group| {
        let leader = group.start_leader("0,1");
        let again = wait_for_node(group.start("a", "0,1"));
        again.assert_ended(2, &["NODES-TWICE", "node Simulated.a came from 127.0.0.1"]);
        let member = wait_for_node(group.start("b", "2,3"));
        let leader = wait_for_node(leader);
        leader.assert_ended(
            3,
            &[
                "WARN nodes-meeting",
                "PASS nodes-nccl-socket",
                "codes=NODES-TWICE",
            ],
        );
        member.assert_ended(3, &["VERDICT DEGRADED of the node that leads"]);
    });
}

/// Runs two nodes whose machines differ; `then` receives the leader's result.
fn with_other_machine(
    other: &Scenario,
    change: impl FnOnce(&Path),
    then: impl FnOnce(&NodeResult),
) {
    with_nodes(&four_gpus(""), 2, |group| {
        with_prepared(other, &[], |base, dir| {
            change(dir);
            let leader = group.start_leader("0,1");
            let member = group
                .node(&base, "b", &["nodes", "--gpus", "2,3"], "token")
                .spawn()
                .unwrap();
            let (leader, _) = (wait_for_node(leader), wait_for_node(member));
            then(&leader);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn another_nccl_is_found_before_it_is_used() {
    with_other_machine(
        &four_gpus("[nccl]\nversion = 22809\n"),
        |_| (),
        |leader| {
            leader.assert_ended(
                1,
                &[
                    "NODES-DIFFER",
                    "NCCL is 2.29.7 on node Simulated.a, and 2.28.9 on node Simulated.b",
                ],
            );
        },
    );
}

#[test]
fn another_driver_is_a_warning_that_names_both() {
    let older =
        |dir: &Path| fs::write(dir.join("root/sys/module/nvidia/version"), "550.90.07\n").unwrap();
    with_other_machine(&four_gpus(""), older, |leader| {
        let (one, other) = ("the driver is 5", "and 550.90.07 on node Simulated.b");
        leader.assert_ended(
            3,
            &[
                "WARN nodes-meeting",
                one,
                other,
                "PASS nodes-nccl-socket",
                "codes=NODES-DIFFER",
            ],
        );
    });
}

#[test]
fn wrong_values_are_found_and_their_node_is_named() {
    let fault = "[[fault]]\nkind = \"nccl-wrong\"\ngpu = 2\ncollective = \"all_gather\"\nfrom_bytes = 1048576\n";
    two_nodes(&four_gpus(fault), |_, leader, member| {
        leader.assert_ended(
            1,
            &[
                "FAIL nodes-nccl-socket",
                "of rank 2 (node Simulated.b) is",
                "codes=NODES-WRONG-DATA",
            ],
        );
        member.assert_ended(1, &["NODES-WRONG-DATA", "VERDICT FAIL"]);
    });
}

#[test]
fn a_node_that_vanishes_in_the_middle_is_named_in_bounded_time() {
    let slow = "[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 4\n";
    with_nodes(&four_gpus(slow), 3, |group| {
        let (leader, mut member) = (group.start_leader("0,1"), group.start("b", "2"));
        let third = group.start("c", "3");
        sleep(Duration::from_secs(2));
        member.kill().unwrap();
        member.wait().unwrap();
        let begun = Instant::now();
        let (leader, third) = (wait_for_node(leader), wait_for_node(third));
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            begun.elapsed()
        );
        leader.assert_ended(
            2,
            &[
                "ERROR nodes-nccl-socket",
                "node Simulated.b, making the communicator",
                "NODES-LOST",
            ],
        );
        third.assert_ended(
            2,
            &[
                "NODES-LOST Simulated.b",
                "VERDICT ERROR of the node that leads",
            ],
        );
        let lost = leader.text.matches("it closed the connection").count();
        assert!(
            lost >= 1 && leader.text.contains("codes=NODES-LOST "),
            "{}",
            leader.text
        );
    });
}

#[test]
fn a_member_whose_leader_vanishes_says_so() {
    let slow = "[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 4\n";
    with_nodes(&four_gpus(slow), 2, |group| {
        let (mut leader, member) = (group.start_leader("0,1"), group.start("b", "2,3"));
        sleep(Duration::from_secs(2));
        leader.kill().unwrap();
        leader.wait().unwrap();
        let member = wait_for_node(member);
        let lost = "which leads, is lost: it closed the connection";
        member.assert_ended(
            2,
            &[
                "NODES-LOST",
                "node Simulated.a at 127.0.0.1",
                lost,
                "codes=NODES-LOST ",
            ],
        );
    });
}

#[test]
fn the_pairs_name_the_slow_one_of_four_nodes() {
    let slow = "[[fault]]\nkind = \"nccl-slow\"\ngpu = 2\nrate = 0.3\n";
    for (fault, status, has) in [
        ("", 0, "PASS nodes-pairs 6 pairs on 1 rails"),
        (
            slow,
            1,
            "NODES-BAD node Simulated.c node Simulated.c: 3 of 3 measurements are bad: at most",
        ),
    ] {
        with_nodes(&four_gpus(fault), 4, |group| {
            let leader = group.start_leader("0");
            let members: Vec<_> = [("b", "1"), ("c", "2"), ("d", "3")]
                .map(|(name, gpu)| group.start(name, gpu))
                .into();
            let leader = wait_for_node(leader);
            leader.assert_ended(status, &[has]);
            members
                .into_iter()
                .for_each(|member| assert_eq!(wait_for_node(member).status, status));
        });
    }
}

#[test]
fn a_leaf_switch_is_named_if_the_settings_list_its_nodes() {
    let slow = |gpu: usize| format!("[[fault]]\nkind = \"nccl-slow\"\ngpu = {gpu}\nrate = 0.3\n");
    let scenario = four_gpus(&(2..6).map(slow).collect::<String>()).gpus(6);
    let leaves = |west: &str| {
        format!(
            "nodes.leaves=[\"east: Simulated.a Simulated.b\", \"west: Simulated.c Simulated.d Simulated.e{west}\"]"
        )
    };
    for (map, has) in [
        (
            leaves(" Simulated.f"),
            "NODES-BAD leaf switch west leaf switch west: 8 of 8 measurements are bad",
        ),
        (leaves(""), "NODES-UNCLEAR"),
    ] {
        with_nodes(&scenario, 6, |group| {
            let node = |name: &str, gpu: &str| {
                group.node(
                    group.base,
                    name,
                    &["--set", &map, "nodes", "--gpus", gpu],
                    "token",
                )
            };
            let leader = group.lead(node("a", "0"));
            let members: Vec<_> = [("b", "1"), ("c", "2"), ("d", "3"), ("e", "4"), ("f", "5")]
                .map(|(name, gpu)| node(name, gpu).spawn().unwrap())
                .into();
            wait_for_node(leader).assert_ended(1, &[has]);
            members
                .into_iter()
                .for_each(|member| assert_eq!(wait_for_node(member).status, 1));
        });
    }
}
