//! The NCCL calls of one rank in one collective: one function where NCCL has one, sends and receives where it
//! has none, or only newer versions have it. Pure: it decides which parts of the buffers go where.

use super::enqueue::Call;
use crate::Collective;
use crate::cuda::{GpuError, Span};
use machine::Rank;

/// One call into NCCL, with the memory sent and received. Spans are as long as NCCL reads or writes: empty
/// where this rank has no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'m> {
    AllReduce(Span<'m>, Span<'m>),
    AllGather(Span<'m>, Span<'m>),
    ReduceScatter(Span<'m>, Span<'m>),
    Broadcast(Span<'m>, Span<'m>),
    Reduce(Span<'m>, Span<'m>),
    Alltoall(Span<'m>, Span<'m>),
    Gather(Span<'m>, Span<'m>),
    Scatter(Span<'m>, Span<'m>),
    /// To that rank.
    Send(Span<'m>, Rank),
    /// From that rank.
    Receive(Span<'m>, Rank),
}

/// All steps of `rank`, in order; `whole`: NCCL has one function for the whole collective.
///
/// # Errors
/// [`GpuError::Bounds`] if a buffer is too small; a root outside the ranks.
pub(super) fn steps<'m>(
    call: &Call<'m>,
    rank: Rank,
    ranks: usize,
    whole: bool,
) -> Result<Vec<Step<'m>>, GpuError> {
    if call.collective.rooted() && call.root.index() >= ranks {
        let (root, what) = (call.root, call.collective);
        return Err(GpuError::Nonsense(format!(
            "{what} from or to rank {root} of {ranks}"
        )));
    }
    let bytes = call.count.saturating_mul(call.data.bytes());
    let rank_is_root = rank == call.root;
    let of_all = bytes.saturating_mul(ranks as u64);
    let one = |step: fn(Span<'m>, Span<'m>) -> Step<'m>, send: u64, receive: u64| {
        Ok(vec![step(
            call.send.part(0, send)?,
            call.receive.part(0, receive)?,
        )])
    };
    let send = |part: usize, to| Ok(Step::Send(part_of(call.send, part, bytes)?, to));
    let receive = |part: usize, from| Ok(Step::Receive(part_of(call.receive, part, bytes)?, from));
    let at_root = |bytes| if rank_is_root { bytes } else { 0 };
    match call.collective {
        Collective::AllReduce => one(Step::AllReduce, bytes, bytes),
        Collective::AllGather => one(Step::AllGather, bytes, of_all),
        Collective::ReduceScatter => one(Step::ReduceScatter, of_all, bytes),
        Collective::Broadcast => one(Step::Broadcast, at_root(bytes), bytes),
        Collective::Reduce => one(Step::Reduce, bytes, at_root(bytes)),
        // NCCL is not called for empty parts.
        _ if bytes == 0 => Ok(Vec::new()),
        Collective::Alltoall if whole => one(Step::Alltoall, of_all, of_all),
        Collective::Gather if whole => one(Step::Gather, bytes, at_root(of_all)),
        Collective::Scatter if whole => one(Step::Scatter, at_root(of_all), bytes),
        Collective::Alltoall => Rank::all(ranks)
            .flat_map(|r| [send(r.index(), r), receive(r.index(), r)])
            .collect(),
        Collective::Sendrecv => Ok(vec![
            send(0, rank.next(ranks))?,
            receive(0, rank.before(ranks))?,
        ]),
        Collective::Gather => {
            let mine = std::iter::once(send(0, call.root));
            mine.chain(
                Rank::all(ranks)
                    .filter(|_| rank_is_root)
                    .map(|r| receive(r.index(), r)),
            )
            .collect()
        }
        Collective::Scatter => {
            let all = Rank::all(ranks)
                .filter(|_| rank_is_root)
                .map(|r| send(r.index(), r));
            all.chain(std::iter::once(receive(0, call.root))).collect()
        }
    }
}

/// Part `n` of a buffer with parts of `bytes`.
fn part_of(buffer: Span<'_>, n: usize, bytes: u64) -> Result<Span<'_>, GpuError> {
    buffer.part(bytes.saturating_mul(n as u64), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, RedOp};

    const RANKS: usize = 4;
    const SEND: u64 = 0x10_0000;
    const RECEIVE: u64 = 0x20_0000;

    /// Buffers as large as the collective's shape says.
    fn call(collective: Collective) -> Call<'static> {
        let data = DataType::Float;
        let shape = collective.shape(256, RANKS as u64, data.bytes());
        Call {
            collective,
            send: Span::fixture(SEND, shape.send * 4),
            receive: Span::fixture(RECEIVE, shape.receive * 4),
            count: shape.count,
            data,
            op: RedOp::Sum,
            root: Rank::new(2),
        }
    }

    /// Without a function of NCCL for the whole collective.
    fn by_sends(collective: Collective, rank: Rank) -> Vec<Step<'static>> {
        steps(&call(collective), rank, RANKS, false).unwrap()
    }

    fn place(at: u64) -> usize {
        at.try_into().unwrap()
    }

    /// The result when all sends meet their receives: for each byte of each rank's receive buffer, the rank
    /// and the byte that it comes from.
    fn arrived(collective: Collective) -> Vec<Vec<(Rank, u64)>> {
        let all: Vec<_> = Rank::all(RANKS)
            .map(|rank| by_sends(collective, rank))
            .collect();
        let sent = |from: Rank, to: Rank| {
            let mut found = all[from.index()].iter().filter_map(|s| match s {
                Step::Send(span, there) if *there == to => Some(*span),
                _ => None,
            });
            let span = found.next().unwrap();
            assert!(
                found.next().is_none(),
                "sends to one rank pair up by their order; one is enough"
            );
            span
        };
        let bytes = place(call(collective).receive.bytes);
        let mut arrived = vec![vec![(usize::MAX.into(), 0); bytes]; RANKS];
        let mut received = 0;
        for (rank, steps) in Rank::each(&all) {
            for step in steps {
                let Step::Receive(to, from) = step else {
                    continue;
                };
                let source = sent(*from, rank);
                assert_eq!(source.bytes, to.bytes);
                received += 1;
                for k in 0..to.bytes {
                    arrived[rank.index()][place(to.address - RECEIVE + k)] =
                        (*from, source.address - SEND + k);
                }
            }
        }
        let sends = all
            .iter()
            .flatten()
            .filter(|s| matches!(s, Step::Send(..)))
            .count();
        assert_eq!(sends, received, "every send has its receive");
        arrived
    }

    /// Compares the collective's expected content with the sends and receives.
    #[test]
    fn sends_and_receives_give_the_collectives_expected_content() {
        let composed = [
            Collective::Alltoall,
            Collective::Sendrecv,
            Collective::Gather,
            Collective::Scatter,
        ];
        for collective in composed {
            let shape = collective.shape(256, RANKS as u64, 4);
            let arrived = arrived(collective);
            for (rank, found) in Rank::each(&arrived) {
                for part in collective.expected(shape, RANKS, rank, 2.into()) {
                    for k in 0..part.count * 4 {
                        let at = place(part.at * 4 + k);
                        let wanted = (part.from.unwrap(), part.first * 4 + k);
                        assert_eq!(found[at], wanted, "{collective} rank {rank} byte {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_collective_that_nccl_has_is_one_call_with_its_parts() {
        let part = Span::fixture;
        let one = |collective,
                   rank: usize,
                   step: fn(Span<'static>, Span<'static>) -> Step<'static>,
                   send,
                   receive| {
            let wanted = [step(part(SEND, send), part(RECEIVE, receive))];
            assert_eq!(
                steps(&call(collective), rank.into(), RANKS, true).unwrap(),
                wanted,
                "{collective}"
            );
        };
        one(Collective::AllReduce, 0, Step::AllReduce, 256, 256);
        one(Collective::AllGather, 3, Step::AllGather, 64, 256);
        one(Collective::ReduceScatter, 3, Step::ReduceScatter, 256, 64);
        one(Collective::Broadcast, 2, Step::Broadcast, 256, 256);
        one(Collective::Broadcast, 1, Step::Broadcast, 0, 256);
        one(Collective::Reduce, 2, Step::Reduce, 256, 256);
        one(Collective::Reduce, 1, Step::Reduce, 256, 0);
        one(Collective::Alltoall, 3, Step::Alltoall, 256, 256);
        one(Collective::Gather, 2, Step::Gather, 64, 256);
        one(Collective::Gather, 1, Step::Gather, 64, 0);
        one(Collective::Scatter, 2, Step::Scatter, 256, 64);
        one(Collective::Scatter, 1, Step::Scatter, 0, 64);
        assert_eq!(
            by_sends(Collective::Sendrecv, 1.into()).len(),
            2,
            "it is two calls of every version"
        );
    }

    #[test]
    fn a_buffer_that_is_too_small_is_refused() {
        for (collective, whole) in Collective::ALL
            .into_iter()
            .flat_map(|c| [(c, false), (c, true)])
        {
            let refused = |short: &Call<'_>| {
                let steps = steps(short, short.root, RANKS, whole);
                assert!(
                    matches!(steps, Err(GpuError::Bounds { .. })),
                    "{collective} {whole}"
                );
            };
            let mut short = call(collective);
            short.receive = short.receive.part(0, short.receive.bytes - 1).unwrap();
            refused(&short);
            let mut short = call(collective);
            short.send = short.send.part(0, short.send.bytes - 1).unwrap();
            refused(&short);
        }
    }

    #[test]
    fn a_root_outside_the_ranks_is_refused_where_there_is_a_root() {
        for collective in Collective::ALL {
            let call = Call {
                root: RANKS.into(),
                ..call(collective)
            };
            assert_eq!(
                steps(&call, Rank::FIRST, RANKS, true).is_err(),
                collective.rooted(),
                "{collective}"
            );
        }
    }

    #[test]
    fn one_rank_alone_sends_to_itself_and_empty_parts_are_not_sent() {
        let alone = steps(&call(Collective::Sendrecv), Rank::FIRST, 1, false).unwrap();
        assert!(matches!(
            alone[..],
            [Step::Send(_, Rank::FIRST), Step::Receive(_, Rank::FIRST)]
        ));
        let none = Call {
            count: 0,
            ..call(Collective::Alltoall)
        };
        assert_eq!(steps(&none, Rank::FIRST, RANKS, false), Ok(Vec::new()));
        assert_eq!(steps(&none, Rank::FIRST, RANKS, true), Ok(Vec::new()));
        let none = Call {
            count: 0,
            ..call(Collective::AllReduce)
        };
        assert_eq!(steps(&none, Rank::FIRST, RANKS, true).unwrap().len(), 1);
    }
}
