//! A finding as the journal keeps it: as people read it, and with its reason, from which its words are made again.

use outcome::finding::{Finding, FindingEntry, Reason, Subject};
use outcome::platform::Host;
use serde::{Deserialize, Deserializer, Serialize};

/// One finding in a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptFinding {
    #[serde(flatten, deserialize_with = "with_subject")]
    entry: FindingEntry,
    /// Earlier journals lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
}

impl KeptFinding {
    /// The finding for the journal.
    #[must_use]
    pub fn of(finding: &Finding) -> Self {
        Self {
            entry: FindingEntry::of(finding, &Host::default()),
            reason: finding.reason.clone(),
        }
    }

    /// What it is about.
    #[must_use]
    pub fn about(&self) -> &Subject {
        self.entry.about()
    }

    /// The finding; `None` if its code is of a later version.
    #[must_use]
    pub fn into_finding(self) -> Option<Finding> {
        Some(Finding {
            reason: self.reason,
            ..self.entry.into_finding()?
        })
    }
}

/// Earlier journals have the subject only as text.
fn with_subject<'de, D: Deserializer<'de>>(from: D) -> Result<FindingEntry, D::Error> {
    let mut entry = FindingEntry::deserialize(from)?;
    if entry.about.is_none() {
        let Ok(subject) = entry.subject.to_string().parse();
        entry.about = Some(subject);
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::sample::bdf;
    use outcome::finding::{Code, Severity};
    use serde_json::json;

    #[test]
    fn a_finding_comes_back_with_its_reason() {
        let finding = Code::RebarAbsent.finding(Severity::Info, bdf("0000:10:00.0"), "said");
        let finding = finding
            .values(1_u64 << 35, 0.5, Some("bytes"))
            .because(Reason::FixedBar);
        let text = serde_json::to_string(&KeptFinding::of(&finding)).unwrap();
        assert_eq!(
            serde_json::from_str::<KeptFinding>(&text)
                .unwrap()
                .into_finding(),
            Some(finding)
        );
    }

    #[test]
    fn a_finding_of_an_earlier_journal_is_about_what_its_text_names() {
        let earlier = json!({ "code": "REBAR-NO-ROOM", "severity": "warn", "subject": "0000:10:00.0", "message": "said",
            "measured": 1, "expected": 2, "unit": "bytes", "evidence": [], "cause": "x", "remedy": "y" });
        let kept: KeptFinding = serde_json::from_value(earlier).unwrap();
        assert_eq!(kept.about(), &Subject::from(bdf("0000:10:00.0")));
        assert!(kept.into_finding().unwrap().is(Code::RebarNoRoom));
    }
}
