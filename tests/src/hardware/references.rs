//! Saved outputs of other programs in a folder: `p2pBandwidthLatencyTest.txt` (its standard output)
//! and `nvbandwidth.json` (`nvbandwidth -j`), with our names on their matrices; and nccl-tests' standard
//! outputs one after the other, in `nccl-tests.txt` and, without peer-to-peer, in `nccl-tests.NCCL_P2P_DISABLE.txt`.

use super::Grid;
use super::nccl::{NcclRun, ReferenceTable, table};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A saved output of another program, with which ours is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The file.
    pub path: PathBuf,
    /// Number of GPUs that the program saw.
    pub gpus: usize,
    /// The matrices that we measure too.
    pub grids: Vec<Grid>,
}

/// All saved outputs in a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct References {
    /// The outputs with matrices.
    pub matrices: Vec<Reference>,
    /// nccl-tests' tables, in our order of collectives.
    pub sweeps: Vec<ReferenceTable>,
}

/// Parses a saved output into the number of GPUs and the matrices.
type Parse = fn(&str) -> Result<(usize, Vec<Grid>), String>;

const FILES: [(&str, Parse); 2] = [
    ("p2pBandwidthLatencyTest.txt", parse_sample),
    ("nvbandwidth.json", parse_nvbandwidth),
];

/// Every saved output of `folder`.
///
/// # Errors
/// If it contains none, or one that cannot be read or parsed.
pub fn read(folder: &Path) -> Result<References, String> {
    let mut references = References::default();
    for (name, parse) in FILES {
        if let Some((path, (gpus, grids))) = saved(folder, name, parse)? {
            references.matrices.push(Reference { path, gpus, grids });
        }
    }
    for without_p2p in [false, true] {
        let tables = saved(folder, NcclRun::their_file(without_p2p), table::parse_all)?;
        let (path, tables) = tables.unwrap_or_default();
        references.sweeps.extend(
            tables
                .into_iter()
                .map(|(collective, sweep)| ReferenceTable {
                    path: path.clone(),
                    run: NcclRun {
                        collective,
                        without_p2p,
                    },
                    sweep,
                }),
        );
    }
    let order = NcclRun::all();
    references
        .sweeps
        .sort_by_key(|theirs| order.iter().position(|run| *run == theirs.run));
    if references.matrices.is_empty() && references.sweeps.is_empty() {
        let names = FILES.map(|(name, _)| name).join(", ");
        return Err(format!(
            "{}: holds none of {names}, nccl-tests.txt",
            folder.display()
        ));
    }
    Ok(references)
}

/// A file of the folder, parsed; `None` if it is missing.
fn saved<T>(
    folder: &Path,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<(PathBuf, T)>, String> {
    let path = folder.join(name);
    let here = |why: String| format!("{}: {why}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text)
            .map_err(here)
            .map(|parsed| Some((path, parsed))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(here(e.to_string())),
    }
}

/// nvbandwidth's tests and our names for them; rows and columns mean the same in both.
const NVBANDWIDTH: [(&str, &str); 16] = [
    ("device_to_device_memcpy_read_ce", "ce.read"),
    ("device_to_device_memcpy_write_ce", "ce.write"),
    (
        "device_to_device_bidirectional_memcpy_read_ce",
        "ce.bi.read",
    ),
    (
        "device_to_device_bidirectional_memcpy_write_ce",
        "ce.bi.write",
    ),
    ("device_to_device_memcpy_read_sm", "sm.read"),
    ("device_to_device_memcpy_write_sm", "sm.write"),
    (
        "device_to_device_bidirectional_memcpy_read_sm",
        "sm.bi.read",
    ),
    (
        "device_to_device_bidirectional_memcpy_write_sm",
        "sm.bi.write",
    ),
    ("host_to_device_memcpy_ce", "host.to.ce"),
    ("device_to_host_memcpy_ce", "host.from.ce"),
    ("host_to_device_bidirectional_memcpy_ce", "host.bi.to.ce"),
    ("device_to_host_bidirectional_memcpy_ce", "host.bi.from.ce"),
    ("host_to_all_memcpy_ce", "host.to.all.ce"),
    ("all_to_host_memcpy_ce", "host.from.all.ce"),
    ("device_local_copy", "local"),
    ("device_to_device_latency_sm", "chase"),
];

/// Parses the JSON of nvbandwidth 0.8. Its cells are strings, `N/A` where there is no pair. A test between two GPUs in both
/// directions prints three matrices one below the other: the row's traffic, the column's, and their total, which is the one
/// that we measure.
///
/// Returns the number of GPUs, and the matrices that we measure too; tests that did not run or did not pass there are
/// omitted.
///
/// # Errors
/// What is missing or invalid.
pub fn parse_nvbandwidth(text: &str) -> Result<(usize, Vec<Grid>), String> {
    let all: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let all = &all["nvbandwidth"];
    let gpus = all["GPU Device list"]
        .as_array()
        .ok_or("there is no nvbandwidth.\"GPU Device list\"")?
        .len();
    let tests = all["testcases"]
        .as_array()
        .ok_or("there is no nvbandwidth.testcases")?;
    let mut grids = Vec::new();
    for (their_name, ours) in NVBANDWIDTH {
        let Some(test) = tests
            .iter()
            .find(|t| t["name"] == their_name && t["status"] == "Passed")
        else {
            continue;
        };
        let values = nvbandwidth_matrix(test)
            .ok_or_else(|| format!("{their_name}: bandwidth_matrix is no matrix"))?;
        let values = if their_name.starts_with("device_to_device_bidirectional") {
            total(values, gpus)
                .map_err(|rows| format!("{their_name}: {rows} rows, expected three times {gpus}"))?
        } else {
            values
        };
        grids.push(Grid {
            name: ours.to_owned(),
            values,
        });
    }
    Ok((gpus, grids))
}

fn nvbandwidth_matrix(test: &Value) -> Option<Vec<Vec<Option<f64>>>> {
    let row = |row: &Value| {
        row.as_array()?
            .iter()
            .map(|c| cell(c.as_str()?))
            .collect::<Option<Vec<_>>>()
    };
    test["bandwidth_matrix"]
        .as_array()?
        .iter()
        .map(row)
        .collect()
}

/// The last third of the rows.
fn total(mut rows: Vec<Vec<Option<f64>>>, gpus: usize) -> Result<Vec<Vec<Option<f64>>>, usize> {
    if rows.len() != 3 * gpus {
        return Err(rows.len());
    }
    Ok(rows.split_off(2 * gpus))
}

/// Titles of p2pBandwidthLatencyTest and our names for them; if there are two names, the second is for the processor's
/// clock.
const SAMPLE: [(&str, &str, Option<&str>); 6] = [
    (
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
        "sample.uni.off",
        None,
    ),
    (
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
        "sample.uni.on",
        None,
    ),
    (
        "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
        "sample.bi.off",
        None,
    ),
    (
        "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
        "sample.bi.on",
        None,
    ),
    (
        "P2P=Disabled Latency Matrix (us)",
        "sample.latency.off.gpu",
        Some("sample.latency.off.cpu"),
    ),
    (
        "P2P=Enabled Latency (P2P Writes) Matrix (us)",
        "sample.latency.on.gpu",
        Some("sample.latency.on.cpu"),
    ),
];

/// Parses the standard output of p2pBandwidthLatencyTest. A matrix is a title, a line of column numbers after `D\D`, `GPU`
/// or `CPU`, and a row per GPU; the two latency titles have a matrix by the GPU's clock and one by the processor's.
///
/// Returns the number of GPUs and all matrices.
///
/// # Errors
/// What is missing or invalid.
pub fn parse_sample(text: &str) -> Result<(usize, Vec<Grid>), String> {
    let gpus = text.lines().filter(|l| l.starts_with("Device: ")).count();
    let mut grids = Vec::new();
    for (title, gpu, cpu) in SAMPLE {
        let corner = if cpu.is_some() { "GPU" } else { "D\\D" };
        grids.push(Grid {
            name: gpu.to_owned(),
            values: sample_matrix(text, title, corner, gpus)?,
        });
        if let Some(cpu) = cpu {
            grids.push(Grid {
                name: cpu.to_owned(),
                values: sample_matrix(text, title, "CPU", gpus)?,
            });
        }
    }
    Ok((gpus, grids))
}

fn sample_matrix(
    text: &str,
    title: &str,
    corner: &str,
    gpus: usize,
) -> Result<Vec<Vec<Option<f64>>>, String> {
    let mut lines = text.lines().skip_while(|l| *l != title);
    lines
        .next()
        .ok_or_else(|| format!("there is no \"{title}\""))?;
    let heads = |l: &&str| l.split_whitespace().next() == Some(corner);
    let mut lines = lines.skip_while(|l| !heads(l));
    let head = lines
        .next()
        .ok_or_else(|| format!("\"{title}\" has no line of {corner}"))?;
    if head.split_whitespace().count() != gpus + 1 {
        return Err(format!(
            "\"{title}\": read {head:?}, expected {gpus} columns"
        ));
    }
    let mut rows = Vec::new();
    for n in 0..gpus {
        let line = lines
            .next()
            .ok_or_else(|| format!("\"{title}\" ends after {n} of {gpus} rows"))?;
        rows.push(
            row(line, n, gpus).ok_or_else(|| format!("\"{title}\": row {n} reads {line:?}"))?,
        );
    }
    Ok(rows)
}

fn row(line: &str, n: usize, gpus: usize) -> Option<Vec<Option<f64>>> {
    let mut words = line.split_whitespace();
    let number: usize = words.next()?.parse().ok()?;
    let cells = words.map(cell).collect::<Option<Vec<_>>>()?;
    (number == n && cells.len() == gpus).then_some(cells)
}

/// `None` if the word is not a cell.
fn cell(word: &str) -> Option<Option<f64>> {
    if word == "N/A" {
        return Some(None);
    }
    word.parse().ok().filter(|f: &f64| f.is_finite()).map(Some)
}
