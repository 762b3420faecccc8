//! The table of nccl-tests 2.19, byte for byte: one text before the rows, one line per row, and one text
//! after.

use super::{RunInfo, mean_busbw, redop, root, wrong_placements};
use crate::nccl::{Row, Timed};
use gpu::Collective;
use report::render::number::{figure, general};
use std::fmt::Write as _;

/// The text above the columns: what is run, how, and on which devices.
#[must_use]
pub fn head(head: &RunInfo<'_>) -> String {
    let sweep = head.sweep;
    let (step, unit) = if sweep.factor > 1 {
        (sweep.factor, "factor")
    } else {
        (sweep.step, "bytes")
    };
    let mut text = format!(
        "# firstlight version {} nccl-headers=none nccl-library={}\n# Collective test starting: {}_perf\n",
        head.version, head.library, sweep.collective
    );
    // Writing into a String cannot fail, here and below.
    let _ = write!(
        text,
        "# nThread 1 nGpus {} minBytes {} maxBytes {} step: {step}({unit}) warmup iters: {} iters: {} \
         agg iters: 1 validation: {} graph: 0 unalign: 0\n#\n# Using devices\n",
        head.gpus,
        sweep.from,
        sweep.to,
        sweep.warmups,
        sweep.iterations,
        u8::from(sweep.check)
    );
    for device in head.devices {
        let bdf = device.bdf;
        let _ = writeln!(
            text,
            "#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{:04x}:{:02x}:{:02x}] {}",
            device.rank,
            0,
            device.pid,
            device.host,
            device.ordinal,
            bdf.domain,
            bdf.bus,
            bdf.device,
            device.name
        );
    }
    text
}

/// The columns' names and units.
#[must_use]
pub fn columns() -> String {
    let line = |first: [&str; 5], timed: [&str; 4]| {
        let [size, count, data, op, root] = first;
        let [time, algbw, busbw, wrong] = timed;
        let timed = format!("{time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}");
        format!("# {size:>10}  {count:>12}  {data:>8}  {op:>6}  {root:>6}  {timed}  {timed} \n")
    };
    format!(
        "#\n# {:>50}           out-of-place                       in-place          \n{}{}",
        "",
        line(
            ["size", "count", "type", "redop", "root"],
            ["time", "algbw", "busbw", "#wrong"]
        ),
        line(
            ["(B)", "(elements)", "", "", ""],
            ["(us)", "(GB/s)", "(GB/s)", ""]
        )
    )
}

/// One row.
#[must_use]
pub fn row(row: &Row) -> String {
    format!(
        "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n",
        row.bytes,
        row.count,
        row.data.name(),
        redop(row),
        root(row),
        placement(row, &row.out_of_place),
        placement(row, &row.in_place)
    )
}

fn placement(row: &Row, timed: &Timed) -> String {
    let time = figure(timed.us, 7);
    let (algbw, busbw) = (figure(row.algbw(timed), 6), figure(row.busbw(timed), 6));
    let wrong = match &timed.wrong {
        Some(wrong) => format!("{:>6}", general(count(wrong.count))),
        // One column less, as in nccl-tests.
        None => format!("{:>5}", "N/A"),
    };
    format!("  {time}  {algbw}  {busbw}  {wrong}")
}

#[expect(clippy::cast_precision_loss, reason = "six digits of it are printed")]
fn count(wrong: u64) -> f64 {
    wrong as f64
}

/// The text below the rows.
#[must_use]
pub fn tail(collective: Collective, rows: &[Row]) -> String {
    let wrong = wrong_placements(rows);
    let verdict = if wrong == 0 { "OK" } else { "FAILED" };
    format!(
        "# {:<20} : {wrong} {verdict}\n# {:<20} : {} \n#\n# Collective test concluded: {collective}_perf\n#\n\n",
        "Out of bounds values",
        "Avg bus bandwidth",
        general(mean_busbw(rows))
    )
}
