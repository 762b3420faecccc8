//! RDMA between nodes on simulated cards: two processes of the shipped program, whose transfers go through a simulated
//! libibverbs, and the faults of that library.

use super::nodes::{NodeGroup, NodeResult, four_gpus, wait_for_node, with_nodes, write_card};
use harness::simgpu::with_prepared;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;

const CARD: &str = "[nccl]\nhca = \"gdr\"\n[verbs]\ndevices = [\"mlx5_0\", \"mlx5_1\"]\n";
const HOST_ONLY: &str = "[nccl]\nhca = \"host\"\n[verbs]\ndevices = [\"mlx5_0\"]\n";

fn start(group: &NodeGroup<'_>, name: &str, gpus: &str) -> Child {
    group
        .node(group.base, name, &["rdma", "--gpus", gpus], "token")
        .spawn()
        .unwrap()
}

/// Runs two nodes with `cards` cards each; `then` receives the result of the node that leads.
fn with_cards(text: &str, cards: usize, then: impl FnOnce(&NodeGroup<'_>, &NodeResult)) {
    with_nodes(&four_gpus(text), 2, |group| {
        for n in 0..cards {
            write_card(group.dir, &format!("mlx5_{n}"));
        }
        let json = group.json();
        let words = ["rdma", "--gpus", "0,1", "--json", json.as_str()];
        let leader = group.lead(group.node(group.base, "a", &words, "token"));
        let member = start(group, "b", "2,3");
        let (leader, member) = (wait_for_node(leader), wait_for_node(member));
        assert_eq!(
            member.status, leader.status,
            "{}\n{}",
            leader.text, leader.log
        );
        then(group, &leader);
    });
}

#[test]
fn two_rails_deliver_every_byte_of_both_memories() {
    with_cards(CARD, 2, |group, leader| {
        leader.assert_ended(
            0,
            &[
                "PASS rdma-host 2 pairs of ports, host memory: ",
                "PASS rdma-gpu 2 pairs of ports, dma-buf: ",
                "# RDMA host memory: Simulated.a mlx5_0:1, Simulated.b mlx5_0:1; MTU 4096",
                "# RDMA GPU memory: Simulated.a mlx5_1:1, Simulated.b mlx5_1:1; MTU 4096",
                "#bytes #iterations BW average[Gb/sec] MsgRate[Mpps]",
                "verdict=PASS",
            ],
        );
        let report = group.report();
        let tests: Vec<_> = report["tests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|test| &test["id"])
            .collect();
        assert_eq!(
            tests,
            ["nodes-meeting", "rdma-host", "rdma-gpu", "nodes-ports"]
        );
        // Two rails, two sizes, both directions, writes and reads.
        assert_eq!(
            report["tests"][1]["tables"][0]["rows"]
                .as_array()
                .unwrap()
                .len(),
            16
        );
    });
}

#[test]
fn a_card_that_does_not_reach_gpus_is_tested_with_the_hosts_memory() {
    with_cards(HOST_ONLY, 1, |_, leader| {
        leader.assert_ended(
            0,
            &[
                "PASS rdma-host",
                "N/A rdma-gpu node Simulated.a: GPU 0 has no GPUDirect RDMA",
            ],
        );
    });
}

#[test]
fn without_cards_there_is_nothing_to_test_and_rdma_does_not_pass() {
    with_cards("", 0, |_, leader| {
        leader.assert_ended(
            0,
            &[
                "PASS nodes-meeting",
                "N/A rdma-host no node has an RDMA port that is ACTIVE",
                "N/A rdma-gpu",
            ],
        );
    });
}

/// Every fault, with its exit status, its code and a part of the leader's output.
#[test]
fn every_fault_of_a_card_is_found_and_named() {
    let data = (1, "RDMA-DATA");
    let error = (2, "RDMA-ERROR");
    let all = [
        (
            "kind = \"wrong\"\nnode = \"b\"",
            data,
            "bytes are wrong in the memory of Simulated.",
        ),
        (
            "kind = \"wrong\"\ndevice = \"mlx5_1\"\nread = true\nevery = 997",
            data,
            "RDMA read between Simulated.",
        ),
        (
            "kind = \"short\"\nfrom_bytes = 4097\nread = false",
            data,
            "RDMA write between Simulated.",
        ),
        (
            "kind = \"dropped\"\nnode = \"a\"\nevery = 500",
            data,
            "in the memory of Simulated.b",
        ),
        (
            "kind = \"stray\"\nread = true\nevery = 400",
            data,
            "between the transfers",
        ),
        (
            "kind = \"wrong\"\ngpu = true\nfrom_bytes = 65536",
            data,
            "PASS rdma-host",
        ),
        (
            "kind = \"error\"\nnode = \"b\"\nevery = 50",
            error,
            "transport retry counter exceeded",
        ),
        (
            "kind = \"no-way\"\nnode = \"b\"",
            error,
            "node Simulated.b, connecting: ibv_modify_qp to RTR on mlx5_0:1: ",
        ),
        (
            "kind = \"unregistered\"\nnode = \"a\"",
            error,
            "cannot be registered at mlx5_0:1: ibv_reg_mr: ",
        ),
        (
            "kind = \"unregistered\"\ngpu = true",
            error,
            "by dma-buf: ibv_reg_dmabuf_mr: ",
        ),
        (
            "kind = \"crash\"\nnode = \"b\"\nevery = 200",
            error,
            "the other process died: signal: 6",
        ),
        (
            "kind = \"late\"\nnode = \"b\"\nevery = 900",
            error,
            "was not completed in time",
        ),
    ];
    let one = |(fault, (status, code), part): (&str, (i32, &str), &str)| {
        with_cards(
            &format!("{CARD}[[verbs.fault]]\n{fault}\n"),
            2,
            |_, leader| {
                leader.assert_ended(status, &[&format!("codes={code}"), part]);
            },
        );
    };
    for three in all.chunks(3) {
        thread::scope(|scope| {
            three
                .iter()
                .for_each(|case| drop(scope.spawn(|| one(*case))));
        });
    }
}

/// Runs two nodes, each on its own machine, with two cards and a fault; `then` receives the result of the node that leads.
fn with_fault(fault: &str, change: impl Fn(&Path), then: impl FnOnce(&NodeResult)) {
    let scenario = four_gpus(&format!("{CARD}[[verbs.fault]]\n{fault}\n"));
    with_nodes(&scenario, 2, |group| {
        with_prepared(&scenario, &[], |base, dir| {
            for dir in [group.dir, dir] {
                ["mlx5_0", "mlx5_1"]
                    .iter()
                    .for_each(|name| write_card(dir, name));
                change(dir);
            }
            let leader =
                group.lead(group.node(group.base, "a", &["rdma", "--gpus", "0,1"], "token"));
            let words = ["rdma", "--gpus", "2,3"];
            let member = group.node(&base, "b", &words, "token").spawn().unwrap();
            let (leader, member) = (wait_for_node(leader), wait_for_node(member));
            assert_eq!(
                member.status, leader.status,
                "{}\n{}",
                leader.text, leader.log
            );
            then(&leader);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_rail_whose_data_takes_another_path_is_found_by_its_counter() {
    with_fault(
        "kind = \"uncounted\"\nnode = \"b\"\ndevice = \"mlx5_1\"",
        |_| (),
        |leader| {
            let message = "B by Simulated.b mlx5_1:1, whose counter rose by 0 B";
            leader.assert_ended(
                3,
                &[
                    "WARN rdma-host",
                    "WARN rdma-gpu",
                    message,
                    "codes=NODES-RAIL ",
                ],
            );
            assert!(!leader.text.contains("mlx5_0:1, whose"), "{}", leader.text);
        },
    );
}

#[test]
fn errors_that_a_port_counts_during_the_test_are_named_with_both_numbers() {
    let counts = |counter: &str| {
        format!("kind = \"counts\"\nnode = \"b\"\nevery = 500\ncounter = \"{counter}\"")
    };
    for (counter, name) in [
        ("counters/symbol_error", "symbol_error"),
        ("hw_counters/out_of_sequence", "out_of_sequence"),
    ] {
        with_fault(
            &counts(counter),
            |_| (),
            |leader| {
                let message = format!("Simulated.b mlx5_0:1: its counter {name} rose from 7 to ");
                leader.assert_ended(
                    3,
                    &[
                        "PASS rdma-host",
                        "WARN nodes-ports",
                        &message,
                        "codes=NODES-PORT-ERRORS ",
                    ],
                );
            },
        );
    }
}

#[test]
fn a_counter_that_cannot_be_read_is_an_error() {
    let broken = |dir: &Path| {
        let counter = "root/sys/class/infiniband/mlx5_1/ports/1/counters/link_downed";
        fs::write(dir.join(counter), "many\n").unwrap();
    };
    with_fault("kind = \"slow\"\nfrom_bytes = 9999999", broken, |leader| {
        leader.assert_ended(
            2,
            &[
                "ERROR nodes-ports",
                "counters/link_downed: read \"many\"",
                "NODES-PORT-ERRORS",
                "NODES-RAIL",
            ],
        );
    });
}

#[test]
fn gpu_memory_that_is_slower_than_the_hosts_is_a_warning() {
    let slow = format!("{CARD}[[verbs.fault]]\nkind = \"slow\"\ngpu = true\n");
    with_cards(&slow, 1, |_, leader| {
        leader.assert_ended(
            3,
            &[
                "PASS rdma-host",
                "WARN rdma-gpu",
                "90 % of that of host memory",
                "codes=RDMA-SLOW",
            ],
        );
    });
}

#[test]
fn a_call_that_does_not_return_ends_in_bounded_time() {
    with_cards(
        &format!("{HOST_ONLY}[[verbs.fault]]\nkind = \"hang\"\nnode = \"b\"\nevery = 30\n"),
        1,
        |_, leader| {
            leader.assert_ended(
                2,
                &[
                    "libibverbs: the other process does not answer within 30.0 s",
                    "codes=RDMA-ERROR",
                ],
            );
        },
    );
}

#[test]
fn a_missing_library_is_an_error_and_not_a_missing_card() {
    with_cards(
        &format!("{HOST_ONLY}[layout]\nwithout = [\"libibverbs.so.1\"]\n"),
        1,
        |_, leader| {
            leader.assert_ended(2, &["ERROR rdma-host", "mlx5_0", "codes=RDMA-ERROR"]);
        },
    );
}
