//! One run of `firstlight nccl` on this machine, for its JSON, or the JSON of an earlier run, and parsing it. It has the
//! structure of nccl-tests' JSON: `config`, `devices`, `results`.

use super::{NcclRun, PlacementFigures, SizeRow, Sweep};
use crate::error::{Error, Result};
use crate::hardware::run::{Options, OutputFolder, firstlight, read};
use serde_json::Value;
use std::io;
use std::process::Stdio;

/// The sizes that nccl-tests' tables usually have, following guides: 8 B to 128 MiB by factor 2.
const SIZES: [&str; 6] = ["-b", "8", "-e", "128M", "-f", "2"];

/// The JSON of the requested run.
///
/// # Errors
/// If the program is not built, did not start, or left no JSON.
pub fn sweep(options: &Options, run: &NcclRun, into: &OutputFolder) -> Result<String> {
    let name = run.our_file();
    if let Some(folder) = &options.nccl {
        return read(&folder.join(name));
    }
    let (path, mut command) = (into.fresh(&name)?, firstlight(options)?);
    command.args(["nccl", run.collective]).args(SIZES);
    if run.without_p2p {
        command.args(["--p2p", "off"]);
    }
    command
        .arg("-J")
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(io::stderr());
    let program = format!("firstlight nccl {}", run.name());
    let failed = |why: String| Error::Program {
        program: program.clone(),
        why,
    };
    let status = command.status().map_err(|e| failed(e.to_string()))?;
    // Wrong elements cause another exit status, and are in the JSON too.
    if !path.is_file() {
        return Err(failed(format!("{status}, and it wrote no JSON")));
    }
    match status.code() {
        Some(0..=3) => read(&path),
        _ => Err(failed(status.to_string())),
    }
}

/// Parses our sweep.
///
/// # Errors
/// What is missing or invalid, and a run that did not end well.
pub fn parse(text: &str) -> Result<Sweep, String> {
    let all: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Some(error) = all["errors"].as_array().and_then(|errors| errors.first()) {
        return Err(format!("it ended with {error}"));
    }
    // nccl-tests itself leaves `config` open until the devices have been written.
    let devices = [&all["devices"], &all["config"]["devices"]]
        .into_iter()
        .find_map(Value::as_array);
    let gpus = devices.ok_or("there is no list \"devices\"")?.len();
    let results = all["results"]
        .as_array()
        .ok_or("there is no list \"results\"")?;
    let first = results.first().ok_or("\"results\" is empty")?;
    let data = first["type"]
        .as_str()
        .ok_or_else(|| format!("type: {} is no text", first["type"]))?;
    if let Some(other) = results.iter().find(|result| result["type"] != data) {
        return Err(format!("rows of {data} and of {}", other["type"]));
    }
    let rows = results.iter().map(row).collect::<Result<_, _>>()?;
    Ok(Sweep {
        gpus,
        data: data.to_owned(),
        rows,
    })
}

fn row(result: &Value) -> Result<SizeRow, String> {
    let bytes = result["size"]
        .as_u64()
        .ok_or_else(|| format!("size: {} is no size", result["size"]))?;
    let placement = |key: &str| {
        placement_figures(&result[key]).map_err(|why| format!("{bytes} B, {key}: {why}"))
    };
    Ok(SizeRow {
        bytes,
        placements: [placement("out_of_place")?, placement("in_place")?],
    })
}

fn placement_figures(placement: &Value) -> Result<PlacementFigures, String> {
    let number = |key: &str| {
        let number = placement[key].as_f64().filter(|f| *f >= 0.0);
        number.ok_or_else(|| format!("{key}: {} is no figure", placement[key]))
    };
    let wrong = match &placement["nwrong"] {
        Value::Null if placement.get("nwrong").is_some() => None,
        _ => Some(number("nwrong")?),
    };
    Ok(PlacementFigures {
        us: number("time")?,
        busbw: number("bus_bw")?,
        wrong: wrong.map(|wrong| wrong.ceil() as u64),
    })
}
