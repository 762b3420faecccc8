//! The arm process's side: executes the worker's requests one after the other. A failure is its last message:
//! first the worker examines it, then this process aborts the communicator and exits.

use super::messages::{Answer, Ask, Fault};
use super::row::row;
use super::team::Team;
use crate::gpu;
use crate::process::lineage;
use crate::process::partner::Worker;
use std::time::Duration;
use std::{io, thread};

/// The name of the hidden command that runs this.
pub const COMMAND: &str = "rank";
/// How long the worker may examine a hang before it closes its end of the socket.
const LOOKED_AT: Duration = Duration::from_secs(15);
/// The time limit of an abort.
pub(super) const ABORT: Duration = Duration::from_secs(2);

/// Serves a worker until it has no more requests.
///
/// # Errors
/// The worker sent something malformed, or is gone.
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
        (Ask::Row { ask, seeds, room }, Some(team)) => {
            Ok(Answer::Row(Box::new(row(team, &ask, seeds, room)?)))
        }
        _ => Err(Fault::broken("the worker asked for this at the wrong time")),
    }
}

/// Runs no destructors, because they might never return.
fn give_up(worker: &Worker, mut team: Option<Team>, fault: Fault) -> io::Result<()> {
    // If the worker is gone, this process ends anyway.
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
