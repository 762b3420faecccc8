//! What the fabric pass did earlier, read from its journal: the registers it cleared, and why a port redirects
//! although the pass ran.

use fabric::journal::{Entry, Journal};
use fabric::plan::ACS_CONTROL_NAME;
use machine::root::Root;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};

/// The journal's entries, and their findings. Without a journal the pass did not run.
pub(super) fn read(root: &Root) -> (Vec<Entry>, Vec<Finding>) {
    match Journal::of(root) {
        Err(e) => {
            let message = format!("the results of the fabric pass are unknown: {e}");
            (
                Vec::new(),
                vec![Code::SysUnreadable.finding(Severity::Warn, Subject::Machine, message)],
            )
        }
        Ok(journal) => {
            let entries = journal.map_or_else(Vec::new, |j| j.entries);
            let findings = cleared(&entries);
            (entries, findings)
        }
    }
}

fn cleared(entries: &[Entry]) -> Vec<Finding> {
    let lasting: Vec<_> = entries
        .iter()
        .filter(|e| e.readback == Some(e.after))
        .collect();
    if lasting.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "the fabric pass cleared {} ACS control registers",
        lasting.len()
    );
    let seen = lasting
        .iter()
        .map(|e| format!("{}: {:#06x} -> {:#06x}", e.bdf, e.before, e.after))
        .collect();
    vec![
        Code::AcsCleared
            .finding(Severity::Info, Subject::Machine, message)
            .seen_all(seen),
    ]
}

/// A port that redirects although the pass wrote to it: the result of the write is the fault, and running the
/// pass again is no remedy. Any other finding stays unchanged.
pub(super) fn with_write_result(found: Finding, journal: &[Entry]) -> Finding {
    let about =
        |e: &&Entry| e.register == ACS_CONTROL_NAME && Subject::from(e.bdf) == found.subject;
    match journal.iter().rev().find(about) {
        Some(entry) if found.is(Code::AcsRedirect) => write_result(entry, &found).unwrap_or(found),
        _ => found,
    }
}

/// The result of a write to a port that redirects now. An entry with neither a result nor a failure comes from
/// a pass that died.
fn write_result(entry: &Entry, found: &Finding) -> Option<Finding> {
    let codes = [Code::AcsStuck, Code::AcsReverted, Code::AcsRefused];
    let code = match &entry.finding {
        Some(name) => codes.into_iter().find(|code| code.as_str() == name)?,
        None if entry.readback == Some(entry.after) => Code::AcsReverted,
        None => return None,
    };
    let what = match code {
        Code::AcsStuck => "did not keep the value that the fabric pass wrote",
        Code::AcsRefused => "could not be written by the fabric pass",
        _ if entry.finding.is_none() => "was cleared by the fabric pass and redirects again",
        _ => "kept the value that the fabric pass wrote, but later changed back",
    };
    let Entry {
        bdf,
        register,
        before,
        after,
        ..
    } = entry;
    let message = format!(
        "{bdf} {what}: {register} is {}, expected {after:#06x}",
        control(found)
    );
    let reads = entry
        .readback
        .map_or_else(|| "not read back".to_owned(), |v| format!("reads {v:#06x}"));
    let seen =
        format!("fabric pass, {bdf} {register}: held {before:#06x}, wrote {after:#06x}, {reads}");
    let finding = code
        .finding(found.severity, bdf, message)
        .seen_all(found.evidence.clone())
        .seen(seen);
    let finding = finding.values(found.measured.clone(), *after, None);
    Some(if entry.finding.is_none() {
        finding.because(Reason::ChangedAfterPass)
    } else {
        finding
    })
}

/// The register's present value, in the usual notation.
fn control(found: &Finding) -> String {
    found
        .measured
        .as_u64()
        .map_or_else(|| found.measured.to_string(), |ctrl| format!("{ctrl:#06x}"))
}

/// An entry for tests: the register held 0x001d and zero was written.
#[cfg(test)]
pub(super) fn entry(
    bdf: machine::pcie::model::Bdf,
    readback: Option<u16>,
    finding: Option<&str>,
) -> Entry {
    let (register, finding) = (ACS_CONTROL_NAME.to_owned(), finding.map(str::to_owned));
    Entry {
        bdf,
        register,
        offset: 0x14e,
        width: 2,
        before: 0x1d,
        after: 0,
        readback,
        finding,
        when: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture::port;

    fn redirects() -> Finding {
        let found = Code::AcsRedirect.finding(Severity::Fail, port(0), "redirects");
        found.values(0x1d, 0, None).seen("now")
    }

    #[track_caller]
    fn said(journal: &[Entry]) -> Finding {
        with_write_result(redirects(), journal)
    }

    #[test]
    fn registers_that_the_pass_cleared_are_reported_if_that_lasted() {
        assert_eq!(
            cleared(&[entry(port(0), Some(0x1d), None), entry(port(0), None, None)]),
            []
        );
        let said = &cleared(&[entry(port(0), Some(0), None)])[0];
        assert_eq!(
            said.message,
            "the fabric pass cleared 1 ACS control registers"
        );
        assert_eq!(said.evidence, [format!("{}: 0x001d -> 0x0000", port(0))]);
    }

    #[test]
    fn a_damaged_journal_warns_and_a_missing_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert_eq!(read(&root), (vec![], vec![]));
        std::fs::create_dir_all(root.join("run/firstlight")).unwrap();
        std::fs::write(Journal::place(&root).unwrap(), "{").unwrap();
        assert_eq!(read(&root).1[0].severity, Severity::Warn);
    }

    #[test]
    fn a_failed_write_is_the_ports_fault() {
        for (code, readback) in [
            ("ACS-STUCK", Some(0x1d)),
            ("ACS-REVERTED", Some(0x1d)),
            ("ACS-REFUSED", None),
        ] {
            let said = said(&[entry(port(0), readback, Some(code))]);
            assert_eq!((said.code.as_str(), said.severity), (code, Severity::Fail));
            assert!(
                said.reason.is_none() && !said.shown_remedy().contains("fabric fix"),
                "{said:?}"
            );
        }
        assert_eq!(
            said(&[entry(port(0), Some(0x1d), Some("ACS-OTHER"))]),
            redirects()
        );
    }

    #[test]
    fn a_lasting_write_that_is_undone_now_was_reverted() {
        let said = said(&[entry(port(0), Some(0), None)]);
        assert!(
            said.is(Code::AcsReverted) && said.reason == Some(Reason::ChangedAfterPass),
            "{said:?}"
        );
        assert_eq!(
            said.message,
            "0000:02:00.0 was cleared by the fabric pass and redirects again: ACS control is 0x001d, expected 0x0000"
        );
        assert_eq!(
            said.evidence,
            [
                "now",
                "fabric pass, 0000:02:00.0 ACS control: held 0x001d, wrote 0x0000, reads 0x0000"
            ]
        );
    }

    #[test]
    fn a_pass_that_died_or_wrote_another_register_explains_nothing() {
        assert_eq!(said(&[]), redirects());
        assert_eq!(said(&[entry(port(0), None, None)]), redirects());
        assert_eq!(said(&[entry(port(1), Some(0), None)]), redirects());
        let other = Entry {
            register: "BAR size".into(),
            ..entry(port(0), Some(0), None)
        };
        assert_eq!(said(&[other]), redirects());
    }

    #[test]
    fn the_latest_write_counts() {
        let (stuck, lasted) = (
            entry(port(0), Some(0x1d), Some("ACS-STUCK")),
            entry(port(0), Some(0), None),
        );
        assert!(said(&[stuck.clone(), lasted.clone()]).is(Code::AcsReverted));
        assert!(said(&[lasted, stuck]).is(Code::AcsStuck));
    }

    #[test]
    fn another_finding_about_the_port_stays() {
        let quirk = Code::AcsQuirk.finding(Severity::Fail, port(0), "not written");
        let stuck = entry(port(0), Some(0x1d), Some("ACS-STUCK"));
        assert_eq!(with_write_result(quirk.clone(), &[stuck]), quirk);
    }
}
