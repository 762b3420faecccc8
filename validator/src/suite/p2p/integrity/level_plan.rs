//! Which transfers a level tries with every pair, and how memory is divided for them. Pure.

use crate::suite::shared::transfer::{Direction, Engine, Memory, TransferKind, size};
use outcome::finding::{Code, Finding, Severity, Subject};
use report::Level;

/// The transfers that a level tries with every pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LevelPlan {
    /// Bytes, ascending.
    pub(super) sizes: Vec<u64>,
    pub(super) memories: Vec<Memory>,
    pub(super) shifts: Vec<(u64, u64)>,
    /// Small transfers of a pair, for each engine and direction, while all pairs make theirs.
    pub(super) small: u64,
    /// Whether all pairs make their transfers in mapped memory too.
    pub(super) all_mapped: bool,
    /// Whether all other memory of all GPUs is watched.
    pub(super) watch_unused: bool,
}

/// The most of a transfer in a small allocation, bytes: with guards and both areas it stays below 1 MiB.
const SMALL: u64 = 128 * KIB;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl LevelPlan {
    /// The plan of a level. The sizes: a word, a page, just less than the large page, more than any cache.
    pub(super) fn of(level: Level) -> Self {
        let (sizes, shifts) = match level {
            Level::Quick => (vec![4, 4 * KIB, 2 * MIB - 4], vec![(0, 0)]),
            Level::Standard => (vec![4, 4 * KIB, 2 * MIB - 4, 64 * MIB], vec![(0, 0)]),
            Level::Full | Level::Acceptance => {
                let sizes = vec![4, 64, 4 * KIB, 64 * KIB + 4, 2 * MIB - 4, 2 * MIB, 64 * MIB];
                (sizes, vec![(0, 0), (4, 12), (16, 8)])
            }
        };
        // NCCL and frameworks map memory by default: a proof for ordinary memory alone is not enough.
        let (small, watch_unused) = match level {
            Level::Quick => (256, false),
            Level::Standard => (512, true),
            Level::Full | Level::Acceptance => (4096, true),
        };
        let all_mapped = level >= Level::Standard;
        Self {
            sizes,
            memories: vec![Memory::Plain, Memory::Small, Memory::Mapped],
            shifts,
            small,
            all_mapped,
            watch_unused,
        }
    }

    /// Without the sizes that do not fit into this much memory of a GPU; the smallest sizes always stay.
    pub(super) fn within(mut self, free: u64) -> Self {
        while self.sizes.len() > 2 && self.bytes() > free {
            self.sizes.pop();
        }
        self
    }

    /// The finding that requested sizes do not fit.
    pub(super) fn left_out(&self, asked: &Self) -> Option<Finding> {
        let most = size(asked.sizes.last().copied()?);
        (self.sizes != asked.sizes).then(|| {
            let message = format!("a GPU's memory is in use: transfers of up to {most} do not fit");
            Code::GpuInUse.finding(Severity::Warn, Subject::Machine, message)
        })
    }

    /// Bytes of all buffers of a GPU.
    pub(super) fn bytes(&self) -> u64 {
        self.memories
            .iter()
            .map(|memory| self.layout(*memory).bytes())
            .sum()
    }

    /// The sizes that are tried in this kind of memory, bytes, ascending.
    pub(super) fn sizes(&self, memory: Memory) -> &[u64] {
        let count = match memory {
            Memory::Plain | Memory::Mapped => self.sizes.len(),
            Memory::Small => self.sizes.iter().filter(|bytes| **bytes <= SMALL).count(),
        };
        self.sizes.get(..count).unwrap_or_default()
    }

    pub(super) fn layout(&self, memory: Memory) -> Layout {
        // Whole pages: a target that began between 16-byte words would rule out the wide kernels.
        let largest = self.sizes(memory).last().copied().unwrap_or_default();
        Layout {
            area: largest.next_multiple_of(SLACK) + SLACK,
        }
    }

    /// Every kind of transfer, those of ordinary memory first.
    pub(super) fn kinds(&self) -> Vec<TransferKind> {
        let directions = [Direction::Write, Direction::Read];
        let engines = [Engine::Copy, Engine::Sm];
        let of = |memory: Memory| {
            directions.into_iter().flat_map(move |direction| {
                engines.map(|engine| TransferKind {
                    engine,
                    direction,
                    memory,
                })
            })
        };
        self.memories.iter().copied().flat_map(of).collect()
    }

    /// The number of transfers of each pair.
    pub(super) fn transfers(&self) -> usize {
        self.kinds()
            .iter()
            .map(|kind| self.sizes(kind.memory).len() * self.shifts.len())
            .sum()
    }
}

/// How a buffer is divided: guard, source area, guard, target area, guard. All of it holds the sentinel, except for
/// the parts that a transfer uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of source and target each.
    area: u64,
}

/// A band beside the target that must not change, bytes.
pub(super) const GUARD: u64 = 64 * KIB;
/// Room for transfers that do not begin on a boundary, bytes.
const SLACK: u64 = 4 * KIB;

impl Layout {
    /// The size of a buffer.
    pub(super) const fn bytes(self) -> u64 {
        3 * GUARD + 2 * self.area
    }

    /// Bytes of source and target each.
    pub(super) const fn area(self) -> u64 {
        self.area
    }

    /// The offset of the source area, bytes.
    pub(super) const fn source(self) -> u64 {
        GUARD
    }

    /// The offset of the target area, bytes.
    pub(super) const fn target(self) -> u64 {
        2 * GUARD + self.area
    }
}
