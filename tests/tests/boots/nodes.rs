//! Two machines with a cable between them: do both say what `firstlight nodes` found?

use harness::simgpu::{Scenario, overlay};
use harness::{Boot, CABLE, End, Running};
use std::time::Duration;

/// Both work on one of the two cores that are promised.
const DEADLINE: Duration = Duration::from_secs(400);

const SIMULATED: &str = "/etc/firstlight/config.d/30-simulated.toml";
const SETTINGS: &str = "/etc/firstlight/config.d/50-test.toml";

/// A node's address, and where all meet within so many seconds.
fn settings(host: u8, within: u32) -> String {
    format!(
        r#"
[network]
mode = "static"
address = "169.254.10.{host}/24"
[nodes]
size = 2
token = "a token of the simulation"
rendezvous = "169.254.10.1:29517"
timeout_s = {within}
"#
    )
}

/// A machine with two simulated GPUs, whose workload meets the other one. Both simulate the same host, so NCCL's name for
/// it tells them apart; and the simulated host has no interface, so the one of the guest is named.
fn node(host: u8, within: u32) -> Boot {
    let files = overlay(&Scenario::named("healthy").unwrap().gpus(2)).unwrap();
    let script = format!(
        "export NCCL_HOSTID={host} NCCL_SOCKET_IFNAME=eth0
         firstlight --config {SIMULATED} --config {SETTINGS} nodes"
    );
    let boot =
        Boot::shipped().memory(1024).overlay(|_| files).config(&settings(host, within)).workload(&script);
    let words = "firstlight.validate.level=quick firstlight.policy.on_fail=poweroff firstlight.policy.on_error=poweroff";
    boot.append(words).deadline(DEADLINE)
}

/// The machine that leads, and the other one; they have so many seconds to meet.
fn nodes(within: u32) -> [Running; 2] {
    Boot::together([node(1, within), node(2, within)]).unwrap()
}

#[test]
fn two_machines_pass_over_a_cable() {
    let [leader, member] = nodes(120).map(|running| running.finish().unwrap());
    for (booted, name) in [(&leader, "Simulated.1"), (&member, "Simulated.2")] {
        assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
        let nodes = booted.verdict_of_nodes();
        assert_eq!((nodes.verdict.as_str(), nodes.host.as_str()), ("PASS", name), "{booted}");
        booted.ended(&End::PowerOff);
    }
    leader.says("2 nodes with 4 GPUs: Simulated.1, Simulated.2");
    leader.says("NET/Socket/0 for 8 ordered pairs of ranks");
    member.says("node 2 of 2: Simulated.1, Simulated.2");
}

/// Each waits for the other one as long as the settings say, and no longer.
#[test]
fn without_its_cable_a_machine_is_absent() {
    let [mut leader, member] = nodes(15);
    leader.until("network   firstlight, eth0").unwrap();
    leader.link(CABLE, false).unwrap();
    for (running, code) in [(leader, "NODES-ABSENT"), (member, "NODES-UNREACHED")] {
        let booted = running.finish().unwrap();
        assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
        booted.says(code);
        booted.never_says("PASS   nodes-");
        booted.says("workload  /t/workload exited with status 2");
        booted.ended(&End::PowerOff);
    }
}
