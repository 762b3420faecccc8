//! Element types, reductions, and values with exact results: integers small enough that the sum of all ranks'
//! is exact in the type, in any order of addition.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// 32-bit integer.
    Int32,
    /// 16-bit floating point, 11 significant bits.
    Half,
    /// 32-bit floating point, 24 significant bits.
    Float,
    /// 64-bit floating point, 53 significant bits.
    Double,
    /// 16-bit floating point, 8 significant bits.
    Bfloat16,
}

impl DataType {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Float,
        Self::Half,
        Self::Bfloat16,
        Self::Int32,
        Self::Double,
    ];

    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Float => 4,
            Self::Double => 8,
        }
    }

    /// `ncclDataType_t` (nccl.h).
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Int32 => 2,
            Self::Half => 6,
            Self::Float => 7,
            Self::Double => 8,
            Self::Bfloat16 => 9,
        }
    }

    /// nccl-tests' name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Half => "half",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// Whole numbers of up to this many bits are exact.
    const fn whole_bits(self) -> u32 {
        match self {
            Self::Bfloat16 => 8,
            Self::Half => 11,
            Self::Float => 24,
            Self::Int32 => 31,
            Self::Double => 53,
        }
    }
}

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedOp {
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The mean.
    Avg,
}

impl RedOp {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Min, Self::Max, Self::Avg];

    /// `ncclRedOp_t` (nccl.h).
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Sum => 0,
            Self::Max => 2,
            Self::Min => 3,
            Self::Avg => 4,
        }
    }

    /// nccl-tests' name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

/// How values are derived from the pattern's word `w` of their rank and index, as in `kernels/values.cuh`: `scale
/// * (1 + w % range)`, or with `powers` `scale << (w % range)`. None is 0, so that zeros are always wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// See above; at least 1.
    pub range: u32,
    /// See above.
    pub scale: u32,
    /// See above.
    pub powers: bool,
}

impl Values {
    /// Values that `ranks` ranks can reduce exactly; `None` where none are known: half precision cannot give
    /// the mean of 11 exactly, because NCCL multiplies by a rounded 1/11 first.
    #[must_use]
    pub fn exact(data: DataType, op: Option<RedOp>, ranks: u32) -> Option<Self> {
        let ranks = ranks.max(1);
        let most = 1_u64 << data.whole_bits();
        if op == Some(RedOp::Avg) {
            // A sum of powers of two is exact after scaling by 1/ranks, where ranks * (1/ranks) rounds to 1.
            let inexact: &[u32] = match data {
                DataType::Half => &[11, 22, 41, 44, 47, 49, 61],
                DataType::Float => &[41, 47, 55, 61],
                DataType::Bfloat16 => &[61],
                DataType::Double => &[49],
                DataType::Int32 => &[],
            };
            let room = (most.min(256) / u64::from(ranks)).checked_ilog2()?;
            let known = ranks <= 64 && !inexact.contains(&ranks);
            return known.then_some(Self {
                range: room + 1,
                scale: ranks,
                powers: true,
            });
        }
        let room = (most - 1) / u64::from(ranks);
        (room > 1).then_some(Self {
            range: u32::try_from(room).unwrap_or(u32::MAX),
            scale: 1,
            powers: false,
        })
    }
}

macro_rules! named {
    ($type:ty, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = Self::ALL.map(Self::name).join(", ");
                let found = Self::ALL.into_iter().find(|x| x.name() == text);
                found.ok_or_else(|| {
                    format!(
                        concat!("'{}' is not ", $what, "; allowed are {}"),
                        text, known
                    )
                })
            }
        }
    };
}

named!(DataType, "a data type");
named!(RedOp, "a reduction");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_all_ranks_fit_the_type() {
        for data in DataType::ALL {
            for ranks in 1..=64 {
                let values = Values::exact(data, Some(RedOp::Sum), ranks).unwrap();
                let most = u64::from(values.range) * u64::from(ranks);
                assert!(
                    most <= 1 << data.whole_bits() && values.range > 1,
                    "{data} {ranks}"
                );
            }
        }
    }

    /// `x` rounded to `bits` significant bits, to even: the nearest value of a type of that precision.
    fn rounded(x: f64, bits: i32) -> f64 {
        if bits >= 53 {
            return x;
        }
        let exponent = i32::try_from(x.to_bits() >> 52).unwrap() - 1023;
        let unit = 2_f64.powi(exponent + 1 - bits);
        (x / unit).round_ties_even() * unit
    }

    #[test]
    fn every_judged_mean_is_exact() {
        let bits = |data: DataType| i32::try_from(data.whole_bits()).unwrap();
        for data in [
            DataType::Half,
            DataType::Bfloat16,
            DataType::Float,
            DataType::Double,
        ] {
            for ranks in 1..=64_u32 {
                let n = f64::from(ranks);
                let once = rounded(n * rounded(1.0 / n, bits(data)), bits(data));
                let known = Values::exact(data, Some(RedOp::Avg), ranks);
                assert_eq!(known.is_some(), once == 1.0, "{data} {ranks}");
                if let Some(values) = known {
                    let greatest = n * f64::from(1_u32 << (values.range - 1));
                    assert!(greatest <= 256.0 && values.scale == ranks);
                }
            }
        }
    }
}
