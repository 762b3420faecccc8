//! Does peer access reach all of a GPU's memory, each page by its own address? All GPUs give nearly all of their
//! memory at the same time. Every peer writes a tag into every page, which names the page, the writer and the round,
//! and the owner looks at all of them; peers read such tags too. Then copies of every order of magnitude go between
//! odd places across all memory, and one pass over all of it finds whatever else changed.

mod carry;
mod judge;
mod tags;

use crate::config::Level;
use crate::gpu::pattern::Nonces;
use crate::gpu::{Clique, GpuError, is_spoiled};
use crate::outcome::finding::{Code, Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::schedule::Pair;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::open::{Open, with_all};
use crate::suite::shared::plot;
use crate::suite::shared::plot::{Plot, changed, fill_all};
use crate::suite::shared::room;
use crate::suite::shared::transfer::Memory;
use crate::suite::{Group, Machine, Test};
use judge::Told;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-reach",
    title: "Reach",
    proves: "peers reach every page of nearly all of a GPU's memory, and each address leads to its own place",
    level: Level::Standard,
    deadline: Duration::from_secs(90),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Less than this is not worth going over: the tests of small buffers did it already.
const LITTLE: u64 = 128 << 20;

/// How thorough a level is.
#[derive(Debug, Clone, Copy)]
struct Care {
    /// A tagged page has `1 << shift` bytes.
    shift: u32,
    /// Small copies by copy engines, each way.
    small: u64,
    /// Copies in each doubling of size.
    each: u64,
    /// Copy engines write all memory: by every peer, else by one.
    every_peer: bool,
}

impl Care {
    const fn of(level: Level) -> Self {
        match level {
            Level::Quick | Level::Standard => Self { shift: 21, small: 256, each: 1, every_peer: false },
            Level::Full => Self { shift: 16, small: 1024, each: 4, every_peer: true },
        }
    }
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let broken = |e: GpuError| during("machine", &e);
    machine.doing("taking nearly all memory of every GPU");
    let mut plots = Plot::take_all(clique, Memory::Plain, 0).map_err(broken)?;
    let mut told = Told::default();
    for plot in plots.iter().filter(|plot| plot.bytes() < LITTLE) {
        let gpu = format!("GPU {}", plot.gpu.ordinal);
        let message = format!("{gpu}: its memory is not gone over: others use nearly all of it");
        told.broken.push(Code::GpuInUse.finding(Severity::Warn, &gpu, message));
    }
    let pairs = pairs(clique, &plots).map_err(broken)?;
    if pairs.is_empty() {
        return Ok(judge::judge(&told));
    }
    let said = over_all(machine, clique, &mut plots, &pairs, &mut told);
    if let Err(error) = said {
        told.broken.push(*during("machine", &error));
    }
    told.shares = plots.iter().filter(|plot| plot.bytes() >= LITTLE).map(Plot::share).collect();
    Ok(judge::judge(&told))
}

/// Peers and owners, as ordered pairs, where there is memory to go over.
fn pairs(clique: &Clique, plots: &[Plot<'_>]) -> Result<Vec<Pair>, GpuError> {
    let worth = |n: usize| plots.get(n).is_some_and(|plot| plot.bytes() >= LITTLE);
    let mut pairs = Vec::new();
    for (peer, owner) in clique.pairs() {
        if worth(peer.ordinal) && worth(owner.ordinal) && peer.can_access(owner)? {
            pairs.push(Pair::new(peer.ordinal, owner.ordinal));
        }
    }
    Ok(pairs)
}

/// Everything with all of them.
fn over_all(
    machine: &Machine,
    clique: &Clique,
    plots: &mut [Plot<'_>],
    pairs: &[Pair],
    told: &mut Told,
) -> Result<(), GpuError> {
    let mut nonces = Nonces::new();
    machine.doing("filling nearly all memory of every GPU");
    fill_all(plots, &mut nonces)?;
    machine.doing("enabling peer access to nearly all memory of every GPU");
    for last in [false, true] {
        let mut short = false;
        told.at_once = with_all(clique, pairs, |open| {
            // The driver needs memory for what it maps: a part of it is given back, once.
            short = !last && open.refused.iter().any(|(_, error)| room::is_short(error));
            if short { Ok(()) } else { group(machine, plots, open, &mut nonces, told) }
        })?;
        if !short {
            break;
        }
        plots.iter_mut().for_each(Plot::give_way);
    }
    if !is_spoiled() {
        machine.doing("looking at nearly all memory of every GPU");
        told.strays = changed(plots)?;
    }
    Ok(())
}

/// Pairs that have access at the same time.
fn group(
    machine: &Machine,
    plots: &[Plot<'_>],
    open: &Open,
    nonces: &mut Nonces,
    told: &mut Told,
) -> Result<(), GpuError> {
    let care = Care::of(machine.config.validate.level);
    for (pair, error) in &open.refused {
        let message = format!("{pair}: not tried: peer access is refused: {error}");
        told.broken.push(Code::P2pRefused.finding(refusal(machine), pair, message));
    }
    told.pairs.extend(&open.pairs);
    tags::written(machine, plots, &open.pairs, (care.shift, nonces), told)?;
    tags::read(machine, plots, &open.pairs, (care.shift, nonces), told)?;
    carry::odd(machine, plots, &open.pairs, (care, nonces), told)?;
    carry::whole(machine, plots, &open.pairs, care, told)
}

/// Where small buffers could be reached, a refusal is about the size of these.
fn refusal(machine: &Machine) -> Severity {
    if machine.outcome("p2p-capability") == Some(Outcome::Pass) { Severity::Fail } else { Severity::Info }
}

/// What one GPU holds.
fn plot<'p, 'g>(plots: &'p [Plot<'g>], n: usize) -> Result<&'p Plot<'g>, GpuError> {
    plots.get(n).ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {n}")))
}

/// How much is gone over, as the line tells it.
fn covered(told: &Told) -> String {
    plot::told(&told.shares)
}

#[cfg(test)]
mod tests {
    //! What people are told of pages that are missed and of memory that changed.

    use super::judge::{Amiss, Missed, Swept, judge};
    use super::*;
    use crate::gpu::Span;
    use crate::gpu::pattern::Counts;
    use crate::suite::shared::plot::{Changed, Share};
    use crate::suite::shared::transfer::{Engine, Kind, Way};

    const PAIR: Pair = Pair { from: 0, to: 1 };

    fn counts(wrong: u64) -> Counts {
        let first = (wrong > 0).then_some(128);
        Counts { looked: 11_000, wrong, zeros: 0, sentinels: wrong, first, last: first }
    }

    fn told(way: Way, amiss: Option<Amiss>) -> Told {
        let kind = Kind { engine: Engine::Sm, way, memory: Memory::Plain };
        let missed = amiss.map(|what| Missed { at: 256 << 20, what, found: vec![1], expected: vec![2] });
        let counts = counts(if missed.is_some() { 2 } else { 0 });
        let swept = vec![Swept { pair: PAIR, kind, pages: 11_000, page: 2 << 20, counts, missed }];
        let shares = vec![Share { gpu: 1, bytes: 22 << 30, total: 24 << 30 }];
        Told { shares, swept, pairs: vec![PAIR], at_once: 1, ..Told::default() }
    }

    #[test]
    fn all_pages_reached_pass_and_memory_of_others_is_said() {
        let mut all = told(Way::Write, None);
        let said = judge(&all);
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "1 ordered pairs reach 91.6 % of 24.0 GiB: every 2 MiB page by itself (11000), copies up to 0.00 GiB, \
         and nothing else changes"
        );
        let row = &said.tables[0]["rows"][0];
        assert_eq!(
            (&row[0], &row[5], &row[7]),
            (&"a tag in every 2 MiB page, 1 peers at once".into(), &11_000.into(), &"0.03 %".into())
        );
        all.shares[0].bytes = 10 << 30;
        assert!(judge(&all).summary.ends_with("others use GPU 1: 10.0 of 24.0 GiB gone over"));
    }

    #[test]
    fn the_first_page_that_is_missed_is_named() {
        let said = judge(&told(Way::Write, Some(Amiss::Stale)));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::P2pWrongData));
        assert_eq!(
            said.summary,
            "GPU 0 -> 1: SM writes miss 2 of 11000 pages of 2 MiB, the first at 256 MiB: nothing arrives"
        );
        assert!(said.findings[0].evidence[0].ends_with("found 00000001, expected 00000002"));
    }

    #[test]
    fn addresses_that_lead_to_the_same_memory_say_so() {
        let said = judge(&told(Way::Write, Some(Amiss::Alias(256 << 20))));
        assert!(said.summary.ends_with("what was written to 0x10000000 is there"));
        assert!(said.findings[0].cause.contains("two addresses lead to the same memory"));
        let said = judge(&told(Way::Read, Some(Amiss::Alias(0))));
        assert!(said.summary.ends_with("what lies at 0x0 is read"), "{}", said.summary);
        let said = judge(&told(Way::Write, Some(Amiss::Foreign(Pair::new(2, 3)))));
        assert!(said.summary.ends_with("what GPU 2 -> 3 wrote is there"), "{}", said.summary);
    }

    #[test]
    fn what_changed_without_being_written_to_is_a_stray_and_unlooked_pages_are_an_error() {
        let mut stray = told(Way::Write, None);
        let span = Span { address: 0x7000_0000, bytes: 4096 };
        stray.strays = vec![Changed { gpu: 2, span, first: 0, seed: 1, counts: counts(2), found: vec![9] }];
        let said = judge(&stray);
        assert!(said.findings[0].is(Code::P2pStray) && said.outcome() == Outcome::Fail);
        let mut unlooked = told(Way::Write, None);
        unlooked.swept[0].counts.looked = 0;
        let said = judge(&unlooked);
        assert!(said.findings[0].is(Code::P2pChecker) && said.outcome() == Outcome::Error);
    }

    #[test]
    fn nothing_tried_is_no_pass() {
        assert_eq!(judge(&Told::default()).outcome(), Outcome::NotApplicable);
        let mut broken = Told::default();
        broken.broken.push(Code::CudaError.finding(Severity::Error, "GPU 0", "2"));
        assert_eq!(judge(&broken).outcome(), Outcome::Error);
    }
}
