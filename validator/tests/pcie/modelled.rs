//! Modelled machines for the tests: each test has a folder of its own, which it may change.

use firstlight::machine::pcie::model::{Bdf, Fabric};
use firstlight::machine::root::Root;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) use ::machines::names;

/// The fabric of the machine `name`.
#[track_caller]
pub(crate) fn fabric(name: &str) -> Fabric {
    Copy::of(name).fabric()
}

/// A copy of the machine `name`.
pub(crate) struct Copy(TempDir);

impl Copy {
    pub(crate) fn of(name: &str) -> Self {
        Self(::machines::laid_out(name))
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
