//! Saved outputs of other programs in a folder: `p2pBandwidthLatencyTest.txt` (its standard output)
//! and `nvbandwidth.json` (`nvbandwidth -j`), with our names on their matrices.

pub mod nvbandwidth;
pub mod sample;

use super::Grid;
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

/// From a saved output to the number of GPUs and the matrices.
type Parse = fn(&str) -> Result<(usize, Vec<Grid>), String>;

const FILES: [(&str, Parse); 2] =
    [("p2pBandwidthLatencyTest.txt", sample::parse), ("nvbandwidth.json", nvbandwidth::parse)];

/// Every saved output of `folder`.
///
/// # Errors
/// When it holds none, or one that cannot be read or understood.
pub fn read(folder: &Path) -> Result<Vec<Peer>, String> {
    let mut peers = Vec::new();
    for (name, parse) in FILES {
        let path = folder.join(name);
        let here = |why: String| format!("{}: {why}", path.display());
        match fs::read_to_string(&path) {
            Ok(text) => {
                let (gpus, grids) = parse(&text).map_err(here)?;
                peers.push(Peer { path, gpus, grids });
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(here(e.to_string())),
        }
    }
    if peers.is_empty() {
        let names = FILES.map(|(name, _)| name).join(" or ");
        return Err(format!("{}: holds no {names}", folder.display()));
    }
    Ok(peers)
}
