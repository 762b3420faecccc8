//! Checks that a journal contains only what a pass can have done. Restore writes its values to hardware, so
//! an invalid journal is refused as a whole. Pure.

use super::{Entry, Grown, Journal};
use crate::fabric::plan::ACS_CONTROL_NAME;
use crate::text::size::size;

/// Bits that ACS control has, up to Unclaimed Request Redirect.
const ACS_BITS: u16 = 0x1fff;
/// ACS control, bytes.
const ACS_WIDTH: u8 = 2;
/// The smallest size of a resizable BAR.
const LEAST: u64 = 1 << 20;
/// The last of a function's BARs.
const LAST_BAR: u8 = 5;

/// The first entry that no pass can have written, and what is allowed.
pub(super) fn fault(journal: &Journal) -> Option<String> {
    let entries = journal.entries.iter().find_map(entry);
    entries.or_else(|| journal.bars.iter().find_map(grown))
}

fn entry(entry: &Entry) -> Option<String> {
    let Entry { bdf, register, width, before, after, .. } = entry;
    if register != ACS_CONTROL_NAME {
        let register = register.escape_default();
        return Some(format!("{bdf} has the register '{register}', allowed is '{ACS_CONTROL_NAME}'"));
    }
    if *width != ACS_WIDTH {
        return Some(format!("{bdf} {register} has the width {width}, allowed is {ACS_WIDTH}"));
    }
    let value = [*before, *after].into_iter().find(|value| value & !ACS_BITS != 0)?;
    Some(format!("{bdf} {register} has the value {value:#06x}, allowed are the bits of {ACS_BITS:#06x}"))
}

fn grown(grown: &Grown) -> Option<String> {
    let Grown { bdf, bar, before_bytes, wanted_bytes, .. } = grown;
    if *bar > LAST_BAR {
        return Some(format!("{bdf} has the BAR {bar}, allowed is 0 to {LAST_BAR}"));
    }
    let sizes = [*before_bytes, *wanted_bytes].into_iter().chain(grown.tries.iter().map(|t| t.bytes));
    let wrong = sizes.into_iter().find(|bytes| !bytes.is_power_of_two() || *bytes < LEAST)?;
    let least = size(LEAST);
    Some(format!("{bdf} BAR1 has the size {}, allowed are powers of two from {least}", size(wrong)))
}
