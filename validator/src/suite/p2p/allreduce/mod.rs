//! What inference frameworks do by themselves, beside NCCL: a one-shot and a two-shot all-reduce by kernels that
//! wait for flags in memory shared through CUDA IPC, replayed from a CUDA graph. One process for each GPU; each
//! GPU checks every value of every round. The verdict is separate from NCCL's, which uses other mechanisms.

mod judge;
mod rank;
mod rank_processes;
pub(in crate::suite) use rank::serve;

use crate::suite::benchmark::left_to_full;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::{Group, Test, TestContext, nccl};
use gpu::pattern::Nonces;
use gpu::{Clique, GpuError, LAUNCHES, RANKS, ROUNDS};
use judge::{Reduction, Results};
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use rank::{LARGEST, Run};
use rank_processes::{RankProcesses, Stop};
use report::Level;
use std::time::{Duration, Instant};

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_ALLREDUCE,
    title: "Frameworks' all-reduce",
    proves: "the all-reduces that frameworks make by themselves, beside NCCL, give right sums in every round: one-shot and two-shot, by kernels that wait for flags in memory of other processes",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Sizes of the all-reduces, bytes.
const SIZES: [u64; 4] = [4 << 10, 32 << 10, 128 << 10, LARGEST];
/// The number of rounds of each size, and the time limit for them; one graph is launched in any case.
const fn rounds_and_limit(level: Level) -> (u64, Duration) {
    match level {
        Level::Quick | Level::Standard => (1000, Duration::from_millis(150)),
        Level::Full | Level::Acceptance => (20_000, Duration::from_millis(1500)),
    }
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(none);
    }
    if let Some(none) = left_to_full(context, &TEST)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let mut open = groups(clique).map_err(|e| fault_finding(Subject::Machine, &e))?;
    open.reverse();
    if open.is_empty() {
        let why = "no two GPUs have access to each other's memory; see p2p-capability";
        return Ok(Judgement::not_applicable(why));
    }
    let mut results = Results::default();
    let gpus: Vec<GpuId> = open.iter().flatten().copied().collect();
    context.doing("starting a process for each GPU");
    let mut processes = match RankProcesses::start(clique, &gpus) {
        Ok(processes) => processes,
        Err(stop) => return judge_stop(stop),
    };
    // Its all-reduces are timed, and wait for flags, which take longer while NCCL starts.
    nccl::settle_all(context);
    while let Some(group) = open.pop() {
        match reduce(context, &mut processes, &group, &mut results) {
            Ok(()) => {}
            Err(Stop::TooMany) if group.len() > 2 => {
                let (first, second) = group.split_at(group.len() / 2);
                // A GPU that is left alone has no peer in this test; p2p-integrity has tried its pairs.
                open.extend(
                    [second, first]
                        .into_iter()
                        .filter(|half| half.len() > 1)
                        .map(<[_]>::to_vec),
                );
            }
            Err(Stop::All(finding)) => {
                results.broken.push(*finding);
                break;
            }
            Err(stop) => return judge_stop(stop),
        }
        if results.has_stalled() {
            break;
        }
    }
    if !results.broken.is_empty() {
        processes.kill();
    }
    Ok(judge::judge(&results))
}

fn judge_stop(stop: Stop) -> Result<Judgement, Box<Finding>> {
    match stop {
        Stop::All(finding) => Err(finding),
        Stop::Unsupported(why) => {
            let why = format!("CUDA IPC cannot be used on this machine ({why}); see p2p-processes");
            Ok(Judgement::not_applicable(why))
        }
        Stop::TooMany => {
            let message = "two GPUs are more than may have access to each other at once";
            Err(Box::new(Code::P2pRefused.finding(
                Severity::Fail,
                Subject::Machine,
                message,
            )))
        }
    }
}

/// Groups of two or more GPUs in which each reaches every other; each GPU is in the first group that it fits.
fn groups(clique: &Clique) -> Result<Vec<Vec<GpuId>>, GpuError> {
    let mut groups: Vec<Vec<GpuId>> = Vec::new();
    for gpu in &clique.gpus {
        let mut place = None;
        for (n, group) in groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.len() < RANKS)
        {
            let mut all = true;
            for peer in group.iter().filter_map(|n| clique.gpu(*n)) {
                all = all && gpu.can_access(peer)? && peer.can_access(gpu)?;
            }
            if all {
                place = Some(n);
                break;
            }
        }
        match place.and_then(|n| groups.get_mut(n)) {
            Some(group) => group.push(gpu.id()),
            None => groups.push(vec![gpu.id()]),
        }
    }
    groups.retain(|group| group.len() > 1);
    Ok(groups)
}

/// Runs all-reduces of all sizes in one group.
fn reduce(
    context: &TestContext,
    processes: &mut RankProcesses,
    group: &[GpuId],
    results: &mut Results,
) -> Result<(), Stop> {
    context.doing(format!("GPUs {group:?}: opening each other's memory"));
    processes.join(group)?;
    let (rounds, most) = rounds_and_limit(context.config.validate.level);
    let mut nonces = Nonces::new();
    for bytes in SIZES {
        context.doing(format!("GPUs {group:?}: all-reduces of {bytes} bytes"));
        let (seed, begun) = (nonces.next(), Instant::now());
        let mut reduction = Reduction {
            gpus: group.to_vec(),
            bytes,
            ..Reduction::default()
        };
        let mut launches = 1;
        while launches > 0 && !reduction.is_bad() {
            let ran = processes.run(
                group,
                Run {
                    bytes,
                    seed,
                    launches,
                },
            )?;
            reduction.add(launches, ran);
            launches = next_launches(reduction.launches, rounds, begun.elapsed(), most);
        }
        let bad = reduction.has_stalled();
        results.reductions.push(reduction);
        if bad {
            return Ok(());
        }
    }
    processes.leave(group)
}

/// The number of launches that come next: as many as are still required and fit into the time.
fn next_launches(done: u64, rounds: u64, taken: Duration, most: Duration) -> u64 {
    let each = taken / u32::try_from(done.max(1)).unwrap_or(u32::MAX);
    let fit = most
        .saturating_sub(taken)
        .as_nanos()
        .checked_div(each.as_nanos())
        .unwrap_or_default();
    let [once, _] = ROUNDS;
    let wanted = rounds.div_ceil(u64::from(once)).saturating_sub(done);
    wanted
        .min(u64::try_from(fit).unwrap_or(u64::MAX))
        .min(LAUNCHES)
}

#[cfg(test)]
mod tests {
    use super::judge::*;
    use super::rank::Ran;
    use gpu::{Late, ROUNDS, Reduced};
    use outcome::Judgement;
    use outcome::Outcome;
    use outcome::finding::{Code, Reason};

    const BYTES: u64 = 4096;

    fn right(looked: u64) -> Reduced {
        Reduced {
            looked,
            wrong: 0,
            zeros: 0,
            stale: 0,
            ones: 0,
            peers: 0,
            sample: None,
            first: 0,
        }
    }

    fn ran(found: [Reduced; 2]) -> Ran {
        let rounds = ROUNDS.iter().sum::<u32>();
        let times = vec![
            (0..rounds)
                .map(|n| if n < ROUNDS[0] { 6_100 } else { 8_000 })
                .collect(),
        ];
        Ran {
            reduced: found,
            late: None,
            times,
        }
    }

    fn looked() -> [Reduced; 2] {
        ROUNDS.map(|rounds| right(u64::from(rounds) * BYTES / 4))
    }

    /// Ranks of GPUs 4, 5 and so on.
    fn of(ranks: Vec<Ran>) -> Reduction {
        let mut it = Reduction {
            gpus: (4..4 + ranks.len()).map(Into::into).collect(),
            bytes: BYTES,
            ..Reduction::default()
        };
        it.add(1, ranks);
        it
    }

    fn said(reductions: Vec<Reduction>) -> Judgement {
        judge(&Results {
            reductions,
            broken: vec![],
        })
    }

    fn bad(kind: usize, wrong: Reduced) -> Ran {
        let mut both = looked();
        both[kind] = Reduced {
            looked: both[kind].looked,
            ..wrong
        };
        ran(both)
    }

    #[test]
    fn right_sums_pass_and_show_the_time_of_the_rank_that_came_last() {
        let mut slow = ran(looked());
        slow.times[0].iter_mut().for_each(|ns| *ns += 90_000);
        let said = said(vec![of(vec![slow, ran(looked())])]);
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "2 GPUs: 20 one-shot and 20 two-shot all-reduces in a graph are right; 4 KiB in 6.1 and 8.0 us"
        );
        assert_eq!(
            said.tables[0].json()["rows"][1],
            serde_json::json!(["4,5", BYTES, "two-shot", 20, 8.0])
        );
    }

    #[test]
    fn a_stale_input_names_both_gpus_the_kind_and_the_words() {
        let wrong = Reduced {
            wrong: 9,
            stale: 9,
            peers: 1 << 2,
            first: 7,
            sample: Some([1, 7, 2, 3]),
            ..right(0)
        };
        let said = said(vec![of(vec![ran(looked()), bad(0, wrong), ran(looked())])]);
        let finding = &said.findings[0];
        assert!(
            said.outcome() == Outcome::Fail && finding.is(Code::P2pWrongData),
            "{said:?}"
        );
        assert_eq!(
            said.summary,
            "GPU 6 -> 5: one-shot all-reduce of 4 KiB by kernels reads the data of the round before: 9 of 20480 words are wrong"
        );
        assert!(
            finding.evidence[0]
                .ends_with("first word 7; in round 1 word 7 is 00000002, expected 00000003")
        );
        assert_eq!(finding.reason, Some(Reason::KernelReads));
    }

    #[test]
    fn a_two_shot_sum_that_is_wrong_everywhere_was_made_wrong_and_else_it_was_fetched_wrong() {
        // 256 vectors, 128 for each rank: rank 1 computes the sum of word 600.
        let made = Reduced {
            wrong: 5,
            zeros: 5,
            peers: 1,
            first: 600,
            ..right(0)
        };
        let said_of = |ranks| said(vec![of(ranks)]).summary;
        let line = said_of(vec![bad(1, made), bad(1, made)]);
        assert!(
            line.starts_with("GPU 4 -> 5: two-shot all-reduce of 4 KiB by kernels reads zeros"),
            "{line}"
        );
        // Rank 0 computes this sum and reads its own input correctly, so rank 1 fetched the sum wrongly.
        let both = Reduced { first: 0, ..made };
        let line = said_of(vec![bad(1, made), bad(1, both)]);
        assert!(
            line.starts_with("GPU 4 -> 5: two-shot all-reduce of 4 KiB by kernels reads zeros"),
            "{line}"
        );
        let fetched = Reduced {
            wrong: 5,
            ones: 5,
            first: 600,
            ..right(0)
        };
        let line = said_of(vec![bad(1, fetched), ran(looked())]);
        assert!(
            line.starts_with("GPU 5 -> 4: two-shot all-reduce of 4 KiB by kernels reads all ones"),
            "{line}"
        );
    }

    #[test]
    fn the_flag_that_was_sent_and_did_not_come_is_blamed_and_not_those_that_were_never_sent() {
        let late = |step, peer: usize| Ran {
            late: Some(Late {
                step,
                peer: peer.into(),
            }),
            ..ran(looked().map(|_| right(0)))
        };
        // Rank 1 misses rank 0's flag; the others then wait for rank 1.
        let said = said(vec![of(vec![late(6, 1), late(4, 0), late(6, 1)])]);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Fail, 1));
        assert!(said.findings[0].is(Code::P2pHang));
        assert!(
            said.summary
                .starts_with("GPU 4 -> 5: in the all-reduce of 4 KiB"),
            "{}",
            said.summary
        );
        assert_eq!(
            said.findings[0].evidence[1],
            "GPU 5 gave up in round 1, step 2, waiting for GPU 4"
        );
    }

    #[test]
    fn what_was_not_checked_is_an_error() {
        let mut few = looked();
        few[1].looked -= 1;
        assert_eq!(
            said(vec![of(vec![ran(looked()), ran(few)])]).outcome(),
            Outcome::Error
        );
        let none = Reduction {
            gpus: vec![0.into(), 1.into()],
            bytes: BYTES,
            ..Reduction::default()
        };
        assert_eq!(said(vec![none]).outcome(), Outcome::Error);
        assert_eq!(judge(&Results::default()).outcome(), Outcome::Error);
    }

    #[test]
    fn the_same_fault_at_several_sizes_is_one_finding() {
        let wrong = Reduced {
            wrong: 9,
            zeros: 9,
            peers: 1,
            first: 7,
            ..right(0)
        };
        let one = of(vec![ran(looked()), bad(0, wrong)]);
        let said = said(vec![one.clone(), one]);
        assert_eq!(
            (said.findings.len(), said.findings[0].evidence.len()),
            (1, 2)
        );
    }
}
