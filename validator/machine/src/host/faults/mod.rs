//! Faults in the kernel log, judged by kind: NVIDIA driver messages about GPUs, PCIe errors, machine checks,
//! accesses that an IOMMU blocked, and the kernel's own faults; and the kernel's taint flags. A line counts if it is about
//! a device that the tests use. Pure.

mod earlier;
mod kinds;
mod place;
mod refusals;
mod room;
mod scene;
mod taint;
mod tasks;
mod xids;

pub use refusals::{Refused, refusals};
pub use room::{NoRoom, no_room};
pub use scene::Scene;
pub use taint::{Taint, tainted};

use crate::host::kmsg::Line;
use crate::host::nvidia::confidential::obstacle;
use crate::host::nvidia::xid::TestPhase;
use earlier::Starts;
use kinds::{At, KINDS, Kind, has};
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use place::Place;
use scene::Whose;

/// Maximum number of evidence lines in a finding.
const MOST: usize = 10;

/// A finding, and the device that it is about.
struct Found {
    place: Option<Place>,
    /// The position of its newest line; the largest number if that does not matter.
    last: usize,
    finding: Finding,
}

impl Found {
    /// Of the machine if no place is given.
    fn new(
        code: Code,
        severity: Severity,
        place: Option<Place>,
        message: String,
        seen: Vec<String>,
    ) -> Self {
        let subject = place.map_or(Subject::Machine, Place::subject);
        Self {
            place,
            last: usize::MAX,
            finding: code.finding(severity, subject, message).seen_all(seen),
        }
    }

    /// Sets the position of its newest line.
    const fn until(mut self, last: usize) -> Self {
        self.last = last;
        self
    }

    fn map(self, change: impl FnOnce(Finding) -> Finding) -> Self {
        Self {
            finding: change(self.finding),
            ..self
        }
    }
}

/// Every fault in `lines`: one finding per GPU and Xid error, and one per kind of other faults and device.
#[must_use]
pub fn faults(lines: &[Line], when: TestPhase, scene: &Scene) -> Vec<Finding> {
    let mut found = xids::findings(lines, when);
    let counting = KINDS
        .iter()
        .filter(|kind| when == TestPhase::During || kind.before);
    found.extend(counting.flat_map(|kind| findings(kind, lines, when, scene)));
    if when == TestPhase::Before {
        found.extend(earlier::findings(lines, scene));
    }
    xids::apply_driver_action(&mut found, lines, when);
    found.into_iter().map(|found| found.finding).collect()
}

/// The finding if records of the log were overwritten before they could be read.
#[must_use]
pub fn lost(records: u64) -> Finding {
    let message = format!("{records} records of the kernel log were lost before they were read");
    Code::KmsgLost
        .finding(Severity::Warn, Subject::Machine, message)
        .values(records, 0, Some("records"))
}

/// The last line that shows that CUDA did not start for lack of addresses for the GPU's memory.
#[must_use]
pub fn without_room_for_hmm(lines: &[Line]) -> Option<&str> {
    let mut texts = lines.iter().rev().map(|line| line.text.as_str());
    texts.find(|text| kinds::hmm_failed(text).is_some())
}

/// A line of a kind, with its severity and whose it is.
struct Fault<'a> {
    severity: Severity,
    whose: Whose,
    text: &'a str,
    /// Why it is over.
    over: Option<String>,
}

/// The faults of one kind: one finding per device that matters, one about all other devices, and one about those that the
/// lines do not name.
fn findings(kind: &Kind, lines: &[Line], when: TestPhase, scene: &Scene) -> Vec<Found> {
    let mut groups: Vec<Vec<Fault<'_>>> = Vec::new();
    let starts = Starts::of(if kind.code == Code::GpuInit && when == TestPhase::Before {
        lines
    } else {
        &[]
    });
    for (n, line) in lines.iter().enumerate() {
        let at = At {
            lines,
            n,
            text: &line.text,
        };
        let Some(mut fault) = fault(kind, at, when, scene) else {
            continue;
        };
        let awake = |place: Option<Place>| place.is_some_and(|place| scene.answers(place));
        if when == TestPhase::Before
            && kinds::is_failed_wake(&line.text)
            && matches!(fault.whose, Whose::Ours(place) if awake(place))
        {
            fault.severity = Severity::Warn;
        }
        if let Some(why) = starts.since(at, scene) {
            fault.severity = Severity::Info;
            fault.over = Some(format!("{}, and {why}: ", earlier::age(line)));
        }
        match groups.iter_mut().find(|g| {
            g.first()
                .is_some_and(|first| first.whose.is_like(fault.whose))
        }) {
            Some(group) => group.push(fault),
            None => groups.push(vec![fault]),
        }
    }
    groups
        .iter()
        .filter_map(|group| finding(kind, group, when))
        .collect()
}

fn fault<'a>(kind: &Kind, at: At<'a>, when: TestPhase, scene: &Scene) -> Option<Fault<'a>> {
    let severity = (kind.judge)(at)?;
    let during = when == TestPhase::During;
    // The finding about the Xid error is enough.
    if !during && at.text.contains("NVRM: Xid") {
        return None;
    }
    let whose = (kind.whose)(scene, at);
    let severity = match whose {
        Whose::Others(_) if !during => return None,
        Whose::Others(_) => Severity::Info,
        // It may be a GPU's, and it may be any other device's.
        Whose::Unnamed => severity.min(Severity::Warn),
        Whose::Ours(_) => severity,
    };
    Some(Fault {
        severity,
        whose,
        text: at.text,
        over: None,
    })
}

fn finding(kind: &Kind, group: &[Fault<'_>], when: TestPhase) -> Option<Found> {
    let severity = overall(kind, group.iter().map(|fault| fault.severity).max()?, group);
    let worst = group
        .iter()
        .find(|fault| fault.severity == severity)
        .or(group.first())?;
    let (place, what) = match worst.whose {
        Whose::Ours(place) => (place, ""),
        Whose::Others(place) if kind.code == Code::KernelFault => {
            (place, "a task that waits for another device: ")
        }
        Whose::Others(place) => (place, "no GPU, and not on the path of one: "),
        Whose::Unnamed => (None, "a device that the line does not name: "),
    };
    let during = if when == TestPhase::During {
        "while the test ran: "
    } else {
        ""
    };
    let over = worst.over.as_deref().unwrap_or_default();
    let seen = group
        .iter()
        .take(MOST)
        .map(|fault| format!("kmsg: {}", fault.text))
        .collect();
    let found = Found::new(
        kind.code,
        severity,
        place,
        format!("{during}{what}{over}kmsg: {}", worst.text),
        seen,
    );
    let mut wakes = group
        .iter()
        .filter(|fault| kinds::is_failed_wake(fault.text));
    let asleep = wakes.next().map(|fault| fault.text.starts_with("vfio-pci"));
    let unplugged = group.iter().all(|fault| kinds::is_link_down(fault.text));
    Some(found.map(|finding| match () {
        () if worst.over.is_some() => finding.because(Reason::Over).recovery(None),
        () if asleep.is_some() => finding.because(Reason::NotWoken(asleep == Some(true))),
        () if unplugged => finding.because(unplugged_reason(severity)),
        () if kind.code == Code::CcUnsupported => match obstacle(worst.text) {
            Some(case) => finding.because(Reason::Confidential(case)),
            None => finding,
        },
        () if kind.code == Code::CudaStart => finding.because(Reason::NoRoomForHmm),
        () => finding,
    }))
}

/// The reason where a link went down or a card is not there any more, and nothing else was reported.
fn unplugged_reason(severity: Severity) -> Reason {
    if severity == Severity::Info {
        Reason::UnpluggedOnce
    } else {
        Reason::Unplugged
    }
}

/// A machine check is reported in several lines, of which only some say that it was corrected.
fn overall(kind: &Kind, worst: Severity, group: &[Fault<'_>]) -> Severity {
    let any = |words: &[&str]| {
        group
            .iter()
            .any(|fault| has(&fault.text.to_lowercase(), words))
    };
    let bad = [
        "uncorrected",
        "fatal",
        "recoverable",
        "deferred",
        " ue ",
        "exception",
    ];
    let corrected = kind.code == Code::MachineCheck && any(&["corrected", " ce "]) && !any(&bad);
    if corrected { Severity::Warn } else { worst }
}

#[cfg(test)]
mod tests;
