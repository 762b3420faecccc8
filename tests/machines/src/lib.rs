//! Machines for the tests: what a kernel and a GPU driver show about them, in the layout of the real `/sys`, `/proc`,
//! `/dev` and `/run`, which `firstlight --root DIR` and `lspci -O sysfs.path=DIR/sys/bus/pci` read.
//!
//! ```text
//! cargo run -p machines                                # lists the modelled machines
//! cargo run -p machines -- epyc-8x4090 /tmp/epyc       # one of them as a folder
//! firstlight --root /tmp/epyc validate
//! firstlight --root tests/machines/recorded/h200-2.txt fabric show
//! ```
//!
//! **Modelled machines** are code in this crate, not recordings. Configuration spaces, links, IOMMU, driver and kernel log
//! are written from the specifications, from published figures and from what drivers of that kind show. A test calls
//! `machines::laid_out(NAME)`: a temporary folder that the test may change. `built.rs` builds machines from a plan.
//!
//! **Recorded machines** are text files in `../recorded/`, which `firstlight record FILE` wrote on the machine. The header
//! of each one lists what was replaced.

pub mod built;
mod config_space;
mod driver;
mod drivers;
mod epyc;
mod kernel;
mod machine;
mod parts;
mod small;

pub use config_space::Link;
pub use drivers::{stock_5090, vm_with_h200s};
pub use epyc::epyc_with_gpus;
pub use machine::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// Every named modelled machine.
pub const ALL: [fn() -> Machine; 20] = [
    epyc::eight_gpus,
    epyc::eight_unconfigured,
    small::switch,
    small::intel_pch,
    small::no_ecam,
    small::dead_gpu,
    small::malformed_chain,
    small::iommu_translated,
    small::lost_cpus,
    small::second_domain,
    small::narrow_link,
    small::no_subnet_manager,
    small::nouveau,
    small::boot_display,
    drivers::h200,
    small::small_bars,
    drivers::library_mismatch,
    drivers::small_bar1,
    drivers::broken_patch,
    drivers::unbound_5090,
];

/// The modelled machine of this name.
#[must_use]
pub fn named(name: &str) -> Option<Machine> {
    ALL.iter()
        .map(|machine| machine())
        .find(|machine| machine.name == name)
}

/// Every name, in alphabetical order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = ALL.iter().map(|machine| machine().name).collect();
    names.sort_unstable();
    names
}

/// The modelled machine of this name, laid out in a temporary folder that is removed when it is dropped.
///
/// # Panics
/// If no machine has this name, or the folder cannot be written.
#[must_use]
pub fn laid_out(name: &str) -> TempDir {
    let machine = named(name)
        .unwrap_or_else(|| panic!("no modelled machine is called {name}: {:?}", names()));
    let folder = tempfile::tempdir().expect("a temporary folder");
    machine
        .tree()
        .write(folder.path())
        .unwrap_or_else(|e| panic!("{}: {e}", folder.path().display()));
    folder
}

/// An entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreeEntry {
    /// A folder, which may be empty.
    Folder,
    /// A symbolic link, with its target.
    Link(String),
    /// A regular file, with its content.
    File(Vec<u8>),
}

/// A file tree. Parent folders of an entry need no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(pub(crate) BTreeMap<String, TreeEntry>);

impl Tree {
    /// Adds a folder.
    pub fn folder(&mut self, at: &str) {
        self.0.insert(at.to_owned(), TreeEntry::Folder);
    }

    /// Adds a file with this text.
    pub fn file(&mut self, at: &str, text: &str) {
        self.bytes(at, text.as_bytes());
    }

    /// Adds a file with these bytes.
    pub fn bytes(&mut self, at: &str, bytes: &[u8]) {
        self.0
            .insert(at.to_owned(), TreeEntry::File(bytes.to_owned()));
    }

    /// Adds a link.
    pub fn link(&mut self, at: &str, target: &str) {
        self.0
            .insert(at.to_owned(), TreeEntry::Link(target.to_owned()));
    }

    /// Writes the whole tree into the folder `to`, which is created if it is missing.
    ///
    /// # Errors
    /// If an entry cannot be written.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        self.0
            .iter()
            .try_for_each(|(at, entry)| entry.write(&to.join(at)))
    }
}

impl TreeEntry {
    fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        match self {
            Self::Folder => fs::create_dir_all(path),
            Self::Link(target) => symlink(target, path),
            Self::File(bytes) => fs::write(path, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn every_machine_has_a_name_of_its_own_and_can_be_laid_out() {
        let names = names();
        assert_eq!(
            names.iter().collect::<BTreeSet<_>>().len(),
            ALL.len(),
            "{names:?}"
        );
        for name in names {
            let folder = laid_out(name);
            let functions = fs::read_dir(folder.path().join("sys/bus/pci/devices")).unwrap();
            for function in functions.map(Result::unwrap) {
                assert!(
                    function.path().join("config").is_file(),
                    "{name}: {function:?}"
                );
            }
            assert!(folder.path().join("sys/class/iommu").is_dir(), "{name}");
        }
    }
}
