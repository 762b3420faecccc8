//! The commands `fabric` and `topo`: statuses, JSON, and a machine that passes after `fix`.

use super::machine::{Machine, test};
use serde_json::Value;
use std::fs;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_machine_with_acs_on_is_planned_fixed_and_restored() {
    let machine = Machine::modelled("switch-acs");
    let shown = machine.run("fabric show --json -");
    assert_eq!(
        (shown.status, json(&shown.out)["schema"].as_str()),
        (1, Some("firstlight.fabric/1"))
    );
    let plan = machine.run("fabric plan --json -");
    assert_eq!(
        (plan.status, json(&plan.out)["schema"].as_str()),
        (0, Some("firstlight.plan/1"))
    );
    let writes = json(&plan.out)["actions"].as_array().unwrap().len();
    assert!(writes > 0 && !machine.at("run").exists());
    let fixed = machine.run("fabric fix --json -");
    assert_eq!(
        (
            fixed.status,
            json(&fixed.out)["entries"].as_array().unwrap().len()
        ),
        (0, writes)
    );
    assert!(machine.at("run/firstlight/fabric.json").is_file());
    let report = json(&machine.run("validate --json -").out);
    assert_eq!(test(&report, "acs")["outcome"], "pass");
    let restored = machine.run("fabric restore --json -");
    assert_eq!(
        (restored.status, json(&restored.out)["schema"].as_str()),
        (0, Some("firstlight.restore/1"))
    );
    let report = json(&machine.run("validate --json -").out);
    assert_eq!(test(&report, "acs")["outcome"], "fail");
}

#[test]
fn the_policy_comes_from_the_command_line_over_the_configuration() {
    let machine = Machine::modelled("switch-acs");
    let writes = |words: &str| {
        json(&machine.run(words).out)["actions"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(writes("--set fabric.acs=off fabric plan --json -"), 0);
    assert!(writes("--set fabric.acs=off fabric plan --acs all --json -") > 0);
}

#[test]
fn small_bar1s_are_planned_tried_and_told() {
    let machine = Machine::modelled("rebar-small");
    let plan = json(&machine.run("fabric plan --json -").out);
    let first = &plan["rebar"][0];
    assert_eq!(
        (first["bdf"].as_str(), first["bar"].as_u64()),
        (Some("0000:03:00.0"), Some(1))
    );
    assert_eq!(first["wanted_bytes"].as_u64(), Some(32 << 30));
    assert_eq!(plan["rebar"].as_array().unwrap().len(), 3);
    for words in [
        "--set fabric.rebar=check fabric plan --json -",
        "fabric plan --rebar check --json -",
    ] {
        assert_eq!(
            json(&machine.run(words).out)["rebar"],
            Value::Array(vec![]),
            "{words}"
        );
    }
    let text = machine.run("fabric plan").out;
    assert!(
        text.contains("  would resize  0000:06:00.0 BAR1 256 MiB -> 32 GiB\n"),
        "{text}"
    );
    // A machine that is only files in a folder has no kernel.
    let fixed = machine.run("fabric fix");
    assert_eq!(fixed.status, 0, "{}", fixed.err);
    let last = fixed.out.lines().last();
    assert_eq!(
        last,
        Some("ACS path: none to clear; BAR1 0 of 3 full; REBAR-REFUSED")
    );
    let journal = json(&fs::read_to_string(machine.at("run/firstlight/fabric.json")).unwrap());
    assert_eq!(journal["bars"][0]["finding"], "REBAR-REFUSED");
    assert_eq!(journal["findings"][0]["code"], "REBAR-REFUSED");
    let restored = machine.run("fabric restore");
    assert_eq!(restored.status, 0, "{}", restored.out);
    assert!(
        restored
            .out
            .contains("0000:03:00.0 BAR1 is 256 MiB already"),
        "{}",
        restored.out
    );
}

#[test]
fn a_port_that_may_not_be_written_is_status_1() {
    let machine = Machine::modelled("intel-pch");
    let journal = machine.at("journal.json");
    let run = machine.run(&format!("fabric fix --journal {}", journal.display()));
    assert_eq!(run.status, 1, "{}", run.out);
    assert!(run.out.contains("ACS-QUIRK"), "{}", run.out);
}

/// Two machines of one kind, each with its own journal.
#[test]
fn another_machines_journal_is_refused_and_nothing_is_written() {
    let [own, other] = ["switch-acs"; 2].map(Machine::modelled);
    assert_eq!([&own, &other].map(|m| m.run("fabric fix").status), [0, 0]);
    let journal = other.at("run/firstlight/fabric.json");
    let run = own.run(&format!("fabric restore --journal {}", journal.display()));
    assert_eq!((run.status, run.err.lines().count()), (2, 1), "{}", run.err);
    assert!(run.err.contains("was written for the root"), "{}", run.err);
    let restored = own.run("fabric restore");
    assert_eq!(
        (restored.status, restored.out.matches(" -> 0x001d").count()),
        (0, 4),
        "{}",
        restored.out
    );
}

#[test]
fn what_cannot_be_done_is_status_2_with_one_line() {
    let machine = Machine::small();
    let run = machine.run("fabric restore");
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(
        run.err
            .contains("fabric.json: it is unknown what was changed"),
        "{}",
        run.err
    );
    fs::remove_dir_all(machine.at("sys")).unwrap();
    for command in ["fabric show", "fabric plan", "fabric fix", "topo"] {
        let run = machine.run(command);
        assert_eq!(
            (run.status, run.err.lines().count()),
            (2, 1),
            "{command}: {}",
            run.err
        );
        assert!(run.err.contains("cannot list PCI functions"), "{}", run.err);
    }
}

#[test]
fn the_matrix_is_printed_as_text_and_as_json() {
    let machine = Machine::modelled("epyc-8x4090");
    let text = machine.run("topo");
    assert_eq!(text.status, 0);
    assert!(
        text.out.contains("\n\n\tGPU0\tGPU1\t") && text.out.contains("\nGPU0\t X \tSYS\t"),
        "{}",
        text.out
    );
    let topo = json(&machine.run("topo --json -").out);
    assert_eq!(
        (topo["schema"].as_str(), topo["matrix"][0][0].as_str()),
        (Some("firstlight.topo/1"), Some("X"))
    );
}

/// Text from sysfs must not move a terminal's cursor, nor break a line.
#[test]
fn control_characters_from_sysfs_do_not_reach_the_terminal() {
    let machine = Machine::modelled("epyc-8x4090");
    let evil = "\u{1b}[2Jevil\u{9b}31m";
    let class = machine.at("sys/class/infiniband").join(evil);
    fs::create_dir(&class).unwrap();
    std::os::unix::fs::symlink("../../../0000:c4:00.0", class.join("device")).unwrap();
    machine.write("sys/devices/system/node/online", &format!("0{evil}\n"));
    machine.write("sys/class/dmi/id/product_name", &format!("{evil}\n"));
    fs::create_dir(machine.at("sys/class/iommu").join(evil)).unwrap();
    machine.write("proc/cmdline", evil);
    for words in [
        "topo",
        "fabric show",
        "fabric plan",
        "fabric fix",
        "fabric restore",
        "validate",
    ] {
        let run = machine.run(words);
        let raw = |text: &str| {
            text.chars()
                .any(|c| c.is_control() && c != '\n' && c != '\t')
        };
        assert!(
            !raw(&run.out) && !raw(&run.err),
            "{words}: {:?} {:?}",
            run.out,
            run.err
        );
    }
    assert!(machine.run("topo").out.contains("\\u{1b}[2Jevil"));
}

/// Pipes instead of the files of the kernel and the firmware.
#[test]
fn pipes_in_the_place_of_files_are_told_and_not_waited_for() {
    let machine = Machine::modelled("epyc-8x4090");
    let files = [
        "proc/cmdline",
        "proc/sys/kernel/osrelease",
        "proc/devices",
        "sys/class/dmi/id/sys_vendor",
        "sys/firmware/acpi/tables/APIC",
        "sys/module/nvidia/version",
        "etc/firstlight/image.json",
        "dev/kmsg",
        "run/firstlight/driver.json",
        "run/firstlight/fabric.json",
    ];
    for file in files {
        let path = machine.at(file);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success(),
            "{file}"
        );
    }
    let start = std::time::Instant::now();
    let report = json(&machine.run("validate --level quick --json -").out);
    // A test that waited for a pipe would end at its deadline, after ten seconds.
    assert!(
        start.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_ne!(report["verdict"], "PASS");
    assert!(
        report.to_string().contains("not a regular file"),
        "{report}"
    );
}

/// Before any module is loaded, using only the kernel's files.
#[test]
fn the_map_of_all_memory_is_computed_before_the_driver_is_loaded() {
    let machine = Machine::modelled("rtx5090-unbound");
    let bar1 = |machine: &Machine| {
        let run = machine.run("validate --only bar1 --json -");
        let report: serde_json::Value =
            serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.err));
        report["tests"]
            .as_array()
            .unwrap()
            .iter()
            .find(|t| t["id"] == "bar1")
            .unwrap()
            .clone()
    };
    let test = bar1(&machine);
    assert_eq!(
        (&test["outcome"], &test["findings"]),
        (&"pass".into(), &serde_json::json!([])),
        "{test}"
    );
    // The first GPU drives the console.
    let graphics = machine.at("sys/class/graphics");
    fs::create_dir_all(&graphics).unwrap();
    let device =
        "../../devices/pci0000:00/0000:00:01.1/0000:01:00.0/simple-framebuffer.0/graphics/fb0";
    std::os::unix::fs::symlink(device, graphics.join("fb0")).unwrap();
    let test = bar1(&machine);
    let findings = test["findings"].as_array().unwrap();
    assert_eq!(
        (&test["outcome"], findings.len()),
        (&"warn".into(), 1),
        "{test}"
    );
    let finding = &findings[0];
    assert_eq!(
        (&finding["code"], &finding["subject"]),
        (&"BAR1-MAP-SHORT".into(), &"0000:01:00.0".into())
    );
    assert_eq!(
        (&finding["measured"], &finding["expected"]),
        (&32766.into(), &33128.into())
    );
    let remedy = finding["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("firstlight.console.screen=release"),
        "{remedy}"
    );
    assert_eq!(
        finding["evidence"][0],
        "Resizable BAR offers 64 MiB to 32 GiB"
    );
    // A board that is not in the table.
    let config = machine.at("sys/bus/pci/devices/0000:02:00.0/config");
    let device = machine.at("sys/bus/pci/devices/0000:02:00.0/device");
    let mut bytes = fs::read(&config).unwrap();
    bytes[2..4].copy_from_slice(&[0xff, 0x2f]);
    fs::write(&config, bytes).unwrap();
    fs::write(device, "0x2fff\n").unwrap();
    let test = bar1(&machine);
    let unknown = test["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["subject"] == "0000:02:00.0");
    let unknown: Vec<_> = unknown
        .map(|f| (f["code"].as_str().unwrap(), f["severity"].as_str().unwrap()))
        .collect();
    assert_eq!(
        unknown,
        [("BAR1-UNKNOWN", "warn"), ("BAR1-MAP-UNKNOWN", "info")],
        "{test}"
    );
}
