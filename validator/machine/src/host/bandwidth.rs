//! The kernel's lines about PCIe devices that get less bandwidth than they could use. It writes them when it finds a device
//! (`__pcie_print_link_status` in drivers/pci/pci.c), so they say how wide a link was then. Pure.

use crate::host::kmsg::Line;
use crate::pcie::model::Bdf;

/// `pci 0000:41:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:40:01.1 (capable of
/// 252.048 Gb/s with 16.0 GT/s PCIe x16 link)`
#[derive(Debug, Clone, PartialEq)]
pub struct LimitedBandwidth {
    /// The device.
    pub device: Bdf,
    /// The device at an end of the slowest link above it.
    pub at: Bdf,
    /// The lanes of that link.
    pub width: u32,
    /// The line.
    pub line: String,
}

/// The newest line about each device.
#[must_use]
pub fn limited(lines: &[Line]) -> Vec<LimitedBandwidth> {
    let mut all: Vec<LimitedBandwidth> = Vec::new();
    for found in lines.iter().filter_map(|line| parse(&line.text)) {
        all.retain(|earlier| earlier.device != found.device);
        all.push(found);
    }
    all
}

fn parse(text: &str) -> Option<LimitedBandwidth> {
    let (head, tail) = text.split_once(" available PCIe bandwidth, limited by ")?;
    let (name, _) = head.split_once(": ")?;
    let device = name.split_whitespace().last()?.parse().ok()?;
    let (link, place) = tail.split_once(" link at ")?;
    let at = place.split_whitespace().next()?.parse().ok()?;
    let width = link.rsplit_once(" x")?.1.parse().ok()?;
    Some(LimitedBandwidth {
        device,
        at,
        width,
        line: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_newest_line_about_a_device_counts() {
        let line = |seq: u64, text: &str| Line {
            seq,
            at: Duration::ZERO,
            text: text.to_owned(),
        };
        let limited_to = |width: u32| {
            format!(
                "pci 0000:41:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x{width} link at 0000:40:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
            )
        };
        let log = [
            line(1, &limited_to(4)),
            line(
                2,
                "pci 0000:41:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
            ),
            line(3, &limited_to(8)),
        ];
        let found = limited(&log);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].width, found[0].at.to_string()),
            (8, "0000:40:01.1".to_owned())
        );
        assert_eq!(found[0].device.to_string(), "0000:41:00.0");
        assert_eq!(limited(&[line(1, "limited by x8")]), []);
    }
}
