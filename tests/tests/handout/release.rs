//! `./run release`: two releases of one commit, in two folders, and what a key adds.

use super::told;
use harness::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

#[track_caller]
fn sh(at: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A clone of this checkout's commit with its release; what was compiled of other projects' crates is taken over.
fn release(words: &[&str]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(workspace().join("target")).unwrap();
    let clone = dir.path().join("clone");
    let from = fs::canonicalize(workspace()).unwrap();
    sh(
        dir.path(),
        &format!("git clone -q '{}' clone", from.display()),
    );
    let target = format!("{}/target", from.display());
    sh(
        &clone,
        &format!("mkdir -p target/image target/package; ln -s '{target}/tools' target/tools"),
    );
    for compiled in ["image/rust", "package/rust"] {
        sh(
            &clone,
            &format!(
                "[ ! -e '{target}/{compiled}' ] || cp -a '{target}/{compiled}' target/{compiled}"
            ),
        );
    }
    let mut package = Command::new(clone.join("image/package/build.sh"));
    let output = told(package.current_dir(&clone));
    assert!(output.status.success());
    let mut command = Command::new(clone.join("image/release/build.sh"));
    let output = told(command.args(words).current_dir(&clone));
    assert!(output.status.success());
    (dir, clone.join("target/image/release"))
}

#[test]
fn two_releases_of_one_commit_are_the_same_bytes_and_a_key_signs_them() {
    let keys = tempfile::tempdir().unwrap();
    let folder = keys.path().join("keys");
    let made = Command::new(workspace().join("image/trust/keys.sh"))
        .arg(&folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let [key, cert] =
        ["db.key", "db.pem"].map(|name| folder.join(name).to_str().unwrap().to_owned());

    let (_first, plain) = release(&[]);
    let (_second, signed) = release(&["--key", &key, "--cert", &cert]);
    let more = sh(&signed, "find . -type f -printf '%P\\n' | sort");
    let more: Vec<_> = more
        .lines()
        .filter(|name| !plain.join(name).exists())
        .collect();
    let names = sh(&plain, "find . -type f -printf '%P\\n' | sort");
    let version = env!("CARGO_PKG_VERSION");
    for name in names.lines() {
        let [ours, theirs] = [&plain, &signed].map(|folder| fs::read(folder.join(name)).unwrap());
        assert!(ours == theirs, "{name} differs");
    }
    for name in [
        &*format!("firstlight-{version}-x86_64.efi"),
        &format!("firstlight_{version}_amd64.deb"),
        &format!("firstlight-{version}-1.x86_64.rpm"),
        &format!("firstlight-{version}-x86_64.tar.xz"),
        &format!("firstlight_{version}_arm64.deb"),
        &format!("firstlight-{version}-1.aarch64.rpm"),
        &format!("firstlight-{version}-aarch64.tar.xz"),
        "firstlight.spdx.json",
        "firstlight.provenance.json",
        "NOTES.txt",
        "SHA256SUMS",
    ] {
        assert!(
            names.lines().any(|found| found == name),
            "{name} is not in: {names}"
        );
    }
    assert!(names.contains("firstlight-kernel-"), "{names}");
    sh(&plain, "sha256sum --check --strict --quiet SHA256SUMS");
    let listed = sh(&plain, "cut -c67- SHA256SUMS | sort");
    let present = sh(
        &plain,
        "find . -type f ! -name SHA256SUMS ! -name '.*' -printf '%P\\n' | sort",
    );
    assert_eq!(listed, present);

    let uki = format!("signed/firstlight-{version}-x86_64.efi");
    assert_eq!(
        more,
        [
            "SHA256SUMS.sig",
            "signed/certificate.pem",
            &uki,
            &format!("{uki}.sig")
        ]
    );
    let verify = "openssl x509 -in signed/certificate.pem -noout -pubkey > ../public.pem
        openssl dgst -sha256 -verify ../public.pem -signature SHA256SUMS.sig SHA256SUMS";
    sh(&signed, verify);
    let bind = format!("{}:/build/here", signed.display());
    let mut check = Command::new(workspace().join("image/in-tools.sh"));
    check.args([
        "signing",
        "--bind",
        &bind,
        "--cwd",
        "/build/here",
        "sbverify",
        "--cert",
        "signed/certificate.pem",
        &uki,
    ]);
    assert!(
        check.output().unwrap().status.success(),
        "{uki} is not signed"
    );
    let sums = fs::read_to_string(signed.join("SHA256SUMS")).unwrap();
    fs::write(signed.join("SHA256SUMS"), sums.replacen('0', "1", 1)).unwrap();
    let changed = Command::new("sh")
        .args(["-euc", verify])
        .current_dir(&signed)
        .output()
        .unwrap();
    assert!(!changed.status.success(), "a changed list is accepted");
}
