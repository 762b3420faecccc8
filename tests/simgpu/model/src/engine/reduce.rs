//! The frameworks' all-reduce (validator/kernels/allreduce.cu): each rank writes its flag to all others, waits for theirs,
//! reads their data, and proceeds to the next step. The ranks are in different processes: their flags and data are in memory
//! that the processes share. The first block's flags represent those of all blocks.

use super::begin::StartOutcome;
use super::finish::{Effect, Source, Transfer};
use super::resolve::MemoryRange;
use super::{Engine, Running, StreamId};
use crate::content::Content;
use crate::element::{DataType, ReduceOp};
use crate::extents::{Piece, after, bytes as real, cut};
use crate::kernel::Reduce;
use crate::links::Route;
use crate::reduce::whole_elements;
use crate::scenario::{Engine as EngineKind, Fault, Kind, Way};
use crate::status::Result;
use crate::values::{ValueOrigin, Values};
use std::time::Duration;

/// The maximum number of ranks in a table.
const MAX_RANKS: u64 = 16;
/// How many steps a peer may be ahead, and the number of steps in a round.
const MAX_STEPS_AHEAD: u32 = 2;
const STEPS: u64 = 3;
/// The low bits of a word's number, which are its position.
const PLACE_BITS: u32 = 20;
/// Offset of the times in a rank's books.
const TIMES: u64 = 16;

/// A rank in the middle of an all-reduce.
#[derive(Debug)]
pub(super) struct AllReduceState {
    by: usize,
    args: Reduce,
    /// All ranks' signal areas, inputs and sums.
    areas: [Vec<u64>; 3],
    step: u32,
    /// The step of the round in which it waits.
    stage: u32,
    until: Duration,
    ns: f64,
}

/// The input of a check of sums.
#[derive(Debug)]
pub(super) struct SumCheck {
    pub from: Transfer,
    pub seed: u64,
    pub ranks: u32,
    pub first: u64,
    pub out: u64,
}

/// The values of one rank, or of several ranks reduced.
fn values(seed: u64, first: u64, origin: ValueOrigin) -> Values {
    Values {
        seed,
        first,
        r#type: DataType::Int32,
        range: 1 << 26,
        scale: 1,
        powers: false,
        origin,
    }
}

fn all_ranks(ranks: u32) -> ValueOrigin {
    ValueOrigin::Reduced {
        op: ReduceOp::Sum,
        ranks,
    }
}

impl Engine {
    /// Number of rounds so far, and whether a launch gave up.
    fn books(&mut self, by: usize, books: u64) -> Result<[u64; 2]> {
        let found = self.numbers(by, books, 2)?;
        Ok([
            found.first().copied().unwrap_or_default(),
            found.get(1).copied().unwrap_or_default(),
        ])
    }

    /// The number of the first word of a round.
    fn first_word(&mut self, by: usize, books: u64, n: u64) -> Result<u64> {
        let [rounds, _] = self.books(by, books)?;
        Ok((rounds + n + 1) << PLACE_BITS)
    }

    pub(super) fn reduce_input(
        &mut self,
        by: usize,
        (input, words): (u64, u64),
        (seed, rank): (u64, u32),
        (n, books): (u64, u64),
    ) -> Result<StartOutcome> {
        let own = values(
            seed,
            self.first_word(by, books, n)?,
            ValueOrigin::Rank(rank),
        );
        self.fill(
            by,
            input,
            words * 4,
            Content::Values(own, 0),
            EngineKind::Sm,
        )
    }

    pub(super) fn reduce_next(
        &mut self,
        by: usize,
        books: u64,
        rounds: u64,
    ) -> Result<StartOutcome> {
        let [before, _] = self.books(by, books)?;
        self.put_numbers(by, books, &[before + rounds])?;
        self.moving(
            self.scenario.local(by, EngineKind::Sm, 1.0),
            8,
            Effect::Nothing,
        )
    }

    pub(super) fn check_sums(
        &mut self,
        by: usize,
        (src, words): (u64, u64),
        (seed, ranks): (u64, u32),
        (n, books, out): (u64, u64, u64),
    ) -> Result<StartOutcome> {
        let [_, late] = self.books(by, books)?;
        if late != 0 {
            return Ok(StartOutcome::Done);
        }
        let first = self.first_word(by, books, n)?;
        let (route, from) = self.check_source(by, src, words * 4)?;
        self.moving(
            route,
            words * 4,
            Effect::CheckSums(Box::new(SumCheck {
                from,
                seed,
                ranks,
                first,
                out,
            })),
        )
    }

    /// Called when a stream reaches an all-reduce.
    pub(super) fn reduce(&mut self, id: StreamId, by: usize, args: Reduce) -> Result<StartOutcome> {
        let [rounds, late] = self.books(by, args.books)?;
        if late != 0 {
            return Ok(StartOutcome::Done);
        }
        let table = self.numbers(by, args.areas, 3 * MAX_RANKS)?;
        let ranks = usize::try_from(args.ranks).unwrap_or_default();
        let row = |n: usize| {
            table
                .chunks(16)
                .nth(n)
                .unwrap_or_default()
                .iter()
                .copied()
                .take(ranks)
                .collect()
        };
        let step = u32::try_from((rounds + args.n + 1) * STEPS).unwrap_or_default();
        let until = self.deadline(self.nanoseconds(args.cycles));
        let areas = [row(0), row(1), row(2)];
        let all_reduce = AllReduceState {
            by,
            args,
            areas,
            step,
            stage: 0,
            until,
            ns: 0.0,
        };
        self.write_flags(&all_reduce)?;
        self.set_running(id, Running::AllReduce(Box::new(all_reduce)));
        self.continue_all_reduce(id)?;
        let running = self.streams.get_mut(&id).and_then(|s| s.running.take());
        Ok(running.map_or(StartOutcome::Done, StartOutcome::running))
    }

    /// Advances an all-reduce as far as the other ranks' flags allow.
    pub(super) fn continue_all_reduce(&mut self, id: StreamId) -> Result<()> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let Some(Running::AllReduce(mut all_reduce)) = stream.running.take() else {
            return Ok(());
        };
        let takes = loop {
            if let Some(peer) = self.missing_rank(&all_reduce)? {
                if self.host.clock() < all_reduce.until {
                    self.set_running(id, Running::AllReduce(all_reduce));
                    return Ok(());
                }
                let late = u64::from(all_reduce.step + all_reduce.stage) << 8 | (peer + 1);
                self.put_numbers(all_reduce.by, all_reduce.args.books + 8, &[late])?;
                break self.nanoseconds(all_reduce.args.cycles);
            }
            self.finish_stage(&mut all_reduce)?;
            if all_reduce.stage == 2 {
                let time = u64::try_from(Duration::from_secs_f64(all_reduce.ns / 1e9).as_nanos());
                let at = all_reduce.args.books + TIMES + all_reduce.args.n * 8;
                self.put_numbers(all_reduce.by, at, &[time.unwrap_or_default()])?;
                break all_reduce.ns + self.scenario.figures.local.launch_us * 1000.0;
            }
            all_reduce.stage = if all_reduce.args.two_shot {
                all_reduce.stage + 1
            } else {
                2
            };
            self.write_flags(&all_reduce)?;
            all_reduce.until = self.deadline(self.nanoseconds(all_reduce.args.cycles));
        };
        let route = Route::alone(takes, f64::INFINITY);
        self.set_running(
            id,
            Running::Moving {
                begins: self.now + takes,
                left: 0.0,
                route,
                effect: Effect::Nothing,
            },
        );
        Ok(())
    }

    /// Writes a rank's flag to all other ranks, unless faults lose it.
    fn write_flags(&mut self, all_reduce: &AllReduceState) -> Result<()> {
        let AllReduceState {
            by,
            args,
            areas: [signals, ..],
            ..
        } = all_reduce;
        let flag = (all_reduce.step + all_reduce.stage).to_le_bytes().to_vec();
        for (_, signals) in (0..).zip(signals).filter(|(rank, _)| *rank != args.rank) {
            let to = signals + u64::from(args.rank) * 4;
            let range = self.resolve(*by, to, 4, EngineKind::Sm)?;
            let (_, faults) = self.access(*by, &range, Way::Write, 4, [0, to]);
            if !faults.iter().any(loses) {
                self.memory
                    .write(range.spans(), &[(4, Some(Content::bytes(flag.clone())))]);
            }
        }
        Ok(())
    }

    /// The first rank whose flag has not arrived.
    fn missing_rank(&mut self, all_reduce: &AllReduceState) -> Result<Option<u64>> {
        let AllReduceState {
            by,
            args,
            areas: [signals, ..],
            ..
        } = all_reduce;
        let own = signals.get(args.rank as usize).copied().unwrap_or_default();
        let range = self.resolve(*by, own, 4 * MAX_RANKS, EngineKind::Sm)?;
        let flags = real(&self.memory.read(range.spans(), *by));
        let there = |flag: &[u8; 4]| {
            u32::from_le_bytes(*flag).wrapping_sub(all_reduce.step + all_reduce.stage)
                <= MAX_STEPS_AHEAD
        };
        let flags = (0..u64::from(args.ranks)).zip(flags.as_chunks::<4>().0);
        let mut absent = flags.filter(|(rank, flag)| *rank != u64::from(args.rank) && !there(flag));
        Ok(absent.next().map(|(rank, _)| rank))
    }

    /// What a rank does once all flags of a step have arrived.
    fn finish_stage(&mut self, all_reduce: &mut AllReduceState) -> Result<()> {
        let (by, args) = (all_reduce.by, all_reduce.args);
        let [_, inputs, sums] = all_reduce.areas.clone();
        let part = args.vectors.div_ceil(u64::from(args.ranks.max(1)));
        let length = |rank: u64| part.min(args.vectors.saturating_sub(rank * part)) * 16;
        let own = u64::from(args.rank);
        let to = match (args.two_shot, all_reduce.stage) {
            (false, 0) => args.out,
            (true, 0) => sums.get(args.rank as usize).copied().unwrap_or_default(),
            _ => args.out,
        };
        let flags = self.flag_latency(by, &inputs)?;
        let pieces = match (args.two_shot, all_reduce.stage) {
            (_, 0) => {
                let (at, bytes) = if args.two_shot {
                    (own * part * 16, length(own))
                } else {
                    (0, args.vectors * 16)
                };
                let read: Result<Vec<_>> = inputs
                    .iter()
                    .map(|input| self.read_from_rank(by, input + at, bytes, &mut all_reduce.ns))
                    .collect();
                sum_of(&read?)
            }
            (_, 1) => {
                let mut gathered = Vec::new();
                for (rank, sums) in (0..).zip(&sums) {
                    gathered.extend(self.read_from_rank(
                        by,
                        *sums,
                        length(rank),
                        &mut all_reduce.ns,
                    )?);
                }
                gathered
            }
            _ => Vec::new(),
        };
        all_reduce.ns += flags;
        let bytes = pieces.iter().map(|(n, _)| n).sum();
        if bytes > 0 {
            let range = self.resolve(by, to, bytes, EngineKind::Sm)?;
            self.memory.write(range.spans(), &pieces);
        }
        Ok(())
    }

    /// The latency of the flags of all ranks, in ns.
    fn flag_latency(&self, by: usize, inputs: &[u64]) -> Result<f64> {
        let mut most = 0.0_f64;
        for input in inputs {
            if let MemoryRange::Gpu { owner, .. } = self.resolve(by, *input, 16, EngineKind::Sm)?
                && owner != by
            {
                let late = self
                    .scenario
                    .faults(Kind::Late, owner, by)
                    .filter(|f| f.engine != Some(EngineKind::Ce));
                let late = late.filter_map(|f| f.rate).product::<f64>();
                most =
                    most.max(self.scenario.pair(by, owner).flag_us.of(owner, by) * 1000.0 * late);
            }
        }
        Ok(most)
    }

    /// What a kernel reads from a rank's memory; adds the time that this takes to `ns`.
    fn read_from_rank(
        &mut self,
        by: usize,
        address: u64,
        bytes: u64,
        ns: &mut f64,
    ) -> Result<Vec<Piece>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let range = self.resolve(by, address, bytes, EngineKind::Sm)?;
        let (route, faults) = self.access(by, &range, Way::Read, bytes, [address, 0]);
        *ns += bytes as f64 / route.flow.max_rate;
        let (old, faults): (Vec<_>, _) = faults.into_iter().partition(|f| f.kind == Kind::Stale);
        let from = Source::Spans(range.spans().to_vec());
        let pieces = self.seen(&Transfer {
            to: None,
            from,
            bytes,
            by,
            faults,
            way: Way::Read,
        });
        // The contents of the previous round.
        let before = |content| match content {
            Some(Content::Values(values, at)) => Some(Content::Values(
                values.from(0_u64.wrapping_sub(1 << PLACE_BITS)),
                at,
            )),
            _ => None,
        };
        let stale = |(n, content)| (n, before(content));
        Ok(if old.is_empty() {
            pieces
        } else {
            pieces.into_iter().map(stale).collect()
        })
    }

    /// Counts the words that differ from the sum of all ranks, and classifies them.
    pub(super) fn count_sums(
        &mut self,
        SumCheck {
            from,
            seed,
            ranks,
            first,
            out,
        }: SumCheck,
    ) -> Result<()> {
        let expected = values(seed, first, all_ranks(ranks));
        let mut found = [0, 0, 0, u64::MAX, 0, from.bytes / 4, 0];
        let (mut peers, mut sample, mut at) = (u64::MAX, None, 0);
        for (n, content) in whole_elements(&self.seen(&from), 4) {
            let words = n / 4;
            if !matches!(content, Content::Values(values, 0) if values == expected.from(at)) {
                let made = real(&[(n, Some(content))]);
                for (k, word) in (at..).zip(made.as_chunks::<4>().0) {
                    let (got, want) = (u32::from_le_bytes(*word), low(expected.at(k)));
                    if got == want {
                        continue;
                    }
                    let [zeros, stale, all_ones, bits] = classify(got, seed, ranks, first + k);
                    let [wrong, z, s, least, most, _, ones] = &mut found;
                    (*wrong, *z, *s, *ones) =
                        (*wrong + 1, *z + zeros, *s + stale, *ones + all_ones);
                    (*least, *most) = ((*least).min(first + k), (*most).max(first + k));
                    peers &= if bits > 0 { bits } else { peers };
                    sample.get_or_insert([1, first + k, u64::from(got), u64::from(want)]);
                }
            }
            at += words;
        }
        self.tally(from.by, out, found)?;
        let old = self.numbers(from.by, out + 48, 3)?;
        let [known, _, taken] = old[..] else {
            return Ok(());
        };
        self.put_numbers(from.by, out + 48, &[known & peers])?;
        match sample.filter(|_| taken == 0) {
            Some(sample) => self.put_numbers(from.by, out + 64, &sample),
            None => Ok(()),
        }
    }
}

/// Whether a fault loses a flag.
fn loses(fault: &Fault) -> bool {
    match fault.kind {
        Kind::Zeros | Kind::Stale | Kind::Mirror | Kind::Offset | Kind::Hang | Kind::Error => true,
        Kind::Victim => fault.instead,
        _ => false,
    }
}

fn low(n: u64) -> u32 {
    u32::try_from(n & 0xffff_ffff).unwrap_or_default()
}

/// The sum of all ranks' words: symbolically if all are complete inputs, else word by word.
fn sum_of(ranks: &[Vec<Piece>]) -> Vec<Piece> {
    let own = |pieces: &Vec<Piece>| match pieces.as_slice() {
        [(n, Some(Content::Values(values, 0)))] => Some((*n, *values)),
        _ => None,
    };
    let known: Option<Vec<_>> = ranks.iter().map(own).collect();
    let length = ranks
        .first()
        .map_or(0, |pieces| pieces.iter().map(|(n, _)| n).sum::<u64>());
    let symbolic = known.filter(|all| all.iter().all(|(n, _)| *n == length));
    let symbolic = symbolic.and_then(|all| {
        Values::reduced(
            &all.into_iter().map(|(_, v)| v).collect::<Vec<_>>(),
            ReduceOp::Sum,
        )
    });
    if let Some(sum) = symbolic {
        return vec![(length, Some(Content::Values(sum, 0)))];
    }
    let mut sum = vec![0_u32; usize::try_from(length / 4).unwrap_or_default()];
    for pieces in ranks {
        let bytes = real(&after(&cut(pieces, length), 0));
        for (slot, word) in sum.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *slot = slot.wrapping_add(u32::from_le_bytes(*word));
        }
    }
    vec![(
        length,
        Some(Content::bytes(
            sum.into_iter().flat_map(u32::to_le_bytes).collect(),
        )),
    )]
}

/// Classifies a wrong sum: whether the inputs of some ranks were replaced by zeros, by those of the previous round or by
/// all ones, and a bit for each of these ranks.
fn classify(found: u32, seed: u64, ranks: u32, i: u64) -> [u64; 4] {
    let before = i.wrapping_sub(1 << PLACE_BITS);
    let value = |origin, i| low(values(seed, i, origin).at(0));
    let (wanted, old) = (value(all_ranks(ranks), i), value(all_ranks(ranks), before));
    let mut why = [0; 4];
    let mut suspect = |instead: u32, others: [u32; 3], peers: u64| {
        let [zeros, stale, ones, bits] = &mut why;
        for (class, _) in [zeros, stale, ones]
            .into_iter()
            .zip(others)
            .filter(|(_, other)| *other == instead)
        {
            *class = 1;
            *bits |= peers;
        }
    };
    suspect(found, [0, old, u32::MAX], 0);
    for rank in 0..ranks {
        let (own, then) = (
            value(ValueOrigin::Rank(rank), i),
            value(ValueOrigin::Rank(rank), before),
        );
        suspect(
            found.wrapping_sub(wanted.wrapping_sub(own)),
            [0, then, u32::MAX],
            1 << rank,
        );
        if ranks > 2 {
            let others = [0, old.wrapping_sub(then), 1_u32.wrapping_sub(ranks)];
            suspect(
                found.wrapping_sub(own),
                others,
                (1 << ranks) - 1 - (1 << rank),
            );
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 7 << PLACE_BITS;

    fn input(rank: u32, first: u64) -> Vec<Piece> {
        vec![(
            64,
            Some(Content::Values(
                values(3, first, ValueOrigin::Rank(rank)),
                0,
            )),
        )]
    }

    fn words(pieces: &[Piece]) -> Vec<u32> {
        real(pieces)
            .as_chunks::<4>()
            .0
            .iter()
            .map(|w| u32::from_le_bytes(*w))
            .collect()
    }

    #[test]
    fn a_symbolic_sum_equals_the_sum_word_by_word() {
        let ranks: Vec<_> = (0..3).map(|rank| input(rank, FIRST)).collect();
        let unknown: Vec<_> = ranks
            .iter()
            .map(|p| vec![(64, Some(Content::bytes(real(p))))])
            .collect();
        let (symbolic, done) = (sum_of(&ranks), sum_of(&unknown));
        assert!(matches!(
            symbolic.as_slice(),
            [(64, Some(Content::Values(..)))]
        ));
        assert_eq!(words(&symbolic), words(&done));
    }

    #[test]
    fn a_wrong_sum_identifies_the_rank_and_its_replaced_input() {
        let of = |inputs: [Vec<Piece>; 3]| classify(words(&sum_of(&inputs))[0], 3, 3, FIRST);
        let right = |rank| input(rank, FIRST);
        let filled = |byte| vec![(64, Some(Content::Byte(byte)))];
        assert_eq!(of([right(0), filled(0), right(2)]), [1, 0, 0, 2]);
        assert_eq!(
            of([right(0), right(1), input(2, FIRST - (1 << PLACE_BITS))]),
            [0, 1, 0, 4]
        );
        assert_eq!(of([filled(0xff), right(1), filled(0xff)]), [0, 0, 1, 5]);
        assert_eq!(of([filled(0), filled(0), filled(0)])[0], 1);
    }
}
