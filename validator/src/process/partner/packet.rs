//! The packets on the pair of sockets: one JSON value each, and optionally an open descriptor.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Maximum length of a packet, bytes.
const MAX_PACKET: usize = 64 << 10;

pub(super) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// One packet and its descriptor; `None` if the other side is closed.
pub(super) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let packet = bytes.get(..got.bytes).unwrap_or_default();
    Ok(Some((serde_json::from_slice(packet)?, descriptor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_packet_brings_its_descriptor_along() {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
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
}
