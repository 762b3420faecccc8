//! Is anything that is broken ever taken for a pass? A validator that does not do its work, missing, killed, hanging, silent
//! and lying, is an ERROR with its cause, and `policy.on_error` decides. A mistake in the configuration stops the boot with
//! one line that names the place, the key, what was read and what is allowed: never a guess, never a workload.

use harness::boot::VALIDATOR;
use harness::{Boot, Booted, End};
use std::time::Duration;

fn instead_of(on_error: &str) -> Boot {
    let words = format!("firstlight.expect.gpus=0 firstlight.policy.on_error={on_error}");
    Boot::shipped().workload("echo the workload ran").append(&words)
}

/// Runs the real validator for everything but `validate`, and for that `instead`.
fn with(on_error: &str, instead: &str) -> Boot {
    let script = format!("case \" $* \" in *' validate '*)\n{instead}\n;; esac\nexec /t/firstlight \"$@\"");
    instead_of(on_error).validator(&script).unwrap()
}

#[track_caller]
fn is_an_error(booted: &Booted, cause: &str) {
    let verdict = booted.verdict();
    assert_eq!(verdict.verdict, "ERROR", "{booted}");
    assert!(verdict.failed.contains(&"validator".to_owned()), "{booted}");
    let line = booted.lines().find(|l| l.starts_with("VERDICT  ERROR")).unwrap_or_else(|| panic!("{booted}"));
    assert!(line.to_lowercase().contains(cause), "{line:?} does not say {cause:?}");
    booted.never_says("VERDICT  PASS");
    booted.never_says("verdict=PASS");
}

#[test]
fn a_missing_validator() {
    let booted = instead_of("poweroff").overlay(|o| o.link(VALIDATOR, "/nowhere")).run().unwrap();
    is_an_error(&booted, "no such file");
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

#[test]
fn a_validator_that_a_signal_kills() {
    let booted = with("workload", "kill -SEGV $$").run().unwrap();
    is_an_error(&booted, "signal");
    booted.says("the workload ran");
    let verdict = booted.json("firstlight/verdict.json");
    assert_eq!((&verdict["verdict"], &verdict["exit_status"]), (&"ERROR".into(), &serde_json::Value::Null));
    assert!(verdict["cause"].as_str().unwrap().contains("signal"), "{verdict}");
    assert!(booted.find("firstlight/validated").is_none());
    assert!(booted.find("firstlight/report.json").is_none());
}

#[test]
fn a_validator_that_hangs_past_its_deadline() {
    let boot = with("reboot", "echo still thinking\nsleep 1000").append("firstlight.validate.timeout_s=3");
    let booted = boot.waits().run().unwrap();
    is_an_error(&booted, "3 s");
    booted.says("still thinking");
    booted.never_says("the workload ran");
    booted.ended(&End::Reboot);
}

/// It claims a pass in every way but the one that counts.
#[test]
fn a_validator_that_says_pass_and_writes_no_report() {
    let lie = "echo 'VERDICT  PASS   all is well'
echo 'FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.1'
exit 0";
    let booted = with("poweroff", lie).run().unwrap();
    is_an_error(&booted, "report");
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

#[test]
fn a_report_that_disagrees_with_the_exit_status() {
    let lie = "/t/firstlight \"$@\" --skip iommu\nexit 0";
    let booted = with("workload", lie).run().unwrap();
    is_an_error(&booted, "report");
    // The real report came out as an error, for mandatory tests were left out.
    assert_eq!(booted.report().0["verdict"], "ERROR");
    assert!(booted.find("firstlight/validated").is_none());
}

/// Status, report and last line agree on a PASS, which is of less than the machine.
#[test]
fn a_pass_of_something_less_than_the_machine() {
    for words in ["--scope fabric", "--only iommu"] {
        let booted = with("poweroff", &format!("exec /t/firstlight \"$@\" {words}")).run().unwrap();
        is_an_error(&booted, "expected of \"machine\"");
        booted.never_says("the workload ran");
        booted.ended(&End::PowerOff);
    }
}

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

/// When the key that says what to do on an error cannot be read itself, the machine holds.
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
