//! Findings about Xid errors: one per GPU, number and earlier error that the lines name as the cause. Pure.

use super::place::{self, Place};
use super::{Found, MOST};
use crate::host::kmsg::Line;
use crate::host::nvidia::log::{self, Xid};
use crate::host::nvidia::xid::{self, FaultSource, Meaning, TestPhase};
use outcome::finding::{Code, Finding, Reason, Recovery, Severity};

/// Lines of one kind.
struct Group<'a> {
    xids: Vec<Xid<'a>>,
    /// The position of the newest.
    last: usize,
}

/// One finding per group.
pub(super) fn findings(lines: &[Line], when: TestPhase) -> Vec<Found> {
    let all = log::xids(lines);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let Some(xid) = log::xid(&line.text) else {
            continue;
        };
        let key = |xid: &Xid<'_>| (xid.gpu.to_owned(), xid.number, xid::caused_by(xid.line));
        match groups.iter_mut().find(|group| {
            group
                .xids
                .first()
                .is_some_and(|first| key(first) == key(&xid))
        }) {
            Some(group) => {
                group.xids.push(xid);
                group.last = n;
            }
            None => groups.push(Group {
                xids: vec![xid],
                last: n,
            }),
        }
    }
    groups
        .iter()
        .filter_map(|group| Some(of_one(&group.xids, &all, when)?.until(group.last)))
        .collect()
}

/// A line without a number counts as the worst.
fn of_one(group: &[Xid<'_>], all: &[Xid<'_>], when: TestPhase) -> Option<Found> {
    let first = group.first()?;
    let earlier = xid::caused_by(first.line).filter(|number| *number != first.number);
    let meaning = match earlier {
        Some(number) => weight(first.gpu, number, all),
        None => xid::meaning_of(
            first.number,
            &group.iter().map(|x| x.line).collect::<Vec<_>>(),
        ),
    };
    // The driver says that an earlier error is over.
    let changed = first.number == xid::RECOVERY_CHANGED && earlier.is_none();
    let over = changed && meaning.recovery == Some(Recovery::None);
    let severity = match first.number {
        0 => Severity::Fail,
        _ if over && when == TestPhase::Before => Severity::Info,
        _ => xid::severity(meaning.fault, when),
    };
    let reason = if over {
        Reason::Recovered(None)
    } else {
        Reason::Xid(meaning.fault, meaning.recovery)
    };
    let times = if group.len() == 1 {
        String::new()
    } else {
        format!(", {} times", group.len())
    };
    let words = match (earlier, meaning.words) {
        (None, "") => String::new(),
        (None, words) => format!(" ({words})"),
        (Some(number), "") => format!(" (caused by an earlier Xid {number})"),
        (Some(number), words) => format!(" (caused by an earlier Xid {number}: {words})"),
    };
    let place = place::of_driver(first.gpu);
    let message = format!("Xid {} on {}{words}{times}", first.number, first.gpu);
    let seen = group
        .iter()
        .take(MOST)
        .map(|x| format!("kmsg: {}", x.line))
        .collect();
    let found = Found::new(Code::GpuXid, severity, place, message, seen);
    Some(found.map(|finding| {
        let finding = finding
            .values(group.len(), 0, Some("lines"))
            .recovery(meaning.recovery);
        finding.because(reason)
    }))
}

/// What an earlier Xid of a GPU means: by its own lines if the log still has them, otherwise by its number. Its lines may name
/// a still earlier one.
fn weight(gpu: &str, mut number: u32, all: &[Xid<'_>]) -> Meaning {
    // Lines that name each other must not keep us here.
    for _ in 0..4 {
        let own: Vec<_> = all
            .iter()
            .filter(|x| (x.gpu, x.number) == (gpu, number))
            .map(|x| x.line)
            .collect();
        match own.iter().find_map(|line| xid::caused_by(line)) {
            Some(earlier) if earlier != number => number = earlier,
            _ => return xid::meaning_of(number, &own),
        }
    }
    xid::meaning(number)
}

/// The newest action that the driver asks for applies to all errors of its GPU. If it is that nothing is needed any more, the
/// errors before it are over.
pub(super) fn apply_driver_action(found: &mut [Found], lines: &[Line], when: TestPhase) {
    let changes: Vec<_> = lines
        .iter()
        .enumerate()
        .filter_map(|(n, line)| change(n, line))
        .collect();
    for one in found {
        let place = one.place;
        let mut own = changes
            .iter()
            .rev()
            .filter(|change| is_same(place, change.gpu))
            .peekable();
        let newest = own
            .peek()
            .and_then(|change| Some((change.n, change.action?)));
        if let Some((n, Recovery::None)) = newest {
            if one.last <= n {
                recovered(&mut one.finding, when);
            }
            continue;
        }
        let finding = &mut one.finding;
        let Some(action) = own
            .find_map(|change| change.action)
            .filter(|action| *action != Recovery::None)
        else {
            continue;
        };
        if finding.recovery.is_none() {
            continue;
        }
        finding.recovery = Some(action);
        finding.reason = match finding.reason.take() {
            Some(Reason::Xid(source, _)) => Some(Reason::Xid(source, Some(action))),
            // Why the GPU was lost tells more than what recovers it.
            Some(Reason::NotWoken(vfio)) => Some(Reason::NotWoken(vfio)),
            _ => Some(Reason::DriverAsks(action)),
        };
    }
}

/// A line with which the driver says what recovers a GPU.
struct Change {
    n: usize,
    gpu: Option<Place>,
    /// `None` if this version does not know it.
    action: Option<Recovery>,
}

fn change(n: usize, line: &Line) -> Option<Change> {
    let xid = log::xid(&line.text)?;
    let action = xid::changed_to(xid.line);
    let is_one = action.is_some() || xid.number == xid::RECOVERY_CHANGED;
    is_one.then(|| Change {
        n,
        gpu: place::of_driver(xid.gpu),
        action,
    })
}

fn is_same(place: Option<Place>, gpu: Option<Place>) -> bool {
    match (place, gpu) {
        (Some(one), Some(other)) => one.same_device(other),
        (one, other) => one == other,
    }
}

/// An error that the GPU has recovered from before the tests is no failure of today's machine. A program's error and a worn
/// part stay what they are.
fn recovered(finding: &mut Finding, when: TestPhase) {
    let Some(Reason::Xid(source, _)) = &finding.reason else {
        return;
    };
    let source = *source;
    if matches!(
        source,
        FaultSource::Program | FaultSource::Repaired | FaultSource::MildLink
    ) {
        return;
    }
    if when == TestPhase::Before {
        finding.severity = finding.severity.min(Severity::Warn);
    }
    finding.recovery = Some(Recovery::None);
    finding.reason = Some(Reason::Recovered(Some(source)));
}
