//! Checks besides the sweeps' even sizes: odd and prime counts on unaligned addresses, one size over 128 MiB,
//! many small calls; and what this many right results prove about rare faults.

use super::arms::ArmKind;
use super::sweep;
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Row, Sweep};
use crate::suite::TestContext;
use gpu::Collective;

/// Elements of each call: one, few, and primes in the range of each of NCCL's protocols.
const ODD_COUNTS: [u64; 7] = [1, 3, 13, 1009, 65_537, 1_048_573, 5_000_011];
/// Calls of each odd count.
const ODD_CALLS: u32 = 4;
/// Over 128 MiB, and odd: elements of the larger buffer.
const LARGE_COUNT: u64 = (256 << 20) / 4 + 3;
/// Many small calls, for rare faults: in each placement of each of these counts.
const SMALL_COUNTS: [u64; 3] = [253, 2048, 16_381];
const SMALL_CALLS: u32 = 256;
const MANY_RANKS: u32 = 16;

/// Every odd count that fits the buffers.
pub(super) fn odd(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
    collective: Collective,
) -> Result<Vec<Row>, Trouble> {
    let sweep = Sweep {
        iterations: ODD_CALLS,
        ..Sweep::standard(collective)
    };
    let all = ODD_COUNTS.map(|count| sweep.of_count(count, ranks.ranks() as u64));
    run_sweeps(context, which, ranks, &all)
}

/// One call in each placement over 128 MiB; empty where memory is short.
pub(super) fn big(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
    collective: Collective,
) -> Result<Vec<Row>, Trouble> {
    let parts = if collective.has_parts() {
        ranks.ranks() as u64
    } else {
        1
    };
    let count = LARGE_COUNT.checked_div(parts).unwrap_or(LARGE_COUNT) | 1;
    let sweep = Sweep {
        iterations: 1,
        ..Sweep::standard(collective).of_count(count, ranks.ranks() as u64)
    };
    run_sweeps(context, which, ranks, &[sweep])
}

/// Many small calls of all reduce.
pub(super) fn many(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
) -> Result<Vec<Row>, Trouble> {
    let more = u32::try_from(ranks.ranks())
        .unwrap_or(u32::MAX)
        .div_ceil(MANY_RANKS)
        .max(1);
    let sweep = Sweep {
        iterations: SMALL_CALLS / more,
        ..Sweep::standard(Collective::AllReduce)
    };
    let all = SMALL_COUNTS.map(|count| sweep.of_count(count, ranks.ranks() as u64));
    run_sweeps(context, which, ranks, &all)
}

fn run_sweeps(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
    all: &[Sweep],
) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    let room = ranks.room();
    for sweep in all.iter().filter(|sweep| sweep.to <= room) {
        rows.extend(sweep::rows(context, which, ranks, sweep)?);
    }
    Ok(rows)
}

/// Whether a row over 128 MiB is among them.
pub(super) fn has_large_row(rows: &[Row]) -> bool {
    rows.iter()
        .any(|row| row.bytes > 128 << 20 && row.checked() > 0)
}

/// `2040 calls checked: fewer than 1 in 680 are wrong (95 %)`: of `n` right results with 95 % certainty fewer
/// than 3/n are wrong (the rule of three).
pub(super) fn evidence(rows: &[Row]) -> String {
    let calls: u64 = rows.iter().map(Row::checked).sum();
    match calls / 3 {
        0 => format!("{calls} calls checked"),
        one_in => format!("{calls} calls checked: fewer than 1 in {one_in} are wrong (95 %)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;

    #[test]
    fn counts_are_odd_and_mostly_prime() {
        let odd = ODD_COUNTS.iter().filter(|count| *count % 2 == 1).count();
        assert_eq!((odd, LARGE_COUNT % 2), (ODD_COUNTS.len(), 1));
        for parts in [2, 3, 4, 8] {
            let count = (LARGE_COUNT / parts) | 1;
            assert!(
                count % 2 == 1 && count * parts * 4 > 128 << 20 && count * parts * 4 < 640 << 20
            );
        }
    }

    #[test]
    fn n_right_results_rule_out_faults_more_frequent_than_3_in_n() {
        // A row has one checked call in each placement.
        let rows = vec![row(8, 20.0, 0); 510];
        assert_eq!(
            evidence(&rows),
            "1020 calls checked: fewer than 1 in 340 are wrong (95 %)"
        );
        assert_eq!(evidence(&[row(8, 20.0, 0)]), "2 calls checked");
        assert!(has_large_row(&[row(256 << 20, 1.0, 0)]) && !has_large_row(&rows));
    }
}
