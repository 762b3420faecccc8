//! The loaded NVIDIA module, according to the kernel and to the module itself.

use super::{ReadResult, at, version};
use crate::host::modules::absent_is_none;
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

const FOLDER: &str = "sys/module/nvidia";
const PROC: &str = "proc/driver/nvidia/version";

/// The loaded module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModule {
    /// Its version, according to the kernel.
    pub version: String,
    /// Its version, according to itself.
    pub own_version: String,
    /// True for NVIDIA's open modules, which require GSP firmware.
    pub open: bool,
    /// Its hashes.
    pub hash: ModuleHash,
}

/// Hashes that distinguish builds of the module; `None` if the kernel shows none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModuleHash {
    /// The kernel's hash of its interface sources; it does not cover the resource manager.
    pub srcversion: Option<String>,
    /// The linker's hash of the whole module, in hexadecimal.
    pub build_id: Option<String>,
}

/// Reads it; `None` if it is not loaded.
///
/// # Errors
/// If it is loaded but its version cannot be read in both places.
pub fn read(root: &Root) -> ReadResult<Option<LoadedModule>> {
    if absent_is_none(root.names(FOLDER))
        .map_err(|e| at(FOLDER, &e))?
        .is_none()
    {
        // Some sandboxes show the driver's own files but not the kernel's.
        return match root.exists(PROC) {
            Ok(true) => Err(at(
                FOLDER,
                &format!("does not exist, although /{PROC} does"),
            )),
            _ => Ok(None),
        };
    }
    let path = format!("{FOLDER}/version");
    let version = root.text(&path).map_err(|e| at(&path, &e))?;
    let line = root.text(PROC).map_err(|e| at(PROC, &e))?;
    let own_version =
        version::in_line(&line).ok_or_else(|| at(PROC, &format!("no version in '{line}'")))?;
    Ok(Some(LoadedModule {
        version,
        own_version: own_version.to_owned(),
        open: line.contains("Open Kernel Module"),
        hash: hash(root),
    }))
}

/// The hashes for the fingerprint; one that cannot be read is `None`.
fn hash(root: &Root) -> ModuleHash {
    let note = root.read(format!("{FOLDER}/notes/.note.gnu.build-id")).ok();
    ModuleHash {
        srcversion: root.text(format!("{FOLDER}/srcversion")).ok(),
        build_id: note.and_then(|note| build_id(&note)),
    }
}

/// The content of a note by `GNU` of type 3, in hexadecimal.
fn build_id(note: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u32::from_le_bytes(note.get(at..at + 4)?.try_into().ok()?));
    let length = usize::try_from(word(4)?).ok()?;
    let known = word(0)? == 4 && word(8)? == 3 && note.get(12..16)? == b"GNU\0";
    let id = note
        .get(16..)?
        .get(..length)
        .filter(|id| known && !id.is_empty())?;
    let mut hex = String::new();
    for byte in id {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Some(hex)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    const VERSION: (&str, &str) = ("sys/module/nvidia/version", "555.58.02\n");

    #[test]
    fn a_loaded_module_has_its_version_in_two_places() {
        let line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.58.02  Release Build\nGCC version: gcc\n";
        let dir = machine(&[
            VERSION,
            (PROC, line),
            ("sys/module/nvidia/srcversion", "ABC\n"),
        ]);
        let loaded = read(&Root::new(dir.path())).unwrap().unwrap();
        assert_eq!(
            (loaded.version.as_str(), loaded.own_version.as_str()),
            ("555.58.02", "555.58.02")
        );
        assert!(loaded.open && loaded.hash.build_id.is_none());
        assert_eq!(loaded.hash.srcversion.as_deref(), Some("ABC"));
    }

    #[test]
    fn not_loaded_is_none_and_loaded_without_a_version_is_an_error() {
        assert_eq!(read(&Root::new(machine(&[]).path())), Ok(None));
        let silent = machine(&[("sys/module/nvidia/initstate", "live\n")]);
        assert!(
            read(&Root::new(silent.path()))
                .unwrap_err()
                .starts_with("/sys/module/nvidia/version: ")
        );
        let half = machine(&[VERSION]);
        assert!(
            read(&Root::new(half.path()))
                .unwrap_err()
                .starts_with("/proc/driver/nvidia/version: ")
        );
        let foreign = machine(&[(PROC, "NVRM version: x 1.2")]);
        assert!(
            read(&Root::new(foreign.path()))
                .unwrap_err()
                .contains("does not exist, although")
        );
        let odd = machine(&[VERSION, (PROC, "NVRM version: none\n")]);
        assert!(
            read(&Root::new(odd.path()))
                .unwrap_err()
                .contains("no version in")
        );
    }

    #[test]
    fn the_linkers_hash_is_read_from_its_note() {
        let note = [
            &[4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0][..],
            b"GNU\0",
            &[0xab, 0x01, 0xff],
        ]
        .concat();
        assert_eq!(build_id(&note).as_deref(), Some("ab01ff"));
        for bad in [&note[..14], &note[..18], b"", &[0xff; 32]] {
            assert_eq!(build_id(bad), None);
        }
    }
}
