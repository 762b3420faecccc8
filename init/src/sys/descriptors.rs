//! System calls about open descriptors: the standard descriptors, and passing descriptors from a child to
//! process 1 and across exec.

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Opens descriptors 0, 1 and 2 if they are closed, so that no file opened later gets one of their numbers:
/// a kernel without a console starts process 1 without them. They refer to the root folder, which cannot be
/// written.
pub fn fill_standard_descriptors() {
    while let Ok(fd) = rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
        if fd.as_raw_fd() > 2 {
            return;
        }
        std::mem::forget(fd);
    }
}

/// Two connected sockets that keep message boundaries and are closed on exec.
///
/// # Errors
/// As socketpair(2).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Sends one descriptor; never waits.
///
/// # Errors
/// As sendmsg(2); `EAGAIN` when the socket is full.
pub fn send(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&[1])], &mut control, flags)?;
    Ok(())
}

/// Receives all pending descriptors in the order they were sent; never waits. They are closed on exec.
#[must_use]
pub fn receive_all(socket: BorrowedFd<'_>) -> Vec<OwnedFd> {
    let mut received = Vec::new();
    while let Some(more) = receive(socket) {
        received.extend(more);
    }
    received
}

/// The descriptors of one message; `None` when there is no message.
fn receive(socket: BorrowedFd<'_>) -> Option<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        flags,
    );
    if message.ok()?.bytes == 0 {
        return None;
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Some(rights.flatten().collect())
}

/// Keeps a descriptor open across exec. Best effort: if it fails, the program only lacks a descriptor that
/// it did not ask for.
pub fn keep_across_exec(descriptor: impl AsFd) {
    let _closed_then = rustix::io::fcntl_setfd(descriptor, FdFlags::empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn what_one_end_sends_is_open_at_the_other_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = pair().unwrap();
        for name in ["a", "b"] {
            let mut file = File::create_new(dir.path().join(name)).unwrap();
            file.write_all(name.as_bytes()).unwrap();
            let file = File::open(dir.path().join(name)).unwrap();
            send(theirs.as_fd(), file.as_fd()).unwrap();
        }
        drop(theirs);
        let texts = receive_all(ours.as_fd()).into_iter().map(|fd| {
            assert!(
                rustix::io::fcntl_getfd(&fd)
                    .unwrap()
                    .contains(FdFlags::CLOEXEC)
            );
            let mut text = String::new();
            File::from(fd).read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(receive_all(ours.as_fd()).len(), 0);
    }

    #[test]
    fn an_empty_or_broken_socket_does_not_block_or_panic() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(receive_all(ours.as_fd()).len(), 0);
        drop(ours);
        let file = File::open("/dev/null").unwrap();
        assert!(send(theirs.as_fd(), file.as_fd()).is_err());
    }

    #[test]
    fn a_full_socket_refuses_instead_of_waiting() {
        let (_ours, theirs) = pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        let sent = (0..100_000)
            .take_while(|_| send(theirs.as_fd(), file.as_fd()).is_ok())
            .count();
        assert!((64..100_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_descriptor_can_be_made_to_survive_an_exec() {
        let file = File::open("/dev/null").unwrap();
        keep_across_exec(&file);
        assert_eq!(rustix::io::fcntl_getfd(&file).unwrap(), FdFlags::empty());
    }
}
