//! Does a machine restart when process 1 hangs, and does no other machine reset?

use super::{ext4_of, write_root};
use harness::{Boot, Booted, End, Image};
use std::time::Duration;

const PASS: &str = "firstlight.expect.gpus=0 firstlight.validate.level=quick";
/// In seconds. It is this long because a busy host may delay a machine by some seconds.
const TIMEOUT: u64 = 15;

/// The watchdog of QEMU's chipset is switched off, so that only the device that a test adds can be used.
fn boot(mode: &str) -> Boot {
    let words =
        format!("{PASS} firstlight.watchdog.mode={mode} firstlight.watchdog.timeout_s={TIMEOUT}");
    Boot::shipped()
        .mostly_waits()
        .append(&words)
        .qemu(&["-global", "ICH9-LPC.noreboot=true"])
}

fn device() -> Boot {
    boot("hardware")
        .device("i6300esb")
        .qemu(&["-action", "watchdog=reset"])
}

/// Freezes process 1: it gets no more processor time, and the machine cannot power off without it.
const FREEZE: &str = "mkdir /sys/fs/cgroup/still
echo 1 > /sys/fs/cgroup/still/cgroup.procs
echo 1 > /sys/fs/cgroup/still/cgroup.freeze
sleep 1
echo process 1: $(grep frozen /sys/fs/cgroup/still/cgroup.events)
sleep 100";

#[track_caller]
fn assert_restarts(booted: &Booted, name: &str) {
    booted.says(&format!("watchdog  {name}, {TIMEOUT} s"));
    booted.says("process 1: frozen 1");
    booted.never_says("POWEROFF");
    booted.ended(&End::Reboot);
}

#[test]
fn the_device_resets_a_machine_whose_process_1_hangs() {
    let booted = device().workload(FREEZE).run().unwrap();
    assert_restarts(&booted, "i6300ESB timer");
}

#[test]
fn the_chipsets_watchdog_is_found_and_resets_the_machine() {
    let words =
        format!("{PASS} firstlight.watchdog.mode=hardware firstlight.watchdog.timeout_s={TIMEOUT}");
    let boot = Boot::shipped()
        .mostly_waits()
        .append(&words)
        .qemu(&["-global", "ICH9-LPC.noreboot=false"]);
    let booted = boot.workload(FREEZE).run().unwrap();
    assert_restarts(&booted, "iTCO_wdt");
    booted.says(&format!(
        "watchdog  iTCO_wdt, {TIMEOUT} s, not proven to reset "
    ));
}

/// The strap of QEMU's chipset is at its default: its watchdog counts, and resets nothing.
#[test]
fn a_virtual_machine_does_not_rely_on_a_chipsets_watchdog() {
    let booted = boot("auto").workload(FREEZE).run().unwrap();
    assert_restarts(&booted, "Software Watchdog");
    booted.never_says("iTCO_wdt");
}

/// The same on a processor that shows no hypervisor.
#[test]
fn beside_a_chipsets_watchdog_that_resets_nothing_the_kernels_one_does() {
    let booted = boot("auto")
        .qemu(&["-cpu", "max,-cx16,-hypervisor"])
        .workload(FREEZE)
        .run()
        .unwrap();
    assert_restarts(&booted, "iTCO_wdt");
    booted.says(&format!(
        "watchdog  iTCO_wdt, {TIMEOUT} s, not proven to reset; Software Watchdog, {} s ",
        2 * TIMEOUT
    ));
}

/// A chipset without a watchdog.
fn without_watchdog(boot: Boot) -> Boot {
    boot.qemu(&["-machine", "pc"])
}

#[test]
fn without_a_device_the_kernels_software_watchdog_resets_the_machine() {
    assert_restarts(
        &without_watchdog(boot("auto"))
            .workload(FREEZE)
            .run()
            .unwrap(),
        "Software Watchdog",
    );
}

/// Both the validator and the hold take longer than the timeout.
#[test]
fn a_long_validation_and_a_long_hold_do_not_reset_the_machine() {
    let longer = TIMEOUT + 10;
    let script = format!(
        "case \"$*\" in *--json*report.json*) sleep {longer} ;; esac\nexec /t/firstlight \"$@\""
    );
    let boot = device()
        .validator(&script)
        .unwrap()
        .append("firstlight.policy.on_pass=hold");
    let booted = boot
        .stop_after("HOLD ", Duration::from_secs(longer))
        .run()
        .unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.ended(&End::StillRunning);
}

#[test]
fn a_workload_that_does_not_use_the_watchdog_may_run_longer_than_the_timeout() {
    let script = format!(
        "env | grep -c WATCHDOG > /run/kept/variables\nsleep {}\necho at the end",
        TIMEOUT + 10
    );
    let booted = device().workload(&script).run().unwrap();
    booted.says("at the end");
    assert_eq!(booted.text("kept/variables"), "0");
    let verdict = booted.json("firstlight/verdict.json");
    assert_eq!(verdict["watchdog"]["name"], "i6300ESB timer", "{verdict}");
    assert_eq!(
        (
            &verdict["watchdog"]["device"],
            &verdict["watchdog"]["timeout_s"]
        ),
        (&"/dev/watchdog0".into(), &TIMEOUT.into())
    );
    booted.ended(&End::PowerOff);
}

/// The workload pets the watchdog for longer than the timeout; after it stops, the machine resets.
#[test]
fn a_workload_that_must_pet_the_watchdog_gets_it_running() {
    let script = "echo variables $FIRSTLIGHT_WATCHDOG $FIRSTLIGHT_WATCHDOG_S
exec 9> $FIRSTLIGHT_WATCHDOG
for n in 1 2 3 4 5 6; do sleep 4; echo >&9; done
echo petted
sleep 100";
    let booted = device()
        .append("firstlight.workload.watchdog=true")
        .workload(script)
        .run()
        .unwrap();
    booted.says(&format!("variables /dev/watchdog0 {TIMEOUT}"));
    booted.says(&format!(
        "watchdog  /dev/watchdog0 runs: the workload must pet it within {TIMEOUT} s"
    ));
    booted.says("petted");
    booted.ended(&End::Reboot);
}

#[test]
fn a_machine_without_its_own_watchdog_is_an_error_if_one_is_required() {
    let booted = without_watchdog(boot("hardware"))
        .append("firstlight.policy.on_error=poweroff")
        .run()
        .unwrap();
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

/// Boots into a new root whose init does not use a watchdog.
fn switched(words: &str) -> Booted {
    let init = format!(
        "#!/bin/busybox sh\nexport PATH=/bin\n/bin/busybox --install -s /bin\n\
         echo \"new root watchdog $(cat /sys/class/watchdog/watchdog0/state)\"\nsleep {}\npoweroff -f\n",
        TIMEOUT + 10
    );
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_root(&Image::shipped(), dir.path(), &init);
    let disk = ext4_of(dir.path(), "ROOTDISK", 16, scratch.path().join("disk"));
    let config =
        "[workload]\nmode = \"switch-root\"\nroot = \"LABEL=ROOTDISK\"\nexec = [\"/sbin/init\"]\n";
    device()
        .append(words)
        .config(config)
        .disk(&disk)
        .run()
        .unwrap()
}

#[test]
fn switch_root_stops_the_watchdog() {
    let booted = switched("");
    booted.says("watchdog  i6300ESB timer is stopped\n");
    booted.says("new root watchdog inactive");
    booted.ended(&End::PowerOff);
}

#[test]
fn a_new_root_that_must_pet_the_watchdog_and_does_not_is_reset() {
    let booted = switched("firstlight.workload.watchdog=true");
    booted.says("new root watchdog active");
    booted.ended(&End::Reboot);
}
