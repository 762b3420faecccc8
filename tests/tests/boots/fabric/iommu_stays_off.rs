//! Does the IOMMU stay off, whatever the machine has and whatever the boot medium adds? With Intel's
//! and AMD's IOMMU in the machine, all witnesses are asked, beside the validator and by it.

use harness::config_space;
use harness::{Boot, Booted};

/// Saves the witnesses of an IOMMU that is in use.
const WITNESSES: &str = "
ls /sys/class/iommu > /run/kept/classes 2>&1
ls /sys/kernel/iommu_groups > /run/kept/groups 2>&1
ls -d /sys/bus/pci/devices/*/iommu_group > /run/kept/members 2> /dev/null
ls /sys/firmware/acpi/tables > /run/kept/tables";

/// Two root ports, which QEMU gives ACS, and the IOMMU.
fn machine(iommu: &str, words: &str) -> Booted {
    let boot = Boot::shipped().device(iommu);
    (1..=2)
        .fold(boot, |b, n| b.device(&format!("pcie-root-port,id=port{n},chassis={n},slot={n}")))
        .append("firstlight.expect.gpus=0")
        // With interrupt remapping the kernel panics where the emulated timer is late, as on a busy host (check_timer).
        .append("no_timer_check")
        .append(words)
        .workload(&format!("{WITNESSES}{}", config_space::KEEP))
        .whatever_the_verdict()
        .run()
        .unwrap()
}

#[track_caller]
fn is_off(booted: &Booted, firmware_table: &str) {
    assert!(booted.text("kept/tables").contains(firmware_table), "no IOMMU in the machine\n{booted}");
    for witness in ["classes", "groups", "members"] {
        assert_eq!(booted.text(&format!("kept/{witness}")), "", "{witness}\n{booted}");
    }
    let ports = booted.acs_ports();
    assert!(ports.len() >= 2, "{ports:?}");
    assert!(ports.iter().all(|(_, control)| *control == 0), "{ports:x?}");
    let report = booted.report();
    assert_eq!(report.outcome("iommu"), "pass", "{}", report.0);
    let iommu = &report.0["fabric"]["iommu"];
    assert_eq!((&iommu["mode"], &iommu["groups"]), (&"off".into(), &0.into()));
    assert!(iommu["firmware_tables"].as_array().unwrap().contains(&firmware_table.into()), "{iommu}");
    for (bdf, _) in ports {
        assert_eq!(report.device(bdf)["acs"]["ctrl"], 0, "{bdf}");
    }
    assert_eq!(booted.verdict().verdict, "PASS");
}

#[test]
fn with_intels_iommu() {
    is_off(&machine("intel-iommu,intremap=on", ""), "DMAR");
}

#[test]
fn with_intels_iommu_against_words_that_switch_it_on() {
    let booted = machine("intel-iommu,intremap=on", "iommu=on intel_iommu=on");
    is_off(&booted, "DMAR");
    // The words are told, for the boot medium should not have them.
    let report = booted.report();
    for (built_in, later) in [("iommu=off", "iommu=on"), ("intel_iommu=off", "intel_iommu=on")] {
        let findings = report.test("cmdline")["findings"].as_array().unwrap();
        let told =
            findings.iter().find(|f| f["expected"] == built_in).unwrap_or_else(|| panic!("{findings:?}"));
        assert_eq!((&told["code"], &told["measured"]), (&"CMDLINE-OVERRIDDEN".into(), &later.into()));
    }
}

/// QEMU without hardware virtualization breaks the IOAPIC under amd-iommu, and with it what programs
/// write to the serial line: the console of this boot is the kernel's log.
#[test]
fn with_amds_iommu_against_words_that_switch_it_on() {
    is_off(&machine("amd-iommu", "iommu=on amd_iommu=on loglevel=7"), "IVRS");
}
