//! A finished report, or init's verdict if there is no report: its bytes unchanged, and the few values that
//! places need. Nothing else in it is checked here.

use super::shelf::plain;
use contract::schema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// What can be published.
const SCHEMAS: [&str; 2] = [schema::REPORT, schema::VERDICT];

/// Maximum size of a report; init refuses larger ones too.
pub const LARGEST: u64 = 64 << 20;

/// A finished report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The bytes as they were written.
    pub bytes: Vec<u8>,
    /// `20261120T100000Z-PASS`: start and verdict.
    pub name: String,
}

/// The values that are read.
#[derive(Debug, Deserialize)]
struct Head {
    schema: String,
    verdict: String,
    started: Option<String>,
}

impl Finished {
    /// Parses a report. `verdict` overrides the report's own.
    ///
    /// # Errors
    /// Why it is not a report.
    pub fn from_json(bytes: Vec<u8>, verdict: Option<&str>) -> Result<Self, String> {
        let head: Head = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        if !SCHEMAS.contains(&head.schema.as_str()) {
            return Err(format!("schema: read {:?}, allowed: {}", head.schema, SCHEMAS.join(", ")));
        }
        let started = plain(head.started.as_deref().unwrap_or("unknown"));
        let name = format!("{started}-{}", plain(verdict.unwrap_or(&head.verdict)));
        Ok(Self { bytes, name })
    }
}

/// The verdict in a saved file's name, `000001-20261120T100000Z-PASS.json`.
#[must_use]
pub(super) fn verdict_of(name: &str) -> &str {
    name.trim_end_matches(".json").rsplit('-').next().unwrap_or("")
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_named_by_its_start_and_the_verdict_that_counts() {
        let text =
            r#"{"schema":"firstlight.report/1","verdict":"PASS","started":"2026-11-20T10:00:00Z","x":[]}"#;
        let read = |verdict| Finished::from_json(text.into(), verdict).unwrap().name;
        assert_eq!(read(None), "20261120T100000Z-PASS");
        assert_eq!(read(Some("ERROR")), "20261120T100000Z-ERROR");
        assert_eq!(verdict_of("000001-20261120T100000Z-ERROR.json"), "ERROR");
        let verdict = r#"{"schema":"firstlight.verdict/1","verdict":"ERROR","cause":null}"#;
        assert_eq!(Finished::from_json(verdict.into(), None).unwrap().name, "unknown-ERROR");
    }

    #[test]
    fn anything_else_is_not_published() {
        for bad in ["", "{}", "[]", r#"{"schema":"other/1","verdict":"PASS"}"#, "no json"] {
            assert!(Finished::from_json(bad.into(), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_what_sha256sum_prints() {
        assert_eq!(digest(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
