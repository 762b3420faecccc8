//! init's configuration: a file and kernel words of any content become a configuration or errors of
//! one line each that name their place.
#![no_main]

use firstlight_init::config::{File, Source, build, cmdline};
use libfuzzer_sys::fuzz_target;

// A file and, behind a line of two percent signs, the command line.
fuzz_target!(|input: &str| {
    let (file, line) = input.split_once("\n%%\n").unwrap_or((input, ""));
    let file =
        File { source: Source::Image, path: "/etc/firstlight/config.toml".to_owned(), text: file.to_owned() };
    if let Err(refused) = build(&[file], &cmdline::words(line)) {
        assert!(!refused.wrong.is_empty());
        for wrong in refused.wrong {
            let line = wrong.to_string();
            assert!(!line.contains('\n'), "{line:?}");
            assert!(line.contains("config.toml") || line.contains("kernel word"), "{line:?}");
        }
    }
});
