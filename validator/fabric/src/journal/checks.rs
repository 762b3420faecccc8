//! Checks of a journal before it is used: that it belongs to this root, boot and machine, because registers
//! are only restored on the functions that they were read from; and that it contains only what a pass can
//! have done, because restore writes its values to hardware. An invalid journal is refused as a whole.

use super::{Entry, Function, Grown, Journal, JournalError};
use crate::plan::ACS_CONTROL_NAME;
use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::text::size;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf, absolute};

/// Refuses the journal at `path` if it does not belong to `root`. A field that an older firstlight did not
/// write is not checked; a function that no longer exists cannot be written anyway.
pub(super) fn belongs(journal: &Journal, path: &Path, root: &Path) -> Result<(), JournalError> {
    let at = || path.to_owned();
    let expected = absolute_path(root);
    let found = Path::new(&journal.root);
    // A relative path may mean any root.
    if found.is_relative() || absolute_path(found) != expected {
        let (found, expected) = (journal.root.clone(), expected.display().to_string());
        return Err(JournalError::Root {
            path: at(),
            found,
            expected,
        });
    }
    let root = Root::new(root);
    if let Some(found) = journal.boot.clone() {
        let here = boot(&root);
        if here.as_ref() != Some(&found) {
            return Err(JournalError::Boot {
                path: at(),
                found,
                here,
            });
        }
    }
    let other =
        |function: &&Function| ids(&root, function.bdf).is_some_and(|here| here != function.ids);
    let Some(Function { bdf, ids: found }) = journal.functions.iter().find(other).cloned() else {
        return Ok(());
    };
    let here = ids(&root, bdf).unwrap_or_default();
    Err(JournalError::Machine {
        path: at(),
        bdf,
        found,
        here,
    })
}

/// Records the identity of the functions that `journal` names and that are not recorded yet.
pub(super) fn identify(journal: &mut Journal, root: &Root) {
    let entries = journal.entries.iter().map(|e| e.bdf);
    let bars = journal.bars.iter().map(|b| b.bdf);
    let named: BTreeSet<Bdf> = entries
        .chain(bars)
        .chain(journal.decode.iter().map(|d| d.bdf))
        .collect();
    for bdf in named {
        if !journal.functions.iter().any(|f| f.bdf == bdf)
            && let Some(ids) = ids(root, bdf)
        {
            journal.functions.push(Function { bdf, ids });
        }
    }
}

/// The absolute path of a folder, with existing links resolved.
pub(super) fn absolute_path(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

/// The current boot's id; `None` on a recorded machine.
pub(super) fn boot(root: &Root) -> Option<String> {
    root.text("proc/sys/kernel/random/boot_id")
        .ok()
        .filter(|id| !id.is_empty())
}

fn ids(root: &Root, bdf: Bdf) -> Option<String> {
    let id = |name: &str| {
        let text = root
            .text(format!("sys/bus/pci/devices/{bdf}/{name}"))
            .ok()?;
        Some(text.strip_prefix("0x")?.escape_default().to_string())
    };
    Some(format!("{}:{}", id("vendor")?, id("device")?))
}

/// Bits that ACS control has, up to Unclaimed Request Redirect.
const ACS_BITS: u16 = 0x1fff;
/// ACS control, bytes.
const ACS_WIDTH: u8 = 2;
/// The smallest size of a resizable BAR.
const LEAST: u64 = 1 << 20;
/// The highest BAR index of a function.
const LAST_BAR: u8 = 5;

/// The first entry that no pass can have written, and what is allowed.
pub(super) fn first_invalid(journal: &Journal) -> Option<String> {
    let entries = journal.entries.iter().find_map(invalid_register);
    entries.or_else(|| journal.bars.iter().find_map(invalid_bar))
}

fn invalid_register(entry: &Entry) -> Option<String> {
    let Entry {
        bdf,
        register,
        width,
        before,
        after,
        ..
    } = entry;
    if register != ACS_CONTROL_NAME {
        let register = register.escape_default();
        return Some(format!(
            "{bdf} has the register '{register}', allowed is '{ACS_CONTROL_NAME}'"
        ));
    }
    if *width != ACS_WIDTH {
        return Some(format!(
            "{bdf} {register} has the width {width}, allowed is {ACS_WIDTH}"
        ));
    }
    let value = [*before, *after]
        .into_iter()
        .find(|value| value & !ACS_BITS != 0)?;
    Some(format!(
        "{bdf} {register} has the value {value:#06x}, allowed are the bits of {ACS_BITS:#06x}"
    ))
}

fn invalid_bar(grown: &Grown) -> Option<String> {
    let Grown {
        bdf,
        bar,
        before_bytes,
        wanted_bytes,
        ..
    } = grown;
    if *bar > LAST_BAR {
        return Some(format!(
            "{bdf} has the BAR {bar}, allowed is 0 to {LAST_BAR}"
        ));
    }
    let sizes = [*before_bytes, *wanted_bytes]
        .into_iter()
        .chain(grown.tries.iter().map(|t| t.bytes));
    let wrong = sizes
        .into_iter()
        .find(|bytes| !bytes.is_power_of_two() || *bytes < LEAST)?;
    let least = size(LEAST);
    Some(format!(
        "{bdf} BAR1 has the size {}, allowed are powers of two from {least}",
        size(wrong)
    ))
}
