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
static ANCESTORS: OnceLock<Vec<i32>> = OnceLock::new();

/// The command-line option that precedes the process id of each ancestor.
const OPTION: &str = "--beneath";

/// CUDA's environment variable that hides GPUs. It is set for a worker of a limited run, and for the worker's children.
pub(crate) const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// The visible GPUs that the parent set for this process; a user's own setting does not count.
pub(crate) fn visible_devices() -> Option<String> {
    ANCESTORS
        .get()
        .filter(|ancestors| !ancestors.is_empty())
        .and_then(|_| std::env::var(VISIBLE_DEVICES).ok())
}

/// From now on this process ends when any of its ancestors ends. The last one in the list is its parent.
///
/// # Errors
/// The kernel's error. If one of them is already gone this process ends immediately.
pub(crate) fn watch_ancestors(ancestors: &[i32]) -> io::Result<()> {
    let mut watched = Vec::new();
    for number in ancestors {
        let pid = Pid::from_raw(*number).filter(|pid| pid.as_raw_nonzero().get() > 0);
        let pid =
            pid.ok_or_else(|| io::Error::other(format!("{OPTION} {number}: not a process id")))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => watched.push(process),
            Err(Errno::SRCH) => kill_self(),
            // A kernel before 5.3, or a system call filter: the parent's death is still noticed.
            Err(error) => log::debug!("process {number} is not watched: {error}"),
        }
    }
    // If the parent has changed, the original one ended before it could be watched.
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if ancestors.last().is_some_and(|expected| *expected != parent) {
        kill_self();
    }
    // It is set once, by the first command of this process.
    let _ = ANCESTORS.set(ancestors.to_vec());
    if !watched.is_empty() {
        thread::Builder::new()
            .name("lineage".to_owned())
            .spawn(move || wait_for_first_exit(&watched))?;
    }
    Ok(())
}

/// Adds the ids of the ancestors to `command`, which starts another process of this program that must end with them.
pub(crate) fn add_ancestors(command: &mut Command) {
    let own = getpid().as_raw_nonzero().get();
    for number in ANCESTORS.get().into_iter().flatten().chain([&own]) {
        command.arg(OPTION).arg(number.to_string());
    }
}

fn wait_for_first_exit(processes: &[OwnedFd]) {
    loop {
        let mut polled: Vec<_> = processes
            .iter()
            .map(|p| PollFd::new(p, PollFlags::IN))
            .collect();
        match poll(&mut polled, None) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => kill_self(),
            Err(error) => return log::debug!("the processes above are not watched: {error}"),
        }
    }
}

/// Ends this process immediately, without anything that might hang: neither destructors nor exit handlers of
/// libraries run. The parent interprets the status.
pub(crate) fn kill_self() {
    // A process may always end itself.
    let _ = kill_process(getpid(), Signal::KILL);
}
