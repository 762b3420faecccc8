//! The JSON of `firstlight nccl -J`, which has nccl-tests' shape: `config`, `devices`, `results`.

use super::{Row, Sweep, Timed};
use serde_json::Value;

/// A sweep of ours.
///
/// # Errors
/// What is missing or not as it should be, and a run that did not end well.
pub fn parse(text: &str) -> Result<Sweep, String> {
    let all: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Some(error) = all["errors"].as_array().and_then(|errors| errors.first()) {
        return Err(format!("it ended with {error}"));
    }
    // nccl-tests itself leaves `config` open until the devices are told.
    let devices = [&all["devices"], &all["config"]["devices"]].into_iter().find_map(Value::as_array);
    let gpus = devices.ok_or("there is no list \"devices\"")?.len();
    let results = all["results"].as_array().ok_or("there is no list \"results\"")?;
    let first = results.first().ok_or("\"results\" is empty")?;
    let data = first["type"].as_str().ok_or_else(|| format!("type: {} is no text", first["type"]))?;
    if let Some(other) = results.iter().find(|result| result["type"] != data) {
        return Err(format!("rows of {data} and of {}", other["type"]));
    }
    let rows = results.iter().map(row).collect::<Result<_, _>>()?;
    Ok(Sweep { gpus, data: data.to_owned(), rows })
}

fn row(result: &Value) -> Result<Row, String> {
    let bytes = result["size"].as_u64().ok_or_else(|| format!("size: {} is no size", result["size"]))?;
    let place = |key: &str| timed(&result[key]).map_err(|why| format!("{bytes} B, {key}: {why}"));
    Ok(Row { bytes, places: [place("out_of_place")?, place("in_place")?] })
}

fn timed(place: &Value) -> Result<Timed, String> {
    let number = |key: &str| {
        let number = place[key].as_f64().filter(|f| *f >= 0.0);
        number.ok_or_else(|| format!("{key}: {} is no figure", place[key]))
    };
    let wrong = match &place["nwrong"] {
        Value::Null if place.get("nwrong").is_some() => None,
        _ => Some(number("nwrong")?),
    };
    Ok(Timed { us: number("time")?, busbw: number("bus_bw")?, wrong: wrong.map(|wrong| wrong.ceil() as u64) })
}
