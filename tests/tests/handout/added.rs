//! `./run driver --for`, from nothing but the trees of tools.

use super::told;
use harness::{Checkout, Image, cache, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds that it may take on 2 idle cores; a busy machine takes longer, so this is not what the test asserts.
const LIMIT_S: u64 = 300;

/// The one file in a folder whose name begins so.
fn only(folder: &Path, start: &str) -> PathBuf {
    let named = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(start))
    };
    let found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(named)
        .collect();
    let [file] = &found[..] else {
        panic!("{start} in {}: {found:?}", folder.display())
    };
    file.clone()
}

#[test]
fn a_driver_added_to_an_image_gives_the_image_of_the_full_build() {
    let shipped = Image::shipped();
    let checkout = Checkout::new(&[]).unwrap();
    let own = checkout.path("cache");
    fs::create_dir(&own).unwrap();
    for name in ["trees", "debs"] {
        symlink(cache().join(name), own.join(name)).unwrap();
    }
    // What is handed out: the UKI without a driver, its kernel's file and its documents, and nothing else.
    let given = checkout.path("given");
    let made = Command::new(workspace().join("image/build.sh"))
        .arg(&given)
        .env("FIRSTLIGHT_DRIVER", "none")
        .output();
    let made = made.unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    for file in fs::read_dir(&given)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !["firstlight.efi", "firstlight.spdx.json"].contains(&&*name)
            && !name.starts_with("firstlight-kernel-")
        {
            fs::remove_file(file).unwrap();
        }
    }

    let added = checkout.path("added");
    let mut command = checkout.script("run");
    command
        .args(["driver", "--for", "given/firstlight.efi", "--to", "added"])
        .env("FIRSTLIGHT_CACHE", &own);
    // Neither programs nor a kernel are built: there is nothing that could.
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("CARGO_HOME", checkout.path("none"));
    let began = std::time::Instant::now();
    let output = told(&mut command);
    let took = began.elapsed().as_secs();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let seconds = text
        .lines()
        .find(|line| line.contains("seconds: "))
        .expect("where the seconds went");
    println!("{took} s of {LIMIT_S} s: {seconds}");
    assert!(
        !checkout.path("target/image/rust").exists() && !own.join("kernel").exists(),
        "something was built"
    );

    for name in [
        "firstlight.efi",
        "firstlight-pt.efi",
        "firstlight.initrd",
        "firstlight.vmlinuz",
        "firstlight.files",
    ] {
        let [ours, theirs] =
            [&added, shipped.folder()].map(|folder| fs::read(folder.join(name)).unwrap());
        assert!(ours == theirs, "{name} is not that of the full build");
    }
    let modules = only(&own.join("driver"), "modules-");
    let kernel = Command::new(workspace().join("kernel-config/build.sh"))
        .output()
        .unwrap();
    let kernel = String::from_utf8(kernel.stdout).unwrap();
    let theirs = Command::new(workspace().join("image/driver/modules.sh"))
        .args([kernel.trim(), "--where"])
        .output();
    let theirs = PathBuf::from(String::from_utf8(theirs.unwrap().stdout).unwrap().trim());
    assert_ne!(
        modules.file_name(),
        theirs.file_name(),
        "the modules were not built from the kernel's file"
    );
    for name in ["nvidia.ko", "nvidia-uvm.ko"] {
        assert!(
            fs::read(modules.join(name)).unwrap() == fs::read(theirs.join(name)).unwrap(),
            "{name} differs"
        );
    }
    let check = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(&added)
        .output();
    assert!(check.unwrap().status.success());
    assert_documents(&added, shipped.folder());

    // Everything is in the cache now: again, and on a disk without room for it.
    let small = checkout.path("small");
    fs::create_dir(&small).unwrap();
    let script =
        "mount -t tmpfs -o size=40m small \"$1\"; image/add-driver.sh --for given --to \"$1/added\"
        test -z \"$(ls -A \"$1\")\"";
    let mut full = Command::new("unshare");
    full.args(["--map-root-user", "--mount", "sh", "-uc", script, "sh"])
        .arg(&small)
        .current_dir(checkout.top());
    let output = full.env("FIRSTLIGHT_CACHE", &own).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<_> = text
        .lines()
        .filter(|line| line.contains("error:"))
        .collect();
    assert!(output.status.success() && errors.len() == 1, "{text}");
    assert!(errors[0].contains("No space left on device"), "{text}");
}

/// The list of what the image is made of must have the same files and packages as that of the full build, by their hashes.
fn assert_documents(added: &Path, shipped: &Path) {
    let [ours, theirs] = [added, shipped].map(|folder| {
        let text = fs::read_to_string(folder.join("firstlight.spdx.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    });
    for key in [
        "files",
        "packages",
        "relationships",
        "hasExtractedLicensingInfos",
    ] {
        assert_eq!(ours[key], theirs[key], "{key} of firstlight.spdx.json");
    }
    let text = fs::read_to_string(added.join("firstlight.provenance.json")).unwrap();
    let statement: serde_json::Value = serde_json::from_str(&text).unwrap();
    let chosen = &statement["predicate"]["buildDefinition"]["externalParameters"];
    for key in ["image_sha256", "kernel_file_sha256", "driver_sha256"] {
        assert_eq!(
            chosen[key].as_str().map(str::len),
            Some(64),
            "{key}: {chosen}"
        );
    }
}
