//! Are ACS and the IOMMU, which isolate PCIe devices from each other, off? ACS: the fabric pass clears what firmware
//! left on, and only as the policy says, on QEMU's root ports and on switch ports like those of real fabrics; ACS that
//! stays on or returns is detected. The IOMMU stays off, whatever the machine has and whatever the boot medium adds:
//! the tests read all evidence themselves and also compare the validator's report.

use harness::fakepci::Topology;
use harness::{Boot, Booted, config_space};

/// QEMU's root ports have ACS; the ones set its bits, as if firmware had left them on.
const LEFT_ON: &str = "pci=config_acs=1111111@pci:0:0";
const PORTS: [&str; 2] = ["0000:00:05.0", "0000:00:06.0"];

/// Leaves ACS as the fake firmware set it; the built-in word would clear it before the fabric pass runs.
const AS_FIRMWARE: &str = "pci=config_acs=xxxxxxx@pci:0:0";

/// An RTX 6000 Ada, which has GPUDirect RDMA; the modelled GPU is a GeForce RTX 4090 otherwise.
const WORKSTATION: &str = "id=0x26b110de";

fn boot(topology: &Topology, acs_word: &str) -> Boot {
    Boot::shipped()
        .fakepci(topology)
        .unwrap()
        .append(acs_word)
        .workload(config_space::SAVE_PORTS)
        .on_any_verdict()
}

fn journalled_ports(booted: &Booted) -> Vec<String> {
    let journal = booted.json("firstlight/fabric.json");
    let entries = journal["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|e| {
            format!(
                "{} {} {}",
                e["bdf"].as_str().unwrap(),
                e["before"],
                e["readback"]
            )
        })
        .collect()
}

/// Two GPUs below a switch, a network card below a root port of its own, and a root port with nothing below it.
fn beside_a_network_card(gpu: &str) -> Topology {
    let mut topology = Topology::new();
    let first = topology.root_port(1, "fw=0x1d");
    let [a, b] = topology.switch(first, ["fw=0x1d", "fw=0x1d"]);
    topology.gpu(a, gpu);
    topology.gpu(b, gpu);
    let second = topology.root_port(2, "fw=0x1d");
    topology.nic(second, "");
    topology.root_port(3, "fw=0x1d");
    topology
}

#[test]
fn ports_on_gpu_paths_are_cleared_and_the_others_left_alone() {
    let booted = boot(&beside_a_network_card(WORKSTATION), AS_FIRMWARE)
        .run()
        .unwrap();

    let on_paths = [
        "0001:00:01.0",
        "0001:00:02.0",
        "0001:02:00.0",
        "0001:02:01.0",
    ];
    for port in on_paths {
        assert_eq!(booted.acs_control(port), 0, "{port}\n{booted}");
    }
    assert_eq!(
        booted.acs_control("0001:00:03.0"),
        0x1d,
        "nothing is below it\n{booted}"
    );
    assert_eq!(
        journalled_ports(&booted),
        on_paths.map(|port| format!("{port} 29 0"))
    );
    let report = booted.report();
    assert_eq!(report.outcome("acs"), "pass", "{}", report.0);
    assert_eq!(report.path("0001:03:00.0", "0001:04:00.0"), Some("PIX"));
    assert_eq!(report.path("0001:03:00.0", "0001:05:00.0"), Some("PHB"));
}

/// A GeForce has no GPUDirect RDMA, so no data of the network card passes to it directly.
#[test]
fn beside_geforce_boards_the_port_of_a_network_card_is_left_alone() {
    let booted = boot(&beside_a_network_card(""), AS_FIRMWARE).run().unwrap();

    for port in ["0001:02:00.0", "0001:02:01.0"] {
        assert_eq!(booted.acs_control(port), 0, "{port}\n{booted}");
    }
    assert_eq!(
        booted.acs_control("0001:00:02.0"),
        0x1d,
        "only the network card is below it\n{booted}"
    );
    assert_eq!(booted.report().outcome("acs"), "pass", "{booted}");
}

/// Four ports of one switch: one works, one ignores the write, one reverts at the second read, and one reverts when the
/// pass is already over.
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
    assert_eq!(report.findings_about("acs", "0001:02:00.0"), []);
    assert_eq!(
        report.findings_about("acs", "0001:02:01.0"),
        [("ACS-STUCK", "fail")]
    );
    for port in ["0001:02:02.0", "0001:02:03.0"] {
        assert_eq!(
            report.findings_about("acs", port),
            [("ACS-REVERTED", "fail")],
            "{port}\n{}",
            report.0
        );
    }
    let verdict = booted.verdict();
    assert_eq!(verdict.verdict, "FAIL", "{booted}");
    assert!(verdict.failed.contains(&"acs".to_owned()), "{verdict:?}");
    // The pass itself reports the result of its writes.
    booted.says("ACS-STUCK");
    booted.says("ACS-REVERTED");
    assert!(booted.find("firstlight/validated").is_none());
}

/// The kernel sets ACS again whenever it discovers a port. The removal and rescan between the pass and the validation
/// are what a reset by a driver or an administrator looks like.
#[test]
fn acs_that_a_rescan_sets_again_is_detected() {
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

    // 0x5f is everything that the ports support; the pass had cleared it.
    assert!(
        journalled_ports(&booted).contains(&"0001:02:00.0 95 0".to_owned()),
        "{:?}",
        journalled_ports(&booted)
    );
    let report = booted.report();
    assert_eq!(report.outcome("acs"), "fail", "{}", report.0);
    assert_eq!(
        report.findings_about("acs", "0001:02:00.0"),
        [("ACS-REVERTED", "fail")]
    );
    assert_eq!(booted.acs_control("0001:02:00.0"), 0x5f);
    assert_eq!(booted.verdict().verdict, "FAIL");
}

fn machine(policy: &str) -> Booted {
    Boot::shipped()
        .device("pcie-root-port,id=port1,chassis=1,slot=1,addr=5")
        .device("pcie-root-port,id=port2,chassis=2,slot=2,addr=6")
        .append(&format!(
            "firstlight.expect.gpus=0 firstlight.fabric.acs={policy} {LEFT_ON}"
        ))
        .workload(config_space::SAVE_PORTS)
        .on_any_verdict()
        .run()
        .unwrap()
}

#[test]
fn acs_that_firmware_left_on_is_cleared_journalled_and_reported() {
    let booted = machine("all");
    let journal = booted.json("firstlight/fabric.json");
    for port in PORTS {
        assert_eq!(booted.acs_control(port), 0, "{port}");
        let entries = journal["entries"].as_array().unwrap();
        let entry = entries
            .iter()
            .find(|e| e["bdf"] == port)
            .unwrap_or_else(|| panic!("{journal}"));
        // Everything that QEMU's port supports: SV TB RR CR UF DT.
        assert_eq!(
            (&entry["before"], &entry["after"], &entry["readback"]),
            (&0x5f.into(), &0.into(), &0.into())
        );
        assert_eq!(booted.report().device(port)["acs"]["ctrl"], 0);
    }
    assert_eq!(booted.report().outcome("acs"), "pass");
    booted.says("  PASS   acs");
}

/// Also proves that ACS stays on in the machine above unless the pass clears it.
#[test]
fn the_policy_off_leaves_acs_as_it_is() {
    let booted = machine("off");
    for port in PORTS {
        assert_eq!(booted.acs_control(port), 0x5f, "{port}");
        assert_eq!(booted.report().device(port)["acs"]["ctrl"], 0x5f);
    }
    let journalled = booted
        .find("firstlight/fabric.json")
        .is_some_and(|j| j.windows(5).any(|w| w == b"\"bdf\""));
    assert!(!journalled, "{booted}");
}

/// Saves the evidence of an IOMMU that is in use.
const WITNESSES: &str = "
ls /sys/class/iommu > /run/kept/classes 2>&1
ls /sys/kernel/iommu_groups > /run/kept/groups 2>&1
ls -d /sys/bus/pci/devices/*/iommu_group > /run/kept/members 2> /dev/null
ls /sys/firmware/acpi/tables > /run/kept/tables";

/// Boots a machine with this IOMMU and two root ports, which have ACS in QEMU.
fn iommu_machine(iommu: &str, words: &str) -> Booted {
    let boot = Boot::shipped().device(iommu);
    (1..=2)
        .fold(boot, |b, n| {
            b.device(&format!("pcie-root-port,id=port{n},chassis={n},slot={n}"))
        })
        .append("firstlight.expect.gpus=0")
        // With interrupt remapping the kernel panics if the emulated timer is late, as on a busy host (check_timer).
        .append("no_timer_check")
        .append(words)
        .workload(&format!("{WITNESSES}{}", config_space::SAVE_PORTS))
        .on_any_verdict()
        .run()
        .unwrap()
}

#[track_caller]
fn assert_iommu_off(booted: &Booted, firmware_table: &str) {
    assert!(
        booted.text("kept/tables").contains(firmware_table),
        "the machine has no IOMMU\n{booted}"
    );
    for witness in ["classes", "groups", "members"] {
        assert_eq!(
            booted.text(&format!("kept/{witness}")),
            "",
            "{witness}\n{booted}"
        );
    }
    let ports = booted.acs_ports();
    assert!(ports.len() >= 2, "{ports:?}");
    assert!(ports.iter().all(|(_, control)| *control == 0), "{ports:x?}");
    let report = booted.report();
    assert_eq!(report.outcome("iommu"), "pass", "{}", report.0);
    let iommu = &report.0["fabric"]["iommu"];
    assert_eq!(
        (&iommu["mode"], &iommu["groups"]),
        (&"off".into(), &0.into())
    );
    assert!(
        iommu["firmware_tables"]
            .as_array()
            .unwrap()
            .contains(&firmware_table.into()),
        "{iommu}"
    );
    for (bdf, _) in ports {
        assert_eq!(report.device(bdf)["acs"]["ctrl"], 0, "{bdf}");
    }
    assert_eq!(booted.verdict().verdict, "PASS");
}

#[test]
fn intels_iommu_stays_off_despite_words_that_switch_it_on() {
    let booted = iommu_machine("intel-iommu,intremap=on", "iommu=on intel_iommu=on");
    assert_iommu_off(&booted, "DMAR");
    // The words are reported, because the boot medium should not have them.
    let report = booted.report();
    let findings = report.test("cmdline")["findings"].as_array().unwrap();
    let of = |code: &str| {
        findings
            .iter()
            .find(|f| f["code"] == code)
            .unwrap_or_else(|| panic!("{findings:?}"))
    };
    let overridden = of("CMDLINE-OVERRIDDEN");
    assert_eq!(
        (&overridden["expected"], &overridden["measured"]),
        (&"intel_iommu=off".into(), &"intel_iommu=on".into())
    );
    assert!(
        of("CMDLINE-NO-EFFECT")["message"]
            .as_str()
            .unwrap()
            .starts_with("iommu=on has no effect"),
        "{findings:?}"
    );
}

/// QEMU without hardware virtualization breaks the IOAPIC under amd-iommu, and with it the output of programs on the
/// serial line: the console of this boot shows the kernel's log.
#[test]
fn amds_iommu_stays_off_despite_words_that_switch_it_on() {
    assert_iommu_off(
        &iommu_machine("amd-iommu", "iommu=on amd_iommu=on loglevel=7"),
        "IVRS",
    );
}
