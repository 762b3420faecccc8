//! Mixed traffic, as programs cause it: half of the pairs write and half read, kernels and copy engines work at the same
//! time, neighbours use both, and every GPU copies to and from the host's memory meanwhile. Its data is checked; its
//! speed is only shown, since the sum depends on how the engines share a GPU.

use crate::schedule::Pair;
use crate::suite::benchmark::{CopyMethod, Flow, Side, WrongHostCopy};
use crate::suite::shared::transfer::unanswered;
use gpu::pattern::Counts;
use outcome::finding::{Code, Finding, Severity};

/// Rounds: in the second one, engines and ways are exchanged, so that every pair has each.
pub(super) const ROUNDS: usize = 2;
/// Copies of each transfer: the second one certainly runs beside all others.
const TIMES: u32 = 2;
/// How many transfers a GPU moves or receives in a round at most, besides one for each of its peers.
pub(super) const MORE: usize = 2;

/// The transfers of round `round`, all at once; `place`: gives a transfer its part of the buffers.
pub(super) fn flows(
    pairs: &[Pair],
    gpus: usize,
    round: usize,
    place: impl Fn(Flow) -> Flow,
) -> Vec<Flow> {
    let flow = |pair: Pair, reads: bool, kernel: bool| {
        let method = if kernel {
            CopyMethod::Sm
        } else {
            CopyMethod::Ce
        };
        let by = if reads { Side::Target } else { Side::Source };
        Flow {
            by,
            ..Flow::write(pair, method, 0, TIMES)
        }
    };
    let one = |pair: &Pair| {
        let (from, to) = (pair.from.index(), pair.to.index());
        // Pairs of GPUs that share this property are half of all, and the engine depends on the distance too.
        let reads = (from + to + round) % 2 == 1;
        let kernel = (from.min(to) + (from.abs_diff(to)).div_ceil(2) + round) % 2 == 1;
        let whole = place(flow(*pair, reads, kernel));
        if (from + 1) % gpus.max(1) != to {
            return vec![whole];
        }
        // Both engines, each on a half of the part: one writes and one reads.
        let half = whole.bytes / 2;
        let other = flow(*pair, !reads, !kernel);
        let second = Flow {
            bytes: half,
            ..other
        }
        .at(whole.from + half, whole.to + half);
        vec![
            Flow {
                bytes: half,
                ..whole
            },
            second,
        ]
    };
    pairs.iter().flat_map(one).collect()
}

/// The finding about wrong data of a copy between a GPU and the host.
pub(super) fn wrong_host_copy(wrong: &WrongHostCopy) -> Finding {
    let WrongHostCopy {
        gpu,
        to_host,
        checked,
    } = wrong;
    let what = if *to_host {
        "went to the host and back"
    } else {
        "came from the host"
    };
    let message = format!(
        "GPU {gpu}: {} words that {what} while all pairs moved data are wrong, {} were checked",
        checked.wrong, checked.looked
    );
    let finding = Code::HostWrongData.finding(Severity::Fail, *gpu, message);
    let finding = finding.values(checked.wrong, 0, Some("words"));
    if Counts::from(*checked).are_ones() {
        unanswered(finding)
    } else {
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{PatternKind, patterns};
    use super::*;
    use std::collections::BTreeSet;

    fn all(gpus: usize, round: usize) -> Vec<Flow> {
        let pattern = patterns(gpus)
            .into_iter()
            .find(|p| p.kind == PatternKind::All)
            .unwrap();
        flows(&pattern.pairs, gpus, round, |flow| {
            Flow {
                bytes: 1 << 20,
                ..flow
            }
            .at(1 << 20, 2 << 20)
        })
    }

    #[test]
    fn ways_and_engines_are_mixed_in_each_round_and_exchanged_in_the_next() {
        for gpus in [2, 3, 4, 8, 9] {
            for round in 0..ROUNDS {
                let flows = all(gpus, round);
                let kinds: BTreeSet<_> = flows
                    .iter()
                    .map(|f| (f.by == Side::Source, f.method == CopyMethod::Sm))
                    .collect();
                assert!(
                    kinds.len() >= if gpus == 2 { 2 } else { 4 },
                    "{gpus}: {kinds:?}"
                );
                let reads = flows.iter().filter(|f| f.by == Side::Target).count();
                assert!(
                    (flows.len() / 3..=flows.len() * 2 / 3).contains(&reads),
                    "{gpus}: {reads} of {}",
                    flows.len()
                );
            }
            let [first, second] = [0, 1].map(|round| all(gpus, round));
            let differ =
                |(a, b): (&Flow, &Flow)| a.pair == b.pair && a.by != b.by && a.method != b.method;
            assert!(first.iter().zip(&second).all(differ));
        }
    }

    #[test]
    fn no_gpu_has_more_transfers_than_it_has_room_for() {
        for gpus in 2..=16 {
            for flows in (0..ROUNDS).map(|round| all(gpus, round)) {
                for gpu in machine::GpuId::all(gpus) {
                    let moved = flows.iter().filter(|f| f.actor() == gpu).count();
                    let received = flows.iter().filter(|f| f.pair.to == gpu).count();
                    assert!(
                        moved.max(received) <= gpus - 1 + MORE,
                        "{gpus}: {moved} {received}"
                    );
                }
            }
        }
    }

    #[test]
    fn neighbours_use_both_engines_on_their_own_halves() {
        let flows = all(4, 0);
        let of: Vec<_> = flows.iter().filter(|f| f.pair == Pair::of(0, 1)).collect();
        let [one, other] = of[..] else {
            panic!("{of:?}")
        };
        assert!(one.method != other.method && one.by != other.by);
        assert_eq!(
            (one.bytes, one.from + one.bytes, one.to + one.bytes),
            (1 << 19, other.from, other.to)
        );
    }
}
