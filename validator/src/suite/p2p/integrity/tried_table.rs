//! What was tried with each pair, as a table of the report, and the rate of faults that this rules out. Pure.

use super::level_plan::LevelPlan;
use super::results::{AccessState, AllPairsRun, PairResult};
use super::simple_values::block;
use crate::suite::shared::transfer::{Engine, FaultKind, Memory, ruled_out};
use gpu::pattern::DataFault;
use outcome::finding::Code;
use outcome::table::{IntegrityRow, PairRow, Seed, Table};

/// Transfers of one kind.
struct Tried {
    what: String,
    by: &'static str,
    memory: &'static str,
    sizes: Vec<u64>,
    /// How many times each of them was made.
    times: u64,
    seed: Option<u64>,
}

impl AllPairsRun {
    /// The kinds of memory in which all pairs made their transfers.
    fn memories(&self) -> &'static [Memory] {
        if self.mapped {
            &[Memory::Plain, Memory::Mapped]
        } else {
            &[Memory::Plain]
        }
    }
}

/// Transfers of a pair that were checked one by one, by copy engine and by kernel.
pub(super) fn checked_transfers(plan: &LevelPlan, all_pairs: Option<&AllPairsRun>) -> [u64; 2] {
    // Half of them by each engine; of simple values there are one write and one read.
    let alone = (plan.transfers() / 2) as u64 + 2;
    let of = |small: &dyn Fn(&AllPairsRun) -> usize| {
        all_pairs.map_or(0, |c| {
            c.memories().len() as u64 * 2 * (small(c) + c.large.len()) as u64
        })
    };
    [
        alone + of(&|c| c.copy.len()),
        alone + of(&|c| c.kernel.len()),
    ]
}

/// The result of each pair: `ok`, `ZEROS`, `WRONG`, `HANG`, `refused` or `ERROR`.
pub(super) fn pairs_table(tried: &[PairResult]) -> Table {
    Table::Pairs(
        tried
            .iter()
            .map(|tried| PairRow::new(tried.pair, result(tried)))
            .collect(),
    )
}

fn result(tried: &PairResult) -> &'static str {
    if let Some(ended) = &tried.ended {
        return if ended.is(Code::P2pHang) {
            "HANG"
        } else {
            "ERROR"
        };
    }
    match (tried.faults.first().map(|fault| fault.what), &tried.access) {
        (Some(FaultKind::Data(DataFault::Zeros)), _) => "ZEROS",
        (Some(FaultKind::Checker(_)), _) => "ERROR",
        (Some(_), _) => "WRONG",
        (None, AccessState::On) => "ok",
        (None, AccessState::No | AccessState::Refused(_)) => "refused",
    }
}

/// The table of all transfers, by kind.
pub(super) fn transfers_table(plan: &LevelPlan, all_pairs: Option<&AllPairsRun>) -> Table {
    let mut rows = Vec::new();
    for by in [Engine::Copy, Engine::Sm] {
        for memory in &plan.memories {
            rows.push(Tried {
                what: "one pair at a time".to_owned(),
                by: name(by),
                memory: memory.name(),
                sizes: plan.sizes(*memory).to_vec(),
                times: 2 * plan.shifts.len() as u64,
                seed: None,
            });
        }
        rows.push(Tried {
            what: "one pair at a time: zeros, ones, repeated values, walking bits".to_owned(),
            by: name(by),
            memory: Memory::Plain.name(),
            sizes: plan
                .sizes
                .last()
                .map(|largest| block(*largest))
                .into_iter()
                .collect(),
            times: 2,
            seed: None,
        });
    }
    if let Some(all_pairs) = all_pairs {
        let peers = all_pairs.at_once;
        for memory in all_pairs.memories() {
            // Mapped memory names its peers itself.
            let on = if *memory == Memory::Plain {
                format!(", {peers} peers on at once")
            } else {
                String::new()
            };
            let row = |what: &str, by, sizes: &Vec<u64>| Tried {
                what: format!("{what}{on}"),
                by: name(by),
                memory: memory.name(),
                sizes: sizes.clone(),
                times: 2,
                seed: Some(all_pairs.seed),
            };
            rows.push(row(
                "odd sizes and addresses, all pairs at once",
                Engine::Sm,
                &all_pairs.kernel,
            ));
            rows.push(row(
                "large, all pairs at once",
                Engine::Sm,
                &all_pairs.large,
            ));
            rows.push(row(
                "odd sizes and addresses",
                Engine::Copy,
                &all_pairs.copy,
            ));
            rows.push(row("large", Engine::Copy, &all_pairs.large));
        }
    }
    Table::Integrity(rows.into_iter().map(row).collect())
}

fn row(tried: Tried) -> IntegrityRow {
    let Tried {
        what,
        by,
        memory,
        sizes,
        times,
        seed,
    } = tried;
    let transfers = sizes.len() as u64 * times;
    IntegrityRow {
        what,
        by: by.to_owned(),
        memory: memory.to_owned(),
        smallest: sizes.iter().min().copied(),
        largest: sizes.iter().max().copied(),
        transfers,
        bytes: sizes.iter().sum::<u64>() * times,
        ruled_out: ruled_out(transfers),
        seed: seed.map(Seed),
    }
}

const fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Copy => "copy engine, write and read",
        Engine::Sm => "kernel, write and read",
        Engine::Staged => "through host memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Level;

    fn all_pairs() -> AllPairsRun {
        let (kernel, copy, large) = (vec![1, 900, 33], vec![5, 6], vec![1 << 20]);
        AllPairsRun {
            seed: 7,
            kernel,
            copy,
            large,
            at_once: 7,
            mapped: false,
        }
    }

    #[test]
    fn every_kind_has_a_row_with_its_sizes_and_its_seed() {
        let plan = LevelPlan::of(Level::Standard);
        let Table::Integrity(rows) = transfers_table(&plan, Some(&all_pairs())) else {
            panic!()
        };
        assert_eq!(rows.len(), 12);
        assert_eq!(
            (rows[8].smallest, rows[8].largest, rows[8].transfers),
            (Some(1), Some(900), 6)
        );
        assert_eq!((rows[8].bytes, rows[8].seed), (1868, Some(Seed(7))));
        assert_eq!(
            checked_transfers(&plan, Some(&all_pairs())),
            [22 + 6, 22 + 8]
        );
        assert_eq!(checked_transfers(&plan, None), [22, 22]);
        let mapped = AllPairsRun {
            mapped: true,
            ..all_pairs()
        };
        assert_eq!(checked_transfers(&plan, Some(&mapped)), [22 + 12, 22 + 16]);
        let Table::Integrity(rows) = transfers_table(&plan, Some(&mapped)) else {
            panic!()
        };
        assert_eq!(
            (rows.len(), rows[12].memory.as_str(), rows[12].largest),
            (16, "mapped", Some(900))
        );
    }
}
