//! Which BAR of an NVIDIA GPU is the window into its memory.

use super::model::{Bar, Device};

impl Device {
    /// What NVIDIA calls BAR1, the window into a GPU's memory: its second BAR. That has index 1 on
    /// boards whose register BAR is 32 bits wide (GeForce) and index 2 where it is 64 bits wide
    /// (read on an H200: 16 MiB at 0, 256 GiB at 2, 32 MiB at 4). `None` when there is no such BAR.
    #[must_use]
    pub fn aperture(&self) -> Option<&Bar> {
        let mut bars: Vec<&Bar> = self.bars.iter().collect();
        bars.sort_by_key(|bar| bar.index);
        bars.get(1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn aperture(bars: &[(u8, u64)]) -> Option<u64> {
        let bars = bars.iter().map(|&(index, bytes)| Bar { index, start: 1 << 40, bytes, flags: 0 });
        let gpu = Device { bars: bars.collect(), ..sample::gpu("0000:01:00.0", "0000:00:01.0") };
        gpu.aperture().map(|bar| bar.bytes)
    }

    #[test]
    fn bar1_is_the_second_bar_wherever_it_stands() {
        assert_eq!(aperture(&[(0, 16 << 20), (1, 32 << 30), (3, 32 << 20)]), Some(32 << 30));
        assert_eq!(aperture(&[(0, 16 << 20), (2, 256 << 30), (4, 32 << 20)]), Some(256 << 30));
        assert_eq!(aperture(&[(0, 16 << 20)]), None);
    }
}
