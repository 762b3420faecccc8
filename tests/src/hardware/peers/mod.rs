//! Saved outputs of other programs in a folder: `p2pBandwidthLatencyTest.txt` (its standard output)
//! and `nvbandwidth.json` (`nvbandwidth -j`), with our names on their matrices; and nccl-tests' tables, as
//! `all_reduce_perf.txt` and the like, `all_reduce_perf.NCCL_P2P_DISABLE.txt` for the one without peer-to-peer.

pub mod nvbandwidth;
pub mod sample;

use super::Grid;
use super::nccl::{Asked, Theirs, table};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// One saved output.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// The file.
    pub path: PathBuf,
    /// How many GPUs the program saw.
    pub gpus: usize,
    /// What it measured that we measure too.
    pub grids: Vec<Grid>,
}

/// All of a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Peers {
    /// Those that measured matrices.
    pub matrices: Vec<Peer>,
    /// nccl-tests' tables, in our order of collectives.
    pub sweeps: Vec<Theirs>,
}

/// From a saved output to the number of GPUs and the matrices.
type Parse = fn(&str) -> Result<(usize, Vec<Grid>), String>;

const FILES: [(&str, Parse); 2] =
    [("p2pBandwidthLatencyTest.txt", sample::parse), ("nvbandwidth.json", nvbandwidth::parse)];

/// Every saved output of `folder`.
///
/// # Errors
/// When it holds none, or one that cannot be read or understood.
pub fn read(folder: &Path) -> Result<Peers, String> {
    let mut peers = Peers::default();
    for (name, parse) in FILES {
        if let Some((path, (gpus, grids))) = saved(folder, name, parse)? {
            peers.matrices.push(Peer { path, gpus, grids });
        }
    }
    for asked in Asked::all() {
        let table = saved(folder, &asked.their_file(), |text| table::parse(text, asked.collective))?;
        peers.sweeps.extend(table.map(|(path, sweep)| Theirs { path, asked, sweep }));
    }
    if peers.matrices.is_empty() && peers.sweeps.is_empty() {
        let names = FILES.map(|(name, _)| name).join(", ");
        return Err(format!("{}: holds none of {names}, all_reduce_perf.txt ..", folder.display()));
    }
    Ok(peers)
}

/// A file of the folder and what it says; `None` when it is not there.
fn saved<T>(
    folder: &Path,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<(PathBuf, T)>, String> {
    let path = folder.join(name);
    let here = |why: String| format!("{}: {why}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(here).map(|said| Some((path, said))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(here(e.to_string())),
    }
}
