//! Does a person in front of the machine get what the policy allows: a shell on the console, or a screen with the
//! verdict and a menu that works? Tests in namespaces (init/tests/process_one) check that each verdict leads to the
//! action of its policy.

use crate::pixels;
use harness::simgpu::{Scenario, overlay};
use harness::{Boot, End};
use std::path::Path;
use std::time::Duration;

#[test]
fn a_failure_can_open_a_shell_on_the_console() {
    let boot = Boot::shipped()
        .workload("echo the workload ran")
        .config("[policy]\nallow_shell = true\n");
    let booted = boot
        .append("firstlight.expect.gpus=1 firstlight.policy.on_fail=shell")
        .type_at(
            "# ",
            "test -e /run/firstlight/validated || echo answer $((6 * 7))",
        )
        .type_at("answer 42", "poweroff -f")
        .run()
        .unwrap();
    booted.never_says("the workload ran");
    booted.ended(&End::PowerOff);
}

/// Enough time to draw the screen on an emulated processor.
const DRAWN: Duration = Duration::from_secs(8);

/// Colors of the text console.
const RED: [u8; 3] = [168, 0, 0];
const GREEN: [u8; 3] = [0, 168, 0];

#[test]
fn the_screen_shows_tests_then_the_verdict_and_its_menu_works() {
    // Communicators start slowly, so that the first picture shows running tests; wrong sums make the verdict FAIL.
    let faults = "on = \"epyc-8x4090\"\n[[fault]]\nkind = \"nccl-slow-start\"\nseconds = 10.0\n\
        [[fault]]\nkind = \"nccl-wrong\"\ncollective = \"all_reduce\"\n";
    let scenario = Scenario::of(faults.parse().unwrap()).unwrap().gpus(2);
    // The pictures are kept for inspection.
    let place =
        |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("screen-{name}.ppm"));
    let [running, failed, again] = ["running", "failed", "again"].map(place);
    let booted = Boot::shipped()
        .memory(2048)
        .overlay(|_| overlay(&scenario).unwrap())
        .screen()
        .screenshot_at(
            "PASS   p2p-integrity",
            &running,
            &[],
            Duration::from_secs(2),
        )
        // After b, y confirms and any other key goes back.
        .screenshot_at("HOLD ", &failed, &["b", "n", "1"], DRAWN)
        .screenshot_at("HOLD ", &again, &["b", "y"], DRAWN)
        .run()
        .unwrap();
    booted.says("FIRSTLIGHT verdict=FAIL failed=nccl");
    booted.says("level standard");
    booted.says("level quick");
    booted.says("FAIL: hold, as before these tests");
    booted.ended(&End::Reboot);
    // While the tests run, the words of passed tests are green; the letters of the verdict are many times as large.
    let (green, red) = (pixels(&running, GREEN), pixels(&failed, RED));
    assert!(
        (100..20_000).contains(&green),
        "{green} green pixels while the tests run"
    );
    assert!(
        red > 15_000 && pixels(&again, RED) > 15_000,
        "{red} red pixels of a large FAIL"
    );
}

#[test]
fn a_console_that_is_set_to_lines_has_no_menu() {
    let fails = Boot::shipped().append("firstlight.expect.gpus=1 firstlight.console.view=lines");
    let booted = fails
        .screen()
        .stop_after("HOLD ", Duration::from_secs(1))
        .run()
        .unwrap();
    booted.never_says("menu on the screen");
    booted.ended(&End::StillRunning);
}
