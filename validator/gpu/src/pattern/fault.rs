//! The kinds of wrong data. Faults of real machines leave few traces, and each points to a different cause:
//! nothing arrives, zeros arrive, the data arrives elsewhere, only the writer sees it.

use super::{Counts, Excerpt, displacement, origin, word};
use machine::GpuId;
use std::fmt;

/// How the received data differs from the sent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFault {
    /// Zeros arrive.
    Zeros,
    /// All ones arrive: the result of a PCIe read that no device answers.
    Ones,
    /// Nothing arrives: the previous content is unchanged.
    Stale,
    /// The writer reads its data through the peer mapping, but the owner does not have it.
    Mirror,
    /// It arrived only after the transfer was reported as complete.
    Late,
    /// It arrives this many bytes after its place (before it if negative).
    Offset(i64),
    /// The data from this many bytes after the source (before it if negative) arrives.
    From(i64),
    /// Bytes `from` to `to` do not arrive.
    Partial {
        /// First byte that is missing.
        from: u64,
        /// The first byte that is present again, or the end.
        to: u64,
    },
    /// Words are missing in several places.
    Holes,
    /// An earlier round's data arrives.
    OldRound,
    /// It arrives in that other GPU.
    OtherGpu(GpuId),
    /// Single bits are flipped.
    Flip,
    /// None of these.
    Garbage,
}

impl fmt::Display for DataFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("arrives as zeros"),
            Self::Ones => f.write_str("arrives as all ones"),
            Self::Stale => f.write_str("does not arrive: the previous content is unchanged"),
            Self::Mirror => f.write_str("does not arrive, although the writer reads it back"),
            Self::Late => f.write_str("arrives only after the transfer was reported as complete"),
            Self::Offset(bytes) if *bytes < 0 => {
                write!(f, "arrives {} bytes before its place", bytes.unsigned_abs())
            }
            Self::Offset(bytes) => write!(f, "arrives {bytes} bytes after its place"),
            Self::From(bytes) if *bytes < 0 => {
                write!(
                    f,
                    "delivers the data {} bytes before its source",
                    bytes.unsigned_abs()
                )
            }
            Self::From(bytes) => write!(f, "delivers the data {bytes} bytes after its source"),
            Self::Partial { from, to } => {
                write!(f, "arrives only in part: bytes {from} to {to} are missing")
            }
            Self::Holes => f.write_str("arrives with holes"),
            Self::OldRound => f.write_str("arrives as the data of an earlier transfer"),
            Self::OtherGpu(n) => write!(f, "arrives in GPU {n} instead"),
            Self::Flip => f.write_str("arrives with flipped bits"),
            Self::Garbage => f.write_str("arrives wrong, in no known pattern"),
        }
    }
}

/// Data of a transfer that was found in a wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActualLocation {
    /// In the memory of the right GPU, this many bytes after its place.
    Shifted(i64),
    /// In that other GPU.
    Gpu(GpuId),
}

/// The pattern in the memory around the source of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The seed of the pattern there.
    pub seed: u64,
    /// The number of the source's first word in it.
    pub first: u64,
}

/// The content found in place of the data, and the results of a closer look.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    /// The owner's check.
    pub counts: Counts,
    /// The number of the first word in the pattern.
    pub first: u64,
    /// The seed of the data.
    pub expected: u64,
    /// Seeds of earlier rounds.
    pub older: &'a [u64],
    /// Parts of the found content that hold wrong words.
    pub pieces: &'a [Excerpt],
    /// A second check, a moment later.
    pub again: Option<Counts>,
    /// What the writer reads through the peer mapping, for a write.
    pub through_peer: Option<Counts>,
    /// Around the source, for a read.
    pub source: Option<Source>,
    /// Where the data was found instead.
    pub elsewhere: Option<ActualLocation>,
}

/// Determines the kind of fault from the evidence.
#[must_use]
pub fn classify(evidence: &Evidence<'_>) -> DataFault {
    let counts = &evidence.counts;
    let right = |again: &Option<Counts>| again.is_some_and(|c| c.all_right(counts.looked));
    if right(&evidence.again) {
        return DataFault::Late;
    }
    if right(&evidence.through_peer) {
        return DataFault::Mirror;
    }
    match evidence.elsewhere {
        Some(ActualLocation::Gpu(n)) => return DataFault::OtherGpu(n),
        Some(ActualLocation::Shifted(bytes)) => return DataFault::Offset(bytes),
        None => {}
    }
    let shifted = || match (shifted(evidence), evidence.source) {
        (Some(bytes), Some(_)) => Some(DataFault::From(-bytes)),
        (Some(bytes), None) => Some(DataFault::Offset(bytes)),
        (None, Some(source)) => around(evidence, source).map(DataFault::From),
        (None, None) => None,
    };
    missing(counts)
        .or_else(shifted)
        .unwrap_or_else(|| by_words(evidence))
}

/// The distance of the arrived data from its place.
fn shifted(evidence: &Evidence<'_>) -> Option<i64> {
    let meant = evidence.first..evidence.first.checked_add(evidence.counts.looked)?;
    wrong_words(evidence).find_map(|(i, found)| {
        let begin = origin(found, evidence.expected, &meant)?;
        i.checked_signed_diff(begin)?.checked_mul(4)
    })
}

/// The distance of the arrived data from the source, if it is not the data itself.
fn around(evidence: &Evidence<'_>, source: Source) -> Option<i64> {
    let older = |(i, found): &(u64, &[u32])| {
        found
            .first()
            .is_some_and(|w| evidence.older.iter().any(|seed| *w == word(*seed, *i)))
    };
    wrong_words(evidence)
        .filter(|it| !older(it))
        .find_map(|(i, found)| {
            displacement(
                found,
                source.seed,
                source.first + i.checked_sub(evidence.first)?,
            )?
            .checked_mul(4)
        })
}

/// Zeros, ones or old data, everywhere or in one run; only if all wrong words are alike.
fn missing(counts: &Counts) -> Option<DataFault> {
    if counts.are_ones() {
        return Some(DataFault::Ones);
    }
    let class = match counts.wrong {
        n if n == counts.zeros => DataFault::Zeros,
        n if n == counts.sentinels => DataFault::Stale,
        _ => return None,
    };
    // A right word among zeros may be chance; in 64 MiB the chance is 1 in 256.
    if counts.wrong.saturating_add(8) >= counts.looked {
        return Some(class);
    }
    let (from, to) = (counts.first?, counts.last?.saturating_add(1));
    let one_run = to.saturating_sub(from) <= counts.wrong.saturating_add(8);
    let part = DataFault::Partial {
        from: from.saturating_mul(4),
        to: to.saturating_mul(4),
    };
    Some(if one_run { part } else { DataFault::Holes })
}

fn by_words(evidence: &Evidence<'_>) -> DataFault {
    let all = |holds: &dyn Fn(u64, u32) -> bool| {
        let mut words = wrong_words(evidence)
            .filter_map(|(i, w)| Some((i, *w.first()?)))
            .peekable();
        words.peek().is_some() && words.all(|(i, w)| holds(i, w))
    };
    if evidence
        .older
        .iter()
        .any(|seed| all(&|i, w| w == word(*seed, i)))
    {
        DataFault::OldRound
    } else if all(&|i, w| (w ^ word(evidence.expected, i)).count_ones() == 1) {
        DataFault::Flip
    } else {
        DataFault::Garbage
    }
}

/// Every wrong word with its number in the pattern, and the words after it.
fn wrong_words<'a>(evidence: &'a Evidence<'_>) -> impl Iterator<Item = (u64, &'a [u32])> {
    evidence.pieces.iter().flat_map(|piece| {
        let begin = evidence.first + piece.place;
        let tails = (0..piece.words.len()).filter_map(|k| piece.words.get(k..));
        (begin..)
            .zip(tails)
            .filter(|(i, w)| w.first().is_some_and(|w| *w != word(evidence.expected, *i)))
    })
}
