//! Whether the lockdown that the command line requests is in force.

use machine::host::cmdline::words;
use outcome::finding::{Code, Finding, Severity, Subject};

/// The kernel's modes, from the weakest to the strongest. The mode can only be raised.
const MODES: [&str; 3] = ["none", "integrity", "confidentiality"];

fn strength(mode: &str) -> Option<usize> {
    MODES.iter().position(|m| *m == mode)
}

/// `lockdown=` asks the kernel to protect itself from root. A kernel that is built without it silently ignores the
/// parameter, and the user relies on a protection that does not exist.
///
/// Returns the finding that the command line requests more lockdown than is in force: `held` is the mode that the
/// kernel shows.
pub(super) fn lockdown_ignored(line: &str, held: Option<&str>) -> Option<Finding> {
    let asked = words(line)
        .into_iter()
        .filter(|w| w.key == "lockdown")
        .filter_map(|w| w.value);
    let asked = asked
        .filter(|mode| strength(mode).is_some())
        .max_by_key(|mode| strength(mode))?;
    if strength(&asked) <= held.map_or(Some(0), strength) {
        return None;
    }
    let shown = held.map_or("this kernel has no lockdown".to_owned(), |mode| {
        format!("its mode is {mode}")
    });
    let message = format!("lockdown={asked} is ignored: {shown}");
    let seen = held.map_or("missing".to_owned(), str::to_owned);
    Some(
        Code::LockdownIgnored
            .finding(Severity::Warn, Subject::part("kernel"), message)
            .values(held, asked.as_str(), None)
            .seen(format!("/sys/kernel/security/lockdown: {seen}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_the_kernel_ignores_is_reported() {
        let found = lockdown_ignored("quiet lockdown=integrity", None).unwrap();
        assert_eq!(
            found.message,
            "lockdown=integrity is ignored: this kernel has no lockdown"
        );
        assert_eq!(found.evidence, ["/sys/kernel/security/lockdown: missing"]);
        assert!(found.is(Code::LockdownIgnored) && found.severity == Severity::Warn);
    }

    #[test]
    fn less_lockdown_than_requested_is_reported_and_as_much_or_more_is_not() {
        for (line, held, reported) in [
            ("", None, false),
            ("lockdown=nonsense", None, false),
            ("lockdown=none", None, false),
            ("lockdown=integrity", Some("none"), true),
            ("lockdown=confidentiality", Some("integrity"), true),
            (
                "lockdown=confidentiality lockdown=integrity",
                Some("integrity"),
                true,
            ),
            ("lockdown=integrity", Some("integrity"), false),
            ("lockdown=integrity", Some("confidentiality"), false),
            ("quiet -- lockdown=integrity", None, false),
        ] {
            assert_eq!(
                lockdown_ignored(line, held).is_some(),
                reported,
                "{line} {held:?}"
            );
        }
    }
}
