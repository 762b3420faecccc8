//! Does a mistake in the configuration stop the boot with one line that names the place, the key,
//! what was read and what is allowed? Never a guess, never a workload.

use harness::{Boot, Booted, End};
use std::time::Duration;

const WORKLOAD: &str = "echo the workload ran";

/// One line tells it, holding all of `parts`, and the verdict repeats it.
#[track_caller]
fn one_line(booted: &Booted, parts: &[&str]) {
    let lines: Vec<_> = booted.lines().filter(|line| parts.iter().all(|p| line.contains(p))).collect();
    let [told, verdict] = lines[..] else { panic!("{parts:?} in {lines:#?}\n{booted}") };
    assert!(told.starts_with("ERROR") && verdict.starts_with("VERDICT  ERROR"), "{lines:#?}");
}

#[track_caller]
fn stopped(booted: &Booted) {
    assert_eq!(booted.verdict().verdict, "ERROR", "{booted}");
    booted.never_says("the workload ran");
    booted.never_says("panic");
}

#[test]
fn a_misspelt_kernel_word_of_the_validators() {
    let boot = Boot::shipped().workload(WORKLOAD);
    let boot = boot.append("firstlight.expect.gpus=0 firstlight.policy.on_error=poweroff");
    let booted = boot.append("firstlight.validate.levle=quick").run().unwrap();
    stopped(&booted);
    one_line(&booted, &["validate.levle", "quick", "level"]);
    booted.ended(&End::PowerOff);
}

#[test]
fn a_misspelt_key_in_a_file() {
    let boot = Boot::shipped().workload(WORKLOAD).append("firstlight.expect.gpus=0");
    let config = "[policy]\non_error = \"poweroff\"\n[driver]\nlaod = false\n";
    let booted = boot.config(config).run().unwrap();
    stopped(&booted);
    one_line(&booted, &["/etc/firstlight/config.d/50-test.toml", "driver.laod", "driver.load"]);
    booted.ended(&End::PowerOff);
}

/// Nobody knows what to do on an error when that very key cannot be read: the machine stays.
#[test]
fn an_impossible_value_of_the_policy_itself_holds_the_machine() {
    let boot = Boot::shipped().workload(WORKLOAD).append("firstlight.expect.gpus=0");
    let boot = boot.config("[policy]\non_error = \"explode\"\n");
    let booted = boot.stop_after("FIRSTLIGHT verdict", Duration::from_secs(4)).run().unwrap();
    stopped(&booted);
    one_line(&booted, &["50-test.toml", "policy.on_error", "\"explode\"", "hold", "poweroff"]);
    booted.ended(&End::StillRunning);
}

/// On a machine with EFI the last words of a fault are in the firmware's store; the next boot shows them, once.
#[test]
fn the_next_boot_tells_what_the_last_one_died_of() {
    let dir = tempfile::tempdir().unwrap();
    let variables = dir.path().join("variables.fd");
    let boot = || {
        let boot =
            Boot::shipped().append("firstlight.expect.gpus=0").workload("ls /sys/fs/pstore > /run/kept/left");
        boot.with_firmware(&variables).unwrap().append("firstlight.policy.on_error=poweroff")
    };
    let died = boot().append("firstlight.report.keep=many").run().unwrap();
    let words = "INIT-CONFIG: kernel word firstlight.report.keep: report.keep: read many";
    died.says(&format!("ERROR     {words}"));
    died.never_says("last boot");
    died.never_says("not in the firmware's store");
    died.ended(&End::PowerOff);
    let next = boot().run().unwrap();
    next.says(&format!("last boot ERROR     {words}"));
    assert_eq!(next.text("kept/left"), "", "{next}");
    boot().run().unwrap().never_says("last boot");
}
