//! What inference frameworks do by themselves, beside NCCL: a one-shot and a two-shot all-reduce by kernels that
//! wait for flags in memory shared through CUDA IPC, replayed from a CUDA graph. One process for each GPU; each
//! GPU checks every value of every round. The verdict is apart from NCCL's, which uses other mechanisms.

mod crew;
mod judge;
mod rank;
#[cfg(test)]
mod tests;

pub(in crate::suite) use rank::serve;

use crate::config::Level;
use crate::gpu::pattern::Nonces;
use crate::gpu::{Clique, GpuError, LAUNCHES, RANKS, ROUNDS};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::during;
use crate::suite::{Group, Machine, Test};
use crew::{Crew, Stop};
use judge::{Reduction, Results};
use rank::{LARGEST, Run};
use std::time::{Duration, Instant};

/// Its name: what fails it switches off is not NCCL's.
pub(crate) const ID: &str = "p2p-allreduce";

pub(in crate::suite) const TEST: Test = Test {
    id: ID,
    title: "Frameworks' all-reduce",
    proves: "the all-reduces that frameworks make by themselves, beside NCCL, give right sums in every round: one-shot and two-shot, by kernels that wait for flags in memory of other processes",
    level: Level::Full,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Sizes of the all-reduces, bytes.
const SIZES: [u64; 4] = [4 << 10, 32 << 10, 128 << 10, LARGEST];
/// How many rounds of each size, and for how long at most; one graph is launched in any case.
const fn effort(level: Level) -> (u64, Duration) {
    match level {
        Level::Quick | Level::Standard => (1000, Duration::from_millis(150)),
        Level::Full | Level::Acceptance => (20_000, Duration::from_millis(1500)),
    }
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let mut open = groups(clique).map_err(|e| during("machine", &e))?;
    open.reverse();
    if open.is_empty() {
        let why = "no two GPUs have access to each other's memory; see p2p-capability";
        return Ok(Judgement::not_applicable(why));
    }
    let mut results = Results::default();
    let gpus: Vec<usize> = open.iter().flatten().copied().collect();
    machine.doing("starting a process for each GPU");
    let mut crew = match Crew::start(clique, &gpus) {
        Ok(crew) => crew,
        Err(stop) => return ended(stop),
    };
    while let Some(group) = open.pop() {
        match reduce(machine, &mut crew, &group, &mut results) {
            Ok(()) => {}
            Err(Stop::TooMany) if group.len() > 2 => {
                let (first, second) = group.split_at(group.len() / 2);
                // What is left alone has no peer in this test; p2p-integrity has tried its pairs.
                open.extend([second, first].into_iter().filter(|half| half.len() > 1).map(<[_]>::to_vec));
            }
            Err(Stop::All(finding)) => {
                results.broken.push(*finding);
                break;
            }
            Err(stop) => return ended(stop),
        }
        if results.has_stalled() {
            break;
        }
    }
    if !results.broken.is_empty() {
        crew.kill();
    }
    Ok(judge::judge(&results))
}

fn ended(stop: Stop) -> Result<Judgement, Box<Finding>> {
    match stop {
        Stop::All(finding) => Err(finding),
        Stop::Unsupported(why) => {
            let why = format!("CUDA IPC cannot be used on this machine ({why}); see p2p-processes");
            Ok(Judgement::not_applicable(why))
        }
        Stop::TooMany => {
            let message = "two GPUs are more than may have access to each other at once";
            Err(Box::new(Code::P2pRefused.finding(Severity::Fail, "machine", message)))
        }
    }
}

/// Groups of two or more GPUs in which each reaches every other, each GPU in the first one that it fits.
fn groups(clique: &Clique) -> Result<Vec<Vec<usize>>, GpuError> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for gpu in &clique.gpus {
        let mut place = None;
        for (n, group) in groups.iter().enumerate().filter(|(_, group)| group.len() < RANKS) {
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
            Some(group) => group.push(gpu.ordinal),
            None => groups.push(vec![gpu.ordinal]),
        }
    }
    groups.retain(|group| group.len() > 1);
    Ok(groups)
}

/// All sizes in one group.
fn reduce(machine: &Machine, crew: &mut Crew, group: &[usize], results: &mut Results) -> Result<(), Stop> {
    machine.doing(&format!("GPUs {group:?}: opening each other's memory"));
    crew.join(group)?;
    let (rounds, most) = effort(machine.config.validate.level);
    let mut nonces = Nonces::new();
    for bytes in SIZES {
        machine.doing(&format!("GPUs {group:?}: all-reduces of {bytes} bytes"));
        let (seed, begun) = (nonces.next(), Instant::now());
        let mut reduction = Reduction { gpus: group.to_vec(), bytes, ..Reduction::default() };
        let mut launches = 1;
        while launches > 0 && !reduction.is_bad() {
            let ran = crew.run(group, Run { bytes, seed, launches })?;
            reduction.take(launches, ran);
            launches = more(reduction.launches, rounds, begun.elapsed(), most);
        }
        let bad = reduction.has_stalled();
        results.reductions.push(reduction);
        if bad {
            return Ok(());
        }
    }
    crew.leave(group)
}

/// How many launches are next: as many as are wanted, and fit the time.
fn more(done: u64, rounds: u64, taken: Duration, most: Duration) -> u64 {
    let each = taken / u32::try_from(done.max(1)).unwrap_or(u32::MAX);
    let fit = most.saturating_sub(taken).as_nanos().checked_div(each.as_nanos()).unwrap_or_default();
    let [once, _] = ROUNDS;
    let wanted = rounds.div_ceil(u64::from(once)).saturating_sub(done);
    wanted.min(u64::try_from(fit).unwrap_or(u64::MAX)).min(LAUNCHES)
}
