//! The judgement over all sweeps and copies. Pure.

use crate::schedule::Pair;
use crate::suite::shared::held_memory::{ChangedMemory, MemoryShare};
use crate::suite::shared::pair::merge_pairs;
use crate::suite::shared::transfer::{
    Direction, Fault, TransferKind, findings, ruled_out, size, unanswered,
};
use gpu::pattern::Counts;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::table::{ReachRow, Seed, Table};
use outcome::text::gib;
use std::fmt;

/// The result of one pair's tags in one direction.
#[derive(Debug)]
pub(super) struct TagSweep {
    pub(super) pair: Pair,
    pub(super) kind: TransferKind,
    /// The number of pages, and their size in bytes.
    pub(super) pages: u64,
    pub(super) page: u64,
    pub(super) counts: Counts,
    pub(super) wrong_page: Option<WrongPage>,
}

/// The first page with a wrong tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrongPage {
    /// Its offset in the memory that is tested, bytes.
    pub(super) at: u64,
    pub(super) what: TagFault,
    pub(super) found: Vec<u32>,
    pub(super) expected: Vec<u32>,
}

/// What a page holds instead of its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagFault {
    /// All bits are 0.
    Zeros,
    /// All bits are 1.
    Ones,
    /// The previous content.
    Stale,
    /// The tag of the page at that offset.
    Alias(u64),
    /// Another pair's tag.
    Foreign(Pair),
    /// Other data.
    Other,
}

/// Copies of one kind that each pair made.
#[derive(Debug)]
pub(super) struct CopySeries {
    pub(super) kind: TransferKind,
    pub(super) sizes: Vec<u64>,
    pub(super) seed: u64,
}

/// The results of all sweeps and copies.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// How much of each GPU's memory was tested.
    pub(super) shares: Vec<MemoryShare>,
    pub(super) pairs: Vec<Pair>,
    /// How many peers a GPU had at once.
    pub(super) at_once: usize,
    pub(super) sweeps: Vec<TagSweep>,
    pub(super) tried: Vec<CopySeries>,
    /// Pairs of which the first wrote all of the second's memory.
    pub(super) whole: Vec<Pair>,
    pub(super) faults: Vec<Fault>,
    pub(super) found: Vec<(Pair, Finding)>,
    /// Memory that changed although no GPU wrote to it.
    pub(super) strays: Vec<ChangedMemory>,
    /// What could not be tried, or was aborted.
    pub(super) broken: Vec<Finding>,
}

/// A GPU of whose memory less than this fraction was tested is named in the summary.
const MUCH: f64 = 0.9;

/// Judges all pairs.
pub(super) fn judge(results: &Results) -> Judgement {
    let mut found: Vec<(Pair, Finding)> = results.sweeps.iter().filter_map(sweep_finding).collect();
    for pair in &results.pairs {
        let own: Vec<Fault> = results
            .faults
            .iter()
            .filter(|f| f.transfer.pair == *pair)
            .cloned()
            .collect();
        found.extend(findings(*pair, &own));
    }
    found.extend(results.found.iter().cloned());
    let mut all = merge_pairs(found);
    let known = !all.is_empty();
    // If data is known to be misdirected, stray changes need no second finding.
    all.extend(results.strays.iter().filter(|_| !known).map(stray));
    all.extend(results.broken.iter().cloned());
    if results.sweeps.is_empty() && all.iter().all(|f| f.severity == Severity::Info) {
        let why = "no pair has peer access; see p2p-capability";
        return Judgement::not_applicable(why).with(all);
    }
    Judgement::summed_up(|| summary(results), all).with_tables(vec![transfers_table(results)])
}

fn summary(results: &Results) -> String {
    let pages = results
        .sweeps
        .iter()
        .map(|s| s.pages)
        .min()
        .unwrap_or_default();
    let page = results
        .sweeps
        .iter()
        .map(|s| s.page)
        .max()
        .unwrap_or_default();
    let less: Vec<_> = results
        .shares
        .iter()
        .filter(|s| part(s) < MUCH)
        .map(tested_part)
        .collect();
    let less = if less.is_empty() {
        String::new()
    } else {
        format!("; other processes use the rest of {}", less.join(", "))
    };
    let most = results
        .tried
        .iter()
        .flat_map(|t| t.sizes.iter())
        .max()
        .copied()
        .unwrap_or_default();
    format!(
        "{} ordered pairs reach {}: every {} page is correct ({pages}), copies of up to {:.2} GiB arrive, and nothing else changes{less}",
        results.pairs.len(),
        super::covered(results),
        size(page),
        gib(most),
    )
}

fn tested_part(share: &MemoryShare) -> String {
    format!(
        "GPU {}: {:.1} of {:.1} GiB tested",
        share.gpu,
        gib(share.bytes),
        gib(share.total)
    )
}

/// The finding about one sweep, if a page is wrong or was not checked.
fn sweep_finding(sweep: &TagSweep) -> Option<(Pair, Finding)> {
    let TagSweep {
        pair,
        kind,
        pages,
        page,
        counts,
        wrong_page,
    } = sweep;
    if counts.looked != *pages {
        let message = format!(
            "{kind}s of tags: {} of {pages} pages were checked",
            counts.looked
        );
        return Some((
            *pair,
            Code::P2pChecker.finding(Severity::Error, Subject::Machine, message),
        ));
    }
    let wrong_page = wrong_page.as_ref().filter(|_| counts.wrong > 0)?;
    let words = WrongPageText(wrong_page.what, kind.direction);
    let message = format!(
        "{kind}s miss {} of {pages} pages of {}, the first at {}: {words}",
        counts.wrong,
        size(*page),
        size(wrong_page.at)
    );
    let hex = |words: &[u32]| {
        words
            .iter()
            .take(4)
            .map(|w| format!("{w:08x}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let sample = match wrong_page.found.as_slice() {
        [] => String::new(),
        found => format!(
            ": found {}, expected {}",
            hex(found),
            hex(&wrong_page.expected)
        ),
    };
    let last = counts.last.unwrap_or_default() * page;
    let line = format!(
        "{pair}, {kind}s: the first at {:#x}, the last at {last:#x}: {words}{sample}",
        wrong_page.at
    );
    let finding = Code::P2pWrongData.finding(Severity::Fail, Subject::Machine, message);
    let finding = finding.values(counts.wrong, 0, Some("pages")).seen(line);
    let finding = match wrong_page.what {
        TagFault::Ones => unanswered(finding),
        TagFault::Alias(_) => finding.because(Reason::Aliased),
        TagFault::Foreign(_) => finding.because(Reason::ForeignMemory),
        _ => finding,
    };
    Some((*pair, finding))
}

fn stray(it: &ChangedMemory) -> Finding {
    let place = it.counts.first.unwrap_or_default();
    let words: Vec<_> = it
        .found
        .iter()
        .take(8)
        .map(|w| format!("{w:08x}"))
        .collect();
    let message = format!(
        "GPU {}: {} words of memory changed although no transfer wrote to them, while peers wrote elsewhere",
        it.gpu, it.counts.wrong
    );
    let seen = format!(
        "first at {:#x}: found {}",
        it.place.address.wrapping_add(place * 4),
        words.join(" ")
    );
    Code::P2pStray
        .finding(Severity::Fail, it.gpu, message)
        .values(it.counts.wrong, 0, Some("words"))
        .seen(seen)
}

/// What a wrong page holds, in words; the fault and the direction.
struct WrongPageText(TagFault, Direction);

impl fmt::Display for WrongPageText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (TagFault::Zeros, _) => f.write_str("zeros arrive"),
            (TagFault::Ones, _) => f.write_str("all ones arrive"),
            (TagFault::Stale, _) => f.write_str("nothing arrives"),
            (TagFault::Alias(at), Direction::Write) => {
                write!(f, "it holds what was written to {at:#x}")
            }
            (TagFault::Alias(at), Direction::Read) => {
                write!(f, "the read returns the content of {at:#x}")
            }
            (TagFault::Foreign(pair), _) => write!(f, "it holds what {pair} wrote"),
            (TagFault::Other, _) => f.write_str("wrong data arrives"),
        }
    }
}

/// The table of what was tried with each pair.
fn transfers_table(results: &Results) -> Table {
    let row = |what: &str,
               kind: TransferKind,
               pairs: usize,
               (smallest, largest): (u64, u64),
               transfers: u64,
               bytes: u64,
               seed: Option<u64>| ReachRow {
        what: what.to_owned(),
        by: kind.to_string(),
        pairs,
        smallest,
        largest,
        transfers,
        bytes,
        ruled_out: ruled_out(transfers),
        seed: seed.map(Seed),
    };
    let mut rows = Vec::new();
    for direction in [Direction::Write, Direction::Read] {
        let of: Vec<_> = results
            .sweeps
            .iter()
            .filter(|s| s.kind.direction == direction)
            .collect();
        let Some(least) = of.iter().min_by_key(|s| s.pages) else {
            continue;
        };
        let tag = gpu::TAG;
        let what = format!(
            "a tag in every {} page, {} peers at once",
            size(least.page),
            results.at_once
        );
        rows.push(row(
            &what,
            least.kind,
            of.len(),
            (tag, tag),
            least.pages,
            least.pages * tag,
            None,
        ));
    }
    for it in &results.tried {
        let sizes = || it.sizes.iter().copied();
        let ends = (
            sizes().min().unwrap_or_default(),
            sizes().max().unwrap_or_default(),
        );
        let n = it.sizes.len() as u64;
        rows.push(row(
            "odd sizes at odd addresses",
            it.kind,
            results.pairs.len(),
            ends,
            n,
            sizes().sum(),
            Some(it.seed),
        ));
    }
    let mut whole: Vec<_> = results.whole.clone();
    whole.sort_unstable();
    whole.dedup();
    if let Some(kind) = results
        .tried
        .first()
        .map(|t| t.kind)
        .filter(|_| !whole.is_empty())
    {
        let bytes = results
            .shares
            .iter()
            .map(|s| s.bytes)
            .min()
            .unwrap_or_default();
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
    Table::Reach(rows)
}

fn part(share: &MemoryShare) -> f64 {
    gib(share.bytes) / gib(share.total.max(1))
}
