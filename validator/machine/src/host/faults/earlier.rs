//! Events of the time before the tests: accesses that an IOMMU blocked, and PCIe errors. They may be over, so they are
//! information, or a warning if the loaded driver was already running; and failed starts of GPUs that were started since. Pure.

use super::kinds::{self, At};
use super::place::{self, Place};
use super::scene::{Scene, Whose, is_driver_start};
use super::tasks::{self, PcieRecord, RecordKind};
use super::{Found, MOST};
use crate::host::kmsg::Line;
use crate::host::nvidia::log;
use crate::host::nvidia::xid::{self, FaultSource};
use outcome::finding::{Code, Finding, Reason, Severity};

/// One event.
struct Event<'a> {
    code: Code,
    place: Option<Place>,
    severity: Severity,
    line: &'a Line,
    /// Of a link that went down or a card that was unplugged.
    unplugged: Option<Unplugged>,
}

/// How it was with a device that was unplugged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unplugged {
    /// No line says that it was there again.
    Away,
    /// A later line says so.
    Back,
}

/// One finding per kind of event and device that matters.
pub(super) fn findings(lines: &[Line], scene: &Scene) -> Vec<Found> {
    let start = scene.driver_start(lines);
    let mut fatal = false;
    let mut groups: Vec<Vec<Event<'_>>> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let at = At {
            lines,
            n,
            text: &line.text,
        };
        let Some((code, place, is_grave)) = event(scene, at) else {
            continue;
        };
        let between = place.is_some_and(|place| scene.is_between_gpus(place));
        if between && at.text.contains("Fatal") {
            fatal = is_fatal(at.text);
        }
        let running = start.is_some_and(|start| n >= start);
        let lost = fatal && at.text.contains("recovery failed");
        let unplugged = kinds::is_link_down(at.text).then(|| unplugged(at));
        let warns =
            between && ((is_grave && running) || lost) && unplugged != Some(Unplugged::Back);
        let severity = if warns {
            Severity::Warn
        } else {
            Severity::Info
        };
        let event = Event {
            code,
            place,
            severity,
            line,
            unplugged,
        };
        let key = |event: &Event<'_>| (event.code, event.place, event.unplugged);
        match groups
            .iter_mut()
            .find(|g| g.first().is_some_and(|first| key(first) == key(&event)))
        {
            Some(group) => group.push(event),
            None => groups.push(vec![event]),
        }
    }
    groups.iter().filter_map(|group| finding(group)).collect()
}

/// By the newest line about the port: the port is one above a device that the machine has now.
fn unplugged(at: At<'_>) -> Unplugged {
    let port = place::first(at.text);
    let same = |text: &str| {
        port.zip(place::first(text))
            .is_some_and(|(one, other)| one.overlaps(other))
    };
    let state = |line: &Line| match () {
        () if kinds::is_link_down(&line.text) => Some(Unplugged::Away),
        () if kinds::is_link_up(&line.text) => Some(Unplugged::Back),
        () => None,
    };
    let later = at.lines.iter().skip(at.n).filter(|line| same(&line.text));
    later
        .filter_map(state)
        .next_back()
        .unwrap_or(Unplugged::Away)
}

/// The kind and the device of an event that matters, and whether it may be a reason for failures to come.
fn event(scene: &Scene, at: At<'_>) -> Option<(Code, Option<Place>, bool)> {
    if let Some(severity) = kinds::iommu(at) {
        return match kinds::whose_request(scene, at) {
            Whose::Ours(place) => Some((Code::IommuFault, place, severity == Severity::Fail)),
            Whose::Unnamed if severity == Severity::Fail => Some((Code::IommuFault, None, false)),
            _ => None,
        };
    }
    let severity = kinds::pcie_or_record(at)?;
    let recoverable = |record: PcieRecord| record.kind == RecordKind::Recoverable;
    let mild =
        has_only_nonfatal(at.text) || tasks::pcie_record(at.lines, at.n).is_some_and(recoverable);
    match kinds::whose_link(scene, at) {
        Whose::Ours(place) if severity == Severity::Fail => Some((Code::PcieAer, place, !mild)),
        _ => None,
    }
}

fn is_fatal(text: &str) -> bool {
    text.contains("Fatal") && !has_only_nonfatal(text)
}

/// An error that is uncorrected and not fatal is usual while a driver starts: a request that the device does not support.
fn has_only_nonfatal(text: &str) -> bool {
    kinds::has(text, &["Non-Fatal", "Nonfatal", "ERR_NONFATAL"])
}

fn finding(group: &[Event<'_>]) -> Option<Found> {
    let worst = group.iter().map(|event| event.severity).max()?;
    let first = group.iter().find(|event| event.severity == worst)?;
    let times = if group.len() == 1 {
        String::new()
    } else {
        format!(", {} lines of this kind", group.len())
    };
    let back = if first.unplugged == Some(Unplugged::Back) {
        ", and the device was there again later"
    } else {
        ""
    };
    let message = format!(
        "{}, before the tests{times}{back}: kmsg: {}",
        age(first.line),
        first.line.text
    );
    let seen = group
        .iter()
        .take(MOST)
        .map(|event| format!("kmsg: {}", event.line.text))
        .collect();
    let reason = match first.unplugged {
        Some(_) => Some(super::unplugged_reason(worst)),
        None => (worst == Severity::Info).then_some(Reason::Earlier),
    };
    let found = Found::new(first.code, worst, first.place, message, seen);
    Some(found.map(|finding| reason.into_iter().fold(finding, Finding::because)))
}

/// `25 s after the kernel started`
pub(super) fn age(line: &Line) -> String {
    format!("{} s after the kernel started", line.at.as_secs())
}

/// The lines that show that GPUs were started: for each the first and the last, and the last with which the module was loaded.
#[derive(Debug, Default)]
pub(super) struct Starts {
    gpus: Vec<(Place, usize, usize)>,
    module: Option<usize>,
}

impl Starts {
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut starts = Self::default();
        for (n, line) in lines.iter().enumerate() {
            if is_driver_start(&line.text) {
                starts.module = Some(n);
            }
            let Some(gpu) = place::first(&line.text).filter(|_| shows_start(&line.text)) else {
                continue;
            };
            match starts
                .gpus
                .iter_mut()
                .find(|(known, ..)| known.same_device(gpu))
            {
                Some((.., last)) => *last = n,
                None => starts.gpus.push((gpu, n, n)),
            }
        }
        starts
    }

    /// Whether a line after line `n` shows that the GPU was started.
    pub(super) fn is_later(&self, gpu: Place, n: usize) -> bool {
        let same = |known: &Place| known.same_device(gpu);
        self.gpus
            .iter()
            .any(|(known, _, last)| same(known) && *last > n)
    }

    /// Why the failed start of a GPU is over: the GPU was started later, or the module was loaded again.
    pub(super) fn since(&self, at: At<'_>, scene: &Scene) -> Option<&'static str> {
        kinds::start_failed(at.text)?;
        if self.module.is_some_and(|n| n > at.n) {
            return Some("the driver was loaded again later");
        }
        let gpu = place::first(at.text)?;
        let started = self.gpus.iter().find(|(known, ..)| known.same_device(gpu));
        let over = match started {
            _ if scene.is_running(gpu) => true,
            Some((.., last)) if *last > at.n => true,
            // What the driver knows of the GPU may be from that time.
            Some((_, first, _)) if *first < at.n => false,
            _ => scene.has_started(gpu),
        };
        over.then_some("the GPU was started later")
    }
}

/// Lines that are only written about a GPU that works: those of our patches and of the display driver, and errors of
/// programs on it.
fn shows_start(text: &str) -> bool {
    let by_program =
        || log::xid(text).is_some_and(|x| xid::meaning(x.number).fault == FaultSource::Program);
    kinds::has(text, &["BAR1 peer-to-peer of ", "Initialized nvidia-drm"]) || by_program()
}
