//! Does Ctrl-Alt-Del restart the machine in order, at work and while it holds?

use harness::{Boot, End};

#[test]
fn a_running_workload_is_asked_to_end_first() {
    let script = "trap 'echo asked to end; exit 0' TERM INT
echo at work
while :; do sleep 1; done";
    let boot = Boot::shipped().append("firstlight.expect.gpus=0").workload(script);
    let booted = boot.ctrl_alt_del_at("at work").run().unwrap();
    booted.says("asked to end");
    booted.ended(&End::Reboot);
}

#[test]
fn a_machine_that_holds_restarts() {
    let booted = Boot::shipped().ctrl_alt_del_at("FIRSTLIGHT verdict=ERROR").run().unwrap();
    booted.never_says("panic");
    booted.ended(&End::Reboot);
}
