//! The validator's configuration: files and words of any content become a configuration or an error of
//! one line that names its place.
#![no_main]

use firstlight::config::Config;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;

// A file and, behind a line of two percent signs, a word a line.
fuzz_target!(|input: &str| {
    let (file, words) = input.split_once("\n%%\n").unwrap_or((input, ""));
    let files = [(PathBuf::from("/etc/firstlight/config.toml"), file.to_owned())];
    let words: Vec<_> = words.lines().map(str::to_owned).collect();
    if let Err(error) = Config::merge(&files, &words, &firstlight::suite::ids()) {
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line:?}");
        assert!(line.contains("config.toml") || line.contains("--set"), "{line:?}");
    }
});
