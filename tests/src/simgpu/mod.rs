//! Simulated GPUs for the shipped `firstlight`: a scenario of `tests/simgpu/scenarios` is laid out as a folder with a
//! driver's libraries, next to a matching modelled machine, and the program judges both. The expected result is the
//! scenario's `[expect]`; comparing with it is left to the tests.

mod layout;
mod names;
mod run;
pub(crate) mod scenario;

use crate::error::{Error, Result};
use crate::overlay::Overlay;
pub use layout::{Libraries, lay_out, root};
pub use run::{ValidatorRun, firstlight, validate, validator_command, with_prepared};
pub use scenario::{Expectation, Scenario};
use std::path::Path;
use std::{fs, io};

/// Where the libraries and the machine are in the booted system.
const LIBRARIES: &str = "sim/lib";
const MACHINE: &str = "sim/machine";

/// The configuration: there is no GPU that a module could drive.
const CONFIG: &str =
    "[driver]\nload = false\n[validate]\nroot = \"/sim/machine\"\nlibrary_path = [\"/sim/lib\"]\n";

/// The files of one scenario.
///
/// # Errors
/// What cannot be built, laid out or read.
pub fn overlay(scenario: &Scenario) -> Result<Overlay> {
    let dir = tempfile::tempdir().map_err(Error::file("make", "a temporary folder"))?;
    let (libraries, machine) = (dir.path().join("lib"), dir.path().join("machine"));
    lay_out(scenario, Libraries::built()?, &libraries)?;
    root(scenario, &machine)?;
    let overlay = Overlay::new().config("30-simulated", CONFIG);
    let overlay = tree(overlay, LIBRARIES, &libraries).map_err(Error::file("read", &libraries))?;
    tree(overlay, MACHINE, &machine).map_err(Error::file("read", &machine))
}

/// Adds everything in a folder: files, links and folders.
fn tree(mut overlay: Overlay, to: &str, from: &Path) -> io::Result<Overlay> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = format!("{to}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        overlay = if kind.is_symlink() {
            overlay.link(&path, &fs::read_link(entry.path())?.to_string_lossy())
        } else if kind.is_dir() {
            tree(overlay.folder(&path), &path, &entry.path())?
        } else {
            overlay.program(&path, fs::read(entry.path())?)
        };
    }
    Ok(overlay)
}
