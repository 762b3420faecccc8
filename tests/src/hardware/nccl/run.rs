//! One run of `firstlight nccl` on this machine, for its JSON, or the JSON of an earlier one.

use super::Asked;
use crate::error::{Error, Result};
use crate::hardware::run::{Folder, firstlight, read};
use crate::hardware::words::Words;
use std::io;
use std::process::Stdio;

/// The sizes of the tables that peers print by guides: 8 B to 128 MiB by factor 2.
const SIZES: [&str; 6] = ["-b", "8", "-e", "128M", "-f", "2"];

/// The JSON of what is asked for.
///
/// # Errors
/// When the program is not built, did not start, or left no JSON.
pub fn sweep(words: &Words, asked: &Asked, into: &Folder) -> Result<String> {
    let name = asked.our_file();
    if let Some(folder) = &words.nccl {
        return read(&folder.join(name));
    }
    let (path, mut command) = (into.fresh(&name)?, firstlight(words)?);
    command.args(["nccl", asked.collective]).args(SIZES);
    if asked.without_p2p {
        command.args(["--p2p", "off"]);
    }
    command.arg("-J").arg(&path).stdin(Stdio::null()).stdout(io::stderr());
    let program = format!("firstlight nccl {}", asked.name());
    let failed = |why: String| Error::Program { program: program.clone(), why };
    let status = command.status().map_err(|e| failed(e.to_string()))?;
    // Wrong elements end it with another status, and stand in the JSON too.
    if !path.is_file() {
        return Err(failed(format!("{status}, and it wrote no JSON")));
    }
    match status.code() {
        Some(0..=3) => read(&path),
        _ => Err(failed(status.to_string())),
    }
}
