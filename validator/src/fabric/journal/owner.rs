//! Which root, boot and machine a journal belongs to. Registers are only restored on the functions that they
//! were read from.

use super::{Function, Journal, JournalError};
use crate::machine::pcie::model::Bdf;
use crate::machine::root::Root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf, absolute};

/// Refuses the journal at `path` if it does not belong to `root`. A field that an older firstlight did not
/// write is not checked; a function that no longer exists cannot be written anyway.
pub(super) fn check(journal: &Journal, path: &Path, root: &Path) -> Result<(), JournalError> {
    let at = || path.to_owned();
    let expected = whole(root);
    let found = Path::new(&journal.root);
    // A relative path may mean any root.
    if found.is_relative() || whole(found) != expected {
        let (found, expected) = (journal.root.clone(), expected.display().to_string());
        return Err(JournalError::Root { path: at(), found, expected });
    }
    let root = Root::new(root);
    if let Some(found) = journal.boot.clone() {
        let here = boot(&root);
        if here.as_ref() != Some(&found) {
            return Err(JournalError::Boot { path: at(), found, here });
        }
    }
    let other = |function: &&Function| ids(&root, function.bdf).is_some_and(|here| here != function.ids);
    let Some(Function { bdf, ids: found }) = journal.functions.iter().find(other).cloned() else {
        return Ok(());
    };
    let here = ids(&root, bdf).unwrap_or_default();
    Err(JournalError::Machine { path: at(), bdf, found, here })
}

/// Records the identity of the functions that `journal` names and that are not recorded yet.
pub(super) fn identify(journal: &mut Journal, root: &Root) {
    let entries = journal.entries.iter().map(|e| e.bdf);
    let bars = journal.bars.iter().map(|b| b.bdf);
    let named: BTreeSet<Bdf> = entries.chain(bars).chain(journal.decode.iter().map(|d| d.bdf)).collect();
    for bdf in named {
        if !journal.functions.iter().any(|f| f.bdf == bdf)
            && let Some(ids) = ids(root, bdf)
        {
            journal.functions.push(Function { bdf, ids });
        }
    }
}

/// The absolute path of a folder, with existing links resolved.
pub(super) fn whole(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// The boot that the machine is in; `None` on a recorded machine.
pub(super) fn boot(root: &Root) -> Option<String> {
    root.text("proc/sys/kernel/random/boot_id").ok().filter(|id| !id.is_empty())
}

fn ids(root: &Root, bdf: Bdf) -> Option<String> {
    let id = |name: &str| {
        let text = root.text(format!("sys/bus/pci/devices/{bdf}/{name}")).ok()?;
        Some(text.strip_prefix("0x")?.escape_default().to_string())
    };
    Some(format!("{}:{}", id("vendor")?, id("device")?))
}
