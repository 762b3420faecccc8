//! Recorded machines for the tests: read where they are checked in, or copied to be written to.

use firstlight::machine::pcie::model::{Bdf, Fabric};
use firstlight::machine::root::Root;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Every recorded machine.
pub(crate) fn names() -> Vec<String> {
    let folders = fs::read_dir(folder()).unwrap().map(Result::unwrap).filter(|e| e.path().is_dir());
    let mut names: Vec<String> = folders.map(|e| e.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 13, "recorded machines are missing: {names:?}");
    names
}

/// Where the checked-in machine `name` lies.
pub(crate) fn path(name: &str) -> PathBuf {
    folder().join(name)
}

/// The fabric of the checked-in machine `name`.
#[track_caller]
pub(crate) fn fabric(name: &str) -> Fabric {
    Fabric::read(&Root::new(path(name))).unwrap()
}

/// A copy of the machine `name` that a test may change.
pub(crate) struct Copy(TempDir);

impl Copy {
    pub(crate) fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(&path(name), dir.path());
        Self(dir)
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    #[track_caller]
    pub(crate) fn fabric(&self) -> Fabric {
        Fabric::read(&self.root()).unwrap()
    }

    /// A file of one function.
    pub(crate) fn file(&self, bdf: &str, name: &str) -> PathBuf {
        self.0.path().join("sys/bus/pci/devices").join(bdf).join(name)
    }

    pub(crate) fn at(&self, rel: &str) -> PathBuf {
        self.0.path().join(rel)
    }
}

pub(crate) fn bdf(text: &str) -> Bdf {
    text.parse().unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/machines")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}
