//! Runs the validator so that nothing of it is left when it has ended: a process that left the child's control group could change
//! the report and the verdict afterwards, or keep using the GPUs.

use crate::child::{ChildResult, ChildSpec, End, Stream};
use crate::fault::Fault;
use crate::machine::Machine;
use crate::sys::process::{self, Signal};
use crate::sys::running::{end_stray, running, strays};
use log::info;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long all of them together may take to end.
const LIMIT: Duration = Duration::from_secs(2);

/// As [`Machine::run`]; then ends every process that was not there before and was not started by one that was. If one does not
/// end, the child's end is [`End::Unkillable`].
///
/// # Errors
/// Only an interruption.
pub(super) fn run_alone(
    m: &Machine,
    spec: &ChildSpec,
    line: &mut dyn FnMut(Stream, &str) -> bool,
    fine: impl Fn(End) -> bool,
) -> Result<ChildResult, Fault> {
    let proc = Path::new("/proc");
    let before = running(proc);
    let done = m.run(spec, line, fine)?;
    let until = Instant::now() + LIMIT;
    loop {
        let (Ok(before), Ok(now)) = (&before, running(proc)) else {
            // Without both lists nothing can be spared.
            process::kill_all(Signal::KILL);
            return Ok(done);
        };
        let left = strays(before, &now);
        if left.is_empty() {
            return Ok(done);
        }
        for stray in left {
            info!("warning: {stray} was left running by the tests, and is ended");
            let _looked_again = end_stray(stray, until.saturating_duration_since(Instant::now()));
        }
        if Instant::now() >= until {
            process::kill_all(Signal::KILL);
            return Ok(ChildResult {
                end: End::Unkillable(LIMIT),
                ..done
            });
        }
    }
}
