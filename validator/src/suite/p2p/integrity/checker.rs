//! Tests the checker itself: before any pair is judged, every GPU checks its own memory with known content, wrong
//! words included, and must report exactly that content.

use super::test_gpu::TestGpu;
use crate::suite::shared::transfer::Memory;
use gpu::pattern::{Counts, Nonces, compare, word};
use gpu::{GpuError, Span};
use outcome::finding::{Code, Finding, Severity};

/// Words of the small cases: three less than 64 KiB, beginning one word behind a boundary, so that the
/// kernel's handling of unaligned ends is tested too.
const WORDS: u64 = (16 << 10) - 3;
/// The word that is flipped.
const FLIPPED: u64 = 12_345;

/// A test case: the content of memory, and the seed of the pattern that it is checked against.
struct Case {
    name: &'static str,
    stored: Vec<u32>,
    seed: u64,
}

/// The finding about a wrong result of this GPU's checker, if any. The buffer holds its sentinel before and after.
pub(super) fn test_checker(
    test_gpu: &TestGpu<'_>,
    nonces: &mut Nonces,
) -> Result<Option<Finding>, GpuError> {
    let buffer = test_gpu.buffer(Memory::Plain)?;
    let first = 1;
    let span = buffer.part(first * 4, WORDS * 4)?;
    let (seed, other) = (nonces.next(), nonces.next());
    let right: Vec<u32> = (first..first + WORDS).map(|i| word(seed, i)).collect();
    let sentinel: Vec<u32> = (first..first + WORDS)
        .map(|i| word(buffer.sentinel(), i))
        .collect();
    let mut flipped = right.clone();
    if let Some(word) = usize::try_from(FLIPPED)
        .ok()
        .and_then(|n| flipped.get_mut(n))
    {
        *word ^= 1;
    }
    let all = |byte: u32| vec![byte; right.len()];
    let (zeros, ones) = (all(0), all(u32::MAX));
    let cases = [
        Case {
            name: "unwritten memory",
            stored: sentinel,
            seed,
        },
        Case {
            name: "right data",
            stored: right.clone(),
            seed,
        },
        Case {
            name: "right data checked against another pattern",
            stored: right,
            seed: other,
        },
        Case {
            name: "one flipped bit",
            stored: flipped,
            seed,
        },
        Case {
            name: "zeros",
            stored: zeros,
            seed,
        },
        Case {
            name: "all ones",
            stored: ones,
            seed,
        },
    ];
    for (n, case) in cases.iter().enumerate() {
        match n {
            1 => test_gpu.stream.fill(span, seed, first)?,
            3 => write_word(test_gpu, span, FLIPPED, case)?,
            4 => test_gpu.stream.set_bytes(span, 0)?,
            5 => test_gpu.stream.set_bytes(span, u8::MAX)?,
            _ => {}
        }
        let counted = test_gpu.check(span, first, case.seed, buffer.sentinel())?;
        let host = test_gpu.words(span, 0, WORDS)?.words;
        let true_counts = compare(&case.stored, first, case.seed, buffer.sentinel());
        if counted != true_counts || host != case.stored {
            return Ok(Some(finding(
                test_gpu,
                case.name,
                &counted,
                &true_counts,
                host == case.stored,
            )));
        }
    }
    test_gpu.stream.fill(buffer.whole(), buffer.sentinel(), 0)?;
    test_large_buffer(test_gpu, nonces)
}

/// Tests one wrong word near the end of the whole buffer.
fn test_large_buffer(
    test_gpu: &TestGpu<'_>,
    nonces: &mut Nonces,
) -> Result<Option<Finding>, GpuError> {
    let buffer = test_gpu.buffer(Memory::Plain)?;
    let span = buffer.whole();
    let place = span.words() - 5;
    let wrong = word(buffer.sentinel(), place) ^ (1 << 31);
    test_gpu.host.set_word(0, wrong);
    test_gpu
        .stream
        .copy_in(span.part(place * 4, 4)?, test_gpu.host.span(0, 4)?)?;
    let counted = test_gpu.check(span, 0, buffer.sentinel(), nonces.next())?;
    test_gpu.stream.fill(span, buffer.sentinel(), 0)?;
    test_gpu.wait()?;
    let known = |n: u64| Some(n);
    let zeros = u64::from(wrong == 0);
    let expected = Counts {
        looked: span.words(),
        wrong: 1,
        zeros,
        ones: u64::from(wrong == u32::MAX),
        sentinels: counted.sentinels,
        first: known(place),
        last: known(place),
    };
    let name = "one flipped bit in a large field";
    Ok((counted != expected).then(|| finding(test_gpu, name, &counted, &expected, true)))
}

/// Writes the case's word `n` from the host.
fn write_word(test_gpu: &TestGpu<'_>, span: Span<'_>, n: u64, case: &Case) -> Result<(), GpuError> {
    let word = usize::try_from(n)
        .ok()
        .and_then(|n| case.stored.get(n).copied())
        .unwrap_or_default();
    test_gpu.host.set_word(0, word);
    test_gpu
        .stream
        .copy_in(span.part(n * 4, 4)?, test_gpu.host.span(0, 4)?)?;
    test_gpu.wait()
}

fn finding(
    test_gpu: &TestGpu<'_>,
    case: &str,
    counted: &Counts,
    expected: &Counts,
    host: bool,
) -> Finding {
    let gpu = test_gpu.gpu.id();
    let message = format!(
        "GPU {gpu}: the checker reports {} wrong words of {}, first {}, for {case}; expected {} of {}, first {}",
        counted.wrong,
        counted.looked,
        place(counted.first),
        expected.wrong,
        expected.looked,
        place(expected.first)
    );
    let finding = Code::P2pChecker.finding(Severity::Error, gpu, message);
    let finding = finding.values(counted.wrong, expected.wrong, Some("words"));
    let host = if host {
        "the host's copy of it is right"
    } else {
        "the host's copy of it is wrong too"
    };
    finding
        .seen(host)
        .seen(format!("reported {counted:?}"))
        .seen(format!("expected {expected:?}"))
}

fn place(word: Option<u64>) -> String {
    word.map_or("none".to_owned(), |n| n.to_string())
}
