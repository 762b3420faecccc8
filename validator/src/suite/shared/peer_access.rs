//! Peer access for many pairs at the same time, as in programs that use all GPUs. Without NVSwitch a GPU
//! can have at most eight peers: in that case the pairs take turns, in groups as large as the driver allows.

use crate::schedule::Pair;
use crate::suite::TestContext;
use gpu::{Buffer, Clique, Gpu, GpuError, PeerAccess, is_cuda_lost};
use machine::GpuId;
use outcome::Outcome;
use outcome::finding::{Code, Finding, Severity};
use std::collections::BTreeMap;

/// `CUDA_ERROR_TOO_MANY_PEERS`
const TOO_MANY: i32 = 711;
/// How many peers a GPU may have at once, tried in this order.
const MOST: [usize; 5] = [usize::MAX, 8, 4, 2, 1];

/// Peer access of some pairs; it is disabled again when this value is dropped.
#[derive(Debug, Default)]
pub(in crate::suite) struct AccessGroup {
    pub(in crate::suite) pairs: Vec<Pair>,
    /// Pairs for which access is refused.
    pub(in crate::suite) refused: Vec<(Pair, GpuError)>,
    guards: Vec<PeerAccess>,
}

/// The finding that access is refused to a pair that CUDA says has it, in a test that needs it. It is information only where
/// p2p-capability, which tries every pair, has reported a refusal.
pub(in crate::suite) fn refused(context: &TestContext, pair: Pair, error: &GpuError) -> Finding {
    refusal(context.outcome("p2p-capability"), pair, error)
}

fn refusal(capability: Option<Outcome>, pair: Pair, error: &GpuError) -> Finding {
    let severity = match capability {
        Some(Outcome::Fail | Outcome::Error) => Severity::Info,
        Some(Outcome::Pass | Outcome::Warn | Outcome::NotApplicable) | None => Severity::Fail,
    };
    let error = error.to_string();
    let message = format!("{pair}: peer access is refused: {error}");
    Code::P2pRefused
        .finding(severity, pair, message)
        .lacking([error.as_str()])
}

/// `bytes` of mapped memory of `owner` for all of `gpus` that reach it according to CUDA. If the driver refuses that, for those
/// whose access can be enabled: one refused peer, which p2p-capability reports, must not stop the others.
///
/// # Errors
/// The driver's error, if it refuses both.
pub(in crate::suite) fn mapped_for_peers(
    gpus: &[&Gpu],
    owner: &Gpu,
    bytes: u64,
) -> Result<Buffer, GpuError> {
    let mut peers = Vec::new();
    for peer in gpus.iter().filter(|gpu| gpu.id() != owner.id()) {
        if peer.can_access(owner)? {
            peers.push(*peer);
        }
    }
    match owner.alloc_mapped(bytes, &peers) {
        Err(error) if error.is_sticky() => Err(error),
        Err(_) => owner.alloc_mapped(bytes, &enabling(&peers, owner)?),
        Ok(buffer) => Ok(buffer),
    }
}

/// Those of `peers` for which access to `owner` can actually be enabled.
fn enabling<'g>(peers: &[&'g Gpu], owner: &Gpu) -> Result<Vec<&'g Gpu>, GpuError> {
    let mut good = Vec::new();
    for peer in peers {
        match PeerAccess::one_way(peer, owner) {
            Ok(_) => good.push(*peer),
            Err(error) if error.is_sticky() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(good)
}

/// Enables access for all `pairs` at once, or group after group, and calls `with` for each group; returns the
/// largest number of peers that a GPU had at once.
///
/// # Errors
/// The error of `with`, or a fault after which no test can continue.
pub(in crate::suite) fn with_peer_access(
    clique: &Clique,
    pairs: &[Pair],
    mut with: impl FnMut(&AccessGroup) -> Result<(), GpuError>,
) -> Result<usize, GpuError> {
    for most in MOST {
        let groups = groups(pairs, most);
        let mut at_once = 0;
        let mut too_many = false;
        for (n, group) in groups.iter().enumerate() {
            let access = enable(clique, group)?;
            too_many = access
                .refused
                .iter()
                .any(|(_, error)| error.code() == Some(TOO_MANY));
            if too_many && n == 0 && most > 1 {
                break;
            }
            too_many = false;
            at_once = at_once.max(peers(&access.pairs));
            with(&access)?;
            if is_cuda_lost() {
                return Ok(at_once);
            }
        }
        if !too_many {
            return Ok(at_once);
        }
    }
    Ok(0)
}

fn enable(clique: &Clique, pairs: &[Pair]) -> Result<AccessGroup, GpuError> {
    let mut access = AccessGroup::default();
    for pair in pairs {
        let gpu = |n| {
            clique
                .gpu(n)
                .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {n}")))
        };
        match PeerAccess::one_way(gpu(pair.from)?, gpu(pair.to)?) {
            Ok(on) => {
                access.guards.push(on);
                access.pairs.push(*pair);
            }
            Err(error) if error.is_sticky() => return Err(error),
            Err(error) => {
                let enough = error.code() == Some(TOO_MANY);
                access.refused.push((*pair, error));
                if enough {
                    break;
                }
            }
        }
    }
    Ok(access)
}

/// The pairs in groups in which no GPU has more than `most` peers.
fn groups(pairs: &[Pair], most: usize) -> Vec<Vec<Pair>> {
    let mut taken: BTreeMap<GpuId, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<Pair>> = Vec::new();
    for pair in pairs {
        let count = taken.entry(pair.from).or_default();
        let group = *count / most;
        *count += 1;
        if groups.len() <= group {
            groups.resize(group + 1, Vec::new());
        }
        if let Some(group) = groups.get_mut(group) {
            group.push(*pair);
        }
    }
    groups
}

/// The largest number of peers of one GPU.
fn peers(pairs: &[Pair]) -> usize {
    let mut counts: BTreeMap<GpuId, usize> = BTreeMap::new();
    for pair in pairs {
        *counts.entry(pair.from).or_default() += 1;
    }
    counts.into_values().max().unwrap_or_default()
}

/// The pairs in rounds in which each GPU occurs in at most one pair.
pub(in crate::suite) fn disjoint_rounds(pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let mut rounds: Vec<Vec<Pair>> = Vec::new();
    for pair in pairs {
        let meets = |other: &Pair| {
            [other.from, other.to]
                .iter()
                .any(|n| [pair.from, pair.to].contains(n))
        };
        match rounds.iter_mut().find(|round| !round.iter().any(meets)) {
            Some(round) => round.push(*pair),
            None => rounds.push(vec![*pair]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::circle;

    fn all(gpus: usize) -> Vec<Pair> {
        circle(gpus)
            .into_iter()
            .flatten()
            .flat_map(|pair| [pair, pair.back()])
            .collect()
    }

    #[test]
    fn only_a_refusal_that_has_been_reported_is_information() {
        let error = GpuError::Call {
            call: "cuCtxEnablePeerAccess",
            code: 2,
            name: "CUDA_ERROR_OUT_OF_MEMORY".to_owned(),
            doing: "GPU 0: peer access to GPU 1".to_owned(),
        };
        let severity = |capability| refusal(capability, Pair::of(0, 1), &error).severity;
        for reported in [Outcome::Fail, Outcome::Error] {
            assert_eq!(severity(Some(reported)), Severity::Info);
        }
        for unknown in [None, Some(Outcome::Pass), Some(Outcome::Warn)] {
            assert_eq!(severity(unknown), Severity::Fail);
        }
    }

    #[test]
    fn no_gpu_has_more_peers_than_it_may() {
        let all = all(16);
        assert_eq!(groups(&all, usize::MAX), std::slice::from_ref(&all));
        let groups = groups(&all, 8);
        assert_eq!(groups.len(), 2);
        assert!(groups.iter().all(|group| peers(group) <= 8));
        assert_eq!(groups.concat().len(), 240);
    }

    #[test]
    fn pairs_of_one_round_have_no_gpu_in_common() {
        for gpus in [2, 3, 4, 8] {
            let rounds = disjoint_rounds(&all(gpus));
            assert_eq!(rounds.concat().len(), gpus * (gpus - 1));
            assert!(rounds.iter().all(|round| {
                let ends: std::collections::BTreeSet<_> =
                    round.iter().flat_map(|p| [p.from, p.to]).collect();
                ends.len() == 2 * round.len()
            }));
            let least = if gpus % 2 == 0 {
                2 * (gpus - 1)
            } else {
                2 * gpus
            };
            assert!(rounds.len() <= least + 2, "{gpus}: {}", rounds.len());
        }
    }
}
