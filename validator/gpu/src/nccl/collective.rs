//! The nine collectives: names, counts, buffers and the factor between algorithm and bus bandwidth, all as in
//! nccl-tests 2.19 (its PERFORMANCE.md derives the factors).

use machine::Rank;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Elements of all-to-all kinds are counted in multiples of this many bytes.
const UNIT_BYTES: u64 = 16;

/// A collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Every rank receives the sum of all.
    AllReduce,
    /// Every rank receives all ranks' parts.
    AllGather,
    /// Every rank receives its part of the sum of all.
    ReduceScatter,
    /// Every rank receives the root's data.
    Broadcast,
    /// The root receives the sum of all.
    Reduce,
    /// Every rank sends each rank a separate part.
    Alltoall,
    /// Every rank sends to the next rank and receives from the one before.
    Sendrecv,
    /// The root receives all ranks' parts.
    Gather,
    /// The root sends each rank its part.
    Scatter,
}

/// The number of elements in one rank's buffers, and the row's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The count argument of the call, elements: the table's second column.
    pub count: u64,
    /// Elements that a rank sends.
    pub send: u64,
    /// Elements that a rank receives.
    pub receive: u64,
    /// The larger of the two buffers, bytes: the table's first column.
    pub bytes: u64,
}

/// The expected content of a run of elements in a receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedRun {
    /// Its offset in the receive buffer, elements.
    pub at: u64,
    /// How many elements.
    pub count: u64,
    /// The number of its first element in the senders' buffers.
    pub first: u64,
    /// The sending rank; `None`: all ranks' elements, reduced.
    pub from: Option<Rank>,
}

impl Collective {
    /// All of them, in test order.
    pub const ALL: [Self; 9] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::Reduce,
        Self::Alltoall,
        Self::Sendrecv,
        Self::Gather,
        Self::Scatter,
    ];

    /// The names of nccl-tests' programs, without `_perf`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Alltoall => "alltoall",
            Self::Sendrecv => "sendrecv",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
        }
    }

    /// Whether elements of several ranks are combined.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Whether its rows name a reduction: the exchange with the neighbours reduces nothing, but nccl-tests
    /// names the requested one anyway.
    #[must_use]
    pub const fn names_op(self) -> bool {
        self.reduces() || matches!(self, Self::Sendrecv)
    }

    /// Whether one rank is the root.
    #[must_use]
    pub const fn rooted(self) -> bool {
        matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter
        )
    }

    /// Whether the data of a run in place can be checked: otherwise the senders' data is overwritten while
    /// others still send it, and nccl-tests prints N/A.
    #[must_use]
    pub const fn checks_in_place(self) -> bool {
        !matches!(self, Self::Alltoall | Self::Sendrecv)
    }

    /// The buffers for a requested size of `bytes`.
    #[must_use]
    pub const fn shape(self, bytes: u64, ranks: u64, element: u64) -> Shape {
        self.shape_in(bytes, ranks, element, UNIT_BYTES / element)
    }

    /// The same without rounding: counts may be odd, and then most parts are aligned only to the size of an element.
    #[must_use]
    pub const fn odd_shape(self, bytes: u64, ranks: u64, element: u64) -> Shape {
        self.shape_in(bytes, ranks, element, 1)
    }

    /// Whether its larger buffer has one part for each rank, and the call's count is that of one part.
    #[must_use]
    pub const fn has_parts(self) -> bool {
        !matches!(
            self,
            Self::AllReduce | Self::Broadcast | Self::Reduce | Self::Sendrecv
        )
    }

    const fn shape_in(self, bytes: u64, ranks: u64, element: u64, unit: u64) -> Shape {
        let ranks = if ranks == 0 { 1 } else { ranks };
        let whole = bytes / element;
        let part = (whole / ranks) / unit * unit;
        let all = part * ranks;
        let (count, send, receive) = match self {
            Self::AllReduce | Self::Broadcast | Self::Reduce | Self::Sendrecv => {
                (whole, whole, whole)
            }
            Self::AllGather | Self::Gather => (part, part, all),
            Self::ReduceScatter | Self::Scatter => (part, all, part),
            Self::Alltoall => (part, all, all),
        };
        let larger = if send > receive { send } else { receive };
        Shape {
            count,
            send,
            receive,
            bytes: larger * element,
        }
    }

    /// Bus bandwidth over algorithm bandwidth: the part of the bytes that crosses the slowest link of a ring.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "ranks are few")]
    pub const fn bus_factor(self, ranks: u64) -> f64 {
        let n = ranks as f64;
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather
            | Self::ReduceScatter
            | Self::Alltoall
            | Self::Gather
            | Self::Scatter => (n - 1.0) / n,
            Self::Broadcast | Self::Reduce | Self::Sendrecv => 1.0,
        }
    }

    /// The expected content of the receive buffer of `rank` afterwards; empty where it receives nothing.
    #[must_use]
    pub fn expected(self, shape: Shape, ranks: usize, rank: Rank, root: Rank) -> Vec<ExpectedRun> {
        let count = shape.count;
        let part = |rank: Rank| count.saturating_mul(rank.index() as u64);
        let whole = |first, from| {
            vec![ExpectedRun {
                at: 0,
                count,
                first,
                from,
            }]
        };
        let at_root = |what: Vec<ExpectedRun>| if rank == root { what } else { Vec::new() };
        let of_each = |first| {
            let one = |n| ExpectedRun {
                at: part(n),
                count,
                first,
                from: Some(n),
            };
            Rank::all(ranks).map(one).collect::<Vec<_>>()
        };
        match self {
            Self::AllReduce => whole(0, None),
            Self::Reduce => at_root(whole(0, None)),
            Self::ReduceScatter => whole(part(rank), None),
            Self::Broadcast => whole(0, Some(root)),
            Self::Sendrecv => whole(0, Some(rank.before(ranks))),
            Self::AllGather => of_each(0),
            Self::Gather => at_root(of_each(0)),
            Self::Alltoall => of_each(part(rank)),
            Self::Scatter => whole(part(rank), Some(root)),
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Collective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|c| c.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a collective; allowed are {known}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_nccl_tests() {
        // size and count columns of nccl-tests 2.19.6 with 4 ranks of float
        let of = |c: Collective, bytes| {
            let shape = c.shape(bytes, 4, 4);
            (shape.bytes, shape.count)
        };
        assert_eq!(of(Collective::AllReduce, 8), (8, 2));
        assert_eq!(of(Collective::AllGather, 32), (0, 0));
        assert_eq!(of(Collective::AllGather, 64), (64, 4));
        assert_eq!(
            of(Collective::ReduceScatter, 134_217_728),
            (134_217_728, 8_388_608)
        );
        assert_eq!(of(Collective::Alltoall, 128), (128, 8));
        assert_eq!(of(Collective::Sendrecv, 128), (128, 32));
    }

    #[test]
    fn an_odd_shape_has_exactly_the_requested_count() {
        for collective in Collective::ALL {
            let parts = if collective.has_parts() { 3 } else { 1 };
            let shape = collective.odd_shape(1009 * 4 * parts, 3, 4);
            assert_eq!(
                (shape.count, shape.bytes),
                (1009, 1009 * 4 * parts),
                "{collective}"
            );
        }
    }

    #[test]
    fn every_received_element_is_expected_once() {
        for collective in Collective::ALL {
            for ranks in 1..6_usize {
                let shape = collective.shape(1 << 12, ranks as u64, 4);
                for rank in Rank::all(ranks) {
                    let root = Rank::new(1 % ranks);
                    let expected = collective.expected(shape, ranks, rank, root);
                    let mut next = 0;
                    for part in &expected {
                        assert_eq!(part.at, next, "{collective} {ranks}");
                        next += part.count;
                        assert!(
                            part.first + part.count <= shape.send,
                            "{collective} {ranks}"
                        );
                    }
                    let all = matches!(collective, Collective::Reduce | Collective::Gather)
                        && rank != root;
                    assert_eq!(
                        next,
                        if all { 0 } else { shape.receive },
                        "{collective} {ranks}"
                    );
                }
            }
        }
    }
}
