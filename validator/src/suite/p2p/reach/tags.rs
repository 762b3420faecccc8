//! Tags in every page: written by peers and checked by the owner, then the other way round. All pairs work at
//! the same time, each in its own part of a page.

use super::judge::{Missed, Results, Swept, TagFault};
use super::plot;
use crate::gpu::pattern::{Counts, Nonces, origin, word};
use crate::gpu::{GpuError, Pages, TAG, Tags};
use crate::machine::GpuId;
use crate::schedule::Pair;
use crate::suite::Machine;
use crate::suite::shared::plot::Plot;
use crate::suite::shared::transfer::{Engine, Kind, Memory, Way};
use std::time::Duration;

/// A tag in each of 70 thousand pages takes milliseconds.
const ACROSS: Duration = Duration::from_secs(8);

/// One pair's tags.
#[derive(Debug, Clone, Copy)]
struct Round {
    pair: Pair,
    tags: Tags,
    nonce: u64,
    shift: u32,
}

/// Every peer writes into every page of its owners.
pub(super) fn written(
    machine: &Machine,
    plots: &[Plot<'_>],
    pairs: &[Pair],
    (shift, nonces): (u32, &mut Nonces),
    results: &mut Results,
) -> Result<(), GpuError> {
    let nonce = nonces.next();
    let mut rounds = Vec::new();
    for pair in pairs {
        let sentinel = plot(plots, pair.to)?.seed();
        let tags = Tags { writer: pair.from.index() as u64, seed: nonces.next(), sentinel };
        rounds.push(Round { pair: *pair, tags, nonce, shift });
    }
    let doing = format!("{} pairs write into every page", pairs.len());
    machine.doing(&doing);
    for round in &rounds {
        let (peer, owner) = (plot(plots, round.pair.from)?, plot(plots, round.pair.to)?);
        for chunk in owner.chunks() {
            peer.stream.tag(&chunk.pages(shift, nonce), &round.tags)?;
        }
    }
    for peer in plots {
        peer.stream.finish(&doing, ACROSS)?;
    }
    machine.doing("owners check the tags in every page");
    for wave in waves(&rounds, |pair| pair.to) {
        for round in &wave {
            ask(plot(plots, round.pair.to)?, plot(plots, round.pair.to)?, round, true)?;
        }
        for round in &wave {
            let owner = plot(plots, round.pair.to)?;
            let counts = counted(owner)?;
            let missed = closer(owner, round, &rounds, &counts)?;
            results.swept.push(swept(owner, round, Way::Write, counts, missed));
            if counts.wrong > 0 {
                // This fault is recorded; the last pass must find only other faults.
                owner.chunks().iter().try_for_each(|chunk| owner.mend(*chunk.span()))?;
                owner.wait()?;
                relay(owner, round, &rounds)?;
            }
        }
    }
    Ok(())
}

/// Restores the tags of other peers that are not checked yet, which mending removed.
fn relay(owner: &Plot<'_>, done: &Round, rounds: &[Round]) -> Result<(), GpuError> {
    let of = |round: &&Round| round.pair.to == done.pair.to && round.pair.from > done.pair.from;
    for round in rounds.iter().filter(of) {
        for chunk in owner.chunks() {
            owner.stream.tag(&chunk.pages(round.shift, round.nonce), &round.tags)?;
        }
    }
    owner.wait()
}

/// Every peer reads what owners wrote into every page.
pub(super) fn read(
    machine: &Machine,
    plots: &[Plot<'_>],
    pairs: &[Pair],
    (shift, nonces): (u32, &mut Nonces),
    results: &mut Results,
) -> Result<(), GpuError> {
    let nonce = nonces.next();
    let seeds: Vec<u64> = plots.iter().map(|_| nonces.next()).collect();
    let tags = |gpu: GpuId| -> Result<Tags, GpuError> {
        let seed = seeds.get(gpu.index()).copied().unwrap_or_default();
        Ok(Tags { writer: gpu.index() as u64, seed, sentinel: plot(plots, gpu)?.seed() })
    };
    for (gpu, owner) in GpuId::each(plots) {
        for chunk in owner.chunks() {
            owner.stream.tag(&chunk.pages(shift, nonce), &tags(gpu)?)?;
        }
    }
    plots.iter().try_for_each(Plot::wait)?;
    let mut rounds = Vec::new();
    for pair in pairs {
        rounds.push(Round { pair: *pair, tags: tags(pair.to)?, nonce, shift });
    }
    machine.doing(&format!("{} pairs read every page", pairs.len()));
    for wave in waves(&rounds, |pair| pair.from) {
        for round in &wave {
            ask(plot(plots, round.pair.from)?, plot(plots, round.pair.to)?, round, false)?;
        }
        for round in &wave {
            let counts = counted(plot(plots, round.pair.from)?)?;
            let owner = plot(plots, round.pair.to)?;
            let what = sort(&counts).unwrap_or(TagFault::Other);
            let missed = (counts.wrong > 0).then(|| Missed {
                at: counts.first.unwrap_or_default() << shift,
                what,
                found: Vec::new(),
                expected: Vec::new(),
            });
            results.swept.push(swept(owner, round, Way::Read, counts, missed));
        }
    }
    for (gpu, owner) in GpuId::each(plots) {
        let round = Round { pair: Pair::new(gpu, gpu), tags: tags(gpu)?, nonce, shift };
        ask(owner, owner, &round, true)?;
    }
    plots.iter().try_for_each(Plot::wait)
}

/// Rounds in waves in which each checking GPU occurs at most once.
fn waves(rounds: &[Round], who: impl Fn(Pair) -> GpuId) -> Vec<Vec<Round>> {
    let mut waves: Vec<Vec<Round>> = Vec::new();
    for round in rounds {
        let same = |other: &Round| who(other.pair) == who(round.pair);
        match waves.iter_mut().find(|wave| !wave.iter().any(same)) {
            Some(wave) => wave.push(*round),
            None => waves.push(vec![*round]),
        }
    }
    waves
}

/// Starts the check of the tags in a GPU's memory, by another GPU or by itself.
fn ask(by: &Plot<'_>, owner: &Plot<'_>, round: &Round, restore: bool) -> Result<(), GpuError> {
    by.tally.begin(&by.stream)?;
    for chunk in owner.chunks() {
        let pages = chunk.pages(round.shift, round.nonce);
        by.stream.check_tags(&pages, &round.tags, restore, &by.tally)?;
    }
    by.tally.end(&by.stream)
}

fn counted(by: &Plot<'_>) -> Result<Counts, GpuError> {
    by.wait()?;
    Ok(by.tally.checked().into())
}

fn swept(owner: &Plot<'_>, round: &Round, way: Way, counts: Counts, missed: Option<Missed>) -> Swept {
    let pages = owner.chunks().iter().map(|chunk| chunk.pages(round.shift, round.nonce).count()).sum();
    let kind = Kind { engine: Engine::Sm, way, memory: Memory::Plain };
    Swept { pair: round.pair, kind, pages, page: 1 << round.shift, counts, missed }
}

/// The kind of fault, where all missing tags have the same.
fn sort(counts: &Counts) -> Option<TagFault> {
    match counts.wrong {
        n if n == counts.zeros => Some(TagFault::Zeros),
        n if n == counts.ones => Some(TagFault::Ones),
        n if n == counts.sentinels => Some(TagFault::Stale),
        _ => None,
    }
}

/// A closer look at the first page with a wrong tag.
fn closer(
    owner: &Plot<'_>,
    round: &Round,
    rounds: &[Round],
    counts: &Counts,
) -> Result<Option<Missed>, GpuError> {
    let Some(page) = counts.first else { return Ok(None) };
    let at = page << round.shift;
    let mut all = owner.chunks().iter().map(|chunk| chunk.pages(round.shift, round.nonce));
    let of = |pages: &Pages<'_>| (pages.first..pages.first + pages.count()).contains(&page);
    let Some(pages) = all.find(of) else { return Ok(None) };
    let place = pages.span.part(pages.place(page, round.tags.writer), TAG)?;
    let found = owner.words(place, 0)?;
    let expected = (page * 4..page * 4 + 4).map(|i| word(round.tags.seed, i)).collect();
    let page_of = |other: &Round| Some(origin(&found, other.tags.seed, &(0..u64::MAX))? / 4);
    let to = |other: &&Round| other.pair.to == round.pair.to;
    let foreign = || {
        let others = rounds.iter().filter(|other| other.pair.to != round.pair.to || other.pair != round.pair);
        others.filter(|o| o.pair != round.pair).find_map(|o| page_of(o).map(|_| TagFault::Foreign(o.pair)))
    };
    let own = rounds.iter().filter(to).find(|other| other.pair == round.pair).and_then(page_of);
    let what = own
        .map(|page| TagFault::Alias(page << round.shift))
        .or_else(|| sort(counts))
        .or_else(foreign)
        .unwrap_or(TagFault::Other);
    Ok(Some(Missed { at, what, found, expected }))
}
