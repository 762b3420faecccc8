//! An independent check of what the validator reports about ACS and BARs: configuration spaces and `resource` files that
//! the guest sent back are read and compared here without any of the validator's code.

use crate::boot::booted::Booted;

/// Saves every port's configuration space as /run/kept/config.BDF.
pub const SAVE_PORTS: &str = "
for device in /sys/bus/pci/devices/*; do
\tcase $(cat $device/class) in
\t0x0604*) cat $device/config > /run/kept/config.${device##*/} ;;
\tesac
done";

/// ACS Control, if the space has the capability (id 0x000d, control at +6).
#[must_use]
pub fn acs_control(space: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_le_bytes([*space.get(at)?, *space.get(at + 1)?]));
    let mut at = 0x100;
    // There is room for no more than (4096 - 256) / 8 capabilities.
    for _ in 0..480 {
        let (id, next) = (word(at)?, word(at + 2)? >> 4);
        if id == 0x000d {
            return word(at + 6);
        }
        at = usize::from(next);
        if at < 0x100 {
            return None;
        }
    }
    None
}

/// Saves every device's configuration space and `resource` as /run/kept/config.BDF and resource.BDF.
pub const SAVE_ALL_DEVICES: &str = "
for device in /sys/bus/pci/devices/*; do
\tcase $(cat $device/class) in
\t0x0604*) ;;
\t*) for file in config resource; do cat $device/$file > /run/kept/$file.${device##*/}; done ;;
\tesac
done";

/// The kernel's flags of a 64-bit prefetchable memory BAR.
const WIDE_FLAGS: u64 = 0x10_2200;

/// One 64-bit prefetchable BAR, from three sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// Where the kernel believes that it is; 0 if it has no address.
    pub start: u64,
    /// Its size according to the kernel.
    pub bytes: u64,
    /// The address in the register.
    pub register: u64,
    /// Its size according to Resizable BAR control, if it has that.
    pub control: Option<u64>,
}

impl Bar {
    /// Whether kernel, register and control agree on this size, and there is an address.
    #[must_use]
    pub fn agrees_on(&self, bytes: u64) -> bool {
        self.start != 0
            && self.start == self.register
            && self.bytes == bytes
            && self.control == Some(bytes)
    }
}

/// The 64-bit prefetchable BARs of a device, by index.
fn parse(config: &[u8], resource: &str) -> Vec<(usize, Bar)> {
    let word = |at: usize| {
        config
            .get(at..at + 4)
            .map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes")))
    };
    let hex =
        |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number");
    let bar = |(index, line): (usize, &str)| {
        let numbers: Vec<u64> = line.split_whitespace().map(hex).collect();
        let (start, bytes, flags) = (
            numbers[0],
            numbers[1].wrapping_sub(numbers[0]) + 1,
            numbers[2],
        );
        let at = 0x10 + 4 * index;
        let register = u64::from(word(at)? & !0xf) | (u64::from(word(at + 4)?) << 32);
        let bar = Bar {
            start,
            bytes,
            register,
            control: control(config, index),
        };
        (flags & WIDE_FLAGS == WIDE_FLAGS).then_some((index, bar))
    };
    resource
        .lines()
        .take(6)
        .enumerate()
        .filter_map(bar)
        .collect()
}

/// The size of BAR `index` according to Resizable BAR control of a device with one resizable BAR.
fn control(config: &[u8], index: usize) -> Option<u64> {
    let word = |at: usize| Some(u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?));
    let mut at = 0x100;
    // There is room for no more than (4096 - 256) / 8 capabilities.
    for _ in 0..480 {
        let header = word(at)?;
        if header & 0xffff == 0x0015 {
            let control = word(at + 8)?;
            return (control & 7 == u32::try_from(index).ok()?)
                .then(|| 1 << (20 + ((control >> 8) & 0x3f)));
        }
        at = usize::try_from(header >> 20)
            .ok()
            .filter(|next| *next >= 0x100)?;
    }
    None
}

impl Booted {
    /// BAR 1 of a device whose files [`SAVE_ALL_DEVICES`] saved.
    ///
    /// # Panics
    /// If the files did not come back, or the device has no such BAR.
    #[must_use]
    #[track_caller]
    pub fn bar1(&self, bdf: &str) -> Bar {
        let bars = self.bars(bdf);
        let found = bars.into_iter().find(|(index, _)| *index == 1);
        found
            .unwrap_or_else(|| panic!("{bdf} has no 64-bit BAR 1\n{self}"))
            .1
    }

    fn bars(&self, bdf: &str) -> Vec<(usize, Bar)> {
        let Some(config) = self.find(&format!("kept/config.{bdf}")) else {
            panic!("no {bdf}\n{self}")
        };
        parse(config, &self.text(&format!("kept/resource.{bdf}")))
    }

    /// Fails the test unless the BAR registers of all these devices have the addresses that the kernel believes, and no two
    /// BARs overlap.
    ///
    /// # Panics
    /// If a BAR does not.
    #[track_caller]
    pub fn assert_bars_consistent(&self, devices: &[&str]) {
        let mut bars = Vec::new();
        for bdf in devices {
            bars.extend(
                self.bars(bdf)
                    .into_iter()
                    .map(|(n, bar)| (format!("{bdf} BAR {n}"), bar)),
            );
        }
        for (name, bar) in &bars {
            assert_eq!(bar.start, bar.register, "{name}: {bar:x?}\n{self}");
            assert!(
                bar.start.is_multiple_of(bar.bytes),
                "{name} is not aligned: {bar:x?}\n{self}"
            );
        }
        let placed: Vec<_> = bars.iter().filter(|(_, bar)| bar.start != 0).collect();
        for (at, (name, bar)) in placed.iter().enumerate() {
            for (other, second) in &placed[..at] {
                let apart = bar.start + bar.bytes <= second.start
                    || second.start + second.bytes <= bar.start;
                assert!(
                    apart,
                    "{name} lies on {other}: {bar:x?} {second:x?}\n{self}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{acs_control, *};

    #[test]
    fn the_capability_chain_is_followed_to_acs() {
        let mut space = vec![0; 4096];
        space[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x81, 0x14]);
        space[0x148..0x150].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x1d, 0x00]);
        assert_eq!(acs_control(&space), Some(0x1d));
        assert_eq!(acs_control(&space[..256]), None);
    }

    #[test]
    fn the_three_sources_of_a_bar_are_read() {
        let mut config = vec![0; 4096];
        config[0x14..0x1c].copy_from_slice(&[0x0c, 0, 0, 0, 0x40, 0, 0, 0]);
        config[0x100..0x10c].copy_from_slice(&[0x15, 0, 1, 0, 0, 0xfc, 0xf, 0, 0x21, 0x0f, 0, 0]);
        let resource =
            "0xb2000000 0xb2ffffff 0x40200\n0x4000000000 0x47ffffffff 0x14220c\n0x0 0x0 0x0";
        let bars = parse(&config, resource);
        assert_eq!(bars.len(), 1);
        assert!(bars[0].1.agrees_on(32 << 30), "{bars:x?}");
        config[0x109] = 8;
        assert!(
            !parse(&config, resource)[0].1.agrees_on(32 << 30),
            "the control register disagrees"
        );
        config[0x18] = 0x48;
        assert_eq!(parse(&config, resource)[0].1.register, 0x48_0000_0000);
    }
}
