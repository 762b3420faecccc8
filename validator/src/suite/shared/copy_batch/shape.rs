//! Unusual sizes and addresses of copies: odd, unaligned, spread evenly over orders of magnitude. All follow
//! from a seed that the report contains. Pure.

use gpu::pattern::Nonces;

/// Bytes beside each target that are checked with it.
pub(in crate::suite) const GUARD: u64 = 64;
/// Targets begin at least this many bytes apart: guards and a whole word between them.
const APART: u64 = 2 * GUARD + 8;

/// One copy: offsets of source and target, and its size, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct CopyShape {
    pub(in crate::suite) from: u64,
    pub(in crate::suite) to: u64,
    pub(in crate::suite) bytes: u64,
}

/// `count` small copies within `room` bytes, each in its own part, or fewer where there is not enough room.
pub(in crate::suite) fn small_copies(
    room: u64,
    count: u64,
    most: u64,
    seed: u64,
) -> Vec<CopyShape> {
    let count = count.min(room / (2 * APART));
    let Some(part) = room.checked_div(count) else {
        return Vec::new();
    };
    let mut nonces = Nonces::from(seed);
    let most = most.min(part - APART);
    (0..count)
        .map(|n| {
            let bytes = spread(1, most, nonces.next());
            let slack = part - APART - bytes;
            let begin = n * part + GUARD;
            let [from, to] =
                [nonces.next(), nonces.next()].map(|nonce| begin + nonce % (slack + 1));
            CopyShape { from, to, bytes }
        })
        .collect()
}

/// Every doubling up to this size, and up to this part of the room, has at least this many steps: a fault
/// that affects sizes within a factor of 1.5 hits one of them.
const FINE: u64 = 64 << 20;
const FINE_PART: u64 = 64;
const FINE_STEPS: u64 = 4;

/// Copies of every size from `least` to `most`, `each` of them in every doubling and more of small ones, one
/// after the other. Source and target have the same alignment to 16 bytes, so that kernels can move wide
/// words; neither is aligned.
pub(in crate::suite) fn size_ladder(
    room: u64,
    least: u64,
    most: u64,
    each: u64,
    seed: u64,
) -> Vec<CopyShape> {
    let mut nonces = Nonces::from(seed);
    let mut shapes = Vec::new();
    let mut at = GUARD;
    let doublings = std::iter::successors(Some(least), |bytes| bytes.checked_mul(2));
    for step in doublings.take_while(|bytes| *bytes <= most) {
        let fine = step < FINE.min(room / FINE_PART);
        let each = if fine { each.max(FINE_STEPS) } else { each };
        for n in 0..each {
            let wide = step / each;
            let bytes = step + wide * n + nonces.next() % wide.max(1);
            let (jitter, lead) = (nonces.next() % 4096, nonces.next() % 256 * 16);
            let to = at + jitter;
            let behind = to + lead + bytes + APART;
            if behind > room {
                return shapes;
            }
            shapes.push(CopyShape {
                from: to + lead,
                to,
                bytes,
            });
            at = behind;
        }
    }
    shapes
}

/// A size from `least` to `most`, with every order of magnitude equally likely.
fn spread(least: u64, most: u64, nonce: u64) -> u64 {
    let doublings = u64::from((most / least.max(1)).max(1).ilog2()) + 1;
    let floor = least << (nonce % doublings);
    let within = floor.min(most - floor.min(most) + 1).max(1);
    (floor + (nonce >> 32) % within).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that no two of them or their guards touch, and that none leaves the room.
    fn apart(shapes: &[CopyShape], room: u64) {
        for (one, next) in shapes.iter().zip(shapes.iter().skip(1)) {
            assert!(
                one.to + one.bytes + 2 * GUARD + 4 <= next.to,
                "{one:?} {next:?}"
            );
        }
        for CopyShape { from, to, bytes } in shapes {
            assert!(*to >= GUARD && to + bytes + GUARD + 4 <= room && from + bytes <= room);
        }
    }

    #[test]
    fn small_copies_have_every_size_and_alignment_and_do_not_touch() {
        let room = 10 << 20;
        let shapes = small_copies(room, 1024, 64 << 10, 7);
        assert_eq!(
            shapes,
            small_copies(room, 1024, 64 << 10, 7),
            "the seed determines all copies"
        );
        assert_eq!(shapes.len(), 1024);
        apart(&shapes, room);
        for doubling in 0..13 {
            let of = shapes
                .iter()
                .filter(|s| s.bytes.ilog2() == doubling)
                .count();
            assert!(of > 20, "{doubling}: {of}");
        }
        for rest in 0..16 {
            assert!(
                shapes.iter().any(|s| s.to % 16 == rest)
                    && shapes.iter().any(|s| s.bytes % 16 == rest)
            );
        }
        assert!(shapes.iter().any(|s| s.to % 4 != s.from % 4));
    }

    #[test]
    fn little_room_holds_fewer_copies() {
        assert_eq!(small_copies(100, 1024, 64, 7), []);
        assert_eq!(small_copies(0, 1024, 64, 7), []);
        let shapes = small_copies(4096, 1024, 1 << 20, 7);
        assert!(!shapes.is_empty() && shapes.len() < 20);
        apart(&shapes, 4096);
    }

    #[test]
    fn a_ladder_has_a_step_in_every_doubling() {
        let room = 4 << 30;
        let shapes = size_ladder(room, 256 << 10, 1 << 30, 1, 9);
        apart(&shapes, room);
        let steps = |doubling: u32| {
            shapes
                .iter()
                .filter(|s| s.bytes.ilog2() == doubling)
                .count()
        };
        assert!(
            (18..=30).all(|doubling| steps(doubling) == if doubling < 26 { 4 } else { 1 }),
            "{shapes:?}"
        );
        assert!(shapes.iter().any(|s| (3 << 20..4 << 20).contains(&s.bytes)));
        assert!(shapes.iter().all(|s| s.from % 16 == s.to % 16));
        assert!(shapes.iter().any(|s| s.bytes % 4 != 0));
        let four = size_ladder(room, 256 << 10, 1 << 20, 4, 9);
        assert!(four.len() == 12 && four.is_sorted_by_key(|s| s.bytes));
        let few = size_ladder(1 << 20, 256 << 10, 1 << 30, 1, 9);
        assert!(
            (1..=2).contains(&few.len()),
            "what does not fit is left out: {few:?}"
        );
        apart(&few, 1 << 20);
    }
}
