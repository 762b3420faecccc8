//! Bandwidth by size, for one pair of each kind of way: where small transfers stop paying.

use super::Seen;
use super::plan::policy;
use crate::config::Level;
use crate::finding::Finding;
use crate::gpu::PeerAccess;
use crate::schedule::{Pair, Way};
use crate::suite::Machine;
use crate::suite::gpu_fault::during;
use crate::suite::speed::{Bench, Figure, Flow, How, Job, Taken, Ways, rounded, wrong};
use serde_json::Value;

/// From a page to nvbandwidth's size, four times as much each.
const SMALLEST: u64 = 4096;
const LARGEST: u64 = 512 << 20;
/// A sample moves about so much: small copies are made often.
const SAMPLE_BYTES: u64 = 64 << 20;
const MOST_COPIES: u64 = 64;

/// The table, where peer access works.
pub(super) fn table(
    machine: &Machine,
    bench: &Bench<'_>,
    ways: &Ways,
    seen: &mut Seen,
) -> Result<(), Box<Finding>> {
    let clique = machine.clique()?;
    let pairs: Vec<_> = ways.rounds().concat();
    let apart: Vec<_> = seen.apart.iter().map(|(pair, _)| *pair).collect();
    for pair in one_of_each(pairs.into_iter().filter(|p| !apart.contains(p)), |p| kind(ways, p)) {
        let (Some(a), Some(b)) = (clique.gpu(pair.from), clique.gpu(pair.to)) else { continue };
        let _on = PeerAccess::both_ways(a, b).map_err(|e| during(&pair.to_string(), &e))?;
        for bytes in sizes(bench.bytes) {
            let times = u32::try_from((SAMPLE_BYTES / bytes).clamp(1, MOST_COPIES)).unwrap_or(1);
            let flow = |how| vec![Flow::write(pair, how, bytes, times)];
            let jobs = [How::Ce, How::Sm].map(|how| Job::new(flow(how), Figure::First));
            let mut row = vec![pair.to_string().into(), kind(ways, pair).into(), bytes.into()];
            for (name, job) in ["ce.write", "sm.write"].into_iter().zip(jobs) {
                let taken = bench.sampled(machine, &policy(name, Level::Standard), &[job])?;
                let figure = match taken.into_iter().next() {
                    Some(Taken::Figures(figures)) => figures.first().map(|f| rounded(f.median)),
                    Some(Taken::Wrong(flow, checked)) => {
                        seen.findings.push(wrong(&flow, &checked));
                        None
                    }
                    None => None,
                };
                row.push(figure.map_or(Value::Null, Value::from));
            }
            seen.rows.push(row);
        }
    }
    Ok(())
}

fn sizes(most: u64) -> impl Iterator<Item = u64> {
    let larger = |bytes: &u64| Some(*bytes * 4).filter(|bytes| *bytes <= LARGEST);
    let last = std::iter::successors(Some(SMALLEST), larger).chain([LARGEST]);
    last.filter(move |bytes| *bytes <= most)
}

/// The first pair of each kind.
fn one_of_each(pairs: impl Iterator<Item = Pair>, kind: impl Fn(Pair) -> String) -> Vec<Pair> {
    let mut known = Vec::new();
    pairs
        .filter(|pair| {
            let kind = kind(*pair);
            let new = !known.contains(&kind);
            known.push(kind);
            new
        })
        .collect()
}

/// The letters of `nvidia-smi topo -m`.
fn kind(ways: &Ways, pair: Pair) -> String {
    use crate::pcie::topo::Cell;
    match ways.routes.get(pair).map(|route| route.way) {
        Some(Way::NvLink(links)) => Cell::NvLink(links).to_string(),
        Some(Way::Pcie { kind, .. }) => Cell::Pcie(kind).to_string(),
        Some(Way::Staged) | None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_a_page_to_the_buffers() {
        let all: Vec<_> = sizes(512 << 20).collect();
        assert_eq!((all.first(), all.last(), all.len()), (Some(&4096), Some(&(512 << 20)), 10));
        assert_eq!(sizes(32 << 20).last(), Some(16 << 20));
    }

    #[test]
    fn one_pair_stands_for_its_kind() {
        let pairs = [(0, 1), (0, 2), (1, 2), (2, 3)].map(|(a, b)| Pair::new(a, b));
        let kind = |p: Pair| if p.from == 0 { "PIX".into() } else { "SYS".to_owned() };
        assert_eq!(one_of_each(pairs.into_iter(), kind), [pairs[0], pairs[2]]);
    }
}
