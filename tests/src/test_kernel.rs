//! Debian's own kernel of the version that ours is built from, for questions that ours cannot answer: it can
//! be locked down. It is a locked package of use `test-kernel`, downloaded once into the cache.

use crate::error::Result;
use crate::image::workspace;
use crate::program::output;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fetches it and puts the kernel into `dir`.
///
/// # Errors
/// When it cannot be fetched or unpacked.
pub fn fetch(dir: &Path) -> Result<PathBuf> {
    let script = "set -euo pipefail; source \"$1/image/lib/common.sh\"
exec 9> \"$CACHE/test-kernel.lock\"; flock 9   # tests run side by side
\"$1/image/fetch.sh\" test-kernel
read -r name version arch _ < <(locked test-kernel)
dpkg-deb --fsys-tarfile \"$(deb_path \"$name\" \"$version\" \"$arch\")\" |
    tar -x -C \"$2\" --wildcards --transform 's,.*/,,' './boot/vmlinuz-*'
ls \"$2\"/vmlinuz-*";
    let mut unpack = Command::new("bash");
    let path = output(unpack.args(["-c", script, "image/test-kernel"]).arg(workspace()).arg(dir))?;
    Ok(PathBuf::from(path.trim()))
}
