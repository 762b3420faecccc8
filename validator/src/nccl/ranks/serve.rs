//! The arm process's side: executes the worker's requests one after the other. A failure is its last message:
//! first the worker examines it, then this process aborts the communicator and exits.

use super::local_ranks::LocalRanks;
use super::messages::{Answer, Ask, Fault};
use super::row::row;
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

/// Serves a worker until it has no more requests. What it has then, the kernel frees when this process ends: NCCL would wait
/// for half a second before it destroyed a communicator.
///
/// # Errors
/// The worker sent something malformed, or is gone.
pub fn serve() -> io::Result<()> {
    let worker = Worker::connect()?;
    gpu::line_buffer_stdout();
    let mut local = None;
    while let Some((ask, _)) = worker.receive()? {
        match answer(&mut local, ask) {
            Ok(answer) => worker.send(&answer)?,
            Err(fault) => return give_up(&worker, local, fault),
        }
    }
    std::mem::forget(local);
    Ok(())
}

fn answer(local: &mut Option<LocalRanks>, ask: Ask) -> Result<Answer, Fault> {
    match (ask, local) {
        (Ask::Open(open), local @ None) => {
            let (opened_ranks, opened) = LocalRanks::open(&open)?;
            *local = Some(opened_ranks);
            Ok(Answer::Opened(opened))
        }
        (Ask::Join { id, ranks }, Some(local)) if local.comms.is_empty() => {
            local.join(id.as_ref(), ranks)?;
            Ok(Answer::Joined)
        }
        (Ask::Split { members }, Some(local)) => local.split(members).map(|()| Answer::Joined),
        (Ask::Unsplit, Some(local)) => local.unsplit().map(|()| Answer::Joined),
        (Ask::SetAside, Some(local)) => local.set_aside().map(|()| Answer::Joined),
        (Ask::Renew, Some(local)) => local.renew().map(|()| Answer::Joined),
        (Ask::Row { ask, seeds, room }, Some(local)) => {
            Ok(Answer::Row(Box::new(row(local, &ask, seeds, room)?)))
        }
        _ => Err(Fault::broken("the worker asked for this at the wrong time")),
    }
}

/// Runs no destructors, because they might never return.
fn give_up(worker: &Worker, mut local: Option<LocalRanks>, fault: Fault) -> io::Result<()> {
    // If the worker is gone, this process ends anyway.
    let _ = worker.send(&Answer::Failed(fault));
    worker.wait_for_end(LOOKED_AT);
    thread::spawn(|| {
        thread::sleep(ABORT);
        lineage::kill_self();
    });
    if let Some(local) = &mut local {
        local.abort();
    }
    std::mem::forget(local);
    lineage::kill_self();
    Ok(())
}
