//! The identity of a report's machine: host name, a stable id, serial number. The configuration decides how much of it a
//! report may contain. Pure.

use crate::IdentityPolicy;
use hmac::{Hmac, Mac};
use machine::host::identity::Identity;
use sha2::Sha256;
use std::fmt::Write as _;

/// The text that is hashed with the machine id as the key, as systemd does for application-specific ids: the machine id
/// itself must stay confidential.
const APPLICATION: &[u8] = b"firstlight";

/// The identity that a report contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportIdentity {
    /// The host name.
    pub host: Option<String>,
    /// The machine id, or 32 hexadecimal digits made from it.
    pub machine_id: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
}

impl ReportIdentity {
    /// The part of `identity` that `how` allows; a value that could not be read is `None`.
    #[must_use]
    pub fn of(identity: &Identity, how: IdentityPolicy) -> Self {
        let Identity {
            host,
            machine_id,
            serial,
            ..
        } = identity;
        match how {
            IdentityPolicy::Off => Self::default(),
            IdentityPolicy::Hashed => Self {
                host: host.clone(),
                machine_id: machine_id.as_deref().and_then(hashed),
                serial: None,
            },
            IdentityPolicy::Full => Self {
                host: host.clone(),
                machine_id: machine_id.clone(),
                serial: serial.clone(),
            },
        }
    }
}

/// The first 16 bytes of HMAC-SHA256 in hexadecimal.
fn hashed(id: &str) -> Option<String> {
    // A key of any length is allowed.
    let mut mac = Hmac::<Sha256>::new_from_slice(id.as_bytes()).ok()?;
    mac.update(APPLICATION);
    let mut hex = String::new();
    for byte in mac.finalize().into_bytes().iter().take(16) {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Some(hex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::host::identity::read;
    use machine::root::Root;

    #[test]
    fn a_report_contains_no_more_than_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let id = "0123456789abcdef0123456789abcdef";
        let mut identity = read(&Root::new(dir.path()));
        assert_eq!(
            ReportIdentity::of(&identity, IdentityPolicy::Full),
            ReportIdentity::default()
        );
        let some = |text: &str| Some(text.to_owned());
        (identity.host, identity.machine_id, identity.serial) =
            (some("node7"), some(id), some("S-42"));
        let full = ReportIdentity::of(&identity, IdentityPolicy::Full);
        assert_eq!(
            full,
            ReportIdentity {
                host: some("node7"),
                machine_id: some(id),
                serial: some("S-42")
            }
        );
        let less = ReportIdentity::of(&identity, IdentityPolicy::Hashed);
        // HMAC-SHA256 of "firstlight" with that key, as `openssl dgst -sha256 -hmac` prints it.
        let hash = less.machine_id.as_deref().unwrap();
        assert_eq!(
            (less.host.as_deref(), hash.len(), less.serial),
            (Some("node7"), 32, None)
        );
        assert_eq!(hash, "0c0f51ad713af448fb4b0c0790d41161");
        assert_eq!(
            ReportIdentity::of(&identity, IdentityPolicy::Off),
            ReportIdentity::default()
        );
    }
}
