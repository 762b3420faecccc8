//! Does a fault outlive its boot? On a machine with EFI its last words lie in the firmware's store,
//! and the next boot shows them, once.

use harness::{Boot, End};

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
