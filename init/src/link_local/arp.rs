//! ARP over Ethernet as far as link-local addresses need it: frames as bytes (RFC 826), and the pseudo random sequence
//! that addresses and waiting times come from.

use crate::config::mac::Mac;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Length in bytes of a frame without padding: Ethernet header and ARP packet.
pub const FRAME: usize = 42;
/// Protocol type of ARP in an Ethernet header.
const ARP: [u8; 2] = [0x08, 0x06];
/// Ethernet with addresses of 6 bytes, IPv4 with addresses of 4 bytes.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// What a received frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArpPacket {
    /// The Ethernet address of its sender.
    pub mac: Mac,
    /// The IPv4 address of its sender; 0.0.0.0 in a probe.
    pub sender: Ipv4Addr,
    /// The IPv4 address that it is about.
    pub target: Ipv4Addr,
    /// Whether it is a request, and not a reply.
    pub is_request: bool,
}

impl ArpPacket {
    /// Whether it asks if `target` is in use, before its sender takes it (RFC 3927, 1.3).
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.is_request && self.sender.is_unspecified()
    }
}

/// Parses a frame; `None` when it is not a valid ARP packet for IPv4 from one Ethernet address. Bytes after the packet are
/// padding.
#[must_use]
pub fn parse(frame: &[u8]) -> Option<ArpPacket> {
    let (kind, header, operation) = (frame.get(12..14)?, frame.get(14..20)?, frame.get(20..22)?);
    let (mac, sender) = (array::<6>(frame, 22)?, array::<4>(frame, 28)?);
    let target = array::<4>(frame, 38)?;
    // The lowest bit of the first byte marks an address of a group.
    let is_one = mac != [0; 6] && mac.first().is_some_and(|byte| byte & 1 == 0);
    let is_valid =
        kind == ARP && header == ETHERNET_IPV4 && (operation == REQUEST || operation == REPLY);
    (is_valid && is_one).then(|| ArpPacket {
        mac: Mac::new(mac),
        sender: sender.into(),
        target: target.into(),
        is_request: operation == REQUEST,
    })
}

fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..at + N)?.try_into().ok()
}

/// A broadcast request: a probe if `sender` is 0.0.0.0, an announcement if `sender` is `target`.
#[must_use]
pub fn request(mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let parts: [&[u8]; 9] = [
        &[0xff; 6],
        &mac.bytes(),
        &ARP,
        &ETHERNET_IPV4,
        &REQUEST,
        &mac.bytes(),
        &sender.octets(),
        &[0; 6],
        &target.octets(),
    ];
    parts.concat()
}

/// Whether it is an address that a machine may take by RFC 3927: 169.254.1.0 to 169.254.254.255.
#[must_use]
pub const fn is_usable(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [169, 254, 1..=254, _])
}

/// A pseudo random sequence (SplitMix64). Its seed is the Ethernet address, so that a machine asks for the same address
/// at each boot, and different machines ask for different ones (RFC 3927, 2.1).
#[derive(Debug)]
pub struct RandomSequence(u64);

impl RandomSequence {
    /// The sequence of a port.
    #[must_use]
    pub fn seeded_by(mac: Mac) -> Self {
        Self(
            mac.bytes()
                .iter()
                .fold(0, |seed, byte| seed << 8 | u64::from(*byte)),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// One of the usable addresses.
    pub fn address(&mut self) -> Ipv4Addr {
        let [.., low] = self.next().to_be_bytes();
        let [.., high] = (self.next() % 254).to_be_bytes();
        Ipv4Addr::new(169, 254, high + 1, low)
    }

    /// A time from `least` to `most`, in whole milliseconds.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(0);
        least + Duration::from_millis(self.next() % (range + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(text: &str) -> Mac {
        Mac::parse(text).unwrap()
    }

    #[test]
    fn a_frame_is_read_as_it_was_written_and_padding_is_ignored() {
        let (own, address) = (mac("52:54:00:12:34:56"), Ipv4Addr::new(169, 254, 7, 9));
        let probe = request(own, Ipv4Addr::UNSPECIFIED, address);
        assert_eq!(probe.len(), FRAME);
        let packet = ArpPacket {
            mac: own,
            sender: Ipv4Addr::UNSPECIFIED,
            target: address,
            is_request: true,
        };
        assert_eq!(parse(&probe), Some(packet));
        assert!(packet.is_probe());
        let announcement = [request(own, address, address), vec![0; 18]].concat();
        let packet = ArpPacket {
            sender: address,
            ..packet
        };
        assert_eq!(parse(&announcement), Some(packet));
        assert!(!packet.is_probe());
    }

    #[test]
    fn malformed_frames_are_no_packets() {
        let address = Ipv4Addr::new(169, 254, 7, 9);
        let good = request(mac("52:54:00:12:34:56"), address, address);
        assert!(parse(&good).is_some());
        for length in 0..FRAME {
            assert_eq!(parse(&good[..length]), None, "{length} bytes");
        }
        // Protocol, hardware, lengths of addresses, operation, a group as the sender.
        for (at, byte) in [
            (12, 0x86),
            (15, 6),
            (17, 1),
            (18, 8),
            (19, 16),
            (21, 3),
            (21, 0),
            (22, 0x53),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(parse(&bad), None, "byte {at} = {byte:#x}");
        }
        let mut without_sender = good.clone();
        without_sender[22..28].fill(0);
        assert_eq!(parse(&without_sender), None);
    }

    #[test]
    fn an_address_is_usable_the_same_at_each_boot_and_another_on_another_card() {
        let one = |text: &str| {
            let mut random = RandomSequence::seeded_by(mac(text));
            (0..2000).map(|_| random.address()).collect::<Vec<_>>()
        };
        let first = one("52:54:00:12:34:56");
        assert!(first.iter().all(|address| is_usable(*address)));
        assert!(
            first.iter().any(|a| a.octets()[2] == 254) && first.iter().any(|a| a.octets()[2] == 1)
        );
        assert_eq!(first, one("52:54:00:12:34:56"));
        assert_ne!(first[0], one("52:54:00:12:34:57")[0]);
        for bad in ["169.254.0.9", "169.254.255.1", "10.0.0.1", "0.0.0.0"] {
            assert!(!is_usable(bad.parse().unwrap()), "{bad}");
        }
        let mut random = RandomSequence::seeded_by(mac("52:54:00:12:34:56"));
        let (least, most) = (Duration::from_millis(300), Duration::from_millis(600));
        assert!((0..100).all(|_| (least..=most).contains(&random.between(least, most))));
    }
}
