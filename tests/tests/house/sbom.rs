//! Does the list of what the image is made of have what the NTIA's minimum elements ask for? `image/trust/sbom.py` runs on a
//! small image whose initrd is made up; the list of the image itself is held against other programs in the tests of the image.

use harness::workspace;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs sbom.py with an initrd that has one file.
const RUN: &str = "
import sys, initrd, sbom
initrd.frames = lambda data: [data]
initrd.files = lambda frame: {'init': b'x', 'usr/bin/firstlight': b'y', 'lib/x.so': b'z', 'lib/y.so': b'z'}
sys.argv = ['sbom.py', *sys.argv[1:]]
sbom.main()
";

/// The document of the small image.
fn small() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    for name in [
        "firstlight.initrd",
        "firstlight.vmlinuz",
        "firstlight-pt.vmlinuz",
    ] {
        fs::write(out.join(name), name).unwrap();
    }
    fs::write(out.join(".image-id"), "id\n").unwrap();
    let files = "1\t/init\tbuilt here\n2\t/lib/x.so\tlibx 1.0\n3\t/lib/y.so\tNVIDIA-Linux-x86_64-555.58.02.run\n";
    fs::write(out.join("firstlight.files"), files).unwrap();
    let hash = "0".repeat(64);
    let locked = [
        "image libx 1.0 amd64",
        "image linux-source-6.12 6.12.1 all",
        "driver-nccl nvidia-nccl-cu12 2.28.9 wheel",
    ]
    .into_iter()
    .chain([
        "compiler libc6-dev 2.41 amd64",
        "compiler libgcc-14-dev 14.2 amd64",
        "media ipxe 1.0 all",
    ]);
    write(
        "inputs.lock",
        &locked
            .map(|line| format!("{line} 1 {hash}\n"))
            .collect::<String>(),
    );
    let registry = format!("source = \"registry+https://example.org\"\nchecksum = \"{hash}\"\n");
    write(
        "Cargo.lock",
        &format!(
            "[[package]]\nname = \"firstlight\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"x\"\nversion = \"1.2.3\"\n{registry}"
        ),
    );
    write(
        "crates",
        "firstlight|firstlight v0.1.0|MIT\nfirstlight-init|x v1.2.3|MIT/Apache-2.0\n",
    );
    write("driver", "");
    let arguments = [
        "image",
        "out",
        "inputs.lock",
        "Cargo.lock",
        "crates",
        "driver",
        "name",
        "rustc 1.90.0",
    ];
    let modules = format!("{0}/image/media:{0}/image/trust", workspace().display());
    let mut python = Command::new("python3");
    python
        .args(["-B", "-c", RUN])
        .args(arguments)
        .current_dir(folder.path());
    let output = python
        .env("PYTHONPATH", modules)
        .env("SOURCE_DATE_EPOCH", "0")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_package_names_its_version_and_from_whom_it_was_obtained() {
    let document = small();
    let packages = document["packages"].as_array().unwrap();
    let word = |package: &Value, key: &str| package[key].as_str().unwrap().to_owned();
    let seen: Vec<_> = packages
        .iter()
        .map(|p| {
            ["name", "versionInfo", "supplier"]
                .map(|key| word(p, key))
                .join(" ")
        })
        .collect();
    for line in [
        "firstlight 0.1.0 Organization: firstlight",
        "x 1.2.3 Organization: crates.io",
        "libx 1.0 Organization: Debian",
        "NVIDIA-Linux-x86_64-555.58.02.run 555.58.02 Organization: NVIDIA Corporation",
        "rust-std 1.90.0 Organization: The Rust Project",
    ] {
        assert!(
            seen.iter().any(|s| s == line),
            "{line} is not among {seen:?}"
        );
    }
    assert!(
        seen.iter().all(|s| s.contains(" Organization: ")),
        "{seen:?}"
    );
}

mod ntia {
    use super::*;

    /// Whether NTIA's checker finds all minimum elements.
    fn conformant(document: &Value, folder: &Path) -> bool {
        let file = folder.join("x.spdx.json");
        fs::write(&file, document.to_string()).unwrap();
        let script = "import sys, ntia_conformance_checker as n; print(n.SbomChecker(sys.argv[1]).compliant)";
        let output = Command::new("python3")
            .args(["-c", script])
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim() == "True"
    }

    #[test]
    fn the_checker_accepts_the_list_and_refuses_one_without_a_supplier() {
        let folder = tempfile::tempdir().unwrap();
        let mut document = small();
        assert!(conformant(&document, folder.path()));
        document["packages"][0]["supplier"] = json!("NOASSERTION");
        assert!(!conformant(&document, folder.path()));
    }
}
