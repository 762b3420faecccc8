//! The content of a stretch of memory in its shortest form: one repeated byte, a run of the pattern, values of a
//! collective, a ring of pointers, or real bytes.

use crate::pattern::Pattern;
use crate::values::Values;
use std::sync::Arc;

/// Size of a word of the pattern in bytes.
pub const WORD: u64 = 4;

/// The content of a stretch, from its first byte on. The stretch's owner knows its length.
#[derive(Debug, Clone)]
pub enum Content {
    /// This byte, repeated.
    Byte(u8),
    /// The pattern, starting at byte `byte` (0 to 3) of its word 0.
    Pattern(Pattern, u8),
    /// Values of a collective, starting at this byte of the first value.
    Values(Values, u64),
    /// Pointers in a ring, starting at byte `at` of the ring, with zeros between them.
    Ring(Ring, u64),
    /// Bytes, starting at this index.
    Bytes(Arc<[u8]>, usize),
}

/// A ring of pointers: `base + k * stride` contains the address of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// The address of its first pointer.
    pub base: u64,
    /// Distance from one pointer to the next in bytes.
    pub stride: u64,
    /// Number of pointers.
    pub count: u64,
}

impl Ring {
    /// The address that the pointer in `slot` contains.
    fn next(self, slot: u64) -> u64 {
        let next = (slot + 1).checked_rem(self.count).unwrap_or_default();
        self.base.wrapping_add(next.wrapping_mul(self.stride))
    }

    fn byte(self, at: u64) -> u8 {
        let (slot, inside) = (at / self.stride.max(1), at % self.stride.max(1));
        let pointer = self.next(slot).to_le_bytes();
        usize::try_from(inside)
            .ok()
            .and_then(|i| pointer.get(i).copied())
            .unwrap_or_default()
    }
}

impl Content {
    /// Only zeros.
    pub const ZEROS: Self = Self::Byte(0);
    /// All ones: what a read returns when no device responds.
    pub const ONES: Self = Self::Byte(0xff);
    /// Noise, the byte 0xfb repeated: negative in every type, and never a value.
    pub const NOISE: Self = Self::Byte(0xfb);

    /// Whether this is noise, which represents unknown content.
    #[must_use]
    pub fn is_noise(&self) -> bool {
        matches!(self, Self::Byte(0xfb))
    }

    /// The pattern of `seed`, starting at word `first`.
    #[must_use]
    pub fn pattern(seed: u64, first: u64) -> Self {
        Self::Pattern(
            Pattern {
                seed,
                first,
                flip: 0,
            },
            0,
        )
    }

    /// These bytes, reduced to one repeated byte if they are all equal.
    #[must_use]
    pub fn bytes(data: Vec<u8>) -> Self {
        match data.split_first() {
            Some((first, rest)) if rest.iter().all(|b| b == first) => Self::Byte(*first),
            _ => Self::Bytes(data.into(), 0),
        }
    }

    /// The same content without its first `n` bytes.
    #[must_use]
    pub fn skip(&self, n: u64) -> Self {
        match self {
            Self::Byte(b) => Self::Byte(*b),
            Self::Pattern(pattern, byte) => {
                let all = n.wrapping_add(u64::from(*byte));
                let byte = u8::try_from(all % WORD).unwrap_or_default();
                Self::Pattern(pattern.from(all / WORD), byte)
            }
            Self::Values(values, byte) => {
                let all = n.wrapping_add(*byte);
                Self::Values(values.from(all / values.size()), all % values.size())
            }
            Self::Ring(ring, at) => Self::Ring(*ring, at + n),
            Self::Bytes(data, at) => Self::Bytes(
                Arc::clone(data),
                at.saturating_add(usize::try_from(n).unwrap_or(usize::MAX)),
            ),
        }
    }

    /// Whether `next`, placed after `bytes` bytes of this content, continues it.
    #[must_use]
    pub fn continued_by(&self, bytes: u64, next: &Self) -> bool {
        match (self.skip(bytes), next) {
            (Self::Byte(a), Self::Byte(b)) => a == *b,
            (Self::Pattern(a, i), Self::Pattern(b, j)) => (a, i) == (*b, *j),
            (Self::Values(a, i), Self::Values(b, j)) => (a, i) == (*b, *j),
            (Self::Ring(a, i), Self::Ring(b, j)) => (a, i) == (*b, *j),
            (Self::Bytes(a, i), Self::Bytes(b, j)) => Arc::ptr_eq(&a, b) && i == *j,
            _ => false,
        }
    }

    /// Fills `out` with the first bytes of the content.
    pub fn write(&self, out: &mut [u8]) {
        match self {
            Self::Byte(b) => out.fill(*b),
            Self::Pattern(pattern, byte) => write_pattern(*pattern, *byte, out),
            Self::Values(values, byte) => values.write(*byte, out),
            Self::Ring(ring, at) => {
                for (slot, i) in out.iter_mut().zip(*at..) {
                    *slot = ring.byte(i);
                }
            }
            Self::Bytes(data, at) => {
                let from = data.get(*at..).unwrap_or_default();
                for (slot, byte) in out.iter_mut().zip(from) {
                    *slot = *byte;
                }
            }
        }
    }
}

/// Writes the pattern starting at byte `byte` of its word 0: partial words at both ends, whole words between.
fn write_pattern(pattern: Pattern, byte: u8, out: &mut [u8]) {
    let part = |k: u64| pattern.at(k).to_le_bytes();
    let head = if byte == 0 {
        0
    } else {
        usize::from(4 - byte).min(out.len())
    };
    let (head, rest) = out.split_at_mut(head);
    for (slot, b) in head
        .iter_mut()
        .zip(part(0).into_iter().skip(usize::from(byte)))
    {
        *slot = b;
    }
    let first = u64::from(byte > 0);
    let (words, tail) = rest.as_chunks_mut::<4>();
    pattern.from(first).write(words);
    let last = part(first + words.len() as u64);
    for (slot, b) in tail.iter_mut().zip(last) {
        *slot = b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(content: &Content, n: usize) -> Vec<u8> {
        let mut out = vec![0xee; n];
        content.write(&mut out);
        out
    }

    #[test]
    fn skipping_yields_the_bytes_that_follow() {
        let ring = Ring {
            base: 0x1000,
            stride: 16,
            count: 4,
        };
        let contents = [
            Content::Byte(9),
            Content::pattern(5, 3),
            Content::Pattern(
                Pattern {
                    seed: 5,
                    first: 3,
                    flip: 0,
                },
                1,
            ),
            Content::Values(
                crate::values::tests::values(crate::element::DataType::Half, None, 2),
                1,
            ),
            Content::Values(
                crate::values::tests::values(crate::element::DataType::Double, None, 2),
                0,
            ),
            Content::Ring(ring, 0),
            Content::bytes((0..64).collect()),
        ];
        for content in contents {
            for n in 0..20 {
                let all = written(&content, 52);
                let later = written(&content.skip(n), 32);
                let n = usize::try_from(n).unwrap();
                assert_eq!(all[n..n + 32], later, "{content:?} {n}");
            }
        }
    }

    #[test]
    fn a_long_pattern_is_written_over_chunks() {
        let content = Content::Pattern(
            Pattern {
                seed: 1,
                first: 0,
                flip: 0,
            },
            3,
        );
        let out = written(&content, 10_001);
        let word = Pattern {
            seed: 1,
            first: 0,
            flip: 0,
        }
        .at(2500)
        .to_le_bytes();
        assert_eq!(out[9997..10_001], word);
    }

    #[test]
    fn the_last_pointer_of_a_ring_leads_to_the_first() {
        let ring = Content::Ring(
            Ring {
                base: 0x1000,
                stride: 16,
                count: 2,
            },
            0,
        );
        let bytes = written(&ring, 32);
        assert_eq!(bytes[..8], 0x1010u64.to_le_bytes());
        assert_eq!(bytes[16..24], 0x1000u64.to_le_bytes());
    }
}
