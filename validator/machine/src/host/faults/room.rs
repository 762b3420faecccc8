//! Lines of the kernel about a BAR for which there was no address space. The kernel tries several times, so only the
//! BAR's present state shows whether it counts. Pure.

use super::place::{self, Place};
use crate::host::kmsg::Line;
use crate::pcie::model::Device;

/// The BARs of a function itself; the next are its ROM and those of virtual functions.
const LAST_BAR: u8 = 5;

/// Such a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom<'a> {
    place: Place,
    /// The BAR's index.
    bar: u8,
    /// The size for which there was no room, bytes; `None` if the line does not give it.
    bytes: Option<u64>,
    /// Whether the BAR is prefetchable; `None` if the line does not say it.
    prefetchable: Option<bool>,
    /// The whole line.
    pub line: &'a str,
}

impl NoRoom<'_> {
    /// Whether it is about a BAR of `device` that still has no address, or is still smaller.
    #[must_use]
    pub fn concerns(&self, device: &Device) -> bool {
        let now = device
            .bars
            .iter()
            .find(|bar| bar.index == self.bar && bar.start != 0);
        let fits = now.is_some_and(|bar| self.bytes.is_none_or(|bytes| bar.bytes >= bytes));
        self.place.matches(device.bdf) && !fits
    }

    /// Whether the BAR has an address now.
    #[must_use]
    pub fn has_address(&self, device: &Device) -> bool {
        device
            .bars
            .iter()
            .any(|bar| bar.index == self.bar && bar.start != 0)
    }

    /// The BAR's index.
    #[must_use]
    pub const fn bar(&self) -> u8 {
        self.bar
    }

    /// Whether the line says that the BAR is not prefetchable.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.prefetchable == Some(false)
    }

    /// The size for which there was no room, bytes.
    #[must_use]
    pub const fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

/// All such lines about memory, in the log's order: `BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space`, in
/// older kernels `BAR 1: no space for [mem size ..]`, and `failed to assign` in both; NVIDIA's driver writes
/// `NVRM: BAR1 is 0M @ 0x0 (PCI:0000:41:00.0)`.
#[must_use]
pub fn no_room(lines: &[Line]) -> Vec<NoRoom<'_>> {
    lines.iter().filter_map(|line| parse(&line.text)).collect()
}

fn parse(line: &str) -> Option<NoRoom<'_>> {
    let place = place::first(line)?;
    let digit = |rest: &str| {
        rest.chars()
            .next()?
            .to_digit(10)
            .and_then(|bar| u8::try_from(bar).ok())
    };
    if let Some((_, rest)) = line.split_once("NVRM: BAR") {
        let bar = digit(rest).filter(|_| {
            rest.get(1..)
                .is_some_and(|rest| rest.starts_with(" is 0M @ 0x0"))
        })?;
        return Some(NoRoom {
            place,
            bar,
            bytes: None,
            prefetchable: None,
            line,
        });
    }
    let (before, rest) = line.split_once("BAR ")?;
    let failed = ["no space", "failed to assign", "can't assign"]
        .iter()
        .any(|words| rest.contains(words));
    let bar = digit(rest).filter(|bar| *bar <= LAST_BAR)?;
    // `BAR 13`, and `VF BAR 1` of a virtual function.
    let own = !rest.starts_with(|c: char| !c.is_ascii_digit())
        && !rest
            .get(1..)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        && !before.ends_with("VF ");
    let memory = !rest.contains("[io ") && !rest.contains("assign io");
    let size = rest.split_once("size 0x").map(|(_, digits)| digits);
    let size = size.and_then(|digits| digits.split(|c: char| !c.is_ascii_hexdigit()).next());
    let bytes = size.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    (failed && own && memory).then_some(NoRoom {
        place,
        bar,
        bytes,
        prefetchable: Some(rest.contains("pref")),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::model::Bar;
    use crate::pcie::sample;
    use std::time::Duration;

    fn concerns(text: &str, start: u64, bytes: u64) -> bool {
        let log = [Line {
            seq: 0,
            at: Duration::ZERO,
            text: text.into(),
        }];
        let bars = vec![Bar {
            index: 1,
            start,
            bytes,
            flags: 0,
        }];
        let gpu = Device {
            bars,
            ..sample::gpu("0000:56:00.0", "0000:55:01.0")
        };
        no_room(&log).iter().any(|line| line.concerns(&gpu))
    }

    #[test]
    fn a_bar_without_room_counts_as_long_as_it_has_no_address_or_is_smaller() {
        for text in [
            "nvidia 0000:56:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space",
            "pci 0000:56:00.0: BAR 1 [mem size 0x800000000 64bit pref]: failed to assign",
            "pci 0000:56:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]",
            "pci 0000:56:00.0: BAR 1: failed to assign [mem size 0x800000000 64bit pref]",
            "pci 0000:56:00.0: BAR 1: can't assign mem pref (size 0x800000000)",
        ] {
            assert!(concerns(text, 0, 32 << 30), "{text}");
            assert!(concerns(text, 0xe100_0000_0000, 256 << 20), "{text}");
            assert!(
                !concerns(text, 0xe100_0000_0000, 32 << 30),
                "{text}: it was assigned later"
            );
        }
        let driver = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:56:00.0)";
        assert!(concerns(driver, 0, 256 << 20) && !concerns(driver, 0xe100_0000_0000, 256 << 20));
    }

    #[test]
    fn other_bars_devices_and_lines_do_not_count() {
        for text in [
            "nvidia 0000:56:00.0: BAR 1 [mem 0xe10000000000-0xe1000fffffff 64bit pref]: releasing",
            "nvidia 0000:56:00.0: BAR 1 [mem 0xe10000000000-0xe107ffffffff 64bit pref]: assigned",
            "pci 0000:57:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space",
            "pci 0000:56:00.0: VF BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space",
            "pci 0000:56:00.0: BAR 13: no space for [mem size 0x800000000 64bit pref]",
            "pci 0000:56:00.0: BAR 6 [mem size 0x00080000 pref]: can't assign; no space",
            "pci 0000:56:00.0: BAR 5 [io  size 0x0080]: can't assign; no space",
            "pci 0000:55:01.0: bridge window [mem size 0x800000000 64bit pref]: can't assign; no space",
            "NVRM: BAR1 is 256M @ 0xe0000000 (PCI:0000:56:00.0)",
        ] {
            assert!(!concerns(text, 0, 32 << 30), "{text}");
        }
    }
}
