//! Reads a user-supplied file, with a size cap: an endless device must not fill the memory.

use crate::text::size::size;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The content of a file of at most `largest` bytes.
///
/// # Errors
/// One line without the file's name.
pub(crate) fn read(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let unread = |e: std::io::Error| format!("cannot be read: {e}");
    let mut bytes = Vec::new();
    File::open(path).map_err(unread)?.take(largest + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > largest { Err(format!("larger than {}", size(largest))) } else { Ok(bytes) }
}
