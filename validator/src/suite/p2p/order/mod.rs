//! Whether GPUs see each other's writes in order, and whether no atomic addition is lost. Two resident kernels take
//! turns to send each other data and then a flag: a GPU that sees the flag must see the data. And two GPUs, then all,
//! add to one counter at the same time, where the driver reports that this works. Programs that signal each
//! other through peer memory, as NCCL does, rely on both.

mod atomics;
mod judge;
mod pingpong;
mod slow_hops;

use crate::schedule::{Pair, circle};
use crate::suite::benchmark::GpuPaths;
use crate::suite::protocol::Activity;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::peer_access::{refused, with_peer_access};
use crate::suite::shared::transfer::Memory;
use crate::suite::{Group, Test, TestContext, nccl};
use gpu::{self, Clique, Gpu, GpuError, Payload, PeerAccess, PingpongResult};
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_ORDER,
    title: "Order and atomics",
    proves: "GPUs see each other's data before the flag that follows it, and no atomic addition is lost",
    level: Level::Standard,
    deadline: Duration::from_secs(60),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// One kind of ping-pong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Game {
    /// The memory of both mailboxes.
    memory: Memory,
    /// What is sent ahead of each flag; several KiB are sent under load.
    payload: Payload,
    rounds: u64,
}

impl Game {
    /// The game whose time is judged: 0.3 s over PCIe, where one hop takes 1.5 us.
    const TIMED: Self = Self {
        memory: Memory::Plain,
        payload: Payload::Narrow,
        rounds: 100_000,
    };

    /// The further games of a level: several KiB under load, and both in mapped memory. One hop of several KiB takes some
    /// microseconds under load.
    fn others(level: Level) -> [Self; 3] {
        let times = if level >= Level::Full { 5 } else { 1 };
        let game = |memory, payload, rounds: u64| Self {
            memory,
            payload,
            rounds: rounds * times,
        };
        [
            game(Memory::Plain, Payload::Wide, 2000),
            game(Memory::Mapped, Payload::Narrow, 10_000),
            game(Memory::Mapped, Payload::Wide, 1000),
        ]
    }
}

/// The result of one pair's ping-pong; `from` sends first.
#[derive(Debug)]
struct PairPingpong {
    pair: Pair,
    game: Game,
    /// What the kernel of `from` saw, and what that of `to` saw.
    sides: [PingpongResult; 2],
    /// Nanoseconds from sending to arrival, the mean of both directions.
    hop_ns: f64,
}

/// The operation by which GPUs add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtomicOperation {
    Add,
    CompareAndSwap,
}

/// The result of a counter to which `from` and its owner `to` added at the same time.
#[derive(Debug)]
struct CounterResult {
    pair: Pair,
    /// The counter's memory.
    memory: Memory,
    operation: AtomicOperation,
    counted: u64,
    expected: u64,
}

/// The result of a counter in the memory of `owner` to which several GPUs added at the same time.
#[derive(Debug)]
struct SharedCounter {
    owner: GpuId,
    /// How many GPUs added, the owner included.
    gpus: u64,
    counted: u64,
    expected: u64,
}

/// The results of all pairs.
#[derive(Debug, Default)]
struct Results {
    pingpongs: Vec<PairPingpong>,
    counted: Vec<CounterResult>,
    shared: Vec<SharedCounter>,
    /// That the driver refuses mapped memory.
    unmapped: Option<Finding>,
    /// Pairs with peer access for which atomics are not claimed.
    unclaimed: usize,
    /// Pairs whose access was refused, or whose test was aborted.
    broken: Vec<Finding>,
    slow_hops: Vec<Finding>,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let players = clique
        .gpus
        .iter()
        .map(pingpong::Player::new)
        .collect::<Result<Vec<_>, _>>();
    let players = players.map_err(|e| fault_finding(Subject::Machine, &e))?;
    let mut results = Results::default();
    if let Err(error) = try_all(context, clique, &players, &mut results) {
        // What was found before it stays.
        results
            .broken
            .push(*fault_finding(Subject::Machine, &error));
    }
    Ok(judge::judge(clique.len(), &results))
}

/// All games and counters.
fn try_all(
    context: &TestContext,
    clique: &Clique,
    players: &[pingpong::Player<'_>],
    results: &mut Results,
) -> Result<(), GpuError> {
    let mapped = mapped_players(clique, results)?;
    let rounds = timed_games(context, clique, players, results)?;
    if results.broken.is_empty() && !gpu::is_cuda_lost() {
        let paths = GpuPaths::new(context, clique);
        results.slow_hops = slow_hops::slow_hops(context, clique, players, &paths, results)?;
    }
    if !gpu::is_cuda_lost() {
        // From here on no test needs all memory for itself, and nothing below is timed.
        nccl::start_ahead(context);
    }
    for round in rounds {
        if gpu::is_cuda_lost() {
            break;
        }
        untimed_games(context, clique, (players, &mapped), round, results)?;
    }
    if results.broken.is_empty() && !gpu::is_cuda_lost() {
        shared_counters(context, clique, players, results)?;
    }
    Ok(())
}

/// Pairs without a common GPU: all that reach each other, and those of them whose flags arrived in order.
struct Round {
    pairs: Vec<Pair>,
    good: Vec<Pair>,
}

/// The games whose times count, before anything else uses the GPUs: on 4 H200 (driver 580.159.04) flags took 2.3 to 2.5 us alone,
/// and 2.6 to 3.9 us while NCCL started.
fn timed_games(
    context: &TestContext,
    clique: &Clique,
    players: &[pingpong::Player<'_>],
    results: &mut Results,
) -> Result<Vec<Round>, GpuError> {
    let mut rounds = Vec::new();
    for matching in circle(clique.len()) {
        let (pairs, _access) = enable_pairs(context, clique, matching, results)?;
        let good = play(context, players, pairs.clone(), Game::TIMED, results);
        rounds.push(Round { pairs, good });
        if gpu::is_cuda_lost() {
            break;
        }
    }
    Ok(rounds)
}

/// The other games and the atomics of a round, with players in ordinary and in mapped memory.
fn untimed_games(
    context: &TestContext,
    clique: &Clique,
    (players, mapped): (&[pingpong::Player<'_>], &[pingpong::Player<'_>]),
    round: Round,
    results: &mut Results,
) -> Result<(), GpuError> {
    let [wide, others @ ..] = Game::others(context.config.validate.level);
    let (pairs, access) = enable_pairs(context, clique, round.pairs, results)?;
    let mut good = round.good;
    good.retain(|pair| pairs.contains(pair));
    let mut good = play(context, players, good, wide, results);
    for pair in pairs {
        if !gpu::is_cuda_lost() {
            atomics(context, clique, players, (pair, Memory::Plain), results);
        }
    }
    drop(access);
    // Mapped memory needs no enabled access, and must not benefit from it.
    for game in others {
        good = play(context, mapped, good, game, results);
    }
    for pair in good {
        if !gpu::is_cuda_lost() && results.counted.iter().any(|counted| counted.pair == pair) {
            atomics(context, clique, mapped, (pair, Memory::Mapped), results);
        }
    }
    Ok(())
}

/// Players in mapped memory; none where the driver refuses such memory, which p2p-integrity judges.
fn mapped_players<'g>(
    clique: &'g Clique,
    results: &mut Results,
) -> Result<Vec<pingpong::Player<'g>>, GpuError> {
    match pingpong::Player::mapped(clique) {
        Err(error) if error.is_sticky() => Err(error),
        Err(error) => {
            let message =
                format!("flags and atomics in mapped memory are not tried: it is refused: {error}");
            results.unmapped =
                Some(Code::P2pRefused.finding(Severity::Info, Subject::Machine, message));
            Ok(Vec::new())
        }
        Ok(players) => Ok(players),
    }
}

/// Plays one game for each of `pairs`; those for which all flags arrived in order. There are no players where there is no such
/// memory.
fn play(
    context: &TestContext,
    players: &[pingpong::Player<'_>],
    mut pairs: Vec<Pair>,
    game: Game,
    results: &mut Results,
) -> Vec<Pair> {
    if players.is_empty() || pairs.is_empty() || gpu::is_cuda_lost() {
        return Vec::new();
    }
    context.doing(format!("flags after data: {}", names(&pairs)));
    match pingpong::play(players, &pairs, game) {
        Ok(pingpongs) => {
            let right = |pair: &Pair| {
                pingpongs
                    .iter()
                    .any(|p| p.pair == *pair && judge::is_right(p))
            };
            pairs.retain(right);
            results.pingpongs.extend(pingpongs);
            pairs
        }
        Err(error) => {
            results.broken.push(*fault_finding(
                Subject::pairs(pairs.iter().copied()),
                &error,
            ));
            Vec::new()
        }
    }
}

/// Tests atomics in both GPUs' memory of this kind, one owner after the other.
fn atomics(
    context: &TestContext,
    clique: &Clique,
    players: &[pingpong::Player<'_>],
    (pair, memory): (Pair, Memory),
    results: &mut Results,
) {
    for pair in [pair, pair.back()] {
        context.doing(Activity::of_pair(pair, "atomic additions"));
        match atomics::count(clique, players, (pair, memory)) {
            Ok(None) => results.unclaimed += 1,
            Ok(Some(counted)) => results.counted.extend(counted),
            Err(error) => {
                results.broken.push(*fault_finding(pair, &error));
                return;
            }
        }
    }
}

/// All GPUs that reach a GPU's memory add to one counter there, one owner after the other.
fn shared_counters(
    context: &TestContext,
    clique: &Clique,
    players: &[pingpong::Player<'_>],
    results: &mut Results,
) -> Result<(), GpuError> {
    // Without claimed atomics there is nothing to add, and no access is needed.
    if results.counted.is_empty() {
        return Ok(());
    }
    let pairs: Vec<_> = results.counted.iter().map(|counted| counted.pair).collect();
    let pairs: Vec<_> = Pair::all(clique.len())
        .filter(|pair| pairs.contains(pair))
        .collect();
    with_peer_access(clique, &pairs, |access| {
        let refusals = access.refused.iter();
        let refusals = refusals.map(|(pair, error)| refused(context, *pair, error));
        results.broken.extend(refusals);
        for owner in GpuId::all(clique.len()) {
            let peers: Vec<_> = access
                .pairs
                .iter()
                .filter(|pair| pair.to == owner)
                .map(|pair| pair.from)
                .collect();
            context.doing(format!(
                "GPU {owner}: atomic additions by {} peers at once",
                peers.len()
            ));
            results
                .shared
                .extend(atomics::count_all(clique, players, owner, &peers)?);
        }
        Ok(())
    })
    .map(drop)
}

/// Enables access for the pairs that reach each other. A refusal is recorded.
fn enable_pairs(
    context: &TestContext,
    clique: &Clique,
    pairs: Vec<Pair>,
    results: &mut Results,
) -> Result<(Vec<Pair>, Vec<PeerAccess>), GpuError> {
    let mut opened = (Vec::new(), Vec::new());
    for pair in pairs {
        let (a, b) = ends(clique, pair)?;
        if !a.can_access(b)? || !b.can_access(a)? {
            continue;
        }
        match PeerAccess::both_ways(a, b) {
            Ok(access) => {
                opened.0.push(pair);
                opened.1.push(access);
            }
            Err(error) if error.is_sticky() => return Err(error),
            Err(error) => results.broken.push(refused(context, pair, &error)),
        }
    }
    Ok(opened)
}

/// Both GPUs of a pair.
fn ends(clique: &Clique, pair: Pair) -> Result<(&Gpu, &Gpu), GpuError> {
    let gpu = |n| {
        clique
            .gpu(n)
            .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {n}")))
    };
    Ok((gpu(pair.from)?, gpu(pair.to)?))
}

fn names(pairs: &[Pair]) -> String {
    pairs
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    //! Games and counters that go wrong, and their findings.

    use super::judge::judge;
    use super::*;
    use outcome::Outcome;

    const PAIR: Pair = Pair::of(0, 1);
    const ROUNDS: u64 = Game::TIMED.rounds;

    fn side(done: u64) -> PingpongResult {
        PingpongResult {
            wrong: 0,
            first_bad: None,
            done,
            timed_out: done < ROUNDS,
            cycles: 1,
        }
    }

    fn pingpongs(one: PingpongResult, two: PingpongResult) -> Results {
        Results {
            pingpongs: vec![PairPingpong {
                pair: PAIR,
                game: Game::TIMED,
                sides: [one, two],
                hop_ns: 702.4,
            }],
            ..Results::default()
        }
    }

    fn said(results: &Results) -> Judgement {
        judge(2, results)
    }

    #[test]
    fn a_complete_game_passes_and_shows_its_hops() {
        let mut results = pingpongs(side(ROUNDS), side(ROUNDS));
        let judgement = said(&results);
        assert_eq!(judgement.outcome(), Outcome::Pass);
        assert_eq!(
            judgement.summary,
            "1 pair: 100000 flags each way arrive after their data, 702 to 702 ns per hop; atomics are not claimed"
        );
        assert_eq!(
            judgement.matrices[0].values,
            [[None, Some(702.0)], [Some(702.0), None]]
        );
        results.counted = vec![CounterResult {
            pair: PAIR,
            memory: Memory::Plain,
            operation: AtomicOperation::Add,
            counted: 9,
            expected: 9,
        }];
        assert!(
            said(&results)
                .summary
                .ends_with("no atomic addition is lost")
        );
    }

    #[test]
    fn words_later_than_their_flag_name_the_faulty_direction() {
        let bad = PingpongResult {
            wrong: 3,
            first_bad: Some(77),
            ..side(ROUNDS)
        };
        let judgement = said(&pingpongs(bad, side(ROUNDS)));
        let finding = &judgement.findings[0];
        assert!(judgement.outcome() == Outcome::Fail && finding.is(Code::P2pOrder));
        assert!(
            finding
                .message
                .starts_with("GPU 1 -> 0: flags arrive before"),
            "{}",
            finding.message
        );
        assert!(finding.evidence[0].contains("saw 3 of 3200000 words late, the first in round 77"));
        assert!(
            said(&pingpongs(side(ROUNDS), bad))
                .summary
                .starts_with("GPU 0 -> 1: ")
        );
    }

    #[test]
    fn the_further_games_have_their_own_rounds_and_words_and_leave_no_figure() {
        let [wide, ..] = Game::others(Level::Standard);
        let at = |done, wrong| PingpongResult {
            wrong,
            first_bad: (wrong > 0).then_some(9),
            ..side(done)
        };
        let finished = PingpongResult {
            timed_out: false,
            ..side(2000)
        };
        let mut results = pingpongs(side(ROUNDS), side(ROUNDS));
        results.pingpongs.push(PairPingpong {
            pair: PAIR,
            game: wide,
            sides: [finished, finished],
            hop_ns: 5000.0,
        });
        let judgement = said(&results);
        assert_eq!(judgement.outcome(), Outcome::Pass);
        assert_eq!(
            judgement.summary,
            "1 pair: 100000 flags each way arrive after their data, 2000 of them after 8 KiB under load, 702 to 702 ns per \
             hop; atomics are not claimed"
        );
        assert_eq!(
            judgement.matrices[0].values,
            [[None, Some(702.0)], [Some(702.0), None]]
        );
        results.pingpongs[1].sides[1] = PingpongResult {
            timed_out: false,
            ..at(2000, 5)
        };
        let judgement = said(&results);
        let finding = &judgement.findings[0];
        assert!(judgement.outcome() == Outcome::Fail && finding.is(Code::P2pOrder));
        let words = "GPU 0 -> 1: flags arrive before the data that was sent before them, 8 KiB of it, while copy engines";
        assert!(finding.message.starts_with(words), "{}", finding.message);
        assert!(
            finding.evidence[0].contains("saw 5 of 4096000 words late"),
            "{}",
            finding.evidence[0]
        );
        results.pingpongs[1].sides = [at(7, 0), at(7, 0)];
        assert!(said(&results).findings[0].is(Code::P2pHang));
    }

    #[test]
    fn a_missing_flag_names_the_direction_and_leaves_no_figure() {
        for (one, two, words) in [
            (side(0), side(0), "GPU 0 -> 1: no flag arrives"),
            (side(0), side(1), "GPU 1 -> 0: a flag does not arrive"),
            (side(41), side(41), "GPU 0 -> 1: a flag does not arrive"),
            (side(41), side(42), "GPU 1 -> 0: a flag does not arrive"),
        ] {
            let judgement = said(&pingpongs(one, two));
            assert!(
                judgement.findings[0].is(Code::P2pHang) && judgement.outcome() == Outcome::Fail
            );
            assert!(
                judgement.summary.starts_with(words),
                "{}",
                judgement.summary
            );
            assert_eq!(judgement.matrices[0].values[0][1], None);
        }
    }

    #[test]
    fn a_kernel_that_never_ran_is_an_error_and_not_a_pass() {
        let none = PingpongResult {
            timed_out: false,
            ..side(0)
        };
        assert_eq!(said(&pingpongs(none, none)).outcome(), Outcome::Error);
    }

    #[test]
    fn lost_additions_fail_with_both_numbers() {
        let mut results = pingpongs(side(ROUNDS), side(ROUNDS));
        results.counted = vec![CounterResult {
            pair: PAIR,
            memory: Memory::Mapped,
            operation: AtomicOperation::CompareAndSwap,
            counted: 7,
            expected: 9,
        }];
        let judgement = said(&results);
        assert!(judgement.outcome() == Outcome::Fail && judgement.findings[0].is(Code::P2pAtomics));
        assert!(judgement.findings[0].evidence[0].contains("gave 7, expected 9"));
        assert!(
            judgement.findings[0]
                .message
                .ends_with("memory are lost, mapped memory")
        );
    }

    #[test]
    fn additions_of_all_gpus_that_are_lost_name_the_owner() {
        let mut results = pingpongs(side(ROUNDS), side(ROUNDS));
        let counter = |counted| SharedCounter {
            owner: 1.into(),
            gpus: 8,
            counted,
            expected: 512_000,
        };
        results.shared = vec![counter(512_000)];
        assert_eq!(said(&results).outcome(), Outcome::Pass);
        results.shared = vec![counter(511_999)];
        let judgement = said(&results);
        let finding = &judgement.findings[0];
        assert!(judgement.outcome() == Outcome::Fail && finding.is(Code::P2pAtomics));
        assert_eq!(finding.subject, "GPU 1");
        assert!(
            finding.message.contains("by 8 GPUs at once"),
            "{}",
            finding.message
        );
    }

    #[test]
    fn an_aborted_test_is_not_a_pass_and_no_pairs_is_not_applicable() {
        let mut results = pingpongs(side(ROUNDS), side(ROUNDS));
        results
            .broken
            .push(Code::CudaError.finding(Severity::Error, Pair::of(0, 1), "2"));
        assert_eq!(said(&results).outcome(), Outcome::Error);
        assert_eq!(said(&Results::default()).outcome(), Outcome::NotApplicable);
    }
}
