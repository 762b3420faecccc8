//! The path at which the loader would find a library of the driver, and the version in its file's name.

use super::version::is_version;
use super::{ReadResult, at};
use crate::root::Root;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Folders that are searched after those of `validate.library_path`: the appliance's, then those
/// of the distributions and of container runtimes.
const USUAL: &[&str] = &[
    "run/firstlight/driver/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib64",
    "usr/local/nvidia/lib64",
    "run/opengl-driver/lib",
];
/// Maximum number of chained links: more than any distribution uses.
const MOST_LINKS: usize = 16;

/// One library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its path.
    pub path: String,
    /// The version in the name of the file that the path leads to; `None` if the name has none.
    pub version: Option<String>,
}

/// The first `name` (e.g. `libcuda.so.1`) in `first` and then the usual folders.
///
/// # Errors
/// A folder or link that cannot be read, or a dangling link.
pub fn find(root: &Root, first: &[String], name: &str) -> ReadResult<Option<Library>> {
    for folder in first
        .iter()
        .map(String::as_str)
        .chain(USUAL.iter().copied())
    {
        let path = Path::new(folder.trim_start_matches('/')).join(name);
        match resolve_links(root, &path) {
            Ok(Some(file)) => {
                let version = version(&file, name).map(str::to_owned);
                return Ok(Some(Library {
                    path: format!("/{}", path.display()),
                    version,
                }));
            }
            Ok(None) => {}
            Err(why) => return Err(at(&path.display().to_string(), &why)),
        }
    }
    Ok(None)
}

/// The file that a path leads to; `None` if there is none. Links are resolved here, because an absolute link
/// is relative to the machine under test, not to this one.
pub(super) fn resolve_links(root: &Root, path: &Path) -> Result<Option<PathBuf>, String> {
    let mut here = path.to_owned();
    for _ in 0..MOST_LINKS {
        match root.link(&here) {
            Ok(target) => {
                let folder = here.parent().unwrap_or(Path::new(""));
                here = target
                    .strip_prefix("/")
                    .map_or_else(|_| folder.join(&target), Path::to_owned);
            }
            // Not a link.
            Err(e) if e.kind() == ErrorKind::InvalidInput => return Ok(Some(here)),
            Err(e) if absent(&e) && here == path => return Ok(None),
            Err(e) if absent(&e) => {
                return Err(format!(
                    "leads to /{}, which does not exist",
                    here.display()
                ));
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    Err("links form a loop".to_owned())
}

fn absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// `555.58.02` of `libcuda.so.555.58.02` for `libcuda.so.1`.
pub(super) fn version<'a>(file: &'a Path, name: &str) -> Option<&'a str> {
    let stem = name.split_once(".so.")?.0;
    let rest = file
        .file_name()?
        .to_str()?
        .strip_prefix(stem)?
        .strip_prefix(".so.")?;
    is_version(rest).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;
    use std::os::unix::fs::symlink;

    const NAME: &str = "libcuda.so.1";

    fn found(library: ReadResult<Option<Library>>) -> (String, Option<String>) {
        let library = library.unwrap().unwrap();
        (library.path, library.version)
    }

    #[test]
    fn the_version_is_that_of_the_linked_file() {
        let dir = machine(&[(
            "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.550.163.01",
            "",
        )]);
        let lib = dir.path().join("usr/lib/x86_64-linux-gnu");
        symlink(
            "libcuda.so.550.163.01",
            lib.join("nvidia/current").join(NAME),
        )
        .unwrap();
        std::fs::create_dir_all(dir.path().join("etc/alternatives")).unwrap();
        symlink(
            "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",
            dir.path().join("etc/alternatives/cuda"),
        )
        .unwrap();
        symlink("/etc/alternatives/cuda", lib.join(NAME)).unwrap();
        let (path, version) = found(find(&Root::new(dir.path()), &[], NAME));
        assert_eq!(
            (path.as_str(), version.as_deref()),
            ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", Some("550.163.01"))
        );
    }

    #[test]
    fn the_configured_folder_comes_first() {
        let dir = machine(&[("opt/lib/libcuda.so.1", ""), ("usr/lib64/libcuda.so.1", "")]);
        let (path, version) = found(find(&Root::new(dir.path()), &["/opt/lib".to_owned()], NAME));
        assert_eq!((path.as_str(), version), ("/opt/lib/libcuda.so.1", None));
        assert_eq!(
            find(&Root::new(dir.path()), &[], "libnvidia-ml.so.1"),
            Ok(None)
        );
    }

    #[test]
    fn dangling_and_looping_links_are_errors() {
        let dir = machine(&[("usr/lib64/x", "")]);
        let link = dir.path().join("usr/lib64").join(NAME);
        symlink("libcuda.so.555.58.02", &link).unwrap();
        let error = find(&Root::new(dir.path()), &[], NAME).unwrap_err();
        assert_eq!(
            error,
            "/usr/lib64/libcuda.so.1: leads to /usr/lib64/libcuda.so.555.58.02, which does not exist"
        );
        std::fs::remove_file(&link).unwrap();
        symlink(NAME, &link).unwrap();
        assert!(
            find(&Root::new(dir.path()), &[], NAME)
                .unwrap_err()
                .ends_with("loop")
        );
    }
}
