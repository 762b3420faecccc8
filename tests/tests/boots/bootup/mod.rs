//! Ways to boot: the recipe, boot entries, media, Secure Boot, a locked-down kernel, a golden image.

mod entries;
mod golden;
mod media;
mod reset;
mod secure_boot;

use harness::{Booted, End, workspace};
use std::process::{Command, Stdio};

/// The machine passed, and its demo workload ended it.
#[track_caller]
fn assert_handed_over(booted: &Booted) {
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("demo workload: done");
    booted.ended(&End::PowerOff);
}

#[track_caller]
fn assert_exit_status(code: i32, words: &[&str], verdict: &str) {
    let mut command = Command::new(workspace().join("image/boot.sh"));
    let output = command.args(words).stdin(Stdio::null()).output().unwrap();
    let console = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let said = format!("{console}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        console.contains(&format!("\nFIRSTLIGHT verdict={verdict} ")),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(code), "{said}");
}

/// One boot after the other: they share the log of `./run boot`.
#[test]
fn the_exit_status_follows_the_verdict() {
    assert_exit_status(
        2,
        &[
            "none",
            "firstlight.validate.levl=quick",
            "firstlight.policy.on_error=poweroff",
        ],
        "ERROR",
    );
    assert_exit_status(0, &["none", "--pt", "firstlight.fabric.iommu=pt"], "PASS");
    assert_exit_status(1, &["stock"], "FAIL");
}
