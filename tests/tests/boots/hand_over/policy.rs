//! Does each verdict lead to the action that the policy names for it, and to no other? Does a person in front of a machine that
//! holds see the verdict and a menu that works, while the serial line has the same lines as ever?

use harness::simgpu::{Scenario, overlay};
use harness::{Boot, End};
use std::fs;
use std::path::Path;
use std::time::Duration;

const WORKLOAD: &str = "echo the workload ran
env > /run/kept/env
cat /etc/nccl.conf > /run/kept/nccl.conf";
/// No GPU and none expected: PASS. One expected: FAIL. Nothing said: ERROR.
const PASS: &str = "firstlight.expect.gpus=0";
const FAIL: &str = "firstlight.expect.gpus=1";

fn boot(words: &str) -> Boot {
    Boot::shipped().workload(WORKLOAD).append(words)
}

#[test]
fn an_error_holds_the_machine_unless_told_otherwise() {
    let booted = boot("").stop_after("FIRSTLIGHT verdict=ERROR", Duration::from_secs(4)).run().unwrap();
    assert_eq!(booted.verdict().failed, ["gpus"], "{booted}");
    booted.says("GPU-NONE");
    booted.never_says("the workload ran");
    booted.ended(&End::StillRunning);
}

#[test]
fn a_pass_can_reboot() {
    let booted = boot(PASS).append("firstlight.policy.on_pass=reboot").run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.never_says("the workload ran");
    booted.ended(&End::Reboot);
}

#[test]
fn a_failure_can_power_off() {
    let booted = boot(FAIL).append("firstlight.policy.on_fail=poweroff").run().unwrap();
    assert_eq!(booted.verdict().verdict, "FAIL", "{booted}");
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

#[test]
fn a_failure_can_open_a_shell_on_the_console() {
    let boot = boot(FAIL).config("[policy]\nallow_shell = true\n");
    let booted = boot
        .append("firstlight.policy.on_fail=shell")
        .type_at("# ", "test -e /run/firstlight/validated || echo answer $((6 * 7))")
        .type_at("answer 42", "poweroff -f")
        .run()
        .unwrap();
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

/// The image that ships allows none, and no kernel word can allow it.
#[test]
fn a_shell_that_the_image_does_not_allow_is_an_error_that_holds() {
    let words = "firstlight.policy.on_fail=shell firstlight.policy.on_error=reboot";
    let boot = boot(FAIL).append(words).append("firstlight.policy.allow_shell=true");
    let booted = boot.stop_after("FIRSTLIGHT verdict", Duration::from_secs(4)).run().unwrap();
    assert_eq!(booted.verdict().failed, ["config"], "{booted}");
    let at = "ERROR     INIT-CONFIG: kernel word firstlight.policy";
    for line in [
        ".allow_shell: policy.allow_shell: may not be set here; allowed in files of the image",
        ".on_fail: policy.on_fail: read shell; allowed: workload, ",
    ] {
        let line = format!("{at}{line}");
        assert_eq!(booted.lines().filter(|l| l.starts_with(&line)).count(), 1, "{line}: {booted}");
    }
    booted.never_says("SHELL ");
    booted.ended(&End::StillRunning);
}

#[test]
fn a_failure_can_hand_over_with_peer_to_peer_switched_off() {
    let booted = boot(FAIL).append("firstlight.policy.on_fail=workload-without-p2p").run().unwrap();
    assert_eq!(booted.verdict().verdict, "FAIL", "{booted}");
    assert!(booted.text("kept/env").lines().any(|l| l == "NCCL_P2P_DISABLE=1"), "{booted}");
    assert!(booted.text("kept/nccl.conf").lines().any(|l| l == "NCCL_P2P_DISABLE=1"), "{booted}");
    assert!(booted.find("firstlight/validated").is_none());
    assert_eq!(booted.json("firstlight/verdict.json")["verdict"], "FAIL");
}

/// The workload's environment and its files come from this verdict, not from hope.
#[test]
fn an_error_can_hand_over_but_never_looks_validated() {
    let booted = boot("firstlight.policy.on_error=workload").run().unwrap();
    booted.says("the workload ran");
    assert!(booted.find("firstlight/validated").is_none());
    assert_eq!(booted.json("firstlight/verdict.json")["verdict"], "ERROR");
    assert!(!booted.text("kept/env").contains("NCCL_P2P_DISABLE"), "{booted}");
}

/// Enough for the screen to be drawn on an emulated processor.
const DRAWN: Duration = Duration::from_secs(8);

/// Colors of the text console.
const RED: [u8; 3] = [168, 0, 0];
const GREEN: [u8; 3] = [0, 168, 0];

/// Dots of that color in a portable pixmap (P6, one byte a color).
fn dots(picture: &Path, color: [u8; 3]) -> usize {
    let bytes = fs::read(picture).unwrap();
    let header = bytes.splitn(4, |b| *b == b'\n').collect::<Vec<_>>();
    assert_eq!((header.first(), header.get(2)), (Some(&&b"P6"[..]), Some(&&b"255"[..])));
    header[3].chunks_exact(3).filter(|dot| **dot == color).count()
}

#[test]
fn the_screen_shows_tests_then_the_verdict_and_its_menu_works() {
    // Communicators take their time, so that there is a picture of tests that run, and their sums are wrong.
    let faults = "on = \"epyc-8x4090\"\n[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 10.0\n\
        [[fault]]\nkind = \"nccl-wrong\"\ncollective = \"all_reduce\"\n";
    let scenario = Scenario::of(faults.parse().unwrap()).unwrap().gpus(2);
    // They stay, to be looked at.
    let place = |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("screen-{name}.ppm"));
    let [running, failed, again] = ["running", "failed", "again"].map(place);
    let booted = Boot::shipped()
        .memory(2048)
        .overlay(|_| overlay(&scenario).unwrap())
        .qemu(&["-vga", "std"])
        .look_at("PASS   p2p-integrity", &running, &[], Duration::from_secs(2))
        // Any other key goes back; y means it.
        .look_at("HOLD ", &failed, &["b", "n", "1"], DRAWN)
        .look_at("HOLD ", &again, &["b", "y"], DRAWN)
        .run()
        .unwrap();
    booted.says("FIRSTLIGHT verdict=FAIL failed=nccl");
    booted.says("level standard");
    booted.says("level quick");
    booted.says("FAIL: hold, as before these tests");
    booted.ended(&End::Reboot);
    // Words of passed tests while it runs; then letters many times as large.
    let (green, red) = (dots(&running, GREEN), dots(&failed, RED));
    assert!((100..20_000).contains(&green), "{green} green dots while it runs");
    assert!(red > 15_000 && dots(&again, RED) > 15_000, "{red} red dots of a large FAIL");
}

#[test]
fn a_machine_without_a_screen_or_that_wants_lines_has_no_menu() {
    let fails = Boot::shipped().append("firstlight.expect.gpus=1 firstlight.console.view=lines");
    let booted = fails.qemu(&["-vga", "std"]).stop_after("HOLD ", Duration::from_secs(1)).run().unwrap();
    booted.never_says("menu on the screen");
    booted.ended(&End::StillRunning);
}
