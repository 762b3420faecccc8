//! The inputs of the driver's start: what the configuration wants, where everything is, and the functions
//! that act on the machine.

use crate::driver::kernel_lines::KMSG;
use crate::modules::ModuleTree;
use crate::paths;
use crate::sys::kernel::kernel_release;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The settings of section `[driver]`, and the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverSettings {
    /// `driver.load`
    pub load: bool,
    /// `driver.modules`
    pub modules: Vec<String>,
    /// `driver.parameters`
    pub parameters: BTreeMap<String, String>,
    /// How long process 1 waits.
    pub deadline: Duration,
}

/// The files and folders that the driver's start uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverPaths {
    /// `/`
    pub root: PathBuf,
    /// `/run/firstlight`
    pub run: PathBuf,
    /// The driver image's file.
    pub image: PathBuf,
    /// Where it is mounted.
    pub image_at: PathBuf,
    /// The kernel's log.
    pub log: PathBuf,
    /// The running kernel's modules.
    pub modules: PathBuf,
    /// The running kernel's release.
    pub release: String,
}

impl DriverPaths {
    /// This machine's.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            root: "/".into(),
            run: paths::RUN.into(),
            image: paths::DRIVER_IMAGE.into(),
            image_at: paths::DRIVER_AT.into(),
            log: KMSG.into(),
            modules: ModuleTree::running_kernel_dir(),
            release: kernel_release(),
        }
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// The functions that act on the machine, other than on files.
pub struct MachineActions<'a> {
    /// Passes a module's file and parameters to the kernel.
    pub insert: &'a mut dyn FnMut(&Path, &str) -> io::Result<()>,
    /// Receives the name of the next step, and `initrd MILLISECONDS`.
    pub say: &'a mut dyn FnMut(&str),
    /// Brings up the loopback, which the fabric manager needs.
    pub loopback: &'a mut dyn FnMut(),
    /// Socket to process 1, which receives the open GPUs and keeps them open.
    pub socket: Option<BorrowedFd<'a>>,
}
