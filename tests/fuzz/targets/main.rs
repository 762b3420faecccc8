//! All parsers of untrusted input, as one libFuzzer program: the variable FIRSTLIGHT_FUZZ names the target.
#![no_main]

mod init;
mod texts;
mod validator;

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

type Target = fn(&[u8]);

/// The targets. Those that take text receive only input that is UTF-8.
const TARGETS: [(&str, Target); 16] = [
    ("arp", init::arp),
    ("cmdline", |bytes| text(bytes, init::cmdline)),
    ("config_space", validator::config_space),
    ("driver_evidence", validator::driver_evidence),
    ("driver_files", init::driver_files),
    ("image_list", validator::image_list),
    ("kmsg", validator::kmsg),
    ("modinfo", init::modinfo),
    ("modules_dep", |bytes| text(bytes, init::modules_dep)),
    ("nccl_dump", validator::nccl_dump),
    ("nccl_log", validator::nccl_log),
    ("report", validator::report),
    ("superblock", init::superblock),
    ("texts", texts::texts),
    ("toml_init", |bytes| text(bytes, init::toml_init)),
    ("toml_validator", |bytes| text(bytes, validator::toml_validator)),
];

fn text(bytes: &[u8], target: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        target(text);
    }
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("FIRSTLIGHT_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| {
            panic!("FIRSTLIGHT_FUZZ={wanted} names no target: {:?}", TARGETS.map(|(name, _)| name))
        })
        .1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
