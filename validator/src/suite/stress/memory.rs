//! Moving inversions over nearly all memory of every GPU: each word has its own content, which is read, checked
//! and inverted in place, in all bits and in every second one.

use super::{end, progress};
use crate::gpu::pattern::{Counts, Nonces};
use crate::gpu::{GpuError, March};
use crate::machine::GpuId;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::Machine;
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::plot::{Changed, Chunk, Plot, Share, changed, coverage, fill_all};
use crate::suite::shared::speed::table;
use crate::suite::shared::transfer::Memory;
use crate::text::gib;
use serde_json::Value;
use std::time::Instant;

/// The bits that are inverted, one after the other: all, every second one, the others, none.
const INVERTED: [u32; 5] = [0, !0, 0xaaaa_aaaa, 0x5555_5555, 0];
/// The most findings of one GPU; more would add nothing new.
const ENOUGH: usize = 4;

/// Wrong words of one piece of memory in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wrong {
    gpu: GpuId,
    /// Bytes from the beginning of the tested memory to the first and the last wrong word.
    first: u64,
    last: u64,
    counts: Counts,
    /// Every bit that was wrong in one of them.
    bits: u32,
}

/// Everything that was seen.
#[derive(Debug, Default)]
struct Seen {
    shares: Vec<Share>,
    rounds: u64,
    wrong: Vec<Wrong>,
    broken: Vec<Finding>,
}

pub(super) fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = machine.no_gpus(false)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let broken = |e: GpuError| during("machine", &e);
    machine.doing("allocating nearly all memory of every GPU");
    let plots = Plot::take_all(clique, Memory::Plain, 0).map_err(broken)?;
    let mut seen = Seen { shares: plots.iter().map(Plot::share).collect(), ..Seen::default() };
    let until = end(machine, 1);
    let mut nonces = Nonces::new();
    while seen.wrong.is_empty() && seen.broken.is_empty() && (seen.rounds == 0 || Instant::now() < until) {
        progress(machine, &format!("moving inversions over all memory, round {}", seen.rounds + 1), until);
        if let Err(error) = round(&plots, &mut nonces, &mut seen) {
            seen.broken.push(*during("machine", &error));
        }
    }
    Ok(judge(&seen))
}

/// Fills all memory afresh, and inverts it in every step.
fn round(plots: &[Plot<'_>], nonces: &mut Nonces, seen: &mut Seen) -> Result<(), GpuError> {
    fill_all(plots, nonces)?;
    for (before, after) in INVERTED.iter().zip(INVERTED.iter().skip(1)) {
        step(plots, (*before, *after), seen)?;
    }
    seen.wrong.extend(changed(plots)?.iter().map(last_look));
    seen.rounds += 1;
    Ok(())
}

/// One step on all GPUs at once, piece by piece.
fn step(plots: &[Plot<'_>], (before, after): (u32, u32), seen: &mut Seen) -> Result<(), GpuError> {
    let most = plots.iter().map(|plot| plot.chunks().len()).max().unwrap_or_default();
    for n in 0..most {
        let pieces: Vec<_> = plots.iter().filter_map(|plot| Some((plot, plot.chunks().get(n)?))).collect();
        for (plot, chunk) in &pieces {
            let march = March { first: chunk.byte(0) / 4, seed: plot.seed(), before, after };
            plot.tally.begin(&plot.stream)?;
            plot.stream.march(chunk.span(), &march, &plot.tally)?;
            plot.tally.end(&plot.stream)?;
        }
        for (plot, chunk) in pieces {
            plot.wait()?;
            seen.wrong.extend(wrong(plot, chunk));
        }
    }
    Ok(())
}

fn wrong(plot: &Plot<'_>, chunk: &Chunk) -> Option<Wrong> {
    let counts = Counts::from(plot.tally.checked());
    let at = |word: Option<u64>| chunk.byte(word.unwrap_or_default() * 4);
    let (gpu, first, last) = (plot.gpu.id(), at(counts.first), at(counts.last));
    let whole = counts.all_right(chunk.span().words());
    (!whole).then(|| Wrong { gpu, first, last, counts, bits: plot.tally.wrong_bits() })
}

/// A fault that the last check of a round's content found; the sampled words show the wrong bits.
fn last_look(changed: &Changed) -> Wrong {
    let at = |word: Option<u64>| (changed.first + word.unwrap_or_default()) * 4;
    let place = changed.first + changed.counts.first.unwrap_or_default();
    let expected = crate::gpu::pattern::word(changed.seed, place);
    let bits = changed.found.first().map_or(0, |found| found ^ expected);
    let (first, last) = (at(changed.counts.first), at(changed.counts.last));
    Wrong { gpu: changed.gpu, first, last, counts: changed.counts, bits }
}

fn judge(seen: &Seen) -> Judgement {
    let mut findings: Vec<Finding> = seen.shares.iter().filter_map(Share::untested).collect();
    for gpu in seen.shares.iter().map(|share| share.gpu) {
        findings.extend(seen.wrong.iter().filter(|w| w.gpu == gpu).take(ENOUGH).map(finding));
    }
    findings.extend(seen.broken.iter().cloned());
    if seen.shares.is_empty() && findings.is_empty() {
        return Judgement::not_applicable("no GPU");
    }
    let steps = seen.rounds * INVERTED.len() as u64;
    let good = || {
        let share = coverage(&seen.shares);
        format!("{share} of each GPU: every bit right in {steps} passes of moving inversions")
    };
    Judgement::summed_up(good, findings).with_tables(vec![memory_table(seen, steps)])
}

fn finding(wrong: &Wrong) -> Finding {
    let Wrong { gpu, first, last, counts, bits } = wrong;
    let subject = format!("GPU {gpu}");
    if counts.wrong == 0 {
        let message = format!("GPU {gpu}: only {} words of its memory could be checked", counts.looked);
        return Code::P2pChecker.finding(Severity::Error, &subject, message);
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
        .finding(Severity::Fail, &subject, message)
        .values(counts.wrong, 0, Some("words"))
        .seen(bits)
}

fn memory_table(seen: &Seen, steps: u64) -> Value {
    let columns = [("GPU", ""), ("tested", "GiB"), ("of", "GiB"), ("passes", ""), ("wrong words", "")];
    let row = |share: &Share| {
        let wrong: u64 = seen.wrong.iter().filter(|w| w.gpu == share.gpu).map(|w| w.counts.wrong).sum();
        let rounded = |bytes: u64| ((gib(bytes) * 10.0).floor() / 10.0).into();
        vec![share.gpu.index().into(), rounded(share.bytes), rounded(share.total), steps.into(), wrong.into()]
    };
    table("memory", &columns, &seen.shares.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn seen(wrong: Option<Counts>) -> Seen {
        let share = |gpu| Share { gpu, bytes: 79 << 30, total: 80 << 30 };
        let wrong =
            wrong.map(|counts| Wrong { gpu: 1.into(), first: 3 << 30, last: 3 << 30, counts, bits: 0x10 });
        Seen {
            shares: GpuId::list([0, 1]).into_iter().map(share).collect(),
            rounds: 3,
            wrong: wrong.into_iter().collect(),
            broken: Vec::new(),
        }
    }

    #[test]
    fn right_words_pass_with_the_number_of_passes() {
        let said = judge(&seen(None));
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "98.7 % of 80.0 GiB of each GPU: every bit right in 15 passes of moving inversions"
        );
    }

    #[test]
    fn one_wrong_word_fails_and_names_its_bits() {
        let counts =
            Counts { looked: 100, wrong: 1, zeros: 0, ones: 0, sentinels: 0, first: Some(3), last: Some(3) };
        let said = judge(&seen(Some(counts)));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::GpuMemory));
        assert_eq!(
            said.summary,
            "GPU 1: 1 of 100 words of its own memory are wrong, from 3.000 to 3.000 GiB"
        );
        assert!(said.findings[0].evidence[0].starts_with("wrong bits 00000010"));
    }

    #[test]
    fn words_that_were_not_checked_are_an_error() {
        let counts = Counts { looked: 7, wrong: 0, zeros: 0, ones: 0, sentinels: 0, first: None, last: None };
        assert_eq!(judge(&seen(Some(counts))).outcome(), Outcome::Error);
        assert_eq!(judge(&Seen::default()).outcome(), Outcome::NotApplicable);
    }

    #[test]
    fn the_steps_invert_every_bit_and_end_as_they_began() {
        assert_eq!((INVERTED[0], INVERTED[4]), (0, 0));
        let inverted = INVERTED.windows(2).fold(0, |bits, pair| bits | (pair[0] ^ pair[1]));
        assert_eq!(inverted, !0);
    }
}
