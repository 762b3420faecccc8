//! The children that query the firmware, because it can hang. One mounts the file systems that show its data: mounting
//! makes the kernel read all of its variables and records. One reads from its variable SecureBoot whether it verified what
//! it started. One reads the identity of this node from it and from the network cards, whose drivers that child loads.

use super::network::{cards, load_drivers};
use super::{SUCCESS, say};
use crate::config::node::NodeIdentity;
use crate::paths::EFI_VARIABLES;
use crate::sys::files::is_efivarfs;
use crate::sys::kernel::in_initial_namespace;
use crate::sys::mount::{self, Flags};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// File system and folder.
const TABLE: [(&str, &str); 2] = [
    ("efivarfs", "/sys/firmware/efi/efivars"),
    ("pstore", "/sys/fs/pstore"),
];

/// The result for one file system, as the child prints it: `NAME WORD`.
pub const MOUNTED: &str = "mounted";
/// It was mounted before.
pub const KEPT: &str = "kept";
/// The kernel or the firmware does not have it.
const ABSENT: &str = "absent";

/// Mounts them, and prints a line for each.
pub(super) fn mount() -> i32 {
    for (name, at) in TABLE {
        let flags = Flags::NOSUID | Flags::NODEV | Flags::NOEXEC;
        let word = match mount::mount_once(name, Path::new(at), flags, "") {
            Ok(true) => MOUNTED,
            Ok(false) => KEPT,
            Err(_) => ABSENT,
        };
        say(&format!("{name} {word}"));
    }
    SUCCESS
}

/// The folder of the firmware's variables if this process may write them: the firmware has variables, and they are not
/// those of a host.
pub(super) fn variables() -> Option<&'static Path> {
    let folder = Path::new(EFI_VARIABLES);
    (any() && (in_initial_namespace() || !is_efivarfs(folder))).then_some(folder)
}

/// EFI_GLOBAL_VARIABLE of the UEFI specification.
const SECURE_BOOT: &str = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// Prints `on`, `off` or `not offered`.
pub(super) fn secure_boot() -> Result<i32, String> {
    let path = format!("{EFI_VARIABLES}/{SECURE_BOOT}");
    let state = match fs::read(&path) {
        Ok(bytes) => state(&bytes).ok_or_else(|| format!("{path}: holds {bytes:?}"))?,
        // Firmware without Secure Boot has other variables.
        Err(e) if e.kind() == ErrorKind::NotFound && any() => "not offered",
        Err(e) => return Err(format!("{path}: {e}")),
    };
    say(state);
    Ok(SUCCESS)
}

fn any() -> bool {
    fs::read_dir(EFI_VARIABLES).is_ok_and(|mut entries| entries.next().is_some())
}

/// Four bytes of attributes, then the value.
fn state(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [_, _, _, _, 1] => Some("on"),
        [_, _, _, _, 0] => Some("off"),
        _ => None,
    }
}

/// Reads the identity of this node; a card whose address cannot be read is skipped.
fn identity(sys: &Path) -> NodeIdentity {
    let serial = fs::read_to_string(sys.join("class/dmi/id/product_serial")).ok();
    let serial = serial
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    NodeIdentity {
        macs: cards(sys).into_iter().filter_map(|card| card.mac).collect(),
        serial,
    }
}

/// As [`identity`], after loading the drivers of all network cards.
pub(super) fn identity_with_drivers() -> NodeIdentity {
    // A card whose driver is built in needs no module.
    let _why = load_drivers();
    identity(Path::new("/sys"))
}

/// Prints the identity for process 1, one line per value.
pub(super) fn print_identity() {
    let identity = identity_with_drivers();
    identity
        .macs
        .iter()
        .for_each(|mac| say(&format!("mac={mac}")));
    if let Some(serial) = identity.serial {
        say(&format!("serial={serial}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_variable_with_a_known_value_counts() {
        assert_eq!(state(&[6, 0, 0, 0, 1]), Some("on"));
        assert_eq!(state(&[6, 0, 0, 0, 0]), Some("off"));
        for odd in [
            &[][..],
            &[1],
            &[6, 0, 0, 0],
            &[6, 0, 0, 0, 2],
            &[6, 0, 0, 0, 1, 0],
        ] {
            assert_eq!(state(odd), None, "{odd:?}");
        }
    }
}
