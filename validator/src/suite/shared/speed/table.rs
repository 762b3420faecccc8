//! Tables of a report: measurements that are not a matrix of pairs.

use serde_json::{Value, json};

/// A table; `columns`: heading and unit of each, where `""` is text or a count. Every row has a value for
/// each column, `null` where there is none.
pub(in crate::suite) fn table(name: &str, columns: &[(&str, &str)], rows: &[Vec<Value>]) -> Value {
    let columns: Vec<_> =
        columns.iter().map(|(heading, unit)| json!({ "heading": heading, "unit": unit })).collect();
    json!({ "name": name, "columns": columns, "rows": rows })
}
