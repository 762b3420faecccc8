//! What `fl_nccl_check` counts, from extents: the same numbers as from elements, without making them where
//! that can be said.

use crate::content::Content;
use crate::extents::{Piece, bytes};
use crate::reduce::{number, whole};
use crate::values::Values;

/// Past so many elements of one stretch that is something else, none is taken for right by chance any more:
/// looking at each of 32 million takes seconds.
const LOOKED_AT: u64 = 1 << 16;
/// Elements made at a time.
const CHUNK: u64 = 4096;

/// What was found; places are elements behind the first that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Elements that are not as expected.
    pub wrong: u64,
    /// Of those, zeros.
    pub zeros: u64,
    /// The first wrong one; `u64::MAX` when there is none.
    pub first: u64,
    /// The last; 0 when there is none.
    pub last: u64,
}

impl Found {
    /// Nothing wrong.
    pub const NONE: Self = Self { wrong: 0, zeros: 0, first: u64::MAX, last: 0 };

    fn add(&mut self, at: u64, n: u64, zeros: u64) {
        if n > 0 {
            self.wrong += n;
            self.zeros += zeros;
            self.first = self.first.min(at);
            self.last = self.last.max(at + n - 1);
        }
    }
}

/// Counts over `pieces`, whose length is a multiple of an element's.
#[must_use]
pub fn count(pieces: &[Piece], expected: &Values) -> Found {
    let mut found = Found::NONE;
    let mut at = 0;
    for (n, content) in whole(pieces, expected.size()) {
        let n = n / expected.size();
        let wanted = expected.from(at);
        match content {
            Content::Values(values, 0) if values == wanted => {}
            Content::Byte(0) if wanted.ordinary() => found.add(at, n, n),
            ref c if c.is_noise() && wanted.ordinary() => found.add(at, n, 0),
            ref c => each(c, n, at, expected, &mut found),
        }
        at += n;
    }
    found
}

fn each(content: &Content, n: u64, at: u64, expected: &Values, found: &mut Found) {
    let size = expected.size();
    let (looked, mut done) = (n.min(LOOKED_AT), 0);
    while done < looked {
        let now = CHUNK.min(looked - done);
        let real = bytes(&[(now * size, Some(content.skip(done * size)))]);
        let elements = real.chunks_exact(usize::try_from(size).unwrap_or(1)).map(number);
        for (k, bits) in (at + done..).zip(elements) {
            if bits != expected.at(k) {
                found.add(k, 1, u64::from(bits == 0));
            }
        }
        done += now;
    }
    found.add(at + looked, n - looked, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Op, Type};
    use crate::values::Of;
    use crate::values::tests::values;

    fn expected() -> Values {
        values(Type::Float, None, 4)
    }

    #[test]
    fn what_is_right_is_right_and_known_or_not() {
        let own = Content::Values(expected(), 0);
        for content in [own.clone(), Content::bytes(bytes(&[(400, Some(own))]))] {
            assert_eq!(count(&[(400, Some(content))], &expected()), Found::NONE);
        }
    }

    #[test]
    fn zeros_noise_and_others_are_wrong_at_once() {
        let n = 32 << 20;
        assert_eq!(count(&[(4 * n, None)], &expected()), Found { wrong: n, zeros: n, first: 0, last: n - 1 });
        let noise = count(&[(4 * n, Some(Content::NOISE))], &expected());
        assert_eq!(noise, Found { wrong: n, zeros: 0, first: 0, last: n - 1 });
        let other = Values { of: Of::Reduced { op: Op::Sum, ranks: 2 }, ..expected() };
        let other = count(&[(4 * n, Some(Content::Values(other, 0)))], &expected());
        assert!(other.wrong > n - n / 20 && other.last == n - 1, "{other:?}");
    }

    #[test]
    fn one_wrong_byte_is_one_wrong_element() {
        let own = Content::Values(expected(), 0);
        let pieces = [(201, Some(own.clone())), (1, Some(Content::Byte(0x77))), (198, Some(own.skip(202)))];
        assert_eq!(count(&pieces, &expected()), Found { wrong: 1, zeros: 0, first: 50, last: 50 });
    }
}
