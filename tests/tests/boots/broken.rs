//! Do the image's own programs ever report a PASS although something is broken? Tests in namespaces
//! (init/tests/process_one) inject hundreds of faults into process 1, its configuration and its children. Here the real
//! validator's report contradicts its exit status or covers less than the machine, and the firmware's variables keep
//! the cause of a failed boot.

use harness::{Boot, Booted, End};

fn boot(on_error: &str) -> Boot {
    let words = format!("firstlight.expect.gpus=0 firstlight.policy.on_error={on_error}");
    Boot::shipped()
        .workload("echo the workload ran")
        .append(&words)
}

/// Runs the script `instead` for the command `validate`, and the real validator for all other commands.
fn boot_with_validator(on_error: &str, instead: &str) -> Boot {
    let script =
        format!("case \" $* \" in *' validate '*)\n{instead}\n;; esac\nexec /t/firstlight \"$@\"");
    boot(on_error).validator(&script).unwrap()
}

#[track_caller]
fn assert_error(booted: &Booted, cause: &str) {
    let verdict = booted.verdict();
    assert_eq!(verdict.verdict, "ERROR", "{booted}");
    assert!(verdict.failed.contains(&"validator".to_owned()), "{booted}");
    let line = booted
        .lines()
        .find(|l| l.starts_with("VERDICT  ERROR"))
        .unwrap_or_else(|| panic!("{booted}"));
    assert!(
        line.to_lowercase().contains(cause),
        "{line:?} does not say {cause:?}"
    );
    booted.never_says("VERDICT  PASS");
    booted.never_says("verdict=PASS");
}

#[test]
fn a_report_that_contradicts_the_exit_status_is_an_error() {
    let lie = "/t/firstlight \"$@\" --skip iommu\nexit 0";
    let booted = boot_with_validator("workload", lie).run().unwrap();
    assert_error(&booted, "report");
    booted.says("the workload ran");
    // The real report says ERROR, because mandatory tests were left out.
    assert_eq!(booted.report().0["verdict"], "ERROR");
    assert_eq!(booted.json("firstlight/verdict.json")["verdict"], "ERROR");
    assert!(booted.find("firstlight/validated").is_none());
}

/// Exit status, report and last line agree on a PASS, but it covers less than the machine.
#[test]
fn a_pass_for_less_than_the_machine_is_an_error() {
    let booted = boot_with_validator("poweroff", "exec /t/firstlight \"$@\" --only iommu")
        .run()
        .unwrap();
    assert_error(&booted, "expected of \"machine\"");
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

/// On a machine with UEFI the firmware's variables keep the last lines of a failed boot; the next boot shows them once.
#[test]
fn the_next_boot_shows_why_the_last_one_failed() {
    let dir = tempfile::tempdir().unwrap();
    let variables = dir.path().join("variables.fd");
    let boot = || {
        let boot = Boot::shipped()
            .append("firstlight.expect.gpus=0")
            .workload("ls /sys/fs/pstore > /run/kept/left");
        boot.with_firmware(&variables)
            .unwrap()
            .append("firstlight.policy.on_error=poweroff")
    };
    let failed = boot().append("firstlight.report.keep=many").run().unwrap();
    let words = "INIT-CONFIG: kernel word firstlight.report.keep: report.keep: read many";
    failed.says(&format!("ERROR     {words}"));
    failed.never_says("last boot");
    failed.never_says("not in the firmware's store");
    failed.ended(&End::PowerOff);
    let next = boot().run().unwrap();
    next.says(&format!("last boot ERROR     {words}"));
    assert_eq!(next.text("kept/left"), "", "{next}");
}
