//! Machines and their verdicts: a good one of each kind, and what a single spoilt thing makes of it.

use super::machine::{Machine, codes, standard, test};
use std::fs;

#[track_caller]
fn verdict(machine: &Machine, words: &str, status: i32, last_line: &str) {
    let said = machine.run(words);
    let last = said.out.lines().last().unwrap_or_default();
    let last = last.rsplit_once(" seconds=").map_or(last, |(head, _)| head);
    assert_eq!((said.status, last), (status, last_line), "{}{}", said.out, said.err);
}

#[test]
fn a_machine_without_gpus_passes_when_none_is_expected() {
    let machine = Machine::small();
    verdict(&machine, "--set expect.gpus=0 validate", 0, "FIRSTLIGHT verdict=PASS failed=none");
    verdict(&machine, "validate", 2, "FIRSTLIGHT verdict=ERROR failed=gpus");
    verdict(&machine, "--set expect.gpus=2 validate", 1, "FIRSTLIGHT verdict=FAIL failed=gpus");
}

#[test]
fn a_server_with_eight_gpus_passes_and_one_gpu_less_fails() {
    let machine = Machine::recorded("epyc-8x4090");
    verdict(&machine, "--set expect.gpus=8 validate", 0, "FIRSTLIGHT verdict=PASS failed=none");
    fs::remove_file(machine.at("sys/bus/pci/devices/0000:c1:00.0")).unwrap();
    verdict(&machine, "--set expect.gpus=8 validate", 1, "FIRSTLIGHT verdict=FAIL failed=gpus");
}

#[test]
fn every_recorded_machine_gets_the_verdict_that_it_is_recorded_for() {
    for (name, status, failed) in [
        ("bar1-256m", 1, "FAIL failed=bar1,bar1-static"),
        ("boot-display", 3, "DEGRADED failed=none"),
        ("dead-gpu", 1, "FAIL failed=fabric"),
        ("driver-mismatch", 1, "FAIL failed=driver"),
        ("epyc-8x4090", 0, "PASS failed=none"),
        ("epyc-8x4090-before", 1, "FAIL failed=cmdline,bar1,acs"),
        ("h200-vm", 0, "PASS failed=none"),
        ("intel-pch", 1, "FAIL failed=bar1,acs"),
        ("iommu-translated", 1, "FAIL failed=cmdline,iommu,acs"),
        ("lost-cpus", 1, "FAIL failed=cpus"),
        ("malformed-chain", 2, "ERROR failed=acs"),
        ("narrow-link", 3, "DEGRADED failed=none"),
        ("no-ecam", 2, "ERROR failed=cmdline,bar1,acs"),
        ("nouveau", 1, "FAIL failed=drivers,driver"),
        ("patch-broken", 1, "FAIL failed=patch,xid"),
        ("second-domain", 0, "PASS failed=none"),
        ("switch-acs", 1, "FAIL failed=acs"),
    ] {
        let machine = Machine::recorded(name);
        verdict(&machine, "validate", status, &format!("FIRSTLIGHT verdict={failed}"));
    }
}

/// Which test it is about, what is spoilt, how that test ends, and the code that says why.
type Spoilt = (&'static str, fn(&Machine), &'static str, &'static str);

#[test]
fn each_single_spoilt_thing_costs_the_pass() {
    let spoilt: [Spoilt; 8] = [
        ("cmdline", |m| m.write("proc/cmdline", "iommu=pt"), "fail", "CMDLINE-MISSING"),
        ("cmdline", |m| fs::remove_file(m.at("proc/cmdline")).unwrap(), "error", "SYS-UNREADABLE"),
        ("iommu", |m| m.write("sys/kernel/iommu_groups/0/type", "DMA\n"), "fail", "IOMMU-TRANSLATING"),
        ("iommu", |m| fs::create_dir(m.at("sys/class/iommu/dmar0")).unwrap(), "fail", "IOMMU-NOT-OFF"),
        ("iommu", |m| fs::remove_dir(m.at("sys/class/iommu")).unwrap(), "error", "IOMMU-UNKNOWN"),
        ("cpus", |m| m.write("sys/devices/system/cpu/online", "0\n"), "fail", "CPUS-LOST"),
        ("drivers", |m| m.write("sys/module/nouveau/initstate", "live\n"), "fail", "DRIVER-FOREIGN"),
        ("drivers", |m| fs::remove_dir(m.at("sys/module")).unwrap(), "error", "SYS-UNREADABLE"),
    ];
    for (id, spoil, outcome, code) in spoilt {
        let machine = Machine::small();
        spoil(&machine);
        let report = machine.report("");
        assert_eq!(test(&report, id)["outcome"], outcome, "{code}: {report}");
        assert!(codes(&report, id).contains(&code.to_owned()), "{code}: {report}");
    }
}

#[test]
fn lost_processors_are_laid_to_x2apic_when_the_kernel_says_so() {
    let machine = Machine::small();
    machine.write("sys/devices/system/cpu/online", "0\n");
    machine.write("dev/kmsg", "4,9,1,-;CPU 1 has invalid APIC ID 100. Aborting bringup\n");
    let report = machine.report("");
    let finding = &test(&report, "cpus")["findings"][0];
    assert!(finding["cause"].as_str().unwrap().starts_with("x2APIC is off"), "{finding}");
    assert_eq!((&finding["measured"], &finding["expected"]), (&1.into(), &2.into()));
}

#[test]
fn a_folder_that_is_no_machine_is_an_error_that_names_every_test() {
    let machine = Machine::small();
    fs::remove_dir_all(machine.at("sys/bus")).unwrap();
    let report = machine.report("");
    assert_eq!(report["verdict"], "ERROR");
    assert_eq!(report["fabric"], serde_json::Value::Null);
    assert_eq!(report["machine"]["bound_to"]["iommu"], serde_json::Value::Null);
    for id in standard().into_iter().filter(|id| *id != "cmdline") {
        assert_eq!(codes(&report, id), ["FABRIC-UNREADABLE"], "{id}");
    }
    assert_eq!(test(&report, "cmdline")["outcome"], "pass");
}

#[test]
fn a_mandatory_test_that_is_left_out_costs_the_verdict_and_another_does_not() {
    let machine = Machine::small();
    verdict(
        &machine,
        "--set expect.gpus=0 validate --skip links,display",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    verdict(&machine, "--set expect.gpus=0 validate --skip acs", 2, "FIRSTLIGHT verdict=ERROR failed=acs");
    let said = machine.run("--set expect.gpus=0 validate --only gpus,iommu,cpus,drivers,fabric");
    assert_eq!(said.status, 2);
    assert!(
        said.out.contains("TEST-NOT-RUN       cmdline, driver, patch, nodes, bar1, acs, cuda,\n"),
        "{}",
        said.out
    );
    verdict(&machine, "--set validate.skip=acs validate", 2, "FIRSTLIGHT verdict=ERROR failed=gpus,acs");
    verdict(
        &Machine::recorded("epyc-8x4090"),
        "validate --skip driver-params,bar1-static,xid",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
}

#[test]
fn what_the_configuration_asks_of_the_iommu_decides() {
    let machine = Machine::small();
    machine.write("proc/cmdline", "iommu=pt pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance");
    machine.write("sys/kernel/iommu_groups/0/type", "identity\n");
    let words = |iommu| format!("--set expect.gpus=0 --set fabric.iommu={iommu} validate");
    verdict(&machine, &words("pt"), 0, "FIRSTLIGHT verdict=PASS failed=none");
    verdict(&machine, &words("firmware"), 0, "FIRSTLIGHT verdict=PASS failed=none");
    verdict(&machine, &words("off"), 1, "FIRSTLIGHT verdict=FAIL failed=cmdline,iommu");
}
