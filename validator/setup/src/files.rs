//! The files that setup writes, copies, compares and removes; the only part of it that does. Every path leads through the
//! root, so that nothing outside it is reached.

use crate::{SetupError, SetupResult};
use machine::root::Root;
use outcome::files::atomic::AtomicFile;
use rustix::fs::FileType;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// What a build leaves in a source: objects of another compiler would be mistaken for our own.
const BUILT: [&str; 6] = [".o", ".ko", ".mod", ".mod.c", ".cmd", ".o_binary"];
/// The same, by whole names.
const BUILT_NAMES: [&str; 5] = [
    "_out",
    "conftest",
    ".git",
    "Module.symvers",
    "modules.order",
];

fn place(root: &Root, path: &str) -> SetupResult<PathBuf> {
    root.place(path).map_err(|e| SetupError::at(path, &e))
}

/// Replaces or makes a file with this text, and waits until it is on the disk. An existing file keeps its owner and its
/// permissions, a new one gets `mode`.
///
/// # Errors
/// One line; the old file is then unchanged.
pub fn write(root: &Root, path: &str, text: &str, mode: u32) -> SetupResult<()> {
    let at = place(root, path)?;
    write_at(&at, text, mode).map_err(|e| SetupError::at(path, &e))
}

fn write_at(at: &Path, text: &str, mode: u32) -> io::Result<()> {
    let folder = at.parent().unwrap_or_else(|| Path::new("/"));
    fs::create_dir_all(folder)?;
    let before = fs::metadata(at).ok();
    let mut file = AtomicFile::at(at)?;
    file.write_all(text.as_bytes())?;
    file.replace()?;
    if let Some(before) = &before {
        chown(at, Some(before.uid()), Some(before.gid()))?;
    }
    fs::set_permissions(
        at,
        Permissions::from_mode(before.map_or(mode, |before| before.mode() & 0o7777)),
    )?;
    File::open(folder)?.sync_all()
}

/// The folders above a path that do not exist yet, the uppermost first.
///
/// # Errors
/// One line.
pub fn missing_folders(root: &Root, path: &str) -> SetupResult<Vec<String>> {
    let mut missing = Vec::new();
    let mut folder = Path::new(path).parent();
    while let Some(here) = folder.filter(|here| !here.as_os_str().is_empty()) {
        if root
            .exists(here)
            .map_err(|e| SetupError::at(&here.display().to_string(), &e))?
        {
            break;
        }
        missing.insert(0, here.display().to_string());
        folder = here.parent();
    }
    Ok(missing)
}

/// Removes a file, and then those of `folders` that are empty, the last first.
///
/// # Errors
/// One line, if the file cannot be removed.
pub fn remove(root: &Root, path: &str, folders: &[String]) -> SetupResult<()> {
    root.remove(path).map_err(|e| SetupError::at(path, &e))?;
    for folder in folders.iter().rev() {
        // Others may have put something there.
        if place(root, folder)
            .and_then(|at| fs::remove_dir(at).map_err(|e| SetupError::at(folder, &e)))
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

/// Copies a source without what a build left in it to `to`, which must not exist.
///
/// # Errors
/// One line.
pub fn copy_source(root: &Root, from: &Path, to: &str) -> SetupResult<()> {
    let at = place(root, to)?;
    if at.exists() {
        return Err(SetupError::at(
            to,
            &"exists already; it is not from this run",
        ));
    }
    copy(from, &at).map_err(|e| SetupError::at(to, &e))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if BUILT_NAMES.contains(&&*text)
            || BUILT.iter().any(|ending| text.ends_with(ending))
            || text.starts_with(".tmp")
        {
            continue;
        }
        let (kind, target) = (entry.file_type()?, to.join(&name));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The SHA-256 of each file in a folder of the root, by its path there; of a link, of what it says.
///
/// # Errors
/// One line.
pub fn hashes(root: &Root, folder: &str) -> SetupResult<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    add_hashes(root, folder, "", &mut all)?;
    Ok(all)
}

fn add_hashes(
    root: &Root,
    folder: &str,
    inside: &str,
    all: &mut BTreeMap<String, String>,
) -> SetupResult<()> {
    let here = format!("{folder}/{inside}");
    let wrong = |e: io::Error| SetupError::at(&here, &e);
    for (name, kind) in root.entries(here.trim_end_matches('/')).map_err(wrong)? {
        let name = name.to_string_lossy().into_owned();
        let inside = if inside.is_empty() {
            name
        } else {
            format!("{inside}/{name}")
        };
        let path = format!("{folder}/{inside}");
        let mut hash = Sha256::new();
        match kind {
            FileType::Directory => {
                add_hashes(root, folder, &inside, all)?;
                continue;
            }
            FileType::Symlink => hash.update(
                root.link(&path)
                    .map_err(wrong)?
                    .as_os_str()
                    .as_encoded_bytes(),
            ),
            _ => root
                .stream(&path, |piece| hash.update(piece))
                .map_err(wrong)?,
        }
        let mut text = String::new();
        for byte in hash.finalize() {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        all.insert(inside, text);
    }
    Ok(())
}

/// Removes a folder with all that is in it; one that does not exist is removed already.
///
/// # Errors
/// One line.
pub fn remove_tree(root: &Root, folder: &str) -> SetupResult<()> {
    match fs::remove_dir_all(place(root, folder)?) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(SetupError::at(folder, &e)),
        _ => Ok(()),
    }
}
