//! At which offsets of a large buffer a peer is tried: where windows into a GPU's memory begin and
//! end, evenly between, and at both ends. Pure.

/// Bytes of a place: a large page.
pub(super) const BYTES: u64 = 2 << 20;
/// A band beside each that must not change, bytes.
pub(super) const GUARD: u64 = 64 << 10;
/// The first window size at whose end something may break: half of BAR1 as it is without resizing.
const SMALLEST: u64 = 128 << 20;
/// Places between the ends that have no meaning of their own.
const EVENLY: u64 = 8;

/// One place and the bands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it begins in the buffer, bytes.
    pub(super) at: u64,
    /// Bytes of the band before it; none at the buffer's start.
    pub(super) below: u64,
    /// Bytes of the band behind it; none at the buffer's end.
    pub(super) above: u64,
}

/// Ascending, apart from each other: the start, 1 MiB to each side of 128 MiB and of every power of
/// two above it, some places between, the last 2 MiB. None where the buffer is smaller than one.
pub(super) fn places(bytes: u64) -> Vec<Place> {
    let Some(last) = bytes.checked_sub(BYTES) else { return Vec::new() };
    let powers = std::iter::successors(Some(SMALLEST), |at| at.checked_mul(2));
    let edges = powers.take_while(|at| *at < bytes).map(|at| at - BYTES / 2);
    let evenly = (1..EVENLY).map(|n| (last / EVENLY * n).next_multiple_of(BYTES));
    // What has a meaning comes first: of two that overlap the later one is left out.
    let mut chosen: Vec<u64> = Vec::new();
    for at in [0, last].into_iter().chain(edges).chain(evenly) {
        let apart = |other: &u64| at.abs_diff(*other) >= BYTES + 2 * GUARD;
        if at <= last && chosen.iter().all(apart) {
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    let place = |at: u64| Place { at, below: at.min(GUARD), above: (last - at).min(GUARD) };
    chosen.into_iter().map(place).collect()
}

/// How much of a GPU's memory to take: all that is free but for what the driver needs to work, 1 GiB
/// or a twentieth, and never more than half where others have left little.
pub(super) fn reach(free: u64, total: u64) -> u64 {
    let left = (total / 20).max(1 << 30).min(free.div_ceil(2));
    free.saturating_sub(left) / BYTES * BYTES
}

/// Less than this is not worth going over: the tests of small buffers did it already.
pub(super) const LITTLE: u64 = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    #[test]
    fn windows_edges_and_both_ends_are_places() {
        let bytes = 22 * GIB + 6 * MIB;
        let all: Vec<_> = places(bytes).iter().map(|p| p.at).collect();
        assert!(all.is_sorted() && all.windows(2).all(|w| w[1] - w[0] >= BYTES + 2 * GUARD));
        for at in [0, 127 * MIB, 255 * MIB, 511 * MIB, 16 * GIB - MIB, bytes - BYTES] {
            assert!(all.contains(&at), "{at}");
        }
        assert_eq!(all.len(), 2 + 8 + 7);
    }

    #[test]
    fn no_place_and_no_band_leaves_the_buffer() {
        for bytes in [0, MIB, BYTES, 3 * MIB, 128 * MIB, 129 * MIB, 5 * GIB, 134 * GIB] {
            let all = places(bytes);
            assert_eq!(all.is_empty(), bytes < BYTES);
            assert!(all.iter().all(|p| p.below <= p.at && p.at + BYTES + p.above <= bytes), "{bytes}");
        }
    }

    #[test]
    fn what_others_use_is_left_to_them() {
        assert_eq!(reach(140 * GIB, 140 * GIB), 133 * GIB);
        assert_eq!(reach(10 * GIB, 24 * GIB) / MIB, 9010, "a twentieth of 24 GiB less");
        assert_eq!(reach(GIB, 24 * GIB), GIB / 2);
        assert_eq!(reach(MIB, 24 * GIB), 0);
    }
}
