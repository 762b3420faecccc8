//! Data of the kind that programs send most and that random words never contain: zeros, ones, repeated values and
//! walking bits. A link or an engine that treats runs of equal bytes differently fails here alone.

use super::bench::IntegrityBench;
use crate::schedule::Pair;
use crate::suite::shared::transfer::{
    Circumstance, Fault, FaultKind, SAMPLE, Traces, Transfer, TransferKind,
};
use gpu::GpuError;
use gpu::pattern::{Counts, DataFault, compare_to};

/// The size of such a transfer, bytes: it fits into the host's buffer.
const BLOCK: u64 = 64 << 10;
/// Parts of a transfer, each with other values.
const PARTS: u64 = 16;

/// The size of a transfer where the largest of a level has `largest` bytes.
pub(super) const fn block(largest: u64) -> u64 {
    let bytes = if largest < BLOCK { largest } else { BLOCK };
    bytes / 4 * 4
}

/// All words of a transfer where the largest of a level has `largest` bytes.
pub(super) fn all(largest: u64) -> Vec<u32> {
    let words = block(largest) / 4;
    (0..words).map(|i| value(i, words)).collect()
}

/// Word `i` of a transfer of `words` words.
fn value(i: u64, words: u64) -> u32 {
    let part = i * PARTS / words.max(1);
    let within = |n: u64| (i / n).is_multiple_of(2);
    let alternating = |n: u64| if within(n) { 0 } else { u32::MAX };
    let bit = 1u32 << (i % 32);
    match part {
        0 => 0,
        1 => u32::MAX,
        2 => 0x5555_5555,
        3 => 0xaaaa_aaaa,
        4 => 0x0101_0101,
        5 => 0x8080_8080,
        6 => bit,
        7 => !bit,
        // Zeros and ones in turns: words, 16 bytes, 64 bytes, 128 bytes.
        8 => alternating(1),
        9 => alternating(4),
        10 => alternating(16),
        11 => alternating(32),
        // 1.0 as a float, and twice as a half.
        12 => 0x3f80_0000,
        13 => 0x3c00_3c00,
        // One bit in 128 bytes.
        14 if i.is_multiple_of(32) => 1 << (i / 32 % 32),
        14 => 0,
        _ if i.is_multiple_of(32) => !(1 << (i / 32 % 32)),
        _ => u32::MAX,
    }
}

impl IntegrityBench<'_> {
    /// Tries one transfer of simple values, which the host writes and compares. True when it went well.
    pub(super) fn try_values(
        &self,
        pair: Pair,
        kind: TransferKind,
        faults: &mut Vec<Fault>,
    ) -> Result<bool, GpuError> {
        let expected = &self.simple;
        let words = expected.len() as u64;
        let bytes = words * 4;
        let transfer = Transfer {
            pair,
            kind,
            bytes,
            shift: (0, 0),
        };
        let prepared = self.prepare(transfer)?;
        let (sender, receiver) = (prepared.sender, prepared.receiver);
        for (i, value) in (0..).zip(expected) {
            sender.host.set_word(i, *value);
        }
        sender
            .stream
            .copy_in(prepared.source, sender.host.span(0, bytes)?)?;
        sender.wait()?;
        self.execute(&prepared)?;
        let found = receiver.words(prepared.target, 0, words)?.words;
        let counts = compare_to(
            &found,
            expected.iter().copied(),
            prepared.first,
            prepared.to.sentinel(),
        );
        if counts.all_right(words) {
            self.restore_sentinels(&prepared)?;
            return Ok(true);
        }
        let arrived = sender.words(prepared.source, 0, words)?.words == *expected;
        let place = usize::try_from(counts.first.unwrap_or_default()).unwrap_or_default();
        let sample = |words: &[u32]| {
            words
                .iter()
                .skip(place)
                .take(SAMPLE)
                .copied()
                .collect::<Vec<_>>()
        };
        let traces = Traces {
            counts,
            address: prepared.target.address,
            first: prepared.first,
            seed: prepared.seed,
            found: sample(&found),
            expected: Some(sample(expected)),
        };
        let what = if !arrived || counts.looked != words {
            FaultKind::Checker("the host cannot write these values and read them back")
        } else {
            FaultKind::Data(classify(&found, expected, &counts))
        };
        faults.push(Fault {
            transfer,
            what,
            traces,
            times: None,
            circumstance: Circumstance::SimpleValues,
        });
        self.reset_sentinels()?;
        Ok(false)
    }
}

/// What kind of fault it is, from the wrong words alone.
fn classify(found: &[u32], expected: &[u32], counts: &Counts) -> DataFault {
    let wrong = || {
        found
            .iter()
            .zip(expected)
            .filter(|(found, wanted)| found != wanted)
    };
    if counts.sentinels == counts.wrong {
        return DataFault::Stale;
    }
    if wrong().all(|(found, wanted)| (found ^ wanted).count_ones() <= 2) {
        return DataFault::Flip;
    }
    match counts.wrong {
        wrong if wrong == counts.zeros => DataFault::Zeros,
        wrong if wrong == counts.ones => DataFault::Ones,
        _ => DataFault::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::pattern::word;

    const WORDS: u64 = BLOCK / 4;
    const SENTINEL: u64 = 0x9e37_79b9_7f4a_7c15;

    fn sent() -> Vec<u32> {
        all(BLOCK)
    }

    fn seen(change: impl FnOnce(&mut Vec<u32>)) -> Option<DataFault> {
        let mut found = sent();
        change(&mut found);
        let counts = compare_to(&found, sent().into_iter(), 100, SENTINEL);
        (!counts.all_right(WORDS)).then(|| classify(&found, &sent(), &counts))
    }

    #[test]
    fn the_values_are_runs_repeats_and_walking_bits() {
        let sent = sent();
        let part = usize::try_from(WORDS / PARTS).unwrap();
        assert!(
            sent[..part].iter().all(|word| *word == 0)
                && sent[part..2 * part].iter().all(|word| *word == u32::MAX)
        );
        for (walking, ones) in [(6, 1), (7, 31)] {
            let words = &sent[walking * part..(walking + 1) * part];
            assert!(
                words.iter().all(|word| word.count_ones() == ones)
                    && words[..32].windows(2).all(|w| w[0] != w[1])
            );
        }
        let equal = |part_number: usize| {
            sent[part_number * part..(part_number + 1) * part]
                .chunks(4)
                .filter(|c| c.iter().all(|w| w == &c[0]))
                .count()
        };
        assert!(
            equal(9) == part / 4 && equal(8) == 0,
            "runs of 16 bytes, and none"
        );
        // A block of little memory holds all of them, too.
        assert_eq!(
            (0..64)
                .map(|i| value(i, 64))
                .filter(|word| *word == 0x3c00_3c00)
                .count(),
            4
        );
        assert_eq!([4, 4096, 1 << 30].map(block), [4, 4096, BLOCK]);
    }

    #[test]
    fn each_kind_of_wrong_values_has_its_name() {
        assert_eq!(seen(|_| {}), None);
        assert_eq!(seen(|found| found[7] ^= 1 << 9), Some(DataFault::Flip));
        assert_eq!(seen(|found| found.fill(0)), Some(DataFault::Zeros));
        assert_eq!(seen(|found| found.fill(u32::MAX)), Some(DataFault::Ones));
        assert_eq!(
            seen(|found| found[3] = 0x1234_5678),
            Some(DataFault::Garbage)
        );
        let old = (0..WORDS).map(|i| word(SENTINEL, 100 + i)).collect();
        assert_eq!(seen(|found| *found = old), Some(DataFault::Stale));
    }
}
