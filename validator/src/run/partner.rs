//! A second process beside a worker, for tests that need two: the same program again, joined to it by
//! a pair of sockets, over which packets of JSON and open descriptors go. What they say to each other
//! is the test's matter. Every wait has a deadline, and the partner dies with the worker.

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the hidden command that a partner runs.
pub const COMMAND: &str = "partner";
/// No packet is longer.
const LONGEST: usize = 64 << 10;
/// How long a partner may take to end by itself, or to be gone once it was killed.
const GRACE: Duration = Duration::from_secs(2);

/// The other process.
#[derive(Debug)]
pub struct Partner {
    child: Child,
    /// Closed first: then it ends by itself.
    socket: Option<OwnedFd>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It did not answer in time.
    #[error("the other process does not answer within {:.1} s", .0.as_secs_f64())]
    Silent(Duration),
    /// It is gone.
    #[error("the other process died: {0}")]
    Died(String),
    /// It could not be started or talked to.
    #[error("the other process cannot be talked to: {0}")]
    Broken(#[from] io::Error),
}

impl Partner {
    /// Starts it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let mut command = Command::new(std::env::current_exe()?);
        // What it logs is the worker's to keep; its output is nobody's.
        command.arg(COMMAND).stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::inherit());
        Ok(Self { child: command.spawn()?, socket: Some(ours) })
    }

    /// Its answer to `ask`, which may bring a descriptor along.
    ///
    /// # Errors
    /// See [`Lost`].
    pub fn ask<R: DeserializeOwned>(
        &mut self,
        ask: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
        within: Duration,
    ) -> Result<R, Lost> {
        let Some(socket) = &self.socket else { return Err(Lost::Died("it was ended".to_owned())) };
        let answer = send(socket.as_fd(), ask, descriptor).and_then(|()| {
            set_socket_timeout(socket, Timeout::Recv, Some(within))?;
            receive(socket.as_fd())
        });
        match answer {
            Ok(Some((answer, _))) => Ok(answer),
            Ok(None) => Err(self.death()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => Err(Lost::Silent(within)),
                Some(Errno::PIPE | Errno::CONNRESET) => Err(self.death()),
                _ => Err(error.into()),
            },
        }
    }

    fn death(&mut self) -> Lost {
        let status = self.gone(GRACE).map_or("it closed its socket".to_owned(), |status| status.to_string());
        Lost::Died(status)
    }

    fn gone(&mut self, within: Duration) -> Option<std::process::ExitStatus> {
        let due = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < due => thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        drop(self.socket.take());
        if self.gone(GRACE).is_none() {
            // One that hangs in the kernel stays behind; nothing more can be done.
            let _ = self.child.kill();
            self.gone(GRACE);
        }
    }
}

/// The partner's side: answers until the worker closes the socket, which is its standard input.
///
/// # Errors
/// What is no packet, or a worker that is gone in the middle of one.
pub fn serve<A: DeserializeOwned, R: Serialize>(
    mut answer: impl FnMut(A, Option<OwnedFd>) -> R,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let socket = io::stdin();
    while let Some((ask, descriptor)) = receive(socket.as_fd())? {
        send(socket.as_fd(), &answer(ask, descriptor), None)?;
    }
    Ok(())
}

fn send(socket: BorrowedFd<'_>, what: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = serde_json::to_vec(what)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        extra.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut extra, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// One packet and the descriptor that came with it; `None` when the other side is closed.
fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut extra, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let descriptor = extra.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let packet = bytes.get(..got.bytes).unwrap_or_default();
    Ok(Some((serde_json::from_slice(packet)?, descriptor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn partner(socket: OwnedFd, script: &str) -> Partner {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        Partner { child, socket: Some(socket) }
    }

    #[test]
    fn a_packet_brings_its_descriptor_along() {
        let (ours, theirs) = pair();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"seen").unwrap();
        send(ours.as_fd(), &("open", 7), Some(file.as_fd())).unwrap();
        send(ours.as_fd(), &("close", 8), None).unwrap();
        let (word, descriptor) = receive::<(String, u32)>(theirs.as_fd()).unwrap().unwrap();
        assert_eq!(word, ("open".to_owned(), 7));
        let (mut file, mut text) = (File::from(descriptor.unwrap()), String::new());
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "seen");
        let (word, descriptor) = receive::<(String, u32)>(theirs.as_fd()).unwrap().unwrap();
        assert_eq!((word.1, descriptor.is_none()), (8, true));
        drop(ours);
        assert!(receive::<u32>(theirs.as_fd()).unwrap().is_none());
    }

    #[test]
    fn a_partner_that_says_nothing_is_not_waited_for_without_end() {
        let (ours, _theirs) = pair();
        let start = Instant::now();
        let mut silent = partner(ours, "exec sleep 60");
        let said = silent.ask::<u32>(&1, None, Duration::from_millis(50));
        assert!(matches!(said, Err(Lost::Silent(_))), "{said:?}");
        drop(silent);
        assert!(start.elapsed() < Duration::from_secs(10), "it is killed");
    }

    #[test]
    fn a_partner_that_died_is_told_by_its_status() {
        let (ours, theirs) = pair();
        let mut dead = partner(ours, "exit 3");
        drop(theirs);
        let said = dead.ask::<u32>(&1, None, Duration::from_secs(5));
        assert!(matches!(&said, Err(Lost::Died(how)) if how.contains('3')), "{said:?}");
    }
}
