//! The JSON of nvbandwidth 0.8. Its cells are texts, `N/A` where there is no pair. A test between
//! two GPUs in both directions prints three matrices on top of each other: the row's traffic, the
//! column's, and their total, which is the one that we measure.

use crate::hardware::Grid;
use serde_json::Value;

/// Its tests and our names; rows and columns mean the same in both.
const TESTS: [(&str, &str); 16] = [
    ("device_to_device_memcpy_read_ce", "ce.read"),
    ("device_to_device_memcpy_write_ce", "ce.write"),
    ("device_to_device_bidirectional_memcpy_read_ce", "ce.bi.read"),
    ("device_to_device_bidirectional_memcpy_write_ce", "ce.bi.write"),
    ("device_to_device_memcpy_read_sm", "sm.read"),
    ("device_to_device_memcpy_write_sm", "sm.write"),
    ("device_to_device_bidirectional_memcpy_read_sm", "sm.bi.read"),
    ("device_to_device_bidirectional_memcpy_write_sm", "sm.bi.write"),
    ("host_to_device_memcpy_ce", "host.to.ce"),
    ("device_to_host_memcpy_ce", "host.from.ce"),
    ("host_to_device_bidirectional_memcpy_ce", "host.bi.to.ce"),
    ("device_to_host_bidirectional_memcpy_ce", "host.bi.from.ce"),
    ("host_to_all_memcpy_ce", "host.to.all.ce"),
    ("all_to_host_memcpy_ce", "host.from.all.ce"),
    ("device_local_copy", "local"),
    ("device_to_device_latency_sm", "chase"),
];

/// The number of GPUs, and the matrices that we measure too; tests that were not run, or did not
/// pass there, are left out.
///
/// # Errors
/// What is missing or not as it should be.
pub fn parse(text: &str) -> Result<(usize, Vec<Grid>), String> {
    let all: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let all = &all["nvbandwidth"];
    let gpus = all["GPU Device list"].as_array().ok_or("there is no nvbandwidth.\"GPU Device list\"")?.len();
    let tests = all["testcases"].as_array().ok_or("there is no nvbandwidth.testcases")?;
    let mut grids = Vec::new();
    for (peer, ours) in TESTS {
        let Some(test) = tests.iter().find(|t| t["name"] == peer && t["status"] == "Passed") else {
            continue;
        };
        let values = matrix(test).ok_or_else(|| format!("{peer}: bandwidth_matrix is no matrix"))?;
        let values = if peer.starts_with("device_to_device_bidirectional") {
            total(values, gpus).map_err(|rows| format!("{peer}: {rows} rows, expected three times {gpus}"))?
        } else {
            values
        };
        grids.push(Grid { name: ours.to_owned(), values });
    }
    Ok((gpus, grids))
}

fn matrix(test: &Value) -> Option<Vec<Vec<Option<f64>>>> {
    let row = |row: &Value| row.as_array()?.iter().map(|c| cell(c.as_str()?)).collect::<Option<Vec<_>>>();
    test["bandwidth_matrix"].as_array()?.iter().map(row).collect()
}

fn cell(word: &str) -> Option<Option<f64>> {
    if word == "N/A" {
        return Some(None);
    }
    word.parse().ok().filter(|f: &f64| f.is_finite()).map(Some)
}

/// The last third of the rows.
fn total(mut rows: Vec<Vec<Option<f64>>>, gpus: usize) -> Result<Vec<Vec<Option<f64>>>, usize> {
    if rows.len() != 3 * gpus {
        return Err(rows.len());
    }
    Ok(rows.split_off(2 * gpus))
}
