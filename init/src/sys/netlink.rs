//! rtnetlink: messages for link up, address and default route, and sending them. Layouts: linux/netlink.h,
//! linux/rtnetlink.h, linux/if_addr.h.

use super::process::readable;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const REQUEST_ACK: u16 = 0x1 | 0x4;
const CREATE_REPLACE: u16 = 0x400 | 0x100;
const NLMSG_ERROR: u16 = 2;

/// Builds a request of a fixed header and attributes of (type, bytes).
fn message(kind: u16, flags: u16, header: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = header.to_vec();
    for (kind, bytes) in attributes {
        // An address is 16 bytes at most: the sum fits.
        let length = u16::try_from(bytes.len() + 4).unwrap_or(u16::MAX);
        body.extend(length.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(*bytes);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let length = u32::try_from(body.len() + 16).unwrap_or(u32::MAX);
    let mut out = Vec::new();
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend((REQUEST_ACK | flags).to_ne_bytes());
    out.extend([0; 8]); // sequence and port: one request per socket
    out.extend(body);
    out
}

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (2, v4.octets().to_vec()),
        IpAddr::V6(v6) => (10, v6.octets().to_vec()),
    }
}

/// A request to bring an interface up.
#[must_use]
pub fn link_up(index: u32) -> Vec<u8> {
    const IFF_UP: u32 = 1;
    let mut header = vec![0; 4];
    header.extend(index.to_ne_bytes());
    header.extend(IFF_UP.to_ne_bytes());
    header.extend(IFF_UP.to_ne_bytes());
    message(RTM_NEWLINK, 0, &header, &[])
}

/// A request to give an interface an address.
#[must_use]
pub fn address(index: u32, address: IpAddr, prefix: u8) -> Vec<u8> {
    let (family, bytes) = family_and_bytes(address);
    let mut header = vec![family, prefix, 0, 0];
    header.extend(index.to_ne_bytes());
    message(RTM_NEWADDR, CREATE_REPLACE, &header, &[(2, &bytes), (1, &bytes)])
}

/// A request to set the default route.
#[must_use]
pub fn default_route(index: u32, gateway: IpAddr) -> Vec<u8> {
    const MAIN_TABLE: u8 = 254;
    const BY_BOOT: u8 = 3;
    const UNICAST: u8 = 1;
    let (family, bytes) = family_and_bytes(gateway);
    let header = [family, 0, 0, 0, MAIN_TABLE, BY_BOOT, 0, UNICAST, 0, 0, 0, 0];
    message(RTM_NEWROUTE, CREATE_REPLACE, &header, &[(5, &bytes), (4, &index.to_ne_bytes())])
}

/// Sends one request and reads its acknowledgement.
///
/// # Errors
/// The kernel's error.
pub fn request(message: &[u8]) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::send(&socket, message, SendFlags::empty())?;
    if !readable(&[socket.as_fd()], Some(Duration::from_secs(2))).contains(&true) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = [0; 4096];
    let (length, _) = rustix::net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    acknowledged(answer.get(..length).unwrap_or(&[]))
}

/// Parses the kernel's answer to one request.
///
/// # Errors
/// The error in it; `InvalidData` when it is not an acknowledgement.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_their_length_and_end_on_a_word() {
        for m in [
            link_up(1),
            address(2, "10.0.0.2".parse().unwrap(), 24),
            address(2, "fd00::2".parse().unwrap(), 64),
            default_route(2, "10.0.0.1".parse().unwrap()),
        ] {
            assert_eq!(u32::from_ne_bytes(m[..4].try_into().unwrap()) as usize, m.len());
            assert_eq!(m.len() % 4, 0);
        }
    }

    #[test]
    fn an_address_message_has_the_layout_of_if_addr_h() {
        let m = address(7, "10.0.0.2".parse().unwrap(), 24);
        assert_eq!(m[16..24], [2, 24, 0, 0, 7, 0, 0, 0]);
        assert_eq!(m[24..32], [8, 0, 2, 0, 10, 0, 0, 2]);
    }

    #[test]
    fn anything_but_an_acknowledgement_is_an_error() {
        let mut answer = vec![0; 36];
        assert!(acknowledged(&answer).is_err());
        answer[4] = 2;
        assert!(acknowledged(&answer).is_ok());
        answer[16..20].copy_from_slice(&(-19i32).to_ne_bytes());
        assert_eq!(acknowledged(&answer).unwrap_err().raw_os_error(), Some(19));
        assert!(acknowledged(&[]).is_err());
    }
}
