//! Do the pages show what the program lists?

use super::machine::{firstlight, said};
use std::fs;
use std::path::Path;

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
