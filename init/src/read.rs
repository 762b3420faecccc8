//! Files that are read whole, unless they are larger than anything that belongs there.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// As the system says; a larger file is one too.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_at_most(&path, 4).unwrap(), b"four");
        assert_eq!(read_at_most(&path, 3).unwrap_err().to_string(), "larger than 3 bytes");
    }
}
