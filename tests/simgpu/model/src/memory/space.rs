//! Which addresses GPU memory gets. Every GPU has a window of its own, far from where a program's
//! own memory lies, and allocations leave a gap between each other: what goes over an end is noticed.

use super::Mapping;
use std::collections::BTreeMap;

/// The first address of GPU memory.
const BASE: u64 = 0x1000_0000_0000;
/// Addresses of one GPU: 256 GiB. All windows together end well before a program's own addresses.
pub const GPU_WINDOW: u64 = 1 << 38;
/// The most GPUs, and as many windows for hand-made mappings behind them.
const GPUS: u64 = 64;
/// Where allocations begin, and the least gap between them.
const STEP: u64 = 2 << 20;

/// What is taken of each window.
#[derive(Debug)]
pub struct Spaces {
    next: Vec<u64>,
}

impl Spaces {
    /// Windows for `gpus` GPUs and one for hand-made mappings.
    pub fn new(gpus: usize) -> Self {
        Self { next: vec![STEP; gpus] }
    }

    /// Whether an address is one of GPU memory.
    pub fn are(&self, address: u64) -> bool {
        (BASE..BASE + 2 * GPUS * GPU_WINDOW).contains(&address)
    }

    /// The first address for hand-made mappings.
    pub fn by_hand() -> u64 {
        BASE + GPUS * GPU_WINDOW
    }

    /// An address for `bytes` bytes on a GPU.
    pub fn take(&mut self, gpu: usize, bytes: u64, maps: &BTreeMap<u64, Mapping>) -> Option<u64> {
        let base = BASE + gpu as u64 * GPU_WINDOW;
        let next = self.next.get_mut(gpu)?;
        let size = (bytes + 1).next_multiple_of(STEP);
        if *next + size > GPU_WINDOW {
            // From the beginning again, behind what still lies there.
            let last = maps.range(base..base + GPU_WINDOW).next_back();
            let highest = last.map_or(STEP, |(start, m)| (start + m.bytes + 1).next_multiple_of(STEP) - base);
            *next = if highest + size > GPU_WINDOW { first_gap(maps, base, size)? } else { highest };
        }
        let address = base + *next;
        *next += size;
        Some(address)
    }
}

/// The first gap of `size` bytes in the window at `base`.
fn first_gap(maps: &BTreeMap<u64, Mapping>, base: u64, size: u64) -> Option<u64> {
    let mut at = base + STEP;
    for (start, map) in maps.range(base..base + GPU_WINDOW) {
        if start.saturating_sub(at) >= size {
            break;
        }
        at = (start + map.bytes + 1).next_multiple_of(STEP);
    }
    (at + size <= base + GPU_WINDOW).then_some(at - base)
}
