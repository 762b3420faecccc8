//! What if /run is full? The verdict must still be told, and must not be a pass that nobody wrote.

use harness::{Boot, End};

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let script = "case \" $* \" in *' validate '*)
\tdd if=/dev/zero of=/run/full bs=65536 2> /dev/null
\techo \"free in /run: $(df -k /run | tail -n 1)\" ;;
esac
exec /t/firstlight \"$@\"";
    let boot =
        Boot::shipped().compressed().append("firstlight.expect.gpus=0 firstlight.policy.on_error=poweroff");
    let booted = boot.workload("echo the workload ran").validator(script).unwrap().run().unwrap();
    booted.says("free in /run");
    assert_eq!(booted.verdict().verdict, "ERROR", "{booted}");
    booted.never_says("the workload ran");
    booted.never_says("panic");
    booted.ended(&End::PowerOff);
}
