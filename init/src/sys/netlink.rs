//! Netlink: messages for links, addresses, routes and soft-RoCE devices, and sending them. Layouts: linux/netlink.h,
//! linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, rdma/rdma_netlink.h.

use super::process::readable;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::Duration;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const REQUEST_ACK: u16 = 0x1 | 0x4;
const CREATE_REPLACE: u16 = 0x400 | 0x100;
const NLMSG_ERROR: u16 = 2;

const MAIN_TABLE: u8 = 254;
const BY_BOOT: u8 = 3;
const UNICAST: u8 = 1;
const IPV4: u8 = 2;
/// Valid on one link only (RT_SCOPE_LINK).
const ON_LINK: u8 = 253;

/// Encodes attributes of (type, bytes), each padded to a word.
fn attributes(all: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, bytes) in all {
        // Names and addresses are short: the sum fits.
        let length = u16::try_from(bytes.len() + 4).unwrap_or(u16::MAX);
        body.extend(length.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(*bytes);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body
}

/// Builds a request of a fixed header and attributes.
fn message(kind: u16, flags: u16, header: &[u8], all: &[(u16, &[u8])]) -> Vec<u8> {
    let body = [header, &attributes(all)].concat();
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

fn link_header(index: u32, flags: u32) -> Vec<u8> {
    [
        &[0; 4][..],
        &index.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &flags.to_ne_bytes(),
    ]
    .concat()
}

/// A request to bring an interface up.
#[must_use]
pub fn link_up(index: u32) -> Vec<u8> {
    const IFF_UP: u32 = 1;
    message(RTM_NEWLINK, 0, &link_header(index, IFF_UP), &[])
}

/// A request to set an interface's MTU, in bytes.
#[must_use]
pub fn set_mtu(index: u32, mtu: u32) -> Vec<u8> {
    message(
        RTM_NEWLINK,
        0,
        &link_header(index, 0),
        &[(MTU, &mtu.to_ne_bytes())],
    )
}

/// A request to answer ARP only for the interface's own addresses (arp_ignore = 1), and to send ARP requests only with
/// them as the sender (arp_announce = 2).
#[must_use]
pub fn separate_arp(index: u32) -> Vec<u8> {
    // IPV4_DEVCONF_ARP_ANNOUNCE and IPV4_DEVCONF_ARP_IGNORE of linux/ip.h
    let settings = attributes(&[(18, &2u32.to_ne_bytes()), (19, &1u32.to_ne_bytes())]);
    let ipv4 = attributes(&[(u16::from(IPV4), &attributes(&[(1, &settings)]))]);
    message(RTM_NEWLINK, 0, &link_header(index, 0), &[(26, &ipv4)])
}

const MTU: u16 = 4;
const LARGEST_MTU: u16 = 51;

/// The MTU of an interface and the largest that its device offers, in bytes; `None` when the device does not say.
///
/// # Errors
/// The kernel's error; `InvalidData` when its answer has no MTU.
pub fn mtu(index: u32) -> io::Result<(u32, Option<u32>)> {
    let answer = ask(None, &message(RTM_GETLINK, 0, &link_header(index, 0), &[]))?;
    if answer.get(4..6) != Some(&RTM_NEWLINK.to_ne_bytes()) {
        acknowledged(&answer)?;
    }
    let all = answer.get(32..).unwrap_or(&[]);
    let now = number(all, MTU).ok_or(io::ErrorKind::InvalidData)?;
    Ok((now, number(all, LARGEST_MTU).filter(|largest| *largest > 0)))
}

/// The attribute of this type, if it is a number of four bytes.
fn number(mut attributes: &[u8], wanted: u16) -> Option<u32> {
    loop {
        let length = u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?);
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let value = attributes.get(4..usize::from(length))?;
        if kind == wanted {
            return value.try_into().ok().map(u32::from_ne_bytes);
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..)?;
    }
}

/// A request to give an interface an address.
#[must_use]
pub fn address(index: u32, address: IpAddr, prefix: u8) -> Vec<u8> {
    let (family, bytes) = family_and_bytes(address);
    let mut header = vec![family, prefix, 0, 0];
    header.extend(index.to_ne_bytes());
    message(
        RTM_NEWADDR,
        CREATE_REPLACE,
        &header,
        &[(2, &bytes), (1, &bytes)],
    )
}

/// A request to give an interface a link-local address, or to remove it. The address is set without its network (/32), so
/// the kernel adds no route for it.
#[must_use]
pub fn link_local(index: u32, own: Ipv4Addr, is_taken: bool) -> Vec<u8> {
    let header = [&[IPV4, 32, 0, ON_LINK][..], &index.to_ne_bytes()].concat();
    let kind = if is_taken {
        (RTM_NEWADDR, CREATE_REPLACE)
    } else {
        (RTM_DELADDR, 0)
    };
    message(
        kind.0,
        kind.1,
        &header,
        &[(2, &own.octets()), (1, &own.octets())],
    )
}

/// A request to reach one peer through an interface, from the interface's own address, in packets of at most `mtu` bytes.
/// It replaces a route to the peer through another interface.
#[must_use]
pub fn peer_route(index: u32, peer: Ipv4Addr, own: Ipv4Addr, mtu: u32) -> Vec<u8> {
    let header = [
        IPV4, 32, 0, 0, MAIN_TABLE, BY_BOOT, ON_LINK, UNICAST, 0, 0, 0, 0,
    ];
    let metrics = attributes(&[(2, &mtu.to_ne_bytes())]);
    let (peer, own, index) = (peer.octets(), own.octets(), index.to_ne_bytes());
    message(
        RTM_NEWROUTE,
        CREATE_REPLACE,
        &header,
        &[(1, &peer), (7, &own), (4, &index), (8, &metrics)],
    )
}

/// A request to remove what [`peer_route`] set.
#[must_use]
pub fn no_peer_route(index: u32, peer: Ipv4Addr, own: Ipv4Addr) -> Vec<u8> {
    let header = [
        IPV4, 32, 0, 0, MAIN_TABLE, BY_BOOT, ON_LINK, UNICAST, 0, 0, 0, 0,
    ];
    let (peer, own, index) = (peer.octets(), own.octets(), index.to_ne_bytes());
    message(
        RTM_DELROUTE,
        0,
        &header,
        &[(1, &peer), (7, &own), (4, &index)],
    )
}

/// A request to set the default route.
#[must_use]
pub fn default_route(index: u32, gateway: IpAddr) -> Vec<u8> {
    let (family, bytes) = family_and_bytes(gateway);
    let header = [family, 0, 0, 0, MAIN_TABLE, BY_BOOT, 0, UNICAST, 0, 0, 0, 0];
    message(
        RTM_NEWROUTE,
        CREATE_REPLACE,
        &header,
        &[(5, &bytes), (4, &index.to_ne_bytes())],
    )
}

/// Makes the soft-RoCE device `name` on an interface.
///
/// # Errors
/// The kernel's error: `EPROTONOSUPPORT` without RDMA modules, `ENOENT` without the modules of soft-RoCE.
pub fn add_soft_roce(name: &str, interface: &str) -> io::Result<()> {
    const NEW_LINK: u16 = 5 << 10 | 3; // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK
    let text = |text: &str| [text.as_bytes(), &[0]].concat();
    let (name, kind, interface) = (text(name), text("rxe"), text(interface));
    // RDMA_NLDEV_ATTR_DEV_NAME, .._LINK_TYPE, .._NDEV_NAME
    let request = message(
        NEW_LINK,
        0,
        &[],
        &[(2, &name), (65, &kind), (51, &interface)],
    );
    acknowledged(&ask(Some(netlink::RDMA), &request)?)
}

/// Sends one request of rtnetlink and reads its acknowledgement.
///
/// # Errors
/// The kernel's error.
pub fn request(message: &[u8]) -> io::Result<()> {
    acknowledged(&ask(None, message)?)
}

/// Sends one request and returns the first answer.
fn ask(protocol: Option<Protocol>, message: &[u8]) -> io::Result<Vec<u8>> {
    let kind = (
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
    );
    let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, protocol)?;
    rustix::net::send(&socket, message, SendFlags::empty())?;
    if !readable(&[socket.as_fd()], Some(Duration::from_secs(2))).contains(&true) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = vec![0; 1 << 15];
    let (length, _) = rustix::net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// Parses the kernel's answer to one request.
///
/// # Errors
/// The error in it; `InvalidData` when it is not an acknowledgement.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer
        .get(4..6)
        .and_then(|b| b.try_into().ok())
        .map(u16::from_ne_bytes);
    let code = answer
        .get(16..20)
        .and_then(|b| b.try_into().ok())
        .map(i32::from_ne_bytes);
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
            set_mtu(2, 9000),
            separate_arp(2),
            link_local(2, Ipv4Addr::new(169, 254, 1, 2), false),
            peer_route(
                2,
                Ipv4Addr::new(169, 254, 1, 2),
                Ipv4Addr::new(169, 254, 1, 3),
                9000,
            ),
        ] {
            assert_eq!(
                u32::from_ne_bytes(m[..4].try_into().unwrap()) as usize,
                m.len()
            );
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
    fn the_largest_mtu_of_the_loopback_is_what_it_says_or_nothing() {
        let (now, largest) = mtu(1).unwrap();
        assert!(
            now > 1500 && largest.is_none_or(|largest| largest >= now),
            "{now} {largest:?}"
        );
        assert_eq!(mtu(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(19));
        let all = attributes(&[(3, b"eth0\0"), (4, &9000u32.to_ne_bytes())]);
        assert_eq!(
            (number(&all, 4), number(&all, 51), number(&all[..10], 4)),
            (Some(9000), None, None)
        );
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
