//! The first bytes of whatever disk is plugged in: looking for a label never reads outside of them.
#![no_main]

use firstlight_init::disk::superblock::{probe, vfat_root, vfat_root_label};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = probe(bytes);
    let _ = vfat_root(bytes);
    let _ = vfat_root_label(bytes);
});
