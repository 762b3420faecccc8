//! Every element type with every reduction. Values are whole numbers whose reduction is exact in the type, so
//! a value that is off by the last bit is wrong.

use super::arms::{self, ArmKind};
use super::{checked, not_connected, sweep, tables};
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Row, Sweep};
use crate::suite::benchmark::judged;
use crate::suite::{Group, Test, TestContext};
use gpu::{Collective, DataType, RedOp, Values};
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::table::CallTable;
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_TYPES,
    title: "Types and reductions",
    proves: "sum, min, max and mean of float, half, bfloat16, int32 and double are exact in all_reduce and reduce_scatter, sums of half and bfloat16 also at 256 MiB",
    level: Level::Standard,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Odd counts, roughly one for each of NCCL's protocols: latency, middle, bandwidth; and bytes of an even
/// one.
const COUNTS: [u64; 3] = [257, 65_537, 2_000_003];
const EVEN: u64 = 1 << 20;
/// Bytes of the large calls of the types in which models are trained.
const LARGE: u64 = 256 << 20;
const TRAINED: [DataType; 2] = [DataType::Half, DataType::Bfloat16];

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    let collectives: &[Collective] = match context.config.validate.level {
        Level::Quick | Level::Standard => &[Collective::AllReduce, Collective::ReduceScatter],
        Level::Full | Level::Acceptance => &[
            Collective::AllReduce,
            Collective::ReduceScatter,
            Collective::Reduce,
        ],
    };
    let gpus = u32::try_from(context.clique()?.len()).unwrap_or(u32::MAX);
    let (kinds, left_out) = kinds(gpus);
    // No later test needs this arm, and nothing is timed here while it releases its GPUs.
    arms::release(context, ArmKind::Off);
    let measure = |ranks: &mut Ranks| measure(context, ranks, collectives, &kinds);
    let rows = arms::with(context, ArmKind::P2p, measure)?;
    let findings = sweep::wrong(ArmKind::P2p, &rows);
    let names: Vec<_> = collectives
        .iter()
        .map(|collective| collective.name())
        .collect();
    let mut summary = format!(
        "{} types with {} reductions in {}: all exact; {}",
        DataType::ALL.len(),
        RedOp::ALL.len(),
        names.join(", "),
        checked::evidence(&rows)
    );
    if rows.iter().all(|row| row.bytes < LARGE) {
        summary += "; no size of 256 MiB (memory is short)";
    }
    for (data, op) in left_out {
        summary += &format!("; without {op} of {data}, which is not exact with {gpus} GPUs");
    }
    Ok(judged(summary, findings).with_tables(vec![tables::rows(CallTable::Types, &rows)]))
}

type Kind = (DataType, RedOp);

/// The combinations that can be judged with this many ranks, and the others.
fn kinds(ranks: u32) -> (Vec<Kind>, Vec<Kind>) {
    let all = DataType::ALL
        .into_iter()
        .flat_map(|data| RedOp::ALL.map(|op| (data, op)));
    all.partition(|(data, op)| Values::exact(*data, Some(*op), ranks).is_some())
}

fn measure(
    context: &TestContext,
    ranks: &mut Ranks,
    collectives: &[Collective],
    kinds: &[Kind],
) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for collective in collectives {
        for (data, op) in kinds {
            let own = Sweep {
                iterations: 1,
                data: *data,
                op: *op,
                ..Sweep::standard(*collective)
            };
            let odd = COUNTS.map(|count| own.of_count(count, ranks.ranks() as u64));
            let room = ranks.room();
            for sweep in odd
                .iter()
                .chain(&[own.at(EVEN)])
                .filter(|sweep| sweep.to <= room)
            {
                rows.extend(sweep::rows(context, ArmKind::P2p, ranks, sweep)?);
            }
        }
    }
    for data in TRAINED {
        let large = Sweep {
            iterations: 1,
            data,
            ..Sweep::standard(Collective::AllReduce).at(LARGE)
        };
        if large.to <= ranks.room() {
            rows.extend(sweep::rows(context, ArmKind::P2p, ranks, &large)?);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_judged_with_common_numbers_of_gpus() {
        for ranks in [2, 4, 6, 8, 10, 16] {
            assert_eq!(kinds(ranks).0.len(), 20, "{ranks}");
        }
        assert_eq!(kinds(11).1, [(DataType::Half, RedOp::Avg)]);
    }
}
