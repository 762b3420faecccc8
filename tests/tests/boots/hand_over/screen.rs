//! What does a person in front of the machine see, and what can they do there? The machine has a screen and a keyboard; the
//! serial line has the same lines as ever.

use harness::simgpu::{Scenario, overlay};
use harness::{Boot, End};
use std::fs;
use std::path::Path;
use std::time::Duration;

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
    let scenario = Scenario::named("zeros").unwrap().gpus(2);
    // They stay, to be looked at.
    let place = |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("screen-{name}.ppm"));
    let [running, failed, again] = ["running", "failed", "again"].map(place);
    let booted = Boot::shipped()
        .memory(2048)
        .overlay(|_| overlay(&scenario).unwrap())
        .qemu(&["-vga", "std"])
        .look_at("PASS   p2p-capability", &running, &[], Duration::ZERO)
        // Any other key goes back; y means it.
        .look_at("HOLD ", &failed, &["b", "n", "1"], DRAWN)
        .look_at("HOLD ", &again, &["b", "y"], DRAWN)
        .deadline(Duration::from_secs(400))
        .run()
        .unwrap();
    booted.says("FIRSTLIGHT verdict=FAIL failed=p2p-integrity");
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
