//! The table of findings holds what the program can find, and nothing else.

use firstlight::outcome::finding::Code;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(sources(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// The product's part of a file: what stands before its tests.
fn product(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.split("#[cfg(test)]").next().unwrap_or_default().to_owned())
}

#[test]
fn every_code_is_made_somewhere() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src).unwrap().into_iter();
    let files = files.filter(|p| !p.ends_with("tests.rs") && !p.ends_with("finding/code.rs"));
    let text: String = files.map(|p| product(&p).unwrap()).collect();
    // init has its findings by the names of the shared vocabulary.
    let init = Path::new(env!("CARGO_MANIFEST_DIR")).join("../init/src");
    let of_init: String = sources(&init).unwrap().iter().map(|p| product(p).unwrap()).collect();
    for code in Code::ALL {
        let shared = format!("code::{}", code.entry().code.replace('-', "_"));
        let is_made = text.contains(&format!("Code::{code:?}")) || of_init.contains(&shared);
        assert!(is_made, "{} is never made", code.entry().code);
    }
    assert!(!text.contains("Code::NoSuchFinding"));
}
