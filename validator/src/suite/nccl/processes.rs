//! One process for each GPU, as frameworks run NCCL: different code in NCCL and in the driver connects the
//! GPUs in this case. Shared memory and network are forbidden here too, so that success is the proof.

use super::arms::{self, ArmKind};
use super::{checked, groups, limits_of_all, not_connected, proof, remeasure, sweep, tables};
use crate::nccl::log::Pairs;
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Row, Sweep};
use crate::suite::benchmark::judged;
use crate::suite::{Group, Test, TestContext};
use gpu::Collective;
use machine::Rank;
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::table::CallTable;
use outcome::test;
use outcome::text::size;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_PROCESSES,
    title: "A process for each GPU",
    proves: "NCCL also connects one process for each GPU by peer-to-peer, as frameworks use it, at full speed and with right values of all nine collectives",
    level: Level::Standard,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Those whose speed counts here; that of the others counts in nccl-collective.
const SWEPT: [Collective; 2] = [Collective::AllReduce, Collective::Alltoall];
/// The size of the collectives other than all_reduce, bytes, and the number of calls of those whose speed does not count.
const OTHER: u64 = 1 << 20;
const OTHER_CALLS: u32 = 5;

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    let groups = groups::as_ranks(&groups::of(context)?);
    let measure = |ranks: &mut Ranks| measure(context, ranks, &groups);
    let (mut rows, others, proof) = arms::with(context, ArmKind::Processes, measure)?;
    let mut slow = Vec::new();
    let mut again = Vec::new();
    // Where no comparison with the links is possible, nccl-allreduce reports that.
    if let Ok(limits) = limits_of_all(context, &rows)? {
        let judged = remeasure::judge(context, ArmKind::Processes, &mut rows, &limits)?;
        (slow, again) = (judged.findings, judged.rows);
    }
    let shown = [rows.as_slice(), others.as_slice()].concat();
    rows.extend(again.into_iter().chain(others));
    let mut findings = sweep::wrong(ArmKind::Processes, &rows);
    findings.extend(slow);
    findings.extend(proof.findings);
    let mut tables = vec![tables::rows(CallTable::Processes, &shown)];
    tables.extend(proof.tables);
    let summary = format!(
        "{}; {}; {}",
        proof.summary,
        speed(&shown),
        checked::evidence(&rows)
    );
    Ok(judged(summary, findings).with_tables(tables))
}

fn measure(
    context: &TestContext,
    ranks: &mut Ranks,
    groups: &[Vec<Rank>],
) -> Result<(Vec<Row>, Vec<Row>, proof::TransportProof), Trouble> {
    let which = ArmKind::Processes;
    let sweep = Sweep::standard(Collective::AllReduce);
    sweep::warm_up(context, which, ranks, &sweep)?;
    let mut rows = sweep::rows(context, which, ranks, &sweep)?;
    let pairs = Sweep::standard(Collective::Alltoall).at(OTHER);
    rows.extend(sweep::rows(context, which, ranks, &pairs)?);
    rows.extend(checked::many(context, which, ranks)?);
    let proof = proof::of(which, ranks, Pairs::All, groups);
    let mut others = Vec::new();
    for collective in Collective::ALL
        .into_iter()
        .filter(|collective| !SWEPT.contains(collective))
    {
        let other = Sweep {
            iterations: OTHER_CALLS,
            ..Sweep::standard(collective).at(OTHER)
        };
        others.extend(sweep::rows(context, which, ranks, &other)?);
    }
    Ok((rows, others, proof))
}

/// `all_reduce 328.1 GB/s at 128 MiB, 9.8 us at 8 B`
fn speed(rows: &[Row]) -> String {
    let reduces = || {
        rows.iter()
            .filter(|row| row.collective == Collective::AllReduce)
    };
    let bytes = |row: &&Row| row.bytes;
    let (Some(first), Some(last)) = (reduces().min_by_key(bytes), reduces().max_by_key(bytes))
    else {
        return "nothing was measured".to_owned();
    };
    format!(
        "all_reduce {:.1} GB/s at {}, {:.1} us at {}",
        last.busbw(&last.out_of_place),
        size(last.bytes),
        first.out_of_place.us,
        size(first.bytes)
    )
}
