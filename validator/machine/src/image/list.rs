//! The list of an image's files, as its build wrote it: `SHA256 or -> TARGET`, path, package, separated by
//! tabs. Pure. A malformed line invalidates the whole list.

use std::collections::BTreeMap;

/// The expected content of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A file of this SHA-256, in hexadecimal.
    File(String),
    /// A symbolic link to this.
    Link(String),
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The expected content.
    pub content: Content,
    /// The package that it is from, and its version.
    pub origin: String,
}

/// The listed files, by path.
pub type FileList = BTreeMap<String, ListedFile>;

/// Why a list is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidList {
    /// It lists no file.
    #[error("lists no file")]
    Empty,
    /// A line.
    #[error("line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The error in it.
        why: &'static str,
    },
}

/// Reads a list.
///
/// # Errors
/// See [`InvalidList`].
pub fn parse(text: &str) -> Result<FileList, InvalidList> {
    let mut list = FileList::new();
    for (at, line) in text.lines().enumerate() {
        let bad = |why| InvalidList::Line { line: at + 1, why };
        let (path, listed) = entry(line).map_err(bad)?;
        if list.insert(path, listed).is_some() {
            return Err(bad("lists a path twice"));
        }
    }
    if list.is_empty() {
        Err(InvalidList::Empty)
    } else {
        Ok(list)
    }
}

fn entry(line: &str) -> Result<(String, ListedFile), &'static str> {
    let mut parts = line.split('\t');
    let (Some(content), Some(path), Some(origin), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("does not have three parts separated by tabs");
    };
    let content = match content.strip_prefix("-> ") {
        Some("") => return Err("names a link without a target"),
        Some(target) => Content::Link(target.to_owned()),
        None if is_sum(content) => Content::File(content.to_owned()),
        None => return Err("has neither a SHA-256 nor the target of a link"),
    };
    if !is_path(path) {
        return Err("has no path from the root");
    }
    Ok((
        path.to_owned(),
        ListedFile {
            content,
            origin: origin.to_owned(),
        },
    ))
}

fn is_sum(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_path(text: &str) -> bool {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    text.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn files_and_links_are_read_with_their_packages() {
        let text = format!(
            "{SUM}\t/usr/bin/busybox\tbusybox-static 1:1.37\n-> usr/bin\t/bin\tbuilt here\n"
        );
        let list = parse(&text).unwrap();
        let busybox = ListedFile {
            content: Content::File(SUM.into()),
            origin: "busybox-static 1:1.37".into(),
        };
        assert_eq!((list.len(), &list["/usr/bin/busybox"]), (2, &busybox));
        assert_eq!(list["/bin"].content, Content::Link("usr/bin".into()));
    }

    #[test]
    fn one_malformed_line_invalidates_the_list() {
        let good = format!("{SUM}\t/a\tx\n");
        assert_eq!(parse(""), Err(InvalidList::Empty));
        for bad in [
            format!("{SUM}\t/b"),
            format!("{SUM}\t/b\tx\ty"),
            format!("{}\t/b\tx", SUM.to_uppercase()),
            format!("{}\t/b\tx", SUM.strip_prefix('9').unwrap()),
            "-> \t/b\tx".to_owned(),
            format!("{SUM}\tb\tx"),
            format!("{SUM}\t/\tx"),
            format!("{SUM}\t/b/../c\tx"),
            format!("{SUM}\t/b/\tx"),
            String::new(),
            good.trim_end().to_owned(),
        ] {
            let error = parse(&format!("{good}{bad}\n")).unwrap_err();
            assert!(
                matches!(error, InvalidList::Line { line: 2, .. }),
                "{bad}: {error}"
            );
        }
    }
}
