//! Moving inversions over nearly all memory of every GPU: each word has its own content, which is read, checked
//! and inverted in place, in all bits and in every second one.

use super::SPARE;
use super::{end_time, progress};
use crate::suite::TestContext;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::held_memory::{
    ChangedMemory, Chunk, HeldMemory, MemoryShare, coverage, fill_all, find_changes,
};
use crate::suite::shared::transfer::Memory;
use crate::suite::{Group, Test};
use gpu::pattern::{Counts, Nonces};
use gpu::{GpuError, March};
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{MemoryRow, Table};
use outcome::test;
use outcome::text::gib;
use report::Level;
use std::time::Instant;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::GPU_MEMORY,
    title: "GPU memory",
    proves: "moving inversions find no wrong bit in nearly all memory of every GPU, with all GPUs at work",
    level: Level::Acceptance,
    deadline: SPARE,
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The bits that are inverted, one after the other: all, every second one, the others, none.
const INVERTED: [u32; 5] = [0, !0, 0xaaaa_aaaa, 0x5555_5555, 0];
/// The most findings of one GPU; more would add nothing new.
const ENOUGH: usize = 4;

/// Wrong words of one piece of memory in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WrongWords {
    gpu: GpuId,
    /// Bytes from the beginning of the tested memory to the first and the last wrong word.
    first: u64,
    last: u64,
    counts: Counts,
    /// Every bit that was wrong in one of them.
    bits: u32,
}

/// The results of all rounds.
#[derive(Debug, Default)]
struct Results {
    shares: Vec<MemoryShare>,
    rounds: u64,
    wrong: Vec<WrongWords>,
    broken: Vec<Finding>,
}

pub(super) fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = context.no_gpus(false)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let broken = |e: GpuError| fault_finding(Subject::Machine, &e);
    context.doing("allocating nearly all memory of every GPU");
    let memories = HeldMemory::take_all(clique, Memory::Plain, 0).map_err(broken)?;
    let mut results = Results {
        shares: memories.iter().map(HeldMemory::share).collect(),
        ..Results::default()
    };
    let until = end_time(context, 1);
    let mut nonces = Nonces::new();
    while results.wrong.is_empty()
        && results.broken.is_empty()
        && (results.rounds == 0 || Instant::now() < until)
    {
        progress(
            context,
            &format!(
                "moving inversions over all memory, round {}",
                results.rounds + 1
            ),
            until,
        );
        if let Err(error) = round(&memories, &mut nonces, &mut results) {
            results
                .broken
                .push(*fault_finding(Subject::Machine, &error));
        }
    }
    Ok(judge(&results))
}

/// Fills all memory afresh, and inverts it in every step.
fn round(
    memories: &[HeldMemory<'_>],
    nonces: &mut Nonces,
    results: &mut Results,
) -> Result<(), GpuError> {
    fill_all(memories, nonces)?;
    for (before, after) in INVERTED.iter().zip(INVERTED.iter().skip(1)) {
        step(memories, (*before, *after), results)?;
    }
    results
        .wrong
        .extend(find_changes(memories)?.iter().map(final_check));
    results.rounds += 1;
    Ok(())
}

/// One step on all GPUs at once, piece by piece.
fn step(
    memories: &[HeldMemory<'_>],
    (before, after): (u32, u32),
    results: &mut Results,
) -> Result<(), GpuError> {
    let most = memories
        .iter()
        .map(|held_memory| held_memory.chunks().len())
        .max()
        .unwrap_or_default();
    for n in 0..most {
        let pieces: Vec<_> = memories
            .iter()
            .filter_map(|held_memory| Some((held_memory, held_memory.chunks().get(n)?)))
            .collect();
        for (held_memory, chunk) in &pieces {
            let march = March {
                first: chunk.byte(0) / 4,
                seed: held_memory.seed(),
                before,
                after,
            };
            held_memory.tally.begin(&held_memory.stream)?;
            held_memory
                .stream
                .march(chunk.span(), &march, &held_memory.tally)?;
            held_memory.tally.end(&held_memory.stream)?;
        }
        for (held_memory, chunk) in pieces {
            held_memory.wait()?;
            results.wrong.extend(wrong(held_memory, chunk));
        }
    }
    Ok(())
}

fn wrong(held_memory: &HeldMemory<'_>, chunk: &Chunk) -> Option<WrongWords> {
    let counts = Counts::from(held_memory.tally.checked());
    let at = |word: Option<u64>| chunk.byte(word.unwrap_or_default() * 4);
    let (gpu, first, last) = (held_memory.gpu.id(), at(counts.first), at(counts.last));
    let whole = counts.all_right(chunk.span().words());
    (!whole).then(|| WrongWords {
        gpu,
        first,
        last,
        counts,
        bits: held_memory.tally.wrong_bits(),
    })
}

/// A fault that the last check of a round's content found; the sampled words show the wrong bits.
fn final_check(changed: &ChangedMemory) -> WrongWords {
    let at = |word: Option<u64>| (changed.first + word.unwrap_or_default()) * 4;
    let place = changed.first + changed.counts.first.unwrap_or_default();
    let expected = gpu::pattern::word(changed.seed, place);
    let bits = changed.found.first().map_or(0, |found| found ^ expected);
    let (first, last) = (at(changed.counts.first), at(changed.counts.last));
    WrongWords {
        gpu: changed.gpu,
        first,
        last,
        counts: changed.counts,
        bits,
    }
}

fn judge(results: &Results) -> Judgement {
    let mut findings: Vec<Finding> = results
        .shares
        .iter()
        .filter_map(MemoryShare::untested)
        .collect();
    for gpu in results.shares.iter().map(|share| share.gpu) {
        findings.extend(
            results
                .wrong
                .iter()
                .filter(|w| w.gpu == gpu)
                .take(ENOUGH)
                .map(finding),
        );
    }
    findings.extend(results.broken.iter().cloned());
    if results.shares.is_empty() && findings.is_empty() {
        return Judgement::not_applicable("no GPU");
    }
    let steps = results.rounds * INVERTED.len() as u64;
    let good = || {
        let share = coverage(&results.shares);
        format!("{share} of each GPU: every bit right in {steps} passes of moving inversions")
    };
    Judgement::summed_up(good, findings).with_tables(vec![memory_table(results, steps)])
}

fn finding(wrong: &WrongWords) -> Finding {
    let WrongWords {
        gpu,
        first,
        last,
        counts,
        bits,
    } = wrong;
    if counts.wrong == 0 {
        let message = format!(
            "GPU {gpu}: only {} words of its memory could be checked",
            counts.looked
        );
        return Code::P2pChecker.finding(Severity::Error, gpu, message);
    }
    let message = format!(
        "GPU {gpu}: {} of {} words of its own memory are wrong, from {:.3} to {:.3} GiB",
        counts.wrong,
        counts.looked,
        gib(*first),
        gib(*last)
    );
    let bits = format!(
        "wrong bits {bits:08x}; {} words read as 0, {} as all ones, {} as if inverted twice",
        counts.zeros, counts.ones, counts.sentinels
    );
    Code::GpuMemory
        .finding(Severity::Fail, gpu, message)
        .values(counts.wrong, 0, Some("words"))
        .seen(bits)
}

fn memory_table(results: &Results, passes: u64) -> Table {
    let rounded = |bytes: u64| (gib(bytes) * 10.0).floor() / 10.0;
    let row = |share: &MemoryShare| MemoryRow {
        gpu: share.gpu,
        tested: rounded(share.bytes),
        of: rounded(share.total),
        passes,
        wrong_words: results
            .wrong
            .iter()
            .filter(|w| w.gpu == share.gpu)
            .map(|w| w.counts.wrong)
            .sum(),
    };
    Table::Memory(results.shares.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Outcome;

    fn results(wrong: Option<Counts>) -> Results {
        let share = |gpu| MemoryShare {
            gpu,
            bytes: 79 << 30,
            total: 80 << 30,
        };
        let wrong = wrong.map(|counts| WrongWords {
            gpu: 1.into(),
            first: 3 << 30,
            last: 3 << 30,
            counts,
            bits: 0x10,
        });
        Results {
            shares: GpuId::list([0, 1]).into_iter().map(share).collect(),
            rounds: 3,
            wrong: wrong.into_iter().collect(),
            broken: Vec::new(),
        }
    }

    #[test]
    fn right_words_pass_with_the_number_of_passes() {
        let said = judge(&results(None));
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "98.7 % of 80.0 GiB of each GPU: every bit right in 15 passes of moving inversions"
        );
    }

    #[test]
    fn one_wrong_word_fails_and_names_its_bits() {
        let counts = Counts {
            looked: 100,
            wrong: 1,
            zeros: 0,
            ones: 0,
            sentinels: 0,
            first: Some(3),
            last: Some(3),
        };
        let said = judge(&results(Some(counts)));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::GpuMemory));
        assert_eq!(
            said.summary,
            "GPU 1: 1 of 100 words of its own memory are wrong, from 3.000 to 3.000 GiB"
        );
        assert!(said.findings[0].evidence[0].starts_with("wrong bits 00000010"));
    }

    #[test]
    fn words_that_were_not_checked_are_an_error() {
        let counts = Counts {
            looked: 7,
            wrong: 0,
            zeros: 0,
            ones: 0,
            sentinels: 0,
            first: None,
            last: None,
        };
        assert_eq!(judge(&results(Some(counts))).outcome(), Outcome::Error);
        assert_eq!(judge(&Results::default()).outcome(), Outcome::NotApplicable);
    }

    #[test]
    fn the_steps_invert_every_bit_and_end_as_they_began() {
        assert_eq!((INVERTED[0], INVERTED[4]), (0, 0));
        let inverted = INVERTED
            .windows(2)
            .fold(0, |bits, pair| bits | (pair[0] ^ pair[1]));
        assert_eq!(inverted, !0);
    }
}
