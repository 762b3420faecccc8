//! Does the documentation hold together? Links lead to files, and README, ARCHITECTURE and the book's table of contents
//! list the same pages.

use super::{files, text};
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

/// The links in the lines of a page that begin with `mark`.
fn links_of_lines(page: &str, mark: &str) -> Vec<(String, String)> {
    let lines = page.lines().filter(|line| line.starts_with(mark));
    lines.flat_map(links).map(|(title, file)| (title.to_owned(), file.to_owned())).collect()
}

/// The pages of the book: every Markdown file in docs/ except its table of contents, by its path there.
fn pages() -> Vec<String> {
    let all = files();
    let pages = all.iter().filter_map(|file| file.strip_prefix("docs/").filter(|f| f.ends_with(".md")));
    pages.filter(|page| *page != "SUMMARY.md").map(str::to_owned).collect()
}

/// A newcomer can read the first page in minutes.
#[test]
fn the_first_page_is_short() {
    let readme = text("README.md");
    assert!(readme.lines().count() <= 150 && readme.split_whitespace().count() <= 1500);
}

/// The book has only what is in docs/, so a link from there to another folder would be broken in it.
#[test]
fn links_lead_to_files_and_those_of_the_book_stay_in_it() {
    let all = files();
    let documents: Vec<_> = all.iter().filter(|f| f.ends_with(".md") && !f.starts_with("image/")).collect();
    assert!(documents.len() > 10);
    let mut seen = 0;
    for document in documents {
        let folder = Path::new(document).parent().unwrap();
        for (_, target) in links(&text(document)) {
            let there = workspace().join(folder.join(target));
            assert!(there.is_file(), "{document} links to {target}, and there is no such file");
            let book = workspace().join("docs").canonicalize().unwrap();
            let inside = there.canonicalize().unwrap().starts_with(book);
            assert!(inside || !document.starts_with("docs/"), "{document} links to {target} outside the book");
            seen += 1;
        }
    }
    assert!(seen > 50, "the search finds {seen} links");
}

#[test]
fn the_book_has_every_page_once() {
    let mut listed: Vec<_> = links(&text("docs/SUMMARY.md")).into_iter().map(|(_, file)| file.to_owned()).collect();
    listed.sort();
    let mut pages = pages();
    pages.sort();
    assert_eq!(listed, pages, "docs/SUMMARY.md (left) and the pages in docs/ (right) differ");
}

#[test]
fn the_book_and_the_first_pages_list_the_same() {
    let listed = links_of_lines(&text("docs/SUMMARY.md"), "- [");
    let (decisions, use_pages): (Vec<_>, Vec<_>) =
        listed.into_iter().partition(|(_, file)| file.starts_with("decisions/"));
    let from_top = |pages: Vec<(String, String)>| -> Vec<_> {
        pages.into_iter().map(|(title, file)| (title, format!("docs/{file}"))).collect()
    };
    let readme = links_of_lines(&text("README.md"), "| [");
    let readme: Vec<_> = readme.into_iter().filter(|(_, file)| file.starts_with("docs/")).collect();
    assert_eq!(readme, from_top(use_pages), "README.md (left) and docs/SUMMARY.md (right) differ");
    let map = links_of_lines(&text("ARCHITECTURE.md"), "- [");
    assert_eq!(map, from_top(decisions), "ARCHITECTURE.md (left) and docs/SUMMARY.md (right) differ");
}

/// A page of decisions has the title that the lists give it, the map names each decision on it, and each has all parts.
#[test]
fn decisions_are_named_in_the_map_and_have_all_parts() {
    let map = text("ARCHITECTURE.md");
    for (title, file) in links_of_lines(&map, "- [") {
        let page = text(&file);
        let mut decisions = page.split("\n## ");
        assert_eq!(decisions.next().map(str::trim), Some(format!("# {title}").as_str()), "{file}");
        let mut count = 0;
        for decision in decisions {
            let name = decision.lines().next().unwrap();
            assert!(map.lines().any(|line| line == format!("  - {name}")), "the map does not name {name}");
            for part in ["### Context", "### Decision", "### Consequences", "### What would change it"] {
                assert!(decision.lines().any(|line| line == part), "{file}: {name} has no part '{part}'");
            }
            count += 1;
        }
        assert!(count > 1, "{file} has {count} decisions");
    }
}

#[test]
fn only_links_to_files_are_links() {
    let page = "a [one](x.md), [two](y/z.md#part); [web](https://x) and [here](#part)";
    assert_eq!(links(page), [("one", "x.md"), ("two", "y/z.md")]);
}
