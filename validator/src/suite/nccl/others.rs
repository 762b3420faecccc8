//! The other eight collectives, over all sizes, with every value checked. Their speed is told and not
//! judged: all reduce stands for the links, and no figures of healthy PCIe machines are on record for these.

use super::arms::{self, Which};
use super::{connected, sweep, told};
use crate::collective::{Collective, Row, Sweep, gain};
use crate::config::Level;
use crate::finding::Finding;
use crate::outcome::Judgement;
use crate::ranks::{Ranks, Trouble};
use crate::suite::speed::judged;
use crate::suite::{Group, Machine, Test};
use std::collections::BTreeMap;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "nccl-collective",
    title: "Every other collective",
    proves: "the eight other collectives give the right values at every size, out of place and in place",
    level: Level::Standard,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = connected(machine)? {
        return Ok(none);
    }
    let rows = arms::with(machine, Which::P2p, |ranks| measure(machine, ranks))?;
    let findings = sweep::wrong(Which::P2p, &rows);
    Ok(judged(summary(&rows), findings).with_tables(vec![told::rows("nccl.collectives", &rows)]))
}

fn measure(machine: &Machine, ranks: &mut Ranks) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for collective in Collective::ALL.into_iter().filter(|c| *c != Collective::AllReduce) {
        let sweep = Sweep::standard(collective);
        sweep::warm_up(machine, Which::P2p, ranks, &sweep)?;
        rows.extend(sweep::rows(machine, Which::P2p, ranks, &sweep)?);
    }
    Ok(rows)
}

/// `8 collectives, 200 sizes: 162.0 (sendrecv) to 343.4 (reduce) GB/s of bus bandwidth at 128 MiB`
fn summary(rows: &[Row]) -> String {
    // Where ranks do not divide a size, the collectives' largest sizes differ by some bytes.
    let mut large: BTreeMap<Collective, &Row> = BTreeMap::new();
    for row in rows {
        let largest = large.entry(row.collective).or_insert(row);
        if row.bytes >= largest.bytes {
            *largest = row;
        }
    }
    let most = large.values().map(|row| row.bytes).max().unwrap_or_default();
    let up_to = if large.values().all(|row| row.bytes == most) { "" } else { "up to " };
    let large = large.into_values();
    let mut speeds: Vec<_> = large.map(|row| (row.busbw(&row.out_of_place), row.collective)).collect();
    speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((low, slow)), Some((high, fast))) = (speeds.first(), speeds.last()) else {
        return "nothing was measured".to_owned();
    };
    let (kinds, sizes) = (speeds.len(), rows.len());
    format!(
        "{kinds} collectives, {sizes} rows, every value right: {low:.1} ({slow}) to {high:.1} ({fast}) GB/s of bus \
         bandwidth at {up_to}{}",
        gain::size(most)
    )
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;

    #[test]
    fn the_slowest_and_the_fastest_are_named() {
        let fast = Row { collective: Collective::Reduce, ..row(134_217_728, 390.8, 0) };
        let slow = Row { collective: Collective::Sendrecv, ..row(134_217_728, 828.4, 0) };
        let small = Row { collective: Collective::Sendrecv, ..row(8, 20.0, 0) };
        assert_eq!(
            summary(&[small, fast, slow]),
            "2 collectives, 3 rows, every value right: 162.0 (sendrecv) to 343.4 (reduce) GB/s of bus bandwidth at \
             128 MiB"
        );
        assert_eq!(summary(&[]), "nothing was measured");
    }

    #[test]
    fn collectives_whose_largest_size_is_a_little_less_count_too() {
        let part = Row { collective: Collective::AllGather, ..row(134_217_696, 300.0, 0) };
        let said = summary(&[part, Row { collective: Collective::Reduce, ..row(134_217_728, 390.8, 0) }]);
        assert!(said.starts_with("2 collectives, 2 rows") && said.ends_with("at up to 128 MiB"), "{said}");
    }
}
