//! This node's identity from its firmware and its network cards. Runs in children, because it loads
//! drivers.

use super::network::{cards, load_drivers};
use super::say;
use crate::config::node::Identity;
use std::fs;
use std::path::Path;

/// Reads the identity; a card whose address cannot be read is skipped.
pub(super) fn read(sys: &Path) -> Identity {
    let serial = fs::read_to_string(sys.join("class/dmi/id/product_serial")).ok();
    let serial = serial.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    Identity { macs: cards(sys).into_iter().filter_map(|card| card.mac).collect(), serial }
}

/// As [`read`], after loading the drivers of all network cards.
pub(super) fn with_drivers() -> Identity {
    // A card whose driver is built in needs no module.
    let _why = load_drivers();
    read(Path::new("/sys"))
}

/// Prints the identity for process 1, one line per value.
pub(super) fn print() {
    let identity = with_drivers();
    identity.macs.iter().for_each(|mac| say(&format!("mac={mac}")));
    if let Some(serial) = identity.serial {
        say(&format!("serial={serial}"));
    }
}
