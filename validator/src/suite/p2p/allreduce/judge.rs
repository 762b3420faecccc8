//! The judgement over the frameworks' all-reduces. Pure.

use super::rank::{GIVE_UP_S, Ran};
use crate::schedule::Pair;
use gpu::{Late, ROUNDS, Reduced};
use machine::{GpuId, Rank};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::table::{AllReduceRow, GpuList, Table};
use outcome::text::size;

/// Steps of a round.
const STEPS: u64 = 3;
/// The two kinds of all-reduce, in their order.
const KINDS: [&str; 2] = ["one-shot", "two-shot"];

/// The results of all groups and sizes.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) reductions: Vec<Reduction>,
    pub(super) broken: Vec<Finding>,
}

/// All-reduces of one size in one group.
#[derive(Debug, Clone, Default)]
pub(super) struct Reduction {
    /// The GPU of each rank.
    pub(super) gpus: Vec<GpuId>,
    pub(super) bytes: u64,
    /// How often the graph was launched.
    pub(super) launches: u64,
    /// What each rank found, by kind.
    pub(super) reduced: Vec<[Reduced; 2]>,
    /// The flag that each rank gave up waiting for.
    pub(super) late: Vec<Option<Late>>,
    /// How long each round of a kind took, nanoseconds.
    pub(super) ns: [Vec<u64>; 2],
}

impl Results {
    pub(super) fn has_stalled(&self) -> bool {
        self.reductions.iter().any(Reduction::has_stalled)
    }
}

impl Reduction {
    /// Adds the results of all ranks from `launches` more launches.
    pub(super) fn add(&mut self, launches: u64, ran: Vec<Ran>) {
        self.launches += launches;
        let [once, _] = ROUNDS;
        for launch in 0..usize::try_from(launches).unwrap_or_default() {
            let of_all: Vec<_> = ran.iter().filter_map(|ran| ran.times.get(launch)).collect();
            for n in 0..ROUNDS.iter().sum() {
                // The last rank to arrive waits for no other, so its time is the time of the round.
                let times = of_all
                    .iter()
                    .map(|times| times.get(n as usize).copied().unwrap_or_default());
                let [ones, twos] = &mut self.ns;
                if n < once { ones } else { twos }.extend(times.min());
            }
        }
        (self.reduced, self.late) = ran.into_iter().map(|ran| (ran.reduced, ran.late)).unzip();
    }

    pub(super) fn has_stalled(&self) -> bool {
        self.late.iter().any(Option::is_some)
    }

    /// Whether a fault makes more rounds unnecessary.
    pub(super) fn is_bad(&self) -> bool {
        self.has_stalled()
            || self
                .reduced
                .iter()
                .flatten()
                .any(|reduced| reduced.wrong > 0)
    }

    fn words(&self) -> u64 {
        self.bytes / 4
    }

    fn rounds(&self, kind: usize) -> u64 {
        self.launches * ROUNDS.get(kind).copied().map_or(0, u64::from)
    }

    fn gpu(&self, rank: Rank) -> GpuId {
        self.gpus
            .get(rank.index())
            .copied()
            .unwrap_or(GpuId::new(rank.index()))
    }

    /// The median time of a round, microseconds.
    fn median(&self, kind: usize) -> Option<f64> {
        let mut all = self.ns.get(kind)?.clone();
        all.sort_unstable();
        let middle = all
            .get(all.len() / 2)
            .and_then(|ns| u32::try_from(*ns).ok())?;
        Some((f64::from(middle) / 100.0).round() / 10.0)
    }

    /// The rank that computes the sum of a word in a two-shot all-reduce.
    fn reducing_rank(&self, place: u64) -> Rank {
        let part = (self.bytes / 16).div_ceil((self.gpus.len() as u64).max(1));
        Rank::new(
            usize::try_from((place / 4).checked_div(part).unwrap_or_default()).unwrap_or_default(),
        )
    }

    /// One finding about the wrong words of a kind: which GPU read them, and from which GPU.
    fn wrong(&self, kind: usize) -> Option<Finding> {
        let all = || Rank::each(self.reduced.iter().filter_map(|both| both.get(kind)));
        let (rank, worst) = all()
            .filter(|(_, found)| found.wrong > 0)
            .min_by_key(|(_, found)| found.first)?;
        let everywhere = all().all(|(_, found)| found.wrong > 0);
        let reducing_rank = self.reducing_rank(worst.first);
        let input = usize::try_from(worst.peers.trailing_zeros())
            .ok()
            .filter(|_| worst.peers.count_ones() == 1)
            .map(Rank::new);
        let (reader, source) = match (kind, input) {
            (0, input) => (rank, input),
            // If a two-shot sum is wrong on all ranks, the reducing rank read wrong input; else a rank fetched it
            // wrongly.
            (_, Some(input)) if everywhere && input != reducing_rank => {
                (reducing_rank, Some(input))
            }
            _ => (rank, Some(reducing_rank)),
        };
        let reader = self.gpu(reader);
        let pair = source
            .map(|rank| self.gpu(rank))
            .filter(|from| *from != reader);
        let subject = pair.map_or_else(
            || Subject::from(reader),
            |from| Pair { from, to: reader }.into(),
        );
        let kind_name = KINDS.get(kind).copied().unwrap_or_default();
        let message = format!(
            "{subject}: {kind_name} all-reduce of {} by kernels reads {}: {} of {} words are wrong",
            size(self.bytes),
            fault_name(worst),
            worst.wrong,
            worst.looked
        );
        let finding = Code::P2pWrongData.finding(Severity::Fail, subject, message);
        let finding = finding
            .values(worst.wrong, 0, Some("words"))
            .because(Reason::KernelReads);
        let bad = all().filter(|(_, found)| found.wrong > 0);
        Some(
            finding.seen_all(
                bad.map(|(rank, found)| self.evidence(rank, kind_name, found))
                    .collect(),
            ),
        )
    }

    fn evidence(&self, rank: Rank, kind: &str, found: &Reduced) -> String {
        let gpu = self.gpu(rank);
        let sample = found
            .sample
            .map_or(String::new(), |[round, place, got, want]| {
                format!("; in round {round} word {place} is {got:08x}, expected {want:08x}")
            });
        let Reduced {
            wrong,
            looked,
            zeros,
            stale,
            ones,
            ..
        } = found;
        format!(
            "GPU {gpu}: {kind} all-reduce of {}: {wrong} of {looked} words wrong ({zeros} with zeros, {stale} with the round before, {ones} with all ones), first word {}{sample}",
            size(self.bytes),
            found.first
        )
    }

    /// The flag that did not arrive although its sender had sent it. Other ranks that gave up only waited for a
    /// rank that had given up before.
    fn stalled(&self) -> Option<Finding> {
        let step = |rank: Rank| {
            self.late
                .get(rank.index())
                .copied()
                .flatten()
                .map_or(u64::MAX, |late| late.step)
        };
        let all = || Rank::each(&self.late).filter_map(|(rank, late)| Some((rank, (*late)?)));
        let (rank, late) = all().find(|(_, late)| step(late.peer) >= late.step)?;
        let pair = Pair {
            from: self.gpu(late.peer),
            to: self.gpu(rank),
        };
        let message = format!(
            "{pair}: in the all-reduce of {} by kernels a flag that GPU {} wrote does not arrive within {GIVE_UP_S} s",
            size(self.bytes),
            pair.from
        );
        let line = |(rank, late): (Rank, Late)| {
            let (gpu, peer) = (self.gpu(rank), self.gpu(late.peer));
            let (round, step) = (late.step / STEPS, late.step % STEPS + 1);
            format!("GPU {gpu} gave up in round {round}, step {step}, waiting for GPU {peer}")
        };
        let finding = Code::P2pHang
            .finding(Severity::Fail, pair, message)
            .because(Reason::KernelAllReduce);
        Some(finding.seen_all(all().map(line).collect()))
    }

    /// The finding that rounds were not checked completely.
    fn unchecked(&self) -> Option<Finding> {
        let short =
            |(kind, found): (usize, &Reduced)| found.looked != self.rounds(kind) * self.words();
        let all_ranks = self.reduced.len() == self.gpus.len() && self.launches > 0;
        let bad = !all_ranks
            || self
                .reduced
                .iter()
                .any(|both| both.iter().enumerate().any(short));
        let message = format!(
            "GPUs {:?}: a check did not look at every word of every round",
            self.gpus
        );
        bad.then(|| Code::P2pChecker.finding(Severity::Error, Subject::Machine, message))
    }
}

/// What most wrong words hold in place of the data.
fn fault_name(found: &Reduced) -> &'static str {
    let Reduced {
        wrong,
        zeros,
        stale,
        ones,
        ..
    } = found;
    let most = |n: &u64| *n > 0 && n.saturating_mul(2) > *wrong;
    match () {
        () if most(zeros) => "zeros",
        () if most(stale) => "the data of the round before",
        () if most(ones) => "all ones",
        () => "wrong data",
    }
}

/// Judges all groups and sizes.
pub(super) fn judge(results: &Results) -> Judgement {
    let mut findings: Vec<Finding> = Vec::new();
    for reduction in &results.reductions {
        let stalled = reduction.stalled();
        let unchecked = reduction.unchecked().filter(|_| stalled.is_none());
        let wrong = [0, 1].into_iter().filter_map(|kind| reduction.wrong(kind));
        for finding in wrong.chain(stalled).chain(unchecked) {
            // A pair's fault shows at several sizes: the first one is the finding, the others are its evidence.
            match findings
                .iter_mut()
                .find(|f| f.code == finding.code && f.subject == finding.subject)
            {
                Some(known) => known.evidence.extend(finding.evidence),
                None => findings.push(finding),
            }
        }
    }
    findings.extend(results.broken.iter().cloned());
    if results.reductions.is_empty() && findings.is_empty() {
        let message = "no all-reduce was made";
        findings.push(Code::P2pChecker.finding(Severity::Error, Subject::Machine, message));
    }
    Judgement::summed_up(|| summary(results), findings).with_tables(vec![times_table(results)])
}

/// `2 GPUs: 4000 one-shot and 4000 two-shot all-reduces in a graph are right; 4 KiB in 6.1 and 8.0 us`
fn summary(results: &Results) -> String {
    let rounds = |kind| {
        results
            .reductions
            .iter()
            .map(|r| r.rounds(kind))
            .sum::<u64>()
    };
    let mut gpus: Vec<_> = results.reductions.iter().map(|r| &r.gpus).collect();
    gpus.dedup();
    let who = match gpus.as_slice() {
        [one] => format!("{} GPUs", one.len()),
        many => format!("{} groups of GPUs", many.len()),
    };
    let least = results.reductions.first().map_or(String::new(), |r| {
        let us = |kind| r.median(kind).unwrap_or_default();
        format!("; {} in {:.1} and {:.1} us", size(r.bytes), us(0), us(1))
    });
    format!(
        "{who}: {} one-shot and {} two-shot all-reduces in a graph are right{least}",
        rounds(0),
        rounds(1)
    )
}

/// The time of a round, by size.
fn times_table(results: &Results) -> Table {
    let row = |r: &Reduction, kind: usize| AllReduceRow {
        gpus: GpuList(r.gpus.clone()),
        bytes: r.bytes,
        kind: KINDS.get(kind).copied().unwrap_or_default().to_owned(),
        rounds: r.rounds(kind),
        median: r.median(kind).filter(|_| !r.has_stalled()),
    };
    Table::AllReduce(
        results
            .reductions
            .iter()
            .flat_map(|r| [row(r, 0), row(r, 1)])
            .collect(),
    )
}
