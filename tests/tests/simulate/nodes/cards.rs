//! Does NCCL use the nodes' RDMA cards, with GPUDirect RDMA and without it? Does each of two rails carry its share of the
//! data, and does the workload of each node get the settings for them?

use super::{NodeGroup, NodeResult, four_gpus, wait_for_node, with_nodes, write_card};
use harness::simgpu::with_prepared;
use std::fs;
use std::process::Command;

/// Runs two nodes, each on its own machine, with two cards; `more` follows the scenario's keys of NCCL.
fn with_rails(more: &str, then: impl FnOnce(&NodeGroup<'_>, &NodeResult, &NodeResult)) {
    let text =
        format!("[nccl]\nhca = \"gdr\"\n{more}[verbs]\ndevices = [\"mlx5_0\", \"mlx5_1\"]\n");
    let scenario = four_gpus(&text);
    with_nodes(&scenario, 2, |group| {
        with_prepared(&scenario, &[], |base, dir| {
            for (dir, name) in [group.dir, dir]
                .into_iter()
                .flat_map(|dir| [(dir, "mlx5_0"), (dir, "mlx5_1")])
            {
                write_card(dir, name);
            }
            let leader = group.start_leader("0,1");
            let json = group.dir.join("member.json").display().to_string();
            let words = ["nodes", "--gpus", "2,3", "--json", &json];
            let member = group.node(&base, "b", &words, "token").spawn().unwrap();
            let (leader, member) = (wait_for_node(leader), wait_for_node(member));
            then(group, &leader, &member);
            Ok(())
        })
        .unwrap();
    });
}

/// The NCCL settings for the workload in a node's report.
fn settings(group: &NodeGroup<'_>, file: &str) -> Vec<String> {
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(group.dir.join(file)).unwrap()).unwrap();
    let all = report["workload_env"].as_object().unwrap().iter();
    let all = all.filter(|(name, _)| name.starts_with("NCCL_"));
    all.map(|(name, value)| format!("{name}={}", value.as_str().unwrap()))
        .collect()
}

#[test]
fn both_rails_carry_their_shares_and_the_workload_of_each_node_gets_the_settings_that_passed() {
    with_rails("", |group, leader, member| {
        leader.assert_ended(
            0,
            &[
                "PASS nodes-nccl-rails 2 rails carry their shares, the least 50 % of",
                "PASS nodes-ports 12 counters of 4 ports: none has grown",
            ],
        );
        let expected = ["NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "NCCL_SOCKET_IFNAME==lo"];
        assert_eq!(
            (
                settings(group, "nodes.json"),
                settings(group, "member.json")
            ),
            (
                expected.map(str::to_owned).into(),
                expected.map(str::to_owned).into()
            )
        );
        assert_eq!(member.status, 0);
        // With --nodes, `env` prints these instead of the settings for the single machine.
        let at = |name: &str| group.dir.join(name).display().to_string();
        let run = |words: &[&str]| {
            let mut command = Command::new(group.base.get_program());
            let output = command
                .args(group.base.get_args())
                .args(words)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        run(&[
            "validate",
            "--level",
            "quick",
            "--only",
            "nics",
            "--json",
            &at("report.json"),
            "--quiet",
        ]);
        let env = run(&["env", &at("report.json"), "--nodes", &at("nodes.json")]);
        let alone = run(&["env", &at("report.json")]);
        for line in [
            "NCCL_SOCKET_IFNAME==lo",
            "FIRSTLIGHT_NCCL_SOCKET_IFNAME==lo",
            "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1",
        ] {
            assert!(env.lines().any(|l| l == line), "{env}");
        }
        assert!(
            env.contains("the ACTIVE ports of the rails that passed")
                && !alone.contains("that passed"),
            "{env}\n{alone}"
        );
        assert!(
            ![&env, &alone]
                .iter()
                .any(|text| text.contains("GID_INDEX") || text.contains("MERGE_NICS")),
            "{env}"
        );
    });
}

#[test]
fn merging_rails_is_advised_where_it_is_faster() {
    for (channels, apart, advised) in [
        (2, 1, "NCCL_IB_MERGE_NICS=1"),
        (1, 2, "NCCL_IB_MERGE_NICS=0"),
    ] {
        let more = format!(
            "channels = {channels}\napart = {apart}\nrate_by_channels = [[1, 0.6], [2, 1.0]]\n"
        );
        with_rails(&more, |group, leader, member| {
            leader.assert_ended(0, &["GB/s with NCCL_IB_MERGE_NICS=1"]);
            assert_eq!(member.status, 0);
            for file in ["nodes.json", "member.json"] {
                assert!(
                    settings(group, file).contains(&advised.to_owned()),
                    "{:?}",
                    settings(group, file)
                );
            }
        });
    }
}

#[test]
fn a_rail_that_carries_none_of_nccls_data_is_named_and_left_out() {
    with_rails(
        "[[fault]]\nkind = \"nccl-one-rail\"\n",
        |group, leader, member| {
            let idle = "Simulated.b mlx5_1:1 carried 0.0 % of NCCL's bytes (0 B sent, 0 B received); its share is 50 %";
            leader.assert_ended(
                3,
                &[
                    "PASS rdma-host",
                    "WARN nodes-nccl-rails",
                    idle,
                    "codes=NODES-RAIL ",
                ],
            );
            assert_eq!(member.status, 3);
            assert_eq!(settings(group, "member.json")[0], "NCCL_IB_HCA==mlx5_0:1");
        },
    );
}

fn with_card(more: &str, then: impl FnOnce(&NodeResult)) {
    let more = format!("{more}[verbs]\ndevices = [\"mlx5_0\"]\n");
    with_nodes(&four_gpus(&more), 2, |group| {
        write_card(group.dir, "mlx5_0");
        let (leader, member) = (group.start_leader("0,1"), group.start("b", "2,3"));
        let leader = wait_for_node(leader);
        assert_eq!(wait_for_node(member).status, leader.status);
        then(&leader);
    });
}

#[test]
fn rdma_with_and_without_gpudirect_are_proven_by_nccls_lines() {
    with_card("[nccl]\nhca = \"gdr\"\n", |leader| {
        leader.assert_ended(
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
        leader.assert_ended(0, &["PASS nodes-nccl-rdma NET/IB/0 for 8", none]);
    });
}

#[test]
fn gpudirect_that_nccl_does_not_use_fails_its_arm() {
    with_card("[nccl]\nhca = \"unused\"\n", |leader| {
        leader.assert_ended(
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
    with_card(
        "[nccl]\nhca = \"gdr\"\n[[fault]]\nkind = \"nccl-lies\"\n",
        |leader| {
            leader.assert_ended(
                3,
                &[
                    "WARN nodes-nccl-gdr with GPUDirect RDMA",
                    "codes=NODES-GDR-STAGED",
                ],
            );
        },
    );
}

#[test]
fn a_card_that_nccl_does_not_find_fails_both_arms() {
    with_card("", |leader| {
        leader.assert_ended(
            1,
            &[
                "PASS nodes-nccl-socket",
                "FAIL nodes-nccl-rdma",
                "No transport found",
                "NODES-PATH",
            ],
        );
    });
}
