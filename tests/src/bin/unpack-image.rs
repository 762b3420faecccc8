//! `unpack-image DIR`: writes the shipped image's root into a folder, without the driver that it carries,
//! so that the shipped init can be started over it on a machine that has a driver of its own
//! (tests/hardware/whole-line.sh).

use harness::Image;
use harness::archive::Entry;
use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let to = std::env::args().nth(1).ok_or("unpack-image: which folder?")?;
    let to = Path::new(&to);
    fs::create_dir(to).map_err(|e| format!("{}: {e}; it must not be there yet", to.display()))?;
    let entries = Image::shipped().files()?;
    for entry in entries.iter().filter(|e| !e.path.ends_with(".squashfs")) {
        write(to, entry).map_err(|e| format!("{}: {e}", entry.path))?;
    }
    println!("{}: {} files of the shipped image", to.display(), entries.len());
    Ok(())
}

fn write(to: &Path, entry: &Entry) -> Result<(), Box<dyn Error>> {
    let path = to.join(&entry.path);
    if let Some(target) = entry.target() {
        return Ok(symlink(target, path)?);
    }
    if entry.is_file() {
        fs::write(&path, &entry.data)?;
    } else if entry.mode & 0o170_000 == 0o040_000 {
        fs::create_dir_all(&path)?;
    } else {
        // Device nodes: the kernel's own /dev is mounted over them.
        return Ok(());
    }
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode & 0o7777))?)
}
