//! The matrix: faults and healthy machines by the hundred, made from tables in `tests/simgpu/matrix`, each judged
//! by the program that ships. Says how often a fault passed (false PASS), how often a healthy machine did not
//! (false FAIL), and what each level rules out. A new kind of fault is one `[[class]]` in one of those tables.

mod case;
mod class;
mod healthy;
mod place;
mod run;
mod table;

pub use case::{Case, Chosen, Subject, cases};
pub use class::{Claim, Class, LEVELS};
pub use healthy::Healthy;
pub use run::{Mark, Said, at_a_time, run};
pub use table::{Counts, counts, page, table};

use crate::error::Result;
use crate::simgpu::scenario::{folder, read};
use std::fs;
use std::path::PathBuf;
use toml::{Table, Value};

/// How many GPUs the faults are tried with.
pub const GPUS: [usize; 5] = [2, 3, 5, 8, 16];

/// The tables `[[NAME]]` of all files of `tests/simgpu/matrix`, each with its file's name.
fn tables(name: &str) -> Result<Vec<(String, Table)>> {
    let folder = folder("matrix");
    let entries = fs::read_dir(&folder).map_err(crate::Error::file("read", &folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let listed = read(&file)?.remove(name);
        let listed = listed.and_then(|v| v.try_into::<Vec<Table>>().ok()).unwrap_or_default();
        all.extend(listed.into_iter().map(|table| (stem.clone(), table)));
    }
    Ok(all)
}

/// A key that holds text.
fn text(table: &Table, key: &str) -> Option<String> {
    table.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// A key that holds a list of words.
fn words(table: &Table, key: &str) -> Vec<String> {
    let listed = table.get(key).and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(|v| Some(v.as_str()?.to_owned())).collect()
}

/// A key that holds a whole number.
fn number(table: &Table, key: &str) -> Option<usize> {
    table.get(key).and_then(Value::as_integer).and_then(|n| usize::try_from(n).ok())
}

#[cfg(test)]
mod tests;
