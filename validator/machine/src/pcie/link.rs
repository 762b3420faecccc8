//! Links: speed codes and sysfs words to GT/s, and what a link can carry.

/// Bits on the wire for each bit of payload, before packet overhead.
/// 2.5 and 5 GT/s send 8 bits as 10 (8b/10b); 8 to 32 GT/s send 128 bits as 130 (128b/130b);
/// 64 GT/s sends FLITs of 256 bytes of which 14 are CRC and error correction (242/256).
/// PCI Express Base Specification 6.0, 4.2.2 and 4.2.3.
const EFFICIENCY_8B10B: f64 = 8.0 / 10.0;
const EFFICIENCY_128B130B: f64 = 128.0 / 130.0;
const EFFICIENCY_FLIT: f64 = 242.0 / 256.0;

/// GT/s of a speed code of the Link registers; `None` for 0 and for codes not yet defined.
#[must_use]
pub fn gts(code: u8) -> Option<f64> {
    match code {
        1 => Some(2.5),
        2 => Some(5.0),
        3 => Some(8.0),
        4 => Some(16.0),
        5 => Some(32.0),
        6 => Some(64.0),
        _ => None,
    }
}

/// GT/s as sysfs writes it: `16.0 GT/s PCIe`. `None` for the kernel's `Unknown`, which means that the link is
/// down.
///
/// # Errors
/// If it is neither, with what is allowed.
pub fn parse_speed(text: &str) -> Result<Option<f64>, &'static str> {
    if text.starts_with("Unknown") {
        return Ok(None);
    }
    let number = text
        .split_once(' ')
        .filter(|(_, unit)| unit.starts_with("GT/s"));
    let gts = number.and_then(|(number, _)| number.parse().ok());
    let gts = gts.filter(|gts: &f64| gts.is_finite() && *gts > 0.0);
    gts.map(Some).ok_or("no speed in GT/s and not Unknown")
}

/// Lanes as sysfs shows them, 0 for a link that is down. The kernel shows 255 if it does not know; registers
/// that read as all ones give 63.
///
/// # Errors
/// If no link has that many, with what is allowed.
pub fn parse_width(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(0 | 63 | 255) => Ok(0),
        Ok(lanes @ (1 | 2 | 4 | 8 | 12 | 16 | 32)) => Ok(lanes),
        _ => Err("no number of lanes, allowed are 1, 2, 4, 8, 12, 16, 32 and, unknown, 0, 63, 255"),
    }
}

/// What `width` lanes at `gts` GT/s carry in one direction, GB/s (10^9 bytes), after encoding overhead but
/// before packet overhead: GT/s x lanes x efficiency / 8 bits. 16 x 16 GT/s: 31.5 GB/s.
#[must_use]
pub fn raw_gb_s(gts: f64, width: u32) -> f64 {
    let efficiency = if gts < 8.0 {
        EFFICIENCY_8B10B
    } else if gts < 64.0 {
        EFFICIENCY_128B130B
    } else {
        EFFICIENCY_FLIT
    };
    gts * f64::from(width) * efficiency / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(measured: f64, expected: f64) {
        assert!(
            (measured - expected).abs() < 0.005,
            "{measured} is not {expected}"
        );
    }

    #[test]
    fn each_generation_counts_its_own_encoding() {
        near(raw_gb_s(2.5, 16), 4.0);
        near(raw_gb_s(5.0, 16), 8.0);
        near(raw_gb_s(8.0, 16), 15.754);
        near(raw_gb_s(16.0, 16), 31.508);
        near(raw_gb_s(32.0, 16), 63.015);
        near(raw_gb_s(64.0, 16), 121.0);
    }

    #[test]
    fn a_link_that_is_down_carries_nothing() {
        near(raw_gb_s(16.0, 0), 0.0);
        near(raw_gb_s(0.0, 16), 0.0);
    }

    #[test]
    fn sysfs_words_become_gts() {
        assert_eq!(parse_speed("16.0 GT/s PCIe"), Ok(Some(16.0)));
        assert_eq!(parse_speed("2.5 GT/s"), Ok(Some(2.5)));
        for down in ["Unknown", "Unknown speed"] {
            assert_eq!(parse_speed(down), Ok(None));
        }
        for unreadable in [
            "",
            "16.0",
            "16.0 GB/s",
            "-1 GT/s",
            "NaN GT/s",
            "0.0 GT/s PCIe",
        ] {
            assert!(parse_speed(unreadable).is_err(), "{unreadable}");
        }
    }

    #[test]
    fn only_valid_numbers_of_lanes_are_accepted() {
        for (text, lanes) in [
            ("1", 1),
            ("16", 16),
            ("32", 32),
            ("0", 0),
            ("63", 0),
            ("255", 0),
        ] {
            assert_eq!(parse_width(text), Ok(lanes));
        }
        for nonsense in ["", "x16", "3", "-1", "256", "99999999999"] {
            assert!(parse_width(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn speed_codes_without_meaning_have_no_rate() {
        assert_eq!(gts(0), None);
        assert_eq!(gts(7), None);
        assert_eq!(gts(5), Some(32.0));
    }
}
