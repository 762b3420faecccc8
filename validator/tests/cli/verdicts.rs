//! Machines and their verdicts: a good one of each kind, and the effect of a single defect.

use super::machine::{Machine, codes, firstlight, standard, test};
use std::fs;
use std::os::unix::fs::symlink;

#[track_caller]
fn verdict(machine: &Machine, words: &str, status: i32, last_line: &str) {
    let run = machine.run(words);
    let last = run.out.lines().last().unwrap_or_default();
    let last = last.rsplit_once(" warned=").map_or(last, |(head, _)| head);
    assert_eq!(
        (run.status, last),
        (status, last_line),
        "{}{}",
        run.out,
        run.err
    );
}

/// The value of a key of the last line.
fn value(out: &str, key: &str) -> String {
    let line = out.lines().last().unwrap();
    let words: Vec<_> = line
        .split(' ')
        .filter_map(|word| word.split_once('='))
        .collect();
    let keys: Vec<_> = words.iter().map(|(key, _)| *key).collect();
    assert_eq!(
        keys,
        [
            "verdict", "failed", "warned", "codes", "scope", "host", "seconds"
        ],
        "{line}"
    );
    words
        .iter()
        .find(|(name, _)| *name == key)
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn a_machine_without_gpus_passes_when_none_is_expected() {
    let machine = Machine::small();
    verdict(
        &machine,
        "--set expect.gpus=0 validate",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    verdict(
        &machine,
        "validate",
        2,
        "FIRSTLIGHT verdict=ERROR failed=gpus",
    );
    verdict(
        &machine,
        "--set expect.gpus=2 validate",
        1,
        "FIRSTLIGHT verdict=FAIL failed=gpus",
    );
}

#[test]
fn a_server_with_eight_gpus_passes_and_one_gpu_less_fails() {
    let machine = Machine::modelled("epyc-8x4090");
    let fabric = "--set expect.gpus=8 validate --scope fabric";
    verdict(&machine, fabric, 0, "FIRSTLIGHT verdict=PASS failed=none");
    fs::remove_file(machine.at("sys/bus/pci/devices/0000:c1:00.0")).unwrap();
    verdict(
        &machine,
        "--set expect.gpus=8 validate",
        1,
        "FIRSTLIGHT verdict=FAIL failed=gpus",
    );
}

#[test]
fn every_modelled_machine_gets_the_verdict_that_it_is_modelled_for() {
    for (name, status, failed) in [
        ("bar1-256m", 1, "FAIL failed=bar1,bar1-static"),
        ("boot-display", 3, "DEGRADED failed=none"),
        ("dead-gpu", 1, "FAIL failed=fabric"),
        ("driver-mismatch", 1, "FAIL failed=driver"),
        ("epyc-8x4090", 0, "PASS failed=none"),
        ("epyc-8x4090-before", 1, "FAIL failed=bar1,acs"),
        ("h200-vm", 0, "PASS failed=none"),
        ("intel-pch", 1, "FAIL failed=bar1,acs"),
        ("iommu-translated", 1, "FAIL failed=iommu,acs"),
        ("lost-cpus", 1, "FAIL failed=cpus"),
        ("malformed-chain", 2, "ERROR failed=acs"),
        ("narrow-link", 3, "DEGRADED failed=none"),
        ("no-ecam", 1, "FAIL failed=acs"),
        ("nouveau", 1, "FAIL failed=drivers,driver"),
        ("patch-broken", 1, "FAIL failed=patch"),
        ("second-domain", 0, "PASS failed=none"),
        ("switch-acs", 1, "FAIL failed=acs"),
    ] {
        let machine = Machine::modelled(name);
        verdict(
            &machine,
            "validate --scope fabric",
            status,
            &format!("FIRSTLIGHT verdict={failed}"),
        );
        // Its files prove nothing about the machine itself, but they can disprove.
        let of_the_machine = match failed.split_once(' ') {
            Some(("PASS" | "DEGRADED", _)) => (2, "ERROR failed=scope".to_owned()),
            _ => (status, failed.to_owned()),
        };
        let line = format!("FIRSTLIGHT verdict={}", of_the_machine.1);
        verdict(&machine, "validate", of_the_machine.0, &line);
    }
}

/// What the reader needs first: who holds the GPUs, and one thing to do about it.
#[test]
fn gpus_of_another_driver_have_one_cause_that_names_it() {
    let machine = Machine::modelled("nouveau");
    let run = machine.run("validate");
    assert_eq!(
        value(&run.out, "codes"),
        "DRIVER-FOREIGN,SCOPE-UNPROVEN",
        "{}",
        run.out
    );
    let answer =
        "\nANSWER   P2P: UNKNOWN, nouveau is bound to the GPU instead of NVIDIA's driver\n";
    assert!(run.out.contains(answer), "{}", run.out);
    assert_eq!(run.out.matches("FAIL   DRIVER-").count(), 1, "{}", run.out);
    assert!(
        run.out.contains("`module_blacklist=nouveau`") && !run.out.contains("=loaded"),
        "{}",
        run.out
    );
}

#[test]
fn gpus_of_virtual_machines_are_tested_there_and_the_answer_says_so() {
    let machine = Machine::modelled("rtx5090-unbound");
    for gpu in ["0000:01:00.0", "0000:02:00.0"] {
        symlink(
            "../../../../bus/pci/drivers/vfio-pci",
            machine.at(&format!("sys/bus/pci/devices/{gpu}/driver")),
        )
        .unwrap();
    }
    let run = machine.run("validate");
    assert_eq!(
        (run.status, value(&run.out, "codes").as_str()),
        (2, "SCOPE-UNPROVEN"),
        "{}",
        run.out
    );
    assert!(
        run.out
            .contains("\nANSWER   P2P: UNKNOWN, the GPUs are passed to virtual machines\n"),
        "{}",
        run.out
    );
    assert!(
        run.out
            .contains("\nFIRST    run firstlight in those virtual machines"),
        "{}",
        run.out
    );
}

#[test]
fn a_modelled_machine_is_no_pass_in_any_form_and_its_fabric_says_that_it_is_only_that() {
    let machine = Machine::modelled("epyc-8x4090");
    for (words, status, verdict, scope) in [
        ("", 2, "ERROR", "machine"),
        ("--scope fabric", 0, "PASS", "fabric"),
        ("--only acs", 0, "PASS", "only:acs"),
    ] {
        let file = machine.at("report.json");
        let run = machine.run(&format!(
            "validate {words} --json {} --text -",
            file.display()
        ));
        assert_eq!(
            (run.status, value(&run.out, "scope").as_str()),
            (status, scope),
            "{}",
            run.out
        );
        assert!(
            run.out.contains(&format!("\nSCOPE    {scope}: ")),
            "{}",
            run.out
        );
        let report: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(
            (&report["verdict"], &report["scope"]),
            (&verdict.into(), &scope.into())
        );
        let covers = report["covers"].as_str().unwrap();
        assert!(
            covers.ends_with(&format!(
                "; the machine in {}",
                machine.at("").display().to_string().trim_end_matches('/')
            )),
            "{covers}"
        );
        for (form, text) in [
            (
                "junit",
                format!("<property name=\"scope\" value=\"{scope}\"/>"),
            ),
            (
                "prometheus",
                format!("\nfirstlight_scope{{scope=\"{scope}\"}} 1\n"),
            ),
            ("html", format!("<p>Scope {scope}: ")),
            ("text", format!(" scope={scope} host=")),
            ("json", format!("\"scope\": \"{scope}\"")),
        ] {
            let shown = firstlight(&format!("render {} --to {form}", file.display()))
                .output()
                .unwrap();
            assert!(
                String::from_utf8_lossy(&shown.stdout).contains(&text),
                "{form}: {text}"
            );
        }
        let env = firstlight(&format!("env {}", file.display()))
            .output()
            .unwrap();
        assert!(
            String::from_utf8_lossy(&env.stdout).contains(&format!("\nFIRSTLIGHT_SCOPE={scope}\n"))
        );
    }
    let run = machine.run("validate");
    assert_eq!(value(&run.out, "codes"), "SCOPE-UNPROVEN");
    let lacking = "cuda, p2p-capability, p2p-integrity, nccl had";
    assert!(
        run.out
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains(lacking),
        "{}",
        run.out
    );
}

#[test]
fn the_last_line_has_a_reason_for_every_verdict_and_names_the_machine() {
    let machine = Machine::modelled("narrow-link");
    machine.write("proc/sys/kernel/hostname", "node7\n");
    let run = machine.run("validate --scope fabric");
    let values = ["verdict", "failed", "warned", "codes", "host"].map(|key| value(&run.out, key));
    assert_eq!(
        values,
        ["DEGRADED", "none", "links", "LINK-NARROW", "node7"]
    );
    machine.write("proc/sys/kernel/hostname", "x verdict=PASS\n");
    assert_eq!(
        value(&machine.run("validate").out, "host"),
        "x?verdict?PASS"
    );
}

/// A machine as recommended by guides: `iommu=pt`, translation off, and none of the words of firstlight's kernel.
#[test]
fn another_kernels_words_are_told_and_what_they_are_for_is_judged() {
    let machine = Machine::modelled("epyc-8x4090");
    machine.write(
        "proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=UUID=x ro quiet iommu=pt amd_iommu=on\n",
    );
    machine.write("sys/kernel/iommu_groups/0/type", "identity\n");
    fs::create_dir(machine.at("sys/class/iommu/ivhd0")).unwrap();
    verdict(
        &machine,
        "validate --scope fabric",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    machine.write("sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
    verdict(
        &machine,
        "validate --scope fabric",
        1,
        "FIRSTLIGHT verdict=FAIL failed=iommu",
    );
    machine.write("sys/kernel/iommu_groups/0/type", "identity\n");
    // The same words in firstlight's own image are not those that it was built with.
    let image = r#"{"version":"0.1.0","image_id":"ab","manifest_sha256":null}"#;
    machine.write("etc/firstlight/image.json", image);
    verdict(
        &machine,
        "validate --scope fabric",
        1,
        "FIRSTLIGHT verdict=FAIL failed=cmdline,iommu",
    );
}

/// The affected test, the defect, the test's outcome, and the code of its finding.
type Spoilt = (&'static str, fn(&Machine), &'static str, &'static str);

/// The same with firstlight's own kernel.
fn own(machine: &Machine) -> &Machine {
    machine.write("proc/sys/kernel/osrelease", "6.12.107-firstlight\n");
    machine
}

#[test]
fn each_single_spoilt_thing_costs_the_pass() {
    let spoilt: [Spoilt; 8] = [
        (
            "cmdline",
            |m| own(m).write("proc/cmdline", "iommu=pt"),
            "fail",
            "CMDLINE-MISSING",
        ),
        (
            "cmdline",
            |m| fs::remove_file(m.at("proc/cmdline")).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "iommu",
            |m| own(m).write("sys/kernel/iommu_groups/0/type", "DMA\n"),
            "fail",
            "IOMMU-TRANSLATING",
        ),
        (
            "iommu",
            |m| fs::create_dir(own(m).at("sys/class/iommu/dmar0")).unwrap(),
            "fail",
            "IOMMU-NOT-OFF",
        ),
        (
            "iommu",
            |m| fs::remove_dir(own(m).at("sys/class/iommu")).unwrap(),
            "error",
            "IOMMU-UNKNOWN",
        ),
        (
            "cpus",
            |m| m.write("sys/devices/system/cpu/online", "0\n"),
            "fail",
            "CPUS-LOST",
        ),
        (
            "drivers",
            |m| m.write("sys/module/nouveau/initstate", "live\n"),
            "fail",
            "DRIVER-FOREIGN",
        ),
        (
            "drivers",
            |m| fs::remove_dir(m.at("sys/module")).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
    ];
    for (id, spoil, outcome, code) in spoilt {
        let machine = Machine::small();
        spoil(&machine);
        let report = machine.report("");
        assert_eq!(test(&report, id)["outcome"], outcome, "{code}: {report}");
        assert!(
            codes(&report, id).contains(&code.to_owned()),
            "{code}: {report}"
        );
    }
}

/// Nothing is demanded of another kernel's words, nor of the IOMMU where there is no GPU.
#[test]
fn what_is_not_demanded_is_no_finding() {
    for (id, file, text, outcome) in [
        ("cmdline", "proc/cmdline", "iommu=pt", "pass"),
        (
            "iommu",
            "sys/kernel/iommu_groups/0/type",
            "DMA\n",
            "not-applicable",
        ),
    ] {
        let machine = Machine::small();
        machine.write(file, text);
        let report = machine.report("");
        assert_eq!(test(&report, id)["outcome"], outcome, "{report}");
        assert_eq!(codes(&report, id), Vec::<String>::new(), "{report}");
    }
}

#[test]
fn lost_processors_are_laid_to_x2apic_when_the_kernel_says_so() {
    let machine = Machine::small();
    machine.write("sys/devices/system/cpu/online", "0\n");
    machine.write(
        "dev/kmsg",
        "4,9,1,-;CPU 1 has invalid APIC ID 100. Aborting bringup\n",
    );
    let report = machine.report("");
    let finding = &test(&report, "cpus")["findings"][0];
    assert!(
        finding["cause"]
            .as_str()
            .unwrap()
            .starts_with("x2APIC is off"),
        "{finding}"
    );
    assert_eq!(
        (&finding["measured"], &finding["expected"]),
        (&1.into(), &2.into())
    );
}

#[test]
fn a_kernel_that_had_an_oops_before_the_tests_is_degraded_and_one_with_nvidias_modules_passes() {
    let machine = Machine::small();
    machine.write("proc/sys/kernel/tainted", "12416\n");
    verdict(
        &machine,
        "--set expect.gpus=0 validate",
        3,
        "FIRSTLIGHT verdict=DEGRADED failed=none",
    );
    assert_eq!(codes(&machine.report(""), "xid"), ["KERNEL-TAINTED"]);
    machine.write("proc/sys/kernel/tainted", "12288\n");
    verdict(
        &machine,
        "--set expect.gpus=0 validate",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
}

#[test]
fn a_folder_that_is_no_machine_is_an_error_that_names_every_test() {
    let machine = Machine::small();
    fs::remove_dir_all(machine.at("sys/bus")).unwrap();
    let report = machine.report("");
    assert_eq!(report["verdict"], "ERROR");
    assert_eq!(report["fabric"], serde_json::Value::Null);
    assert_eq!(
        report["machine"]["bound_to"]["iommu"],
        serde_json::Value::Null
    );
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
    verdict(
        &machine,
        "--set expect.gpus=0 validate --skip acs",
        2,
        "FIRSTLIGHT verdict=ERROR failed=acs",
    );
    let run = machine
        .run("--set expect.gpus=0 --set validate.only=gpus,iommu,cpus,drivers,fabric validate");
    assert_eq!(run.status, 2);
    assert!(
        run.out
            .contains("TEST-NOT-RUN       cmdline, driver, patch, nodes, bar1, acs, cuda,\n"),
        "{}",
        run.out
    );
    // What the command line requests is answered.
    let only = "--set expect.gpus=0 validate --only";
    verdict(
        &machine,
        &format!("{only} gpus,iommu"),
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    verdict(
        &machine,
        "validate --only gpus,iommu",
        2,
        "FIRSTLIGHT verdict=ERROR failed=gpus",
    );
    verdict(
        &machine,
        &format!("{only} cuda"),
        2,
        "FIRSTLIGHT verdict=ERROR failed=scope",
    );
    verdict(
        &machine,
        "--set expect.min_p2p_gb_s=20 validate --only cpus",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    verdict(
        &machine,
        "--set validate.skip=acs validate",
        2,
        "FIRSTLIGHT verdict=ERROR failed=gpus,acs",
    );
    verdict(
        &Machine::modelled("epyc-8x4090"),
        "validate --scope fabric --skip driver-params,bar1-static,xid",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
}

#[test]
fn what_the_configuration_asks_of_the_iommu_decides() {
    let machine = Machine::small();
    machine.write(
        "proc/cmdline",
        "iommu=pt pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance",
    );
    machine.write("sys/kernel/iommu_groups/0/type", "identity\n");
    let words = |iommu| format!("--set expect.gpus=0 --set fabric.iommu={iommu} validate");
    verdict(
        &machine,
        &words("pt"),
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    verdict(
        &machine,
        &words("firmware"),
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
    verdict(
        &machine,
        &words("off"),
        1,
        "FIRSTLIGHT verdict=FAIL failed=iommu",
    );
    verdict(
        &machine,
        "--set expect.gpus=0 validate",
        0,
        "FIRSTLIGHT verdict=PASS failed=none",
    );
}
