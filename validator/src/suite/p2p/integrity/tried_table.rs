//! What was tried with each pair, as a table of the report, and the rate of faults that this rules out. Pure.

use super::level_plan::LevelPlan;
use super::results::{AccessState, AllPairsRun, PairResult};
use super::simple_values::block;
use crate::suite::benchmark::table;
use crate::suite::shared::transfer::{Engine, FaultKind, Memory, ruled_out};
use gpu::pattern::DataFault;
use outcome::finding::Code;
use report::tables::{PairRow, pair_table};
use serde_json::Value;

/// A row of the table: transfers of one kind.
struct Row {
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
        if self.mapped { &[Memory::Plain, Memory::Mapped] } else { &[Memory::Plain] }
    }
}

/// Transfers of a pair that were checked one by one, by copy engine and by kernel.
pub(super) fn checked_transfers(plan: &LevelPlan, all_pairs: Option<&AllPairsRun>) -> [u64; 2] {
    // Half of them by each engine; of simple values there are one write and one read.
    let alone = (plan.transfers() / 2) as u64 + 2;
    let of = |small: &dyn Fn(&AllPairsRun) -> usize| {
        all_pairs.map_or(0, |c| c.memories().len() as u64 * 2 * (small(c) + c.large.len()) as u64)
    };
    [alone + of(&|c| c.copy.len()), alone + of(&|c| c.kernel.len())]
}

/// The result of each pair: `ok`, `ZEROS`, `WRONG`, `HANG`, `refused` or `ERROR`.
pub(super) fn pairs_table(tried: &[PairResult]) -> Value {
    let row = |tried: &PairResult| PairRow { pair: tried.pair, result: result(tried).to_owned() };
    pair_table(&tried.iter().map(row).collect::<Vec<_>>())
}

fn result(tried: &PairResult) -> &'static str {
    if let Some(ended) = &tried.ended {
        return if ended.is(Code::P2pHang) { "HANG" } else { "ERROR" };
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
pub(super) fn transfers_table(plan: &LevelPlan, all_pairs: Option<&AllPairsRun>) -> Value {
    let mut rows = Vec::new();
    for by in [Engine::Copy, Engine::Sm] {
        for memory in &plan.memories {
            rows.push(Row {
                what: "one pair at a time".to_owned(),
                by: name(by),
                memory: memory.name(),
                sizes: plan.sizes(*memory).to_vec(),
                times: 2 * plan.shifts.len() as u64,
                seed: None,
            });
        }
        rows.push(Row {
            what: "one pair at a time: zeros, ones, repeated values, walking bits".to_owned(),
            by: name(by),
            memory: Memory::Plain.name(),
            sizes: plan.sizes.last().map(|largest| block(*largest)).into_iter().collect(),
            times: 2,
            seed: None,
        });
    }
    if let Some(all_pairs) = all_pairs {
        let peers = all_pairs.at_once;
        for memory in all_pairs.memories() {
            // Mapped memory names its peers itself.
            let on = if *memory == Memory::Plain { format!(", {peers} peers on at once") } else { String::new() };
            let row = |what: &str, by, sizes: &Vec<u64>| Row {
                what: format!("{what}{on}"),
                by: name(by),
                memory: memory.name(),
                sizes: sizes.clone(),
                times: 2,
                seed: Some(all_pairs.seed),
            };
            rows.push(row("odd sizes and addresses, all pairs at once", Engine::Sm, &all_pairs.kernel));
            rows.push(row("large, all pairs at once", Engine::Sm, &all_pairs.large));
            rows.push(row("odd sizes and addresses", Engine::Copy, &all_pairs.copy));
            rows.push(row("large", Engine::Copy, &all_pairs.large));
        }
    }
    let columns = [
        ("what", ""),
        ("by", ""),
        ("memory", ""),
        ("smallest", "B"),
        ("largest", "B"),
        ("transfers a pair", ""),
        ("bytes a pair", "B"),
        ("faults ruled out above", ""),
        ("seed", ""),
    ];
    table("tried", &columns, &rows.iter().map(values).collect::<Vec<_>>())
}

fn values(row: &Row) -> Vec<Value> {
    let n = row.sizes.len() as u64 * row.times;
    let number = |n: Option<&u64>| n.map_or(Value::Null, |n| (*n).into());
    vec![
        row.what.clone().into(),
        row.by.into(),
        row.memory.into(),
        number(row.sizes.iter().min()),
        number(row.sizes.iter().max()),
        n.into(),
        (row.sizes.iter().sum::<u64>() * row.times).into(),
        ruled_out(n).into(),
        row.seed.map_or(Value::Null, |seed| format!("{seed:016x}").into()),
    ]
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
        AllPairsRun { seed: 7, kernel, copy, large, at_once: 7, mapped: false }
    }

    #[test]
    fn every_kind_has_a_row_with_its_sizes_and_its_seed() {
        let plan = LevelPlan::of(Level::Standard);
        let said = transfers_table(&plan, Some(&all_pairs()));
        let rows = said["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 12);
        assert!(rows.iter().all(|row| row.as_array().unwrap().len() == 9));
        assert_eq!((&rows[8][3], &rows[8][4], &rows[8][5]), (&1.into(), &900.into(), &6.into()));
        assert_eq!((&rows[8][6], &rows[8][8]), (&1868.into(), &"0000000000000007".into()));
        assert_eq!(checked_transfers(&plan, Some(&all_pairs())), [22 + 6, 22 + 8]);
        assert_eq!(checked_transfers(&plan, None), [22, 22]);
        let mapped = AllPairsRun { mapped: true, ..all_pairs() };
        assert_eq!(checked_transfers(&plan, Some(&mapped)), [22 + 12, 22 + 16]);
        let said = transfers_table(&plan, Some(&mapped));
        let rows = said["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &rows[12][2], &rows[12][4]), (16, &"mapped".into(), &900.into()));
    }
}
