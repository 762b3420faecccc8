//! Where a machine keeps its own journal: below its root, even if a recorded machine contains links.

use super::{Journal, JournalError};
use crate::machine::root::Root;
use std::path::PathBuf;

/// Below the root.
const PLACE: &str = "run/firstlight/fabric.json";

impl Journal {
    /// Where `root` keeps its journal. A link in a recorded machine does not lead out of it.
    ///
    /// # Errors
    /// If links on the path form a loop.
    pub fn place(root: &Root) -> Result<PathBuf, JournalError> {
        root.place(PLACE).map_err(|source| JournalError::Read { path: root.join(PLACE), source })
    }

    /// Reads the journal of `root` at its own place; `None` if there is none.
    ///
    /// # Errors
    /// As [`Journal::load`].
    pub fn of(root: &Root) -> Result<Option<Self>, JournalError> {
        Self::load(&Self::place(root)?, root.path())
    }
}
