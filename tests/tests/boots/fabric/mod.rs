//! The PCIe fabric in a boot: IOMMU, ACS and BARs of QEMU's own ports and of a fake PCI domain.

mod isolation;
mod rebar;

use harness::fakepci::Topology;
use harness::{Boot, Booted};
use std::sync::LazyLock;

// Is an unusual fabric read correctly? Each broken device is named with its fault, without a hang and without blaming
// its neighbours; a second domain and a second root bus are recognised.

fn boot_topology(topology: &Topology) -> Booted {
    let boot = Boot::shipped().fakepci(topology).unwrap();
    boot.workload("").on_any_verdict().run().unwrap()
}

/// One boot with a broken device behind each of several root ports. A switch at 0001:01:00.0 has two GPUs, 0001:03:00.0 and
/// 0001:04:00.0; the other GPUs are 0001:05:00.0 to 0001:07:00.0.
static BROKEN: LazyLock<Booted> = LazyLock::new(|| {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    for port in topology.switch(root, ["", "fault=small-config"]) {
        topology.gpu(port, "");
    }
    for (dev, options) in [(2, "fault=dead"), (3, "width=4"), (4, "speed=1")] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, options);
    }
    boot_topology(&topology)
});

#[test]
fn a_port_without_extended_configuration_space_is_never_a_pass() {
    let report = BROKEN.report();
    assert_eq!(report.device("0001:02:01.0")["config"]["bytes"], 256);
    assert_eq!(report.findings_about("acs", "0001:02:00.0"), []);
    let [(code, severity)] = report.findings_about("acs", "0001:02:01.0")[..] else {
        panic!("{}", report.0)
    };
    assert_eq!(code, "NO-ECAM");
    assert!(["fail", "error"].contains(&severity), "{severity}");
}

#[test]
fn a_gpu_that_fell_off_the_bus_fails_and_does_not_hang_the_boot() {
    let report = BROKEN.report();
    assert_eq!(report.outcome("fabric"), "fail", "{}", report.0);
    assert_eq!(
        report.findings_about("fabric", "0001:05:00.0"),
        [("GPU-GONE", "fail")]
    );
    assert_eq!(report.findings_about("fabric", "0001:03:00.0"), []);
    assert!(
        ["FAIL", "ERROR"].contains(&BROKEN.verdict().verdict.as_str()),
        "{}",
        *BROKEN
    );
}

#[test]
fn a_narrow_link_degrades_and_an_idle_gpus_slow_link_does_not() {
    let report = BROKEN.report();
    assert_eq!(report.outcome("links"), "warn", "{}", report.0);
    assert_eq!(report.findings_about("links", "0001:03:00.0"), []);
    assert_eq!(
        report.findings_about("links", "0001:06:00.0"),
        [("LINK-NARROW", "warn")]
    );
    assert_eq!(
        report.findings_about("links", "0001:07:00.0"),
        [("LINK-SLOW", "info")]
    );
    let link = &report.device("0001:06:00.0")["link"];
    assert_eq!(
        (&link["width"], &link["max_width"]),
        (&4.into(), &16.into())
    );
}

fn two_gpus(parameters: &[&str]) -> Topology {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "");
    }
    parameters.iter().for_each(|p| topology.parameter(p));
    topology
}

#[test]
fn gpus_in_a_domain_of_five_digits_are_listed_with_their_bar_sizes() {
    let booted = boot_topology(&two_gpus(&["domain=0x10002"]));
    let report = booted.report();
    let gpus = ["10002:01:00.0", "10002:02:00.0"];
    assert_eq!(report.0["fabric"]["gpus"], serde_json::json!(gpus));
    assert_eq!(report.path(gpus[0], gpus[1]), Some("PHB"));
    assert_eq!(report.device(gpus[0])["parent"], "10002:00:01.0");
    assert_eq!(report.device(gpus[0])["kind"], "endpoint");
    let rebar = &report.device(gpus[0])["rebar"][0];
    assert_eq!(
        (&rebar["bar"], &rebar["current_bytes"]),
        (&1.into(), &(32_u64 << 30).into())
    );
    let sizes: Vec<u64> = (26..36).map(|n| 1 << n).collect();
    assert_eq!(rebar["supported_bytes"], serde_json::json!(sizes));
}

#[test]
fn gpus_on_a_second_root_bus_of_the_first_domain_are_found() {
    let booted = boot_topology(&two_gpus(&["domain=0", "bus=0x40"]));
    let report = booted.report();
    assert_eq!(
        report.0["fabric"]["gpus"],
        serde_json::json!(["0000:41:00.0", "0000:42:00.0"])
    );
    assert_eq!(report.path("0000:41:00.0", "0000:42:00.0"), Some("PHB"));
    assert_eq!(report.outcome("acs"), "pass", "{}", report.0);
}
