//! Repeats measurements that took too long: single runs sometimes take twice as long by chance, so only a row
//! that stays too slow counts. The best of a row's times is its time. Calls that are compared with each other are measured
//! again together, because a host may become slower meanwhile: what is alike once is alike.

use super::arms::{self, ArmKind};
use super::limits::Limits;
use super::speed::{self, Slow};
use super::sweep;
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Placement, Row, Sweep, Timed};
use crate::suite::TestContext;
use outcome::finding::Finding;
use std::thread;
use std::time::Duration;

/// The most repetitions.
const ROUNDS: usize = 3;
/// The pause before each: a disturbance may be over then.
const PAUSE: Duration = Duration::from_millis(100);

/// The result of measuring slow rows again.
pub(super) struct Remeasured {
    /// Rows that stayed too slow, as findings; each with all measurements.
    pub(super) findings: Vec<Finding>,
    /// All rows that were measured again, because their values were checked too.
    pub(super) rows: Vec<Row>,
}

/// Judges `rows`, an arm's sweeps, and replaces their times with the best of all measurements.
pub(super) fn judge(
    context: &TestContext,
    which: ArmKind,
    rows: &mut [Row],
    limits: &Limits,
) -> Result<Remeasured, Box<Finding>> {
    let mut alike = Vec::new();
    let mut slow = speed::slow(rows, limits, &alike);
    let mut measured: Vec<Row> = Vec::new();
    let mut before: Vec<Slow> = Vec::new();
    if !slow.is_empty() {
        // The start of other arms' processes slows small calls down, and lasts longer than the rounds below.
        arms::settle_all(context);
    }
    for _ in 0..ROUNDS {
        if slow.is_empty() {
            break;
        }
        before.extend(slow.iter().cloned());
        thread::sleep(PAUSE);
        let new = arms::with(context, which, |ranks| {
            measure_again(context, which, ranks, &slow)
        })?;
        new.iter().for_each(|new| keep_best_times(rows, new));
        let now: Vec<_> = speed::slow(&new, limits, &[])
            .iter()
            .map(Slow::row_placement)
            .collect();
        alike.extend(
            slow.iter()
                .map(Slow::row_placement)
                .filter(|place| !now.contains(place)),
        );
        measured.extend(new);
        slow = speed::slow(rows, limits, &alike);
    }
    let lines = |slow: &Slow| {
        let same = |other: &&Slow| other.bytes == slow.bytes && other.collective == slow.collective;
        before
            .iter()
            .filter(same)
            .map(|slow| format!("measured before: {slow}"))
            .collect::<Vec<_>>()
    };
    let evidence: Vec<_> = slow.iter().flat_map(lines).collect();
    let findings = speed::findings(&slow, limits, &which.to_string());
    let findings = findings
        .into_iter()
        .map(|finding| finding.seen_all(evidence.clone()))
        .collect();
    Ok(Remeasured {
        findings,
        rows: measured,
    })
}

/// Measures each slow size once more, and the size that it is compared with, in both placements.
fn measure_again(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
    slow: &[Slow],
) -> Result<Vec<Row>, Trouble> {
    let of = |slow: &Slow| {
        slow.sizes()
            .into_iter()
            .map(|bytes| (slow.collective, bytes))
            .collect::<Vec<_>>()
    };
    let mut kinds: Vec<_> = slow.iter().flat_map(of).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut rows = Vec::new();
    for (collective, bytes) in kinds {
        let sweep = Sweep::standard(collective).at(bytes);
        // After the pause the first calls of an idle communicator take longer, whatever their size.
        sweep::warm_up(context, which, ranks, &sweep)?;
        rows.extend(sweep::rows(context, which, ranks, &sweep)?);
    }
    Ok(rows)
}

/// Stores the better times in the row of the same size.
fn keep_best_times(rows: &mut [Row], new: &Row) {
    let same = |row: &&mut Row| row.collective == new.collective && row.bytes == new.bytes;
    let Some(row) = rows.iter_mut().find(same) else {
        return;
    };
    for placement in [Placement::OutOfPlace, Placement::InPlace] {
        let of = |row: &Row| match placement {
            Placement::OutOfPlace => row.out_of_place.us,
            Placement::InPlace => row.in_place.us,
        };
        let us = of(row).min(of(new));
        let timed: &mut Timed = match placement {
            Placement::OutOfPlace => &mut row.out_of_place,
            Placement::InPlace => &mut row.in_place,
        };
        timed.us = us;
    }
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;

    #[test]
    fn a_row_keeps_the_better_time_of_each_placement_and_its_wrong_values() {
        let mut rows = vec![row(8, 20.0, 0), row(64, 50.0, 1)];
        let mut new = row(64, 30.0, 0);
        new.in_place.us = 90.0;
        keep_best_times(&mut rows, &new);
        assert_eq!(
            (
                rows[1].out_of_place.us,
                rows[1].in_place.us,
                rows[1].wrong()
            ),
            (30.0, 50.0, 1)
        );
        assert_eq!(rows[0], row(8, 20.0, 0));
    }
}
