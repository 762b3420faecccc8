//! Do the pages show what the program lists, and does the table of findings hold what it can find?

use super::machine::{firstlight, said};
use firstlight::outcome::finding::Code;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

/// A page shows every test, as the validator itself lists them.
#[test]
fn docs_show_the_list_of_tests() {
    let block = format!(
        "<!-- tests -->\n```\n{}```\n<!-- /tests -->\n",
        said(firstlight("list").output().unwrap()).out
    );
    assert!(block.lines().count() > 20, "{block}");
    assert!(page("tests.md").contains(&block), "docs/tests.md lacks what `firstlight list` prints:\n{block}");
}

/// A page shows every finding, as the validator itself lists them.
#[test]
fn docs_show_the_table_of_findings() {
    let table = said(firstlight("list --findings").output().unwrap()).out;
    assert!(table.lines().count() > 10, "{table}");
    let page = page("findings.md");
    for line in table.lines() {
        assert!(
            page.lines().any(|l| l == line),
            "docs/findings.md lacks this line; run `firstlight list --findings`:\n{line}"
        );
    }
    let shown = page.lines().filter(|l| l.starts_with("| `") && l.matches(" | ").count() == 3).count();
    let listed = table.lines().filter(|l| l.starts_with("| `")).count();
    assert_eq!(shown, listed, "docs/findings.md has findings that do not exist");
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(sources(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// The product's part of a file: the lines before its tests.
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
