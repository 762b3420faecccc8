//! What the text of an Xid line says beside its number: an earlier error as the cause, the action that the driver asks for,
//! and whether an NVLink error is fatal. Pure.

use outcome::finding::Recovery;

/// The earlier Xid that a line names as its cause: `.. 45, pid=7, name=train, Ch 00000001 caused by previous Xid 149`.
#[must_use]
pub fn caused_by(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("previous Xid ")?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// The action that the driver asks for in Xid 154: `GPU recovery action changed from 0x0 (None) to 0x1 (GPU
/// Reset Required)`. The number decides, because drivers use different words for the same one.
#[must_use]
pub fn changed_to(line: &str) -> Option<Recovery> {
    let (_, now) = line
        .split_once("recovery action changed from ")?
        .1
        .split_once(" to 0x")?;
    let digits = now.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    Recovery::of_driver(u64::from_str_radix(digits, 16).ok()?)
}

/// Whether the line of an NVLink error says that it is fatal.
pub(super) fn is_fatal(line: &str) -> bool {
    says(line, &["Fatal"])
}

/// Whether it says that it is not.
pub(super) fn is_nonfatal(line: &str) -> bool {
    says(line, &["Nonfatal", "Non-fatal", "NonFatal"])
}

fn says(line: &str, words: &[&str]) -> bool {
    line.split([' ', ',']).any(|word| words.contains(&word))
}
