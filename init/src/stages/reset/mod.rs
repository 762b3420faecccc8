//! The stage `reset`: looks for a mark that an earlier boot left. It vetoes its step and all steps after it, until a person
//! clears it or another image is booted. The mark of a reboot to recover GPUs vetoes peer-to-peer alone. The mark of a reboot
//! that the policy asked for vetoes nothing: it counts them.

mod marks;

pub use marks::{finish_marks, reboot_after_fault, settle};

use crate::child::{ChildResult, End, no_lines, on_output};
use crate::config::types::{Config, Report};
use crate::fault::Fault;
use crate::helper;
use crate::image_id;
use crate::machine::{Machine, ResetMarks};
use crate::paths;
use crate::verdict::StageError;
use contract::mark::{Mark, Step};
use contract::outcome::code;
use log::info;
use std::fmt;
use std::path::Path;

use super::validate::TestSelection;

/// The mark that an earlier boot left.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EarlierMark {
    /// Nothing, or nothing could be kept.
    Nothing,
    /// A valid mark.
    Mark(Mark),
    /// Data that is not a valid mark, and why not.
    Invalid(String),
}

/// The result of the check for a mark of an earlier boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetCheck {
    /// The first step that is not run, and why.
    veto: Option<(Step, String)>,
    /// Why the machine was rebooted to recover its GPUs, if it was.
    rebooted: Option<String>,
    /// How many boots in a row ended with a reboot by the policy; `None`: there is no place to count them.
    reboots: Option<u64>,
    line: String,
}

/// The reboots before this boot, as far as they speak against another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reboots {
    /// How many boots in a row ended with a reboot by the policy; `None`: they cannot be counted.
    pub so_far: Option<u64>,
    /// `policy.max_reboots`
    pub allowed: u64,
    /// Whether an earlier boot was reset during a step: a reboot would change nothing, because a person must clear that.
    pub was_reset: bool,
}

impl Reboots {
    /// What speaks against another reboot by the policy.
    #[must_use]
    pub fn objection(self) -> Option<String> {
        match self.so_far {
            _ if self.was_reset => Some("RESET-DURING is for a person to clear".to_owned()),
            Some(n) if n >= self.allowed => Some(format!(
                "it has rebooted {n} times in a row (policy.max_reboots)"
            )),
            _ => None,
        }
    }
}

impl fmt::Display for ResetCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl ResetCheck {
    /// Decides from the earlier mark which steps are vetoed. Pure.
    fn decide(earlier: &EarlierMark, image: Option<&str>, mark_place: Option<&str>) -> Self {
        let place = mark_place.map_or_else(
            || "no place for a mark: no EFI variables, no data partition".to_owned(),
            |place| format!("no mark of an earlier boot; kept in {place}"),
        );
        let mut reboots = mark_place.map(|_| 0);
        let (veto, rebooted, line) = match earlier {
            EarlierMark::Nothing => (None, None, place),
            EarlierMark::Mark(mark) if is_other_image(mark.image.as_deref(), image) => {
                let (step, old) = (mark.step, mark.image.as_deref().unwrap_or_default());
                let what = if step == Step::Reboot {
                    "rebooted by its policy".to_owned()
                } else {
                    format!("was reset during {step}")
                };
                (
                    None,
                    None,
                    format!("image {old} {what}; this one tries again"),
                )
            }
            EarlierMark::Mark(mark) if mark.step == Step::Reboot => {
                reboots = Some(mark.count);
                (
                    None,
                    None,
                    format!("reboots by the policy in a row: {}", mark.count),
                )
            }
            EarlierMark::Mark(mark) if mark.step == Step::Recover => {
                let finding = mark.finding.as_deref().unwrap_or("none");
                let why = format!("rebooted once after {finding}, and without peer-to-peer since");
                (None, Some(why), code::RECOVERED.to_owned())
            }
            EarlierMark::Mark(mark) => (
                Some((mark.step, veto_cause(mark))),
                None,
                format!("{} {}", code::RESET_DURING, mark.step),
            ),
            // It may be a half-written mark of the first step.
            EarlierMark::Invalid(why) => {
                let cause = format!("the mark of an earlier boot cannot be read: {why}");
                (
                    Some((Step::Fabric, cause)),
                    None,
                    format!("{}: an unreadable mark", code::RESET_DURING),
                )
            }
        };
        Self {
            veto,
            rebooted,
            reboots,
            line,
        }
    }

    /// The error that the verdict must include: a step that was not run proves nothing.
    #[must_use]
    pub fn stage_error(&self) -> Option<StageError> {
        let (_, cause) = self.veto.as_ref()?;
        let remedy = "to try again: firstlight reset clear, or firstlight.reset=clear";
        let cause = format!("{cause}; {remedy}");
        Some(StageError {
            stage: "reset",
            code: Some(code::RESET_DURING),
            cause,
        })
    }

    /// Why the machine was rebooted to recover its GPUs, if it was; it then continues without peer-to-peer.
    #[must_use]
    pub fn rebooted(&self) -> Option<&str> {
        self.rebooted.as_deref()
    }

    /// The reboots before this boot, of which `allowed` may follow one another.
    #[must_use]
    pub const fn reboots(&self, allowed: u64) -> Reboots {
        Reboots {
            so_far: self.reboots,
            allowed,
            was_reset: self.veto.is_some(),
        }
    }

    /// Which tests are run.
    #[must_use]
    pub const fn tests(&self) -> TestSelection {
        match self.veto {
            _ if self.rebooted.is_some() => TestSelection::WithoutP2p,
            Some((Step::PeerWrite, _)) => TestSelection::WithoutP2p,
            Some((Step::FullLoad, _)) => TestSelection::WithoutLoad,
            _ => TestSelection::All,
        }
    }

    /// Why the step is not run, if it is vetoed or needs a vetoed step.
    fn vetoes(&self, step: Step) -> Option<String> {
        let (from, _) = self.veto.as_ref().filter(|(from, _)| *from <= step)?;
        Some(format!("not run: {} {from}", code::RESET_DURING))
    }

    /// Runs a step with its mark, unless it is vetoed.
    ///
    /// # Errors
    /// The step's, or an interruption.
    pub fn guard<T>(
        &self,
        m: &mut Machine,
        step: Step,
        skipped: impl FnOnce(String) -> T,
        run: impl FnOnce(&mut Machine) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if let Some(why) = self.vetoes(step) {
            return Ok(skipped(why));
        }
        marks::begin(m, step)?;
        run(m)
    }
}

/// Whether both images are known and differ.
fn is_other_image(earlier: Option<&str>, image: Option<&str>) -> bool {
    matches!((earlier, image), (Some(earlier), Some(image)) if earlier != image)
}

fn veto_cause(mark: &Mark) -> String {
    let image = mark.image.as_deref().unwrap_or("without an id");
    let finding = mark.finding.as_deref().unwrap_or("none");
    format!(
        "the machine was reset during {}; image {image}; last finding {finding}",
        mark.step
    )
}

/// Looks for a mark of an earlier boot, and decides what it vetoes.
///
/// # Errors
/// Only an interruption.
pub fn check(m: &mut Machine, config: &Config) -> Result<ResetCheck, Fault> {
    if config.clear_reset {
        let done = m.run(&helper::clear_mark(&config.report), &mut no_lines, |_| true)?;
        info!("{}", cleared(&done));
    }
    let reset = look(m, &config.report)?;
    if let Some(cause) = reset
        .veto
        .as_ref()
        .map(|(_, cause)| cause)
        .or(reset.rebooted.as_ref())
    {
        info!("reset     {cause}");
    }
    Ok(reset)
}

/// Looks for a mark; afterwards the machine knows where its marks are.
fn look(m: &mut Machine, report: &Report) -> Result<ResetCheck, Fault> {
    let image = image_id::id(Path::new(paths::IMAGE));
    let (mut mark_place, mut earlier) = (None, EarlierMark::Nothing);
    let mut take = |line: &str| match parse(line) {
        Some(MarkLine::Place(place)) => mark_place = Some(place),
        Some(MarkLine::Earlier(what)) => earlier = what,
        None => {}
    };
    let done = m.run(
        &helper::read_mark(report),
        &mut on_output(&mut take),
        |_| true,
    )?;
    match done.end {
        End::Exited(helper::SUCCESS | helper::ABSENT) => {}
        // The partition cannot be mounted, or the firmware hangs: it is unknown whether there is a mark.
        _ => earlier = EarlierMark::Invalid(done.reason()),
    }
    let reset = ResetCheck::decide(&earlier, image.as_deref(), mark_place.as_deref());
    let restore = match earlier {
        EarlierMark::Mark(mark) if reset.veto.is_some() || reset.rebooted.is_some() => Some(mark),
        _ => None,
    };
    m.marks_sought = true;
    let (report, reboots) = (report.clone(), reset.reboots.unwrap_or(0));
    m.marks = mark_place.map(|_| ResetMarks {
        report,
        image,
        restore,
        reboots,
        is_written: false,
    });
    Ok(reset)
}

fn cleared(done: &ChildResult) -> String {
    match done.end {
        End::Exited(helper::SUCCESS) => {
            "reset     firstlight.reset=clear: no mark is left".to_owned()
        }
        End::Exited(helper::ABSENT) => {
            "reset     firstlight.reset=clear: there is no place for a mark".to_owned()
        }
        _ => format!("warning: firstlight.reset=clear: {}", done.reason()),
    }
}

/// What one line of the child reports.
enum MarkLine {
    Place(String),
    Earlier(EarlierMark),
}

fn parse(line: &str) -> Option<MarkLine> {
    if let Some(place) = line.strip_prefix(helper::MARK_PLACE) {
        return Some(MarkLine::Place(place.to_owned()));
    }
    if let Some(why) = line.strip_prefix(helper::INVALID_MARK) {
        return Some(MarkLine::Earlier(EarlierMark::Invalid(why.to_owned())));
    }
    let mark = line.strip_prefix(helper::MARK)?;
    Some(MarkLine::Earlier(
        mark.parse()
            .map_or_else(EarlierMark::Invalid, EarlierMark::Mark),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(step: Step, image: Option<&str>) -> EarlierMark {
        let image = image.map(str::to_owned);
        EarlierMark::Mark(Mark {
            step,
            image,
            boot: None,
            finding: Some("REBAR-NO-ROOM".to_owned()),
            count: 0,
        })
    }

    /// Which of the three steps run.
    fn run(earlier: &EarlierMark, image: Option<&str>) -> [bool; 3] {
        let reset = ResetCheck::decide(earlier, image, Some("x"));
        let run = [Step::Fabric, Step::DriverLoad, Step::Validate]
            .map(|step| reset.vetoes(step).is_none());
        assert_eq!(
            run.contains(&false),
            reset.stage_error().is_some(),
            "{earlier:?}"
        );
        run
    }

    #[test]
    fn a_mark_vetoes_its_step_and_those_after_it() {
        let (a, b) = (Some("a"), Some("b"));
        for (earlier, image, runs) in [
            (EarlierMark::Nothing, a, [true, true, true]),
            (mark(Step::Fabric, a), a, [false, false, false]),
            (mark(Step::DriverLoad, a), a, [true, false, false]),
            (mark(Step::Validate, a), a, [true, true, false]),
            // Another image may have fixed what took the machine down.
            (mark(Step::Fabric, a), b, [true, true, true]),
            (mark(Step::Validate, a), b, [true, true, true]),
            // An unknown image does not count as another one.
            (mark(Step::Validate, None), a, [true, true, false]),
            (mark(Step::Validate, a), None, [true, true, false]),
            (mark(Step::Validate, None), None, [true, true, false]),
            // The machine was not reset during a step.
            (mark(Step::Recover, a), a, [true, true, true]),
            (mark(Step::Recover, a), b, [true, true, true]),
            // An unreadable mark may have been that of any step.
            (
                EarlierMark::Invalid("holds 3 bytes".to_owned()),
                a,
                [false, false, false],
            ),
            (
                EarlierMark::Invalid("holds 3 bytes".to_owned()),
                None,
                [false, false, false],
            ),
        ] {
            assert_eq!(run(&earlier, image), runs, "{earlier:?} {image:?}");
        }
    }

    #[test]
    fn after_a_reboot_to_recover_the_same_image_continues_without_peer_to_peer() {
        let reset =
            |image| ResetCheck::decide(&mark(Step::Recover, Some("a")), Some(image), Some("x"));
        assert_eq!(
            reset("a").rebooted(),
            Some("rebooted once after REBAR-NO-ROOM, and without peer-to-peer since")
        );
        assert_eq!(reset("a").tests(), TestSelection::WithoutP2p);
        assert_eq!(reset("a").to_string(), "RECOVERED");
        assert_eq!(
            (reset("b").rebooted(), reset("b").tests()),
            (None, TestSelection::All)
        );
    }

    #[test]
    fn reboots_by_the_policy_are_counted_for_one_image_and_veto_nothing() {
        let image = Some("a".to_owned());
        let counted = |count| {
            let mark = Mark {
                step: Step::Reboot,
                image: image.clone(),
                boot: None,
                finding: None,
                count,
            };
            EarlierMark::Mark(mark)
        };
        let reboots = |earlier: &EarlierMark, image, place| {
            ResetCheck::decide(earlier, Some(image), place).reboots(3)
        };
        assert_eq!(run(&counted(2), Some("a")), [true, true, true]);
        assert_eq!(reboots(&counted(2), "a", Some("x")).so_far, Some(2));
        assert_eq!(reboots(&counted(2), "b", Some("x")).so_far, Some(0));
        assert_eq!(
            reboots(&EarlierMark::Nothing, "a", Some("x")).so_far,
            Some(0)
        );
        assert_eq!(reboots(&EarlierMark::Nothing, "a", None).so_far, None);
        assert!(reboots(&mark(Step::Validate, Some("a")), "a", Some("x")).was_reset);
    }

    #[test]
    fn after_a_reset_during_a_part_of_the_tests_the_others_are_run() {
        for (part, which) in [
            (Step::FullLoad, TestSelection::WithoutLoad),
            (Step::PeerWrite, TestSelection::WithoutP2p),
            (Step::Validate, TestSelection::All),
        ] {
            let reset = ResetCheck::decide(&mark(part, Some("a")), Some("a"), Some("x"));
            assert_eq!(
                (reset.tests(), reset.to_string()),
                (which, format!("RESET-DURING {part}"))
            );
            assert_eq!(
                reset.vetoes(Step::Validate).is_some(),
                part == Step::Validate
            );
            assert!(reset.stage_error().is_some());
        }
    }

    #[test]
    fn the_verdicts_cause_has_the_step_the_image_the_finding_and_the_way_on() {
        let stage_error =
            ResetCheck::decide(&mark(Step::Validate, Some("a")), Some("a"), Some("x"))
                .stage_error()
                .unwrap();
        assert_eq!(
            (stage_error.stage, stage_error.code),
            ("reset", Some("RESET-DURING"))
        );
        assert_eq!(
            stage_error.cause,
            "the machine was reset during validate; image a; last finding REBAR-NO-ROOM; \
             to try again: firstlight reset clear, or firstlight.reset=clear"
        );
    }

    #[test]
    fn lines_of_the_child_are_read_and_a_torn_one_is_no_mark() {
        let text = Mark {
            step: Step::Fabric,
            image: None,
            boot: None,
            finding: None,
            count: 0,
        }
        .text();
        let earlier = |line: &str| match parse(line) {
            Some(MarkLine::Earlier(earlier)) => Some(earlier),
            _ => None,
        };
        assert!(matches!(
            earlier(&format!("mark {}", text.trim())),
            Some(EarlierMark::Mark(_))
        ));
        assert!(matches!(
            earlier("mark firstlight-mark/1 step=fab"),
            Some(EarlierMark::Invalid(_))
        ));
        assert_eq!(
            earlier("broken x: is not text"),
            Some(EarlierMark::Invalid("x: is not text".to_owned()))
        );
        assert!(
            matches!(parse("place LABEL=X"), Some(MarkLine::Place(place)) if place == "LABEL=X")
        );
    }
}
