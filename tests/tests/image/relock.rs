//! Renewing the lock file: does it report what changed, and does a pinned version that is gone give a clear message?
//! The test makes its own small Debian archive, in a folder that FIRSTLIGHT_ARCHIVE names.

use harness::Checkout;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A checkout that uses its own Debian archive.
struct LockCheckout(Checkout);

fn sh(at: &Path, script: &str) {
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
}

impl LockCheckout {
    fn new() -> Self {
        let checkout = Self(Checkout::new(&["image/"]).unwrap());
        fs::create_dir_all(checkout.0.path("debian/dists/trixie/main/binary-amd64")).unwrap();
        checkout.write_package_list("ipxe   loaders\n");
        checkout
    }

    /// Writes the list of packages for use `media`.
    fn write_package_list(&self, list: &str) {
        fs::write(
            self.0.path("image/packages.list"),
            format!("[media]\n{list}[tools]\nother\n"),
        )
        .unwrap();
    }

    /// Adds a package to the archive, with a changelog unless that is empty.
    fn package(&self, name: &str, version: &str, changelog: &str) {
        let tree = self.0.path(&format!("{name}-{version}"));
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@localhost>\nDescription: a test\n"
        );
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        if !changelog.is_empty() {
            let doc = tree.join(format!("usr/share/doc/{name}"));
            fs::create_dir_all(&doc).unwrap();
            fs::write(doc.join("changelog.Debian"), changelog).unwrap();
            sh(&doc, "gzip -9n changelog.Debian");
        }
        sh(
            &self.0.path("debian"),
            &format!(
                "deb={name}_{version}_all.deb; dpkg-deb --root-owner-group --build ../{name}-{version} $deb > /dev/null
                 {{ dpkg-deb --field $deb; echo Filename: $deb; echo Size: $(stat -c %s $deb)
                    echo SHA256: $(sha256sum < $deb | cut -d' ' -f1); echo; }} >> dists/trixie/main/binary-amd64/Packages
                 cd dists/trixie; p=main/binary-amd64/Packages
                 {{ printf 'Codename: trixie\\nSuite: trixie\\nComponents: main\\nArchitectures: amd64\\nDate: '; date -Ru
                    printf 'SHA256:\\n %s %s %s\\n' $(sha256sum < $p | cut -d' ' -f1) $(stat -c %s $p) $p; }} > Release"
            ),
        );
    }

    fn lock(&self, lines: &str) {
        fs::write(self.0.path("image/inputs.lock"), lines).unwrap();
    }

    fn run(&self, script: &str, words: &[&str]) -> Output {
        let archive = format!(
            "[trusted=yes] file:{}",
            fs::canonicalize(self.0.path("debian")).unwrap().display()
        );
        let mut command = self.0.script(script);
        command
            .args(words)
            .env("FIRSTLIGHT_CACHE", self.0.path("cache"));
        command.env("FIRSTLIGHT_ARCHIVE", archive).output().unwrap()
    }

    /// Renews the lines of use `media`; returns standard output and standard error.
    fn relock(&self) -> (String, String) {
        let output = self.run("image/reproduce/relock.sh", &["media"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }
}

const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn relock_names_each_package_its_versions_and_its_changelog() {
    let checkout = LockCheckout::new();
    checkout.package(
        "ipxe",
        "2.0-1",
        "ipxe (2.0-1) unstable; urgency=low\n\n  [ Somebody ]\n  * Knows a new card,\n    and its older sister.\n  * Another.\n\n\
         -- S <s@localhost>  Mon, 01 Jan 2024 00:00:00 +0000\n\nipxe (1.0-1) unstable; urgency=low\n\n  * Old news.\n",
    );
    checkout.package("added", "1.5", "");
    checkout.write_package_list("ipxe   loaders\nadded  a test\n");
    checkout.lock(&format!(
        "# a lock\nsource mkosi 25.3-7 all 5 {ZEROS}\nmedia ipxe 1.0-1 all 5 {ZEROS}\nmedia left 3 all 5 {ZEROS}\n"
    ));
    let (changes, log) = checkout.relock();
    assert_eq!(
        changes,
        "media added added 1.5\n    unknown: there is no changelog in this package\n\
         media ipxe 1.0-1 -> 2.0-1\n    Knows a new card, and its older sister.\n\
         media left 3 removed\n"
    );
    assert!(!log.contains("nothing newer"), "{log}");
    let lock = fs::read_to_string(checkout.0.path("image/inputs.lock")).unwrap();
    assert!(
        lock.contains(&format!("\nsource mkosi 25.3-7 all 5 {ZEROS}\n")),
        "another use changed:\n{lock}"
    );
    assert!(lock.contains("\nmedia ipxe 2.0-1 all "), "{lock}");

    let (changes, log) = checkout.relock();
    assert!(
        changes.is_empty() && log.contains("nothing newer"),
        "{changes}{log}"
    );
    assert_eq!(
        fs::read_to_string(checkout.0.path("image/inputs.lock")).unwrap(),
        lock
    );
}

#[test]
fn locked_packages_come_from_the_named_archive() {
    let checkout = LockCheckout::new();
    checkout.package("ipxe", "2.0-1", "");
    checkout.lock("");
    checkout.relock();
    let deb = checkout.0.path("cache/debs/ipxe_2.0-1_all.deb");
    fs::remove_file(&deb).unwrap();
    let output = checkout.run("image/fetch.sh", &["media"]);
    assert!(output.status.success() && deb.exists(), "{output:?}");
}

#[track_caller]
fn assert_one_error(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<_> = text
        .lines()
        .filter(|l| l.starts_with("firstlight: error:"))
        .collect();
    assert!(!output.status.success() && errors.len() == 1, "{text}");
    assert!(
        words.iter().all(|w| errors[0].contains(w)),
        "{words:?} are not in: {}",
        errors[0]
    );
}

#[test]
fn a_version_that_has_left_the_archive_is_named_with_the_alternatives() {
    let checkout = LockCheckout::new();
    checkout.package("ipxe", "2.0-1", "");
    checkout.package("there", "1", "");
    let (_, ipxe) = (checkout.lock(""), checkout.relock());
    assert!(ipxe.0.contains("media ipxe added 2.0-1"), "{}", ipxe.0);
    let there = fs::read(checkout.0.path("debian/there_1_all.deb"))
        .unwrap()
        .len();
    checkout.lock(&format!(
        "media ipxe 1.0-1 all 5 {ZEROS}\nmedia there 1 all {there} {ZEROS}\n"
    ));
    let output = checkout.run("image/fetch.sh", &["media"]);
    let ways = [
        "./run image --offline FILE",
        "just vendor",
        "FIRSTLIGHT_ARCHIVE=URL",
        "just relock",
    ];
    assert_one_error(&output, &["no longer in the archive", ": ipxe 1.0-1 ("]);
    assert_one_error(&output, &ways);
    // the archive has a file of this version, but not the locked one
    checkout.lock(&format!("media there 1 all {there} {ZEROS}\n"));
    assert_one_error(
        &checkout.run("image/fetch.sh", &["media"]),
        &["there_1_all.deb is not the locked file", ZEROS],
    );
}

#[test]
fn an_archive_that_is_no_url_is_refused() {
    let checkout = LockCheckout::new();
    checkout.lock(&format!("media ipxe 1.0-1 all 5 {ZEROS}\n"));
    let mut fetch = checkout.0.script("image/fetch.sh");
    fetch
        .arg("media")
        .env("FIRSTLIGHT_CACHE", checkout.0.path("cache"))
        .env("FIRSTLIGHT_ARCHIVE", "yesterday");
    assert_one_error(
        &fetch.output().unwrap(),
        &[
            "FIRSTLIGHT_ARCHIVE is 'yesterday'",
            "the URL of a Debian archive",
        ],
    );
}

/// Makes an NCCL wheel in a folder that pip uses in place of the registry; returns its size in bytes.
fn wheel(checkout: &LockCheckout, version: &str) -> usize {
    let name = format!("nvidia_nccl_cu13-{version}-py3-none-manylinux_2_17_x86_64.whl");
    let info = format!("nvidia_nccl_cu13-{version}.dist-info");
    let script = format!(
        "mkdir -p {info} wheels; printf 'Metadata-Version: 2.1\\nName: nvidia-nccl-cu13\\nVersion: {version}\\n' > {info}/METADATA
         printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-manylinux_2_17_x86_64\\n' > {info}/WHEEL; : > {info}/RECORD
         python3 -m zipfile -c wheels/{name} {info}"
    );
    sh(&checkout.0.path(""), &script);
    fs::read(checkout.0.path("wheels").join(name))
        .unwrap()
        .len()
}

#[test]
fn a_wheel_is_locked_by_its_bytes_and_a_changed_one_is_refused() {
    let checkout = LockCheckout::new();
    let run = |script: &str, word: &str| {
        let mut command = checkout.0.script(script);
        command
            .arg(word)
            .env("FIRSTLIGHT_CACHE", checkout.0.path("cache"));
        command
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", checkout.0.path("wheels"))
            .output()
            .unwrap()
    };
    checkout.lock("");
    fs::create_dir_all(checkout.0.path("cache/debs")).unwrap();
    wheel(&checkout, "2.31.2");
    let size = wheel(&checkout, "2.32.3");
    let output = run("image/reproduce/relock.sh", "driver-nccl-cu13");
    let changes = String::from_utf8_lossy(&output.stdout);
    assert!(
        changes.contains("driver-nccl-cu13 nvidia-nccl-cu13 added 2.32.3\n"),
        "{output:?}"
    );
    let lock = fs::read_to_string(checkout.0.path("image/inputs.lock")).unwrap();
    assert!(
        lock.contains(&format!(
            "\ndriver-nccl-cu13 nvidia-nccl-cu13 2.32.3 wheel {size} "
        )),
        "{lock}"
    );

    let kept = checkout.0.path("cache/debs/nvidia-nccl-cu13-2.32.3.whl");
    fs::remove_file(&kept).unwrap();
    let output = run("image/fetch.sh", "driver-nccl-cu13");
    assert!(output.status.success() && kept.exists(), "{output:?}");

    checkout.lock(&format!(
        "driver-nccl-cu13 nvidia-nccl-cu13 2.32.3 wheel {size} {ZEROS}\n"
    ));
    assert_one_error(
        &run("image/fetch.sh", "driver-nccl-cu13"),
        &["nvidia-nccl-cu13-2.32.3.whl is not the locked", ZEROS],
    );
    checkout.lock(&format!(
        "driver-nccl-cu13 nvidia-nccl-cu13 9.9.9 wheel {size} {ZEROS}\n"
    ));
    assert_one_error(
        &run("image/fetch.sh", "driver-nccl-cu13"),
        &["the Python registry does not deliver nvidia-nccl-cu13 9.9.9"],
    );
}
