//! In which way data is wrong. What goes wrong on real machines leaves few traces, and each points to
//! another cause: nothing arrives, zeros arrive, it arrives elsewhere, only the writer sees it.

use super::{Counts, Piece, from, origin, word};
use std::fmt;

/// In which way data is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Zeros arrive.
    Zeros,
    /// All ones arrive, as a read gives that nobody answers.
    Ones,
    /// Nothing arrives: what was there before still is.
    Stale,
    /// The writer reads its data through the peer mapping, and the owner has not got it.
    Mirror,
    /// It was told to be done and arrived later.
    Late,
    /// It lands so many bytes behind where it should, or before.
    Offset(i64),
    /// What lies so many bytes behind the source arrives, or before.
    From(i64),
    /// Bytes `from` to `to` do not arrive.
    Partial {
        /// First byte that is missing.
        from: u64,
        /// First byte that is there again, or the end.
        to: u64,
    },
    /// Words are missing here and there.
    Holes,
    /// An earlier round's data arrives.
    OldRound,
    /// It lands in that GPU.
    OtherGpu(usize),
    /// Single bits are flipped.
    Flip,
    /// None of these.
    Garbage,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("arrives as zeros"),
            Self::Ones => f.write_str("arrives as all ones: nobody answered"),
            Self::Stale => f.write_str("does not arrive: what was there before still is"),
            Self::Mirror => f.write_str("does not arrive, although the writer reads it back as if it had"),
            Self::Late => f.write_str("arrives only after it was told to be done"),
            Self::Offset(bytes) if *bytes < 0 => {
                write!(f, "arrives {} bytes before its place", bytes.unsigned_abs())
            }
            Self::Offset(bytes) => write!(f, "arrives {bytes} bytes behind its place"),
            Self::From(bytes) if *bytes < 0 => {
                write!(f, "brings what lies {} bytes before its source", bytes.unsigned_abs())
            }
            Self::From(bytes) => write!(f, "brings what lies {bytes} bytes behind its source"),
            Self::Partial { from, to } => write!(f, "arrives only in part: bytes {from} to {to} are missing"),
            Self::Holes => f.write_str("arrives with holes"),
            Self::OldRound => f.write_str("arrives as the data of an earlier transfer"),
            Self::OtherGpu(n) => write!(f, "arrives in GPU {n} instead"),
            Self::Flip => f.write_str("arrives with flipped bits"),
            Self::Garbage => f.write_str("arrives wrong, in no way that is known"),
        }
    }
}

/// Data of a transfer that was found where it does not belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// In the memory of the right GPU, so many bytes behind its place.
    Shifted(i64),
    /// In that GPU.
    Gpu(usize),
}

/// The memory around the source of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The pattern there.
    pub seed: u64,
    /// The number in it of the source's first word.
    pub first: u64,
}

/// What was found where the data should be, and what was seen on looking closer.
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
    /// Parts of what was found that hold wrong words.
    pub pieces: &'a [Piece],
    /// A second check, a moment later.
    pub again: Option<Counts>,
    /// What the writer reads through the peer mapping, for a write.
    pub through_peer: Option<Counts>,
    /// Around the source, for a read.
    pub source: Option<Source>,
    /// Where the data was found instead.
    pub elsewhere: Option<Elsewhere>,
}

/// In which way data that is wrong is so.
#[must_use]
pub fn classify(evidence: &Evidence<'_>) -> Wrong {
    let counts = &evidence.counts;
    let right = |again: &Option<Counts>| again.is_some_and(|c| c.all_right(counts.looked));
    if right(&evidence.again) {
        return Wrong::Late;
    }
    if right(&evidence.through_peer) {
        return Wrong::Mirror;
    }
    match evidence.elsewhere {
        Some(Elsewhere::Gpu(n)) => return Wrong::OtherGpu(n),
        Some(Elsewhere::Shifted(bytes)) => return Wrong::Offset(bytes),
        None => {}
    }
    let shifted = || match (shifted(evidence), evidence.source) {
        (Some(bytes), Some(_)) => Some(Wrong::From(-bytes)),
        (Some(bytes), None) => Some(Wrong::Offset(bytes)),
        (None, Some(source)) => around(evidence, source).map(Wrong::From),
        (None, None) => None,
    };
    missing(counts).or_else(shifted).unwrap_or_else(|| by_words(evidence))
}

/// How far the data that arrived here is from where it belongs.
fn shifted(evidence: &Evidence<'_>) -> Option<i64> {
    let meant = evidence.first..evidence.first.checked_add(evidence.counts.looked)?;
    wrong_words(evidence).find_map(|(i, found)| {
        let begin = origin(found, evidence.expected, &meant)?;
        i.checked_signed_diff(begin)?.checked_mul(4)
    })
}

/// How far from the source lies what arrived, where it is not the data itself.
fn around(evidence: &Evidence<'_>, source: Source) -> Option<i64> {
    let older = |(i, found): &(u64, &[u32])| {
        found.first().is_some_and(|w| evidence.older.iter().any(|seed| *w == word(*seed, *i)))
    };
    wrong_words(evidence).filter(|it| !older(it)).find_map(|(i, found)| {
        from(found, source.seed, source.first + i.checked_sub(evidence.first)?)?.checked_mul(4)
    })
}

/// Zeros or old data, all over or in one run; only where all that is wrong is so.
fn missing(counts: &Counts) -> Option<Wrong> {
    let class = match counts.wrong {
        n if n == counts.zeros => Wrong::Zeros,
        n if n == counts.sentinels => Wrong::Stale,
        _ => return None,
    };
    // A right word among zeros may be chance; of 64 MiB it is 1 in 256 times.
    if counts.wrong.saturating_add(8) >= counts.looked {
        return Some(class);
    }
    let (from, to) = (counts.first?, counts.last?.saturating_add(1));
    let one_run = to.saturating_sub(from) <= counts.wrong.saturating_add(8);
    let part = Wrong::Partial { from: from.saturating_mul(4), to: to.saturating_mul(4) };
    Some(if one_run { part } else { Wrong::Holes })
}

fn by_words(evidence: &Evidence<'_>) -> Wrong {
    let all = |holds: &dyn Fn(u64, u32) -> bool| {
        let mut words = wrong_words(evidence).filter_map(|(i, w)| Some((i, *w.first()?))).peekable();
        words.peek().is_some() && words.all(|(i, w)| holds(i, w))
    };
    if all(&|_, w| w == u32::MAX) {
        Wrong::Ones
    } else if evidence.older.iter().any(|seed| all(&|i, w| w == word(*seed, i))) {
        Wrong::OldRound
    } else if all(&|i, w| (w ^ word(evidence.expected, i)).count_ones() == 1) {
        Wrong::Flip
    } else {
        Wrong::Garbage
    }
}

/// Every wrong word with its number in the pattern, and what follows it.
fn wrong_words<'a>(evidence: &'a Evidence<'_>) -> impl Iterator<Item = (u64, &'a [u32])> {
    evidence.pieces.iter().flat_map(|piece| {
        let begin = evidence.first + piece.place;
        let tails = (0..piece.words.len()).filter_map(|k| piece.words.get(k..));
        (begin..).zip(tails).filter(|(i, w)| w.first().is_some_and(|w| *w != word(evidence.expected, *i)))
    })
}
