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

/// A child process that runs this program, connected by a pair of sockets.
#[derive(Debug)]
pub struct Partner {
    child: Child,
    /// Closed first, which makes the partner exit.
    socket: Option<OwnedFd>,
}

/// Why a partner does not answer.
#[derive(Debug, thiserror::Error)]
pub enum PartnerError {
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
    lineage::add_ancestors(command.arg(word));
    Ok(command)
}

/// The variable and its value for processes that use one stream of a GPU at a time. Each further connection is another channel,
/// and the driver makes and removes the channels of all processes one after the other: on 2 H200 (580.159.04) four processes
/// had their contexts after 0.5 s instead of 1.0, and were gone after 0.65 s instead of 1.5.
pub const ONE_CONNECTION: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "1");

impl Partner {
    /// Starts this program again, with a hidden command.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(word: &str) -> io::Result<Self> {
        let mut command = command(word)?;
        // Its log goes to the worker; its output is discarded.
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        let (name, value) = ONE_CONNECTION;
        command.env(name, value);
        // A kernel that is loaded at its first launch may synchronize, which the capture of a graph forbids.
        command.env("CUDA_MODULE_LOADING", "EAGER");
        Self::spawn(command)
    }

    /// Starts `command`; its standard input is its end of the pair of sockets.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let child = command.stdin(Stdio::from(theirs)).spawn()?;
        Ok(Self {
            child,
            socket: Some(ours),
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request, optionally with a descriptor, and waits for the answer.
    ///
    /// # Errors
    /// See [`PartnerError`].
    pub fn ask<R: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
        within: Duration,
    ) -> Result<R, PartnerError> {
        self.send(request, descriptor)?;
        self.receive(within)
    }

    /// Sends a message without waiting for an answer.
    ///
    /// # Errors
    /// See [`PartnerError`].
    pub fn send(
        &mut self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), PartnerError> {
        let sent = send(self.open()?, message, descriptor);
        sent.map_err(|error| self.communication_error(error, Duration::ZERO))
    }

    /// Waits for its next message.
    ///
    /// # Errors
    /// See [`PartnerError`].
    pub fn receive<R: DeserializeOwned>(&mut self, within: Duration) -> Result<R, PartnerError> {
        // Zero would mean no timeout.
        let patience = within.max(Duration::from_millis(1));
        let socket = self.open()?;
        let heard = set_socket_timeout(socket, Timeout::Recv, Some(patience));
        match heard
            .map_err(io::Error::from)
            .and_then(|()| receive(socket))
        {
            Ok(Some((answer, _))) => Ok(answer),
            Ok(None) => Err(self.exit_error()),
            Err(error) => Err(self.communication_error(error, within)),
        }
    }

    /// Closes this end, which makes the partner exit at its next read.
    pub fn close(&mut self) {
        drop(self.socket.take());
    }

    /// Kills it without waiting.
    pub fn kill(&mut self) {
        // This fails only if it is already gone.
        let _ = self.child.kill();
    }

    /// Waits for the partner to exit, and returns its status; `None` if it is still running after `within`.
    pub fn wait_exit(&mut self, within: Duration) -> Option<ExitStatus> {
        let due = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < due => thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn open(&self) -> Result<BorrowedFd<'_>, PartnerError> {
        self.socket
            .as_ref()
            .map(AsFd::as_fd)
            .ok_or_else(|| PartnerError::Died("it was ended".to_owned()))
    }

    fn communication_error(&mut self, error: io::Error, within: Duration) -> PartnerError {
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => PartnerError::Silent(within),
            Some(Errno::PIPE | Errno::CONNRESET) => self.exit_error(),
            _ => error.into(),
        }
    }

    fn exit_error(&mut self) -> PartnerError {
        let status = self
            .wait_exit(GRACE)
            .map_or("it closed its socket".to_owned(), |status| {
                status.to_string()
            });
        PartnerError::Died(status)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.close();
        if self.wait_exit(GRACE).is_none() {
            // A process that hangs in the kernel is left behind; nothing more can be done.
            self.kill();
            self.wait_exit(GRACE);
        }
    }
}

/// Waits until a partner has sent something or has exited, at most `within`; returns for each partner whether it has.
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

/// The worker as the partner sees it: the other end of the socket at standard input.
#[derive(Debug)]
pub struct Worker(io::Stdin);

impl Worker {
    /// From now on this process dies with the worker.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn connect() -> io::Result<Self> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(Self(io::stdin()))
    }

    /// The next request and its descriptor; `None` if the worker has no more requests, or ended before it
    /// received an answer.
    ///
    /// # Errors
    /// An invalid packet.
    pub fn receive<A: DeserializeOwned>(&self) -> io::Result<Option<(A, Option<OwnedFd>)>> {
        none_if_closed(receive(self.0.as_fd())).map(Option::flatten)
    }

    /// Sends an answer. If the worker is gone, [`Self::receive`] reports it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn send(&self, answer: &impl Serialize) -> io::Result<()> {
        none_if_closed(send(self.0.as_fd(), answer, None)).map(drop)
    }

    /// Waits until the worker has closed its end, but no longer than that; further requests are ignored.
    pub fn wait_for_end(&self, within: Duration) {
        let due = Instant::now() + within;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            // An error does not stop a process that is about to exit.
            let waits =
                !left.is_zero() && set_socket_timeout(&self.0, Timeout::Recv, Some(left)).is_ok();
            if !waits || !matches!(self.receive::<serde::de::IgnoredAny>(), Ok(Some(_))) {
                return;
            }
        }
    }
}

/// Turns the error of a closed socket into `None`.
fn none_if_closed<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(e)
            if matches!(
                Errno::from_io_error(&e),
                Some(Errno::PIPE | Errno::CONNRESET)
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Answers requests until the worker has no more.
///
/// # Errors
/// As [`Worker`]'s.
pub fn serve<A: DeserializeOwned, R: Serialize>(
    mut answer: impl FnMut(A, Option<OwnedFd>) -> R,
) -> io::Result<()> {
    let worker = Worker::connect()?;
    while let Some((request, descriptor)) = worker.receive()? {
        worker.send(&answer(request, descriptor))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
