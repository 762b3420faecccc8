//! Is the checker itself right? Before any pair is believed, every GPU checks memory of its own whose
//! every word is known, wrong ones among them, and must tell exactly what is there.

use super::field::Station;
use crate::gpu::pattern::{Counts, Nonces, compare, word};
use crate::gpu::{GpuError, Span};
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::shared::transfer::Memory;

/// Words of the small cases: three less than 64 KiB, and they begin one word behind a boundary, so
/// that the kernel's odd ends are looked at too.
const WORDS: u64 = (16 << 10) - 3;
/// The word that is flipped.
const FLIPPED: u64 = 12_345;

/// A case: what lies in memory, and against what it is checked.
struct Case {
    name: &'static str,
    stored: Vec<u32>,
    seed: u64,
}

/// What this GPU's checker tells wrongly, if anything. The field holds its sentinel before and after.
pub(super) fn test(station: &Station<'_>, nonces: &mut Nonces) -> Result<Option<Finding>, GpuError> {
    let field = station.field(Memory::Plain)?;
    let first = 1;
    let span = field.part(first * 4, WORDS * 4)?;
    let (seed, other) = (nonces.next(), nonces.next());
    let right: Vec<u32> = (first..first + WORDS).map(|i| word(seed, i)).collect();
    let sentinel: Vec<u32> = (first..first + WORDS).map(|i| word(field.sentinel(), i)).collect();
    let mut flipped = right.clone();
    if let Some(word) = usize::try_from(FLIPPED).ok().and_then(|n| flipped.get_mut(n)) {
        *word ^= 1;
    }
    let zeros = vec![0; right.len()];
    let cases = [
        Case { name: "memory that nobody wrote to", stored: sentinel, seed },
        Case { name: "right data", stored: right.clone(), seed },
        Case { name: "right data against a wrong expectation", stored: right, seed: other },
        Case { name: "one flipped bit", stored: flipped, seed },
        Case { name: "zeros", stored: zeros, seed },
    ];
    for (n, case) in cases.iter().enumerate() {
        match n {
            1 => station.stream.fill(span, seed, first)?,
            3 => put(station, span, FLIPPED, case)?,
            4 => station.stream.set_bytes(span, 0)?,
            _ => {}
        }
        let told = station.check(span, first, case.seed, field.sentinel())?;
        let host = station.words(span, 0, WORDS)?.words;
        let true_counts = compare(&case.stored, first, case.seed, field.sentinel());
        if told != true_counts || host != case.stored {
            return Ok(Some(finding(station, case.name, &told, &true_counts, host == case.stored)));
        }
    }
    station.stream.fill(field.whole(), field.sentinel(), 0)?;
    large(station, nonces)
}

/// One wrong word near the end of the whole field.
fn large(station: &Station<'_>, nonces: &mut Nonces) -> Result<Option<Finding>, GpuError> {
    let field = station.field(Memory::Plain)?;
    let span = field.whole();
    let place = span.words() - 5;
    let wrong = word(field.sentinel(), place) ^ (1 << 31);
    station.host.set_word(0, wrong);
    station.stream.copy_in(span.part(place * 4, 4)?, station.host.span(0, 4)?)?;
    let told = station.check(span, 0, field.sentinel(), nonces.next())?;
    station.stream.fill(span, field.sentinel(), 0)?;
    station.wait()?;
    let known = |n: u64| Some(n);
    let zeros = u64::from(wrong == 0);
    let expected = Counts {
        looked: span.words(),
        wrong: 1,
        zeros,
        sentinels: told.sentinels,
        first: known(place),
        last: known(place),
    };
    let name = "one flipped bit in much memory";
    Ok((told != expected).then(|| finding(station, name, &told, &expected, true)))
}

/// Writes the case's word `n` from the host.
fn put(station: &Station<'_>, span: Span, n: u64, case: &Case) -> Result<(), GpuError> {
    let word = usize::try_from(n).ok().and_then(|n| case.stored.get(n).copied()).unwrap_or_default();
    station.host.set_word(0, word);
    station.stream.copy_in(span.part(n * 4, 4)?, station.host.span(0, 4)?)?;
    station.wait()
}

fn finding(station: &Station<'_>, case: &str, told: &Counts, expected: &Counts, host: bool) -> Finding {
    let gpu = format!("GPU {}", station.gpu.ordinal);
    let message = format!(
        "{gpu} tells {case} as {} wrong words of {}, first {}, and it is {} of {}, first {}",
        told.wrong,
        told.looked,
        place(told.first),
        expected.wrong,
        expected.looked,
        place(expected.first)
    );
    let finding = Code::P2pChecker.finding(Severity::Error, &gpu, message);
    let finding = finding.values(told.wrong, expected.wrong, Some("words"));
    let host = if host { "the host's copy of it is right" } else { "the host's copy of it is wrong too" };
    finding.seen(host).seen(format!("told {told:?}")).seen(format!("expected {expected:?}"))
}

fn place(word: Option<u64>) -> String {
    word.map_or("none".to_owned(), |n| n.to_string())
}
