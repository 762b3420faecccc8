//! The last line of the pass, which is the only one that a boot shows: what was cleared, and the codes of the
//! findings that remain.

use crate::apply::Applied;
use crate::plan::Plan;
use crate::rebar;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::text::count;
use std::cmp::Reverse;

/// The width of a stage's line on the boot console.
const COLUMNS: usize = 58;

/// The codes about BAR1s; all others that the pass reports are about ACS.
const OF_BARS: &[Code] = &[
    Code::RebarBroken,
    Code::RebarPreserved,
    Code::RebarAbsent,
    Code::RebarNoRoom,
    Code::RebarIgnored,
    Code::RebarBusy,
    Code::RebarRefused,
    Code::RebarResized,
];

/// The line, at most 58 columns.
pub(super) fn line(plan: &Plan, applied: &Applied, bars: &rebar::ResizeReport) -> String {
    let lasting = applied
        .entries
        .iter()
        .filter(|e| e.readback == Some(e.after))
        .count();
    let (policy, covered, asked) = (plan.policy, plan.covered, plan.actions.len());
    let left = by_code(&applied.findings);
    let about_acs = left.iter().any(|(code, _)| !OF_BARS.contains(code));
    let done = match asked {
        0 if about_acs => "none cleared".to_owned(),
        0 => "none to clear".to_owned(),
        _ => format!("{lasting} of {asked} cleared"),
    };
    let (gpus, full) = (bars.gpus, bars.full);
    let bare = format!("ACS {policy}: {done}");
    let short = if gpus == 0 {
        bare.clone()
    } else {
        format!("{bare}; BAR1 {full} of {gpus} full")
    };
    let mut lines: Vec<String> = match (left.is_empty(), gpus) {
        (false, _) => variants(&left)
            .iter()
            .map(|left| format!("{short}; {left}"))
            .collect(),
        (true, 0) => vec![format!(
            "ACS policy {policy}: {} with ACS, {done}",
            count(covered, "function")
        )],
        (true, _) => vec![format!("{short} size")],
    };
    lines.push(short);
    lines.retain(|line| line.chars().count() <= COLUMNS);
    lines.into_iter().next().unwrap_or(bare)
}

/// The code of findings that remain, and their subjects.
type RemainingCode<'a> = (Code, Vec<&'a Subject>);

/// The findings that remain, the worst first.
fn by_code(findings: &[Finding]) -> Vec<RemainingCode<'_>> {
    let mut worst: Vec<_> = findings
        .iter()
        .filter(|f| f.severity > Severity::Info)
        .collect();
    worst.sort_by_key(|f| Reverse(f.severity));
    let mut left: Vec<RemainingCode<'_>> = Vec::new();
    for finding in worst {
        match left.iter_mut().find(|(code, _)| *code == finding.code) {
            Some((_, subjects)) => subjects.push(&finding.subject),
            None => left.push((finding.code, vec![&finding.subject])),
        }
    }
    left
}

/// Variants, from the longest to the shortest: every code with its first port, fewer of them with a port, and
/// fewer codes.
fn variants(left: &[RemainingCode<'_>]) -> Vec<String> {
    let codes_with_ports = |named: usize| {
        let one =
            |(at, (code, subjects)): (usize, &RemainingCode<'_>)| match (&subjects[..], at < named)
            {
                ([first], true) => format!("{code} {first}"),
                ([first, more @ ..], true) => format!("{code} {first} +{}", more.len()),
                _ => code.to_string(),
            };
        left.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let all = (0..=left.len())
        .rev()
        .map(|named| codes_with_ports(named).join(", "));
    let codes = codes_with_ports(0);
    let fewer = (1..codes.len()).rev().map(|shown| {
        let first: Vec<_> = codes.iter().take(shown).map(String::as_str).collect();
        format!("{}, +{}", first.join(", "), codes.len() - shown)
    });
    all.chain(fewer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acs::AcsPolicy;
    use crate::journal::Entry;
    use crate::plan::Action;
    use crate::rebar::RebarChoice;
    use machine::pcie::model::Bdf;

    fn port(n: u8) -> Bdf {
        Bdf {
            domain: 0,
            bus: 2,
            device: n,
            function: 0,
        }
    }

    /// The line for a pass over so many ports, of which the last ones are left, each with its code.
    fn line_for(ports: u8, left: &[(Code, Severity)]) -> String {
        with_gpus(ports, left, 0, 0)
    }

    /// The same with GPUs; `full`: how many have their largest BAR1.
    fn with_gpus(ports: u8, left: &[(Code, Severity)], full: usize, gpus: usize) -> String {
        let (register, offset, before, after) = (String::new(), 0x14e, 0x1d, 0);
        let action = |n| Action {
            bdf: port(n),
            register: register.clone(),
            offset,
            before,
            after,
        };
        let actions: Vec<_> = (0..ports).map(action).collect();
        let lasts = ports - u8::try_from(left.len()).unwrap().min(ports);
        let entry = |n: u8| Entry {
            bdf: port(n),
            register: register.clone(),
            offset,
            width: 2,
            before,
            after,
            readback: Some(if n < lasts { after } else { before }),
            finding: None,
            when: 0,
        };
        let findings = (lasts..)
            .zip(left)
            .map(|(n, (code, severity))| code.finding(*severity, port(n), "x"));
        let applied = Applied {
            entries: (0..ports).map(entry).collect(),
            findings: findings.collect(),
        };
        let plan = Plan {
            policy: AcsPolicy::Path,
            covered: actions.len(),
            actions,
            findings: vec![],
        };
        let choice = RebarChoice::Fix;
        line(
            &plan,
            &applied,
            &rebar::ResizeReport {
                choice,
                gpus,
                full,
                rebar: vec![],
                findings: vec![],
            },
        )
    }

    const STUCK: (Code, Severity) = (Code::AcsStuck, Severity::Fail);
    const REVERTED: (Code, Severity) = (Code::AcsReverted, Severity::Fail);
    const REFUSED: (Code, Severity) = (Code::AcsRefused, Severity::Error);

    #[test]
    fn a_complete_pass_shows_its_count() {
        assert_eq!(
            line_for(5, &[]),
            "ACS policy path: 5 functions with ACS, 5 of 5 cleared"
        );
        assert_eq!(
            line_for(0, &[]),
            "ACS policy path: 0 functions with ACS, none to clear"
        );
        let harmless = (Code::AcsQuirk, Severity::Info);
        assert_eq!(
            line_for(0, &[harmless]),
            "ACS policy path: 0 functions with ACS, none to clear"
        );
        assert_eq!(line_for(200, &[]), "ACS path: 200 of 200 cleared");
    }

    #[test]
    fn remaining_findings_name_their_first_port() {
        assert_eq!(
            line_for(5, &[STUCK]),
            "ACS path: 4 of 5 cleared; ACS-STUCK 0000:02:04.0"
        );
        assert_eq!(
            line_for(5, &[STUCK; 3]),
            "ACS path: 2 of 5 cleared; ACS-STUCK 0000:02:02.0 +2"
        );
        let locked = (Code::Lockdown, Severity::Fail);
        assert_eq!(
            line_for(0, &[locked]),
            "ACS path: none cleared; LOCKDOWN 0000:02:00.0"
        );
    }

    #[test]
    fn several_codes_are_all_named_before_any_port_is() {
        assert_eq!(
            line_for(4, &[STUCK, REVERTED]),
            "ACS path: 2 of 4 cleared; ACS-STUCK, ACS-REVERTED"
        );
        let locked = (Code::Lockdown, Severity::Warn);
        assert_eq!(
            line_for(1, &[locked, REFUSED]),
            "ACS path: 0 of 1 cleared; ACS-REFUSED, LOCKDOWN"
        );
    }

    #[test]
    fn bar1_is_shown_if_there_are_gpus() {
        assert_eq!(
            with_gpus(4, &[], 8, 8),
            "ACS path: 4 of 4 cleared; BAR1 8 of 8 full size"
        );
        let small = (Code::RebarNoRoom, Severity::Warn);
        assert_eq!(
            with_gpus(0, &[small], 7, 8),
            "ACS path: none to clear; BAR1 7 of 8 full; REBAR-NO-ROOM"
        );
        assert_eq!(
            with_gpus(4, &[STUCK], 8, 8),
            "ACS path: 3 of 4 cleared; BAR1 8 of 8 full; ACS-STUCK"
        );
        let both = with_gpus(4, &[small, STUCK], 0, 8);
        assert_eq!(
            both,
            "ACS path: 2 of 4 cleared; BAR1 0 of 8 full; ACS-STUCK, +1"
        );
    }

    #[test]
    fn any_number_of_codes_fits_the_line() {
        let left = [
            STUCK,
            REVERTED,
            REFUSED,
            (Code::AcsUnknown, Severity::Error),
        ];
        assert_eq!(
            line_for(4, &left),
            "ACS path: 0 of 4 cleared; ACS-REFUSED, ACS-UNKNOWN, +2"
        );
        for (ports, many) in [(9, 1), (99, 2), (255, 3), (255, 4)] {
            let line = line_for(ports, &left[..many]);
            assert!(line.len() <= COLUMNS && line.contains("; ACS-"), "{line}");
        }
    }
}
