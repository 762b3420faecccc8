//! The first bytes of whatever disk is plugged in, its partition table, the firmware's variable about the boot disk, and a signature
//! beside a file: looking for what is in them never reads outside of them, and no bytes are a valid signature.
#![no_main]

use firstlight_init::config::signature::check;
use firstlight_init::disk::gpt;
use firstlight_init::disk::origin::part_uuid;
use firstlight_init::disk::superblock::{probe, vfat_root, vfat_root_label};
use libfuzzer_sys::fuzz_target;

/// A public key; the secret one was deleted.
const KEY: &str = "RWSDbFQ9yZTA5iopg0fk1uSkMdQXIm16pP2pc0Nf+fA93zw87PAExNNY";

fuzz_target!(|bytes: &[u8]| {
    let _ = probe(bytes);
    let _ = vfat_root(bytes);
    let _ = vfat_root_label(bytes);
    let (header, table) = bytes.split_at_checked(gpt::HEADER).unwrap_or((bytes, &[]));
    let _ = gpt::entries(header, 4096).map(|entries| entries.have(table, ""));
    assert!(part_uuid(bytes).is_none_or(|uuid| uuid.len() == 36));
    assert!(check(KEY, b"", &String::from_utf8_lossy(bytes)).is_err());
});
