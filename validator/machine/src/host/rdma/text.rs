//! Parses the files of an RDMA port. Pure.

use super::{PortState, Rate};
use std::net::{Ipv4Addr, Ipv6Addr};

/// `4: ACTIVE`
pub(super) fn state(text: &str) -> Option<PortState> {
    Some(match text.split_once(": ")?.0.parse().ok()? {
        1 => PortState::Down,
        2 => PortState::Init,
        3 => PortState::Armed,
        4 => PortState::Active,
        other => PortState::Other(other),
    })
}

/// The word of `5: LinkUp`.
pub(super) fn physical(text: &str) -> Option<String> {
    let (number, word) = text.split_once(": ")?;
    let plain = number.bytes().all(|b| b.is_ascii_digit()) && !word.trim().is_empty();
    plain.then(|| word.trim().to_owned())
}

/// `100 Gb/sec (4X EDR)`, `2.5 Gb/sec (1X SDR)`
pub(super) fn rate(text: &str) -> Option<Rate> {
    let (gbit_s, rest) = text.split_once(" Gb/sec")?;
    let (_, lanes) = rest.split_once('(')?;
    let (lanes, _) = lanes.split_once('X')?;
    let rate = Rate {
        gbit_s: gbit_s.trim().parse().ok()?,
        lanes: lanes.trim().parse().ok()?,
    };
    (rate.gbit_s.is_finite() && rate.gbit_s >= 0.0).then_some(rate)
}

/// The address of a slot; `None` if it is invalid, `Some(None)` for an empty slot.
#[expect(
    clippy::option_option,
    reason = "an empty slot and an invalid one are different"
)]
pub(super) fn gid(text: &str) -> Option<Option<Ipv6Addr>> {
    let address: Ipv6Addr = text.parse().ok()?;
    Some((!address.is_unspecified()).then_some(address))
}

/// The IPv4 address in `::ffff:a.b.c.d`.
pub(super) fn ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    address.to_ipv4_mapped()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_recognized_by_their_number() {
        for (text, expected) in [
            ("4: ACTIVE", PortState::Active),
            ("1: DOWN", PortState::Down),
            ("2: INIT", PortState::Init),
            ("3: ARMED", PortState::Armed),
            ("5: ACTIVE_DEFER", PortState::Other(5)),
        ] {
            assert_eq!(state(text), Some(expected));
        }
        for nonsense in ["", "ACTIVE", "x: ACTIVE", "4"] {
            assert_eq!(state(nonsense), None, "{nonsense}");
        }
        assert_eq!(physical("5: LinkUp").as_deref(), Some("LinkUp"));
        assert_eq!(physical("LinkUp"), None);
    }

    #[test]
    fn a_rate_has_lanes() {
        assert_eq!(
            rate("100 Gb/sec (4X EDR)"),
            Some(Rate {
                gbit_s: 100.0,
                lanes: 4
            })
        );
        assert_eq!(
            rate("2.5 Gb/sec (1X SDR)"),
            Some(Rate {
                gbit_s: 2.5,
                lanes: 1
            })
        );
        assert_eq!(
            rate("400 Gb/sec (4X NDR)"),
            Some(Rate {
                gbit_s: 400.0,
                lanes: 4
            })
        );
        for nonsense in [
            "",
            "100",
            "100 Gb/sec",
            "x Gb/sec (4X EDR)",
            "100 Gb/sec (EDR)",
            "NaN Gb/sec (4X x)",
        ] {
            assert_eq!(rate(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn empty_slots_and_invalid_ones_are_distinguished() {
        assert_eq!(gid("0000:0000:0000:0000:0000:0000:0000:0000"), Some(None));
        let mapped = gid("0000:0000:0000:0000:0000:ffff:a9fe:0a01")
            .unwrap()
            .unwrap();
        assert_eq!(ipv4(mapped), Some(Ipv4Addr::new(169, 254, 10, 1)));
        let local = gid("fe80:0000:0000:0000:0ac0:ebff:fe12:3456")
            .unwrap()
            .unwrap();
        assert_eq!(ipv4(local), None);
        assert_eq!(gid("fe80"), None);
    }
}
