//! Is the fabric read right where addresses are unusual: a second domain, and a second root bus?

use harness::Boot;
use harness::fakepci::Topology;

fn two_gpus(parameters: &[&str]) -> Topology {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "");
    }
    parameters.iter().for_each(|p| topology.parameter(p));
    topology
}

fn boot(topology: &Topology) -> harness::Booted {
    let boot = Boot::shipped().fakepci(topology).unwrap();
    boot.append("firstlight.driver.load=false").workload("").whatever_the_verdict().run().unwrap()
}

#[test]
fn a_domain_of_five_digits_with_resizable_bars() {
    let booted = boot(&two_gpus(&["domain=0x10002"]));
    let report = booted.report();
    let gpus = ["10002:01:00.0", "10002:02:00.0"];
    assert_eq!(report.0["fabric"]["gpus"], serde_json::json!(gpus));
    assert_eq!(report.path(gpus[0], gpus[1]), Some("PHB"));
    assert_eq!(report.device(gpus[0])["parent"], "10002:00:01.0");
    assert_eq!(report.device(gpus[0])["kind"], "endpoint");
    let rebar = &report.device(gpus[0])["rebar"][0];
    assert_eq!((&rebar["bar"], &rebar["current_bytes"]), (&1.into(), &(32_u64 << 30).into()));
    let sizes: Vec<u64> = (26..36).map(|n| 1 << n).collect();
    assert_eq!(rebar["supported_bytes"], serde_json::json!(sizes));
}

#[test]
fn a_second_root_bus_in_the_first_domain() {
    let booted = boot(&two_gpus(&["domain=0", "bus=0x40"]));
    let report = booted.report();
    assert_eq!(report.0["fabric"]["gpus"], serde_json::json!(["0000:41:00.0", "0000:42:00.0"]));
    assert_eq!(report.path("0000:41:00.0", "0000:42:00.0"), Some("PHB"));
    assert_eq!(report.outcome("acs"), "pass", "{}", report.0);
}
