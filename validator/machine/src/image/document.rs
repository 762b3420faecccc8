//! The output of `firstlight image`, as text and as `firstlight.image/1`. Pure. Of many differences only the
//! first are shown, but all are counted.

use super::compare::{Change, Difference};
use super::{ExamineError, Examined, IDENTITY_FILE};
use crate::root::Root;
use outcome::text::shown;
use serde::Serialize;
use std::fmt::Write as _;

/// How many differences are shown.
pub const SHOWN: usize = 20;

/// The answer. Every key is always present; an unknown value is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    /// The root that was read; `/` for the machine itself.
    root: String,
    version: Option<&'a str>,
    image_id: Option<&'a str>,
    manifest_sha256: Option<&'a str>,
    /// Kernel command line.
    cmdline: Option<&'a str>,
    /// `null` if unknown, or if this is not an image.
    golden: Option<bool>,
    /// The result in one line.
    summary: String,
    /// Files and links that are listed.
    files: Option<usize>,
    /// The amount of data that was hashed.
    bytes: Option<u64>,
    driver: Option<&'static str>,
    changed: Option<usize>,
    missing: Option<usize>,
    added: Option<usize>,
    /// The first of them, by path.
    differences: &'a [Difference],
}

impl<'a> Document<'a> {
    /// The document for a result.
    #[must_use]
    pub fn of(
        root: &Root,
        cmdline: Option<&'a str>,
        seen: &'a Result<Option<Examined>, ExamineError>,
    ) -> Self {
        let nothing = |summary| Self {
            schema: "firstlight.image/1",
            root: root.name(),
            version: None,
            image_id: None,
            manifest_sha256: None,
            cmdline,
            golden: None,
            summary,
            files: None,
            bytes: None,
            driver: None,
            changed: None,
            missing: None,
            added: None,
            differences: &[],
        };
        match seen {
            Err(why) => nothing(format!("not known: {why}")),
            Ok(None) => nothing(format!(
                "not applicable: no {IDENTITY_FILE}, so this is not a firstlight image"
            )),
            Ok(Some(seen)) => Self {
                version: Some(&seen.appliance.version),
                image_id: seen.appliance.image_id.as_deref(),
                manifest_sha256: seen.appliance.manifest_sha256.as_deref(),
                golden: Some(seen.is_golden()),
                files: Some(seen.listed),
                bytes: Some(seen.bytes),
                driver: Some(seen.driver.words()),
                changed: Some(seen.count(Change::Changed)),
                missing: Some(seen.count(Change::Missing)),
                added: Some(seen.count(Change::Added)),
                differences: seen.differences.get(..SHOWN).unwrap_or(&seen.differences),
                ..nothing(seen.to_string())
            },
        }
    }

    /// The text; the answer is the last line, where it is easiest to see.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: Option<&str>| {
            let value = shown(value.unwrap_or("not known"));
            // Writing into a String cannot fail.
            let _ = writeln!(out, "{name:<9} {value}");
        };
        if self.golden.is_some() {
            line("version", self.version);
            line("image", self.image_id);
            line("manifest", self.manifest_sha256);
        }
        line("cmdline", self.cmdline);
        if self.golden.is_some() {
            line("driver", self.driver);
        }
        for difference in self.differences {
            line(difference.change.word(), Some(&worded(difference)));
        }
        let all = [self.changed, self.missing, self.added]
            .into_iter()
            .flatten()
            .sum::<usize>();
        if let Some(more @ 1..) = all.checked_sub(self.differences.len()) {
            line("..", Some(&format!("and {more} more")));
        }
        let _ = writeln!(out, "{}", self.summary);
        out
    }
}

/// `/usr/bin/busybox (busybox-static 1:1.37.0-6): expected 598a3fd92bda, found 01ba4719c80b`
#[must_use]
pub fn worded(difference: &Difference) -> String {
    let Difference {
        path,
        package,
        expected,
        found,
        ..
    } = difference;
    let package = package
        .as_ref()
        .map_or_else(String::new, |package| format!(" ({package})"));
    let states = [("expected", expected), ("found", found)];
    let states = states
        .iter()
        .filter_map(|(word, value)| Some(format!("{word} {}", short(value.as_ref()?))));
    shown(&format!(
        "{path}{package}: {}",
        states.collect::<Vec<_>>().join(", ")
    ))
}

/// The beginning of a SHA-256; anything else as it is.
fn short(value: &str) -> &str {
    let is_sum = value.len() == 64 && value.bytes().all(|b| b.is_ascii_hexdigit());
    value.get(..12).filter(|_| is_sum).unwrap_or(value)
}
