//! Does the fabric pass clear the ACS that firmware left on, and only what policy asks for? On QEMU's root ports, and on
//! switch ports as real fabrics have them: cleared on GPU paths and nowhere else, and caught where it stays or comes back.

use harness::fakepci::Topology;
use harness::{Boot, Booted, config_space};

/// QEMU's root ports have ACS; ones stand for firmware that leaves it on.
const LEFT_ON: &str = "pci=config_acs=1111111@pci:0:0";
const PORTS: [&str; 2] = ["0000:00:05.0", "0000:00:06.0"];

/// Leaves ACS as the fake firmware set it, which the built-in word would clear before anyone looks.
const AS_FIRMWARE: &str = "pci=config_acs=xxxxxxx@pci:0:0";

fn boot(topology: &Topology, acs_word: &str) -> Boot {
    Boot::shipped()
        .fakepci(topology)
        .unwrap()
        .append(&format!("firstlight.driver.load=false {acs_word}"))
        .workload(config_space::KEEP)
        .whatever_the_verdict()
}

fn journalled(booted: &Booted) -> Vec<String> {
    let journal = booted.json("firstlight/fabric.json");
    let entries = journal["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|e| format!("{} {} {}", e["bdf"].as_str().unwrap(), e["before"], e["readback"]))
        .collect()
}

#[test]
fn ports_on_gpu_paths_are_cleared_and_the_others_left_alone() {
    let mut topology = Topology::new();
    let first = topology.root_port(1, "fw=0x1d");
    let [a, b] = topology.switch(first, ["fw=0x1d", "fw=0x1d"]);
    topology.gpu(a, "");
    topology.gpu(b, "");
    let second = topology.root_port(2, "fw=0x1d");
    topology.nic(second, "");
    topology.root_port(3, "fw=0x1d");
    let booted = boot(&topology, AS_FIRMWARE).run().unwrap();

    let on_paths = ["0001:00:01.0", "0001:00:02.0", "0001:02:00.0", "0001:02:01.0"];
    for port in on_paths {
        assert_eq!(booted.acs_control(port), 0, "{port}\n{booted}");
    }
    assert_eq!(booted.acs_control("0001:00:03.0"), 0x1d, "nothing is below it\n{booted}");
    assert_eq!(journalled(&booted), on_paths.map(|port| format!("{port} 29 0")));
    let report = booted.report();
    assert_eq!(report.outcome("acs"), "pass", "{}", report.0);
    assert_eq!(report.path("0001:03:00.0", "0001:04:00.0"), Some("PIX"));
    assert_eq!(report.path("0001:03:00.0", "0001:05:00.0"), Some("PHB"));
}

/// Four ports of one switch: one sound, one that ignores the write, one that goes back at the second
/// look, one that goes back when the pass is long over.
#[test]
fn a_port_that_keeps_acs_or_takes_it_back_fails_and_is_named() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    let ports = topology.switch(
        root,
        [
            "fw=0x1d",
            "fw=0x1d fault=acs-readonly",
            "fw=0x1d fault=acs-revert revert=2",
            "fw=0x1d fault=acs-revert revert=3",
        ],
    );
    for port in ports {
        topology.gpu(port, "");
    }
    let booted = boot(&topology, AS_FIRMWARE).run().unwrap();

    let report = booted.report();
    assert_eq!(report.outcome("acs"), "fail", "{}", report.0);
    assert_eq!(report.about("acs", "0001:02:00.0"), []);
    assert_eq!(report.about("acs", "0001:02:01.0"), [("ACS-STUCK", "fail")]);
    for port in ["0001:02:02.0", "0001:02:03.0"] {
        assert_eq!(report.about("acs", port), [("ACS-REVERTED", "fail")], "{port}\n{}", report.0);
    }
    let verdict = booted.verdict();
    assert_eq!(verdict.verdict, "FAIL", "{booted}");
    assert!(verdict.failed.contains(&"acs".to_owned()), "{verdict:?}");
    // The pass itself says what became of its writes.
    booted.says("ACS-STUCK");
    booted.says("ACS-REVERTED");
    assert!(booted.find("firstlight/validated").is_none());
}

/// The kernel sets ACS again whenever it finds a port anew. Removing and rescanning between the pass
/// and the validation is what a driver's or an administrator's reset looks like.
#[test]
fn acs_that_a_rescan_brings_back_is_caught() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    let [a, b] = topology.switch(root, ["", ""]);
    topology.gpu(a, "");
    topology.gpu(b, "");
    let script = "
/t/firstlight \"$@\"
status=$?
case \" $* \" in *' fabric fix '*)
\techo 1 > /sys/bus/pci/devices/0001:00:01.0/remove
\techo 1 > /sys/bus/pci/rescan ;;
esac
exit $status";
    let boot = boot(&topology, LEFT_ON).validator(script).unwrap();
    let booted = boot.run().unwrap();

    // 0x5f is what the ports can do; the pass had cleared it.
    assert!(journalled(&booted).contains(&"0001:02:00.0 95 0".to_owned()), "{:?}", journalled(&booted));
    let report = booted.report();
    assert_eq!(report.outcome("acs"), "fail", "{}", report.0);
    assert_eq!(report.about("acs", "0001:02:00.0"), [("ACS-REVERTED", "fail")]);
    assert_eq!(booted.acs_control("0001:02:00.0"), 0x5f);
    assert_eq!(booted.verdict().verdict, "FAIL");
}

fn machine(policy: &str) -> Booted {
    Boot::shipped()
        .device("pcie-root-port,id=port1,chassis=1,slot=1,addr=5")
        .device("pcie-root-port,id=port2,chassis=2,slot=2,addr=6")
        .append(&format!("firstlight.expect.gpus=0 firstlight.fabric.acs={policy} {LEFT_ON}"))
        .workload(config_space::KEEP)
        .whatever_the_verdict()
        .run()
        .unwrap()
}

#[test]
fn what_firmware_left_on_is_cleared_journalled_and_reported() {
    let booted = machine("all");
    let journal = booted.json("firstlight/fabric.json");
    for port in PORTS {
        assert_eq!(booted.acs_control(port), 0, "{port}");
        let entries = journal["entries"].as_array().unwrap();
        let entry = entries.iter().find(|e| e["bdf"] == port).unwrap_or_else(|| panic!("{journal}"));
        // All that QEMU's port can do: SV TB RR CR UF DT.
        assert_eq!(
            (&entry["before"], &entry["after"], &entry["readback"]),
            (&0x5f.into(), &0.into(), &0.into())
        );
        assert_eq!(booted.report().device(port)["acs"]["ctrl"], 0);
    }
    assert_eq!(booted.report().outcome("acs"), "pass");
    booted.says("  PASS   acs");
}

/// Also the proof that the boot above would have noticed.
#[test]
fn a_policy_of_off_leaves_it_as_it_is() {
    let booted = machine("off");
    for port in PORTS {
        assert_eq!(booted.acs_control(port), 0x5f, "{port}");
        assert_eq!(booted.report().device(port)["acs"]["ctrl"], 0x5f);
    }
    let journalled =
        booted.find("firstlight/fabric.json").is_some_and(|j| j.windows(5).any(|w| w == b"\"bdf\""));
    assert!(!journalled, "{booted}");
}
