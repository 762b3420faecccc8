//! The list of an image's files and the kernel's list of mounts, which whoever changed the image may have
//! written: reading them ends, and what was read says no more than what stood there.
#![no_main]

use firstlight::machine::image::compare::{Tree, compare};
use firstlight::machine::image::driver::{self, Driver, Seen};
use firstlight::machine::image::list::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(mut list) = parse(&text) {
        assert_eq!(list.len(), text.lines().count());
        assert!(list.keys().all(|path| path.starts_with('/') && !path.split('/').any(|part| part == "..")));
        let carries = driver::split_off(&mut list);
        assert_eq!(carries, list.contains_key(driver::FILE));
        // Of an empty machine everything is missing, and nothing is hashed.
        let missing = compare(&list, &Tree::new(), |_| unreachable!()).unwrap();
        assert_eq!(missing.len(), list.len());
    }
    if let Ok(mounts) = driver::mounts(&text) {
        let device = mounts.first().map(|mount| mount.device);
        let alone = mounts.len() == 1;
        let backing = Some((driver::FILE.to_owned(), 0, 0));
        let (state, difference) = driver::judge(true, &Seen { mounts, device, backing });
        assert!(state != Driver::Mounted || alone);
        assert_eq!(difference.is_some(), state == Driver::Foreign);
    }
});
