//! Single files of sysfs: an absent file may be valid; an unreadable one gives a finding.

use crate::machine::root::Root;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::text::shown::shown;
use std::fmt::Display;
use std::io::ErrorKind;

/// A file that some functions do not have: absent is `None`, unreadable gives a finding.
pub(super) fn optional(
    root: &Root,
    file: &str,
    subject: &str,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    match root.text(file) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => {
            findings.push(unreadable(file, subject, &e));
            None
        }
    }
}

/// A file that every function has: absent and unreadable are findings.
pub(super) fn required(
    root: &Root,
    file: &str,
    subject: &str,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    root.text(file).map_err(|e| findings.push(unreadable(file, subject, &e))).ok()
}

/// A file with invalid content is treated like an unreadable one.
pub(super) fn unreadable(file: &str, subject: &str, why: &impl Display) -> Finding {
    let (file, why) = (shown(file), why.to_string());
    Code::PciUnreadable
        .finding(Severity::Error, subject, format!("{subject}: /{file} cannot be read: {why}"))
        .seen(format!("/{file}: {why}"))
}
