//! The parsers of untrusted input as one libFuzzer program: the variable FIRSTLIGHT_FUZZ names the target.
#![no_main]

use firstlight_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("FIRSTLIGHT_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| {
            panic!(
                "FIRSTLIGHT_FUZZ={wanted} names no target: {:?}",
                TARGETS.map(|(name, _)| name)
            )
        })
        .1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
