//! Hops that take longer than those of comparable pairs; they are measured once more before they count.

use super::pingpong::{Player, play};
use super::{Game, PairPingpong, Results, enable_pairs};
use crate::floors::{LatencyKind, LatencyReference, latency};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::GpuPaths;
use crate::suite::protocol::Activity;
use gpu::{Clique, GpuError};
use outcome::finding::Finding;
use std::collections::BTreeMap;

/// Rounds of the second ping-pong.
const ROUNDS: u64 = 20_000;
/// At most this many pairs are measured again: if more are slow, the machine is slow, and not only for a moment.
const MOST_AGAIN: usize = 16;

/// Findings about the hops of `results` that are slow in both measurements.
pub(super) fn slow_hops(
    context: &TestContext,
    clique: &Clique,
    players: &[Player<'_>],
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<Vec<Finding>, GpuError> {
    let hops: Vec<_> = results
        .pingpongs
        .iter()
        .filter(|p| p.game == Game::TIMED && is_finished(p))
        .map(|p| (p.pair, p.hop_ns))
        .collect();
    let suspects = hop_findings(
        &hops,
        &BTreeMap::new(),
        &|pair| paths.path_group(pair),
        &|pair| paths.is_nvlink(pair),
    );
    let mut again = BTreeMap::new();
    for (pair, _) in suspects.into_iter().take(MOST_AGAIN) {
        context.doing(Activity::of_pair(pair, "flags after data, timed again"));
        let (pairs, access) = enable_pairs(context, clique, vec![pair], results)?;
        let pingpongs = play(
            players,
            &pairs,
            Game {
                rounds: ROUNDS,
                ..Game::TIMED
            },
        )?;
        again.extend(
            pingpongs
                .iter()
                .filter(|p| is_finished(p))
                .map(|p| (p.pair, p.hop_ns)),
        );
        drop(access);
    }
    let found = hop_findings(&hops, &again, &|pair| paths.path_group(pair), &|pair| {
        paths.is_nvlink(pair)
    });
    Ok(found.into_iter().map(|(_, finding)| finding).collect())
}

fn is_finished(pingpong: &PairPingpong) -> bool {
    pingpong
        .sides
        .iter()
        .all(|side| !side.timed_out && side.done > 0)
}

fn hop_findings(
    hops: &[(Pair, f64)],
    again: &BTreeMap<Pair, f64>,
    path_group: &dyn Fn(Pair) -> String,
    nvlink: &dyn Fn(Pair) -> bool,
) -> Vec<(Pair, Finding)> {
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for (pair, ns) in hops {
        let least = best.entry(path_group(*pair)).or_insert(*ns);
        *least = least.min(*ns);
    }
    let one = |(pair, ns): &(Pair, f64)| {
        let like = LatencyReference {
            nvlink: nvlink(*pair),
            best: best.get(&path_group(*pair)).copied(),
            local: None,
        };
        Some((
            *pair,
            latency(
                *pair,
                LatencyKind::Hop,
                (*ns, again.get(pair).copied()),
                &like,
            )?,
        ))
    };
    hops.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_compared_with_the_best_of_its_group_and_measured_again() {
        let (near, late) = (Pair::of(0, 1), Pair::of(2, 3));
        let said = |again: &BTreeMap<Pair, f64>| {
            let hops = [(near, 1100.0), (Pair::of(0, 2), 1600.0), (late, 2900.0)];
            hop_findings(&hops, again, &|_| "SYS".to_owned(), &|_| false)
        };
        let found = said(&BTreeMap::new());
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [late]);
        let message = &said(&BTreeMap::from([(late, 2800.0)]))[0].1.message;
        assert!(
            message
                .starts_with("GPU 2 -> 3: a flag takes 2900.00 ns (2800.00 when measured again)"),
            "{message}"
        );
        assert_eq!(said(&BTreeMap::from([(late, 1200.0)])), []);
    }
}
