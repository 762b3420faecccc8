//! Where a machine keeps its own journal: below its root, also where a recorded machine has links.

use super::{Journal, JournalError};
use crate::machine::root::Root;
use std::path::PathBuf;

/// Below the root.
const PLACE: &str = "run/firstlight/fabric.json";

impl Journal {
    /// Where `root` keeps its journal. A link in a recorded machine does not lead out of it.
    ///
    /// # Errors
    /// When links on the way lead in a circle.
    pub fn place(root: &Root) -> Result<PathBuf, JournalError> {
        root.place(PLACE).map_err(|source| JournalError::Read { path: root.join(PLACE), source })
    }

    /// Reads the journal that `root` keeps itself; `None` when there is none.
    ///
    /// # Errors
    /// As [`Journal::load`].
    pub fn of(root: &Root) -> Result<Option<Self>, JournalError> {
        Self::load(&Self::place(root)?, root.path())
    }
}
