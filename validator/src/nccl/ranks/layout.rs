//! The position of a call's data in a rank's two buffers, after nccl-tests: in place, both sides are in the
//! receive buffer, one inside the other.

use crate::nccl::Placement;
use gpu::{Collective, Shape};
use machine::Rank;

/// A part of one of a rank's buffers, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BufferPart {
    /// Whether it is in the receive buffer; else in the send buffer.
    pub(super) receive: bool,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Where a rank sends from and where it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) send: BufferPart,
    pub(super) receive: BufferPart,
}

impl Layout {
    /// The layout of a call whose data begins `shift` bytes after the beginning of the buffers.
    pub(super) fn new(
        collective: Collective,
        shape: Shape,
        element: u64,
        rank: Rank,
        placement: Placement,
        shift: u64,
    ) -> Self {
        let part = |receive, inside: u64, elements: u64| BufferPart {
            receive,
            offset: shift.saturating_add(inside),
            bytes: elements.saturating_mul(element),
        };
        let own = shape
            .count
            .saturating_mul(element)
            .saturating_mul(rank.index() as u64);
        let (in_place, sent_at, received_at) = match (placement, collective) {
            (Placement::OutOfPlace, _) => (false, 0, 0),
            (_, Collective::AllGather | Collective::Gather) => (true, own, 0),
            (_, Collective::ReduceScatter | Collective::Scatter) => (true, 0, own),
            _ => (true, 0, 0),
        };
        Self {
            send: part(in_place, sent_at, shape.send),
            receive: part(true, received_at, shape.receive),
        }
    }
}

/// How many calls of a row have separate parts in buffers of `room` bytes.
pub(super) const fn places(row_bytes: u64, room: u64) -> u64 {
    match room.checked_div(row_bytes) {
        Some(places) if places > 0 => places,
        _ => 1,
    }
}

/// The shift of call number `n` of a row, bytes: as long as there is room, every call uses other memory, so
/// that no cache holds old data.
pub(super) const fn shift(n: u32, row_bytes: u64, room: u64) -> u64 {
    row_bytes * (n as u64 % places(row_bytes, room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_inside_its_buffer_for_every_shift() {
        for collective in Collective::ALL {
            for (ranks, element) in [(1_usize, 4_u64), (4, 2), (5, 8)] {
                let shape = collective.shape(4096, ranks as u64, element);
                let most = shape.bytes * 3 + 100;
                for n in 0..7 {
                    let shift = shift(n, shape.bytes, most);
                    for (rank, placement) in Rank::all(ranks)
                        .flat_map(|r| [(r, Placement::OutOfPlace), (r, Placement::InPlace)])
                    {
                        let layout =
                            Layout::new(collective, shape, element, rank, placement, shift);
                        for part in [layout.send, layout.receive] {
                            assert!(
                                part.offset >= shift && part.offset + part.bytes <= most,
                                "{layout:?}"
                            );
                        }
                        assert_eq!(layout.send.receive, placement == Placement::InPlace);
                        assert!(layout.receive.receive);
                    }
                }
            }
        }
    }

    #[test]
    fn in_place_a_ranks_part_is_where_nccl_expects_it() {
        let of = |collective: Collective, rank: usize| {
            let shape = collective.shape(4096, 4, 4);
            let layout = Layout::new(collective, shape, 4, rank.into(), Placement::InPlace, 0);
            (
                layout.send.offset,
                layout.send.bytes,
                layout.receive.offset,
                layout.receive.bytes,
            )
        };
        assert_eq!(of(Collective::AllReduce, 3), (0, 4096, 0, 4096));
        assert_eq!(of(Collective::AllGather, 3), (3072, 1024, 0, 4096));
        assert_eq!(of(Collective::Gather, 1), (1024, 1024, 0, 4096));
        assert_eq!(of(Collective::ReduceScatter, 2), (0, 4096, 2048, 1024));
        assert_eq!(of(Collective::Scatter, 3), (0, 4096, 3072, 1024));
        assert_eq!(of(Collective::Broadcast, 2), (0, 4096, 0, 4096));
    }

    #[test]
    fn calls_move_through_the_buffer_and_wrap_around() {
        assert_eq!([0, 1, 2, 3, 4].map(|n| shift(n, 8, 30)), [0, 8, 16, 0, 8]);
        assert_eq!([0, 1].map(|n| shift(n, 30, 30)), [0, 0]);
        assert_eq!([shift(5, 31, 30), shift(5, 0, 30)], [0, 0]);
    }
}
