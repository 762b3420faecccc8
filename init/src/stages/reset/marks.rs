//! The marks of this boot: one is written before each step that can take the machine down, and removed when the steps are
//! over.

use crate::child::{End, no_lines};
use crate::config::types::Report;
use crate::fault::Fault;
use crate::file_io::read_at_most;
use crate::helper;
use crate::machine::Machine;
use contract::mark::{Mark, Step};
use log::info;
use std::path::Path;

use super::super::decide::Decision;
use super::super::result::last_finding;
use super::{Reboots, look};

/// Writes the mark of a step. A mark that cannot be written is only a warning: the step is no less safe than without marks.
pub(super) fn begin(m: &mut Machine, step: Step) -> Result<(), Fault> {
    let Some(marks) = &mut m.marks else {
        return Ok(());
    };
    // Set even if the child hangs: it may have written the mark.
    marks.is_written = true;
    let boot = read_at_most(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok();
    let boot = boot.map(|id| String::from_utf8_lossy(&id).trim().to_owned());
    let mark = Mark {
        step,
        image: marks.image.clone(),
        boot,
        finding: last_finding(),
        count: 0,
    };
    let spec = helper::write_mark(&marks.report, mark.text().trim());
    let done = m.run(&spec, &mut no_lines, |_| true)?;
    if done.end != End::Exited(helper::SUCCESS) {
        info!("warning: no mark of {step}: {}", done.reason());
    }
    Ok(())
}

/// Removes the mark of this boot, or restores that of the earlier boot, because the machine has survived the steps. Returns
/// whether the stored state is now correct.
///
/// # Errors
/// Only an interruption.
pub fn finish_marks(m: &mut Machine) -> Result<bool, Fault> {
    let Some(marks) = m.marks.as_ref().filter(|marks| marks.is_written) else {
        return Ok(true);
    };
    let spec = match &marks.restore {
        Some(mark) => helper::write_mark(&marks.report, mark.text().trim()),
        None => helper::clear_mark(&marks.report),
    };
    let done = m.run(&spec, &mut no_lines, |_| true)?;
    let is_settled = done.end == End::Exited(helper::SUCCESS);
    if !is_settled {
        info!(
            "warning: the mark stays, and the next boot takes this one for reset: {}",
            done.reason()
        );
    }
    if let Some(marks) = &mut m.marks {
        marks.is_written = false;
    }
    Ok(is_settled)
}

/// As [`finish_marks`], after the decision: a reboot by the policy is counted in place of removing the mark, and where it cannot be
/// counted, the machine holds. A machine that holds because it has rebooted too often keeps its count.
///
/// # Errors
/// Only an interruption.
pub fn settle(m: &mut Machine, decision: &mut Decision) -> Result<(), Fault> {
    let so_far = decision.reboots.so_far.unwrap_or(0);
    let count = if decision.reboots_by_policy() {
        Some(so_far.saturating_add(1))
    } else {
        None
    };
    let kept = decision
        .objection
        .as_ref()
        .and(Some(so_far))
        .filter(|n| *n > 0);
    leave(m, count.or(kept));
    if !finish_marks(m)? && decision.reboots_by_policy() {
        decision.hold_instead("this reboot cannot be counted".to_owned());
    }
    Ok(())
}

/// Decides what is left in place of this boot's mark: this count of reboots, or nothing. The mark of a step or of a recovery stays.
fn leave(m: &mut Machine, count: Option<u64>) {
    let Some(marks) = &mut m.marks else { return };
    if marks
        .restore
        .as_ref()
        .is_some_and(|mark| mark.step != Step::Reboot)
    {
        return;
    }
    // By the count alone: another finding since is no reason for another write to the firmware's flash.
    if marks.restore.as_ref().map(|mark| mark.count) == count {
        return;
    }
    let image = marks.image.clone();
    marks.restore = count.map(|count| Mark {
        step: Step::Reboot,
        image,
        boot: None,
        finding: last_finding(),
        count,
    });
    marks.is_written = true;
}

/// After a fault, whose policy is to reboot: counts the reboot. Returns why the machine must hold instead, if it must.
///
/// # Errors
/// Only an interruption.
pub fn reboot_after_fault(m: &mut Machine) -> Result<Option<String>, Fault> {
    let earlier = match &m.marks {
        None if m.marks_sought => Reboots::default(),
        // A fault in the configuration comes before the stage that looks for marks.
        None => look(m, &Report::default())?.reboots(m.max_reboots),
        Some(marks) => {
            let mark = marks.restore.as_ref();
            let was_reset = mark.is_some_and(|mark| mark.step != Step::Reboot);
            Reboots {
                so_far: Some(marks.reboots),
                allowed: m.max_reboots,
                was_reset,
            }
        }
    };
    let why = earlier.objection();
    let so_far = earlier.so_far.unwrap_or(0);
    let count = if why.is_none() {
        so_far.saturating_add(1)
    } else {
        so_far
    };
    leave(m, Some(count).filter(|n| *n > 0));
    let is_settled = finish_marks(m)?;
    Ok(why.or_else(|| (!is_settled).then(|| "this reboot cannot be counted".to_owned())))
}
