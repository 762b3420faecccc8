//! Checks detached minisign signatures of configuration files, for images that demand them (`config.key`).
//! A signature proves who made the content, but neither when nor for which machine.

use minisign_verify::{Error, PublicKey, Signature};

/// The extension of a signature file: the signature of `FILE` is in `FILE.minisig`.
pub const EXTENSION: &str = "minisig";

/// Maximum size of a signature in bytes: minisign's own comments take at most 1 KiB and 8 KiB.
pub const LARGEST: u64 = 10 << 10;

/// A public key as minisign prints it.
#[must_use]
pub fn key(text: &str) -> Option<String> {
    PublicKey::from_base64(text)
        .is_ok()
        .then(|| text.to_owned())
}

/// Checks the signature of a file's content.
///
/// # Errors
/// What is wrong, worded to follow the file's name.
pub fn check(key: &str, content: &[u8], signature: &str) -> Result<(), String> {
    let key = PublicKey::from_base64(key)
        .map_err(|_| "config.key is no minisign public key".to_owned())?;
    let read = Signature::decode(signature)
        .map_err(|_| format!("its signature (.{EXTENSION}) is not what minisign writes"))?;
    // The old kind signs the file itself; for new files there is no reason to accept a second construction.
    key.verify(content, &read, false).map_err(|error| {
        let why = match error {
            Error::UnexpectedKeyId => "was made with another key than config.key",
            Error::UnexpectedAlgorithm => "is of minisign's old kind; sign without -l, or with -H",
            _ => "does not fit its content",
        };
        format!("its signature (.{EXTENSION}) {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made with minisign 0.11 and keys that exist for these tests only.
    const KEY: &str = "RWSDbFQ9yZTA5iopg0fk1uSkMdQXIm16pP2pc0Nf+fA93zw87PAExNNY";
    const CONTENT: &[u8] = b"[policy]\non_pass = \"reboot\"\n";
    const GOOD: &str = "untrusted comment: signature from minisign secret key
RUSDbFQ9yZTA5oe5Zn58qJqOuckgHEAaCaToWZphgaq7hlsaOnSPHcEPt4OXBvOjTYoCzPukrh3y80Rn5q99p1jjxxVti+iergA=
trusted comment: a file for tests
7r1qAjb3RMRzntI6C8M4CsVWto8uRiMwZeeedGihJuh6t4Mmf1SotKjY1Y0/ma6aLFOFtY0PjbUAIMce03pABA==
";
    const LEGACY: &str = "untrusted comment: signature from minisign secret key
RWSDbFQ9yZTA5gfJVwnfPFQPy1NaE9tI7Dg6hd3DFnBrNKU5BzhnEWG3QtYEbxBIhUurl9F0NI+m+1/qNgQT0yiC8gF1bYbHxAo=
trusted comment: a file for tests
4HEosTakJFEtfrae2G2Wpvy89+5rMQH0UoUk+gi+ZXuwm4Mm5eou1rlEBN2cmq5ZwvV5PwvMh/r6wgDC5ZNPDw==
";
    const OTHER: &str = "untrusted comment: signature from minisign secret key
RUTMSW2k6d/MfuS1/zlZq5vYfhXqFcefw+Zadru/KSfLmJqI42Of6MTD2mQiZ9oz4FPemGcp4X3rExJ4McWYu+q9CJuO7lkSnws=
trusted comment: a file for tests
S8Be265Zd8HBe8gWznLTepftbx0AuWF+AQETAH59bVpxs6kc6xpAGG+1W7bdbTATm9I/L0HcAHODiobZiu1CAw==
";

    #[test]
    fn only_the_keys_own_signature_of_this_content_fits() {
        assert_eq!(check(KEY, CONTENT, GOOD), Ok(()));
        assert_eq!(
            check(KEY, CONTENT, &GOOD.replace('\n', "\r\n")),
            Ok(()),
            "a file from Windows"
        );
        let comment = GOOD.replace("a file for", "a file from");
        let cases = [
            (
                b"[policy]\non_pass = \"shell\"\n".as_slice(),
                GOOD,
                "does not fit its content",
            ),
            (CONTENT, &comment, "does not fit its content"),
            (CONTENT, OTHER, "was made with another key than config.key"),
            (
                CONTENT,
                LEGACY,
                "is of minisign's old kind; sign without -l, or with -H",
            ),
            (CONTENT, "", "is not what minisign writes"),
            (CONTENT, "a\nb\nc\nd\n", "is not what minisign writes"),
        ];
        for (content, signature, why) in cases {
            let said = check(KEY, content, signature).unwrap_err();
            assert_eq!(
                said,
                format!("its signature (.minisig) {why}"),
                "{signature}"
            );
        }
        assert!(
            check("RWQ", CONTENT, GOOD)
                .unwrap_err()
                .starts_with("config.key is no ")
        );
    }

    #[test]
    fn every_changed_character_of_a_signature_is_noticed() {
        let (at, _) = GOOD.match_indices('\n').next().unwrap();
        for (place, old) in GOOD
            .char_indices()
            .filter(|(place, c)| *place > at && !c.is_whitespace())
        {
            let new = if old == 'A' { "B" } else { "A" };
            let mut changed = GOOD.to_owned();
            changed.replace_range(place..=place, new);
            assert!(check(KEY, CONTENT, &changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn a_key_is_56_characters_of_base64() {
        assert!(key(KEY).is_some());
        for bad in [
            "",
            "RWQ",
            &KEY.to_lowercase(),
            &format!("{KEY}A"),
            &KEY.replace("RW", "AA"),
        ] {
            assert!(key(bad).is_none(), "{bad}");
        }
    }
}
