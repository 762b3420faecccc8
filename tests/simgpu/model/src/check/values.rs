//! Computes from extents what `fl_nccl_check` counts: the same numbers as from elements, without generating the elements
//! where possible.

use crate::content::Content;
use crate::extents::{Piece, bytes};
use crate::kernel::Calls;
use crate::reduce::{element_bits, whole_elements};
use crate::values::{ValueOrigin, Values};

/// How many elements of a stretch with other content are compared; all further ones count as wrong, as if none were correct
/// by chance. Looking at each of 32 million takes seconds.
const MAX_COMPARED: u64 = 1 << 16;
/// Elements generated at a time.
const CHUNK: u64 = 4096;

/// The counts of a check of values; positions are element indices from the first element that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueCounts {
    /// Elements that differ from the expected ones.
    pub wrong: u64,
    /// How many of those are zero.
    pub zeros: u64,
    /// How many of those are all ones.
    pub ones: u64,
    /// The first wrong element; `u64::MAX` if there is none.
    pub first: u64,
    /// The last wrong element; 0 if there is none.
    pub last: u64,
}

impl ValueCounts {
    /// No wrong element.
    pub const NONE: Self = Self {
        wrong: 0,
        zeros: 0,
        ones: 0,
        first: u64::MAX,
        last: 0,
    };

    /// Adds the findings of a run whose first element has index `base`.
    fn take(&mut self, run: Self, base: u64) {
        if run.wrong > 0 {
            self.wrong += run.wrong;
            self.zeros += run.zeros;
            self.ones += run.ones;
            self.first = self.first.min(base.saturating_add(run.first));
            self.last = self.last.max(base.saturating_add(run.last));
        }
    }

    fn add(&mut self, at: u64, n: u64, zeros: u64, ones: u64) {
        if n > 0 {
            self.wrong += n;
            self.zeros += zeros;
            self.ones += ones;
            self.first = self.first.min(at);
            self.last = self.last.max(at + n - 1);
        }
    }
}

/// Counts over the runs of all calls: each call has `parts` consecutive runs of `elements` elements. Positions are element
/// indices over all runs. `pieces` begin with the first run's first element.
#[must_use]
pub fn runs(
    pieces: Vec<Piece>,
    expected: &Values,
    elements: u64,
    parts: u64,
    calls: Calls,
) -> ValueCounts {
    let mut rest = PieceReader {
        pieces: pieces.into_iter(),
        partial: None,
    };
    let (size, mut found) = (expected.size(), ValueCounts::NONE);
    let gap = calls.stride.saturating_sub(parts.saturating_mul(elements)) * size;
    for call in 0..calls.count {
        let of_call = expected.from(call.wrapping_mul(calls.step));
        for part in 0..parts {
            let origin = match of_call.origin {
                ValueOrigin::Rank(rank) => {
                    ValueOrigin::Rank(rank.wrapping_add(u32::try_from(part).unwrap_or_default()))
                }
                reduced @ ValueOrigin::Reduced { .. } => reduced,
            };
            let run = count(&rest.next(elements * size), &Values { origin, ..of_call });
            found.take(run, (call * parts + part).saturating_mul(elements));
        }
        rest.next(gap);
    }
    found
}

/// The pieces that have not been checked yet.
struct PieceReader {
    pieces: std::vec::IntoIter<Piece>,
    partial: Option<Piece>,
}

impl PieceReader {
    /// The next `bytes` bytes.
    fn next(&mut self, bytes: u64) -> Vec<Piece> {
        let (mut left, mut taken) = (bytes, Vec::new());
        while left > 0 {
            let Some((n, content)) = self.partial.take().or_else(|| self.pieces.next()) else {
                break;
            };
            let now = n.min(left);
            if n > now {
                self.partial = Some((n - now, content.as_ref().map(|c| c.skip(now))));
            }
            left -= now;
            taken.push((now, content));
        }
        taken
    }
}

/// Counts over `pieces`, whose total length is a multiple of the element size.
#[must_use]
pub fn count(pieces: &[Piece], expected: &Values) -> ValueCounts {
    let mut found = ValueCounts::NONE;
    let mut at = 0;
    for (n, content) in whole_elements(pieces, expected.size()) {
        let n = n / expected.size();
        let wanted = expected.from(at);
        match content {
            Content::Values(values, 0) if values == wanted => {}
            Content::Byte(0) if wanted.is_never_zero_or_noise() => found.add(at, n, n, 0),
            Content::Byte(0xff) if wanted.is_never_zero_or_noise() => found.add(at, n, 0, n),
            ref c if c.is_noise() && wanted.is_never_zero_or_noise() => found.add(at, n, 0, 0),
            ref c => count_elements(c, n, at, expected, &mut found),
        }
        at += n;
    }
    found
}

fn count_elements(content: &Content, n: u64, at: u64, expected: &Values, found: &mut ValueCounts) {
    let size = expected.size();
    let (compared, mut done) = (n.min(MAX_COMPARED), 0);
    let ones = u64::MAX >> (64 - 8 * size);
    while done < compared {
        let now = CHUNK.min(compared - done);
        let real = bytes(&[(now * size, Some(content.skip(done * size)))]);
        let elements = real
            .chunks_exact(usize::try_from(size).unwrap_or(1))
            .map(element_bits);
        for (k, bits) in (at + done..).zip(elements) {
            if bits != expected.at(k) {
                found.add(k, 1, u64::from(bits == 0), u64::from(bits == ones));
            }
        }
        done += now;
    }
    found.add(at + compared, n - compared, 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{DataType, ReduceOp};
    use crate::values::ValueOrigin;
    use crate::values::tests::values;

    fn expected() -> Values {
        values(DataType::Float, None, 4)
    }

    #[test]
    fn correct_values_count_as_correct_symbolic_or_as_bytes() {
        let own = Content::Values(expected(), 0);
        for content in [own.clone(), Content::bytes(bytes(&[(400, Some(own))]))] {
            assert_eq!(
                count(&[(400, Some(content))], &expected()),
                ValueCounts::NONE
            );
        }
    }

    #[test]
    fn zeros_noise_and_other_values_are_counted_symbolically() {
        let n = 32 << 20;
        assert_eq!(
            count(&[(4 * n, None)], &expected()),
            ValueCounts {
                wrong: n,
                zeros: n,
                ones: 0,
                first: 0,
                last: n - 1
            }
        );
        let noise = count(&[(4 * n, Some(Content::NOISE))], &expected());
        assert_eq!(
            noise,
            ValueCounts {
                wrong: n,
                zeros: 0,
                ones: 0,
                first: 0,
                last: n - 1
            }
        );
        let other = Values {
            origin: ValueOrigin::Reduced {
                op: ReduceOp::Sum,
                ranks: 2,
            },
            ..expected()
        };
        let other = count(&[(4 * n, Some(Content::Values(other, 0)))], &expected());
        assert!(other.wrong > n - n / 20 && other.last == n - 1, "{other:?}");
    }

    #[test]
    fn each_run_of_each_call_is_compared_with_its_own_rank_and_numbers() {
        let (elements, size) = (10_u64, 4_u64);
        let calls = Calls {
            count: 2,
            stride: 25,
            step: 100,
        };
        let own = |rank, call: u64| {
            let values = Values {
                origin: ValueOrigin::Rank(rank),
                ..expected()
            }
            .from(100_u64 * call);
            (elements * size, Some(Content::Values(values, 0)))
        };
        let gap = (5 * size, None);
        let all = vec![own(0, 0), own(1, 0), gap.clone(), own(0, 1), own(1, 1)];
        let first = Values {
            origin: ValueOrigin::Rank(0),
            ..expected()
        };
        assert_eq!(
            runs(all.clone(), &first, elements, 2, calls),
            ValueCounts::NONE
        );
        let mut swapped = all.clone();
        swapped[4] = (elements * size, Some(Content::NOISE));
        let found = runs(swapped, &first, elements, 2, calls);
        assert_eq!(
            found,
            ValueCounts {
                wrong: 10,
                zeros: 0,
                ones: 0,
                first: 30,
                last: 39
            }
        );
        assert!(runs(all, &first, elements, 2, Calls { step: 99, ..calls }).wrong > 10);
    }

    #[test]
    fn one_wrong_byte_is_one_wrong_element() {
        let own = Content::Values(expected(), 0);
        let pieces = [
            (201, Some(own.clone())),
            (1, Some(Content::Byte(0x77))),
            (198, Some(own.skip(202))),
        ];
        assert_eq!(
            count(&pieces, &expected()),
            ValueCounts {
                wrong: 1,
                zeros: 0,
                ones: 0,
                first: 50,
                last: 50
            }
        );
    }
}
