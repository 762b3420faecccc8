//! Does the documentation hold together? Links lead to files, the book leaves out no page, and a decision has all its parts.

use super::{files, text};
use harness::boot::stages_of_boot;
use harness::workspace;
use std::path::Path;

/// A link of a page: its title, and the file that it leads to, relative to the page's folder.
type Link<'a> = (&'a str, &'a str);

/// The links of a page to files: those to other sites and within the page are left out.
fn links(page: &str) -> Vec<Link<'_>> {
    let ends = page.match_indices("](");
    let found = ends.filter_map(|(at, _)| {
        let title = page[..at].rsplit('[').next()?;
        let target = page[at + 2..].split([')', '#']).next()?;
        (!target.is_empty() && !target.contains("://")).then_some((title, target))
    });
    found.collect()
}

/// The pages of the book: every Markdown file in docs/ except its table of contents, by its path there.
fn pages() -> Vec<String> {
    let all = files();
    let pages = all
        .iter()
        .filter_map(|file| file.strip_prefix("docs/").filter(|f| f.ends_with(".md")));
    pages
        .filter(|page| *page != "SUMMARY.md")
        .map(str::to_owned)
        .collect()
}

/// The book has only what is in docs/, so a link from there to another folder would be broken in it.
#[test]
fn links_lead_to_files_and_those_of_the_book_stay_in_it() {
    let all = files();
    let documents: Vec<_> = all
        .iter()
        .filter(|f| f.ends_with(".md") && !f.starts_with("image/"))
        .collect();
    assert!(documents.len() > 10);
    let mut seen = 0;
    for document in documents {
        let folder = Path::new(document).parent().unwrap();
        for (_, target) in links(&text(document)) {
            let there = workspace().join(folder.join(target));
            assert!(
                there.is_file(),
                "{document} links to {target}, and there is no such file"
            );
            let book = workspace().join("docs").canonicalize().unwrap();
            let inside = there.canonicalize().unwrap().starts_with(book);
            assert!(
                inside || !document.starts_with("docs/"),
                "{document} links to {target} outside the book"
            );
            seen += 1;
        }
    }
    assert!(seen > 50, "the search finds {seen} links");
}

#[test]
fn the_book_has_every_page_once() {
    let mut listed: Vec<_> = links(&text("docs/SUMMARY.md"))
        .into_iter()
        .map(|(_, file)| file.to_owned())
        .collect();
    listed.sort();
    let mut pages = pages();
    pages.sort();
    assert_eq!(
        listed, pages,
        "docs/SUMMARY.md (left) and the pages in docs/ (right) differ"
    );
}

/// `./run driver-look --all` writes both; a version that is in one of them alone was added by hand.
#[test]
fn the_table_of_driver_versions_and_the_list_of_seen_ones_agree() {
    let page = text("docs/driver-versions.md");
    let table = page
        .split("<!-- versions -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- /versions -->").next())
        .unwrap();
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| versions "));
    let listed: Vec<_> = rows
        .flat_map(|row| row.split('|').nth(1).unwrap().split(", ").map(str::trim))
        .collect();
    let seen: toml::Table = toml::from_str(&text("image/driver/description/seen.toml")).unwrap();
    let versions: Vec<_> = seen["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    assert_eq!(
        listed, versions,
        "docs/driver-versions.md (left) and seen.toml (right) differ"
    );
    let count = format!(
        "{} versions, looked at on {}:",
        versions.len(),
        seen["date"].as_str().unwrap()
    );
    assert!(
        table.contains(&count) && versions.len() > 50,
        "the table does not say: {count}"
    );
}

/// The line leaves out the stages whose result most readers do not need; those that it names are stages, in their order.
#[test]
fn pages_name_the_stages_of_the_boot_in_their_order() {
    for page in ["README.md", "ARCHITECTURE.md", "docs/boot.md"] {
        let text = text(page);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("kernel > "))
            .unwrap_or_default();
        let mut stages = stages_of_boot().into_iter();
        for named in line.split(" > ") {
            assert!(
                stages.any(|stage| stage == named),
                "{page}: {named:?} is no stage, or does not come here: {line}"
            );
        }
    }
}

/// Developers look for a file by these pages. A word in backticks is a path if its first part is a folder of the repository.
#[test]
fn files_that_pages_for_developers_name_exist() {
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "findings/README.md"] {
        let text = text(page);
        let quoted = text
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|words| words.split([' ', ':']).next().unwrap_or_default());
        let is_path = |word: &&str| {
            let folder = word
                .split_once('/')
                .is_some_and(|(top, _)| workspace().join(top).is_dir());
            folder && !word.starts_with("target/") && !word.contains(['*', '<', '{', '('])
        };
        let paths: Vec<_> = quoted.filter(is_path).collect();
        assert!(
            page == "findings/README.md" || paths.len() > 20,
            "the search finds {} paths in {page}",
            paths.len()
        );
        for path in paths {
            assert!(
                workspace().join(path).exists(),
                "{page} names {path}, which does not exist"
            );
        }
    }
}

#[test]
fn every_decision_has_all_parts() {
    let pages: Vec<_> = pages()
        .into_iter()
        .filter(|page| page.starts_with("decisions/"))
        .collect();
    assert!(!pages.is_empty());
    for page in pages {
        let text = text(&format!("docs/{page}"));
        let decisions: Vec<_> = text.split("\n## ").skip(1).collect();
        assert!(!decisions.is_empty(), "{page} has no decision");
        for decision in decisions {
            let name = decision.lines().next().unwrap_or_default();
            for part in [
                "### Context",
                "### Decision",
                "### Consequences",
                "### What would change it",
            ] {
                assert!(
                    decision.lines().any(|line| line == part),
                    "{page}: {name} has no part '{part}'"
                );
            }
        }
    }
}

#[test]
fn only_links_to_files_are_links() {
    let page = "a [one](x.md), [two](y/z.md#part); [web](https://x) and [here](#part)";
    assert_eq!(links(page), [("one", "x.md"), ("two", "y/z.md")]);
}

/// The scripts of `findings/`, by name, each with its second line, which says what happens.
fn findings_scripts() -> Vec<(String, String)> {
    let scripts = files().into_iter().filter_map(|file| {
        let name = file
            .strip_prefix("findings/")?
            .strip_suffix(".sh")?
            .to_owned();
        let says = text(&file).lines().nth(1)?.strip_prefix("# ")?.to_owned();
        (!["lib", "run-all"].contains(&name.as_str())).then_some((name, says))
    });
    scripts.collect()
}

#[test]
fn every_script_of_findings_is_in_the_table_and_on_the_page_of_real_tools() {
    let (table, page) = (text("findings/README.md"), text("docs/real-tools.md"));
    let scripts = findings_scripts();
    assert!(
        scripts.len() > 15,
        "the search finds {} scripts",
        scripts.len()
    );
    for (name, says) in &scripts {
        let row = format!("| `{name}` | {says} |");
        assert!(
            table.contains(&row),
            "findings/README.md lacks the row: {row}"
        );
        assert!(
            page.contains(&format!("(`{name}`)")),
            "docs/real-tools.md does not name {name}"
        );
    }
    let rows = table.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(
        rows,
        scripts.len(),
        "findings/README.md has rows without a script"
    );
}
