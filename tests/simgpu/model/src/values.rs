//! The values that `fl_nccl_fill` writes and `fl_nccl_check` expects (validator/kernels/nccl.cu): numbers derived from the
//! pattern's words of one rank, or of all ranks reduced.

use crate::element::{DataType, ReduceOp};
use crate::pattern::word;

/// The difference between the seeds of consecutive ranks.
const RANK: u64 = 0x9E37_79B9_7F4A_7C15;

/// A run of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// The seed.
    pub seed: u64,
    /// The number of element 0.
    pub first: u64,
    /// Their type.
    pub r#type: DataType,
    /// `scale * (1 + w % range)`, or `scale << (w % range)` with `powers`.
    pub range: u32,
    /// See `range`.
    pub scale: u32,
    /// See `range`.
    pub powers: bool,
    /// Which ranks they come from.
    pub origin: ValueOrigin,
}

/// The ranks that elements come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueOrigin {
    /// One rank's elements.
    Rank(u32),
    /// The elements of the first `ranks` ranks, reduced; a mean is their sum divided by the scale.
    Reduced {
        /// The reduction.
        op: ReduceOp,
        /// The number of ranks.
        ranks: u32,
    },
}

impl Values {
    /// Element `i` of a rank, before conversion to its type.
    fn value(&self, rank: u32, i: u64) -> u64 {
        let w = word(
            self.seed.wrapping_add(u64::from(rank).wrapping_mul(RANK)),
            i,
        );
        let w = u64::from(w.checked_rem(self.range).unwrap_or_default());
        let scale = u64::from(self.scale);
        if self.powers {
            scale.wrapping_shl(u32::try_from(w).unwrap_or_default())
        } else {
            scale.wrapping_mul(1 + w)
        }
    }

    /// Element `k`, before conversion to its type.
    fn number(&self, k: u64) -> u64 {
        let i = self.first.wrapping_add(k);
        let ValueOrigin::Reduced { op, ranks } = self.origin else {
            let ValueOrigin::Rank(rank) = self.origin else {
                return 0;
            };
            return self.value(rank, i);
        };
        let mut all = (0..ranks).map(|rank| self.value(rank, i));
        match op {
            ReduceOp::Max => all.max().unwrap_or_default(),
            ReduceOp::Min => all.min().unwrap_or_default(),
            ReduceOp::Sum => all.by_ref().fold(0, u64::wrapping_add),
            ReduceOp::Avg => {
                let sum = all.by_ref().fold(0, u64::wrapping_add);
                sum.checked_div(u64::from(self.scale)).unwrap_or_default()
            }
        }
    }

    /// The bits of element `k`.
    #[must_use]
    pub fn at(&self, k: u64) -> u64 {
        self.r#type.integer_bits(self.number(k))
    }

    /// Size of an element in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.r#type.bytes()
    }

    /// The run that starts at element `k`.
    #[must_use]
    pub fn from(self, k: u64) -> Self {
        Self {
            first: self.first.wrapping_add(k),
            ..self
        }
    }

    /// Whether none of them can be zero or equal to [`crate::content::Content::NOISE`].
    #[must_use]
    pub fn is_never_zero_or_noise(&self) -> bool {
        self.scale > 0
            && self
                .max_value()
                .is_some_and(|n| n <= self.r#type.max_exact())
    }

    /// The largest possible value of one rank.
    fn max_value(&self) -> Option<u64> {
        let (scale, range) = (u64::from(self.scale), u64::from(self.range.max(1)));
        if self.powers {
            u32::try_from(range - 1)
                .ok()
                .and_then(|n| 1_u64.checked_shl(n))
                .and_then(|n| n.checked_mul(scale))
        } else {
            scale.checked_mul(range)
        }
    }

    /// The reduction of `all`, if it is known without computing elements: one run for each rank, with one seed, and every
    /// sum exact.
    #[must_use]
    pub fn reduced(all: &[Self], op: ReduceOp) -> Option<Self> {
        let (first, ranks) = (*all.first()?, u32::try_from(all.len()).ok()?);
        let mut seen = vec![false; all.len()];
        for values in all {
            let ValueOrigin::Rank(rank) = values.origin else {
                return None;
            };
            let alike = Self {
                origin: first.origin,
                ..*values
            } == first;
            let slot = seen
                .get_mut(usize::try_from(rank).ok()?)
                .filter(|s| !**s && alike)?;
            *slot = true;
        }
        // A mean's values are scaled down before they are added, as in NCCL.
        let mean = op == ReduceOp::Avg;
        let parts = if mean {
            first.max_value()?.checked_div(u64::from(ranks))?
        } else {
            first.max_value()?
        };
        let most = parts.checked_mul(u64::from(ranks))?;
        let fits = most <= first.r#type.max_exact() && (!mean || first.scale == ranks);
        fits.then_some(Self {
            origin: ValueOrigin::Reduced { op, ranks },
            ..first
        })
    }

    /// Writes the bytes starting at byte `byte` of element 0.
    pub fn write(&self, byte: u64, out: &mut [u8]) {
        let size = usize::try_from(self.size()).unwrap_or(1);
        let mut k = 0;
        let mut skip = usize::try_from(byte).unwrap_or_default();
        let mut rest = out;
        while !rest.is_empty() {
            let bytes = self.at(k).to_le_bytes();
            let part = bytes.get(skip..size).unwrap_or_default();
            let (now, later) = rest.split_at_mut(part.len().min(rest.len()));
            for (slot, b) in now.iter_mut().zip(part) {
                *slot = *b;
            }
            (rest, skip, k) = (later, 0, k + 1);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn values(kind: DataType, op: Option<ReduceOp>, ranks: u32) -> Values {
        let powers = op == Some(ReduceOp::Avg);
        let (range, scale) = if powers { (3, ranks) } else { (30, 1) };
        Values {
            seed: 0xfeed_beef_1234,
            first: 5,
            r#type: kind,
            range,
            scale,
            powers,
            origin: ValueOrigin::Rank(0),
        }
    }

    #[test]
    fn a_value_follows_from_its_ranks_word() {
        let values = Values {
            origin: ValueOrigin::Rank(3),
            ..values(DataType::Int32, None, 1)
        };
        let w = word(values.seed.wrapping_add(3_u64.wrapping_mul(RANK)), 12);
        assert_eq!(values.at(7), u64::from(1 + w % 30));
        let powers = Values {
            powers: true,
            scale: 4,
            range: 5,
            ..values
        };
        assert_eq!(powers.at(7), 4 << (w % 5));
    }

    /// Values computed by a program that shares no code with this one or the kernels.
    #[test]
    #[expect(
        clippy::unreadable_literal,
        reason = "they are compared with those of the kernels' tests"
    )]
    fn values_are_those_of_the_kernels() {
        let vectors = [
            (
                DataType::Float,
                ValueOrigin::Rank(1),
                0xf2a74de452e6b438,
                0x00000000000269e0,
                2097151,
                1,
                false,
                0x49b28980,
            ),
            (
                DataType::Float,
                ValueOrigin::Reduced {
                    op: ReduceOp::Sum,
                    ranks: 4,
                },
                0x892f902bd23f0824,
                0x000000000001818e,
                4194303,
                1,
                false,
                0x4ab89200,
            ),
            (
                DataType::Float,
                ValueOrigin::Reduced {
                    op: ReduceOp::Min,
                    ranks: 8,
                },
                0x11e20b8f6b0d549b,
                0x4688b7671738f7d9,
                2097151,
                1,
                false,
                0x46762800,
            ),
            (
                DataType::Float,
                ValueOrigin::Reduced {
                    op: ReduceOp::Max,
                    ranks: 5,
                },
                0xd3ac94af0f21ddb6,
                0x00000000ffffffff,
                3355443,
                1,
                false,
                0x4a423450,
            ),
            (
                DataType::Float,
                ValueOrigin::Reduced {
                    op: ReduceOp::Avg,
                    ranks: 4,
                },
                0xa09f76b5a170b338,
                0x07eb1878f29d0da9,
                7,
                4,
                true,
                0x41500000,
            ),
            (
                DataType::Half,
                ValueOrigin::Rank(2),
                0x6b4cb2424a23d596,
                0x0000000100000000,
                255,
                1,
                false,
                0x58c8,
            ),
            (
                DataType::Half,
                ValueOrigin::Reduced {
                    op: ReduceOp::Sum,
                    ranks: 4,
                },
                0x94e3bf911a61dbe2,
                0x0000000100000000,
                511,
                1,
                false,
                0x63c2,
            ),
            (
                DataType::Half,
                ValueOrigin::Reduced {
                    op: ReduceOp::Min,
                    ranks: 8,
                },
                0x34b9b5df9e7769b1,
                0x440f68b1ae2eb154,
                255,
                1,
                false,
                0x51c0,
            ),
            (
                DataType::Half,
                ValueOrigin::Reduced {
                    op: ReduceOp::Max,
                    ranks: 5,
                },
                0x506bf2efc6f87718,
                0x763353c395e761d1,
                409,
                1,
                false,
                0x5830,
            ),
            (
                DataType::Half,
                ValueOrigin::Reduced {
                    op: ReduceOp::Avg,
                    ranks: 4,
                },
                0x4cbd87ad5c90a958,
                0x00000000ffffffff,
                7,
                4,
                true,
                0x5180,
            ),
            (
                DataType::Bfloat16,
                ValueOrigin::Rank(1),
                0x72e6cc3ababced20,
                0x0000000000049b64,
                31,
                1,
                false,
                0x41c0,
            ),
            (
                DataType::Bfloat16,
                ValueOrigin::Reduced {
                    op: ReduceOp::Sum,
                    ranks: 4,
                },
                0x6b0a18e8830e07bc,
                0x00000000ffffffff,
                63,
                1,
                false,
                0x42a2,
            ),
            (
                DataType::Bfloat16,
                ValueOrigin::Reduced {
                    op: ReduceOp::Min,
                    ranks: 8,
                },
                0x8ede0d7ac3baea9e,
                0x0000000100000000,
                31,
                1,
                false,
                0x3f80,
            ),
            (
                DataType::Bfloat16,
                ValueOrigin::Reduced {
                    op: ReduceOp::Max,
                    ranks: 5,
                },
                0xb1fee08f57124242,
                0x3f930a2598289fcd,
                51,
                1,
                false,
                0x4240,
            ),
            (
                DataType::Bfloat16,
                ValueOrigin::Reduced {
                    op: ReduceOp::Avg,
                    ranks: 4,
                },
                0xd70820fe119a72d1,
                0x228d5ec0f1d69ed6,
                7,
                4,
                true,
                0x428a,
            ),
            (
                DataType::Int32,
                ValueOrigin::Rank(4),
                0x93f448b3a5aa3c81,
                0x6934d4d2ae658f33,
                268435455,
                1,
                false,
                0x6ff86e2,
            ),
            (
                DataType::Int32,
                ValueOrigin::Reduced {
                    op: ReduceOp::Sum,
                    ranks: 4,
                },
                0x62c33a4fb774eb52,
                0x00000000000e3151,
                536870911,
                1,
                false,
                0x441c1648,
            ),
            (
                DataType::Int32,
                ValueOrigin::Reduced {
                    op: ReduceOp::Min,
                    ranks: 8,
                },
                0x0f17a3007e62aa0a,
                0x00000000ffffffff,
                268435455,
                1,
                false,
                0x2529dae,
            ),
            (
                DataType::Int32,
                ValueOrigin::Reduced {
                    op: ReduceOp::Max,
                    ranks: 5,
                },
                0x3f63af83bd0561e6,
                0x755a3be96415479c,
                429496729,
                1,
                false,
                0x17803f58,
            ),
            (
                DataType::Double,
                ValueOrigin::Rank(2),
                0x2a96fb1a14a0f9e7,
                0x0000000100000000,
                4294967295,
                1,
                false,
                0x41c6b63cb7000000,
            ),
            (
                DataType::Double,
                ValueOrigin::Reduced {
                    op: ReduceOp::Sum,
                    ranks: 4,
                },
                0x6e36aab0d1bc52d9,
                0x23a34d268cdb305f,
                4294967295,
                1,
                false,
                0x42020cf419c00000,
            ),
            (
                DataType::Double,
                ValueOrigin::Reduced {
                    op: ReduceOp::Min,
                    ranks: 8,
                },
                0x153e7c2a26a2c0bd,
                0x00000000ffffffff,
                4294967295,
                1,
                false,
                0x41991ae780000000,
            ),
            (
                DataType::Double,
                ValueOrigin::Reduced {
                    op: ReduceOp::Max,
                    ranks: 5,
                },
                0x7c26847f0316909e,
                0x0000000100000000,
                4294967295,
                1,
                false,
                0x41de8c6831800000,
            ),
            (
                DataType::Double,
                ValueOrigin::Reduced {
                    op: ReduceOp::Avg,
                    ranks: 4,
                },
                0x010c4759482c9cbc,
                0x0000000100000000,
                7,
                4,
                true,
                0x4066000000000000,
            ),
        ];
        for (r#type, origin, seed, first, range, scale, powers, bits) in vectors {
            let values = Values {
                seed,
                first,
                r#type,
                range,
                scale,
                powers,
                origin,
            };
            assert_eq!(values.at(0), bits, "{values:?}");
        }
    }

    #[test]
    fn reductions_that_may_round_are_not_symbolic() {
        let all = |range, scale, kind| {
            [0, 1].map(|r| Values {
                origin: ValueOrigin::Rank(r),
                range,
                scale,
                ..values(kind, None, 2)
            })
        };
        assert!(Values::reduced(&all(128, 1, DataType::Bfloat16), ReduceOp::Sum).is_some());
        assert!(Values::reduced(&all(129, 1, DataType::Bfloat16), ReduceOp::Sum).is_none());
        assert!(Values::reduced(&all(8, 2, DataType::Float), ReduceOp::Avg).is_some());
        assert!(Values::reduced(&all(8, 1, DataType::Float), ReduceOp::Avg).is_none());
        let mut twice = all(8, 1, DataType::Float);
        twice[1].origin = ValueOrigin::Rank(0);
        assert!(Values::reduced(&twice, ReduceOp::Sum).is_none());
        let mut apart = all(8, 1, DataType::Float);
        apart[1].first += 1;
        assert!(Values::reduced(&apart, ReduceOp::Sum).is_none());
    }
}
