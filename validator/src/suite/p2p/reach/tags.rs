//! Tags in every page: written by peers and checked by the owner, then the other way round. All pairs work at
//! the same time, each in its own part of a page.

use super::held;
use super::judge::{Results, TagFault, TagSweep, WrongPage};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::shared::held_memory::HeldMemory;
use crate::suite::shared::transfer::{Direction, Engine, Memory, TransferKind};
use gpu::pattern::{Counts, Nonces, origin, word};
use gpu::{GpuError, Pages, TAG, Tags};
use machine::GpuId;
use std::time::Duration;

/// The time limit for a tag in each of 70 thousand pages, which takes milliseconds.
const ACROSS: Duration = Duration::from_secs(8);

/// The tags that one pair writes or reads, one in every page of `1 << shift` bytes.
#[derive(Debug, Clone, Copy)]
struct PairTags {
    pair: Pair,
    tags: Tags,
    nonce: u64,
    shift: u32,
}

/// Every peer writes a tag into every page of its owners, which check them.
pub(super) fn peers_write(
    context: &TestContext,
    memories: &[HeldMemory<'_>],
    pairs: &[Pair],
    (shift, nonces): (u32, &mut Nonces),
    results: &mut Results,
) -> Result<(), GpuError> {
    let nonce = nonces.next();
    let mut all_tags = Vec::new();
    for pair in pairs {
        let sentinel = held(memories, pair.to)?.seed();
        let tags = Tags {
            writer: pair.from.index() as u64,
            seed: nonces.next(),
            sentinel,
        };
        all_tags.push(PairTags {
            pair: *pair,
            tags,
            nonce,
            shift,
        });
    }
    let doing = format!("{} pairs write into every page", pairs.len());
    context.doing(doing.as_str());
    for pair_tags in &all_tags {
        let (peer, owner) = (
            held(memories, pair_tags.pair.from)?,
            held(memories, pair_tags.pair.to)?,
        );
        for chunk in owner.chunks() {
            peer.stream
                .tag(&chunk.pages(shift, nonce), &pair_tags.tags)?;
        }
    }
    for peer in memories {
        peer.stream.finish(&doing, ACROSS)?;
    }
    context.doing("owners check the tags in every page");
    for wave in waves(&all_tags, |pair| pair.to) {
        for pair_tags in &wave {
            start_check(
                held(memories, pair_tags.pair.to)?,
                held(memories, pair_tags.pair.to)?,
                pair_tags,
                true,
            )?;
        }
        for pair_tags in &wave {
            let owner = held(memories, pair_tags.pair.to)?;
            let counts = finish_check(owner)?;
            let wrong_page = find_wrong_page(owner, pair_tags, &all_tags, &counts)?;
            results.sweeps.push(tag_sweep(
                owner,
                pair_tags,
                Direction::Write,
                counts,
                wrong_page,
            ));
            if counts.wrong > 0 {
                // This fault is recorded; the last pass must find only other faults.
                owner
                    .chunks()
                    .iter()
                    .try_for_each(|chunk| owner.restore(*chunk.span()))?;
                owner.wait()?;
                rewrite_tags(owner, pair_tags, &all_tags)?;
            }
        }
    }
    Ok(())
}

/// Writes the tags of other peers that are not checked yet again, because restoring the pattern removed them.
fn rewrite_tags(
    owner: &HeldMemory<'_>,
    done: &PairTags,
    all_tags: &[PairTags],
) -> Result<(), GpuError> {
    let of = |pair_tags: &&PairTags| {
        pair_tags.pair.to == done.pair.to && pair_tags.pair.from > done.pair.from
    };
    for pair_tags in all_tags.iter().filter(of) {
        for chunk in owner.chunks() {
            owner.stream.tag(
                &chunk.pages(pair_tags.shift, pair_tags.nonce),
                &pair_tags.tags,
            )?;
        }
    }
    owner.wait()
}

/// Every peer reads and checks the tags that owners wrote into every page.
pub(super) fn peers_read(
    context: &TestContext,
    memories: &[HeldMemory<'_>],
    pairs: &[Pair],
    (shift, nonces): (u32, &mut Nonces),
    results: &mut Results,
) -> Result<(), GpuError> {
    let nonce = nonces.next();
    let seeds: Vec<u64> = memories.iter().map(|_| nonces.next()).collect();
    let tags = |gpu: GpuId| -> Result<Tags, GpuError> {
        let seed = seeds.get(gpu.index()).copied().unwrap_or_default();
        Ok(Tags {
            writer: gpu.index() as u64,
            seed,
            sentinel: held(memories, gpu)?.seed(),
        })
    };
    for (gpu, owner) in GpuId::each(memories) {
        for chunk in owner.chunks() {
            owner.stream.tag(&chunk.pages(shift, nonce), &tags(gpu)?)?;
        }
    }
    memories.iter().try_for_each(HeldMemory::wait)?;
    let mut all_tags = Vec::new();
    for pair in pairs {
        all_tags.push(PairTags {
            pair: *pair,
            tags: tags(pair.to)?,
            nonce,
            shift,
        });
    }
    context.doing(format!("{} pairs read every page", pairs.len()));
    for wave in waves(&all_tags, |pair| pair.from) {
        for pair_tags in &wave {
            start_check(
                held(memories, pair_tags.pair.from)?,
                held(memories, pair_tags.pair.to)?,
                pair_tags,
                false,
            )?;
        }
        for pair_tags in &wave {
            let counts = finish_check(held(memories, pair_tags.pair.from)?)?;
            let owner = held(memories, pair_tags.pair.to)?;
            let what = common_fault(&counts).unwrap_or(TagFault::Other);
            let wrong_page = (counts.wrong > 0).then(|| WrongPage {
                at: counts.first.unwrap_or_default() << shift,
                what,
                found: Vec::new(),
                expected: Vec::new(),
            });
            results.sweeps.push(tag_sweep(
                owner,
                pair_tags,
                Direction::Read,
                counts,
                wrong_page,
            ));
        }
    }
    for (gpu, owner) in GpuId::each(memories) {
        let pair_tags = PairTags {
            pair: Pair::new(gpu, gpu),
            tags: tags(gpu)?,
            nonce,
            shift,
        };
        start_check(owner, owner, &pair_tags, true)?;
    }
    memories.iter().try_for_each(HeldMemory::wait)
}

/// Tags in waves in which each checking GPU occurs at most once, because it has only one tally.
fn waves(all_tags: &[PairTags], who: impl Fn(Pair) -> GpuId) -> Vec<Vec<PairTags>> {
    let mut waves: Vec<Vec<PairTags>> = Vec::new();
    for pair_tags in all_tags {
        let same = |other: &PairTags| who(other.pair) == who(pair_tags.pair);
        match waves.iter_mut().find(|wave| !wave.iter().any(same)) {
            Some(wave) => wave.push(*pair_tags),
            None => waves.push(vec![*pair_tags]),
        }
    }
    waves
}

/// Starts the check of the tags in a GPU's memory, by another GPU or by itself.
fn start_check(
    by: &HeldMemory<'_>,
    owner: &HeldMemory<'_>,
    pair_tags: &PairTags,
    restore: bool,
) -> Result<(), GpuError> {
    by.tally.begin(&by.stream)?;
    for chunk in owner.chunks() {
        let pages = chunk.pages(pair_tags.shift, pair_tags.nonce);
        by.stream
            .check_tags(&pages, &pair_tags.tags, restore, &by.tally)?;
    }
    by.tally.end(&by.stream)
}

fn finish_check(by: &HeldMemory<'_>) -> Result<Counts, GpuError> {
    by.wait()?;
    Ok(by.tally.checked().into())
}

fn tag_sweep(
    owner: &HeldMemory<'_>,
    pair_tags: &PairTags,
    direction: Direction,
    counts: Counts,
    wrong_page: Option<WrongPage>,
) -> TagSweep {
    let pages = owner
        .chunks()
        .iter()
        .map(|chunk| chunk.pages(pair_tags.shift, pair_tags.nonce).count())
        .sum();
    let kind = TransferKind {
        engine: Engine::Sm,
        direction,
        memory: Memory::Plain,
    };
    TagSweep {
        pair: pair_tags.pair,
        kind,
        pages,
        page: 1 << pair_tags.shift,
        counts,
        wrong_page,
    }
}

/// The kind of fault, if it is the same for all wrong tags.
fn common_fault(counts: &Counts) -> Option<TagFault> {
    match counts.wrong {
        n if n == counts.zeros => Some(TagFault::Zeros),
        n if n == counts.ones => Some(TagFault::Ones),
        n if n == counts.sentinels => Some(TagFault::Stale),
        _ => None,
    }
}

/// Fetches the first page with a wrong tag, and classifies its fault.
fn find_wrong_page(
    owner: &HeldMemory<'_>,
    pair_tags: &PairTags,
    all_tags: &[PairTags],
    counts: &Counts,
) -> Result<Option<WrongPage>, GpuError> {
    let Some(page) = counts.first else {
        return Ok(None);
    };
    let at = page << pair_tags.shift;
    let mut all = owner
        .chunks()
        .iter()
        .map(|chunk| chunk.pages(pair_tags.shift, pair_tags.nonce));
    let of = |pages: &Pages<'_>| (pages.first..pages.first + pages.count()).contains(&page);
    let Some(pages) = all.find(of) else {
        return Ok(None);
    };
    let place = pages
        .span
        .part(pages.place(page, pair_tags.tags.writer), TAG)?;
    let found = owner.words(place, 0)?;
    let expected = (page * 4..page * 4 + 4)
        .map(|i| word(pair_tags.tags.seed, i))
        .collect();
    let page_of = |other: &PairTags| Some(origin(&found, other.tags.seed, &(0..u64::MAX))? / 4);
    let to = |other: &&PairTags| other.pair.to == pair_tags.pair.to;
    let foreign = || {
        let others = all_tags
            .iter()
            .filter(|other| other.pair.to != pair_tags.pair.to || other.pair != pair_tags.pair);
        others
            .filter(|o| o.pair != pair_tags.pair)
            .find_map(|o| page_of(o).map(|_| TagFault::Foreign(o.pair)))
    };
    let own = all_tags
        .iter()
        .filter(to)
        .find(|other| other.pair == pair_tags.pair)
        .and_then(page_of);
    let what = own
        .map(|page| TagFault::Alias(page << pair_tags.shift))
        .or_else(|| common_fault(counts))
        .or_else(foreign)
        .unwrap_or(TagFault::Other);
    Ok(Some(WrongPage {
        at,
        what,
        found,
        expected,
    }))
}
