//! The pointer chase: one thread of a GPU follows a ring of addresses through its peer's memory, one load at
//! a time, as nvbandwidth does. The check is that it ends where it began.

use super::bench::Bench;
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::protocol::Activity;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::peer_access::refused;
use gpu::{GpuError, PeerAccess};
use outcome::finding::Finding;
use std::time::Duration;

/// nvbandwidth's ring: 2 MiB.
const RING: u64 = 2 << 20;
/// Bytes between two addresses: a cache line, and nvbandwidth's stride.
const STRIDE: u64 = 128;
/// The number of addresses in the ring.
const COUNT: u64 = RING / STRIDE;
/// Loads of one sample: once around the ring. nvbandwidth makes 1,000,000, which take 0.8 s for each pair.
pub(in crate::suite) const LOADS: u64 = COUNT;
/// The longest time of one load, for the time limit.
const SLOWEST: Duration = Duration::from_micros(200);

/// The result of one pointer chase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::suite) struct ChaseResult {
    pub(in crate::suite) ms: f64,
    /// Whether it ended where it began.
    pub(in crate::suite) right: bool,
}

impl Bench<'_> {
    /// Each `from` chases through the memory of its `to`, all at the same time.
    pub(in crate::suite) fn chase(&self, pairs: &[Pair]) -> Result<Vec<ChaseResult>, GpuError> {
        for pair in pairs {
            let owner = self.bench_gpu(pair.to)?;
            owner
                .own_stream
                .chase_init(owner.source.span(0, RING)?, COUNT, STRIDE)?;
            owner.own_stream.finish(
                &format!("GPU {}: making a ring of addresses", pair.to),
                patience(),
            )?;
        }
        let parts = |pair: &Pair| {
            let (actor, owner) = (self.bench_gpu(pair.from)?, self.bench_gpu(pair.to)?);
            let none = || GpuError::Nonsense(format!("{pair}: no lane"));
            let (lane, tally) = actor
                .lanes
                .first()
                .zip(actor.tallies.first())
                .ok_or_else(none)?;
            Ok((lane, tally, owner.source.span(0, RING)?))
        };
        for pair in pairs {
            let (lane, tally, ring) = parts(pair)?;
            lane.stream.record(&lane.start)?;
            lane.stream.chase(ring, LOADS, tally)?;
            lane.stream.record(&lane.stop)?;
        }
        let finish = |pair: &Pair| {
            let (lane, tally, ring) = parts(pair)?;
            lane.finish(
                &format!("{pair}: following {LOADS} addresses through its memory"),
                patience(),
            )?;
            Ok(ChaseResult {
                ms: lane.stop.ms_since(&lane.start)?,
                right: tally.chased().0 == ring.address,
            })
        };
        pairs.iter().map(finish).collect()
    }
}

fn patience() -> Duration {
    Duration::from_secs(3) + SLOWEST * u32::try_from(LOADS).unwrap_or(u32::MAX)
}

// Peer access for the pairs of one round only: without NVSwitch a GPU has eight peers at most.

/// Peer access of the pairs of a round; it is disabled again when this value is dropped.
#[derive(Debug, Default)]
pub(in crate::suite) struct RoundAccess {
    pub(in crate::suite) pairs: Vec<Pair>,
    /// Pairs without access, and why.
    pub(in crate::suite) without_access: Vec<(Pair, String)>,
    /// Those of them that CUDA says have access, and for which the driver refuses it.
    pub(in crate::suite) refused: Vec<Finding>,
    guards: Vec<PeerAccess>,
}

impl RoundAccess {
    /// Enables both directions for each of `round`, where that works.
    ///
    /// # Errors
    /// A fault after which no test can continue.
    pub(in crate::suite) fn of(
        context: &TestContext,
        round: &[Pair],
    ) -> Result<Self, Box<Finding>> {
        let mut access = Self::default();
        for pair in round {
            let why = match enabled(context, *pair)? {
                Ok(on) => {
                    access.guards.push(on);
                    access.pairs.push(*pair);
                    continue;
                }
                Err(Without::Expected(why)) => why,
                Err(Without::Refused(error)) => {
                    access.refused.push(refused(context, *pair, &error));
                    error.to_string()
                }
            };
            access.without_access.push((*pair, why));
        }
        Ok(access)
    }
}

/// Why a pair has no access.
enum Without {
    Expected(String),
    Refused(GpuError),
}

fn enabled(context: &TestContext, pair: Pair) -> Result<Result<PeerAccess, Without>, Box<Finding>> {
    let without = |why: &str| Ok(Err(Without::Expected(why.to_owned())));
    let avoid = &context.config.validate.avoid;
    if [(pair.from, pair.to), (pair.to, pair.from)]
        .iter()
        .any(|way| avoid.contains(way))
    {
        return without("data does not arrive between them");
    }
    let fault = |e: GpuError| fault_finding(pair, &e);
    let clique = context.clique()?;
    let (Some(a), Some(b)) = (clique.gpu(pair.from), clique.gpu(pair.to)) else {
        return without("there is no such GPU");
    };
    let can = a
        .can_access(b)
        .and_then(|there| Ok(there && b.can_access(a)?));
    if !can.map_err(fault)? {
        return without("CUDA reports that they cannot reach each other");
    }
    context.doing(Activity::of_pair(pair, "enabling peer access"));
    match PeerAccess::both_ways(a, b) {
        Ok(on) => Ok(Ok(on)),
        Err(e) if e.is_sticky() => Err(fault(e)),
        Err(e) => Ok(Err(Without::Refused(e))),
    }
}
