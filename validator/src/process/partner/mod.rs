//! Additional processes of a worker, for tests that need more than one: the same program again, connected by
//! a pair of sockets that carry packets of JSON and open descriptors. The test defines their content. Every
//! wait has a deadline, and a partner dies with the worker.

pub mod leftovers;
mod packet;

use crate::process::lineage;
use packet::{receive, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the hidden command that the partner of a test between two processes runs.
pub const COMMAND: &str = "partner";
/// How long a partner may take to exit, by itself or after it was killed.
pub const GRACE: Duration = Duration::from_secs(2);

/// The other process.
#[derive(Debug)]
pub struct Partner {
    child: Child,
    /// Closed first, which makes the partner exit.
    socket: Option<OwnedFd>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It did not answer in time.
    #[error("the other process does not answer within {:.1} s", .0.as_secs_f64())]
    Silent(Duration),
    /// It has ended.
    #[error("the other process died: {0}")]
    Died(String),
    /// It could not be started or communication failed.
    #[error("the other process cannot be reached: {0}")]
    Broken(#[from] io::Error),
}

/// This program again, with a hidden command.
///
/// # Errors
/// If the path of the program is unknown.
pub fn command(word: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    lineage::beneath(command.arg(word));
    Ok(command)
}

impl Partner {
    /// Starts this program again, with a hidden command.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(word: &str) -> io::Result<Self> {
        let mut command = command(word)?;
        // Its log goes to the worker; its output is discarded.
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        // A kernel that is loaded at its first launch may synchronize, which the capture of a graph forbids.
        command.env("CUDA_MODULE_LOADING", "EAGER");
        Self::of(command)
    }

    /// Starts `command`, whose standard input becomes its end of the pair.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of(mut command: Command) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let child = command.stdin(Stdio::from(theirs)).spawn()?;
        Ok(Self { child, socket: Some(ours) })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its answer to `ask`; a descriptor may be sent along.
    ///
    /// # Errors
    /// See [`Lost`].
    pub fn ask<R: DeserializeOwned>(
        &mut self,
        ask: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
        within: Duration,
    ) -> Result<R, Lost> {
        self.say(ask, descriptor)?;
        self.hear(within)
    }

    /// Sends `what` without waiting for an answer.
    ///
    /// # Errors
    /// See [`Lost`].
    pub fn say(&mut self, what: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Lost> {
        let said = send(self.open()?, what, descriptor);
        said.map_err(|error| self.lost(error, Duration::ZERO))
    }

    /// Waits for its next message.
    ///
    /// # Errors
    /// See [`Lost`].
    pub fn hear<R: DeserializeOwned>(&mut self, within: Duration) -> Result<R, Lost> {
        // Zero would mean no timeout.
        let patience = within.max(Duration::from_millis(1));
        let socket = self.open()?;
        let heard = set_socket_timeout(socket, Timeout::Recv, Some(patience));
        match heard.map_err(io::Error::from).and_then(|()| receive(socket)) {
            Ok(Some((answer, _))) => Ok(answer),
            Ok(None) => Err(self.death()),
            Err(error) => Err(self.lost(error, within)),
        }
    }

    /// Closes our end, which makes it exit at its next read.
    pub fn let_go(&mut self) {
        drop(self.socket.take());
    }

    /// Kills it without waiting.
    pub fn kill(&mut self) {
        // This fails only if it is already gone.
        let _ = self.child.kill();
    }

    /// Its exit status, once it has ended.
    pub fn gone(&mut self, within: Duration) -> Option<ExitStatus> {
        let due = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < due => thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn open(&self) -> Result<BorrowedFd<'_>, Lost> {
        self.socket.as_ref().map(AsFd::as_fd).ok_or_else(|| Lost::Died("it was ended".to_owned()))
    }

    fn lost(&mut self, error: io::Error, within: Duration) -> Lost {
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => Lost::Silent(within),
            Some(Errno::PIPE | Errno::CONNRESET) => self.death(),
            _ => error.into(),
        }
    }

    fn death(&mut self) -> Lost {
        let status = self.gone(GRACE).map_or("it closed its socket".to_owned(), |status| status.to_string());
        Lost::Died(status)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.let_go();
        if self.gone(GRACE).is_none() {
            // A process that hangs in the kernel is left behind; nothing more can be done.
            self.kill();
            self.gone(GRACE);
        }
    }
}

/// Which of `partners` have sent something or are gone; none if nothing happens `within` that time.
///
/// # Errors
/// The kernel's error.
pub fn ready(partners: &[&Partner], within: Duration) -> io::Result<Vec<bool>> {
    let mut polled = Vec::new();
    for partner in partners {
        let socket = partner.open().map_err(io::Error::other)?;
        polled.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
    }
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut polled, Some(&within)) {
        Ok(_) | Err(Errno::INTR) => Ok(polled.iter().map(|p| !p.revents().is_empty()).collect()),
        Err(error) => Err(error.into()),
    }
}

/// The partner's side: the worker, at the other end of standard input.
#[derive(Debug)]
pub struct Worker(io::Stdin);

impl Worker {
    /// From now on this process dies with the worker.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn meet() -> io::Result<Self> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(Self(io::stdin()))
    }

    /// Its next request, with its descriptor; `None` if it has no more requests, or ended before it got an
    /// answer.
    ///
    /// # Errors
    /// An invalid packet.
    pub fn hear<A: DeserializeOwned>(&self) -> io::Result<Option<(A, Option<OwnedFd>)>> {
        unless_gone(receive(self.0.as_fd())).map(Option::flatten)
    }

    /// Sends an answer. If the worker is gone, `hear` reports it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn say(&self, answer: &impl Serialize) -> io::Result<()> {
        unless_gone(send(self.0.as_fd(), answer, None)).map(drop)
    }

    /// Waits until the worker has closed its end, but no longer than that; further requests are ignored.
    pub fn wait_for_end(&self, within: Duration) {
        let due = Instant::now() + within;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            // An error does not stop a process that is about to exit.
            let waits = !left.is_zero() && set_socket_timeout(&self.0, Timeout::Recv, Some(left)).is_ok();
            if !waits || !matches!(self.hear::<serde::de::IgnoredAny>(), Ok(Some(_))) {
                return;
            }
        }
    }
}

/// `None` if the other end is closed.
fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::PIPE | Errno::CONNRESET)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Answers until the worker has no more requests.
///
/// # Errors
/// As [`Worker`]'s.
pub fn serve<A: DeserializeOwned, R: Serialize>(
    mut answer: impl FnMut(A, Option<OwnedFd>) -> R,
) -> io::Result<()> {
    let worker = Worker::meet()?;
    while let Some((ask, descriptor)) = worker.hear()? {
        worker.say(&answer(ask, descriptor))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
