//! Processes that must not outlive their ancestors. The kernel's own signal for that (PR_SET_PDEATHSIG)
//! arrives when the thread that started a process is gone, which is after its memory and devices were
//! released: with GPUs that takes seconds. So each process also watches all its ancestors, and ends with the
//! first of them.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::OnceLock;
use std::{io, thread};

/// The ancestors of this process, the topmost first.
static ABOVE: OnceLock<Vec<i32>> = OnceLock::new();

/// The option that precedes the id of each ancestor.
const WORD: &str = "--beneath";

/// CUDA's variable to show only some GPUs. A worker of a limited run has it, and so have its children.
pub(crate) const LIMIT: &str = "CUDA_VISIBLE_DEVICES";

/// The limit that the parent set for this process; a user's own setting does not count.
pub(crate) fn limit() -> Option<String> {
    ABOVE.get().filter(|above| !above.is_empty()).and_then(|_| std::env::var(LIMIT).ok())
}

/// From now on this process ends with any of `above`, the last of which is its parent.
///
/// # Errors
/// The kernel's error. If one of them is already gone this process ends immediately.
pub(crate) fn begin(above: &[i32]) -> io::Result<()> {
    let mut watched = Vec::new();
    for number in above {
        let pid = Pid::from_raw(*number).filter(|pid| pid.as_raw_nonzero().get() > 0);
        let pid = pid.ok_or_else(|| io::Error::other(format!("{WORD} {number}: not a process id")))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => watched.push(process),
            Err(Errno::SRCH) => end(),
            // A kernel before 5.3, or a system call filter: the parent's death is still noticed.
            Err(error) => log::debug!("process {number} is not watched: {error}"),
        }
    }
    // If the parent has changed, the original one ended before it could be watched.
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if above.last().is_some_and(|expected| *expected != parent) {
        end();
    }
    // It is set once, by the first command of this process.
    let _ = ABOVE.set(above.to_vec());
    if !watched.is_empty() {
        thread::Builder::new().name("lineage".to_owned()).spawn(move || watch(&watched))?;
    }
    Ok(())
}

/// Adds to `command`, another process of this program, the ids of the processes that it must end with.
pub(crate) fn beneath(command: &mut Command) {
    let own = getpid().as_raw_nonzero().get();
    for number in ABOVE.get().into_iter().flatten().chain([&own]) {
        command.arg(WORD).arg(number.to_string());
    }
}

fn watch(processes: &[OwnedFd]) {
    loop {
        let mut polled: Vec<_> = processes.iter().map(|p| PollFd::new(p, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => end(),
            Err(error) => return log::debug!("the processes above are not watched: {error}"),
        }
    }
}

/// Ends this process immediately, without anything that might hang: neither destructors nor exit handlers of
/// libraries run. The parent interprets the status.
pub(crate) fn end() {
    // A process may always end itself.
    let _ = kill_process(getpid(), Signal::KILL);
}
