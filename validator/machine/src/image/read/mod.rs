//! Reads an image: its identity, its list, its files, the mounts. Everything goes through `Root`, so that an
//! unpacked image can be checked too.

use super::compare::{Difference, FoundFiles, FoundObject, compare};
use super::driver::{self, DriverImage, DriverMounts};
use super::list::{self, FileList};
use super::{Examined, IDENTITY_FILE, LIST, MADE_HERE};
use crate::host::identity::Appliance;
use crate::host::modules::absent_is_none;
use crate::root::Root;
use outcome::text::shown;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Maximum size of an image's list, bytes.
const LARGEST_LIST: usize = 8 << 20;
const MOUNTS: &str = "/proc/self/mountinfo";
/// More files than any image has.
const MOST: usize = 100_000;
/// Maximum depth of folders.
const DEEPEST: usize = 40;

/// Why it is unknown whether an image is golden.
#[derive(Debug, thiserror::Error)]
pub enum ExamineError {
    /// Something could not be read.
    #[error("{path}: cannot be read: {why}")]
    Unreadable {
        /// The path.
        path: String,
        /// The system's error.
        why: io::Error,
    },
    /// A file is invalid.
    #[error("{path}: {why}")]
    Invalid {
        /// The path.
        path: String,
        /// The error.
        why: String,
    },
}

fn unreadable(path: &str) -> impl FnOnce(io::Error) -> ExamineError {
    let path = shown(path);
    |why| ExamineError::Unreadable { path, why }
}

fn invalid(path: &str, why: &(impl ToString + ?Sized)) -> ExamineError {
    ExamineError::Invalid {
        path: path.to_owned(),
        why: shown(&why.to_string()),
    }
}

/// Checks the image in `root`; `None` if it is not a firstlight image.
///
/// # Errors
/// See [`ExamineError`]: the image then counts as not golden.
pub fn examine(root: &Root) -> Result<Option<Examined>, ExamineError> {
    let Some(bytes) =
        absent_is_none(root.read(IDENTITY_FILE)).map_err(unreadable(IDENTITY_FILE))?
    else {
        return Ok(None);
    };
    let appliance: Appliance =
        serde_json::from_slice(&bytes).map_err(|e| invalid(IDENTITY_FILE, &e))?;
    let Some(manifest) = appliance.manifest_sha256.clone() else {
        return Err(invalid(IDENTITY_FILE, "names no manifest_sha256"));
    };
    let mut differences = Vec::new();
    let mut list = listed(root, &manifest, &mut differences)?;
    let listed = list.len();
    let has_image = driver::split_off(&mut list);
    let mut tree = FoundFiles::new();
    walk(root, Path::new(""), 0, &mut tree)?;
    let seen = mounted(root)?;
    let (driver, foreign) = driver::judge(has_image, &seen);
    differences.extend(foreign);
    let at = Path::new(driver::MOUNT_POINT.trim_start_matches('/'));
    let empty = matches!(driver, DriverImage::NotMounted | DriverImage::None);
    if empty && root.exists(at).map_err(unreadable(driver::MOUNT_POINT))? {
        // If nothing is mounted there must be no files either, because links of the image lead there.
        walk(root, at, 0, &mut tree)?;
    }
    let mut bytes = 0;
    let found = compare(&list, &tree, |path| {
        let (sum, size) = sha256(root, path)?;
        bytes += size;
        Ok(sum)
    });
    differences.extend(found.map_err(|(path, why)| unreadable(&path)(why))?);
    Ok(Some(Examined {
        appliance,
        listed,
        bytes,
        driver,
        differences,
    }))
}

/// The list, which must have the hash that the image names.
fn listed(
    root: &Root,
    manifest: &str,
    differences: &mut Vec<Difference>,
) -> Result<FileList, ExamineError> {
    let mut text = Vec::new();
    let mut sum = Sha256::new();
    root.stream(LIST, |piece| {
        sum.update(piece);
        if text.len() <= LARGEST_LIST {
            text.extend_from_slice(piece);
        }
    })
    .map_err(unreadable(LIST))?;
    if text.len() > LARGEST_LIST {
        return Err(invalid(
            LIST,
            &format!("is larger than {LARGEST_LIST} bytes"),
        ));
    }
    let sum = hex(&sum.finalize());
    if sum != manifest {
        differences.push(Difference::changed(LIST, shown(manifest), sum));
    }
    let text = String::from_utf8(text).map_err(|_| invalid(LIST, "is not UTF-8"))?;
    list::parse(&text).map_err(|e| invalid(LIST, &e))
}

/// Everything below a folder of the image except files made at run time. A folder's path has no trailing
/// slash, so the root's is empty.
fn walk(
    root: &Root,
    folder: &Path,
    depth: usize,
    tree: &mut FoundFiles,
) -> Result<(), ExamineError> {
    let shown = format!("/{}", folder.display());
    if depth > DEEPEST || tree.len() > MOST {
        return Err(invalid(&shown, "more files or folders than an image has"));
    }
    for (name, kind) in root.entries(folder).map_err(unreadable(&shown))? {
        let place = folder.join(&name);
        let path = format!("/{}", place.display());
        let slash = if kind.is_dir() { "/" } else { "" };
        if MADE_HERE
            .iter()
            .any(|(made, _)| made.strip_suffix(slash) == Some(&path))
        {
            continue;
        }
        let found = if kind.is_dir() {
            walk(root, &place, depth + 1, tree)?;
            continue;
        } else if kind.is_symlink() {
            FoundObject::Link(
                root.link(&place)
                    .map_err(unreadable(&path))?
                    .display()
                    .to_string(),
            )
        } else if kind.is_file() {
            FoundObject::File
        } else {
            FoundObject::Special
        };
        tree.insert(path, found);
    }
    Ok(())
}

/// What is mounted at the place of the driver image. Only possible on a running machine.
fn mounted(root: &Root) -> Result<DriverMounts, ExamineError> {
    let text = match root.text(MOUNTS) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && !root.is_live() => {
            return Ok(DriverMounts::default());
        }
        text => text.map_err(unreadable(MOUNTS))?,
    };
    let mounts = driver::mounts(&text)
        .map_err(|line| invalid(MOUNTS, &format!("not understood: {line}")))?;
    let Some(first) = mounts.first() else {
        return Ok(DriverMounts::default());
    };
    let (major, minor) = first.device;
    let device = absent_is_none(root.file_system(driver::MOUNT_POINT))
        .map_err(unreadable(driver::MOUNT_POINT))?;
    let backing = backing(root, &format!("/sys/dev/block/{major}:{minor}/loop"))?;
    Ok(DriverMounts {
        mounts,
        device,
        backing,
    })
}

/// The file behind a loop device, with the device's offset and size in it (0: all).
fn backing(root: &Root, device: &str) -> Result<Option<(String, u64, u64)>, ExamineError> {
    let path = |name: &str| format!("{device}/{name}");
    let text = |name: &str| root.text(path(name)).map_err(unreadable(&path(name)));
    let number = |name: &str| text(name)?.parse().map_err(|e| invalid(&path(name), &e));
    if !root.exists(device).map_err(unreadable(device))? {
        return Ok(None);
    }
    Ok(Some((
        text("backing_file")?,
        number("offset")?,
        number("sizelimit")?,
    )))
}

fn sha256(root: &Root, path: &str) -> io::Result<(String, u64)> {
    let (mut sum, mut size) = (Sha256::new(), 0);
    root.stream(path, |piece| {
        sum.update(piece);
        size += piece.len() as u64;
    })?;
    Ok((hex(&sum.finalize()), size))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests;
