//! A finished report, or init's verdict if there is no report: its bytes unchanged, and the few values that
//! publishing it needs. What readers of reports refuse is not published.

use super::store::file_name_part;
use contract::schema;
use outcome::Verdict;
use serde::Deserialize;

/// The kinds of documents that can be published.
const SCHEMAS: [&str; 2] = [schema::REPORT, schema::VERDICT];

/// Maximum size of a report; init refuses larger ones too.
pub const LARGEST: u64 = 64 << 20;

/// A finished report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedReport {
    /// The bytes as they were written.
    pub bytes: Vec<u8>,
    /// `20261120T100000Z-PASS`: start and verdict.
    pub name: String,
}

/// The verdict, of a document whose schema is known.
#[derive(Debug, Deserialize)]
struct Verdicts {
    verdict: Verdict,
}

/// The values that are read from a report.
#[derive(Debug, Deserialize)]
struct Head {
    schema: String,
    started: Option<String>,
}

impl FinishedReport {
    /// Parses a report; `verdict` overrides its own verdict, which it may only make worse.
    ///
    /// # Errors
    /// The bytes are not a report, it contradicts itself, or `verdict` is better than its own; one line.
    pub fn from_json(bytes: Vec<u8>, verdict: Option<&str>) -> Result<Self, String> {
        let head: Head = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        if !SCHEMAS.contains(&head.schema.as_str()) {
            return Err(format!(
                "schema: read {:?}, allowed: {}",
                head.schema,
                SCHEMAS.join(", ")
            ));
        }
        let own = if head.schema == schema::REPORT {
            report::from_json(&bytes)
                .map_err(|e| e.to_string())?
                .verdict
        } else {
            let read: Verdicts = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
            read.verdict
        };
        let verdict = verdict.map_or(Ok(own), |word| not_better(word, own))?;
        let started = file_name_part(head.started.as_deref().unwrap_or("unknown"));
        let name = format!("{started}-{verdict}");
        Ok(Self { bytes, name })
    }
}

/// The verdict that `word` names. The name and the headers of a report must not claim more than it proves.
fn not_better(word: &str, own: Verdict) -> Result<Verdict, String> {
    let all = [
        Verdict::Pass,
        Verdict::Degraded,
        Verdict::Fail,
        Verdict::Error,
    ];
    all.into_iter()
        .find(|verdict| *verdict >= own && verdict.to_string() == word)
        .ok_or_else(|| {
            format!("verdict: read {word}, allowed: the report's own, {own}, or a worse one")
        })
}

/// The part of a report that identifies its machine.
#[derive(Debug, Default, Deserialize)]
struct Whose {
    #[serde(default)]
    machine: Machine,
}

#[derive(Debug, Default, Deserialize)]
struct Machine {
    host: Option<String>,
    machine_id: Option<String>,
    serial: Option<String>,
}

/// The HTTP headers that identify a report's machine. Values that the report lacks are `unknown`; a missing serial
/// number is left out.
pub(super) fn machine_headers(bytes: &[u8]) -> Vec<(&'static str, String)> {
    let Whose { machine } = serde_json::from_slice(bytes).unwrap_or_default();
    let known = |value: Option<String>| value.map_or("unknown".to_owned(), |text| in_header(&text));
    let mut headers = vec![
        ("Firstlight-Host", known(machine.host)),
        ("Firstlight-Machine-Id", known(machine.machine_id)),
    ];
    headers.extend(
        machine
            .serial
            .map(|serial| ("Firstlight-Serial", in_header(&serial))),
    );
    headers
}

/// Makes a text valid in a header: visible ASCII characters, at most 255.
fn in_header(text: &str) -> String {
    let text: String = text.trim().chars().take(255).collect();
    text.chars()
        .map(|c| {
            if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            }
        })
        .collect()
}

/// The verdict in a saved file's name, `000001-20261120T100000Z-PASS.json`.
#[must_use]
pub(super) fn verdict_of(name: &str) -> &str {
    name.trim_end_matches(".json")
        .rsplit('-')
        .next()
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of one test, which failed.
    const REPORT: &str = include_str!("../../../tests/data/published.json");

    #[test]
    fn the_headers_say_which_machine_it_is_and_cannot_be_broken() {
        let json = br#"{"machine":{"host":"n\r\nX: 1","machine_id":null,"serial":"S 4"}}"#;
        let said = [
            ("Firstlight-Host", "n??X: 1"),
            ("Firstlight-Machine-Id", "unknown"),
            ("Firstlight-Serial", "S 4"),
        ];
        assert_eq!(
            machine_headers(json),
            said.map(|(name, value)| (name, value.to_owned()))
        );
        assert_eq!(machine_headers(b"{}").len(), 2);
    }

    #[test]
    fn a_report_is_named_by_its_start_and_the_verdict_that_counts() {
        let read = |verdict| {
            FinishedReport::from_json(REPORT.into(), verdict).map(|finished| finished.name)
        };
        assert_eq!(read(None).unwrap(), "20261120T100000Z-FAIL");
        assert_eq!(read(Some("ERROR")).unwrap(), "20261120T100000Z-ERROR");
        assert_eq!(
            read(Some("DEGRADED")).unwrap_err(),
            "verdict: read DEGRADED, allowed: the report's own, FAIL, or a worse one"
        );
        assert_eq!(verdict_of("000001-20261120T100000Z-ERROR.json"), "ERROR");
        let verdict = r#"{"schema":"firstlight.verdict/1","verdict":"ERROR","cause":null}"#;
        assert_eq!(
            FinishedReport::from_json(verdict.into(), None)
                .unwrap()
                .name,
            "unknown-ERROR"
        );
    }

    #[test]
    fn anything_else_is_not_published() {
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"schema":"other/1","verdict":"PASS"}"#,
            r#"{"schema":"firstlight.report/1","verdict":"PASS"}"#,
            r#"{"schema":"firstlight.verdict/1","verdict":"GOOD"}"#,
            &REPORT.replace("FAIL", "PASS"),
            "no json",
        ] {
            assert!(
                FinishedReport::from_json(bad.into(), None).is_err(),
                "{bad}"
            );
        }
    }
}
