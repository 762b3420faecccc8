//! Processes that must not outlive those above them. The kernel's own signal for that (PR_SET_PDEATHSIG) comes
//! when the thread that started a process is gone, and its parent's memory and devices are cleared away before
//! that: GPUs take seconds. So each process also watches all those above it, and ends with the first.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::OnceLock;
use std::{io, thread};

/// The processes above this one, the topmost first.
static ABOVE: OnceLock<Vec<i32>> = OnceLock::new();

/// The word before each of their numbers.
const WORD: &str = "--beneath";

/// CUDA's own way to show some GPUs only. A worker of a limited run has it, and so have the processes beneath.
pub(crate) const LIMIT: &str = "CUDA_VISIBLE_DEVICES";

/// The limit that this process was started with by the one above it; a user's own does not count.
pub(crate) fn limit() -> Option<String> {
    ABOVE.get().filter(|above| !above.is_empty()).and_then(|_| std::env::var(LIMIT).ok())
}

/// From now on this process ends with any of `above`, of which the last is its parent.
///
/// # Errors
/// The kernel's. One of them that is gone already ends this process at once.
pub(crate) fn begin(above: &[i32]) -> io::Result<()> {
    let mut watched = Vec::new();
    for number in above {
        let pid = Pid::from_raw(*number).filter(|pid| pid.as_raw_nonzero().get() > 0);
        let pid = pid.ok_or_else(|| io::Error::other(format!("{WORD} {number}: no number of a process")))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => watched.push(process),
            Err(Errno::SRCH) => end(),
            // A kernel before 5.3, or a filter of system calls: the parent's death is still heard of.
            Err(error) => log::debug!("process {number} is not watched: {error}"),
        }
    }
    // Whoever has another parent now lost its own before it could watch it.
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

/// Tells `command`, another one of this program, whose end is its own too.
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

/// Ends this process at once, without anything that might hang: no destructor runs, nor what a library does at
/// exit. Whoever waits for it knows what that means.
pub(crate) fn end() {
    // A process may always end itself.
    let _ = kill_process(getpid(), Signal::KILL);
}
