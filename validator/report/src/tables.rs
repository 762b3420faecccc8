//! The rows of tables that several readers need, as types. A table in a report is JSON: its name, its columns and its rows.

use outcome::platform::Pair;
use serde_json::{Value, json};

/// The table of the result of each ordered pair of GPUs.
pub const PAIRS: &str = "p2p.pairs";

/// The result of one ordered pair: a row of [`PAIRS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairRow {
    /// The pair.
    pub pair: Pair,
    /// `ok`, `ZEROS`, `WRONG`, `HANG`, `refused` or `ERROR`.
    pub result: String,
}

impl PairRow {
    /// Whether data arrived.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.result == "ok"
    }

    fn parse(row: &Value) -> Option<Self> {
        let number = |n: usize| usize::try_from(row.get(n)?.as_u64()?).ok();
        Some(Self { pair: Pair::of(number(0)?, number(1)?), result: row.get(2)?.as_str()?.to_owned() })
    }

    fn cells(&self) -> Value {
        json!([self.pair.from, self.pair.to, self.result])
    }
}

/// The rows of all tables of pairs among `tables`; a row of another form is left out.
pub fn pair_rows(tables: &[Value]) -> impl Iterator<Item = PairRow> {
    let rows = tables.iter().filter(|table| table["name"] == PAIRS).filter_map(|table| table["rows"].as_array());
    rows.flatten().filter_map(PairRow::parse)
}

/// The table of these rows.
#[must_use]
pub fn pair_table(rows: &[PairRow]) -> Value {
    let columns = ["from", "to", "result"].map(|heading| json!({ "heading": heading, "unit": "" }));
    json!({ "name": PAIRS, "columns": columns, "rows": rows.iter().map(PairRow::cells).collect::<Vec<_>>() })
}

/// Adds rows to the table of pairs among `tables`, which is made if there is none.
pub fn add_pair_rows(tables: &mut Vec<Value>, rows: &[PairRow]) {
    match tables.iter_mut().find(|table| table["name"] == PAIRS).and_then(|table| table["rows"].as_array_mut()) {
        Some(all) => all.extend(rows.iter().map(PairRow::cells)),
        None => tables.push(pair_table(rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written_and_others_are_left_out() {
        let row = |from, to, result: &str| PairRow { pair: Pair::of(from, to), result: result.to_owned() };
        let mut tables = vec![json!({ "name": "other", "rows": [[1, 2, "ok"]] })];
        add_pair_rows(&mut tables, &[row(0, 1, "ok")]);
        add_pair_rows(&mut tables, &[row(1, 0, "ZEROS")]);
        tables.push(json!({ "name": PAIRS, "rows": [[2], "x", [2, 3, 4]] }));
        let read: Vec<_> = pair_rows(&tables).collect();
        assert_eq!(read, [row(0, 1, "ok"), row(1, 0, "ZEROS")]);
        assert!(read[0].is_good() && !read[1].is_good());
    }
}
