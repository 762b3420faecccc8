//! init's configuration: a file and kernel words of any content become a configuration or errors of
//! one line each that name their place.
#![no_main]

use firstlight_init::config::{File, build, cmdline};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let file = File { path: "/etc/firstlight/config.toml".to_owned(), text: input.0.to_owned() };
    if let Err(refused) = build(&[file], &cmdline::words(input.1)) {
        assert!(!refused.wrong.is_empty());
        for wrong in refused.wrong {
            let line = wrong.to_string();
            assert!(!line.contains('\n'), "{line:?}");
            assert!(line.contains("config.toml") || line.contains("kernel word"), "{line:?}");
        }
    }
});
