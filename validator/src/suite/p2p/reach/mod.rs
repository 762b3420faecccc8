//! Whether peer access reaches all of a GPU's memory, each page by its own address. Nearly all memory of all
//! GPUs is tested at the same time. Every peer writes a tag into every page, which names the page, the
//! writer and the round, and the owner checks all of them; peers read such tags too. Then copies of every
//! order of magnitude go between odd addresses across all memory, and one pass over all of it finds any other
//! change.

mod carry;
mod judge;
mod tags;

use crate::config::Level;
use crate::gpu::pattern::Nonces;
use crate::gpu::{Clique, GpuError, is_spoiled};
use crate::machine::GpuId;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::schedule::Pair;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::open::{Open, with_all};
use crate::suite::shared::plot;
use crate::suite::shared::plot::{LITTLE, Plot, changed, fill_all};
use crate::suite::shared::room;
use crate::suite::shared::transfer::Memory;
use crate::suite::{Group, Machine, Test};
use judge::Results;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-reach",
    title: "Reach",
    proves: "peers reach every page of nearly all of a GPU's memory, and each address leads to its own memory",
    level: Level::Standard,
    deadline: Duration::from_secs(90),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// How thorough a level is.
#[derive(Debug, Clone, Copy)]
struct Care {
    /// A tagged page has `1 << shift` bytes.
    shift: u32,
    /// Small copies by copy engines, in each direction.
    small: u64,
    /// Copies in each doubling of size.
    each: u64,
    /// Whether every peer's copy engines write all memory of a GPU, or only those of one peer.
    every_peer: bool,
}

impl Care {
    const fn of(level: Level) -> Self {
        match level {
            Level::Quick | Level::Standard => Self { shift: 21, small: 256, each: 1, every_peer: false },
            Level::Full | Level::Acceptance => Self { shift: 16, small: 1024, each: 4, every_peer: true },
        }
    }
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let broken = |e: GpuError| during("machine", &e);
    machine.doing("allocating nearly all memory of every GPU");
    let mut plots = Plot::take_all(clique, Memory::Plain, 0).map_err(broken)?;
    let mut results = Results::default();
    results.broken.extend(plots.iter().filter_map(|plot| plot.share().untested()));
    let pairs = pairs(clique, &plots).map_err(broken)?;
    if pairs.is_empty() {
        return Ok(judge::judge(&results));
    }
    let done = over_all(machine, clique, &mut plots, &pairs, &mut results);
    if let Err(error) = done {
        results.broken.push(*during("machine", &error));
    }
    results.shares = plots.iter().filter(|plot| plot.bytes() >= LITTLE).map(Plot::share).collect();
    Ok(judge::judge(&results))
}

/// Ordered pairs of peer and owner, where there is memory to test.
fn pairs(clique: &Clique, plots: &[Plot<'_>]) -> Result<Vec<Pair>, GpuError> {
    let worth = |gpu: GpuId| plots.get(gpu.index()).is_some_and(|plot| plot.bytes() >= LITTLE);
    let mut pairs = Vec::new();
    for (peer, owner) in clique.pairs() {
        if worth(peer.id()) && worth(owner.id()) && peer.can_access(owner)? {
            pairs.push(Pair::new(peer.id(), owner.id()));
        }
    }
    Ok(pairs)
}

/// Runs everything with all these pairs.
fn over_all(
    machine: &Machine,
    clique: &Clique,
    plots: &mut [Plot<'_>],
    pairs: &[Pair],
    results: &mut Results,
) -> Result<(), GpuError> {
    let mut nonces = Nonces::new();
    machine.doing("filling nearly all memory of every GPU");
    fill_all(plots, &mut nonces)?;
    machine.doing("enabling peer access to nearly all memory of every GPU");
    for last in [false, true] {
        let mut short = false;
        results.at_once = with_all(clique, pairs, |open| {
            // The driver needs memory for mappings: a part of the plots is freed, once.
            short = !last && open.refused.iter().any(|(_, error)| room::is_short(error));
            if short { Ok(()) } else { group(machine, plots, open, &mut nonces, results) }
        })?;
        if !short {
            break;
        }
        plots.iter_mut().for_each(Plot::give_way);
    }
    if !is_spoiled() {
        machine.doing("checking nearly all memory of every GPU");
        results.strays = changed(plots)?;
    }
    Ok(())
}

/// Pairs that have access at the same time.
fn group(
    machine: &Machine,
    plots: &[Plot<'_>],
    open: &Open,
    nonces: &mut Nonces,
    results: &mut Results,
) -> Result<(), GpuError> {
    let care = Care::of(machine.config.validate.level);
    for (pair, error) in &open.refused {
        let message = format!("{pair}: not tried: peer access is refused: {error}");
        results.broken.push(Code::P2pRefused.finding(refusal(machine), pair, message));
    }
    results.pairs.extend(&open.pairs);
    tags::written(machine, plots, &open.pairs, (care.shift, nonces), results)?;
    tags::read(machine, plots, &open.pairs, (care.shift, nonces), results)?;
    carry::odd(machine, plots, &open.pairs, (care, nonces), results)?;
    carry::whole(machine, plots, &open.pairs, care, results)
}

/// The severity of a refusal: if peers could access small buffers, it is caused by the size of the memory.
fn refusal(machine: &Machine) -> Severity {
    if machine.outcome("p2p-capability") == Some(Outcome::Pass) { Severity::Fail } else { Severity::Info }
}

/// The memory held on one GPU.
fn plot<'p, 'g>(plots: &'p [Plot<'g>], gpu: GpuId) -> Result<&'p Plot<'g>, GpuError> {
    plots.get(gpu.index()).ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
}

/// How much memory is tested, for the summary.
fn covered(results: &Results) -> String {
    plot::coverage(&results.shares)
}

#[cfg(test)]
mod tests {
    //! Findings about missed pages and changed memory.

    use super::judge::{Missed, Swept, TagFault, judge};
    use super::*;
    use crate::gpu::Extent;
    use crate::gpu::pattern::Counts;
    use crate::suite::shared::plot::{Changed, Share};
    use crate::suite::shared::transfer::{Engine, Kind, Way};

    const PAIR: Pair = Pair::of(0, 1);

    fn counts(wrong: u64) -> Counts {
        let first = (wrong > 0).then_some(128);
        Counts { looked: 11_000, wrong, zeros: 0, ones: 0, sentinels: wrong, first, last: first }
    }

    fn results(way: Way, fault: Option<TagFault>) -> Results {
        let kind = Kind { engine: Engine::Sm, way, memory: Memory::Plain };
        let missed = fault.map(|what| Missed { at: 256 << 20, what, found: vec![1], expected: vec![2] });
        let counts = counts(if missed.is_some() { 2 } else { 0 });
        let swept = vec![Swept { pair: PAIR, kind, pages: 11_000, page: 2 << 20, counts, missed }];
        let shares = vec![Share { gpu: 1.into(), bytes: 22 << 30, total: 24 << 30 }];
        Results { shares, swept, pairs: vec![PAIR], at_once: 1, ..Results::default() }
    }

    #[test]
    fn all_pages_reached_pass_and_memory_of_other_processes_is_reported() {
        let mut all = results(Way::Write, None);
        let said = judge(&all);
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "1 ordered pairs reach 91.6 % of 24.0 GiB: every 2 MiB page is correct (11000), copies of up to 0.00 GiB \
         arrive, and nothing else changes"
        );
        let row = &said.tables[0]["rows"][0];
        assert_eq!(
            (&row[0], &row[5], &row[7]),
            (&"a tag in every 2 MiB page, 1 peers at once".into(), &11_000.into(), &"0.03 %".into())
        );
        all.shares[0].bytes = 10 << 30;
        assert!(
            judge(&all).summary.ends_with("other processes use the rest of GPU 1: 10.0 of 24.0 GiB tested")
        );
    }

    #[test]
    fn the_first_missed_page_is_named() {
        let said = judge(&results(Way::Write, Some(TagFault::Stale)));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::P2pWrongData));
        assert_eq!(
            said.summary,
            "GPU 0 -> 1: SM writes miss 2 of 11000 pages of 2 MiB, the first at 256 MiB: nothing arrives"
        );
        assert!(said.findings[0].evidence[0].ends_with("found 00000001, expected 00000002"));
    }

    #[test]
    fn addresses_that_lead_to_the_same_memory_are_reported() {
        let said = judge(&results(Way::Write, Some(TagFault::Alias(256 << 20))));
        assert!(said.summary.ends_with("it holds what was written to 0x10000000"));
        assert!(said.findings[0].cause.contains("two addresses lead to the same memory"));
        let said = judge(&results(Way::Read, Some(TagFault::Alias(0))));
        assert!(said.summary.ends_with("the read returns the content of 0x0"), "{}", said.summary);
        let said = judge(&results(Way::Write, Some(TagFault::Foreign(Pair::of(2, 3)))));
        assert!(said.summary.ends_with("it holds what GPU 2 -> 3 wrote"), "{}", said.summary);
    }

    #[test]
    fn memory_that_changed_unwritten_is_a_stray_and_unchecked_pages_are_an_error() {
        let mut stray = results(Way::Write, None);
        let place = Extent { address: 0x7000_0000, bytes: 4096 };
        stray.strays =
            vec![Changed { gpu: 2.into(), place, first: 0, seed: 1, counts: counts(2), found: vec![9] }];
        let said = judge(&stray);
        assert!(said.findings[0].is(Code::P2pStray) && said.outcome() == Outcome::Fail);
        let mut unlooked = results(Way::Write, None);
        unlooked.swept[0].counts.looked = 0;
        let said = judge(&unlooked);
        assert!(said.findings[0].is(Code::P2pChecker) && said.outcome() == Outcome::Error);
    }

    #[test]
    fn nothing_tried_is_not_a_pass() {
        assert_eq!(judge(&Results::default()).outcome(), Outcome::NotApplicable);
        let mut broken = Results::default();
        broken.broken.push(Code::CudaError.finding(Severity::Error, "GPU 0", "2"));
        assert_eq!(judge(&broken).outcome(), Outcome::Error);
    }
}
