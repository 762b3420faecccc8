//! Element types and reductions of collectives: how a number is stored, and how numbers are reduced.

/// An element type, by the numbers of `ncclDataType_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataType {
    /// 32-bit integer.
    Int32,
    /// 16-bit floating point.
    Half,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// 16-bit floating point with the exponent range of 32-bit floating point.
    Bfloat16,
}

/// A reduction, by the numbers of `ncclRedOp_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// The mean.
    Avg,
}

impl DataType {
    /// The type with this number.
    #[must_use]
    pub const fn of(code: u32) -> Option<Self> {
        Some(match code {
            2 => Self::Int32,
            6 => Self::Half,
            7 => Self::Float,
            8 => Self::Double,
            9 => Self::Bfloat16,
            _ => return None,
        })
    }

    /// Its number.
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

    /// Size of an element in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Float => 4,
            Self::Double => 8,
        }
    }

    /// The largest n for which every whole number up to n is exact.
    #[must_use]
    pub const fn max_exact(self) -> u64 {
        match self {
            Self::Bfloat16 => 1 << 8,
            Self::Half => 1 << 11,
            Self::Float => 1 << 24,
            Self::Int32 => (1 << 31) - 1,
            Self::Double => 1 << 53,
        }
    }

    /// The bits of a whole number, as the compiler's conversions produce them.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "integers wrap, floating point rounds: both are meant"
    )]
    pub fn integer_bits(self, number: u64) -> u64 {
        match self {
            Self::Int32 => u64::from(number as u32),
            Self::Float => u64::from((number as f32).to_bits()),
            Self::Double => (number as f64).to_bits(),
            Self::Half | Self::Bfloat16 => self.bits(number as f64),
        }
    }

    /// The number that these bits represent.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only the lower bits are the element's"
    )]
    pub fn number(self, bits: u64) -> f64 {
        match self {
            Self::Int32 => f64::from((bits as u32).cast_signed()),
            Self::Float => f64::from(f32::from_bits(bits as u32)),
            Self::Double => f64::from_bits(bits),
            Self::Bfloat16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Self::Half => half_to_f64(bits as u16),
        }
    }

    /// The bits of a number, rounded to nearest, ties to even.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding is what is asked for"
    )]
    pub fn bits(self, number: f64) -> u64 {
        match self {
            Self::Int32 => u64::from((number as i64 as i32).cast_unsigned()),
            Self::Float => u64::from((number as f32).to_bits()),
            Self::Double => number.to_bits(),
            Self::Half => small_float_bits(number, 10, 5),
            Self::Bfloat16 => small_float_bits(number, 7, 8),
        }
    }
}

/// The number that these bits represent in half precision.
fn half_to_f64(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The bits of a number in a floating point type with this many fraction and exponent bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers of few bits"
)]
fn small_float_bits(number: f64, fraction: i32, exponent: i32) -> u64 {
    let sign = u64::from(number.is_sign_negative()) << (fraction + exponent);
    let infinity = ((1 << exponent) - 1) << fraction;
    if number.is_nan() {
        return sign | infinity | 1 << (fraction - 1);
    }
    if number.is_infinite() {
        return sign | infinity;
    }
    let bias = (1 << (exponent - 1)) - 1;
    let size = number.abs();
    let power = ((size.to_bits() >> 52) as i32 - 1023).clamp(1 - bias, bias + 1);
    let units = (size / 2_f64.powi(power - fraction)).round_ties_even() as u64;
    let whole = 1 << fraction;
    // A fraction that overflows carries into the exponent, which is correct.
    let bits = if units < whole {
        units
    } else {
        (((power + bias) as u64) << fraction).saturating_add(units - whole)
    };
    sign | bits.min(infinity)
}

impl ReduceOp {
    /// The reduction with this number.
    #[must_use]
    pub const fn of(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Sum,
            2 => Self::Max,
            3 => Self::Min,
            4 => Self::Avg,
            _ => return None,
        })
    }

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Sum => 0,
            Self::Max => 2,
            Self::Min => 3,
            Self::Avg => 4,
        }
    }

    /// Reduces the elements of all ranks, in order, and returns the bits; each step is rounded to the type.
    #[must_use]
    pub fn reduce(self, r#type: DataType, all: &[u64]) -> u64 {
        let mut numbers = all.iter().map(|bits| r#type.number(*bits));
        let first = numbers.next().unwrap_or_default();
        let step = |a: f64, b: f64| match self {
            Self::Sum | Self::Avg => r#type.number(r#type.bits(a + b)),
            Self::Max => a.max(b),
            Self::Min => a.min(b),
        };
        let found = numbers.fold(first, step);
        r#type.bits(if self == Self::Avg {
            found / all.len() as f64
        } else {
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bits_of_their_type() {
        for (kind, number, bits) in [
            (DataType::Half, 1.0, 0x3c00),
            (DataType::Half, -2.0, 0xc000),
            (DataType::Half, 65504.0, 0x7bff),
            (DataType::Half, 65520.0, 0x7c00),
            (DataType::Half, 2049.0, 0x6800),
            (DataType::Half, 2051.0, 0x6802),
            (DataType::Half, 2_f64.powi(-24), 1),
            (DataType::Half, 2_f64.powi(-14), 0x0400),
            (DataType::Bfloat16, 1.0, 0x3f80),
            (DataType::Bfloat16, 257.0, 0x4380),
            (DataType::Bfloat16, 259.0, 0x4382),
            (DataType::Bfloat16, f64::INFINITY, 0x7f80),
            (DataType::Float, 1.5, 0x3fc0_0000),
            (DataType::Double, 3.0, 0x4008_0000_0000_0000),
            (DataType::Int32, -1.0, 0xffff_ffff),
        ] {
            assert_eq!(kind.bits(number), bits, "{kind:?} {number}");
        }
    }

    #[test]
    fn every_16_bit_float_survives_a_round_trip() {
        for kind in [DataType::Half, DataType::Bfloat16] {
            for bits in 0..=u64::from(u16::MAX) {
                let number = kind.number(bits);
                assert!(
                    number.is_nan() || kind.bits(number) == bits,
                    "{kind:?} {bits:#x} {number}"
                );
            }
        }
    }

    #[test]
    fn integer_bits_equal_rounded_bits() {
        for kind in [
            DataType::Int32,
            DataType::Half,
            DataType::Float,
            DataType::Double,
            DataType::Bfloat16,
        ] {
            for number in [1, 2, 255, 256, 1000, 40_000] {
                assert_eq!(
                    kind.integer_bits(number),
                    kind.bits(number as f64),
                    "{kind:?} {number}"
                );
            }
        }
    }

    #[test]
    fn each_operation_reduces_each_type() {
        let of = |op: ReduceOp, kind: DataType| {
            let all = [3, 8, 1].map(|n| kind.integer_bits(n));
            kind.number(op.reduce(kind, &all))
        };
        for kind in [
            DataType::Int32,
            DataType::Half,
            DataType::Float,
            DataType::Double,
            DataType::Bfloat16,
        ] {
            assert_eq!(
                [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg].map(|op| of(op, kind)),
                [12.0, 8.0, 1.0, 4.0]
            );
        }
        assert_eq!(
            ReduceOp::Sum.reduce(DataType::Int32, &[u64::from(u32::MAX), 5]),
            4
        );
    }
}
