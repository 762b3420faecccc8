//! Is a node found and named that is missing, rejected, unlike the others, wrong, lost or slow, and does the meeting end in
//! time?

use super::{Ended, Meeting, TOKEN, ended, machine, two, with};
use harness::simgpu::{Scenario, prepared};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn a_missing_node_is_one_finding_within_the_timeout() {
    with(&machine(""), 3, |meeting| {
        let meeting = Meeting { timeout: 3, ..Meeting::new(meeting.base, meeting.dir, 3) };
        let begun = Instant::now();
        let (leader, member) = (meeting.start_leader("0"), meeting.start("b", "1"));
        let (leader, member) = (ended(leader), ended(member));
        assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
        let text = "2 of 3 nodes joined within 3 s: Simulated.a (127.0.0.1), Simulated.b (127.0.0.1)";
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
