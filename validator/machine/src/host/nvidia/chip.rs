//! The chip of an NVIDIA GPU, by its PCI device id. Pure.

use std::fmt;

/// A generation of chips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// RTX 20, T4.
    Turing,
    /// RTX 30, A100.
    Ampere,
    /// H100, H200.
    Hopper,
    /// RTX 40, L40.
    Ada,
    /// RTX 50, RTX PRO Blackwell, B200.
    Blackwell,
}

/// A chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chip {
    /// Its generation.
    pub family: Family,
    /// Its name.
    pub name: &'static str,
}

/// First and last device id of each chip, after the names in NVIDIA's table (g_nv_name_released.h).
const CHIPS: &[(u16, u16, Family, &str)] = &[
    (0x1e00, 0x1e7f, Family::Turing, "TU102"),
    (0x1e80, 0x1eff, Family::Turing, "TU104"),
    (0x1f00, 0x1f7f, Family::Turing, "TU106"),
    (0x1f80, 0x1fff, Family::Turing, "TU117"),
    (0x20b0, 0x20ff, Family::Ampere, "GA100"),
    (0x2180, 0x21ff, Family::Turing, "TU116"),
    (0x2200, 0x22ff, Family::Ampere, "GA102"),
    (0x2300, 0x23ff, Family::Hopper, "GH100"),
    (0x2400, 0x247f, Family::Ampere, "GA103"),
    (0x2480, 0x24ff, Family::Ampere, "GA104"),
    (0x2500, 0x257f, Family::Ampere, "GA106"),
    (0x2580, 0x25ff, Family::Ampere, "GA107"),
    (0x2600, 0x26ff, Family::Ada, "AD102"),
    (0x2700, 0x277f, Family::Ada, "AD103"),
    (0x2780, 0x27ff, Family::Ada, "AD104"),
    (0x2800, 0x287f, Family::Ada, "AD106"),
    (0x2880, 0x28ff, Family::Ada, "AD107"),
    (0x2900, 0x2aff, Family::Blackwell, "GB100"),
    (0x2b80, 0x2bff, Family::Blackwell, "GB202"),
    (0x2c00, 0x2cff, Family::Blackwell, "GB203"),
    (0x2d00, 0x2d7f, Family::Blackwell, "GB206"),
    (0x2d80, 0x2dff, Family::Blackwell, "GB207"),
    (0x2f00, 0x2fff, Family::Blackwell, "GB205"),
];

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The chip with this device id; `None` if it is unknown.
#[must_use]
pub fn of(device: u16) -> Option<Chip> {
    let found = CHIPS
        .iter()
        .find(|(first, last, ..)| (*first..=*last).contains(&device))?;
    Some(Chip {
        family: found.2,
        name: found.3,
    })
}

/// The chips of two GPUs if they are of different generations, between which NVIDIA's libcuda gives no peer access
/// (docs/gpu-peer-to-peer.md). NVLink does not join such boards either: its bridges are for two boards of one model. `None` also if
/// a chip is unknown, because such GPUs may be peers.
#[must_use]
pub fn of_two_generations(one: Option<Chip>, other: Option<Chip>) -> Option<(Chip, Chip)> {
    one.zip(other)
        .filter(|(one, other)| one.family != other.family)
}

/// Whether the chip with this device id is older than Turing, so that it has no system processor (GSP): NVIDIA numbers its
/// chips in the order of their generations, and Turing's first is TU102.
#[must_use]
pub const fn is_before_turing(device: u16) -> bool {
    device < 0x1e00
}

/// The number in a device id as sysfs writes it: `0x2684`.
#[must_use]
pub fn number(device: &str) -> Option<u16> {
    u16::from_str_radix(device.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_have_their_chips() {
        let name = |device| of(device).map(|chip| (chip.family, chip.name));
        assert_eq!(name(0x2684), Some((Family::Ada, "AD102")));
        assert_eq!(name(0x2204), Some((Family::Ampere, "GA102")));
        assert_eq!(name(0x2b85), Some((Family::Blackwell, "GB202")));
        assert_eq!(name(0x2d04), Some((Family::Blackwell, "GB206")));
        assert_eq!(name(0x2335), Some((Family::Hopper, "GH100")));
        assert_eq!((name(0x1234), name(0x3000)), (None, None));
        assert_eq!((number("0x2684"), number("x")), (Some(0x2684), None));
        // GTX 1080, Quadro P4000, V100, and RTX 2080 Ti.
        let old = [0x1b80, 0x1bb3, 0x1db6, 0x1e07].map(is_before_turing);
        assert_eq!(old, [true, true, true, false]);
    }

    #[test]
    fn only_known_chips_are_of_two_generations() {
        let (ada, blackwell, unknown) = (of(0x2684), of(0x2b85), of(0x3000));
        assert!(of_two_generations(ada, blackwell).is_some());
        assert_eq!(of_two_generations(ada, of(0x2704)), None);
        assert_eq!(of_two_generations(ada, unknown), None);
        assert_eq!(of_two_generations(unknown, unknown), None);
    }

    #[test]
    fn no_id_belongs_to_two_chips() {
        assert!(
            CHIPS
                .windows(2)
                .all(|pair| pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0)
        );
    }
}
