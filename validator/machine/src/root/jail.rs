//! Resolves names below a root only. A link in a recorded machine resolves inside the recording, as it did
//! inside the machine: neither an absolute link nor one with many `..` leads out of it.

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, openat, openat2, readlinkat,
    statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links, as in Linux.
const LINKS: usize = 40;
/// The kernel returns this if something was renamed during the lookup.
const TRIES: usize = 64;

/// Opens `rel` below `root`.
pub(super) fn open(root: &Path, rel: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let rel = rel.strip_prefix("/").unwrap_or(rel);
    let rel = if rel.as_os_str().is_empty() {
        Path::new(".")
    } else {
        rel
    };
    if is_live(root) {
        return Ok(openat(CWD, root.join(rel), flags, Mode::empty())?);
    }
    let top = openat(
        CWD,
        root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    for _ in 0..TRIES {
        match openat2(&top, rel, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) => {}
            // Available since Linux 5.6.
            Err(Errno::NOSYS) => return open_resolved(root, rel, flags),
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Like `openat2`, in two steps: links are resolved here, and the kernel follows none at the end.
fn open_resolved(root: &Path, rel: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let place = match rel.file_name().filter(|_| flags.contains(OFlags::NOFOLLOW)) {
        Some(name) => resolved(root, rel.parent().unwrap_or_else(|| Path::new("")))?.join(name),
        None => resolved(root, rel)?,
    };
    Ok(openat(
        CWD,
        root.join(place),
        flags | OFlags::NOFOLLOW,
        Mode::empty(),
    )?)
}

/// The running machine has nothing outside its root.
pub(super) fn is_live(root: &Path) -> bool {
    root == Path::new("/")
}

/// The folder of `rel`, and its name there: for accesses that must not follow a link at the end.
fn parent<'a>(root: &Path, rel: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = rel.file_name().ok_or(ErrorKind::InvalidInput)?;
    let folder = rel.parent().unwrap_or_else(|| Path::new(""));
    Ok((open(root, folder, OFlags::PATH | OFlags::DIRECTORY)?, name))
}

/// The target of a link.
pub(super) fn link(root: &Path, rel: &Path) -> io::Result<PathBuf> {
    let (folder, name) = parent(root, rel)?;
    let target = readlinkat(folder, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

/// The type of `rel`, without following a link.
pub(super) fn stat(root: &Path, rel: &Path) -> io::Result<Stat> {
    if rel.file_name().is_none() {
        return Ok(rustix::fs::fstat(open(root, rel, OFlags::PATH)?)?);
    }
    let (folder, name) = parent(root, rel)?;
    Ok(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Removes a file or link.
pub(super) fn remove(root: &Path, rel: &Path) -> io::Result<()> {
    let (folder, name) = parent(root, rel)?;
    Ok(unlinkat(folder, name, AtFlags::empty())?)
}

/// Every name in a folder except `.` and `..`, with its type; unordered.
pub(super) fn entries(root: &Path, rel: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let folder = open(root, rel, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        entries.push((name, kind));
    }
    Ok(entries)
}

/// The path below `root` to which `rel` leads with every link resolved. A component that does not exist yet
/// is kept as it is.
pub(super) fn resolved(root: &Path, rel: &Path) -> io::Result<PathBuf> {
    let mut left: Vec<OsString> = names(rel);
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        match fs::read_link(root.join(&at).join(&name)) {
            Ok(target) => {
                links += 1;
                if links > LINKS {
                    return Err(Errno::LOOP.into());
                }
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                left.extend(names(&target));
            }
            Err(_) => at.push(name),
        }
    }
    Ok(at)
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |part: Component| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A root next to a folder that must be unreachable from it.
    fn outside() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/in")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/file"), "precious").unwrap();
        fs::write(dir.path().join("root/in/file"), "recorded").unwrap();
        dir
    }

    #[test]
    fn absolute_and_outward_links_stay_inside_the_root() {
        let dir = outside();
        let root = dir.path().join("root");
        symlink(dir.path().join("out/file"), root.join("whole")).unwrap();
        symlink("../../out/file", root.join("in/up")).unwrap();
        symlink(dir.path().join("out"), root.join("folder")).unwrap();
        symlink("/in/file", root.join("inside")).unwrap();
        for lost in [
            "whole",
            "in/up",
            "folder/file",
            "../out/file",
            "in/../../out/file",
        ] {
            for open in [open, open_resolved] {
                let error = open(&root, Path::new(lost), OFlags::RDONLY).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotFound, "{lost}");
            }
        }
        let inside = open_resolved(&root, Path::new("inside"), OFlags::RDONLY);
        assert!(inside.is_ok());
        let itself = open_resolved(
            &root,
            Path::new("inside"),
            OFlags::RDONLY | OFlags::NOFOLLOW,
        );
        assert!(itself.is_err(), "a link is not opened");
        assert!(open(&root, Path::new("/inside"), OFlags::RDONLY).is_ok());
        assert_eq!(
            resolved(&root, Path::new("/inside")).unwrap(),
            Path::new("in/file")
        );
        let out = dir.path().join("out").strip_prefix("/").unwrap().to_owned();
        assert_eq!(
            resolved(&root, Path::new("folder/file")).unwrap(),
            out.join("file")
        );
        assert_eq!(
            resolved(&root, Path::new("in/up")).unwrap(),
            Path::new("out/file")
        );
        assert!(entries(&root, Path::new("folder")).is_err());
        assert!(
            remove(&root, Path::new("folder/file")).is_err()
                && dir.path().join("out/file").exists()
        );
        assert!(
            stat(&root, Path::new("folder/file")).is_err()
                && link(&root, Path::new("folder/x")).is_err()
        );
    }

    #[test]
    fn non_links_and_looping_links_are_errors() {
        let dir = outside();
        let root = dir.path().join("root");
        symlink("round", root.join("round")).unwrap();
        assert_eq!(
            link(&root, Path::new("in/file")).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(link(&root, Path::new("round")).unwrap(), Path::new("round"));
        assert!(resolved(&root, Path::new("round")).is_err());
        assert!(open(&root, Path::new("round"), OFlags::RDONLY).is_err());
    }
}
