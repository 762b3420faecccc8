//! Findings of reports from before subjects were types: what they are about is read from their texts. The only place that
//! reads texts of firstlight.

use super::Report;
use outcome::finding::{Code, FindingEntry, Subject, Words};
use outcome::platform::Pair;

/// The endings of a message that stands for further findings, whose messages are its evidence. The second is of reports
/// before November 2026.
const MORE: [&str; 2] = [" more of this kind", " more like it"];
/// The words in a finding's cause that say more exactly what is wrong, as clause.
const CLAUSES: &[(Code, &str, &str)] = &[
    (
        Code::P2pUnsupported,
        "stock driver",
        "the stock driver refuses it",
    ),
    (
        Code::P2pUnsupported,
        "registry key",
        "a registry key of the driver switches it off",
    ),
    (
        Code::P2pUnsupported,
        "too far apart",
        "the driver finds the GPUs too far apart",
    ),
    (
        Code::P2pWrongData,
        "dropped",
        "what is written to the peer does not arrive",
    ),
    (
        Code::P2pWrongData,
        "reads of",
        "reads of the peer give other data",
    ),
    (
        Code::P2pWrongData,
        "bits are flipped",
        "bits arrive flipped",
    ),
];

/// Adds to each finding of an earlier report what it is about.
pub(super) fn complete(report: &mut Report) {
    let gpus = report.gpus.len();
    let of_fabric = report
        .fabric
        .iter_mut()
        .flat_map(|fabric| &mut fabric.findings);
    let findings = report
        .tests
        .iter_mut()
        .flat_map(|test| &mut test.findings)
        .chain(of_fabric);
    for finding in findings.filter(|finding| finding.about.is_none()) {
        complete_finding(finding, gpus);
    }
}

fn complete_finding(finding: &mut FindingEntry, gpus: usize) {
    let subject = finding.subject.to_string();
    let (message, cause) = (finding.message.to_string(), finding.cause.to_string());
    finding.about = Some(all_pairs(&subject, gpus).unwrap_or_else(|| subject_of(&subject)));
    if MORE.iter().any(|ending| message.ends_with(ending)) {
        let lines = finding
            .evidence
            .iter()
            .filter_map(|line| line.split(':').next());
        finding.represents = lines
            .map(subject_of)
            .filter(|subject| !subject.named_pairs().is_empty())
            .collect();
    }
    let clause = CLAUSES
        .iter()
        .find(|(code, words, _)| finding.is(*code) && cause.contains(words));
    finding.clause = clause.map(|(.., clause)| Words::from(*clause));
}

fn subject_of(text: &str) -> Subject {
    // Every text is a subject.
    text.parse().unwrap_or(Subject::Unknown)
}

/// A machine with more GPUs is none of an earlier report: the number of pairs is the square of that of GPUs.
const MOST_GPUS: usize = 128;

/// All pairs of the machine, where the text counts as many and names only some: `12 pairs (GPU 0 -> 1, ..)`.
fn all_pairs(text: &str, gpus: usize) -> Option<Subject> {
    let counted: usize = text.split_once(" pairs (")?.0.parse().ok()?;
    let all = Pair::all(gpus).filter(|pair| pair.from != pair.to);
    (gpus <= MOST_GPUS && counted == gpus * gpus.saturating_sub(1)).then(|| Subject::pairs(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::GpuId;
    use outcome::finding::Severity;
    use outcome::platform::Host;

    fn earlier(
        code: Code,
        subject: &str,
        message: &str,
        cause: &str,
        evidence: &[&str],
    ) -> FindingEntry {
        let finding = code.finding(Severity::Fail, Subject::Machine, message);
        let mut entry = FindingEntry::of(&finding, &Host::default());
        entry.subject = subject.into();
        (entry.about, entry.cause) = (None, cause.into());
        entry.evidence = evidence.iter().map(|line| (*line).to_owned()).collect();
        complete_finding(&mut entry, 3);
        entry
    }

    #[test]
    fn an_earlier_finding_gets_its_subject_those_it_stands_for_and_its_clause() {
        let entry = earlier(
            Code::P2pWrongData,
            "GPU 0 -> 1",
            "zeros; and 2 more of this kind",
            "writes to the peer are dropped or misdirected",
            &["GPU 1 -> 0: zeros", "kmsg: nothing"],
        );
        assert_eq!(entry.about(), &Subject::from(Pair::of(0, 1)));
        assert_eq!(entry.represents, [Subject::from(Pair::of(1, 0))]);
        assert_eq!(
            entry.clause.unwrap(),
            "what is written to the peer does not arrive"
        );
        let all = earlier(
            Code::P2pUnsupported,
            "6 pairs (GPU 0 -> 1, ..)",
            "no",
            "",
            &[],
        );
        assert_eq!(all.about().named_pairs().len(), 6);
        assert_eq!(
            all_pairs("16256 pairs (GPU 0 -> 1, ..)", 128)
                .unwrap()
                .named_pairs()
                .len(),
            16256
        );
        assert_eq!(
            all_pairs("899970000 pairs (GPU 0 -> 1, ..)", 30_000),
            None,
            "it would take 14 GB"
        );
        assert_eq!(
            earlier(Code::NcclSlow, "all_reduce", "slow", "", &[])
                .about()
                .to_string(),
            "all_reduce"
        );
        assert_eq!(
            earlier(Code::GpuXid, "GPU 2", "x", "", &[]).about(),
            &Subject::from(GpuId::new(2))
        );
    }
}
