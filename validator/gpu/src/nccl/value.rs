//! The values themselves, as `kernels/values.cuh` makes them on the GPU: each element's value, its reduction
//! over all ranks, and its bits. The host needs a few of them to describe wrong elements.

use crate::pattern::word;
use crate::{DataType, RedOp, Values};
use machine::Rank;

/// The step from one rank's seed to the next one's: 2^64 over the golden ratio.
const RANK_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Values {
    /// Element `i` of `rank`.
    #[must_use]
    pub fn value(self, seed: u64, rank: Rank, i: u64) -> u64 {
        let seed = seed.wrapping_add((rank.index() as u64).wrapping_mul(RANK_STEP));
        let rest = word(seed, i) % self.range.max(1);
        let scale = u64::from(self.scale);
        // Both fit: the factors have 32 bits each, and at most 32 powers are used.
        if self.powers {
            scale << rest.min(31)
        } else {
            scale * (1 + u64::from(rest))
        }
    }

    /// Element `i` of all `ranks`, reduced.
    #[must_use]
    pub fn reduced(self, op: RedOp, ranks: usize, seed: u64, i: u64) -> u64 {
        let all = Rank::all(ranks).map(|rank| self.value(seed, rank, i));
        match op {
            RedOp::Sum => all.sum(),
            RedOp::Min => all.min().unwrap_or_default(),
            RedOp::Max => all.max().unwrap_or_default(),
            RedOp::Avg => all.sum::<u64>() / u64::from(self.scale.max(1)),
        }
    }
}

impl DataType {
    /// The bits of a value that this type holds exactly.
    #[must_use]
    pub fn bits(self, value: u64) -> u64 {
        match self {
            Self::Int32 => u64::from(low(value)),
            Self::Float => float(value),
            Self::Double => (value as f64).to_bits(),
            Self::Bfloat16 => float(value) >> 16,
            // The exponent counts from 15 instead of 127; whole numbers in range are never subnormal.
            Self::Half => (float(value) >> 13).saturating_sub((127 - 15) << 10),
        }
    }

    /// These bits as a readable number.
    #[must_use]
    pub fn text(self, bits: u64) -> String {
        match self {
            Self::Int32 => low(bits).cast_signed().to_string(),
            Self::Float => number(f32::from_bits(low(bits)).into()),
            Self::Double => number(f64::from_bits(bits)),
            Self::Bfloat16 => number(f32::from_bits(low(bits) << 16).into()),
            Self::Half => number(half(low(bits))),
        }
    }
}

fn low(bits: u64) -> u32 {
    u32::try_from(bits & 0xffff_ffff).unwrap_or_default()
}

fn float(value: u64) -> u64 {
    u64::from((value as f32).to_bits())
}

/// A half precision number (IEEE 754 binary16).
fn half(bits: u32) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        n => (1024.0 + fraction) * 2_f64.powi(n.cast_signed() - 25),
    };
    if bits >> 15 & 1 == 1 { -size } else { size }
}

/// With a useful number of digits.
fn number(x: f64) -> String {
    let plain = x == 0.0 || !x.is_finite() || (1e-5..1e16).contains(&x.abs());
    if plain {
        x.to_string()
    } else {
        format!("{x:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_bits_are_those_of_the_kernels() {
        let text = include_str!("../../../kernels/value-vectors.toml");
        let table: toml::Table = text.parse().unwrap();
        let vectors = table["vectors"].as_array().unwrap();
        assert!(vectors.len() > 30);
        for vector in vectors {
            let word = |key: &str| vector[key].as_str().unwrap();
            let hex =
                |key: &str| u64::from_str_radix(word(key).strip_prefix("0x").unwrap(), 16).unwrap();
            let number = |key: &str| u32::try_from(vector[key].as_integer().unwrap()).unwrap();
            let powers = vector["powers"].as_bool().unwrap();
            let values = Values {
                range: number("range"),
                scale: number("scale"),
                powers,
            };
            let (seed, i) = (hex("seed"), hex("i"));
            let value = match word("op") {
                "copy" => values.value(seed, (number("rank") as usize).into(), i),
                op => values.reduced(op.parse().unwrap(), number("ranks") as usize, seed, i),
            };
            assert_eq!(value, hex("value"), "{vector}");
            let data: DataType = word("data").parse().unwrap();
            assert_eq!(data.bits(value), hex("bits"), "{vector}");
            assert_eq!(data.text(hex("bits")), value.to_string(), "{vector}");
        }
    }

    /// Every value of one rank or of all ranks reduced keeps its own bits.
    #[test]
    fn exact_values_round_trip() {
        for data in DataType::ALL {
            for value in (1..=256).chain(
                [2047, 2048]
                    .into_iter()
                    .filter(|_| data != DataType::Bfloat16),
            ) {
                assert_eq!(data.text(data.bits(value)), value.to_string(), "{data}");
            }
            assert_eq!(data.bits(0), 0, "{data}");
        }
    }

    #[test]
    fn wrong_values_are_shown_too() {
        assert_eq!(DataType::Half.text(0xfc00), "-inf");
        assert_eq!(DataType::Half.text(0x7e01), "NaN");
        assert_eq!(DataType::Half.text(0x0001), "5.960464477539063e-8");
        assert_eq!(DataType::Float.text(0x7f7f_ffff), "3.4028234663852886e38");
        assert_eq!(DataType::Bfloat16.text(0xffff), "NaN");
        assert_eq!(DataType::Int32.text(0xffff_ffff), "-1");
        assert_eq!(DataType::Double.text(0), "0");
    }
}
