//! Does a machine whose process 1 stands still come back, and does no other machine reset?

use super::{ext4_of, write_root};
use harness::{Boot, Booted, End, Image};
use std::time::Duration;

const PASS: &str = "firstlight.expect.gpus=0 firstlight.validate.level=quick";
/// A busy host may delay a machine by some seconds.
const TIMEOUT: u64 = 15;

/// The chipset's watchdog of QEMU's machine is switched off, so that the device is the test's own.
fn boot(mode: &str) -> Boot {
    let words = format!("{PASS} firstlight.watchdog.mode={mode} firstlight.watchdog.timeout_s={TIMEOUT}");
    Boot::shipped().waits().append(&words).qemu(&["-global", "ICH9-LPC.noreboot=true"])
}

fn device() -> Boot {
    boot("hardware").device("i6300esb").qemu(&["-action", "watchdog=reset"])
}

/// Freezes process 1: it gets no more time, and a power-off would need it.
const STAND_STILL: &str = "mkdir /sys/fs/cgroup/still
echo 1 > /sys/fs/cgroup/still/cgroup.procs
echo 1 > /sys/fs/cgroup/still/cgroup.freeze
sleep 1
echo process 1: $(grep frozen /sys/fs/cgroup/still/cgroup.events)
sleep 100";

#[track_caller]
fn comes_back(booted: &Booted, name: &str) {
    booted.says(&format!("watchdog  {name}, {TIMEOUT} s"));
    booted.says("process 1: frozen 1");
    booted.never_says("POWEROFF");
    booted.ended(&End::Reboot);
}

#[test]
fn the_device_resets_a_machine_whose_process_1_stands_still() {
    let booted = device().workload(STAND_STILL).run().unwrap();
    comes_back(&booted, "i6300ESB timer");
}

#[test]
fn the_chipsets_own_device_is_found_and_resets_it() {
    let words = format!("{PASS} firstlight.watchdog.timeout_s={TIMEOUT}");
    let boot = Boot::shipped().waits().append(&words).qemu(&["-global", "ICH9-LPC.noreboot=false"]);
    comes_back(&boot.workload(STAND_STILL).run().unwrap(), "iTCO_wdt");
}

/// A chipset without a watchdog.
fn without(boot: Boot) -> Boot {
    boot.qemu(&["-machine", "pc"])
}

#[test]
fn without_a_device_the_kernels_own_resets_it() {
    comes_back(&without(boot("auto")).workload(STAND_STILL).run().unwrap(), "Software Watchdog");
}

/// Both the validator and the hold take longer than the timeout.
#[test]
fn a_long_validation_and_a_long_hold_do_not_reset_it() {
    let longer = TIMEOUT + 10;
    let script =
        format!("case \"$*\" in *--json*report.json*) sleep {longer} ;; esac\nexec /t/firstlight \"$@\"");
    let boot = device().validator(&script).unwrap().append("firstlight.policy.on_pass=hold");
    let booted = boot.stop_after("HOLD ", Duration::from_secs(longer)).run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.ended(&End::StillRunning);
}

#[test]
fn a_workload_that_runs_longer_than_the_timeout_and_knows_nothing_of_it_goes_on() {
    let script = format!("env | grep -c WATCHDOG > /run/kept/told\nsleep {}\necho at the end", TIMEOUT + 10);
    let booted = device().workload(&script).run().unwrap();
    booted.says("at the end");
    assert_eq!(booted.text("kept/told"), "0");
    let verdict = booted.json("firstlight/verdict.json");
    assert_eq!(verdict["watchdog"]["name"], "i6300ESB timer", "{verdict}");
    assert_eq!(
        (&verdict["watchdog"]["device"], &verdict["watchdog"]["timeout_s"]),
        (&"/dev/watchdog0".into(), &TIMEOUT.into())
    );
    booted.ended(&End::PowerOff);
}

/// It keeps the machine alive by itself for longer than the timeout, and then no more.
#[test]
fn a_workload_that_is_to_pet_it_gets_it_running() {
    let script = "echo told $FIRSTLIGHT_WATCHDOG $FIRSTLIGHT_WATCHDOG_S
exec 9> $FIRSTLIGHT_WATCHDOG
for n in 1 2 3 4 5 6; do sleep 4; echo >&9; done
echo petted
sleep 100";
    let booted = device().append("firstlight.workload.watchdog=true").workload(script).run().unwrap();
    booted.says(&format!("told /dev/watchdog0 {TIMEOUT}"));
    booted.says(&format!("watchdog  /dev/watchdog0 runs: the workload must pet it within {TIMEOUT} s"));
    booted.says("petted");
    booted.ended(&End::Reboot);
}

#[test]
fn that_the_machine_has_none_of_its_own_is_an_error_where_one_is_demanded() {
    let booted = without(boot("hardware")).append("firstlight.policy.on_error=poweroff").run().unwrap();
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), verdict.failed),
        ("ERROR", vec!["watchdog".to_owned()]),
        "{booted}"
    );
    assert_eq!(verdict.codes, ["WATCHDOG-NONE"], "{booted}");
    booted.says("no watchdog of the machine's own");
    booted.ended(&End::PowerOff);
}

/// Another root whose init does not know of a watchdog.
fn switched(words: &str) -> Booted {
    let init = format!(
        "#!/bin/busybox sh\nexport PATH=/bin\n/bin/busybox --install -s /bin\n\
         echo \"new root watchdog $(cat /sys/class/watchdog/watchdog0/state)\"\nsleep {}\npoweroff -f\n",
        TIMEOUT + 10
    );
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_root(&Image::shipped(), dir.path(), &init);
    let disk = ext4_of(dir.path(), "ROOTDISK", 16, scratch.path().join("disk"));
    let config = "[workload]\nmode = \"switch-root\"\nroot = \"LABEL=ROOTDISK\"\nexec = [\"/sbin/init\"]\n";
    device().append(words).config(config).disk(&disk).run().unwrap()
}

#[test]
fn a_switch_of_the_root_stops_it() {
    let booted = switched("");
    booted.says("watchdog  i6300ESB timer is stopped\n");
    booted.says("new root watchdog inactive");
    booted.ended(&End::PowerOff);
}

#[test]
fn a_new_root_that_is_to_pet_it_and_does_not_is_reset() {
    let booted = switched("firstlight.workload.watchdog=true");
    booted.says("new root watchdog active");
    booted.ended(&End::Reboot);
}
