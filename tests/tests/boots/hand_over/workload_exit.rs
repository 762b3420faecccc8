//! What happens when the workload is over, and how it went.

use harness::{Boot, End};

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
