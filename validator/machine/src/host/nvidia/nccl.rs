//! The NCCL libraries of a machine: the loader's, and those that Python's packages bring (the wheels nvidia-nccl-cu12 and
//! nvidia-nccl-cu13, whose library is in `nvidia/nccl/lib` of the folder of packages).

use super::library::{Library, find, resolve_links, version};
use crate::root::Root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Its name for the loader.
pub(super) const NAME: &str = "libnccl.so.2";
/// Folders of Python's packages; `*` stands for any one name, `python3*` for any that begins so. Homes are not searched.
const PACKAGES: &[&str] = &[
    "usr/lib/python3*/dist-packages",
    "usr/lib/python3*/site-packages",
    "usr/local/lib/python3*/dist-packages",
    "usr/local/lib/python3*/site-packages",
    "opt/*/lib/python3*/site-packages",
    "opt/*/.venv/lib/python3*/site-packages",
    "opt/*/venv/lib/python3*/site-packages",
];
/// The most folders that one pattern may stand for.
const MOST: usize = 64;

/// The NCCL library of a file, with the version in the file's name or of the Python package that it belongs to.
#[must_use]
pub fn of_file(root: &Root, file: &Path) -> Library {
    let rel = Path::new(
        file.to_str()
            .map_or("", |file| file.trim_start_matches('/')),
    );
    let named = resolve_links(root, rel)
        .ok()
        .flatten()
        .and_then(|file| version(&file, NAME).map(str::to_owned));
    // nvidia/nccl/lib/FILE
    let packages = rel.ancestors().nth(4);
    let version = named.or_else(|| package_version(root, packages?));
    Library {
        path: file.display().to_string(),
        version,
    }
}

/// All that are found, each file once: in `first`, in the usual folders of libraries, and in those of Python's packages. What
/// cannot be read is left out: the list is information.
#[must_use]
pub fn all(root: &Root, first: &[String]) -> Vec<Library> {
    let loaders = find(root, first, NAME)
        .ok()
        .flatten()
        .map(|library| PathBuf::from(library.path));
    let wheels = PACKAGES.iter().flat_map(|pattern| expanded(root, pattern));
    let wheels = wheels.map(|folder| {
        Path::new("/")
            .join(folder)
            .join("nvidia/nccl/lib")
            .join(NAME)
    });
    let mut seen = BTreeSet::new();
    let found = loaders.into_iter().chain(wheels);
    let new = found.filter(|path| identity(root, path).is_some_and(|file| seen.insert(file)));
    new.map(|path| of_file(root, &path)).collect()
}

/// The same without the one that was loaded from this file.
#[must_use]
pub fn others(root: &Root, first: &[String], loaded: &str) -> Vec<Library> {
    let loaded = identity(root, Path::new(loaded));
    let mut all = all(root, first);
    all.retain(|library| loaded.is_some() && identity(root, Path::new(&library.path)) != loaded);
    all
}

/// The file system and inode of a file, links followed.
fn identity(root: &Root, path: &Path) -> Option<(u64, u64)> {
    let stat = root.stat(path.strip_prefix("/").unwrap_or(path)).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// The file of which this process has mapped a page at an address, as the kernel names it (proc(5), /proc/PID/maps).
#[must_use]
pub fn mapped_file(root: &Root, address: usize) -> Option<String> {
    file_at(&root.text("proc/self/maps").ok()?, address)
}

fn file_at(maps: &str, address: usize) -> Option<String> {
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let holds = |line: &&str| {
        let range = line
            .split_whitespace()
            .next()
            .and_then(|range| range.split_once('-'));
        let range = range.and_then(|(from, to)| Some(number(from)?..number(to)?));
        range.is_some_and(|range| range.contains(&address))
    };
    let line = maps.lines().find(holds)?;
    line.get(line.find('/')?..).map(str::to_owned)
}

/// `2.27.3` of a folder of packages with `nvidia_nccl_cu12-2.27.3.dist-info`.
fn package_version(root: &Root, packages: &Path) -> Option<String> {
    root.names(packages).ok()?.iter().find_map(|name| {
        let (_, version) = name
            .to_str()?
            .strip_prefix("nvidia_nccl_")?
            .strip_suffix(".dist-info")?
            .split_once('-')?;
        Some(version.to_owned())
    })
}

/// The folders that a pattern stands for.
fn expanded(root: &Root, pattern: &str) -> Vec<PathBuf> {
    let mut all = vec![PathBuf::new()];
    for part in pattern.split('/') {
        all = match part.strip_suffix('*') {
            None => all.into_iter().map(|folder| folder.join(part)).collect(),
            Some(begin) => {
                let below = |folder: PathBuf| {
                    let names = root.names(&folder).unwrap_or_default().into_iter();
                    names
                        .filter(|name| name.to_str().is_some_and(|name| name.starts_with(begin)))
                        .map(move |name| folder.join(name))
                };
                all.into_iter().flat_map(below).take(MOST).collect()
            }
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_loaders_library_and_those_of_wheels_are_found_once_with_their_versions() {
        let venv = "opt/torch/.venv/lib/python3.12/site-packages";
        let dir = machine(&[
            ("usr/lib/x86_64-linux-gnu/libnccl.so.2.22.3", ""),
            (&format!("{venv}/nvidia/nccl/lib/libnccl.so.2"), ""),
            (
                &format!("{venv}/nvidia_nccl_cu13-2.28.9.dist-info/METADATA"),
                "",
            ),
            ("usr/lib/python3.11/dist-packages/other/x", ""),
        ]);
        symlink(
            "libnccl.so.2.22.3",
            dir.path().join("usr/lib/x86_64-linux-gnu").join(NAME),
        )
        .unwrap();
        symlink("torch", dir.path().join("opt/zoo")).unwrap();
        let found = all(&Root::new(dir.path()), &[]);
        let found: Vec<_> = found
            .iter()
            .map(|l| (l.path.as_str(), l.version.as_deref()))
            .collect();
        let wheel = format!("/{venv}/nvidia/nccl/lib/{NAME}");
        assert_eq!(
            found[0],
            ("/usr/lib/x86_64-linux-gnu/libnccl.so.2", Some("2.22.3"))
        );
        assert!(
            found.contains(&(wheel.as_str(), Some("2.28.9"))),
            "{found:?}"
        );
        let file = of_file(&Root::new(dir.path()), Path::new(&wheel));
        assert_eq!(
            (file.path.as_str(), file.version.as_deref()),
            (wheel.as_str(), Some("2.28.9"))
        );
        assert_eq!(
            of_file(&Root::new(dir.path()), Path::new("/nowhere/libnccl.so")).version,
            None
        );
        let others = others(
            &Root::new(dir.path()),
            &[],
            &wheel.replace("/opt/torch/", "/opt/zoo/"),
        );
        assert_eq!(
            (others.len(), others[0].version.as_deref()),
            (1, Some("2.22.3"))
        );
    }

    #[test]
    fn the_file_of_an_address_is_that_of_its_mapping() {
        let maps = "7f0000000000-7f0000001000 r--p 00000000 fd:00 11 /usr/lib/libc.so.6\n\
                    7f0000001000-7f0000003000 r-xp 00001000 fd:00 12 /opt/my lib/libnccl.so.2\n\
                    7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n";
        let file = |address| file_at(maps, address);
        assert_eq!(
            file(0x7f00_0000_1fff).as_deref(),
            Some("/opt/my lib/libnccl.so.2")
        );
        assert_eq!(
            (file(0x7f00_0000_3000), file(0x7f00_0000_4000)),
            (None, None)
        );
    }
}
