//! `firstlight list`: every test, from its own data.

use crate::suite::{ALL, Test};
use outcome::text::wrapped;
use report::Level;
use serde::Serialize;

/// One test as `list --json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The id for `--only`.
    pub id: &'static str,
    /// The name.
    pub title: &'static str,
    /// The first level that runs it.
    pub level: Level,
    /// What a pass proves.
    pub proves: &'static str,
    /// Its deadline in seconds.
    pub deadline_s: u64,
    /// If it is not run, the verdict is ERROR.
    pub mandatory: bool,
}

/// `firstlight.list/1`
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct List {
    /// The format's name.
    pub schema: &'static str,
    /// Every test in its order.
    pub tests: Vec<Entry>,
}

impl From<&Test> for Entry {
    fn from(test: &Test) -> Self {
        Self {
            id: test.id(),
            title: test.title,
            level: test.level,
            proves: test.proves,
            deadline_s: test.deadline.as_secs(),
            mandatory: test.mandatory,
        }
    }
}

/// All tests as data.
#[must_use]
pub fn list() -> List {
    List {
        schema: "firstlight.list/1",
        tests: ALL.iter().map(|t| Entry::from(*t)).collect(),
    }
}

/// All tests as text.
#[must_use]
pub fn text(list: &List) -> String {
    let mut text = format!(
        "{:<15} {:<10} {:<9} {:<9} a pass proves that\n",
        "test", "level", "deadline", "mandatory"
    );
    for test in &list.tests {
        let mandatory = if test.mandatory { "yes" } else { "no" };
        let level = test.level.to_string();
        let deadline = format!("{} s", test.deadline_s);
        let first = format!("{:<15} {level:<10} {deadline:<9} {mandatory:<9} ", test.id);
        text += &wrapped(&first, &" ".repeat(first.len()), test.proves);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_listed_within_80_columns() {
        let text = text(&list());
        for test in ALL {
            assert!(text.lines().any(|l| l.starts_with(test.id())), "{text}");
        }
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
    }
}
