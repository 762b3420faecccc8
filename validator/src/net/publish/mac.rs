//! The MAC of a report, which proves that this machine's validator wrote it: HMAC-SHA256, with the site's key, over
//! the verdict, a line feed and the report's bytes. The verdict is included because a receiver may act on the
//! verdict alone, and because it may be worse than the report's own. On a disk the MAC is in a file beside the
//! report, in hexadecimal.

use super::finished::{hex, verdict_of};
use super::store::ReportStore;
use crate::files;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fewest and most bytes of a key; fewer than the hash has would make the MAC weaker than the hash.
const KEY_LENGTHS: (usize, u64) = (32, 4096);
/// Fewest and most characters of a token.
const TOKEN_LENGTHS: (usize, usize) = (16, 256);
/// The suffix of the name of a report whose MAC is missing or wrong.
const REJECTED_SUFFIX: &str = "unproven";

/// The key for the MACs of reports.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// Reads a key: all bytes of a file.
    ///
    /// # Errors
    /// One line with the file's name: it cannot be read, or is too short or too long.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", path.display());
        let (least, most) = KEY_LENGTHS;
        let bytes = files::read(path, most).map_err(named)?;
        if bytes.len() < least {
            return Err(named(format!("a key of {} bytes, allowed: {least} to {most}", bytes.len())));
        }
        Ok(Self(bytes))
    }

    /// The MAC in hexadecimal.
    #[must_use]
    pub(super) fn mac(&self, verdict: &str, body: &[u8]) -> String {
        self.mac_of(verdict, body).map_or_else(String::new, |mac| hex(&mac.finalize().into_bytes()))
    }

    /// Whether `mac`, in hexadecimal, is the MAC; the time that this takes reveals nothing about the right one.
    #[must_use]
    pub fn proves(&self, mac: &str, verdict: &str, body: &[u8]) -> bool {
        let digits: Vec<_> = mac.bytes().map(|digit| char::from(digit).to_digit(16)).collect();
        let byte = |pair: &[Option<u32>]| match pair {
            [Some(high), Some(low)] => u8::try_from(high << 4 | low).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes.zip(self.mac_of(verdict, body)).is_some_and(|(bytes, mac)| mac.verify_slice(&bytes).is_ok())
    }

    fn mac_of(&self, verdict: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        // A key of any length is valid.
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.0).ok()?;
        [verdict.as_bytes(), b"\n", body].into_iter().for_each(|part| mac.update(part));
        Some(mac)
    }
}

/// Reads the token by which a receiver recognizes its senders: one line of a file.
///
/// # Errors
/// One line with the file's name: it cannot be read, or has other content.
pub fn token(path: &Path) -> Result<String, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let (least, most) = TOKEN_LENGTHS;
    let text = String::from_utf8(files::read(path, 4096).map_err(named)?).unwrap_or_default();
    let text = text.trim_end_matches(['\r', '\n']);
    if (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(named(format!("no token, allowed: one line of {least} to {most} visible ASCII characters")))
}

/// The key itself is never shown.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a key of {} bytes", self.0.len())
    }
}

/// Refuses a key on the partition that it protects: any program that can write reports there could read or replace it.
/// If the folder is not a mount point, only the folder itself counts.
///
/// # Errors
/// One line with both names.
pub(super) fn check_key_location(key: &Path, partition: &Path) -> Result<(), String> {
    let named = |path: &Path| {
        let why = |e: io::Error| format!("{}: {e}", path.display());
        let real = fs::canonicalize(path).map_err(why)?;
        Ok::<_, String>((fs::metadata(&real).map_err(why)?.dev(), real))
    };
    let ((key_on, key_at), (device, at)) = (named(key)?, named(partition)?);
    let (above, _) = named(at.parent().unwrap_or(&at))?;
    if key_at.starts_with(&at) || (key_on == device && device != above) {
        let (key, partition) = (key.display(), partition.display());
        return Err(format!("{key}: the key is on the partition {partition}; allowed: a file elsewhere"));
    }
    Ok(())
}

impl ReportStore {
    /// Sets the key.
    #[must_use]
    pub(super) fn with_key(mut self, key: Option<Key>) -> Self {
        self.key = key;
        self
    }

    /// The MAC for a report with this name, if there is a key.
    pub(super) fn mac(&self, name: &str, body: &[u8]) -> Option<String> {
        self.key.as_ref().map(|key| key.mac(verdict_of(name), body))
    }

    /// Verifies the MAC of a stored report, and returns it; `None` without a key.
    ///
    /// # Errors
    /// The MAC is missing, unreadable or wrong.
    pub(super) fn proven(&self, name: &str, body: &[u8]) -> Result<Option<String>, String> {
        let Some(key) = &self.key else { return Ok(None) };
        let stored = self.read(&mac_file_name(name)).map_err(|e| match e.kind() {
            ErrorKind::NotFound => "it has no MAC".to_owned(),
            _ => format!("its MAC cannot be read: {e}"),
        })?;
        let stored = String::from_utf8_lossy(&stored);
        if key.proves(stored.trim_end(), verdict_of(name), body) {
            Ok(self.mac(name, body))
        } else {
            Err("its MAC is wrong".to_owned())
        }
    }

    /// Renames a report so that it is not sent and no longer counts as ours; returns its new name.
    pub(super) fn set_aside(&self, name: &str) -> io::Result<String> {
        let aside = format!("{name}.{REJECTED_SUFFIX}");
        fs::rename(self.dir().join(name), self.dir().join(&aside))?;
        Ok(aside)
    }
}

/// The name of the file with a report's MAC.
pub(super) fn mac_file_name(name: &str) -> String {
    format!("{name}.hmac")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key([b'k'; 32].to_vec())
    }

    /// What the line of docs/reports.md gives:
    /// `{ printf '%s\n' PASS; printf '{}'; } | openssl dgst -sha256 -mac HMAC -macopt hexkey:6b6b..`
    const KNOWN: &str = "e2aa45e820d94c9a3e93043a5eae0ca844911c75fa6f7d4f1d8c2121edd2adb8";

    #[test]
    fn a_mac_is_what_openssl_gives_and_covers_verdict_and_bytes() {
        assert_eq!(key().mac("PASS", b"{}"), KNOWN);
        assert!(key().proves(KNOWN, "PASS", b"{}") && key().proves(&KNOWN.to_uppercase(), "PASS", b"{}"));
        for (mac, verdict, body) in [
            (KNOWN, "FAIL", &b"{}"[..]),
            (KNOWN, "PASS", b"{ }"),
            (KNOWN.get(..62).unwrap(), "PASS", b"{}"),
            ("", "PASS", b"{}"),
            ("no hexadecimal digits", "PASS", b"{}"),
        ] {
            assert!(!key().proves(mac, verdict, body), "{mac} {verdict}");
        }
        assert!(!Key(vec![0; 32]).proves(KNOWN, "PASS", b"{}"));
    }

    #[test]
    fn a_key_has_enough_bytes_and_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("key");
        assert!(Key::read(&at).unwrap_err().contains("key: cannot be read: "));
        for (bytes, why) in [(31, Some("a key of 31 bytes, allowed: 32 to 4096")), (32, None), (4096, None)] {
            fs::write(&at, vec![b'x'; bytes]).unwrap();
            let read = Key::read(&at);
            assert_eq!(read.clone().err().map(|e| e.ends_with(why.unwrap_or("?"))), why.map(|_| true), "{read:?}");
        }
        fs::write(&at, vec![b'x'; 4097]).unwrap();
        assert!(Key::read(&at).unwrap_err().ends_with("larger than 4 KiB"), "{:?}", Key::read(&at));
        assert_eq!(format!("{:?}", key()), "a key of 32 bytes");
    }

    #[test]
    fn a_token_is_one_line_of_visible_characters() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("token");
        assert!(token(&at).unwrap_err().contains("token: cannot be read: "));
        for (text, fine) in [
            ("0123456789abcdef\n", true),
            ("0123456789abcde\n", false),
            ("0123456789abcdef\n0123456789abcdef", false),
            ("0123456789 abcdef", false),
            ("", false),
        ] {
            fs::write(&at, text).unwrap();
            let read = token(&at);
            assert_eq!(read.is_ok(), fine, "{text:?}: {read:?}");
            assert!(read.is_ok_and(|token| token == text.trim_end()) || !fine);
        }
        fs::write(&at, "x".repeat(257)).unwrap();
        assert!(token(&at).unwrap_err().ends_with("one line of 16 to 256 visible ASCII characters"));
    }

    #[test]
    fn a_key_on_the_partition_is_refused() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let partition = dir.path();
        let (inside, outside) = (partition.join("key"), elsewhere.path().join("key"));
        fs::write(&inside, "x").unwrap();
        std::os::unix::fs::symlink(&inside, &outside).unwrap();
        for key in [&inside, &outside] {
            let why = check_key_location(key, partition).unwrap_err();
            assert!(why.starts_with(&key.display().to_string()) && why.contains("is on the partition"), "{why}");
        }
        let beside = elsewhere.path().join("other");
        fs::write(&beside, "x").unwrap();
        assert_eq!(check_key_location(&beside, partition), Ok(()));
        assert!(check_key_location(&partition.join("none"), partition).is_err());
        assert!(check_key_location(Path::new("/proc/version"), Path::new("/proc")).is_err());
    }
}
