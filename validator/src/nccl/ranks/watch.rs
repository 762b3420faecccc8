//! Waits for the ranks' GPUs: always with a time limit, and always checking whether NCCL has failed.

use super::local_ranks::LocalRanks;
use super::messages::Fault;
use super::trouble::TroubleKind;
use gpu::poll::pause;
use machine::Rank;
use std::time::{Duration, Instant};

/// Slower than any transport that works, such as a narrow link of an old generation on a busy host.
const SLOW_BYTES_PER_S: u64 = 200_000_000;
/// Extra time for starting, connecting and a busy machine.
const EXTRA_TIME: Duration = Duration::from_secs(10);
/// How often NCCL is checked for errors.
const ERROR_CHECK: Duration = Duration::from_millis(1);

/// The time limit of this many calls with this many bytes.
pub(super) fn calls_time_limit(bytes: u64, calls: u32) -> Duration {
    let ns = u128::from(bytes) * u128::from(calls) * 1_000_000_000 / u128::from(SLOW_BYTES_PER_S);
    EXTRA_TIME.saturating_add(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
}

/// Waits until all work of the ranks' GPUs is done.
pub(super) fn wait(local: &LocalRanks, within: Duration) -> Result<(), Fault> {
    let start = Instant::now();
    let mut next_check = ERROR_CHECK;
    loop {
        let mut working = Vec::new();
        for gpu in &local.gpus {
            if !gpu
                .stream
                .done()
                .map_err(|e| Fault::of(Some(gpu.rank), &e))?
            {
                working.push(gpu.rank);
            }
        }
        let waited = start.elapsed();
        if working.is_empty() {
            // Work may be done because NCCL has given up.
            return check_errors(local);
        }
        if waited > within {
            return Err(hang(&working, waited));
        }
        if waited > next_check {
            check_errors(local)?;
            next_check = waited + ERROR_CHECK;
        }
        pause(waited);
    }
}

fn check_errors(local: &LocalRanks) -> Result<(), Fault> {
    let mut ranks = local.gpus.iter().zip(&local.comms);
    ranks.try_for_each(|(gpu, comm)| {
        comm.async_error()
            .map_err(|e| Fault::of(Some(gpu.rank), &e))
    })
}

fn hang(working: &[Rank], after: Duration) -> Fault {
    let names: Vec<_> = working.iter().map(ToString::to_string).collect();
    let ranks = if working.len() == 1 { "rank" } else { "ranks" };
    let text = format!(
        "no end within {:.1} s at {ranks} {}",
        after.as_secs_f64(),
        names.join(", ")
    );
    let rank = if let [one] = working {
        Some(*one)
    } else {
        None
    };
    Fault {
        rank,
        kind: TroubleKind::Hang,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_limit_grows_with_the_bytes() {
        assert_eq!(calls_time_limit(8, 20).as_secs(), 10);
        assert_eq!(calls_time_limit(128 << 20, 21).as_secs(), 24);
        assert!(calls_time_limit(u64::MAX, u32::MAX) > Duration::from_secs(1 << 30));
    }

    #[test]
    fn a_hang_names_the_ranks_that_are_still_working() {
        let fault = hang(&Rank::list([0, 2]), Duration::from_secs(10));
        assert_eq!(fault.text, "no end within 10.0 s at ranks 0, 2");
        assert_eq!(
            (fault.rank, hang(&Rank::list([3]), EXTRA_TIME).rank),
            (None, Some(3.into()))
        );
    }
}
