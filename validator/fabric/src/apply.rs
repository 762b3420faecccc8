//! Carries out a plan: journals the intent, writes each register, reads it back, and reads all of them again
//! after the last write, because a port may accept a write and revert it.

use super::journal::{Entry, Journal, JournalError};
use super::plan::{Action, Plan};
use super::register;
use machine::pcie::routing::REDIRECT;
use machine::root::Root;
use outcome::finding::{Code, Finding, Severity};
use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// ACS control is 16 bits.
const WIDTH: u8 = 2;

/// The writes of a pass, and the findings about them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Applied {
    /// Each write, with the final value of the register.
    pub entries: Vec<Entry>,
    /// What the plan did not change, and writes that did not last.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// Carries out `plan` and updates `journal`. A plan without actions writes no register; its empty journal
/// then records that the pass ran.
///
/// # Errors
/// If the journal cannot be read or written; if this happens before the first write, nothing has changed.
pub fn fix(root: &Root, plan: &Plan, journal: &Path) -> Result<Applied, JournalError> {
    let mut findings = plan.findings.clone();
    let earlier = Journal::load(journal, root.path())?;
    if plan.actions.is_empty() {
        if earlier.is_none() {
            Journal::new(root.path()).save(journal)?;
        }
        return Ok(Applied {
            entries: Vec::new(),
            findings,
        });
    }
    let mut kept = earlier.unwrap_or_else(|| Journal::new(root.path()));
    let earlier = kept.entries.len();
    kept.entries.extend(plan.actions.iter().map(journal_entry));
    kept.identify(root);
    kept.save(journal)?;
    let mut entries = kept.entries.split_off(earlier);
    let first: Vec<_> = plan
        .actions
        .iter()
        .map(|action| write(root, action))
        .collect();
    for (entry, first) in entries.iter_mut().zip(first) {
        let found = match first {
            Ok(first) => verify(root, entry, first),
            Err(refused) => Some(*refused),
        };
        entry.finding = found.as_ref().map(|f| f.code.as_str().to_owned());
        findings.extend(found);
    }
    kept.entries.extend(entries.iter().cloned());
    kept.save(journal)?;
    Ok(Applied { entries, findings })
}

fn journal_entry(action: &Action) -> Entry {
    let Action {
        bdf,
        register,
        offset,
        before,
        after,
    } = action.clone();
    Entry {
        bdf,
        register,
        offset,
        width: WIDTH,
        before,
        after,
        readback: None,
        finding: None,
        when: now(),
    }
}

/// Seconds since 1970; 0 if the clock is set to an earlier time.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// The value read back from a register, or why it could not be read.
type Reading = Result<u16, register::RegisterError>;

/// Writes one register; its value right after, or an error if nothing was written.
fn write(root: &Root, action: &Action) -> Result<Reading, Box<Finding>> {
    let Action {
        bdf,
        offset,
        before,
        after,
        ..
    } = action;
    register::read(root, *bdf, *offset)
        .and_then(|_| register::write(root, *bdf, *offset, *after))
        .map(|()| register::read(root, *bdf, *offset))
        .map_err(|e| {
            let message = format!("{action}: {e}");
            let finding = Code::AcsRefused.finding(severity(*before), bdf, message);
            Box::new(finding.values(Option::<u16>::None, *after, None))
        })
}

/// Reads one register after all writes, and distinguishes a write that was ignored from one that was
/// reverted. A register that was written and cannot be read does not count as refused: `restore` restores it.
fn verify(root: &Root, entry: &mut Entry, first: Reading) -> Option<Finding> {
    let last = register::read(root, entry.bdf, entry.offset);
    entry.readback = last.as_ref().ok().copied();
    match (first, last) {
        (Ok(first), Ok(last)) => judge_readback(entry, first, last),
        (Err(e), _) | (_, Err(e)) => {
            let message = format!(
                "{} {} was written but cannot be read: {e}",
                entry.bdf, entry.register
            );
            Some(Code::AcsUnknown.finding(Severity::Error, entry.bdf, message))
        }
    }
}

/// Pure: the meaning of two readings after a write.
fn judge_readback(entry: &Entry, first: u16, last: u16) -> Option<Finding> {
    let Entry {
        bdf,
        register,
        after,
        ..
    } = entry;
    if first == *after && last == *after {
        return None;
    }
    let (code, value, what) = if first == *after {
        (
            Code::AcsReverted,
            last,
            "accepted the write and then reverted it",
        )
    } else {
        (Code::AcsStuck, first, "ignored the write")
    };
    let message = format!("{bdf} {register} {what}: holds {value:#06x}, expected {after:#06x}");
    let seen = format!("wrote {after:#06x}, read {first:#06x}, after all writes {last:#06x}");
    Some(
        code.finding(severity(first | last), bdf, message)
            .values(value, *after, None)
            .seen(seen),
    )
}

/// A failure if bits remain that redirect, which the pass must clear; otherwise a warning.
fn severity(left: u16) -> Severity {
    if left & REDIRECT == 0 {
        Severity::Warn
    } else {
        Severity::Fail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let bdf = "0000:00:01.1".parse().unwrap();
        let register = "ACS control".to_owned();
        let (readback, finding) = (None, None);
        Entry {
            bdf,
            register,
            offset: 0x2a6,
            width: 2,
            before: 0x1d,
            after: 0,
            readback,
            finding,
            when: 0,
        }
    }

    #[track_caller]
    fn found(first: u16, last: u16) -> Option<(Code, Severity)> {
        judge_readback(&entry(), first, last).map(|f| (f.code, f.severity))
    }

    #[test]
    fn a_write_that_lasts_gives_no_finding() {
        assert_eq!(found(0, 0), None);
    }

    #[test]
    fn a_read_only_register_is_stuck() {
        assert_eq!(found(0x1d, 0x1d), Some((Code::AcsStuck, Severity::Fail)));
        assert_eq!(found(0x01, 0x01), Some((Code::AcsStuck, Severity::Warn)));
    }

    #[test]
    fn a_register_that_changes_back_is_reverted() {
        assert_eq!(found(0, 0x1d), Some((Code::AcsReverted, Severity::Fail)));
        let message = judge_readback(&entry(), 0, 0x1d).unwrap().message;
        assert!(
            message.ends_with("holds 0x001d, expected 0x0000"),
            "{message}"
        );
    }
}
