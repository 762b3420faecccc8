//! What proves a report: its hash, and its MAC, which proves that a machine with the site's key wrote it. HMAC-SHA256 with
//! that key, over the verdict, a line feed and the report's bytes. The verdict is included because a receiver may act on the
//! verdict alone, and because it may be worse than the report's own.

use hmac::{Hmac, Mac};
use outcome::files;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Fewest and most bytes of a key; fewer than the hash has would make the MAC weaker than the hash.
const KEY_LENGTHS: (usize, u64) = (32, 4096);
/// Fewest and most characters of a token.
const TOKEN_LENGTHS: (usize, usize) = (16, 256);
/// How the file of a machine's own key begins. Other keys are any bytes.
const MACHINE_KEY: &str = "firstlight-machine-key/1 ";
/// The longest name of a machine.
const LONGEST_NAME: usize = 255;

/// The key for the MACs of reports: the fleet's, which all machines share, or that of one machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    bytes: Vec<u8>,
    machine: Option<String>,
}

fn is_machine_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
}

/// Bytes from hexadecimal digits.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = text
        .bytes()
        .map(|digit| char::from(digit).to_digit(16))
        .collect();
    let byte = |pair: &[Option<u32>]| match pair {
        [Some(high), Some(low)] => u8::try_from(high << 4 | low).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

impl Key {
    /// Reads a key: all bytes of a file.
    ///
    /// # Errors
    /// One line with the file's name: it cannot be read, or is too short or too long.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", path.display());
        let (least, most) = KEY_LENGTHS;
        let bytes = files::secret(path, most).map_err(named)?;
        if let Some(rest) = bytes.strip_prefix(MACHINE_KEY.as_bytes()) {
            return Self::from_machine_file(rest).map_err(named);
        }
        if bytes.len() < least {
            return Err(named(format!(
                "a key of {} bytes, allowed: {least} to {most}",
                bytes.len()
            )));
        }
        Ok(Self {
            bytes,
            machine: None,
        })
    }

    /// What follows [`MACHINE_KEY`] in a machine's file: `NAME HEXADECIMAL` and a line end.
    fn from_machine_file(rest: &[u8]) -> Result<Self, String> {
        let refused = || {
            format!(
                "no key of a machine, allowed: one line of {MACHINE_KEY:?}, a name and 64 hexadecimal digits"
            )
        };
        let text = std::str::from_utf8(rest).map_err(|_| refused())?;
        let (name, digits) = text
            .trim_end_matches(['\r', '\n'])
            .split_once(' ')
            .ok_or_else(refused)?;
        let bytes =
            from_hex(digits).filter(|bytes| bytes.len() == KEY_LENGTHS.0 && is_machine_name(name));
        Ok(Self {
            bytes: bytes.ok_or_else(refused)?,
            machine: Some(name.to_owned()),
        })
    }

    /// The key of one machine, made from the fleet's: who has it cannot prove reports of other machines. `name`: host name or
    /// machine id, as the machine's reports have it.
    ///
    /// # Errors
    /// The name is invalid, or this is the key of a machine itself.
    pub fn of_machine(&self, name: &str) -> Result<Self, String> {
        if !is_machine_name(name) {
            return Err(format!(
                "the name of a machine is 1 to {LONGEST_NAME} visible ASCII characters"
            ));
        }
        if self.machine.is_some() {
            return Err("the key is itself that of a machine; the fleet's is needed".to_owned());
        }
        let no_mac = || "no MAC".to_owned();
        let mac = self
            .mac_of(MACHINE_KEY.trim_end(), name.as_bytes())
            .ok_or_else(no_mac)?;
        Ok(Self {
            bytes: mac.finalize().into_bytes().to_vec(),
            machine: Some(name.to_owned()),
        })
    }

    /// The machine whose key this is.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// The content of the file of a machine's key.
    #[must_use]
    pub fn machine_file(&self) -> Option<String> {
        self.machine
            .as_ref()
            .map(|name| format!("{MACHINE_KEY}{name} {}\n", hex(&self.bytes)))
    }

    /// The MAC in hexadecimal.
    #[must_use]
    pub fn mac(&self, verdict: &str, body: &[u8]) -> String {
        self.mac_of(verdict, body)
            .map_or_else(String::new, |mac| hex(&mac.finalize().into_bytes()))
    }

    /// Whether `mac`, in hexadecimal, is the MAC; the time that this takes reveals nothing about the right one.
    #[must_use]
    pub fn proves(&self, mac: &str, verdict: &str, body: &[u8]) -> bool {
        from_hex(mac)
            .zip(self.mac_of(verdict, body))
            .is_some_and(|(bytes, mac)| mac.verify_slice(&bytes).is_ok())
    }

    fn mac_of(&self, verdict: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        // A key of any length is valid.
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.bytes).ok()?;
        [verdict.as_bytes(), b"\n", body]
            .into_iter()
            .for_each(|part| mac.update(part));
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
    let text = String::from_utf8(files::secret(path, 4096).map_err(named)?).unwrap_or_default();
    let text = text.trim_end_matches(['\r', '\n']);
    if (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(named(format!(
        "no token, allowed: one line of {least} to {most} visible ASCII characters"
    )))
}

/// The key itself is never shown.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a key of {} bytes", self.bytes.len())
    }
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn key() -> Key {
        Key {
            bytes: vec![b'k'; 32],
            machine: None,
        }
    }

    /// What the line of docs/reports.md gives:
    /// `{ printf '%s\n' PASS; printf '{}'; } | openssl dgst -sha256 -mac HMAC -macopt hexkey:6b6b..`
    const KNOWN: &str = "e2aa45e820d94c9a3e93043a5eae0ca844911c75fa6f7d4f1d8c2121edd2adb8";

    #[test]
    fn a_mac_is_what_openssl_gives_and_covers_verdict_and_bytes() {
        assert_eq!(key().mac("PASS", b"{}"), KNOWN);
        assert!(
            key().proves(KNOWN, "PASS", b"{}")
                && key().proves(&KNOWN.to_uppercase(), "PASS", b"{}")
        );
        for (mac, verdict, body) in [
            (KNOWN, "FAIL", &b"{}"[..]),
            (KNOWN, "PASS", b"{ }"),
            (KNOWN.get(..62).unwrap(), "PASS", b"{}"),
            ("", "PASS", b"{}"),
            ("no hexadecimal digits", "PASS", b"{}"),
        ] {
            assert!(!key().proves(mac, verdict, body), "{mac} {verdict}");
        }
        assert!(
            !Key {
                bytes: vec![0; 32],
                machine: None
            }
            .proves(KNOWN, "PASS", b"{}")
        );
    }

    #[test]
    fn a_machines_key_proves_its_own_reports_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("key");
        let own = key().of_machine("node7").unwrap();
        // `printf '%s\n%s' firstlight-machine-key/1 node7 | openssl dgst -sha256 -mac HMAC -macopt hexkey:6b6b..`
        let file = own.machine_file().unwrap();
        assert_eq!(
            file,
            "firstlight-machine-key/1 node7 5485c3d6ffa8bfc669873c8ac7642ced73003309a0d46f23b8736fd46e14038a\n"
        );
        fs::write(&at, &file).unwrap();
        let read = Key::read(&at).unwrap();
        assert_eq!((&read, read.machine()), (&own, Some("node7")));
        let mac = own.mac("PASS", b"{}");
        assert!(own.proves(&mac, "PASS", b"{}") && mac != KNOWN);
        for other in [key(), key().of_machine("node8").unwrap()] {
            assert!(!other.proves(&mac, "PASS", b"{}"), "{:?}", other.machine());
        }
        for name in ["", "two words", "a\nb", &"x".repeat(256)] {
            assert!(key().of_machine(name).is_err(), "{name}");
        }
        assert!(
            own.of_machine("node8")
                .unwrap_err()
                .contains("the fleet's is needed")
        );
        for bad in [
            file.trim_end_matches(['0', '\n']).get(..60).unwrap(),
            "firstlight-machine-key/1 x",
            MACHINE_KEY,
        ] {
            fs::write(&at, bad).unwrap();
            assert!(
                Key::read(&at).unwrap_err().contains("no key of a machine"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_key_has_enough_bytes_and_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("key");
        assert!(
            Key::read(&at)
                .unwrap_err()
                .contains("key: cannot be read: ")
        );
        for (bytes, why) in [
            (31, Some("a key of 31 bytes, allowed: 32 to 4096")),
            (32, None),
            (4096, None),
        ] {
            fs::write(&at, vec![b'x'; bytes]).unwrap();
            let read = Key::read(&at);
            assert_eq!(
                read.clone().err().map(|e| e.ends_with(why.unwrap_or("?"))),
                why.map(|_| true),
                "{read:?}"
            );
        }
        fs::write(&at, vec![b'x'; 4097]).unwrap();
        assert!(
            Key::read(&at).unwrap_err().ends_with("larger than 4 KiB"),
            "{:?}",
            Key::read(&at)
        );
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
        assert!(
            token(&at)
                .unwrap_err()
                .ends_with("one line of 16 to 256 visible ASCII characters")
        );
    }

    #[test]
    fn a_digest_is_what_sha256sum_prints() {
        assert_eq!(
            digest(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
