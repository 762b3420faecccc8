//! Do image and media have the same bytes when they are built without network from an archive that `just vendor` made? The
//! build runs on a system that is not Debian, in the Debian folder from the archive. Kernel and driver come from the cache,
//! since they take half an hour, and the validator from this checkout's image; tools trees, the program of process 1, image and
//! media are built. `./run reproduce` builds everything, on Debian too.

use super::any_linux::run_on_fedora;
use harness::error::output;
use harness::{Checkout, Image, cache, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Packs the archive of inputs.
fn vendored(checkout: &Path, to: &Path) {
    let output = Command::new(checkout.join("image/reproduce/vendor.sh"))
        .arg(to)
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("packed 400 of "), "no progress:\n{text}");
    assert!(text.contains(" bytes, SHA256 "), "{text}");
}

/// The files' order, owners, times and permissions are the same on every host; their bytes are locked by their hashes.
fn assert_no_host_metadata(archive: &Path) {
    let mut list = Command::new("tar");
    list.args([
        "--list",
        "--verbose",
        "--numeric-owner",
        "--full-time",
        "--utc",
        "--file",
    ])
    .arg(archive);
    let listing = output(&mut list).unwrap();
    let rows: Vec<_> = listing
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    assert!(rows.len() > 400, "{listing}");
    for row in &rows {
        let [mode, owner, _, date, time, _] = row[..] else {
            panic!("{row:?}")
        };
        assert!(["-rw-r--r--", "-rwxr-xr-x"].contains(&mode), "{row:?}");
        assert_eq!(
            (owner, date, time),
            ("0/0", rows[0][3], rows[0][4]),
            "{row:?}"
        );
    }
    assert_eq!(rows[0][5], "firstlight-inputs/SHA256SUMS");
    assert!(rows[1..].is_sorted_by_key(|row| row[5]), "{listing}");
}

#[test]
fn without_network_the_archive_of_inputs_gives_the_same_bytes() {
    let copy = Checkout::new(&[]).unwrap();
    let archive = copy.path("inputs.tar");
    vendored(copy.top(), &archive);
    assert_no_host_metadata(&archive);

    reuse_compiled_crates(&copy);
    let own_cache = copy.path("cache");
    fs::create_dir(&own_cache).unwrap();
    for built in ["kernel", "driver"] {
        symlink(cache().join(built), own_cache.join(built)).unwrap();
    }
    let mut build = run_on_fedora(
        &copy,
        &["media".as_ref(), "--offline".as_ref(), archive.as_os_str()],
    );
    let output = build.env("FIRSTLIGHT_CACHE", &own_cache).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("runs in a Debian 13 folder") && text.contains("built offline from "),
        "{text}"
    );
    assert!(
        text.contains("Compiling firstlight-init "),
        "nothing was compiled offline: {text}"
    );
    assert!(
        !copy.path("target/offline").exists(),
        "the unpacked archive is left behind"
    );
    assert_same_as_shipped(&copy);
}

/// Gives the offline build what cargo compiled of the registry's crates and the validator for the shipped image, which takes
/// minutes. Cargo reuses it only if name, version, features and our files' modification times match the archive's crates and
/// the checkout; the program of process 1, whose file is newer than its build output, is compiled and linked again.
/// `./run reproduce` compiles everything.
fn reuse_compiled_crates(copy: &Checkout) {
    let (shipped, compiled) = (
        workspace().join("target/image/rust"),
        copy.path("target/image/rust-offline"),
    );
    if !shipped.exists() {
        return;
    }
    fs::create_dir_all(compiled.parent().unwrap()).unwrap();
    let ours =
        ["validator", "init"].map(|name| (workspace().join(name).join("."), copy.path(name)));
    for (from, to) in ours.into_iter().chain([(shipped, compiled)]) {
        let copied = Command::new("cp")
            .arg("-a")
            .args([&from, &to])
            .status()
            .unwrap();
        assert!(copied.success(), "{} cannot be copied", from.display());
    }
    fs::File::open(copy.path("init/src/main.rs"))
        .unwrap()
        .set_modified(SystemTime::now())
        .unwrap();
}

/// Asserts that image and media of the copy are the shipped ones.
fn assert_same_as_shipped(copy: &Checkout) {
    for (online, offline) in [
        (
            Image::shipped().uki().unwrap().parent().unwrap().to_owned(),
            "target/image/out",
        ),
        (
            Image::shipped().usb().unwrap().parent().unwrap().to_owned(),
            "target/image/media",
        ),
    ] {
        assert!(
            fs::read_dir(copy.path(offline)).unwrap().count() > 1,
            "nothing in {offline}"
        );
        let output = Command::new("diff")
            .args(["-rq"])
            .arg(&online)
            .arg(copy.path(offline))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

/// A checkout with one package, one crate and a build that only records what it sees, and a matching archive of inputs.
struct SmallCheckout {
    checkout: Checkout,
    inputs: PathBuf,
}

fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

fn sh(at: &Path, script: &str) {
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", stderr(&output));
}

impl SmallCheckout {
    const BUILD: &str = "#!/bin/sh
        mkdir -p target/image/out; cd target/image/out
        echo small > .image-id; cat /proc/net/dev > net; echo \"${FIRSTLIGHT_DRIVER:-}\" > driver
        cp \"$FIRSTLIGHT_INPUTS/debs/thing_1_all.deb\" \"$FIRSTLIGHT_INPUTS\"/cargo/registry/src/index.crates.io-0a/leaf-1.0.0/lib.rs .\n";

    fn new() -> Self {
        let checkout = Checkout::new(&[
            "image/reproduce/offline.sh",
            "image/lib/",
            "rust-toolchain.toml",
        ])
        .unwrap();
        let inputs = checkout.path("firstlight-inputs");
        sh(
            checkout.top(),
            "mkdir -p firstlight-inputs/debs firstlight-inputs/crates/index.crates.io-0a firstlight-inputs/rust leaf-1.0.0
             head -c 300000 /dev/urandom > firstlight-inputs/debs/thing_1_all.deb
             echo '// leaf' > leaf-1.0.0/lib.rs
             tar -czf firstlight-inputs/crates/index.crates.io-0a/leaf-1.0.0.crate leaf-1.0.0
             echo rust > firstlight-inputs/rust/rustc",
        );
        let deb = sha256(&inputs.join("debs/thing_1_all.deb"));
        fs::write(
            checkout.path("image/inputs.lock"),
            format!("# lock\nmedia thing 1 all 300000 {deb}\n"),
        )
        .unwrap();
        let leaf = sha256(&inputs.join("crates/index.crates.io-0a/leaf-1.0.0.crate"));
        let lock = format!(
            "version = 4\n\n[[package]]\nname = \"leaf\"\nversion = \"1.0.0\"\nchecksum = \"{leaf}\"\n"
        );
        fs::write(checkout.path("Cargo.lock"), lock).unwrap();
        fs::write(checkout.path("image/build.sh"), Self::BUILD).unwrap();
        sh(
            checkout.top(),
            "chmod +x image/build.sh; cp image/inputs.lock Cargo.lock rust-toolchain.toml firstlight-inputs/",
        );
        let small = Self { checkout, inputs };
        small.list();
        small.pack("");
        small
    }

    fn list(&self) {
        sh(
            &self.inputs,
            "find . -type f ! -name SHA256SUMS -printf '%P\\n' | sort | xargs sha256sum > SHA256SUMS",
        );
    }

    /// Packs the folder of inputs, with its list first; `more` is passed to tar.
    fn pack(&self, more: &str) {
        sh(
            self.checkout.top(),
            &format!(
                "tar -cf a.tar {more} firstlight-inputs/SHA256SUMS --exclude=SHA256SUMS firstlight-inputs"
            ),
        );
    }

    fn build(&self, words: &[&str]) -> Output {
        self.checkout
            .script("image/reproduce/offline.sh")
            .args(words)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn assert_refused(&self, words: &[&str], says: &[&str]) {
        let text = stderr(&self.build(words));
        let errors: Vec<_> = text.lines().filter(|l| l.contains("error:")).collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert!(
            says.iter().all(|s| errors[0].contains(s)),
            "{says:?} are not in: {text}"
        );
        assert!(
            !self.checkout.path("target/image").exists(),
            "it built anyway: {text}"
        );
        assert!(
            !self.checkout.path("target/offline").exists(),
            "something is left behind"
        );
    }

    #[track_caller]
    fn assert_archive_refused(&self, says: &[&str]) {
        self.assert_refused(&["image", "--offline", "a.tar"], says);
    }
}

#[test]
fn a_matching_archive_is_unpacked_and_the_build_sees_it_and_no_network() {
    let small = SmallCheckout::new();
    let output = small.build(&["image", "--offline", "a.tar"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let out = small.checkout.path("target/image/out");
    assert_eq!(
        sha256(&out.join("thing_1_all.deb")),
        sha256(&small.inputs.join("debs/thing_1_all.deb"))
    );
    assert_eq!(fs::read_to_string(out.join("lib.rs")).unwrap(), "// leaf\n");
    let interfaces = fs::read_to_string(out.join("net")).unwrap();
    let names: Vec<_> = interfaces
        .lines()
        .skip(2)
        .map(|l| l.split(':').next().unwrap().trim())
        .collect();
    assert!(names.is_empty() || names == ["lo"], "{interfaces}");
    assert!(
        !small.checkout.path("target/offline").exists(),
        "the unpacked archive is left behind"
    );
}

#[test]
fn the_driver_of_an_archive_is_the_one_that_the_image_gets() {
    let small = SmallCheckout::new();
    fs::create_dir(small.inputs.join("driver")).unwrap();
    fs::write(small.inputs.join("driver/driver.toml"), "description\n").unwrap();
    small.list();
    small.pack("");
    let build = |driver: Option<&str>| {
        let mut command = small.checkout.script("image/reproduce/offline.sh");
        command
            .args(["image", "--offline", "a.tar"])
            .env_remove("FIRSTLIGHT_DRIVER");
        if let Some(driver) = driver {
            command.env("FIRSTLIGHT_DRIVER", driver);
        }
        command.output().unwrap()
    };
    let output = build(Some("none"));
    let text = stderr(&output);
    assert!(
        text.contains("has a driver of its own, and FIRSTLIGHT_DRIVER is 'none'"),
        "{text}"
    );
    assert!(!small.checkout.path("target/image").exists());
    assert!(build(None).status.success());
    let driver = fs::read_to_string(small.checkout.path("target/image/out/driver")).unwrap();
    assert!(
        driver.ends_with("/target/offline/firstlight-inputs/driver/driver.toml\n"),
        "{driver}"
    );
}

#[test]
fn an_archive_that_is_cut_off_or_changed_is_refused() {
    let small = SmallCheckout::new();
    let archive = small.checkout.path("a.tar");
    let whole = fs::read(&archive).unwrap();
    for (length, says) in [
        (0, "is not an archive of inputs"),
        (300, "is not an archive of inputs"),
        (whole.len() / 2, "is cut off or damaged"),
    ] {
        fs::write(&archive, &whole[..length]).unwrap();
        small.assert_archive_refused(&["a.tar", says]);
    }
    let deb = fs::read(small.inputs.join("debs/thing_1_all.deb")).unwrap();
    let at = whole.windows(64).position(|w| w == &deb[..64]).unwrap();
    let mut changed = whole.clone();
    changed[at + 1000] ^= 1;
    fs::write(&archive, &changed).unwrap();
    small.assert_archive_refused(&[
        "is damaged: debs/thing_1_all.deb is not the file that its list names",
    ]);

    // a folder in place of a file
    let list = small.inputs.join("SHA256SUMS");
    let files = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{files}{}  rust\n", "0".repeat(64))).unwrap();
    small.pack("");
    small.assert_archive_refused(&["is damaged: its list names something that is not a file"]);
    fs::write(&list, files).unwrap();

    // cut off between two files, which tar does not notice
    small.pack("--exclude=rustc");
    small.assert_archive_refused(&["is cut off: it lacks 1 of 6 files", "rust/rustc"]);
    fs::remove_file(&archive).unwrap();
    small.assert_archive_refused(&["there is no archive a.tar"]);
}

#[test]
fn an_archive_with_foreign_files_is_refused() {
    let small = SmallCheckout::new();
    fs::write(small.inputs.join("rust/cargo"), "more").unwrap();
    small.pack("");
    small.assert_archive_refused(&["contains files that its list does not name", "rust/cargo"]);
    fs::remove_file(small.inputs.join("rust/cargo")).unwrap();
    symlink("/etc/passwd", small.inputs.join("rust/cargo")).unwrap();
    small.pack("");
    small.assert_archive_refused(&["contains files that its list does not name", "rust/cargo"]);
    fs::remove_file(small.inputs.join("rust/cargo")).unwrap();

    // another package under the locked name, and a list with its hash: the checkout's lock file decides
    fs::write(small.inputs.join("debs/thing_1_all.deb"), "other").unwrap();
    small.list();
    small.pack("");
    small.assert_archive_refused(&["lacks 1 locked files", "debs/thing_1_all.deb"]);
}

#[test]
fn an_archive_of_another_checkout_is_refused_and_the_lock_file_is_named() {
    for lock in ["image/inputs.lock", "Cargo.lock", "rust-toolchain.toml"] {
        let small = SmallCheckout::new();
        let path = small.checkout.path(lock);
        fs::write(&path, fs::read_to_string(&path).unwrap() + "# newer\n").unwrap();
        small.assert_archive_refused(&["a.tar was made with another ", lock, "just vendor"]);
    }
}

#[test]
fn unknown_arguments_are_refused() {
    let small = SmallCheckout::new();
    small.assert_refused(
        &["image", "--offlin", "a.tar"],
        &["unknown word '--offlin'", "--offline FILE"],
    );
    small.assert_refused(&["image", "--offline"], &["--offline needs the archive"]);
    small.assert_refused(
        &["image", "--offline", "a.tar", "now"],
        &["unknown word 'now'"],
    );
    small.assert_refused(&["boot", "--offline", "a.tar"], &["unknown target 'boot'"]);
}

#[test]
fn vendoring_refuses_impossible_paths_and_unknown_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("none/a.tar");
    for (words, says) in [
        (vec![nowhere.to_str().unwrap()], "there is no folder "),
        (vec![folder.path().to_str().unwrap()], " is a folder"),
        (vec!["--all"], "unknown word '--all'"),
        (vec!["a.tar", "b.tar"], "unknown word 'b.tar'"),
    ] {
        let output = Command::new(workspace().join("image/reproduce/vendor.sh"))
            .args(&words)
            .output()
            .unwrap();
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.lines().count() == 1 && text.contains(says),
            "{words:?}: {text}"
        );
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "something was written"
    );
}
