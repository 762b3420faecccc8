//! Sockets for ARP frames of one interface (packet(7)). Layout of the address: linux/if_packet.h.

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// `sockaddr_ll`
#[repr(C)]
struct LinkLayerAddress {
    family: u16,
    protocol: [u8; 2],
    index: [u8; 4],
    hardware: u16,
    kind: u8,
    length: u8,
    address: [u8; 8],
}

#[expect(unsafe_code, reason = "rustix has no address of an interface")]
// SAFETY: the pointer is to a whole `LinkLayerAddress`, which has the layout and the size of the kernel's.
unsafe impl SocketAddrArg for LinkLayerAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        f(std::ptr::from_ref(self).cast(), 20)
    }
}

/// Opens a socket that receives every ARP frame of an interface and sends frames on it. Reading never waits.
///
/// # Errors
/// As socket(2) and bind(2).
pub fn arp_socket(index: u32) -> io::Result<OwnedFd> {
    const ARP: [u8; 2] = [0x08, 0x06];
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let (family, index) = (AddressFamily::PACKET.as_raw(), index.to_ne_bytes());
    let (hardware, kind, length, address) = (0, 0, 0, [0; 8]);
    let local = LinkLayerAddress {
        family,
        protocol: ARP,
        index,
        hardware,
        kind,
        length,
        address,
    };
    rustix::net::bind(&socket, &local)?;
    Ok(socket)
}

/// The first bytes of the next frame, enough for ARP; `None` when there is none.
///
/// # Errors
/// As recv(2); `ENETDOWN` when the interface went down.
pub fn receive(socket: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    let mut frame = vec![0; 64];
    match rustix::net::recv(socket, frame.as_mut_slice(), RecvFlags::empty()) {
        Ok((length, _)) => {
            frame.truncate(length);
            Ok(Some(frame))
        }
        Err(e) if e == rustix::io::Errno::AGAIN => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Sends a frame.
///
/// # Errors
/// As send(2).
pub fn send(socket: impl AsFd, frame: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, frame, SendFlags::empty())?;
    Ok(())
}
