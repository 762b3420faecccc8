//! The location of a function, from the path of its folder in /sys/devices:
//! `../../../devices/pci0000:c0/0000:c0:03.1/0000:c4:00.0` is root bus, bridge, function.

use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::text::shown;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

/// The location that a function's path gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BusLocation {
    /// The bridge directly above.
    pub(super) parent: Option<Bdf>,
    /// The root bus, `pci0000:c0`.
    pub(super) root_bus: Option<String>,
}

/// Reads a path; the nearest root bus counts (behind Intel VMD there are two).
pub(super) fn parse(link: &Path, own: Bdf) -> Option<BusLocation> {
    let names: Vec<&str> = link.iter().filter_map(|n| n.to_str()).collect();
    let (last, above) = names.split_last()?;
    (last.parse() == Ok(own)).then_some(())?;
    let root_bus = above
        .iter()
        .rev()
        .find(|n| is_root_bus(n))
        .map(|n| (*n).to_owned());
    let parent = above.last().and_then(|n| n.parse().ok());
    (root_bus.is_some()).then_some(BusLocation { parent, root_bus })
}

/// `pci0000:c0`
fn is_root_bus(name: &str) -> bool {
    name.strip_prefix("pci")
        .and_then(|n| n.split_once(':'))
        .is_some_and(|(domain, bus)| {
            [domain, bus]
                .iter()
                .all(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_hexdigit()))
        })
}

// Single files of sysfs: an absent file may be valid; an unreadable one gives a finding.

/// A file that some functions do not have: absent is `None`, unreadable gives a finding.
pub(super) fn optional(
    root: &Root,
    file: &str,
    subject: &Subject,
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
    subject: &Subject,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    root.text(file)
        .map_err(|e| findings.push(unreadable(file, subject, &e)))
        .ok()
}

/// A file with invalid content is treated like an unreadable one.
pub(super) fn unreadable(file: &str, subject: &Subject, why: &impl Display) -> Finding {
    let (file, why) = (shown(file), why.to_string());
    Code::PciUnreadable
        .finding(
            Severity::Error,
            subject,
            format!("{subject}: /{file} cannot be read: {why}"),
        )
        .seen(format!("/{file}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn place(link: &str, own: &str) -> Option<(Option<String>, String)> {
        let place = parse(Path::new(link), own.parse().unwrap())?;
        Some((place.parent.map(|p| p.to_string()), place.root_bus.unwrap()))
    }

    #[test]
    fn a_function_behind_a_root_port_has_it_as_parent() {
        let found = place(
            "../../../devices/pci0000:c0/0000:c0:03.1/0000:c4:00.0",
            "0000:c4:00.0",
        );
        assert_eq!(
            found,
            Some((Some("0000:c0:03.1".into()), "pci0000:c0".into()))
        );
    }

    #[test]
    fn a_function_on_the_root_bus_has_no_parent() {
        assert_eq!(
            place("../../../devices/pci0000:00/0000:00:01.0", "0000:00:01.0"),
            Some((None, "pci0000:00".into()))
        );
        assert_eq!(
            place(
                "../../../devices/platform/soc/pci0001:00/0001:00:00.0",
                "0001:00:00.0"
            ),
            Some((None, "pci0001:00".into()))
        );
    }

    #[test]
    fn behind_vmd_the_inner_root_bus_counts() {
        let link =
            "../../../devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0";
        assert_eq!(
            place(link, "10000:01:00.0"),
            Some((Some("10000:00:02.0".into()), "pci10000:00".into()))
        );
        assert_eq!(
            place(
                "../../../devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0",
                "10000:00:02.0"
            ),
            Some((None, "pci10000:00".into()))
        );
    }

    #[test]
    fn a_path_that_does_not_end_in_the_function_is_rejected() {
        assert_eq!(
            place("../../../devices/pci0000:00/0000:00:01.0", "0000:00:02.0"),
            None
        );
        assert_eq!(place("elsewhere/0000:00:02.0", "0000:00:02.0"), None);
    }
}
