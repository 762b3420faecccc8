//! The state of NVIDIA's driver: init's report on its start, the loaded module, its GPUs, its libraries, its
//! firmware. Read once for all tests; if a part cannot be read, the reason is kept, because each test needs
//! other parts.

pub mod account;
pub mod board_kind;
pub mod boards;
pub mod chip;
pub mod confidential;
pub mod file;
pub mod firmware;
#[cfg(any(test, feature = "samples"))]
pub mod fixture;
pub mod gpus;
pub mod imex;
pub mod keys;
pub mod library;
pub mod log;
pub mod managers;
pub mod modinfo;
pub mod module;
pub mod nccl;
pub mod nodes;
pub mod params;
pub mod version;
pub mod xid;

use crate::root::Root;
use account::Account;
use file::ModuleFile;
use gpus::Information;
use library::Library;
use module::LoadedModule;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

/// A value, or a line that says which file could not be read and why.
pub type ReadResult<T> = Result<T, String>;

/// The state of the driver.
#[derive(Debug, Clone, PartialEq)]
pub struct Nvidia {
    /// init's report on its driver stage; `None` on a machine that firstlight's init did not start.
    pub account: ReadResult<Option<Account>>,
    /// The loaded module; `None` if there is none.
    pub loaded: ReadResult<Option<LoadedModule>>,
    /// What the driver reports about each of its GPUs, by address.
    pub gpus: ReadResult<BTreeMap<String, Information>>,
    /// libcuda.so.1
    pub cuda: ReadResult<Option<Library>>,
    /// libnvidia-ml.so.1
    pub ml: ReadResult<Option<Library>>,
    /// The NCCL library: that of the configured file, or libnccl.so.2.
    pub nccl: ReadResult<Option<Library>>,
    /// Whether the configuration names its file.
    pub nccl_chosen: bool,
    /// Versions for which the kernel can find GSP firmware.
    pub firmware: ReadResult<Vec<String>>,
    /// The module's file, if one can be found.
    pub file: ReadResult<Option<ModuleFile>>,
}

/// Reads it. `folders` are searched for libraries before the usual ones; `chosen` is the configured file of NCCL.
#[must_use]
pub fn read(
    root: &Root,
    folders: &[String],
    chosen: Option<&Path>,
    kernel: Option<&str>,
) -> Nvidia {
    Nvidia {
        account: account::read(root),
        loaded: module::read(root),
        gpus: gpus::read(root).map_err(|e| at(gpus::FOLDER, &e)),
        cuda: library::find(root, folders, "libcuda.so.1"),
        ml: library::find(root, folders, "libnvidia-ml.so.1"),
        nccl: chosen.map_or_else(
            || library::find(root, folders, nccl::NAME),
            |file| Ok(Some(nccl::of_file(root, file))),
        ),
        nccl_chosen: chosen.is_some(),
        firmware: firmware::versions(root),
        file: file::read(root, kernel),
    }
}

/// The line for something that could not be read.
pub(super) fn at(path: &str, why: &impl Display) -> String {
    format!("/{path}: {why}")
}
