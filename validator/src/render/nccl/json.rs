//! A run in the form of nccl-tests' `-J` output, file version 1: the same keys and types, including roots and
//! booleans that are strings. Figures are not rounded. If the measurement was not completed, the keys that
//! judge or average rows are absent.

use super::{Device, RunInfo, mean_busbw, redop, root, wrong_placements};
use crate::nccl::{Row, Timed};
use serde_json::{Map, Value, json};

/// The parts of the file that do not come from the measurement. Times have the form `2026-11-20 10:24:45`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMetadata<'a> {
    /// The start of the run.
    pub start: &'a str,
    /// The end of the run.
    pub end: &'a str,
    /// The command line.
    pub args: &'a [String],
    /// The NCCL settings.
    pub environment: &'a [(String, String)],
    /// The errors, each in one line.
    pub errors: &'a [String],
}

/// The content of the file.
#[must_use]
pub fn json(head: &RunInfo<'_>, rows: &[Row], run: &RunMetadata<'_>) -> Value {
    let environment: Vec<_> = run
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut all = json!({
        "version": 1,
        "start_time": run.start,
        "args": run.args,
        "env": environment,
        "nccl_version": head.library,
        "config": config(head),
        "results": rows.iter().map(|row| result(row, head.sweep.iterations)).collect::<Vec<_>>(),
        "errors": run.errors,
        "end_time": run.end,
    });
    if let Some(keys) = all.as_object_mut().filter(|_| !rows.is_empty()) {
        let wrong = wrong_placements(rows);
        keys.insert(
            "out_of_bounds".to_owned(),
            json!({ "count": wrong, "okay": bool_text(wrong == 0) }),
        );
        let average = json!({ "bandwidth": mean_busbw(rows), "okay": "unchecked" });
        keys.insert("average_bus_bandwidth".to_owned(), average);
    }
    all
}

fn config(head: &RunInfo<'_>) -> Value {
    let sweep = head.sweep;
    let (step, value) = if sweep.factor > 1 {
        ("step_factor", sweep.factor)
    } else {
        ("step_bytes", sweep.step)
    };
    let mut config = json!({
        "nthreads": 1,
        "ngpus": head.gpus,
        "minimum_bytes": sweep.from,
        "maximum_bytes": sweep.to,
        "warmup_iters": sweep.warmups,
        "iterations": sweep.iterations,
        "aggregated_iterations": 1,
        "validation": u8::from(sweep.check),
        "graph": 0,
        "blocking_collectives": bool_text(false),
        "parallel_init": bool_text(false),
        "devices": head.devices.iter().map(device).collect::<Vec<_>>(),
    });
    if let Some(keys) = config.as_object_mut() {
        keys.insert(step.to_owned(), value.into());
    }
    config
}

fn device(device: &Device) -> Value {
    let bdf = device.bdf;
    json!({
        "rank": device.rank,
        "group": 0,
        "pid": device.pid,
        "hostname": device.host,
        "device": device.ordinal,
        "device_hex": format!("{:04x}:{:02x}:{:02x}", bdf.domain, bdf.bus, bdf.device),
        "device_info": device.name,
    })
}

fn result(row: &Row, iterations: u32) -> Value {
    json!({
        "size": row.bytes,
        "count": row.count,
        "type": row.data.name(),
        "redop": redop(row),
        "root": format!("{:>6}", root(row)),
        "out_of_place": timed(row, &row.out_of_place),
        "in_place": timed(row, &row.in_place),
        "actual_iterations": iterations,
        "experiment_name": "",
    })
}

fn timed(row: &Row, timed: &Timed) -> Value {
    let mut figures = Map::new();
    figures.insert("time".to_owned(), timed.us.into());
    figures.insert("alg_bw".to_owned(), row.algbw(timed).into());
    figures.insert("bus_bw".to_owned(), row.busbw(timed).into());
    figures.insert(
        "nwrong".to_owned(),
        timed.wrong.as_ref().map(|wrong| wrong.count).into(),
    );
    figures.into()
}

fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
