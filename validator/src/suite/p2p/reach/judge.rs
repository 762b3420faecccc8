//! What all sweeps and copies come to. Pure.

use crate::gpu::pattern::Counts;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::pair::together;
use crate::suite::shared::plot::{Changed, Share};
use crate::suite::shared::speed::table;
use crate::suite::shared::transfer::{Fault, Kind, Way, findings, ruled_out, size};
use serde_json::Value;
use std::fmt;

/// The tags of one pair.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) pair: Pair,
    pub(super) kind: Kind,
    /// How many pages, and their bytes.
    pub(super) pages: u64,
    pub(super) page: u64,
    pub(super) counts: Counts,
    pub(super) missed: Option<Missed>,
}

/// The first page whose tag is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missed {
    /// Where it begins in what is gone over, bytes.
    pub(super) at: u64,
    pub(super) what: Amiss,
    pub(super) found: Vec<u32>,
    pub(super) expected: Vec<u32>,
}

/// In which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amiss {
    /// Zeros are there.
    Zeros,
    /// What was there before.
    Stale,
    /// The tag of the page at that offset.
    Alias(u64),
    /// Another pair's tag.
    Foreign(Pair),
    /// Something else.
    Other,
}

/// Copies that each pair made.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) kind: Kind,
    pub(super) sizes: Vec<u64>,
    pub(super) seed: u64,
}

/// All that was tried.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// How much of each GPU's memory was gone over.
    pub(super) shares: Vec<Share>,
    pub(super) pairs: Vec<Pair>,
    /// How many peers a GPU had at once.
    pub(super) at_once: usize,
    pub(super) swept: Vec<Swept>,
    pub(super) tried: Vec<Tried>,
    /// Pairs of which the first wrote all of the second's memory.
    pub(super) whole: Vec<Pair>,
    pub(super) faults: Vec<Fault>,
    pub(super) found: Vec<(Pair, Finding)>,
    /// What changed that nobody wrote to.
    pub(super) strays: Vec<Changed>,
    /// What could not be tried or broke off.
    pub(super) broken: Vec<Finding>,
}

/// Less of a GPU's memory than this is named: others use it.
const MUCH: f64 = 0.9;

/// Judges all pairs.
pub(super) fn judge(told: &Told) -> Judgement {
    let mut found: Vec<(Pair, Finding)> = told.swept.iter().filter_map(sweep).collect();
    for pair in &told.pairs {
        let own: Vec<Fault> = told.faults.iter().filter(|f| f.cell.pair == *pair).cloned().collect();
        found.extend(findings(*pair, &own));
    }
    found.extend(told.found.iter().cloned());
    let mut all = together(found);
    let known = !all.is_empty();
    // Where data goes astray, what is astray needs no second finding.
    all.extend(told.strays.iter().filter(|_| !known).map(stray));
    all.extend(told.broken.iter().cloned());
    if told.swept.is_empty() && all.iter().all(|f| f.severity == Severity::Info) {
        let why = "no pair has peer access; see p2p-capability";
        return Judgement::not_applicable(why).with(all);
    }
    let worst = all.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = worst.map_or_else(|| good(told), |worst| worst.message.clone());
    Judgement::of(summary, all).with_tables(vec![tried(told)])
}

fn good(told: &Told) -> String {
    let pages = told.swept.iter().map(|s| s.pages).min().unwrap_or_default();
    let page = told.swept.iter().map(|s| s.page).max().unwrap_or_default();
    let less: Vec<_> = told.shares.iter().filter(|s| part(s) < MUCH).map(less).collect();
    let less = if less.is_empty() { String::new() } else { format!("; others use {}", less.join(", ")) };
    let most = told.tried.iter().flat_map(|t| t.sizes.iter()).max().copied().unwrap_or_default();
    format!(
        "{} ordered pairs reach {}: every {} page by itself ({pages}), copies up to {:.2} GiB, and nothing else changes{less}",
        told.pairs.len(),
        super::covered(told),
        size(page),
        gib(most),
    )
}

fn less(share: &Share) -> String {
    format!("GPU {}: {:.1} of {:.1} GiB gone over", share.gpu, gib(share.bytes), gib(share.total))
}

/// What one sweep missed, as one finding.
fn sweep(swept: &Swept) -> Option<(Pair, Finding)> {
    let Swept { pair, kind, pages, page, counts, missed } = swept;
    if counts.looked != *pages {
        let message = format!("{kind}s of tags: {} of {pages} pages were looked at", counts.looked);
        return Some((*pair, Code::P2pChecker.finding(Severity::Error, "", message)));
    }
    let missed = missed.as_ref().filter(|_| counts.wrong > 0)?;
    let words = Words(missed.what, kind.way);
    let message = format!(
        "{kind}s miss {} of {pages} pages of {}, the first at {}: {words}",
        counts.wrong,
        size(*page),
        size(missed.at)
    );
    let hex = |words: &[u32]| words.iter().take(4).map(|w| format!("{w:08x}")).collect::<Vec<_>>().join(" ");
    let sample = match missed.found.as_slice() {
        [] => String::new(),
        found => format!(": found {}, expected {}", hex(found), hex(&missed.expected)),
    };
    let last = counts.last.unwrap_or_default() * page;
    let line =
        format!("{pair}, {kind}s: the first at {:#x}, the last at {last:#x}: {words}{sample}", missed.at);
    let finding = Code::P2pWrongData.finding(Severity::Fail, "", message);
    let finding = finding.values(counts.wrong, 0, Some("pages")).seen(line);
    let finding = match missed.what {
        Amiss::Alias(_) => finding.because("two addresses lead to the same memory: the window through which peers reach it is smaller than it, or is moved"),
        Amiss::Foreign(_) => finding.because("addresses of different GPUs lead to the same memory: the driver and the GPUs disagree on whose it is"),
        _ => finding,
    };
    Some((*pair, finding))
}

fn stray(it: &Changed) -> Finding {
    let place = it.counts.first.unwrap_or_default();
    let words: Vec<_> = it.found.iter().take(8).map(|w| format!("{w:08x}")).collect();
    let gpu = format!("GPU {}", it.gpu);
    let message = format!(
        "{gpu}: {} words of memory changed that nobody wrote to, while peers wrote elsewhere",
        it.counts.wrong
    );
    let seen = format!("first at {:#x}: found {}", it.span.address.wrapping_add(place * 4), words.join(" "));
    Code::P2pStray.finding(Severity::Fail, &gpu, message).values(it.counts.wrong, 0, Some("words")).seen(seen)
}

/// In words what is wrong with a page.
struct Words(Amiss, Way);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Amiss::Zeros, _) => f.write_str("zeros arrive"),
            (Amiss::Stale, _) => f.write_str("nothing arrives"),
            (Amiss::Alias(at), Way::Write) => write!(f, "what was written to {at:#x} is there"),
            (Amiss::Alias(at), Way::Read) => write!(f, "what lies at {at:#x} is read"),
            (Amiss::Foreign(pair), _) => write!(f, "what {pair} wrote is there"),
            (Amiss::Other, _) => f.write_str("wrong data arrives"),
        }
    }
}

/// What was tried with each pair.
fn tried(told: &Told) -> Value {
    let row =
        |what: &str, kind: Kind, pairs: usize, sizes: (u64, u64), n: u64, bytes: u64, seed: Option<u64>| {
            let seed = seed.map_or(Value::Null, |seed| format!("{seed:016x}").into());
            let (least, most) = sizes;
            vec![
                what.into(),
                kind.to_string().into(),
                pairs.into(),
                least.into(),
                most.into(),
                n.into(),
                bytes.into(),
                ruled_out(n).into(),
                seed,
            ]
        };
    let mut rows = Vec::new();
    for way in [Way::Write, Way::Read] {
        let of: Vec<_> = told.swept.iter().filter(|s| s.kind.way == way).collect();
        let Some(least) = of.iter().min_by_key(|s| s.pages) else { continue };
        let tag = crate::gpu::TAG;
        let what = format!("a tag in every {} page, {} peers at once", size(least.page), told.at_once);
        rows.push(row(&what, least.kind, of.len(), (tag, tag), least.pages, least.pages * tag, None));
    }
    for it in &told.tried {
        let sizes = || it.sizes.iter().copied();
        let ends = (sizes().min().unwrap_or_default(), sizes().max().unwrap_or_default());
        let n = it.sizes.len() as u64;
        rows.push(row(
            "odd sizes at odd places",
            it.kind,
            told.pairs.len(),
            ends,
            n,
            sizes().sum(),
            Some(it.seed),
        ));
    }
    let mut whole: Vec<_> = told.whole.clone();
    whole.sort_unstable();
    whole.dedup();
    if let Some(kind) = told.tried.first().map(|t| t.kind).filter(|_| !whole.is_empty()) {
        let bytes = told.shares.iter().map(|s| s.bytes).min().unwrap_or_default();
        rows.push(row(
            "all memory",
            kind,
            whole.len(),
            (bytes.min(1 << 30), bytes.min(1 << 30)),
            bytes >> 30,
            bytes,
            None,
        ));
    }
    let columns = [
        ("what", ""),
        ("by", ""),
        ("pairs", ""),
        ("smallest", "B"),
        ("largest", "B"),
        ("transfers a pair", ""),
        ("bytes a pair", "B"),
        ("faults ruled out above", ""),
        ("seed", ""),
    ];
    table("tried", &columns, &rows)
}

#[expect(clippy::cast_precision_loss, reason = "for people, with one decimal")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn part(share: &Share) -> f64 {
    gib(share.bytes) / gib(share.total.max(1))
}
