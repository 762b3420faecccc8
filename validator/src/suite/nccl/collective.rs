//! The other eight collectives, over all sizes, with every value of every timed call checked; odd counts and
//! one size over 128 MiB too. Each is compared with the links by the bytes that cross them.

use super::arms::{self, ArmKind};
use super::remeasure::{self, Remeasured};
use super::{checked, limits_of_all, not_connected, sweep, tables};
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Row, Sweep};
use crate::suite::benchmark::judged;
use crate::suite::{Group, Test, TestContext};
use gpu::Collective;
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::table::CallTable;
use outcome::test;
use outcome::text::size;
use report::Level;
use std::collections::BTreeMap;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_COLLECTIVE,
    title: "Every other collective",
    proves: "the eight other collectives give right values in every timed call, each as fast as the links allow",
    level: Level::Standard,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    let (mut rows, odd) = arms::with(context, ArmKind::P2p, |ranks| measure(context, ranks))?;
    let again = match limits_of_all(context, &rows)? {
        Ok(limits) => remeasure::judge(context, ArmKind::P2p, &mut rows, &limits)?,
        Err(unjudged) => Remeasured {
            findings: vec![unjudged],
            rows: Vec::new(),
        },
    };
    let beside = [odd.as_slice(), again.rows.as_slice()].concat();
    let all = [rows.as_slice(), beside.as_slice()].concat();
    let mut findings = sweep::wrong(ArmKind::P2p, &all);
    findings.extend(again.findings);
    let summary = format!(
        "{}; {}",
        summary(&rows, checked::has_large_row(&odd)),
        checked::evidence(&all)
    );
    let tables = [
        tables::rows(CallTable::Collectives, &rows),
        tables::rows(CallTable::CollectivesOdd, &beside),
    ];
    Ok(judged(summary, findings).with_tables(tables.into()))
}

/// The sweeps, and the additional checks.
fn measure(context: &TestContext, ranks: &mut Ranks) -> Result<(Vec<Row>, Vec<Row>), Trouble> {
    let (mut rows, mut odd) = (Vec::new(), Vec::new());
    for collective in Collective::ALL
        .into_iter()
        .filter(|c| *c != Collective::AllReduce)
    {
        let sweep = Sweep::standard(collective);
        sweep::warm_up(context, ArmKind::P2p, ranks, &sweep)?;
        rows.extend(sweep::rows(context, ArmKind::P2p, ranks, &sweep)?);
        odd.extend(checked::odd(context, ArmKind::P2p, ranks, collective)?);
        odd.extend(checked::big(context, ArmKind::P2p, ranks, collective)?);
    }
    Ok((rows, odd))
}

/// `8 collectives, 200 rows, odd counts and 256 MiB, every value right: 162.0 (sendrecv) to 343.4 (reduce) GB/s of bus
/// bandwidth at 128 MiB`
fn summary(rows: &[Row], over: bool) -> String {
    // Where ranks do not divide a size, the collectives' largest sizes differ by some bytes.
    let mut large: BTreeMap<Collective, &Row> = BTreeMap::new();
    for row in rows {
        let largest = large.entry(row.collective).or_insert(row);
        if row.bytes >= largest.bytes {
            *largest = row;
        }
    }
    let most = large
        .values()
        .map(|row| row.bytes)
        .max()
        .unwrap_or_default();
    let up_to = if large.values().all(|row| row.bytes == most) {
        ""
    } else {
        "up to "
    };
    let large = large.into_values();
    let mut speeds: Vec<_> = large
        .map(|row| (row.busbw(&row.out_of_place), row.collective))
        .collect();
    speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((low, slow)), Some((high, fast))) = (speeds.first(), speeds.last()) else {
        return "nothing was measured".to_owned();
    };
    let (kinds, sizes) = (speeds.len(), rows.len());
    let over = if over {
        " and 256 MiB"
    } else {
        ", no size over 128 MiB (memory is short)"
    };
    format!(
        "{kinds} collectives, {sizes} rows, odd counts{over}, every value right: {low:.1} ({slow}) to {high:.1} ({fast}) GB/s of bus \
         bandwidth at {up_to}{}",
        size(most)
    )
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;

    #[test]
    fn the_slowest_and_the_fastest_are_named() {
        let fast = Row {
            collective: Collective::Reduce,
            ..row(134_217_728, 390.8, 0)
        };
        let slow = Row {
            collective: Collective::Sendrecv,
            ..row(134_217_728, 828.4, 0)
        };
        let small = Row {
            collective: Collective::Sendrecv,
            ..row(8, 20.0, 0)
        };
        assert_eq!(
            summary(&[small, fast, slow], true),
            "2 collectives, 3 rows, odd counts and 256 MiB, every value right: 162.0 (sendrecv) to 343.4 (reduce) GB/s \
             of bus bandwidth at 128 MiB"
        );
        assert_eq!(summary(&[], true), "nothing was measured");
    }

    #[test]
    fn collectives_with_a_slightly_smaller_largest_size_count_too() {
        let part = Row {
            collective: Collective::AllGather,
            ..row(134_217_696, 300.0, 0)
        };
        let other = Row {
            collective: Collective::Reduce,
            ..row(134_217_728, 390.8, 0)
        };
        let said = summary(&[part, other], false);
        assert!(
            said.starts_with("2 collectives, 2 rows") && said.ends_with("at up to 128 MiB"),
            "{said}"
        );
    }
}
