//! The names and descriptions of the scenarios, and suggestions for a mistyped name.

use super::scenario::{Scenario, folder, read};
use crate::error::{Error, Result};
use std::fs;
use std::path::PathBuf;
use strsim::levenshtein;
use toml::Table;

impl Scenario {
    /// Every scenario's name, in order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn names() -> Result<Vec<String>> {
        let mut names = Vec::new();
        for file in files()? {
            names.extend(read(&file)?.into_iter().map(|(name, _)| name));
        }
        names.sort();
        Ok(names)
    }

    /// Checks that there is a scenario of this name, or suggests similar names.
    ///
    /// # Errors
    /// One line for the user.
    pub fn check_exists(name: &str) -> std::result::Result<(), String> {
        let names = Self::names().map_err(|e| e.to_string())?;
        if names.iter().any(|other| other == name) {
            return Ok(());
        }
        let like = nearest(name, &names).join(", ");
        Err(format!(
            "there is no scenario '{name}'; the nearest are {like}; `list` names all"
        ))
    }

    /// The description of a scenario: the comment above it in its file.
    ///
    /// # Errors
    /// If there is no such scenario.
    pub fn description(name: &str) -> Result<String> {
        let file = file_containing(name)?;
        let text = fs::read_to_string(&file).map_err(Error::file("read", file))?;
        let header = format!("[{name}]");
        let above: Vec<_> = text.lines().take_while(|line| *line != header).collect();
        let mut remark: Vec<_> = above
            .iter()
            .rev()
            .map_while(|line| line.strip_prefix("# "))
            .collect();
        remark.reverse();
        Ok(remark.join(" "))
    }
}

/// The scenario files, in order.
fn files() -> Result<Vec<PathBuf>> {
    let folder = folder("scenarios");
    let entries = fs::read_dir(&folder).map_err(Error::file("read", &folder))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

fn missing(name: &str) -> Error {
    Error::Scenario {
        path: folder("scenarios"),
        why: format!("no scenario is called {name}"),
    }
}

/// The file that contains a scenario.
fn file_containing(name: &str) -> Result<PathBuf> {
    for file in files()? {
        if read(&file)?.contains_key(name) {
            return Ok(file);
        }
    }
    Err(missing(name))
}

/// The table of a scenario.
pub(super) fn table(name: &str) -> Result<Table> {
    let table = read(&file_containing(name)?)?.remove(name);
    table
        .and_then(|value| value.try_into().ok())
        .ok_or_else(|| missing(name))
}

/// The three names with the smallest edit distance from `name`.
fn nearest<'a>(name: &str, names: &'a [String]) -> Vec<&'a str> {
    let mut names: Vec<_> = names
        .iter()
        .map(|other| (levenshtein(name, other), other.as_str()))
        .collect();
    names.sort_unstable();
    names.into_iter().take(3).map(|(_, other)| other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let names = ["zeros", "healthy", "hang-copy", "stale"].map(str::to_owned);
        assert_eq!(nearest("helthy", &names)[0], "healthy");
        assert_eq!(nearest("zero", &names), ["zeros", "stale", "healthy"]);
        assert_eq!(
            (
                levenshtein("", "abc"),
                levenshtein("abc", "abc"),
                levenshtein("kitten", "sitting")
            ),
            (3, 0, 3)
        );
    }

    #[test]
    fn every_scenario_says_what_it_is_and_what_to_expect() {
        let names = Scenario::names().unwrap();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(
                !Scenario::description(&name).unwrap().is_empty(),
                "{name} does not say what it is"
            );
            let scenario = Scenario::named(&name).unwrap();
            let expect = scenario.expect();
            assert!(
                ["PASS", "DEGRADED", "FAIL", "ERROR"].contains(&expect.verdict.as_str()),
                "{name}"
            );
            assert_eq!(expect.verdict == "PASS", expect.fails.is_empty(), "{name}");
            assert!(scenario.count() > 1, "{name}");
        }
    }
}
