//! The sizes of a run and the number of calls: nccl-tests' `-b -e -f -i -n -w -c` as one value.

use gpu::{Collective, DataType, RedOp};
use serde::{Deserialize, Serialize};

/// A run of one collective over a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Which collective.
    pub collective: Collective,
    /// Smallest size, bytes.
    pub from: u64,
    /// Largest size, bytes.
    pub to: u64,
    /// The factor from each size to the next; 1: the next is `step` bytes more.
    pub factor: u64,
    /// See `factor`.
    pub step: u64,
    /// Timed calls for each row and placement.
    pub iterations: u32,
    /// Calls before them.
    pub warmups: u32,
    /// Whether values are checked.
    pub check: bool,
    /// Whether counts are used without rounding to 16 bytes.
    pub odd: bool,
    /// Element type.
    pub data: DataType,
    /// The reduction, for collectives that reduce.
    pub op: RedOp,
}

/// Why there are no sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSweep {
    /// The largest size is below the smallest.
    #[error("-e {to} is less than -b {from}")]
    Backwards {
        /// Smallest size.
        from: u64,
        /// Largest size.
        to: u64,
    },
    /// The sizes would never end.
    #[error("-f {factor} with a step of {step} bytes makes no progress")]
    Stuck {
        /// The factor.
        factor: u64,
        /// The step.
        step: u64,
    },
    /// Too many rows.
    #[error("{rows} sizes and more; at most {most} are allowed")]
    Long {
        /// How many were counted.
        rows: usize,
        /// The limit.
        most: usize,
    },
}

/// The most rows.
const MOST: usize = 4096;

impl Sweep {
    /// Out of place and in place, 8 B to 128 MiB by factor 2, 20 calls after 1: the usual parameters in
    /// guides.
    #[must_use]
    pub const fn standard(collective: Collective) -> Self {
        Self {
            collective,
            from: 8,
            to: 128 << 20,
            factor: 2,
            step: 1 << 20,
            iterations: 20,
            warmups: 1,
            check: true,
            odd: false,
            data: DataType::Float,
            op: RedOp::Sum,
        }
    }

    /// The same with one size only.
    #[must_use]
    pub const fn at(self, bytes: u64) -> Self {
        Self {
            from: bytes,
            to: bytes,
            ..self
        }
    }

    /// One row of exactly this many elements for each call, for any collective.
    #[must_use]
    pub const fn of_count(self, count: u64, ranks: u64) -> Self {
        let parts = if self.collective.has_parts() {
            ranks
        } else {
            1
        };
        let bytes = count
            .saturating_mul(self.data.bytes())
            .saturating_mul(parts);
        Self {
            odd: true,
            ..self.at(bytes)
        }
    }

    /// The same, each size once and unchecked: the warm-up before timed rows, as in nccl-tests.
    #[must_use]
    pub const fn untimed(self) -> Self {
        Self {
            iterations: 1,
            check: false,
            ..self
        }
    }

    /// All sizes, bytes, in order.
    ///
    /// # Errors
    /// See [`BadSweep`].
    pub fn sizes(&self) -> Result<Vec<u64>, BadSweep> {
        if self.to < self.from {
            return Err(BadSweep::Backwards {
                from: self.from,
                to: self.to,
            });
        }
        let mut sizes = Vec::new();
        let mut size = Some(self.from);
        while let Some(bytes) = size.filter(|s| *s <= self.to) {
            if sizes.len() == MOST {
                return Err(BadSweep::Long {
                    rows: sizes.len(),
                    most: MOST,
                });
            }
            sizes.push(bytes);
            size = if self.factor > 1 {
                bytes.checked_mul(self.factor)
            } else {
                bytes.checked_add(self.step)
            };
            if size == Some(bytes) {
                // One size is fine; repetitions are not.
                if self.from == self.to {
                    break;
                }
                return Err(BadSweep::Stuck {
                    factor: self.factor,
                    step: self.step,
                });
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_sweep_has_25_sizes() {
        let sizes = Sweep::standard(Collective::AllReduce).sizes().unwrap();
        assert_eq!(
            (sizes.len(), sizes.first(), sizes.last()),
            (25, Some(&8), Some(&134_217_728))
        );
    }

    #[test]
    fn an_endless_sweep_is_refused() {
        let sweep = Sweep {
            factor: 1,
            step: 0,
            ..Sweep::standard(Collective::Reduce)
        };
        assert_eq!(sweep.sizes(), Err(BadSweep::Stuck { factor: 1, step: 0 }));
        let sweep = Sweep {
            from: 0,
            factor: 2,
            ..sweep
        };
        assert!(matches!(sweep.sizes(), Err(BadSweep::Stuck { .. })));
        let sweep = Sweep {
            from: 8,
            to: 4,
            ..sweep
        };
        assert!(matches!(sweep.sizes(), Err(BadSweep::Backwards { .. })));
        let sweep = Sweep {
            from: 8,
            to: 8,
            factor: 1,
            ..sweep
        };
        assert_eq!(sweep.sizes(), Ok(vec![8]));
    }
}
