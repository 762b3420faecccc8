//! One peer goes over all places of one owner's buffer. Everything is written before anything is
//! looked at, so that two offsets that lead to the same memory give each other away.

use super::super::p2p_integrity::{Engine, Kind, Memory, Way};
use super::super::seat::Seat;
use super::places::{BYTES, Place};
use crate::gpu::{Buffer, Checked, Gpu, GpuError, Span};
use crate::pattern::{Nonces, origin, word};
use crate::schedule::Pair;
use crate::suite::Machine;
use std::time::Duration;

/// All places, over the slowest link.
const ACROSS: Duration = Duration::from_secs(6);
/// A GPU as peer and as owner.
pub(super) struct Local<'g> {
    pub(super) seat: Seat<'g>,
    /// What it sends, or what it gets.
    memory: Buffer,
}

/// A place with the patterns of one sweep.
#[derive(Debug, Clone, Copy)]
struct Marked {
    place: Place,
    data: u64,
    sentinel: u64,
    /// The number of the place's first word in both patterns.
    first: u64,
}

/// What is wrong at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missed {
    /// Offset of the place.
    pub(super) at: u64,
    /// Wrong words.
    pub(super) words: u64,
    /// Offset of the first of them.
    pub(super) first: u64,
    pub(super) what: Amiss,
    pub(super) found: Vec<u32>,
    pub(super) expected: Vec<u32>,
}

/// In which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amiss {
    /// Zeros are there.
    Zeros,
    /// What was there before.
    Stale,
    /// The data that belongs at that offset.
    Alias(u64),
    /// Something else.
    Other,
    /// The data is right, and a band beside it is not.
    Beside,
    /// Not every word was looked at.
    Unchecked,
}

impl<'g> Local<'g> {
    pub(super) fn new(gpu: &'g Gpu) -> Result<Self, GpuError> {
        Ok(Self { seat: Seat::new(gpu)?, memory: gpu.alloc(BYTES)? })
    }
}

/// A sweep of `peer` over the `places` of `owner`'s buffer; what is wrong afterwards.
pub(super) fn sweep(
    machine: &Machine,
    (local, owner): (&Local<'_>, &Seat<'_>),
    (buffer, places): (&Buffer, &[Place]),
    (engine, way): (Engine, Way),
) -> Result<Vec<Missed>, GpuError> {
    let peer = &local.seat;
    let pair = Pair { from: peer.gpu.ordinal, to: owner.gpu.ordinal };
    let kind = Kind { engine, way, memory: Memory::Plain };
    let doing = format!("{pair}: {kind} at {} places", places.len());
    let mut nonces = Nonces::new();
    let mark = |place: &Place| Marked {
        place: *place,
        data: nonces.next(),
        sentinel: nonces.next(),
        first: place.below / 4,
    };
    let marks: Vec<Marked> = places.iter().map(mark).collect();
    for mark in &marks {
        owner.stream.fill(mark.band(buffer)?, mark.sentinel, 0)?;
        if way == Way::Read {
            owner.stream.fill(mark.span(buffer)?, mark.data, mark.first)?;
        }
    }
    owner.wait()?;
    machine.doing(&doing);
    let mut missed = Vec::new();
    for mark in &marks {
        let (near, far) = (local.memory.whole(), mark.span(buffer)?);
        let (to, from) = if way == Way::Write { (far, near) } else { (near, far) };
        let seed = if way == Way::Write { mark.data } else { mark.sentinel };
        peer.stream.fill(near, seed, mark.first)?;
        match engine {
            Engine::Sm => peer.stream.copy_sm(to, from)?,
            Engine::Copy | Engine::Staged => peer.stream.copy(to, from)?,
        }
        if way == Way::Read {
            let [tally, ..] = &peer.tallies;
            peer.stream.check(near, mark.first, mark.data, mark.sentinel, tally)?;
            peer.stream.finish(&doing, ACROSS)?;
            missed.extend(look(peer, near, mark, &marks, tally.checked())?);
        }
    }
    peer.stream.finish(&doing, ACROSS)?;
    if way == Way::Write {
        for mark in &marks {
            missed.extend(arrived(owner, buffer, mark, &marks)?);
        }
    }
    Ok(missed)
}

impl Marked {
    fn span(&self, buffer: &Buffer) -> Result<Span, GpuError> {
        buffer.span(self.place.at, BYTES)
    }

    /// The place and the bands beside it.
    fn band(&self, buffer: &Buffer) -> Result<Span, GpuError> {
        let Place { at, below, above } = self.place;
        buffer.span(at - below, below + BYTES + above)
    }
}

/// The owner looks at a place and the bands beside it.
fn arrived(
    owner: &Seat<'_>,
    buffer: &Buffer,
    mark: &Marked,
    marks: &[Marked],
) -> Result<Option<Missed>, GpuError> {
    let Place { at, below, above } = mark.place;
    let [data, before, behind] = &owner.tallies;
    owner.stream.check(mark.span(buffer)?, mark.first, mark.data, mark.sentinel, data)?;
    let bands = [(at - below, below, 0, before), (at + BYTES, above, (below + BYTES) / 4, behind)];
    for (from, bytes, first, tally) in bands.into_iter().filter(|band| band.1 > 0) {
        owner.stream.check(buffer.span(from, bytes)?, first, mark.sentinel, mark.data, tally)?;
    }
    owner.wait()?;
    let missed = look(owner, mark.span(buffer)?, mark, marks, data.checked())?;
    // There is no band before the buffer's start and behind its end.
    let said = [(below, before), (above, behind)].into_iter().filter(|band| band.0 > 0);
    let said: Vec<_> = said.map(|(bytes, tally)| (bytes / 4, tally.checked())).collect();
    let beside = said.iter().any(|(words, said)| said.wrong > 0 || said.looked != *words);
    let words = said.iter().map(|(_, said)| said.wrong).sum();
    let told = || Missed { at, words, first: at, what: Amiss::Beside, found: vec![], expected: vec![] };
    Ok(missed.or_else(|| beside.then(told)))
}

/// What a check of a place's words came to.
fn look(
    at: &Seat<'_>,
    span: Span,
    mark: &Marked,
    marks: &[Marked],
    said: Checked,
) -> Result<Option<Missed>, GpuError> {
    let Some(place) = said.first else {
        let what = Amiss::Unchecked;
        let missed = Missed {
            at: mark.place.at,
            words: 0,
            first: mark.place.at,
            what,
            found: vec![],
            expected: vec![],
        };
        return Ok((said.looked != BYTES / 4).then_some(missed));
    };
    let found = at.sample(span, place)?;
    let expected = (mark.first + place..).take(found.len()).map(|i| word(mark.data, i)).collect();
    let what = match marks.iter().find_map(|other| belongs(&found, other)) {
        Some(meant) => Amiss::Alias(meant),
        None if said.zeros == said.wrong => Amiss::Zeros,
        None if said.sentinels == said.wrong => Amiss::Stale,
        None => Amiss::Other,
    };
    Ok(Some(Missed {
        at: mark.place.at,
        words: said.wrong,
        first: mark.place.at + place * 4,
        what,
        found,
        expected,
    }))
}

/// The offset at which words that were found belong, where they are that place's.
fn belongs(found: &[u32], other: &Marked) -> Option<u64> {
    let begin = origin(found, other.data, &(other.first..other.first + BYTES / 4))?;
    Some(other.place.at + (begin - other.first) * 4)
}
