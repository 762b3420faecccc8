//! Stress work for a GPU: moving inversions over its memory, with stuck bits, and matrix products, with one wrong result in
//! `every`.

use super::Engine;
use super::begin::StartOutcome;
use super::finish::{Effect, Source, Transfer};
use crate::check::{CheckPatterns, Counts, count};
use crate::content::Content;
use crate::links::Route;
use crate::memory::Span;
use crate::pattern::{Pattern, word};
use crate::scenario::{Engine as EngineKind, Kind};
use crate::status::Result;

/// The bit that fault `stuck` forces to one.
const STUCK: u32 = 0x10;
/// Products of two numbers that a block computes in one batch: 128 x 128 elements of 1024 products each.
pub(super) const BATCH: u64 = 128 * 128 * 1024;
/// Threads of a block of products.
const THREADS: u64 = 256;
/// Products of two numbers per nanosecond on one GPU.
const RATE: f64 = 300_000.0;

/// One step of moving inversions.
#[derive(Debug)]
pub(super) struct Inversion {
    pub from: Transfer,
    pub wanted: CheckPatterns,
    pub out: u64,
}

/// One launch of products.
#[derive(Debug)]
pub(super) struct Products {
    pub by: usize,
    pub blocks: u64,
    /// The correct sum of each block, and the number of products in it.
    pub sum: u64,
    pub each: u64,
    pub out: u64,
}

impl Engine {
    pub(super) fn march(
        &mut self,
        by: usize,
        (memory, vectors): (u64, u64),
        wanted: CheckPatterns,
        out: u64,
    ) -> Result<StartOutcome> {
        self.resolve(by, out, 64, EngineKind::Sm)?;
        let bytes = vectors * 16;
        let (route, from) = self.check_source(by, memory, bytes)?;
        self.moving(
            route,
            bytes * 2,
            Effect::March(Box::new(Inversion { from, wanted, out })),
        )
    }

    pub(super) fn invert(&mut self, Inversion { from, wanted, out }: Inversion) -> Result<()> {
        let mut found = count(&self.seen(&from), &wanted);
        let Source::Spans(spans) = &from.from else {
            return Ok(());
        };
        let mut bits = if found.bad > 0 {
            u64::from(u32::MAX)
        } else {
            0
        };
        for at in self.stuck_words(from.by, spans) {
            let right = wanted.expected.at(at);
            if right & STUCK == 0 {
                bits |= u64::from(STUCK);
                let (first, last) = (found.first.min(at), found.last.max(at));
                found = Counts {
                    bad: found.bad + 1,
                    first,
                    last,
                    ..found
                };
            }
        }
        let n = [
            found.bad,
            found.zeros,
            found.sentinels,
            found.first,
            found.last,
            from.bytes / 4,
            found.ones,
        ];
        self.tally(from.by, out, n)?;
        let old = self
            .numbers(from.by, out + 48, 1)?
            .first()
            .copied()
            .unwrap_or_default();
        self.put_numbers(from.by, out + 48, &[old | bits])?;
        // A step writes what the next one must find, which is the counts' sentinel.
        self.memory.write(
            spans,
            &[(from.bytes, Some(Content::Pattern(wanted.sentinel, 0)))],
        );
        Ok(())
    }

    /// Indices of the words in a stretch of a GPU's memory that have a stuck bit.
    fn stuck_words(&self, gpu: usize, spans: &[Span]) -> Vec<u64> {
        let faults = self
            .scenario
            .fault
            .iter()
            .filter(|f| f.kind == Kind::Stuck && f.gpu == Some(gpu));
        let mut words = Vec::new();
        for fault in faults {
            let mut before = 0;
            for span in spans {
                let inside = fault
                    .at
                    .checked_sub(span.physical)
                    .filter(|at| *at < span.bytes);
                words.extend(inside.map(|at| (before + at) / 4));
                before += span.bytes;
            }
        }
        words
    }

    pub(super) fn products(
        &mut self,
        by: usize,
        (seed, batches, times): (u64, u64, u64),
        threads: u64,
        out: u64,
    ) -> Result<StartOutcome> {
        let blocks = threads / THREADS;
        self.resolve(by, out, blocks * 16, EngineKind::Sm)?;
        let sum = self.sum_of(seed, batches).wrapping_mul(times);
        let each = batches * times * BATCH;
        let takes = (blocks * each) as f64 / RATE;
        let effect = Effect::Products(Products {
            by,
            blocks,
            sum,
            each,
            out,
        });
        self.moving(Route::alone(takes, f64::INFINITY), 8, effect)
    }

    pub(super) fn write_sums(
        &mut self,
        Products {
            by,
            blocks,
            sum,
            each,
            out,
        }: Products,
    ) -> Result<()> {
        let wrong = self.faults.wrong_product(&self.scenario, by, blocks * each);
        let number = |block: u64| {
            [
                if wrong && block == blocks / 2 {
                    sum ^ 1
                } else {
                    sum
                },
                block / 2,
            ]
        };
        let numbers: Vec<u64> = (0..blocks).flat_map(number).collect();
        self.put_numbers(by, out, &numbers)
    }

    /// The sum of all batches; the last one is cached, since programs launch the same ones again and again.
    fn sum_of(&mut self, seed: u64, batches: u64) -> u64 {
        match self.cached_sum {
            Some((known, of, sum)) if (known, of) == (seed, batches) => sum,
            _ => {
                let sum = (0..batches).fold(0_u64, |sum, n| {
                    sum.wrapping_add(batch_sum(seed.wrapping_add(n)))
                });
                self.cached_sum = Some((seed, batches, sum));
                sum
            }
        }
    }
}

/// The sum of one batch: A has 128 rows of 64 numbers, B 128 columns of 64. In 16 turns over 16 rows each, every element
/// of the result accumulates the rows whose number is congruent to its own modulo 16, each of them twice.
fn batch_sum(seed: u64) -> u64 {
    let number = |n: u64| match (word(seed, n / 4) >> (n % 4 * 8)) & 0xff {
        128 => 0_i64,
        byte if byte > 128 => i64::from(byte) - 256,
        byte => i64::from(byte),
    };
    let a: Vec<i64> = (0..128 * 64).map(number).collect();
    let b: Vec<i64> = (128 * 64..2 * 128 * 64).map(number).collect();
    let row = |i: usize| -> Vec<i64> {
        (0..64)
            .map(|k| a.iter().skip(i * 64 + k).step_by(16 * 64).sum::<i64>() * 2)
            .collect()
    };
    let mut sum = 0_u64;
    for row in (0..16).map(row) {
        for column in b.chunks(64) {
            let element: i64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
            let low = u32::try_from(element & 0xffff_ffff).unwrap_or_default();
            let mixed = low.wrapping_mul(0x9E37_79B1);
            sum = sum.wrapping_add(u64::from(mixed ^ (mixed >> 15)) * 8);
        }
    }
    sum
}

/// What a step of moving inversions must find, and what it writes.
pub(super) fn inverted(seed: u64, first: u64, before: u32, after: u32) -> CheckPatterns {
    let pattern = |flip| Pattern { seed, first, flip };
    CheckPatterns {
        expected: pattern(before),
        sentinel: pattern(after),
    }
}
