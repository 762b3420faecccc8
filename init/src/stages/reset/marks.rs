//! The marks of this boot: one is written before each step that can take the machine down, and removed when the steps are
//! over.

use crate::child::{End, no_lines};
use crate::fault::Fault;
use crate::file_io::read_at_most;
use crate::helper;
use crate::machine::Machine;
use contract::mark::{Mark, Step};
use log::info;
use std::path::Path;

use super::super::result::last_finding;

/// Writes the mark of a step. A mark that cannot be written is only a warning: the step is no less safe than without marks.
pub(super) fn begin(m: &mut Machine, step: Step) -> Result<(), Fault> {
    let Some(marks) = &mut m.marks else { return Ok(()) };
    // Set even if the child hangs: it may have written the mark.
    marks.is_written = true;
    let boot = read_at_most(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok();
    let boot = boot.map(|id| String::from_utf8_lossy(&id).trim().to_owned());
    let mark = Mark { step, image: marks.image.clone(), boot, finding: last_finding() };
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
    let Some(marks) = m.marks.as_ref().filter(|marks| marks.is_written) else { return Ok(true) };
    let spec = match &marks.restore {
        Some(mark) => helper::write_mark(&marks.report, mark.text().trim()),
        None => helper::clear_mark(&marks.report),
    };
    let done = m.run(&spec, &mut no_lines, |_| true)?;
    let is_settled = done.end == End::Exited(helper::SUCCESS);
    if !is_settled {
        info!("warning: the mark stays, and the next boot takes this one for reset: {}", done.reason());
    }
    if let Some(marks) = &mut m.marks {
        marks.is_written = false;
    }
    Ok(is_settled)
}
