//! Which BAR of an NVIDIA GPU is the window into its memory.

use super::model::{Bar, Device, Rebar};

/// What NVIDIA calls BAR1 is a GPU's second BAR. That has index 1 on boards whose register BAR is 32
/// bits wide (GeForce) and index 2 where it is 64 bits wide (read on an H200: 16 MiB at 0, 256 GiB
/// at 2, 32 MiB at 4).
const PLACES: [u8; 2] = [1, 2];

impl Device {
    /// The window into a GPU's memory. `None` if there is no such BAR, or if the kernel has found no
    /// addresses for it: its line of `resource` is empty then.
    #[must_use]
    pub fn aperture(&self) -> Option<&Bar> {
        PLACES
            .iter()
            .find_map(|place| self.bars.iter().find(|bar| bar.index == *place))
    }

    /// The possible sizes of the window into a GPU's memory.
    #[must_use]
    pub fn aperture_sizes(&self) -> Option<&Rebar> {
        PLACES
            .iter()
            .find_map(|place| self.rebar.iter().find(|rebar| rebar.bar == *place))
    }
}

/// The BAR in a GPU's `registers` that is the window into its memory, independent of the kernel. All are 64
/// bits wide, so the register above holds no address of its own.
pub fn in_registers(registers: &[Option<u64>; 6]) -> Option<u8> {
    let wide = |at: usize| matches!(registers.get(at..at + 2), Some([Some(_), None]));
    match (wide(0), wide(1), wide(2)) {
        (false, true, _) => Some(1),
        (true, _, true) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn aperture(bars: &[(u8, u64)]) -> Option<u64> {
        let bars = bars.iter().map(|&(index, bytes)| Bar {
            index,
            start: 1 << 40,
            bytes,
            flags: 0,
        });
        let gpu = Device {
            bars: bars.collect(),
            ..sample::gpu("0000:01:00.0", "0000:00:01.0")
        };
        gpu.aperture().map(|bar| bar.bytes)
    }

    #[test]
    fn bar1_is_the_second_bar_at_either_index() {
        assert_eq!(
            aperture(&[(0, 16 << 20), (1, 32 << 30), (3, 32 << 20)]),
            Some(32 << 30)
        );
        assert_eq!(
            aperture(&[(0, 16 << 20), (2, 256 << 30), (4, 32 << 20)]),
            Some(256 << 30)
        );
        assert_eq!(aperture(&[(0, 16 << 20)]), None);
    }

    #[test]
    fn without_an_address_the_next_bar_does_not_take_its_place() {
        assert_eq!(aperture(&[(0, 16 << 20), (3, 32 << 20)]), None);
    }

    #[test]
    fn the_registers_show_a_bar1_that_the_kernel_gave_up() {
        let geforce = [Some(0xb200_0000), Some(0), None, Some(0), None, Some(0)];
        assert_eq!(in_registers(&geforce), Some(1));
        let h200 = [
            Some(1 << 40),
            None,
            Some(2 << 40),
            None,
            Some(3 << 40),
            None,
        ];
        assert_eq!(in_registers(&h200), Some(2));
        assert_eq!(
            in_registers(&[
                Some(0xb200_0000),
                Some(0),
                Some(0),
                Some(0),
                Some(0),
                Some(0)
            ]),
            None
        );
        assert_eq!(in_registers(&[None; 6]), None);
    }
}
