//! Does signing leave the unsigned files alone, produce signatures that anyone can attach to them, keep the private key out
//! of its output, and refuse unusable keys with one line?

use harness::signed::SignedMedia;
use harness::stick::{CD_SYSTEM, SYSTEM, Stick};
use harness::{Image, workspace};
use memchr::memmem;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

static SIGNED: LazyLock<SignedMedia> = LazyLock::new(|| SignedMedia::shipped("signing").unwrap());

fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

/// Every file below a folder, by its path relative to the folder.
fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                found.insert(
                    entry
                        .strip_prefix(folder)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                    entry,
                );
            }
        }
    }
    found
}

/// The unsigned form of every file that is signed, from the shipped image and media.
fn unsigned() -> BTreeMap<&'static str, Vec<u8>> {
    let image = Image::shipped();
    let pxe = image.pxe().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let stick = Stick::shipped(dir.path()).unwrap();
    let addon = "EFI/Linux/firstlight.efi.extra.d/stick.addon.efi";
    let mut all = BTreeMap::from([
        (
            "BOOTX64.EFI",
            stick.get(SYSTEM, "EFI/BOOT/BOOTX64.EFI").unwrap(),
        ),
        ("stick.addon.efi", stick.get(SYSTEM, addon).unwrap()),
    ]);
    for name in [
        "firstlight.efi",
        "firstlight-pt.efi",
        "vmlinuz",
        "vmlinuz-pt",
        "ipxe.efi",
    ] {
        all.insert(name, bytes(pxe.join(name)));
    }
    all
}

fn in_signing(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(workspace().join("image/in-tools.sh"));
    let bind = format!("{}:/build/here", dir.display());
    command
        .args(["signing", "--bind", &bind, "--cwd", "/build/here"])
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn each_signature_attached_to_the_unsigned_file_gives_the_signed_one() {
    let dir = tempfile::tempdir().unwrap();
    let efi = SIGNED.folder().join("efi");
    let unsigned = unsigned();
    let there: Vec<_> = files(&efi)
        .into_keys()
        .filter(|n| !n.ends_with(".sig"))
        .collect();
    assert_eq!(
        there,
        unsigned.keys().map(|n| (*n).to_owned()).collect::<Vec<_>>()
    );
    fs::copy(
        SIGNED.folder().join("certificate.pem"),
        dir.path().join("certificate.pem"),
    )
    .unwrap();
    for (name, content) in unsigned {
        let signed = bytes(efi.join(name));
        assert!(signed != content, "{name} is not signed");
        fs::write(dir.path().join("file"), content).unwrap();
        fs::copy(efi.join(format!("{name}.sig")), dir.path().join("file.sig")).unwrap();
        let output = in_signing(dir.path(), &["sbattach", "--attach", "file.sig", "file"]);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(bytes(dir.path().join("file")) == signed, "{name} differs");
        let verify =
            |file| in_signing(dir.path(), &["sbverify", "--cert", "certificate.pem", file]).status;
        assert!(verify("file").success(), "{name}");
        let mut changed = signed;
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(dir.path().join("changed"), changed).unwrap();
        assert!(
            !verify("changed").success(),
            "{name}: a changed file passes the verification"
        );
    }
}

#[test]
fn signed_media_have_the_same_layout_and_hold_the_signed_files() {
    let dir = tempfile::tempdir().unwrap();
    let unsigned = Stick::shipped(dir.path()).unwrap();
    let before = bytes(unsigned.path());
    let signed = Stick::copy(&SIGNED.folder().join("firstlight-usb.img"), dir.path()).unwrap();
    let after = bytes(signed.path());
    // The partition table is the same, ids included.
    assert!(before.len() == after.len() && before[..34 * 512] == after[..34 * 512]);
    let efi = |name: &str| bytes(SIGNED.folder().join("efi").join(name));
    for (path, name) in [
        ("EFI/BOOT/BOOTX64.EFI", "BOOTX64.EFI"),
        ("EFI/Linux/firstlight.efi", "firstlight.efi"),
        (
            "EFI/Linux/firstlight.efi.extra.d/stick.addon.efi",
            "stick.addon.efi",
        ),
    ] {
        assert!(signed.get(SYSTEM, path).unwrap() == efi(name), "{path}");
    }
    let cd = Stick::copy(&SIGNED.folder().join("firstlight.iso"), dir.path()).unwrap();
    for (path, name) in [
        ("EFI/BOOT/BOOTX64.EFI", "BOOTX64.EFI"),
        ("EFI/Linux/firstlight.efi", "firstlight.efi"),
    ] {
        assert!(
            cd.get(CD_SYSTEM, path).unwrap() == efi(name),
            "{path} of the CD"
        );
    }
    let (pxe, here) = (
        SIGNED.folder().join("pxe"),
        files(&Image::shipped().pxe().unwrap()),
    );
    assert_eq!(
        files(&pxe).into_keys().collect::<Vec<_>>(),
        here.keys().cloned().collect::<Vec<_>>()
    );
    for (name, path) in here.iter().filter(|(name, _)| *name != "SHA256SUMS") {
        let signed = SIGNED.folder().join("efi").join(name);
        let expected = if signed.exists() {
            bytes(signed)
        } else {
            bytes(path)
        };
        assert!(bytes(pxe.join(name)) == expected, "{name}");
    }
}

#[test]
fn the_checksums_of_signed_media_are_complete_and_right() {
    for folder in [SIGNED.folder(), SIGNED.folder().join("pxe")] {
        let mut check = Command::new("sha256sum");
        check
            .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
            .current_dir(&folder);
        let output = check.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let listed = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
        for name in files(&folder)
            .keys()
            .filter(|n| *n != "SHA256SUMS" && !n.starts_with('.'))
        {
            assert!(
                listed.lines().any(|l| l.ends_with(&format!("  {name}"))),
                "{name} is not listed"
            );
        }
    }
}

#[test]
fn the_private_key_is_in_no_output() {
    let key = fs::read_to_string(SIGNED.keys().join("db.key")).unwrap();
    // A line from the middle: base64 of the key's numbers.
    let line = key.lines().nth(10).unwrap().as_bytes();
    assert_eq!(line.len(), 64);
    let der = in_signing(
        &SIGNED.keys(),
        &["openssl", "pkey", "-in", "db.key", "-outform", "DER"],
    )
    .stdout;
    assert!(der.len() > 1000);
    let secret = &der[der.len() - 64..];
    for (name, path) in files(&SIGNED.folder()) {
        let content = bytes(path);
        let holds = |part: &[u8]| memmem::find(&content, part).is_some();
        assert!(!holds(line) && !holds(secret), "{name} holds the key");
    }
}

/// Writes the key files that the rejected arguments name, each wrong in one way.
fn wrong_keys(dir: &Path) {
    let script = "
        openssl pkey -in db.key -aes256 -passout pass:x -out encrypted.key
        openssl req -x509 -key db.key -subj /CN=old -config /dev/null -out expired.pem \
            -not_before 20200101000000Z -not_after 20210101000000Z
        openssl req -x509 -key db.key -subj /CN=new -config /dev/null -out early.pem \
            -not_before 20900101000000Z -not_after 20910101000000Z
        openssl req -x509 -newkey rsa:1024 -noenc -subj /CN=short -config /dev/null -keyout short.key -out short.pem
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=ec -config /dev/null \
            -keyout ec.key -out ec.pem";
    for name in ["db.key", "db.pem", "PK.key", "db.cer"] {
        fs::copy(SIGNED.keys().join(name), dir.join(name)).unwrap();
    }
    let output = in_signing(dir, &["sh", "-euc", script]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn unusable_keys_are_refused_in_one_line_and_nothing_is_left() {
    let dir = tempfile::tempdir_in(workspace().join("target")).unwrap();
    let keys = dir.path().join("keys");
    fs::create_dir(&keys).unwrap();
    wrong_keys(&keys);
    let to = dir.path().join("to");
    for (key, cert, words) in [
        (
            "PK.key",
            "db.pem",
            "PK.key is not the key of the certificate",
        ),
        ("encrypted.key", "db.pem", "encrypted.key is encrypted"),
        (
            "db.key",
            "expired.pem",
            "expired.pem has expired (it was valid until Jan  1 00:00:00 2021 GMT)",
        ),
        ("db.key", "early.pem", "early.pem is not valid yet"),
        (
            "short.key",
            "short.pem",
            "allowed: RSA of 2048 bits or more",
        ),
        ("ec.key", "ec.pem", "allowed: RSA of 2048 bits or more"),
        ("none.key", "db.pem", "none.key is not there"),
        ("db.key", "none.pem", "none.pem is not there"),
        ("db.pem", "db.pem", "db.pem is not a private key in PEM"),
        ("db.key", "db.key", "db.key is not a certificate in PEM"),
        ("db.key", "db.cer", "db.cer is not a certificate in PEM"),
    ] {
        let mut sign = Command::new(workspace().join("image/trust/sign.sh"));
        let output = sign
            .args([keys.join(key), keys.join(cert)])
            .arg(&to)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(words),
            "{key} {cert}: {text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["keys"], "{key} {cert}");
    }
}

#[test]
fn foreign_folders_and_existing_keys_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine"), "mine").unwrap();
    let keys = SIGNED.keys();
    let refused = |script: &str, words: &[&Path], message: &str| {
        let output = Command::new(workspace().join("image/trust").join(script))
            .args(words)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(message), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    let (key, cert) = (keys.join("db.key"), keys.join("db.pem"));
    refused(
        "sign.sh",
        &[&key, &cert, dir.path()],
        "was not made by sign",
    );
    refused("sign.sh", &[&key], "sign KEY CERT [FOLDER]");
    refused("keys.sh", &[dir.path()], "keys are never replaced");
    assert_eq!(files(dir.path()).into_keys().collect::<Vec<_>>(), ["mine"]);
}
