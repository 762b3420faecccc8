//! One element as text: the content of a wrong element, and its expected value. Pure; the rule of the values
//! is `collective::Values`, and `kernels/nccl.cu` follows it too.

use gpu::pattern::word;
use gpu::{DataType, ExpectedRun, RedOp, Values};
use machine::Rank;

/// Distinguishes the ranks' values: 2^64 over the golden ratio, odd.
const RANK_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The value of `rank` at place `i`: a whole number that the type holds exactly.
fn value(values: Values, seed: u64, rank: Rank, i: u64) -> u64 {
    let word = u64::from(word(
        seed.wrapping_add(RANK_STEP.wrapping_mul(rank.index() as u64)),
        i,
    ));
    let (scale, range) = (u64::from(values.scale), u64::from(values.range.max(1)));
    if values.powers {
        scale << (word % range).min(32)
    } else {
        scale * (1 + word % range)
    }
}

/// The expected value `k` elements after the beginning of `part`.
pub(super) fn expected(
    part: ExpectedRun,
    k: u64,
    op: RedOp,
    ranks: usize,
    values: Values,
    seed: u64,
) -> u64 {
    let of = |rank| value(values, seed, rank, part.first.saturating_add(k));
    let Some(from) = part.from else {
        let all = Rank::all(ranks).map(of);
        let sum = || Rank::all(ranks).map(of).sum::<u64>();
        return match op {
            RedOp::Sum => sum(),
            RedOp::Min => all.min().unwrap_or_default(),
            RedOp::Max => all.max().unwrap_or_default(),
            RedOp::Avg => sum() / u64::from(values.scale.max(1)),
        };
    };
    of(from)
}

/// Whether an element's bytes are a number above 0 without a fraction, as all values and their sums are.
pub(super) fn is_value(data: DataType, bits: u64) -> bool {
    let low = |digits: u32| u32::try_from(bits & (u64::MAX >> (64 - digits))).unwrap_or_default();
    let number = match data {
        DataType::Int32 => f64::from(low(32).cast_signed()),
        DataType::Float => f64::from(f32::from_bits(low(32))),
        // These are only half of its bits.
        DataType::Double => return false,
        DataType::Half => half(low(16).into()),
        DataType::Bfloat16 => f64::from(f32::from_bits(low(16) << 16)),
    };
    number > 0.0 && number < 1e12 && number.fract() == 0.0
}

/// An element's bytes, which are the low ones of `bits`, as a number and as bits.
pub(super) fn text(data: DataType, bits: u64) -> String {
    let low = |digits: u32| bits & (u64::MAX >> (64 - digits));
    match data {
        DataType::Int32 => {
            let bits = u32::try_from(low(32)).unwrap_or_default();
            format!("{} (0x{bits:08x})", bits.cast_signed())
        }
        DataType::Float => {
            let bits = u32::try_from(low(32)).unwrap_or_default();
            format!("{} (0x{bits:08x})", number(f64::from(f32::from_bits(bits))))
        }
        DataType::Double => format!("{} (0x{bits:016x})", number(f64::from_bits(bits))),
        DataType::Half => format!("{} (0x{:04x})", number(half(low(16))), low(16)),
        DataType::Bfloat16 => {
            let wide = u32::try_from(low(16)).unwrap_or_default() << 16;
            format!(
                "{} (0x{:04x})",
                number(f64::from(f32::from_bits(wide))),
                low(16)
            )
        }
    }
}

/// An integer without decimals, anything else with a few digits.
fn number(x: f64) -> String {
    let plain = x == 0.0 || (1e-3..1e15).contains(&x.abs());
    if plain || !x.is_finite() {
        format!("{x}")
    } else {
        format!("{x:.4e}")
    }
}

/// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction.
fn half(bits: u64) -> f64 {
    let small = |shift: u64, mask: u64| u32::try_from(bits >> shift & mask).unwrap_or_default();
    let (exponent, fraction) = (small(10, 0x1f), f64::from(small(0, 0x3ff)));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1.0 + fraction / 1024.0) * 2_f64.powi(e.cast_signed() - 15),
    };
    if small(15, 1) == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::Collective;

    #[test]
    fn elements_are_shown_as_numbers_and_as_bits() {
        let of = |data, bits| text(data, bits);
        assert_eq!(
            of(DataType::Float, u64::from(1234.0_f32.to_bits())),
            "1234 (0x449a4000)"
        );
        assert_eq!(of(DataType::Float, 0), "0 (0x00000000)");
        assert_eq!(of(DataType::Float, 0xa5a5_a5a5), "-2.8735e-16 (0xa5a5a5a5)");
        assert_eq!(
            of(DataType::Double, 3.5_f64.to_bits()),
            "3.5 (0x400c000000000000)"
        );
        assert_eq!(of(DataType::Int32, 0xffff_ffff), "-1 (0xffffffff)");
        // The upper half of the word is ignored for 16-bit types.
        assert_eq!(of(DataType::Half, 0x1234_3c00), "1 (0x3c00)");
        assert_eq!(of(DataType::Half, 0xfc00), "-inf (0xfc00)");
        assert_eq!(of(DataType::Half, 0x7e00), "NaN (0x7e00)");
        assert_eq!(of(DataType::Half, 0x6400), "1024 (0x6400)");
        assert_eq!(of(DataType::Bfloat16, 0x4200), "32 (0x4200)");
    }

    #[test]
    fn whole_numbers_above_zero_are_values() {
        for (data, bits, is) in [
            (DataType::Float, u64::from(7.0_f32.to_bits()), true),
            (DataType::Float, u64::from(7.5_f32.to_bits()), false),
            (DataType::Float, 0xa5a5_a5a5, false),
            (DataType::Float, 0xffff_ffff, false),
            (DataType::Int32, 12, true),
            (DataType::Int32, 0xffff_ffff, false),
            (DataType::Half, 0x3c00, true),
            (DataType::Half, 0x7e00, false),
            (DataType::Bfloat16, 0x4200, true),
            (DataType::Double, 7.0_f64.to_bits(), false),
            (DataType::Half, 0, false),
        ] {
            assert_eq!(is_value(data, bits), is, "{data} {bits:x}");
        }
    }

    #[test]
    fn reductions_expect_the_values_of_all_ranks() {
        let values = Values::exact(DataType::Float, Some(RedOp::Sum), 4).unwrap();
        let shape = Collective::ReduceScatter.shape(256, 4, 4);
        let [part] = Collective::ReduceScatter.expected(shape, 4, 2.into(), Rank::FIRST)[..] else {
            panic!()
        };
        let each: Vec<_> = Rank::all(4)
            .map(|rank| value(values, 77, rank, part.first + 5))
            .collect();
        let of = |op| expected(part, 5, op, 4, values, 77);
        assert_eq!(of(RedOp::Sum), each.iter().sum::<u64>());
        assert_eq!(
            [of(RedOp::Min), of(RedOp::Max)],
            [each.iter().min(), each.iter().max()].map(|n| *n.unwrap())
        );
        assert!(each.iter().all(|n| *n > 0) && each[0] != each[1]);
        let values = Values::exact(DataType::Float, Some(RedOp::Avg), 4).unwrap();
        let mean = expected(part, 5, RedOp::Avg, 4, values, 77);
        assert_eq!(
            mean * 4,
            Rank::all(4)
                .map(|rank| value(values, 77, rank, part.first + 5))
                .sum::<u64>()
        );
    }

    #[test]
    fn moves_expect_the_values_of_the_sender() {
        let values = Values::exact(DataType::Half, None, 1).unwrap();
        let shape = Collective::Alltoall.shape(256, 4, 2);
        let parts = Collective::Alltoall.expected(shape, 4, 3.into(), Rank::FIRST);
        for (rank, part) in Rank::each(&parts) {
            let found = expected(*part, 1, RedOp::Sum, 4, values, 9);
            assert_eq!(found, value(values, 9, rank, part.first + 1));
        }
    }
}
