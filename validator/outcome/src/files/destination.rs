//! Resolves a path from the user: through links to the actual file, and detects this process's own standard
//! output under any of its names. Reads links and writes nothing.

use crate::files::folder_of;
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Maximum number of links, as in Linux.
const LINKS: usize = 40;

/// The file that `path` leads to, whether it exists yet or not. An open descriptor (`/proc/self/fd/3`) is not
/// resolved further, because its link does not show the actual file.
///
/// # Errors
/// If the folder does not exist, or links form a loop.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let name = path
            .file_name()
            .ok_or(ErrorKind::InvalidFilename)?
            .to_owned();
        let folder = fs::canonicalize(folder_of(&path))?;
        let here = folder.join(name);
        match fs::read_link(&here) {
            Ok(next) if !is_descriptor(&here) => path = folder.join(next),
            _ => return Ok(here),
        }
    }
    Err(Errno::LOOP.into())
}

/// Whether a path is an open descriptor.
#[must_use]
pub fn is_descriptor(end: &Path) -> bool {
    end.starts_with("/proc") && end.parent().is_some_and(|folder| folder.ends_with("fd"))
}

/// Whether `path` is this process's own standard output, as `/dev/stdout` is.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    let own = format!("/proc/{}/fd/1", std::process::id());
    resolve(path).is_ok_and(|end| end == Path::new(&own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_existing_and_missing_files() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/file"), "").unwrap();
        symlink("sub/file", dir.join("one")).unwrap();
        symlink(dir.join("one"), dir.join("two")).unwrap();
        symlink("sub/new", dir.join("dangling")).unwrap();
        for (path, end) in [
            ("sub/file", "sub/file"),
            ("two", "sub/file"),
            ("dangling", "sub/new"),
            ("x", "x"),
        ] {
            assert_eq!(resolve(&dir.join(path)).unwrap(), dir.join(end));
        }
    }

    #[test]
    fn a_loop_a_missing_folder_and_an_empty_name_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        for bad in [
            dir.path().join("loop"),
            dir.path().join("none/file"),
            PathBuf::from("/"),
            PathBuf::new(),
        ] {
            assert!(resolve(&bad).is_err(), "{}", bad.display());
        }
    }

    #[test]
    fn only_standard_output_is_recognized_under_all_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("stdout");
        symlink("/proc/self/fd/1", &link).unwrap();
        for own in [&link, Path::new("/proc/self/fd/1")] {
            assert!(
                is_stdout(own) && is_descriptor(&resolve(own).unwrap()),
                "{}",
                own.display()
            );
        }
        for other in ["/proc/self/fd/2", "/dev/null", "/proc/1/fd/1", "fd/1"] {
            assert!(!is_stdout(Path::new(other)), "{other}");
        }
    }
}
