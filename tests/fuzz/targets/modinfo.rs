//! A module's file as it may come off a medium: the section is found or refused without reading
//! outside of the file, and what is read of it stands there.
#![no_main]

use firstlight_init::driver::elf::section;
use firstlight_init::driver::modinfo::Modinfo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let read = |at: u64, size: usize| {
        let at = usize::try_from(at).ok()?;
        Some(file.get(at..at.checked_add(size)?)?.to_vec())
    };
    if let Ok(found) = section(&read, b".modinfo") {
        assert!(found.len() <= file.len());
        let info = Modinfo::parse(&found);
        for key in ["version", "vermagic", "srcversion", "firstlight.patch"] {
            assert!(info.get(key).is_none_or(|value| !value.contains(['\n', '\0'])));
        }
    }
    let info = Modinfo::parse(file);
    assert!(info.depends().iter().all(|name| !name.contains(',')));
});
