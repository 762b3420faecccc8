//! System calls about processes: signals, waiting, killing, sessions, limits.

use nix::sys::signal::{SigSet, Signal as Masked};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Resource, Rlimit, WaitOptions, WaitStatus};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

pub use rustix::process::{Pid, Signal};

/// Whether this is process 1 of the machine or of a process id namespace.
#[must_use]
pub fn is_process_one() -> bool {
    rustix::process::getpid().is_init()
}

/// The signals that process 1 handles, received through a descriptor (signalfd) and never by a signal handler.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals and opens the descriptor. A child inherits the mask: see [`unblock_signals`].
    ///
    /// # Errors
    /// As signalfd(2).
    pub fn take() -> io::Result<Self> {
        let mask = Self::mask();
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(
            &mask,
            SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
        )?))
    }

    /// Blocks the signals again after an execve(2) that was prepared by [`unblock_signals`] and failed: otherwise none would
    /// arrive through the descriptor any more.
    ///
    /// # Errors
    /// As sigprocmask(2).
    pub fn block_again(&self) -> io::Result<()> {
        Ok(Self::mask().thread_block()?)
    }

    fn mask() -> SigSet {
        let mut mask = SigSet::empty();
        for signal in [
            Masked::SIGCHLD,
            Masked::SIGTERM,
            Masked::SIGINT,
            Masked::SIGHUP,
            Masked::SIGQUIT,
            Masked::SIGUSR1,
            Masked::SIGUSR2,
            Masked::SIGPIPE,
        ] {
            mask.add(signal);
        }
        mask
    }

    /// The next pending signal, if any.
    #[must_use]
    pub fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok().flatten()?;
        Signal::from_named_raw(i32::try_from(info.ssi_signo).ok()?)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of `fds` is readable (or has ended) or the time is over; returns which are ready.
/// Without a limit it waits forever.
#[must_use]
pub fn readable(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> Vec<bool> {
    ready(fds, PollFlags::IN, limit)
}

/// Waits until `fd` is writable or the time is over.
#[must_use]
pub fn writable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    ready(&[fd], PollFlags::OUT, Some(limit)).contains(&true)
}

fn ready(fds: &[BorrowedFd<'_>], flags: PollFlags, limit: Option<Duration>) -> Vec<bool> {
    let mut set: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, flags))
        .collect();
    let limit = limit.and_then(|d| Timespec::try_from(d).ok());
    match poll(&mut set, limit.as_ref()) {
        Ok(_) => set.iter().map(|fd| !fd.revents().is_empty()).collect(),
        Err(_) => vec![false; fds.len()],
    }
}

/// A descriptor that becomes readable when the child ends.
///
/// # Errors
/// As pidfd_open(2).
pub fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Ends a process at once, and waits until it has ended or the time is over. Returns whether it has.
#[must_use]
pub fn end(process: BorrowedFd<'_>, limit: Duration) -> bool {
    let _has_ended = rustix::process::pidfd_send_signal(process, Signal::KILL);
    readable(&[process], Some(limit)).contains(&true)
}

/// Reaps ended children. As process 1 it reaps all of them, including orphans; otherwise only `ours`, so
/// that the library can be tested in a process with other children. Returns how `ours` ended.
#[must_use]
pub fn reap(ours: Option<Pid>) -> Option<WaitStatus> {
    if !is_process_one() {
        return ours
            .and_then(|pid| rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok()?)
            .map(|e| e.1);
    }
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if Some(pid) == ours {
            found = Some(status);
        }
    }
    found
}

/// Sends a signal to a child's whole process group. An empty group is not an error.
pub fn kill_group(group: Pid, signal: Signal) {
    let _none_left = rustix::process::kill_process_group(group, signal);
}

/// As process 1, sends a signal to every other process; otherwise does nothing.
pub fn kill_all(signal: Signal) {
    if is_process_one() {
        let signal = Masked::try_from(signal.as_raw()).ok();
        let _none_left = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), signal);
    }
}

/// Makes the command start with no signal blocked: std passes this process's own mask on.
pub fn unblock_signals(command: &mut Command) {
    let setup = || Ok(SigSet::empty().thread_set_mask()?);
    #[expect(
        unsafe_code,
        reason = "std has no safe way to set a child's signal mask"
    )]
    // SAFETY: between fork and exec the closure makes one system call and touches no memory that
    // another thread could have locked; init has no other thread.
    unsafe {
        command.pre_exec(setup);
    }
}

/// How a program in its own session uses the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// A file to read and write. When the program ends, everything it wrote is still sent.
    Plain,
    /// Its controlling terminal, with job control and Ctrl-C. When the program ends, the kernel hangs up
    /// the terminal and drops what was not sent yet.
    Controlling,
}

/// Makes the command start in its own session; its standard input is the `terminal`.
pub fn own_session(command: &mut Command, terminal: Terminal) {
    let setup = move || {
        rustix::process::setsid()?;
        if terminal == Terminal::Controlling {
            // A file or a pipe as the console is accepted; it only has no job control.
            let _no_terminal = rustix::process::ioctl_tiocsctty(rustix::stdio::stdin());
        }
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "std has no safe way to start a child in its own session"
    )]
    // SAFETY: between fork and exec the closure makes two system calls and touches no memory that
    // another thread could have locked; init has no other thread.
    unsafe {
        command.pre_exec(setup);
    }
}

/// Limits of open files (soft, hard): NCCL opens sockets, shared memory and handles for every pair of GPUs
/// and channel, and asks for 64 Ki; the hard limit is systemd's.
const OPEN_FILES: (u64, u64) = (1 << 16, 1 << 19);
/// Stack limit in bytes, as NVIDIA's guides set it for containers.
const STACK: u64 = 64 << 20;

/// Raises the limits of this process and its children: locked memory without limit, 64 MiB of stack, 64 Ki
/// open files, as CUDA, NCCL, RDMA and MPI programs need. Returns the limits that could not be raised, with
/// the cause.
#[must_use]
pub fn raise_limits() -> Vec<(&'static str, io::Error)> {
    // `None` means no limit; nothing is lowered.
    let at_least = |old: Option<u64>, least: u64| old.map(|old| old.max(least));
    let raised = |what: Resource, current: Option<u64>, most: u64| {
        let old = rustix::process::getrlimit(what);
        Rlimit {
            current,
            maximum: at_least(old.maximum, most),
        }
    };
    let wanted = [
        (
            "locked memory",
            Resource::Memlock,
            Rlimit {
                current: None,
                maximum: None,
            },
        ),
        (
            "open files",
            Resource::Nofile,
            raised(Resource::Nofile, Some(OPEN_FILES.0), OPEN_FILES.1),
        ),
        (
            "stack",
            Resource::Stack,
            raised(Resource::Stack, Some(STACK), STACK),
        ),
    ];
    let set = |(name, what, limit)| {
        let refused = rustix::process::setrlimit(what, limit).err()?;
        Some((name, io::Error::from(refused)))
    };
    wanted.into_iter().filter_map(set).collect()
}

/// Whether process 1 started this process.
#[must_use]
pub fn is_child_of_process_one() -> bool {
    rustix::process::getppid() == Some(Pid::INIT)
}

/// As process 1, whether any child or orphan is left; reaps one that has ended. Kernel threads are not
/// children of process 1.
#[must_use]
pub fn others_live() -> bool {
    is_process_one()
        && !matches!(
            rustix::process::wait(WaitOptions::NOHANG),
            Err(rustix::io::Errno::CHILD)
        )
}
