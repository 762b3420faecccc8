//! Does the fabric pass clear what firmware left on, and only what policy asks for? QEMU's root ports
//! have ACS; `pci=config_acs=` with ones stands for firmware that leaves it on.

use harness::{Boot, Booted, config_space};

const LEFT_ON: &str = "pci=config_acs=1111111@pci:0:0";

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

const PORTS: [&str; 2] = ["0000:00:05.0", "0000:00:06.0"];

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
