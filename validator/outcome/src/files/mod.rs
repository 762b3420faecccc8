//! Files that the user names on the command line or in the configuration.

pub mod atomic;
pub mod destination;

use crate::text::size;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The content of a file of at most `largest` bytes: an endless device must not fill the memory.
///
/// # Errors
/// One line without the file's name.
pub fn read(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    content(File::open(path).map_err(|e| unread(&e))?, largest)
}

/// As [`read`], for an open file.
///
/// # Errors
/// As [`read`].
pub fn content(file: File, largest: u64) -> Result<Vec<u8>, String> {
    limited(file, largest)
}

/// As [`read`], for anything that can be read.
///
/// # Errors
/// As [`read`].
pub fn limited(from: impl Read, largest: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(largest + 1).read_to_end(&mut bytes).map_err(|e| unread(&e))?;
    if bytes.len() as u64 > largest { Err(format!("larger than {}", size(largest))) } else { Ok(bytes) }
}

fn unread(error: &std::io::Error) -> String {
    format!("cannot be read: {error}")
}
