//! A machine that was reset during a step reports this at the next boot and does not run the step again until the mark is
//! cleared.

use super::CONFIG;
use super::namespace::Disk;
use super::namespace::{Down, Machine, PASS, json};
use serde_json::json;
use std::fs;
use std::process::Command;

const MARK: &str = "variables/FirstlightMark-6e0f3c1a-52d4-4b0e-9a77-c8d15b2f94e3";
const IMAGE: &str = r#"{ "version": "0.1.0", "image_id": "5f1d989d03a878d8" }"#;
/// The file that makes the driver's start hang.
const DRIVER: &str = "usr/lib/firstlight/driver.squashfs";
/// Replaces the validator: it hangs in the fabric pass and in the tests.
const HANGS: &str = "#!/bin/sh\nsleep 600\n";

fn machine() -> Machine {
    let m = Machine::new(PASS, CONFIG)
        .workload("echo WORKLOAD RUNS")
        .variables();
    fs::write(m.path("etc/firstlight/image.json"), IMAGE).unwrap();
    m
}

/// The machine after a reset during the step, as it was before.
fn reset_during(step: &str) -> Machine {
    let m = machine();
    let firstlight = m.path("usr/bin/firstlight");
    let good = fs::read_to_string(&firstlight).unwrap();
    let m = match step {
        "fabric" => m.program("usr/bin/firstlight", HANGS),
        "driver-load" => m.pipe(DRIVER),
        _ => m.program("usr/bin/firstlight", &good.replace(PASS, "sleep 600")),
    };
    let mut running = m.boot();
    running.until_file(MARK, &format!("step={step} image=5f1d989d03a878d8 boot="));
    let m = running.reset().program("usr/bin/firstlight", &good);
    let _hangs_no_more = fs::remove_file(m.path(DRIVER));
    m
}

/// Boots, and checks that the step and those after it are not run.
#[track_caller]
fn vetoed(m: Machine, step: &str) -> Machine {
    let (down, m, console) = m.boot().held_or_down();
    // A reboot would change nothing, and the policy asks for one.
    assert_eq!(down, Down::PoweredOff, "{console}");
    let line = "decide    ERROR: policy.on_error = reboot, but RESET-DURING is for a person to clear: hold ";
    assert!(console.contains(line), "{console}");
    assert!(!console.contains("WORKLOAD RUNS"), "{console}");
    let verdict = json(&m, "verdict.json");
    assert_eq!(
        (&verdict["verdict"], &verdict["codes"]),
        (&json!("ERROR"), &json!(["RESET-DURING"]))
    );
    assert_eq!(verdict["failed"][0], json!("reset"));
    let cause = verdict["cause"].as_str().unwrap();
    let begins = format!(
        "reset: the machine was reset during {step}; image 5f1d989d03a878d8; last finding "
    );
    assert!(
        cause.starts_with(&begins) && cause.contains("firstlight.reset=clear"),
        "{cause}"
    );
    assert!(
        console.contains(&format!("reset     RESET-DURING {step} ")),
        "{console}"
    );
    let calls = fs::read_to_string(m.path("run-outside/calls")).unwrap_or_default();
    assert_eq!(calls.contains("fabric fix"), step != "fabric", "{calls}");
    assert!(!calls.contains(" validate "), "{calls}");
    assert_eq!(
        m.path("run-outside/firstlight/driver.json").exists(),
        step == "validate",
        "{console}"
    );
    let skipped = ["fabric", "driver"].iter().filter(|stage| {
        console.contains(&format!("{stage:<9} ERROR: not run: RESET-DURING {step} "))
    });
    assert_eq!(
        skipped.count(),
        ["validate", "driver-load", "fabric"]
            .iter()
            .position(|s| *s == step)
            .unwrap()
    );
    let mark = fs::read_to_string(m.path(MARK)).unwrap();
    assert!(
        mark.contains(&format!("step={step} ")) && mark.len() == 260,
        "{mark}"
    );
    m.again()
}

#[track_caller]
fn passes(m: Machine) -> (Machine, String) {
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert_eq!(
        json(&m, "verdict.json")["verdict"],
        json!("PASS"),
        "{console}"
    );
    assert!(!m.path(MARK).exists(), "{console}");
    (m.again(), console)
}

#[test]
fn each_step_is_named_and_vetoed_at_every_boot_until_the_kernel_word_clears_it() {
    for step in ["fabric", "driver-load", "validate"] {
        let m = vetoed(vetoed(reset_during(step), step), step).cmdline("firstlight.reset=clear");
        let (m, console) = passes(m);
        assert!(
            console.contains("reset     firstlight.reset=clear: no mark is left\n"),
            "{console}"
        );
        passes(m.cmdline("quiet"));
    }
}

#[test]
fn a_boot_that_passes_every_step_leaves_no_mark_even_when_it_is_asked_to_reboot() {
    let (m, console) = passes(machine());
    assert!(
        console.contains("reset     no mark of an earlier boot; kept in an EFI variable "),
        "{console}"
    );
    let good = fs::read_to_string(m.path("usr/bin/firstlight")).unwrap();
    let mut running = m
        .program("usr/bin/firstlight", &good.replace(PASS, "sleep 600"))
        .boot();
    running.until_file(MARK, "step=validate ");
    running.signal("INT");
    let (down, m, console) = running.down();
    assert_eq!(down, Down::Rebooted, "{console}");
    assert!(!m.path(MARK).exists(), "{console}");
}

#[test]
fn another_image_tries_again() {
    let m = reset_during("validate");
    fs::write(
        m.path("etc/firstlight/image.json"),
        IMAGE.replace("5f1d", "6f1d"),
    )
    .unwrap();
    let (_, console) = passes(m);
    let line = "reset     image 5f1d989d03a878d8 was reset during validate; this one tries again";
    assert!(console.contains(line), "{console}");
}

#[test]
fn without_variables_the_mark_is_on_the_data_partition_and_without_that_there_is_none() {
    let (_, _, console) = Machine::new(PASS, CONFIG).workload("exit 0").boot().down();
    assert!(
        console.contains("reset     no place for a mark: no EFI variables, no data partition "),
        "{console}"
    );

    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::of(folder.path());
    let device = format!("/dev/{}", disk.name);
    let word = format!("firstlight.report.partition={device}");
    let m = Machine::new("echo waiting; sleep 600", CONFIG)
        .device(&disk.name)
        .cmdline(&word);
    let good = fs::read_to_string(m.path("usr/bin/firstlight")).unwrap();
    let mut running = m.workload("exit 0").boot();
    running.until("waiting");
    let m = running.reset();
    let mark = Command::new("debugfs")
        .args(["-R", "cat /reset-mark", &device])
        .output()
        .unwrap();
    let mark = String::from_utf8(mark.stdout).unwrap();
    assert!(
        mark.starts_with("firstlight-mark/1 step=validate image=none ") && mark.len() == 256,
        "{mark}"
    );
    let (_, m, console) = m.boot().held_or_down();
    assert!(
        console.contains("reset     RESET-DURING validate "),
        "{console}"
    );
    let m = m.again().program(
        "usr/bin/firstlight",
        &good.replace("echo waiting; sleep 600", PASS),
    );
    let (down, _, console) = m
        .cmdline(&format!("{word} firstlight.reset=clear"))
        .boot()
        .down();
    assert!(
        console.contains("reset     no mark of an earlier boot; kept in /dev/loop"),
        "{console}"
    );
    assert_eq!(down, Down::PoweredOff, "{console}");
    let left = Command::new("debugfs")
        .args(["-R", "ls /", &device])
        .output()
        .unwrap();
    assert!(
        !String::from_utf8(left.stdout)
            .unwrap()
            .contains("reset-mark")
    );
}

/// Boots three times to a reboot, which the mark counts, and a fourth time.
#[track_caller]
fn reboots_three_times_and_holds(mut m: Machine, line: &str) -> Machine {
    for count in 1..=3 {
        let (down, same, console) = m.boot().held_or_down();
        assert_eq!(down, Down::Rebooted, "boot {count}: {console}");
        let mark = fs::read_to_string(same.path(MARK)).unwrap();
        assert!(
            mark.contains(" step=reboot ") && mark.contains(&format!(" count={count} ")),
            "{mark}"
        );
        m = same.again();
    }
    for _ in 0..2 {
        let (down, same, console) = m.boot().held_or_down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert!(console.contains(line), "{console}");
        m = same.again();
    }
    m
}

#[test]
fn a_machine_whose_policy_is_to_reboot_holds_after_three_in_a_row_until_it_is_cleared_or_good() {
    let m = machine();
    let good = fs::read_to_string(m.path("usr/bin/firstlight")).unwrap();
    let m = m.program("usr/bin/firstlight", &good.replace(PASS, "exit 9"));
    let line = "ERROR: policy.on_error = reboot, but it has rebooted 3 times in a row (policy.max_reboots): hold ";
    let m = reboots_three_times_and_holds(m, line);
    let (down, m, console) = m.cmdline("firstlight.reset=clear").boot().held_or_down();
    assert_eq!(down, Down::Rebooted, "{console}");
    let (_, console) = passes(
        m.again()
            .program("usr/bin/firstlight", &good)
            .cmdline("quiet"),
    );
    assert!(
        console.contains("reset     reboots by the policy in a row: 1 "),
        "{console}"
    );
}

#[test]
fn a_machine_whose_configuration_is_invalid_holds_after_three_reboots_as_well() {
    let m = machine().file(
        "etc/firstlight/config.toml",
        format!("{CONFIG}[driver2]\nload = 3\n"),
    );
    reboots_three_times_and_holds(
        m,
        "policy    on_error = reboot, but it has rebooted 3 times in a row (policy.max_reboots): hold\n",
    );
}
