//! The side of an arm's process: does what the worker asks, one thing after the other. A failure is the last
//! thing that it tells: the worker looks at it first, then the communicator is aborted, and the process goes.

use super::row::row;
use super::speech::{Answer, Ask, Fault};
use super::team::Team;
use crate::gpu;
use crate::process::lineage;
use crate::process::partner::Worker;
use std::time::Duration;
use std::{io, thread};

/// The name of the hidden command that runs this.
pub const COMMAND: &str = "rank";
/// So long the worker may look at what hangs before it closes its end.
const LOOKED_AT: Duration = Duration::from_secs(15);
/// So long an abort may take.
pub(super) const ABORT: Duration = Duration::from_secs(2);

/// Serves a worker until that has no more to ask.
///
/// # Errors
/// A worker that makes no sense or is gone.
pub fn serve() -> io::Result<()> {
    let worker = Worker::meet()?;
    gpu::log_at_once();
    let mut team = None;
    while let Some((ask, _)) = worker.hear()? {
        match answer(&mut team, ask) {
            Ok(answer) => worker.say(&answer)?,
            Err(fault) => return give_up(&worker, team, fault),
        }
    }
    Ok(())
}

fn answer(team: &mut Option<Team>, ask: Ask) -> Result<Answer, Fault> {
    match (ask, team) {
        (Ask::Open(open), team @ None) => {
            let (opened_team, opened) = Team::open(&open)?;
            *team = Some(opened_team);
            Ok(Answer::Opened(opened))
        }
        (Ask::Join { id, ranks }, Some(team)) if team.comms.is_empty() => {
            team.join(id.as_ref(), ranks)?;
            Ok(Answer::Joined)
        }
        (Ask::Row { ask, seeds, room }, Some(team)) => Ok(Answer::Row(row(team, &ask, seeds, room)?)),
        _ => Err(Fault::broken("the worker asked for this at the wrong time")),
    }
}

/// No destructor runs any more, for none of them is sure to return.
fn give_up(worker: &Worker, mut team: Option<Team>, fault: Fault) -> io::Result<()> {
    // A worker that is gone has ended this process too.
    let _ = worker.say(&Answer::Failed(fault));
    worker.wait_for_end(LOOKED_AT);
    thread::spawn(|| {
        thread::sleep(ABORT);
        lineage::end();
    });
    if let Some(team) = &mut team {
        team.abort();
    }
    std::mem::forget(team);
    lineage::end();
    Ok(())
}
