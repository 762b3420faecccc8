//! The shipped image on simulated GPUs, from kernel to hand-over: a healthy machine passes and runs its workload; on a
//! machine with a fault, the fault is named and the workload does not run.

use harness::simgpu::{Scenario, overlay};
use harness::{Boot, Booted, End};

/// Boots a scenario; after a fault the machine powers off.
fn boot(scenario: &Scenario) -> Booted {
    let files = overlay(scenario).unwrap();
    let script = "echo the workload ran; cp /etc/nccl.conf /run/kept/";
    let boot = Boot::shipped()
        .whole()
        .memory(2048)
        .overlay(|_| files)
        .workload(script);
    boot.append("firstlight.policy.on_fail=poweroff firstlight.policy.on_error=poweroff")
        .run()
        .unwrap()
}

/// Boots a scenario with a fault and checks the verdict, the failed tests and a text on the console. Two GPUs take a
/// fraction of the time of eight; tests on the host cover how a fault is found among many GPUs.
#[track_caller]
fn faulty(name: &str, verdict: &str, failed: &[&str], says: &str) {
    let booted = boot(&Scenario::named(name).unwrap().gpus(2));
    let found = booted.verdict();
    assert_eq!(
        (found.verdict.as_str(), found.failed),
        (verdict, failed.iter().map(|f| (*f).to_owned()).collect())
    );
    booted.says(says);
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

/// Two of its GPUs, which take a fraction of the time of eight; tests on the host and `just bench-boot` use all.
#[test]
fn the_reference_machine_passes_and_is_handed_over() {
    let booted = boot(&Scenario::named("healthy").unwrap().gpus(2));
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("2 x Simulated NVIDIA GeForce RTX 4090");
    booted.says("the workload ran");
    let report = booted.report();
    for id in [
        "cuda",
        "p2p-capability",
        "p2p-integrity",
        "p2p-reach",
        "p2p-order",
        "p2p-bandwidth",
        "p2p-latency",
        "nccl",
        "nccl-allreduce",
        "nccl-collective",
        "nccl-types",
        "nccl-calls",
        "nccl-processes",
    ] {
        assert_eq!(report.outcome(id), "pass", "{id}\n{booted}");
    }
    // Both arms with the transports that NCCL used, and the gain from peer-to-peer.
    booted.says("off: SHM   on: P2P/direct pointer");
    booted.says("128 MiB      14.45      20.64     +43 %");
    let conf = booted.text("kept/nccl.conf");
    let set: Vec<_> = conf.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(
        set.contains(&"NCCL_P2P_LEVEL=SYS") && conf.starts_with("# firstlight: "),
        "{conf}"
    );
    booted.ended(&End::PowerOff);
}

#[test]
fn zeros_instead_of_the_data_fail() {
    faulty("zeros", "FAIL", &["p2p-integrity"], "arrives as");
}

/// Without the simulated library, the image's own libcuda is loaded, and it finds no driver.
#[test]
fn a_simulation_without_its_library_is_an_error() {
    faulty(
        "library-missing",
        "ERROR",
        &["cuda", "p2p-capability", "p2p-integrity"],
        "CUDA-START",
    );
}
