//! Whether peer access reaches all of a GPU's memory, each page by its own address. Nearly all memory of all
//! GPUs is tested at the same time. Every peer writes a tag into every page, which names the page, the
//! writer and the round, and the owner checks all of them; peers read such tags too. Then copies of every
//! order of magnitude go between odd addresses across all memory, and one pass over all of it finds any other
//! change.

mod copies;
mod judge;
mod tags;

use crate::schedule::Pair;
use crate::suite::shared::free_memory;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::held_memory;
use crate::suite::shared::held_memory::{HeldMemory, MIN_TESTED, fill_all, find_changes};
use crate::suite::shared::peer_access::{AccessGroup, refused, with_peer_access};
use crate::suite::shared::transfer::Memory;
use crate::suite::{Group, Test, TestContext};
use gpu::pattern::Nonces;
use gpu::{Clique, GpuError, is_cuda_lost};
use judge::Results;
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Finding, Subject};
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_REACH,
    title: "Reach",
    proves: "peers reach every page of nearly all of a GPU's memory, and each address leads to its own memory",
    level: Level::Standard,
    deadline: Duration::from_secs(90),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// How thoroughly a level tests.
#[derive(Debug, Clone, Copy)]
struct LevelPlan {
    /// A tagged page has `1 << shift` bytes.
    shift: u32,
    /// Small copies by copy engines, in each direction.
    small: u64,
    /// The number of copies in each doubling of size.
    each: u64,
    /// Whether every peer's copy engines write all memory of a GPU, or only those of one peer.
    every_peer: bool,
}

impl LevelPlan {
    const fn of(level: Level) -> Self {
        match level {
            Level::Quick | Level::Standard => Self {
                shift: 21,
                small: 256,
                each: 1,
                every_peer: false,
            },
            Level::Full | Level::Acceptance => Self {
                shift: 16,
                small: 1024,
                each: 4,
                every_peer: true,
            },
        }
    }
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let broken = |e: GpuError| fault_finding(Subject::Machine, &e);
    context.doing("allocating nearly all memory of every GPU");
    let mut memories = HeldMemory::take_all(clique, Memory::Plain, 0).map_err(broken)?;
    let mut results = Results::default();
    results
        .broken
        .extend(memories.iter().filter_map(|held| held.share().untested()));
    let pairs = pairs(clique, &memories).map_err(broken)?;
    if pairs.is_empty() {
        return Ok(judge::judge(&results));
    }
    let done = over_all(context, clique, &mut memories, &pairs, &mut results);
    if let Err(error) = done {
        results
            .broken
            .push(*fault_finding(Subject::Machine, &error));
    }
    results.shares = memories
        .iter()
        .filter(|held| held.bytes() >= MIN_TESTED)
        .map(HeldMemory::share)
        .collect();
    Ok(judge::judge(&results))
}

/// Ordered pairs of peer and owner, where there is memory to test.
fn pairs(clique: &Clique, memories: &[HeldMemory<'_>]) -> Result<Vec<Pair>, GpuError> {
    let worth = |gpu: GpuId| {
        memories
            .get(gpu.index())
            .is_some_and(|held| held.bytes() >= MIN_TESTED)
    };
    let mut pairs = Vec::new();
    for (peer, owner) in clique.pairs() {
        if worth(peer.id()) && worth(owner.id()) && peer.can_access(owner)? {
            pairs.push(Pair::new(peer.id(), owner.id()));
        }
    }
    Ok(pairs)
}

/// Fills the memory, runs all tests with these pairs, and looks for other changes.
fn over_all(
    context: &TestContext,
    clique: &Clique,
    memories: &mut [HeldMemory<'_>],
    pairs: &[Pair],
    results: &mut Results,
) -> Result<(), GpuError> {
    let mut nonces = Nonces::new();
    context.doing("filling nearly all memory of every GPU");
    fill_all(memories, &mut nonces)?;
    context.doing("enabling peer access to nearly all memory of every GPU");
    for last in [false, true] {
        let mut short = false;
        results.at_once = with_peer_access(clique, pairs, |access| {
            // The driver needs memory for mappings: a part of the held memory is freed, once.
            short = !last
                && access
                    .refused
                    .iter()
                    .any(|(_, error)| free_memory::is_out_of_memory(error));
            if short {
                Ok(())
            } else {
                group(context, memories, access, &mut nonces, results)
            }
        })?;
        if !short {
            break;
        }
        memories.iter_mut().for_each(HeldMemory::free_last);
    }
    if !is_cuda_lost() {
        context.doing("checking nearly all memory of every GPU");
        results.strays = find_changes(memories)?;
    }
    Ok(())
}

/// Tests the pairs of one access group, all at the same time.
fn group(
    context: &TestContext,
    memories: &[HeldMemory<'_>],
    access: &AccessGroup,
    nonces: &mut Nonces,
    results: &mut Results,
) -> Result<(), GpuError> {
    let plan = LevelPlan::of(context.config.validate.level);
    for (pair, error) in &access.refused {
        results.broken.push(refused(context, *pair, error));
    }
    results.pairs.extend(&access.pairs);
    tags::peers_write(
        context,
        memories,
        &access.pairs,
        (plan.shift, nonces),
        results,
    )?;
    tags::peers_read(
        context,
        memories,
        &access.pairs,
        (plan.shift, nonces),
        results,
    )?;
    copies::odd_copies(context, memories, &access.pairs, (plan, nonces), results)?;
    copies::full_copies(context, memories, &access.pairs, plan, results)
}

/// The memory held on one GPU.
fn held<'p, 'g>(
    memories: &'p [HeldMemory<'g>],
    gpu: GpuId,
) -> Result<&'p HeldMemory<'g>, GpuError> {
    memories
        .get(gpu.index())
        .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
}

/// How much memory is tested, for the summary.
fn covered(results: &Results) -> String {
    held_memory::coverage(&results.shares)
}

#[cfg(test)]
mod tests {
    //! Findings about missed pages and changed memory.

    use super::judge::{TagFault, TagSweep, WrongPage, judge};
    use super::*;
    use crate::suite::shared::held_memory::{ChangedMemory, MemoryShare};
    use crate::suite::shared::transfer::{Direction, Engine, TransferKind};
    use gpu::Extent;
    use gpu::pattern::Counts;
    use outcome::Outcome;
    use outcome::finding::Reason;
    use outcome::finding::{Code, Severity};
    use outcome::table::Table;

    const PAIR: Pair = Pair::of(0, 1);

    fn counts(wrong: u64) -> Counts {
        let first = (wrong > 0).then_some(128);
        Counts {
            looked: 11_000,
            wrong,
            zeros: 0,
            ones: 0,
            sentinels: wrong,
            first,
            last: first,
        }
    }

    fn results(direction: Direction, fault: Option<TagFault>) -> Results {
        let kind = TransferKind {
            engine: Engine::Sm,
            direction,
            memory: Memory::Plain,
        };
        let wrong_page = fault.map(|what| WrongPage {
            at: 256 << 20,
            what,
            found: vec![1],
            expected: vec![2],
        });
        let counts = counts(if wrong_page.is_some() { 2 } else { 0 });
        let sweeps = vec![TagSweep {
            pair: PAIR,
            kind,
            pages: 11_000,
            page: 2 << 20,
            counts,
            wrong_page,
        }];
        let shares = vec![MemoryShare {
            gpu: 1.into(),
            bytes: 22 << 30,
            total: 24 << 30,
        }];
        Results {
            shares,
            sweeps,
            pairs: vec![PAIR],
            at_once: 1,
            ..Results::default()
        }
    }

    #[test]
    fn all_pages_reached_pass_and_memory_of_other_processes_is_reported() {
        let mut all = results(Direction::Write, None);
        let said = judge(&all);
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "1 ordered pairs reach 91.6 % of 24.0 GiB: every 2 MiB page is correct (11000), copies of up to 0.00 GiB \
         arrive, and nothing else changes"
        );
        let Table::Reach(rows) = &said.tables[0] else {
            panic!("{:?}", said.tables)
        };
        assert_eq!(rows[0].what, "a tag in every 2 MiB page, 1 peers at once");
        assert_eq!(
            (rows[0].transfers, rows[0].ruled_out.as_str()),
            (11_000, "0.03 %")
        );
        all.shares[0].bytes = 10 << 30;
        assert!(
            judge(&all)
                .summary
                .ends_with("other processes use the rest of GPU 1: 10.0 of 24.0 GiB tested")
        );
    }

    #[test]
    fn the_first_missed_page_is_named() {
        let said = judge(&results(Direction::Write, Some(TagFault::Stale)));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::P2pWrongData));
        assert_eq!(
            said.summary,
            "GPU 0 -> 1: SM writes miss 2 of 11000 pages of 2 MiB, the first at 256 MiB: nothing arrives"
        );
        assert!(said.findings[0].evidence[0].ends_with("found 00000001, expected 00000002"));
    }

    #[test]
    fn addresses_that_lead_to_the_same_memory_are_reported() {
        let said = judge(&results(Direction::Write, Some(TagFault::Alias(256 << 20))));
        assert!(
            said.summary
                .ends_with("it holds what was written to 0x10000000")
        );
        assert_eq!(said.findings[0].reason, Some(Reason::Aliased));
        let said = judge(&results(Direction::Read, Some(TagFault::Alias(0))));
        assert!(
            said.summary
                .ends_with("the read returns the content of 0x0"),
            "{}",
            said.summary
        );
        let said = judge(&results(
            Direction::Write,
            Some(TagFault::Foreign(Pair::of(2, 3))),
        ));
        assert!(
            said.summary.ends_with("it holds what GPU 2 -> 3 wrote"),
            "{}",
            said.summary
        );
    }

    #[test]
    fn memory_that_changed_unwritten_is_a_stray_and_unchecked_pages_are_an_error() {
        let mut stray = results(Direction::Write, None);
        let place = Extent {
            address: 0x7000_0000,
            bytes: 4096,
        };
        stray.strays = vec![ChangedMemory {
            gpu: 2.into(),
            place,
            first: 0,
            seed: 1,
            counts: counts(2),
            found: vec![9],
        }];
        let said = judge(&stray);
        assert!(said.findings[0].is(Code::P2pStray) && said.outcome() == Outcome::Fail);
        let mut unlooked = results(Direction::Write, None);
        unlooked.sweeps[0].counts.looked = 0;
        let said = judge(&unlooked);
        assert!(said.findings[0].is(Code::P2pChecker) && said.outcome() == Outcome::Error);
    }

    #[test]
    fn nothing_tried_is_not_a_pass() {
        assert_eq!(judge(&Results::default()).outcome(), Outcome::NotApplicable);
        let mut broken = Results::default();
        broken
            .broken
            .push(Code::CudaError.finding(Severity::Error, GpuId::new(0), "2"));
        assert_eq!(judge(&broken).outcome(), Outcome::Error);
    }
}
