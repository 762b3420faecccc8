//! Is a validator that does not do its work ever taken for a pass? Missing, killed, hanging, silent
//! and lying: each is an ERROR with its cause, and `policy.on_error` decides.

use harness::boot::VALIDATOR;
use harness::{Boot, Booted, End};

fn boot(on_error: &str) -> Boot {
    let words = format!("firstlight.expect.gpus=0 firstlight.policy.on_error={on_error}");
    Boot::shipped().workload("echo the workload ran").append(&words)
}

/// Runs the real validator for everything but `validate`, and for that `instead`.
fn with(on_error: &str, instead: &str) -> Boot {
    let script = format!("case \" $* \" in *' validate '*)\n{instead}\n;; esac\nexec /t/firstlight \"$@\"");
    boot(on_error).validator(&script).unwrap()
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
    let booted = boot("poweroff").overlay(|o| o.link(VALIDATOR, "/nowhere")).run().unwrap();
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
