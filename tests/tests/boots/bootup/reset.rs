//! After a reset during a step: does the next boot report it, and skip the step until the mark is cleared?

use harness::simgpu::{Scenario, overlay};
use harness::stick::Fat;
use harness::{Boot, Booted, End};
use std::path::Path;

const WORDS: &str =
    "firstlight.expect.gpus=0 firstlight.validate.level=quick firstlight.policy.on_error=poweroff";
/// The driver image.
const DRIVER: &str = "/usr/lib/firstlight/driver.squashfs";

/// A machine with UEFI firmware, whose variables persist across boots.
fn machine(variables: &Path) -> Boot {
    Boot::shipped()
        .driver()
        .with_firmware(variables)
        .unwrap()
        .append(WORDS)
}

/// Makes the step print that it began, and then hang for minutes.
fn hanging(boot: Boot, step: &str) -> Boot {
    let says = format!("echo \"now in {step}\" > /dev/console");
    if step == "driver-load" {
        // The driver's start waits for a pipe to which no program writes.
        let first = format!(
            "#!/bin/sh\nPATH=/bin:/sbin:/usr/bin:/usr/sbin\nmknod /dev/null c 1 3\nrm {DRIVER}\nmkfifo {DRIVER} || mknod {DRIVER} p\n\
             ( until grep -qs load-driver /proc/[0-9]*/cmdline; do sleep 1; done; sleep 1; {says} ) &\n\
             exec /init\n"
        );
        return boot
            .overlay(|o| o.program("t/first", first))
            .append("rdinit=/t/first");
    }
    let command = if step == "fabric" {
        "*fabric*fix*"
    } else {
        "*' validate '*"
    };
    boot.validator(&format!(
        "case \" $* \" in {command}) {says}; sleep 600 ;; esac\nexec /t/firstlight \"$@\""
    ))
    .unwrap()
}

#[track_caller]
fn reset_during(boot: Boot, step: &str) {
    let booted = hanging(boot, step)
        .reset_at(&format!("now in {step}"))
        .run()
        .unwrap();
    booted.ended(&End::Other("host-qmp-system-reset".to_owned()));
}

/// Checks the verdict, its cause, and which stages did not run.
#[track_caller]
fn assert_vetoed(booted: &Booted, step: &str) {
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), verdict.failed[0].as_str()),
        ("ERROR", "reset"),
        "{booted}"
    );
    assert_eq!(verdict.codes, ["RESET-DURING"], "{booted}");
    booted.says(&format!(
        "VERDICT  ERROR   reset: the machine was reset during {step}; image "
    ));
    let skipped = |stage: &str| {
        booted
            .lines()
            .any(|l| l.starts_with(&format!("{stage:<9} ERROR: not run: ")))
    };
    assert_eq!(skipped("fabric"), step == "fabric", "{booted}");
    assert_eq!(skipped("driver"), step != "validate", "{booted}");
    booted.says("validate  the validator was not run");
}

#[test]
fn a_step_is_named_and_vetoed_and_the_kernel_word_allows_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let variables = dir.path().join("variables.fd");
    reset_during(machine(&variables), "driver-load");
    let booted = machine(&variables).run().unwrap();
    assert_vetoed(&booted, "driver-load");
    booted.ended(&End::PowerOff);
    let again = machine(&variables)
        .append("firstlight.reset=clear")
        .run()
        .unwrap();
    again.says("reset     firstlight.reset=clear: no mark is left");
    assert_eq!(again.verdict().verdict, "PASS", "{again}");
}

/// A machine with two simulated GPUs and UEFI firmware; after a fault or an error it powers off.
fn with_gpus(variables: &Path, scenario: &str, words: &str) -> Boot {
    let files = overlay(&Scenario::named(scenario).unwrap().gpus(2)).unwrap();
    let boot = Boot::shipped()
        .memory(2048)
        .overlay(|_| files)
        .with_firmware(variables)
        .unwrap();
    boot.append("firstlight.policy.on_error=poweroff firstlight.policy.on_fail=poweroff")
        .append(words)
}

/// Shows the mark, clears it, and shows that it is gone.
const COMMANDS: &str = "cd /run/kept
firstlight reset > shown; echo $? >> shown
firstlight reset clear > cleared; echo $? >> cleared
firstlight reset > after; echo $? >> after";

/// Resets the machine when the mark has the part's name. The next boot skips only the tests of this part, and its workload
/// clears the mark.
#[track_caller]
fn assert_part_vetoed(part: &str, scenario: &str, words: &str, runs: &[&str], is_not_run: &str) {
    let dir = tempfile::tempdir().unwrap();
    let variables = dir.path().join("variables.fd");
    let script = format!(
        "( until grep -qs step={part} /sys/firmware/efi/efivars/FirstlightMark-*; do sleep 1; done\n\
         echo \"now in {part}\" > /dev/console ) &\nexec /t/firstlight \"$@\""
    );
    let first = with_gpus(&variables, scenario, words)
        .validator(&script)
        .unwrap();
    let first = first.reset_at(&format!("now in {part}")).run().unwrap();
    first.ended(&End::Other("host-qmp-system-reset".to_owned()));
    let second = with_gpus(&variables, "healthy", words).workload(COMMANDS);
    let booted = second
        .append("firstlight.policy.on_error=workload")
        .run()
        .unwrap();
    assert_eq!(booted.verdict().verdict, "ERROR", "{booted}");
    let shown = booted.text("kept/shown");
    let begins = format!("EFI variable: reset during {part}; image ");
    assert!(
        shown.starts_with(&begins) && shown.ends_with("\n1"),
        "{shown}"
    );
    assert_eq!(booted.text("kept/cleared"), "EFI variable: removed\n0");
    assert_eq!(booted.text("kept/after"), "EFI variable: no mark\n0");
    booted.says(&format!(
        "VERDICT  ERROR   reset: the machine was reset during {part}; image "
    ));
    let mut rows = booted
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
    assert!(
        runs.iter()
            .all(|test| rows.any(|row| row == ["PASS", test])),
        "{booted}"
    );
    assert!(
        !booted
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some(is_not_run)),
        "{booted}"
    );
}

#[test]
fn after_a_reset_during_the_first_transfers_between_gpus_each_gpu_is_tested_alone() {
    let words = "firstlight.validate.level=quick";
    assert_part_vetoed(
        "peer-write",
        "hang-copy",
        words,
        &["cuda", "host-bandwidth"],
        "p2p-capability",
    );
}

#[test]
fn after_a_reset_under_full_load_the_tests_with_full_load_are_skipped() {
    let words = "firstlight.validate.acceptance_s=60 firstlight.validate.only=cuda,gpu-memory,p2p-capability";
    assert_part_vetoed(
        "full-load",
        "healthy",
        words,
        &["cuda", "p2p-capability"],
        "gpu-memory",
    );
}

/// If the firmware has no variables, the mark is on the partition that keeps the reports.
#[test]
fn without_variables_the_data_partition_keeps_the_mark() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 4096).unwrap();
    let machine = || Boot::shipped().append(WORDS).stick(stick.file());
    reset_during(machine(), "validate");
    let mark = String::from_utf8(stick.read("reset-mark").unwrap()).unwrap();
    assert!(
        mark.starts_with("firstlight-mark/1 step=validate image=") && mark.len() == 256,
        "{mark}"
    );
    let booted = machine().run().unwrap();
    assert_vetoed(&booted, "validate");
    let again = machine().append("firstlight.reset=clear").run().unwrap();
    assert_eq!(again.verdict().verdict, "PASS", "{again}");
    assert!(stick.read("reset-mark").is_err(), "{again}");
}
