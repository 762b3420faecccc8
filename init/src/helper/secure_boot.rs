//! The child that reads whether the firmware verified what it started, from its variable SecureBoot.
//! Firmware can hang, so this runs in a child only.

use super::{FINE, say};
use crate::paths::EFI_VARIABLES;
use std::fs;
use std::io::ErrorKind;

/// EFI_GLOBAL_VARIABLE of the UEFI specification.
const NAME: &str = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// Prints `on`, `off` or `not offered`.
pub(super) fn print() -> Result<i32, String> {
    let path = format!("{EFI_VARIABLES}/{NAME}");
    let state = match fs::read(&path) {
        Ok(bytes) => state(&bytes).ok_or_else(|| format!("{path}: holds {bytes:?}"))?,
        // Firmware without Secure Boot has other variables.
        Err(e) if e.kind() == ErrorKind::NotFound && any() => "not offered",
        Err(e) => return Err(format!("{path}: {e}")),
    };
    say(state);
    Ok(FINE)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_variable_with_a_known_value_counts() {
        assert_eq!(state(&[6, 0, 0, 0, 1]), Some("on"));
        assert_eq!(state(&[6, 0, 0, 0, 0]), Some("off"));
        for odd in [&[][..], &[1], &[6, 0, 0, 0], &[6, 0, 0, 0, 2], &[6, 0, 0, 0, 1, 0]] {
            assert_eq!(state(odd), None, "{odd:?}");
        }
    }
}
