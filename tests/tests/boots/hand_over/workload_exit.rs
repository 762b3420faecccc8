//! What happens when the workload is over, and how it went.

use harness::{Boot, End, switch_root};
use std::process::Command;

fn boot(on_exit: &str) -> Boot {
    let words = format!("firstlight.expect.gpus=0 firstlight.workload.on_exit={on_exit}");
    Boot::shipped().append(&words)
}

#[test]
fn a_status_other_than_zero_is_told_and_on_exit_decides() {
    let booted = boot("reboot").workload("exit 7").run().unwrap();
    let told = booted.lines().any(|l| l.starts_with("workload") && l.contains("status 7"));
    assert!(told, "the console does not tell how the workload ended\n{booted}");
    booted.ended(&End::Reboot);
}

/// A session that ends with the console as its controlling terminal would take unsent lines along.
#[test]
fn the_last_lines_of_a_workload_appear() {
    let script = "for n in $(seq 60); do echo \"line $n of what a workload says before it ends\"; done";
    let booted = boot("poweroff").workload(script).run().unwrap();
    let lines: Vec<&str> = booted.lines().collect();
    let last = lines.iter().position(|l| l.contains("line 60 of what a workload says"));
    let last = last.unwrap_or_else(|| panic!("the last line is lost\n{booted}"));
    assert!(lines[last..].iter().any(|l| l.starts_with("workload") && l.contains("status 0")), "{booted}");
}

#[test]
fn a_workload_that_cannot_be_started_is_named() {
    let boot = boot("poweroff").append("firstlight.policy.on_error=poweroff");
    let booted = boot.config("[workload]\nexec = [\"/no/such/program\"]\n").run().unwrap();
    booted.says("/no/such/program");
    booted.never_says("panic");
    booted.ended(&End::PowerOff);
}

/// A machine that nobody asked to stop does not: its children that died are gone all the same.
#[test]
fn a_workload_can_leave_the_machine_up_without_zombies() {
    let script = "
for n in 1 2 3; do ( ( exit 0 ) & ) ; done
sleep 1
echo zombies $(grep -l '^State:.Z' /proc/[0-9]*/status 2> /dev/null | wc -l)";
    let boot = boot("hold").workload(script);
    let booted = boot.stop_after("zombies", std::time::Duration::from_secs(5)).run().unwrap();
    booted.says("zombies 0");
    booted.ended(&End::StillRunning);
}

/// What the workload mounted is unmounted, also when it leaves a program that writes there and ignores SIGTERM.
#[test]
fn disks_that_the_workload_wrote_are_clean_after_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let disk = switch_root::ext4(files.path(), "WORK", 16, scratch.path().join("disk")).unwrap();
    let script = "mkdir -p /data && mount -t ext4 /dev/vda /data && echo mounted
(trap '' TERM; while true; do date >>/data/log; sleep 0.1; done) &
mount --bind /data /tmp; echo kept >/data/kept; sleep 1";
    let booted = boot("poweroff").workload(script).disk(&disk).run().unwrap();
    booted.says("mounted");
    booted.never_says("stays mounted");
    booted.ended(&End::PowerOff);
    let asked = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).arg(&disk).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let about = asked("dumpe2fs", &["-h"]);
    assert!(about.contains("Filesystem state:         clean"), "{about}");
    assert!(!about.contains("needs_recovery"), "{about}");
    assert_eq!(asked("debugfs", &["-R", "cat /kept"]), "kept\n");
}
