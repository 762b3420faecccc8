//! The kernel's command line, which a boot medium may fill with anything: both readers of it end,
//! and neither invents text that is not in the line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    for word in firstlight_init::config::cmdline::words(line) {
        assert!(line.contains(&word.name), "{word:?}");
        assert!(word.value.is_none_or(|value| line.contains(&value)));
    }
    let _said = firstlight_init::config::remote::Remote::of(&firstlight_init::config::cmdline::words(line));
    let _mac = firstlight_init::config::mac::Mac::of_bootif(line);
    let plain = line.replace('"', "");
    for word in firstlight::machine::host::cmdline::words(line) {
        assert!(plain.contains(&word.key), "{word:?}");
        assert!(word.value.is_none_or(|value| plain.contains(&value)));
    }
});
