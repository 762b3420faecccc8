//! The NCCL tests' tables in the report.

use crate::nccl::Row;
use crate::suite::benchmark::rounded;
use outcome::table::{CallRow, CallTable, GainRow, Table};
use report::gain::Gain;

/// Rows of one arm, with nccl-tests' columns.
pub(super) fn rows(table: CallTable, rows: &[Row]) -> Table {
    Table::Calls(table, rows.iter().map(call).collect())
}

fn call(row: &Row) -> CallRow {
    let (out_of_place, in_place) = (&row.out_of_place, &row.in_place);
    CallRow {
        collective: row.collective.name().to_owned(),
        bytes: row.bytes,
        count: row.count,
        data: row.data.name().to_owned(),
        redop: row.op.map_or("none", |op| op.name()).to_owned(),
        out_of_place_us: rounded(out_of_place.us),
        out_of_place_algbw: rounded(row.algbw(out_of_place)),
        out_of_place_busbw: rounded(row.busbw(out_of_place)),
        out_of_place_wrong: out_of_place.wrong.as_ref().map(|wrong| wrong.count),
        in_place_us: rounded(in_place.us),
        in_place_algbw: rounded(row.algbw(in_place)),
        in_place_busbw: rounded(row.busbw(in_place)),
        in_place_wrong: in_place.wrong.as_ref().map(|wrong| wrong.count),
    }
}

/// The gain by peer-to-peer at each size; the console's table is made from it.
pub(super) fn gains(gains: &[Gain]) -> Table {
    let row = |gain: &Gain| GainRow {
        bytes: gain.bytes,
        off_us: rounded(gain.off_us),
        on_us: rounded(gain.on_us),
        // Unrounded: rounded twice, the console's two decimals would differ from nccl-tests'.
        off_gb_s: gain.off_gb_s,
        on_gb_s: gain.on_gb_s,
        speedup: rounded(gain.speedup),
        spread_us: gain.spread_us.map(rounded),
    };
    Table::Gain(gains.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;

    #[test]
    fn a_row_has_the_bandwidths_of_nccl_tests() {
        let call = call(&row(134_217_728, 612.26, 0));
        assert_eq!(
            (call.out_of_place_algbw, call.out_of_place_busbw),
            (219.217, 328.825)
        );
        assert_eq!(call.out_of_place_wrong, Some(0));
    }
}
