//! Findings about Xid errors: one per GPU, number and earlier error that the lines name as the cause. Pure.

use super::place::{self, Place};
use super::{Found, MOST};
use crate::machine::host::kmsg::Line;
use crate::machine::host::nvidia::log::{self, Xid};
use crate::machine::host::nvidia::xid::{self, Meaning, TestPhase};
use crate::outcome::finding::{Code, Reason, Recovery, Severity};

/// One finding per group.
pub(super) fn findings(lines: &[Line], when: TestPhase) -> Vec<Found> {
    let all = log::xids(lines);
    let mut groups: Vec<Vec<&Xid<'_>>> = Vec::new();
    for xid in &all {
        let key = |xid: &Xid<'_>| (xid.gpu.to_owned(), xid.number, xid::caused_by(xid.line));
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| key(first) == key(xid))) {
            Some(group) => group.push(xid),
            None => groups.push(vec![xid]),
        }
    }
    groups.iter().filter_map(|group| of_one(group, &all, when)).collect()
}

/// A line without a number counts as the worst.
fn of_one(group: &[&Xid<'_>], all: &[Xid<'_>], when: TestPhase) -> Option<Found> {
    let first = group.first()?;
    let earlier = xid::caused_by(first.line).filter(|number| *number != first.number);
    let meaning = match earlier {
        Some(number) => weight(first.gpu, number, all),
        None => xid::meaning_of(first.number, &group.iter().map(|x| x.line).collect::<Vec<_>>()),
    };
    let severity = if first.number == 0 { Severity::Fail } else { xid::severity(meaning.fault, when) };
    let times = if group.len() == 1 { String::new() } else { format!(", {} times", group.len()) };
    let words = match (earlier, meaning.words) {
        (None, "") => String::new(),
        (None, words) => format!(" ({words})"),
        (Some(number), "") => format!(" (caused by an earlier Xid {number})"),
        (Some(number), words) => format!(" (caused by an earlier Xid {number}: {words})"),
    };
    let place = place::of_driver(first.gpu);
    let message = format!("Xid {} on {}{words}{times}", first.number, first.gpu);
    let seen = group.iter().take(MOST).map(|x| format!("kmsg: {}", x.line)).collect();
    let found = Found::new(Code::GpuXid, severity, place, message, seen);
    Some(found.map(|finding| {
        let finding = finding.values(group.len(), 0, Some("lines")).recovery(meaning.recovery);
        finding.because(Reason::Xid(meaning.fault, meaning.recovery))
    }))
}

/// What an earlier Xid of a GPU means: by its own lines if the log still has them, otherwise by its number. Its lines may name
/// a still earlier one.
fn weight(gpu: &str, mut number: u32, all: &[Xid<'_>]) -> Meaning {
    // Lines that name each other must not keep us here.
    for _ in 0..4 {
        let own: Vec<_> = all.iter().filter(|x| (x.gpu, x.number) == (gpu, number)).map(|x| x.line).collect();
        match own.iter().find_map(|line| xid::caused_by(line)) {
            Some(earlier) if earlier != number => number = earlier,
            _ => return xid::meaning_of(number, &own),
        }
    }
    xid::meaning(number)
}

/// The newest action that the driver asks for applies to all errors of its GPU.
pub(super) fn apply_driver_action(found: &mut [Found], lines: &[Line]) {
    for changed in log::xids(lines) {
        let Some(action) = xid::changed_to(changed.line) else { continue };
        let gpu = place::of_driver(changed.gpu);
        let same = |place: Option<Place>| match (place, gpu) {
            (Some(one), Some(other)) => one.same_device(other),
            (one, other) => one == other,
        };
        for Found { finding, .. } in found.iter_mut().filter(|f| f.finding.recovery.is_some() && same(f.place)) {
            finding.recovery = Some(action);
            finding.reason = match finding.reason.take() {
                kept if action == Recovery::None => kept,
                Some(Reason::Xid(source, _)) => Some(Reason::Xid(source, Some(action))),
                _ => Some(Reason::DriverAsks(action)),
            };
        }
    }
}
