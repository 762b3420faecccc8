//! Compares what exists with the list. Pure, except for a function that hashes files; it is called once per
//! file and for listed files only.

use super::list::{Content, FileList, ListedFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// What exists at a path; folders are not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundObject {
    /// A file.
    File,
    /// A symbolic link to this.
    Link(String),
    /// A device, a socket or a pipe.
    Special,
}

/// What exists, by path.
pub type FoundFiles = BTreeMap<String, FoundObject>;

/// How something differs from the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Something else is there.
    Changed,
    /// It is missing.
    Missing,
    /// It is not listed.
    Added,
}

impl Change {
    /// As one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Added => "added",
        }
    }
}

/// One difference from the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How it differs.
    pub change: Change,
    /// The path.
    pub path: String,
    /// The package of the listed file.
    pub package: Option<String>,
    /// What is listed.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
}

impl Difference {
    /// Something else is at `path`.
    #[must_use]
    pub fn changed(path: &str, expected: impl Into<String>, found: impl Into<String>) -> Self {
        let (expected, found) = (Some(expected.into()), Some(found.into()));
        Self {
            change: Change::Changed,
            path: path.to_owned(),
            package: None,
            expected,
            found,
        }
    }

    /// `path` is not listed.
    #[must_use]
    pub fn added(path: &str, found: impl Into<String>) -> Self {
        let found = Some(found.into());
        Self {
            change: Change::Added,
            path: path.to_owned(),
            package: None,
            expected: None,
            found,
        }
    }
}

/// Every difference, by path. `hash` gives a file's SHA-256 in hexadecimal.
///
/// # Errors
/// The first file that could not be hashed, with the reason; a file that has disappeared is missing.
pub fn compare(
    list: &FileList,
    tree: &FoundFiles,
    mut hash: impl FnMut(&str) -> io::Result<String>,
) -> Result<Vec<Difference>, (String, io::Error)> {
    let mut differences = Vec::new();
    for (path, listed) in list {
        let found = match (tree.get(path), &listed.content) {
            (Some(FoundObject::File), Content::File(_)) => match hash(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                hashed => Some(hashed.map_err(|e| (path.clone(), e))?),
            },
            (found, _) => found.map(word),
        };
        differences.extend(difference(path, listed, found));
    }
    let added = tree.iter().filter(|(path, _)| !list.contains_key(*path));
    differences.extend(added.map(|(path, found)| Difference::added(path, word(found))));
    differences.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(differences)
}

fn difference(path: &str, listed: &ListedFile, found: Option<String>) -> Option<Difference> {
    let expected = match &listed.content {
        Content::File(sum) => sum.clone(),
        Content::Link(target) => format!("-> {target}"),
    };
    let change = if found.is_some() {
        Change::Changed
    } else {
        Change::Missing
    };
    (found.as_ref() != Some(&expected)).then(|| Difference {
        change,
        path: path.to_owned(),
        package: Some(listed.origin.clone()),
        expected: Some(expected),
        found,
    })
}

fn word(found: &FoundObject) -> String {
    match found {
        FoundObject::File => "a file".to_owned(),
        FoundObject::Link(target) => format!("-> {target}"),
        FoundObject::Special => "a device, a socket or a pipe".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::parse;
    use super::*;

    const SUM: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn list() -> FileList {
        parse(&format!(
            "{SUM}\t/init\tbuilt here\n{SUM}\t/usr/a\tp 1\n-> usr/bin\t/bin\tbuilt here\n"
        ))
        .unwrap()
    }

    fn tree() -> FoundFiles {
        let link = FoundObject::Link("usr/bin".into());
        [
            ("/bin", link),
            ("/init", FoundObject::File),
            ("/usr/a", FoundObject::File),
        ]
        .map(|(p, f)| (p.into(), f))
        .into()
    }

    fn differences(tree: &FoundFiles) -> Vec<(Change, String)> {
        let found = compare(&list(), tree, |_| Ok(SUM.to_owned())).unwrap();
        found.into_iter().map(|d| (d.change, d.path)).collect()
    }

    fn with(path: &str, found: FoundObject) -> FoundFiles {
        let mut tree = tree();
        tree.insert(path.to_owned(), found);
        tree
    }

    #[test]
    fn listed_files_give_no_difference() {
        assert_eq!(differences(&tree()), []);
    }

    #[test]
    fn a_different_content_kind_or_target_is_a_change() {
        let found = compare(&list(), &tree(), |path| {
            Ok(if path == "/init" {
                "00".into()
            } else {
                SUM.into()
            })
        });
        let found = found.unwrap();
        assert_eq!(
            (
                found.len(),
                found[0].path.as_str(),
                found[0].found.as_deref()
            ),
            (1, "/init", Some("00"))
        );
        for (path, kind) in [
            ("/init", FoundObject::Link("x".into())),
            ("/init", FoundObject::Special),
            ("/bin", FoundObject::File),
            ("/bin", FoundObject::Link("usr/sbin".into())),
        ] {
            assert_eq!(
                differences(&with(path, kind)),
                [(Change::Changed, path.to_owned())]
            );
        }
    }

    #[test]
    fn missing_and_added_files_are_reported() {
        assert_eq!(
            differences(&with("/etc/x", FoundObject::File)),
            [(Change::Added, "/etc/x".to_owned())]
        );
        for path in ["/bin", "/usr/a"] {
            let mut less = tree();
            less.remove(path);
            assert_eq!(differences(&less), [(Change::Missing, path.to_owned())]);
        }
    }

    #[test]
    fn a_link_in_place_of_a_folder_hides_the_files_below_it() {
        let mut other = tree();
        other.remove("/usr/a");
        other.insert("/usr".into(), FoundObject::Link("/evil".into()));
        assert_eq!(
            differences(&other),
            [
                (Change::Added, "/usr".to_owned()),
                (Change::Missing, "/usr/a".to_owned())
            ]
        );
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_a_disappeared_one_is_missing() {
        let failing = |kind: io::ErrorKind| compare(&list(), &tree(), move |_| Err(kind.into()));
        assert_eq!(
            failing(io::ErrorKind::PermissionDenied).unwrap_err().0,
            "/init"
        );
        let gone = failing(io::ErrorKind::NotFound).unwrap();
        assert!(
            gone.len() == 2 && gone.iter().all(|d| d.change == Change::Missing),
            "{gone:?}"
        );
    }

    #[test]
    fn a_link_is_not_a_file_that_contains_its_target() {
        // A file of a link's bytes has a hash, never `-> ..`.
        let found = compare(&list(), &with("/bin", FoundObject::File), |_| {
            Ok("-> usr/bin".into())
        })
        .unwrap();
        assert!(found.iter().any(|d| d.path == "/bin"), "{found:?}");
    }
}
