//! The effects of completed work, and how faults change them.

use super::Engine;
use super::pages::{BatchCheck, TagTransfer};
use super::pingpong::PingPongResult;
use super::resolve::MemoryRange;
use super::stress::{Inversion, Products};
use crate::check::values;
use crate::check::{CheckPatterns, count};
use crate::content::Content;
use crate::extents::{Piece, after, bytes as real, cut};
use crate::kernel::Calls;
use crate::memory::Span;
use crate::scenario::{Engine as EngineKind, Fault, Kind, Way};
use crate::status::Result;
use crate::values::Values;

/// The source of data.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A GPU's memory.
    Spans(Vec<Span>),
    /// Host memory.
    Host { address: u64, pinned: bool },
    /// No memory: the content is generated.
    Content(Content),
}

/// A transfer in progress. Without `to`, a kernel only reads the data to check it.
#[derive(Debug)]
pub(super) struct Transfer {
    pub to: Option<MemoryRange>,
    pub from: Source,
    pub bytes: u64,
    pub by: usize,
    pub faults: Vec<Fault>,
    pub way: Way,
}

/// The effect of a piece of work on completion.
#[derive(Debug)]
pub(super) enum Effect {
    /// Nothing.
    Nothing,
    /// Moves data.
    Move(Transfer),
    /// Writes six numbers about data.
    Check {
        from: Transfer,
        wanted: CheckPatterns,
        out: u64,
    },
    /// Writes four of six numbers about values: `parts` runs of `count` elements for each call.
    CheckValues {
        from: Transfer,
        expected: Values,
        count: u64,
        parts: u64,
        calls: Calls,
        out: u64,
    },
    /// Moves the data of several copies of one launch.
    Batch(Vec<Transfer>),
    /// Writes tags into pages.
    Tag(Box<TagTransfer>),
    /// Writes six numbers about tags.
    CheckTags {
        tagged: Box<TagTransfer>,
        sentinel: u64,
        restore: bool,
        out: u64,
    },
    /// Writes six numbers about several copies.
    CheckBatch { check: BatchCheck, out: u64 },
    /// Writes a collective's results on one GPU: where, and what.
    WriteResults(Vec<(MemoryRange, Vec<Piece>)>),
    /// Increases a counter.
    Count {
        counter: u64,
        range: MemoryRange,
        add: u64,
        by: usize,
        faults: Vec<Fault>,
    },
    /// Writes the last pointer, and how long following them took.
    Chase {
        start: u64,
        steps: u64,
        out: u64,
        cycles: u64,
        by: usize,
        faults: Vec<Fault>,
    },
    /// Checks and inverts memory.
    March(Box<Inversion>),
    /// Writes sums of products.
    Products(Products),
    /// Writes the findings of a check of sums.
    CheckSums(Box<super::reduce::SumCheck>),
    /// Writes what one side of a ping-pong found.
    PingPong(Box<PingPongResult>),
}

impl Effect {
    /// The faults that it meets.
    pub(super) fn faults(&self) -> Vec<Fault> {
        match self {
            Self::Move(m) | Self::Check { from: m, .. } | Self::CheckValues { from: m, .. } => {
                m.faults.clone()
            }
            Self::CheckSums(sums) => sums.from.faults.clone(),
            Self::March(inversion) => inversion.from.faults.clone(),
            Self::Batch(all) => all.iter().flat_map(|m| m.faults.iter().cloned()).collect(),
            Self::Tag(tagged) | Self::CheckTags { tagged, .. } => tagged
                .faulty
                .values()
                .flat_map(|m| m.faults.iter().cloned())
                .collect(),
            Self::Count { faults, .. } | Self::Chase { faults, .. } => faults.clone(),
            Self::Nothing
            | Self::Products(_)
            | Self::PingPong(_)
            | Self::WriteResults(_)
            | Self::CheckBatch { .. } => Vec::new(),
        }
    }
}

/// Only stores of at least this size are hit at random: the tests' own bookkeeping is smaller.
const MIN_VICTIM_BYTES: u64 = 64 << 10;

impl Engine {
    /// Applies the effect of a piece of work.
    pub(super) fn finish(&mut self, effect: Effect) -> Result<()> {
        match effect {
            Effect::Nothing => Ok(()),
            Effect::Move(data) => self.arrive(&data),
            Effect::Check { from, wanted, out } => {
                let found = count(&self.seen(&from), &wanted);
                let n = [
                    found.bad,
                    found.zeros,
                    found.sentinels,
                    found.first,
                    found.last,
                    from.bytes / 4,
                    found.ones,
                ];
                self.tally(from.by, out, n)
            }
            Effect::CheckValues {
                from,
                expected,
                count,
                parts,
                calls,
                out,
            } => {
                let found = values::runs(self.seen(&from), &expected, count, parts, calls);
                let checked = count * parts * calls.count;
                let n = [
                    found.wrong,
                    found.zeros,
                    0,
                    found.first,
                    found.last,
                    checked,
                    found.ones,
                ];
                self.tally(from.by, out, n)
            }
            Effect::Batch(all) => all.iter().try_for_each(|one| self.arrive(one)),
            Effect::Tag(tagged) => self.write_tags(*tagged),
            Effect::CheckTags {
                tagged,
                sentinel,
                restore,
                out,
            } => self.count_tags(&tagged, sentinel, restore, out),
            Effect::CheckBatch { check, out } => self.count_batch(check, out),
            Effect::WriteResults(all) => {
                for (to, pieces) in all {
                    self.put(&to, &pieces);
                }
                Ok(())
            }
            Effect::Count {
                counter,
                range,
                add,
                by,
                faults,
            } => {
                let old = self
                    .numbers(by, counter, 1)?
                    .first()
                    .copied()
                    .unwrap_or_default();
                let content = Content::bytes(old.wrapping_add(add).to_le_bytes().to_vec());
                let from = Source::Content(content);
                self.arrive(&Transfer {
                    to: Some(range),
                    from,
                    bytes: 8,
                    by,
                    faults,
                    way: Way::Write,
                })
            }
            Effect::Chase {
                start,
                steps,
                out,
                cycles,
                by,
                faults,
            } => {
                let last = self.follow(by, start, steps, &faults)?;
                self.put_numbers(by, out, &[last, cycles])
            }
            Effect::March(inversion) => self.invert(*inversion),
            Effect::Products(products) => self.write_sums(products),
            Effect::CheckSums(sums) => self.count_sums(*sums),
            Effect::PingPong(found) => self.write_ping_pong(&found),
        }
    }

    /// Adds the findings of one launch of a check to the totals.
    pub(super) fn tally(&mut self, by: usize, out: u64, found: [u64; 7]) -> Result<()> {
        let old = self.numbers(by, out, 8)?;
        let [bad, zeros, sentinels, first, last, checked, bits, ones] = old[..] else {
            return Ok(());
        };
        let [b, z, s, f, l, n, o] = found;
        let sums = [
            bad + b,
            zeros + z,
            sentinels + s,
            first.min(f),
            last.max(l),
            checked + n,
            bits,
            ones + o,
        ];
        self.put_numbers(by, out, &sums)
    }

    /// Writes data to its target.
    fn put(&mut self, to: &MemoryRange, pieces: &[Piece]) {
        match to {
            MemoryRange::Host { address, pinned } => self.deliver(*address, pieces, *pinned),
            MemoryRange::Gpu { spans, .. } => self.memory.write(spans, pieces),
        }
    }

    /// Reads `n` numbers at an address.
    pub(super) fn numbers(&mut self, by: usize, address: u64, n: u64) -> Result<Vec<u64>> {
        let pieces = match self.resolve(by, address, n * 8, EngineKind::Sm)? {
            MemoryRange::Host { address, pinned } => self.fetch(address, n * 8, pinned),
            MemoryRange::Gpu { spans, .. } => self.memory.read(&spans, by),
        };
        let bytes = real(&pieces);
        Ok(bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b))
            .collect())
    }

    /// Writes numbers at an address.
    pub(super) fn put_numbers(&mut self, by: usize, address: u64, numbers: &[u64]) -> Result<()> {
        let bytes: Vec<_> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let n = bytes.len() as u64;
        match self.resolve(by, address, n, EngineKind::Sm)? {
            MemoryRange::Host { address, pinned } => {
                self.deliver(address, &[(n, Some(Content::bytes(bytes)))], pinned);
            }
            MemoryRange::Gpu { spans, .. } => self
                .memory
                .write(&spans, &[(n, Some(Content::bytes(bytes)))]),
        }
        Ok(())
    }

    /// What is read, after the effect of faults on the way.
    pub(super) fn seen(&mut self, data: &Transfer) -> Vec<Piece> {
        let shift = |f: &&Fault| f.kind == Kind::Offset && data.way == Way::Read;
        let further = data.faults.iter().find(shift).map_or(0, |f| f.bytes);
        let mut pieces = match &data.from {
            Source::Spans(spans) => {
                let moved = |s: &Span| Span {
                    offset: s.offset + further,
                    ..s.clone()
                };
                self.memory
                    .read(&spans.iter().map(moved).collect::<Vec<_>>(), data.by)
            }
            Source::Host { address, pinned } => self.fetch(*address, data.bytes, *pinned),
            Source::Content(content) => vec![(data.bytes, Some(content.clone()))],
        };
        for fault in &data.faults {
            pieces = match fault.kind {
                // If nothing arrives and there was nothing before, zeros are seen.
                Kind::Zeros => replaced(&pieces, data.affected_range(fault), Content::ZEROS),
                Kind::Ones => replaced(&pieces, data.affected_range(fault), Content::ONES),
                Kind::Stale if data.to.is_none() => {
                    replaced(&pieces, data.affected_range(fault), Content::ZEROS)
                }
                Kind::Partial => cut(&pieces, arriving(fault, data.bytes)),
                Kind::Flip => match fault.run {
                    None => flipped(&pieces, data.bytes / 2),
                    Some(run) => {
                        first_run(&pieces, run).map_or(pieces.clone(), |at| flipped(&pieces, at))
                    }
                },
                _ => pieces,
            };
        }
        pieces
    }

    /// Writes data to its target, or where faults redirect it.
    pub(super) fn arrive(&mut self, data: &Transfer) -> Result<()> {
        let mut pieces = self.seen(data);
        let Some(to) = &data.to else { return Ok(()) };
        let (mut lost, mut further, mut mirrored) = (false, 0, false);
        for fault in &data.faults {
            match fault.kind {
                Kind::Stale if fault.hole.is_some() => {
                    let old = self.memory.read(to.spans(), usize::MAX);
                    let (from, to) = data.affected_range(fault);
                    let kept = cut(&after(&old, from), to - from);
                    pieces = [cut(&pieces, from), kept, after(&pieces, to)].concat();
                }
                Kind::Stale => lost = true,
                Kind::Stray => self.write_stray(fault, &pieces),
                Kind::Offset if data.way == Way::Write => further = fault.bytes,
                Kind::Mirror if data.way == Way::Write => mirrored = true,
                Kind::Victim => {
                    self.overwrite_victim(fault, data, &pieces);
                    lost |= fault.instead;
                }
                _ => {}
            }
        }
        match to {
            _ if lost => {}
            MemoryRange::Host { address, pinned } => self.deliver(*address, &pieces, *pinned),
            MemoryRange::Gpu { spans, .. } if mirrored => self.mirror(spans, data.by, &pieces),
            MemoryRange::Gpu { spans, .. } => {
                let spans: Vec<_> = spans
                    .iter()
                    .map(|s| Span {
                        offset: s.offset + further,
                        ..s.clone()
                    })
                    .collect();
                self.memory.write(&spans, &pieces);
            }
        }
        Ok(())
    }

    /// Writes data so that only GPU `by` can read it.
    fn mirror(&mut self, spans: &[Span], by: usize, pieces: &[Piece]) {
        let mut pieces = pieces.to_vec();
        for span in spans {
            let Some(store) = self.memory.stores.get_mut(&span.store) else {
                return;
            };
            let mirror = store.mirrors.entry(by).or_default();
            let mut at = span.offset;
            for (n, content) in cut(&pieces, span.bytes) {
                mirror.write(at, n, content.unwrap_or(Content::ZEROS));
                at += n;
            }
            pieces = after(&pieces, span.bytes);
        }
    }

    /// Writes the beginning of data where a fault says, if any memory is allocated there.
    fn write_stray(&mut self, fault: &Fault, pieces: &[Piece]) {
        let hit = self.memory.at(fault.gpu.unwrap_or_default(), fault.at);
        let Some((store, mut at)) = hit else { return };
        let Some(store) = self.memory.stores.get_mut(&store) else {
            return;
        };
        for (n, content) in cut(pieces, if fault.bytes > 0 { fault.bytes } else { 4 }) {
            store.put(at, n, &content.unwrap_or(Content::ZEROS));
            at += n;
        }
    }

    /// Changes memory on a GPU that does not take part.
    fn overwrite_victim(&mut self, fault: &Fault, data: &Transfer, pieces: &[Piece]) {
        let Some(MemoryRange::Gpu { spans, owner, .. }) = &data.to else {
            return;
        };
        let Some(first) = spans.first() else { return };
        let source = if let Source::Spans(spans) = &data.from {
            spans.first().map(|s| s.owner)
        } else {
            None
        };
        let others =
            (0..self.gpus.len()).find(|g| g != owner && *g != data.by && Some(*g) != source);
        let victim = fault.gpu.or(others).unwrap_or(data.by);
        let pieces = if fault.bytes > 0 {
            cut(pieces, fault.bytes)
        } else {
            pieces.to_vec()
        };
        let bytes: u64 = pieces.iter().map(|(n, _)| n).sum();
        for store in self.memory.stores.values_mut() {
            if store.gpu != victim || store.bytes < MIN_VICTIM_BYTES {
                continue;
            }
            let fits = first.offset + bytes <= store.bytes;
            let mut at = if fits { first.offset } else { 0 };
            for (n, content) in cut(&pieces, store.bytes) {
                store.put(at, n, &content.unwrap_or(Content::ZEROS));
                at += n;
            }
        }
    }

    pub(super) fn fetch(&mut self, address: u64, bytes: u64, pinned: bool) -> Vec<Piece> {
        if pinned && let Some((_, memory)) = self.memory.pinned.range_mut(..=address).next_back() {
            return memory.read(self.host.as_mut(), address, bytes);
        }
        vec![(bytes, Some(Content::bytes(self.host.read(address, bytes))))]
    }

    fn deliver(&mut self, address: u64, pieces: &[Piece], pinned: bool) {
        if pinned && let Some((_, memory)) = self.memory.pinned.range_mut(..=address).next_back() {
            memory.write(self.host.as_mut(), address, pieces);
            return;
        }
        self.host.write(address, &real(pieces));
    }

    /// Makes host memory real before it is accessed; false if it already was.
    pub fn materialize(&mut self, address: u64) -> bool {
        let region = self.memory.pinned.range_mut(..=address).next_back();
        let Some((_, memory)) = region.filter(|(base, m)| address < *base + m.bytes) else {
            return false;
        };
        let closed = memory.is_closed(address);
        if closed {
            memory.materialize(self.host.as_mut(), address, 1);
        }
        closed
    }

    /// The address that `steps` pointers from `start` lead to.
    fn follow(&mut self, by: usize, start: u64, steps: u64, faults: &[Fault]) -> Result<u64> {
        if faults
            .iter()
            .any(|f| matches!(f.kind, Kind::Zeros | Kind::Stale))
        {
            return Ok(0);
        }
        if faults.iter().any(|f| f.kind == Kind::Ones) {
            return Ok(u64::MAX);
        }
        let mut here = start;
        let mut left = steps;
        while left > 0 {
            let range = self.resolve(by, here, 8, EngineKind::Sm)?;
            let pieces = self.memory.read(range.spans(), by);
            if let [(8, Some(Content::Ring(ring, at)))] = pieces.as_slice()
                && at.is_multiple_of(ring.stride)
                && ring.base + at == here
                && self.is_intact(by, ring.base, ring.stride * (ring.count - 1) + 8, ring)
            {
                let slot =
                    (u128::from(at / ring.stride) + u128::from(left)) % u128::from(ring.count);
                return Ok(ring.base + u64::try_from(slot).unwrap_or_default() * ring.stride);
            }
            here = self
                .numbers(by, here, 1)?
                .first()
                .copied()
                .unwrap_or_default();
            left -= 1;
        }
        Ok(here)
    }

    /// Whether the ring is there undamaged, so that it need not be followed.
    fn is_intact(&self, by: usize, base: u64, bytes: u64, ring: &crate::content::Ring) -> bool {
        let Ok(range) = self.resolve(by, base, bytes, EngineKind::Sm) else {
            return false;
        };
        let pieces = self.memory.read(range.spans(), by);
        matches!(pieces.as_slice(), [(_, Some(Content::Ring(found, 0)))] if found == ring)
    }
}

impl Transfer {
    /// The range of its bytes that a fault affects: those in the fault's hole, or all.
    fn affected_range(&self, fault: &Fault) -> (u64, u64) {
        let remote = match (&self.to, &self.from) {
            (Some(to), _) if self.way == Way::Write => to.spans().first(),
            (_, Source::Spans(spans)) => spans.first(),
            _ => None,
        };
        let (Some([from, to]), Some(span)) = (fault.hole, remote) else {
            return (0, self.bytes);
        };
        let inside = |at: u64| at.saturating_sub(span.physical).min(self.bytes);
        (inside(from), inside(to).max(inside(from)))
    }
}

/// The same pieces with other content in one range.
fn replaced(pieces: &[Piece], (from, to): (u64, u64), by: Content) -> Vec<Piece> {
    [
        cut(pieces, from),
        vec![(to - from, Some(by))],
        after(pieces, to),
    ]
    .concat()
}

/// How many bytes of a partial transfer arrive.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a size, rounded to words"
)]
pub(super) fn arriving(fault: &Fault, bytes: u64) -> u64 {
    let part = fault.rate.map_or(bytes, |r| {
        ((bytes as f64 * r.clamp(0.0, 1.0)) as u64).next_multiple_of(4)
    });
    let most = if fault.bytes > 0 { fault.bytes } else { bytes };
    part.min(most).min(bytes)
}

/// Where at least `run` equal bytes begin, one after the other. Words of the pattern never hold so many.
fn first_run(pieces: &[Piece], run: u64) -> Option<u64> {
    let (mut begin, mut length, mut last) = (0, 0, None);
    let mut at = 0;
    for (bytes, content) in pieces {
        let alike: Vec<(u64, Option<u8>)> = match content {
            Some(Content::Byte(byte)) => vec![(*bytes, Some(*byte))],
            Some(Content::Bytes(..)) => real(&[(*bytes, content.clone())])
                .into_iter()
                .map(|b| (1, Some(b)))
                .collect(),
            _ => vec![(*bytes, None)],
        };
        for (n, byte) in alike {
            if byte.is_none() || byte != last {
                (begin, length) = (at, 0);
            }
            last = byte;
            at += n;
            length += n;
            if byte.is_some() && length >= run {
                return Some(begin);
            }
        }
    }
    None
}

/// The same pieces with one bit of one byte flipped.
pub(super) fn flipped(pieces: &[Piece], at: u64) -> Vec<Piece> {
    let mut found = cut(pieces, at);
    let rest = after(pieces, at);
    let turned: Vec<_> = real(&cut(&rest, 1)).into_iter().map(|b| b ^ 0x10).collect();
    found.push((turned.len() as u64, Some(Content::bytes(turned))));
    found.extend(after(&rest, 1));
    found
}
