//! The NCCL tests' tables in the report.

use crate::nccl::{Row, Timed};
use crate::suite::benchmark::{rounded, table};
use report::gain::Gain;
use serde_json::Value;

/// Rows of one arm, with nccl-tests' columns.
pub(super) fn rows(name: &str, rows: &[Row]) -> Value {
    let columns = [
        ("collective", ""),
        ("size", "bytes"),
        ("count", ""),
        ("type", ""),
        ("redop", ""),
        ("out-of-place time", "us"),
        ("out-of-place algbw", "GB/s"),
        ("out-of-place busbw", "GB/s"),
        ("out-of-place wrong", ""),
        ("in-place time", "us"),
        ("in-place algbw", "GB/s"),
        ("in-place busbw", "GB/s"),
        ("in-place wrong", ""),
    ];
    let lines: Vec<_> = rows.iter().map(line).collect();
    table(name, &columns, &lines)
}

fn line(row: &Row) -> Vec<Value> {
    let mut line: Vec<Value> = vec![
        row.collective.name().into(),
        row.bytes.into(),
        row.count.into(),
        row.data.name().into(),
        row.op.map_or("none", |op| op.name()).into(),
    ];
    for timed in [&row.out_of_place, &row.in_place] {
        line.extend(figures(row, timed));
    }
    line
}

fn figures(row: &Row, timed: &Timed) -> [Value; 4] {
    let wrong = timed.wrong.as_ref().map_or(Value::Null, |wrong| wrong.count.into());
    [rounded(timed.us).into(), rounded(row.algbw(timed)).into(), rounded(row.busbw(timed)).into(), wrong]
}

/// The gain by peer-to-peer at each size; the console's table is made from it.
pub(super) fn gains(gains: &[Gain]) -> Value {
    let columns = [
        ("size", "bytes"),
        ("off time", "us"),
        ("on time", "us"),
        ("off busbw", "GB/s"),
        ("on busbw", "GB/s"),
        ("speedup", ""),
        ("spread", "us"),
    ];
    let line = |gain: &Gain| {
        let Gain { bytes, off_us, on_us, off_gb_s, on_gb_s, speedup, spread_us, .. } = *gain;
        // Bandwidths unrounded: rounded twice, the console's two decimals would differ from nccl-tests'.
        let figures = [rounded(off_us), rounded(on_us), off_gb_s, on_gb_s, rounded(speedup)];
        let spread = spread_us.map_or(Value::Null, |us| rounded(us).into());
        std::iter::once(bytes.into()).chain(figures.map(Value::from)).chain([spread]).collect::<Vec<Value>>()
    };
    table("nccl.gain", &columns, &gains.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let table = rows("nccl.all_reduce", &[row(134_217_728, 612.26, 0)]);
        let line = table["rows"][0].as_array().unwrap();
        assert_eq!(line.len(), table["columns"].as_array().unwrap().len());
        assert_eq!((&line[6], &line[7], &line[8]), (&219.217.into(), &328.825.into(), &0.into()));
    }
}
