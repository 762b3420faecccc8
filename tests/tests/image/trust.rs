//! Are the documents next to the image correct: its contents, where they come from, and their hashes? And do other programs
//! accept the formats of these documents?

use harness::archive::read_initrd;
use harness::{Image, workspace};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn out() -> PathBuf {
    Image::shipped().uki().unwrap().parent().unwrap().to_owned()
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn sbom() -> Value {
    json(&out().join("firstlight.spdx.json"))
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is no list"))
}

/// The checksum of a file or package of the list, by this algorithm.
fn checksum<'a>(of: &'a Value, algorithm: &str) -> Option<&'a str> {
    let found = list(&of["checksums"])
        .iter()
        .find(|c| c["algorithm"] == algorithm)?;
    Some(text(&found["checksumValue"]))
}

/// The checksums that `program` prints for these files, by path.
fn checksums(program: &str, folder: &Path, paths: &[String]) -> BTreeMap<String, String> {
    let output = Command::new(program)
        .arg("--")
        .args(paths)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listing = String::from_utf8(output.stdout).unwrap();
    let lines = listing.lines().map(|l| l.split_once("  ").unwrap());
    lines
        .map(|(sum, path)| (path.to_owned(), sum.to_owned()))
        .collect()
}

/// Lays out all files of the image in `dir`, as the machine sees them; returns their paths.
fn lay_out(dir: &Path) -> Vec<String> {
    let image = Image::shipped();
    let mut paths = Vec::new();
    for file in read_initrd(&image.initrd().unwrap())
        .unwrap()
        .iter()
        .filter(|f| f.is_file())
    {
        let path = dir.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.data).unwrap();
        paths.push(file.path.clone());
    }
    let squashfs = dir.join("usr/lib/firstlight/driver.squashfs");
    if squashfs.exists() {
        let to = dir.join("run/firstlight/driver");
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let mut unpack = Command::new("unsquashfs");
        assert!(
            unpack
                .args(["-quiet", "-no-progress", "-d"])
                .args([&to, &squashfs])
                .status()
                .unwrap()
                .success()
        );
        let mut found = Command::new("find");
        let found = found
            .args(["run", "-type", "f"])
            .current_dir(dir)
            .output()
            .unwrap();
        paths.extend(
            String::from_utf8(found.stdout)
                .unwrap()
                .lines()
                .map(str::to_owned),
        );
    }
    for kernel in [image.kernel().unwrap(), image.pt_kernel().unwrap()] {
        let name = kernel.file_name().unwrap().to_str().unwrap();
        fs::copy(&kernel, dir.join(name)).unwrap();
        paths.push(name.to_owned());
    }
    paths
}

#[test]
fn every_file_of_the_image_is_listed_with_its_correct_hashes() {
    let dir = tempfile::tempdir_in(workspace().join("target")).unwrap();
    let paths = lay_out(dir.path());
    assert!(paths.len() > 100, "{} files", paths.len());
    let sbom = sbom();
    for (algorithm, program) in [("SHA1", "sha1sum"), ("SHA256", "sha256sum")] {
        let listed = list(&sbom["files"]).iter().map(|file| {
            let name = text(&file["fileName"])
                .strip_prefix("./")
                .unwrap()
                .to_owned();
            (name, checksum(file, algorithm).unwrap().to_owned())
        });
        assert_eq!(
            listed.collect::<BTreeMap<_, _>>(),
            checksums(program, dir.path(), &paths)
        );
    }
    // As SPDX defines it: the SHA1 of all SHA1s, sorted.
    let mut all: Vec<_> = list(&sbom["files"])
        .iter()
        .map(|f| checksum(f, "SHA1").unwrap())
        .collect();
    all.sort_unstable();
    fs::write(dir.path().join("all"), all.concat()).unwrap();
    let image = list(&sbom["packages"])
        .iter()
        .find(|p| p["SPDXID"] == "SPDXRef-firstlight")
        .unwrap();
    let code = &image["packageVerificationCode"]["packageVerificationCodeValue"];
    assert_eq!(
        text(code),
        checksums("sha1sum", dir.path(), &["all".to_owned()])["all"]
    );
}

/// `[element, type, related element]` of every relationship.
fn relationships(sbom: &Value) -> BTreeSet<[String; 3]> {
    let words = ["spdxElementId", "relationshipType", "relatedSpdxElement"];
    let all = list(&sbom["relationships"]).iter();
    all.map(|r| words.map(|word| text(&r[word]).to_owned()))
        .collect()
}

#[test]
fn every_file_from_a_package_is_attributed_to_that_package_with_its_hash() {
    let sbom = sbom();
    let by = |key: &str, list_of: &str, id: &str| {
        let found = list(&sbom[list_of]).iter().find(|e| e[key] == id);
        found
            .unwrap_or_else(|| panic!("no {id} among {list_of}"))
            .clone()
    };
    let relationships = relationships(&sbom);
    let lock = fs::read_to_string(workspace().join("image/inputs.lock")).unwrap();
    let mut seen = BTreeSet::new();
    let listing = Image::shipped().file_list().unwrap();
    for line in listing.lines().map(|l| l.split('\t').collect::<Vec<_>>()) {
        let [hash, path, origin] = line[..] else {
            panic!("{line:?}")
        };
        if hash.starts_with("-> ") || origin == "built here" {
            continue;
        }
        let file = by("fileName", "files", &format!(".{path}"));
        let from: Vec<_> = relationships
            .iter()
            .filter(|r| r[0] == text(&file["SPDXID"]) && r[1] != "STATIC_LINK")
            .map(|r| by("SPDXID", "packages", &r[2]))
            .collect();
        let name = origin.split(' ').next().unwrap();
        assert!(
            from.len() == 1 && from[0]["name"] == name,
            "{path} is from {origin}, not {from:?}"
        );
        let words = format!(" {name} {} ", text(&from[0]["versionInfo"]));
        let locked = lock
            .lines()
            .find(|l| l.contains(&words))
            .unwrap_or_else(|| panic!("{words} is not locked"));
        assert_eq!(
            checksum(&from[0], "SHA256"),
            locked.split(' ').next_back(),
            "{name}"
        );
        seen.insert(name.to_owned());
    }
    assert!(
        seen.contains("libc6") && seen.contains("busybox-static"),
        "{seen:?}"
    );
}

#[test]
fn the_crates_are_those_of_the_lock_with_their_hashes_and_licences() {
    let sbom = sbom();
    let lock: toml::Table = fs::read_to_string(workspace().join("Cargo.lock"))
        .unwrap()
        .parse()
        .unwrap();
    let locked: BTreeMap<_, _> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| {
            (
                (p["name"].as_str().unwrap(), p["version"].as_str().unwrap()),
                p.get("checksum"),
            )
        })
        .collect();
    let crates = list(&sbom["packages"])
        .iter()
        .filter(|p| text(&p["SPDXID"]).starts_with("SPDXRef-Crate-"));
    let mut names = BTreeSet::new();
    for package in crates {
        let (name, version) = (text(&package["name"]), text(&package["versionInfo"]));
        let locked_checksum = locked[&(name, version)].and_then(|c| c.as_str());
        if locked_checksum.is_none() {
            assert!(
                name.starts_with("firstlight"),
                "{name} has no checksum in the lock"
            );
        } else {
            let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
            assert_eq!(package["externalRefs"][0]["referenceLocator"], purl);
            assert_eq!(checksum(package, "SHA256"), locked_checksum, "{name}");
        }
        assert_ne!(package["licenseDeclared"], "NOASSERTION", "{name}");
        names.insert(name.to_owned());
    }
    // Linked into both programs or one of them; then crates that are used only at build time or in tests.
    for linked in [
        "firstlight",
        "firstlight-init",
        "rustix",
        "nix",
        "ureq",
        "ring",
        "tempfile",
    ] {
        assert!(
            names.contains(linked),
            "{linked} is linked in and not listed"
        );
    }
    for other in ["syn", "cc", "proptest", "firstlight-tests"] {
        assert!(!names.contains(other), "{other} is not linked in");
    }
}

#[test]
fn an_independent_validator_accepts_the_list_and_refuses_a_broken_one() {
    let dir = tempfile::tempdir().unwrap();
    let validate = |file: &Path| {
        Command::new(workspace().join("tests/trust/validate-spdx.sh"))
            .arg(file)
            .output()
            .unwrap()
    };
    let output = validate(&out().join("firstlight.spdx.json"));
    assert!(output.status.success(), "{output:?}");
    let whole = fs::read_to_string(out().join("firstlight.spdx.json")).unwrap();
    for (from, to) in [
        (
            "\"SPDXRef-DOCUMENT\",\n \"name\"",
            "\"SPDXRef-OTHER\",\n \"name\"",
        ),
        ("MIT OR Apache-2.0", "MIT OR OR"),
        ("\"DESCRIBES\"", "\"DESCRIBED\""),
    ] {
        assert!(whole.contains(from), "{from}");
        let broken = dir.path().join("broken.spdx.json");
        fs::write(&broken, whole.replace(from, to)).unwrap();
        let output = validate(&broken);
        assert_eq!(output.status.code(), Some(1), "{to}: {output:?}");
    }
}

/// Checks the fields that in-toto's Statement and SLSA's provenance require; returns the predicate.
fn predicate(statement: &Value) -> &Value {
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let predicate = &statement["predicate"];
    assert!(
        predicate["buildDefinition"]["buildType"].is_string()
            && predicate["runDetails"]["builder"]["id"].is_string()
    );
    predicate
}

#[test]
fn the_provenance_names_every_output_and_every_input_by_hash() {
    let statement = json(&out().join("firstlight.provenance.json"));
    let build = &predicate(&statement)["buildDefinition"];
    let named = |value: &Value| {
        let entry = |v: &Value| {
            (
                text(&v["name"]).to_owned(),
                text(&v["digest"]["sha256"]).to_owned(),
            )
        };
        list(value).iter().map(entry).collect::<BTreeMap<_, _>>()
    };
    let subjects = named(&statement["subject"]);
    let paths: Vec<_> = subjects.keys().cloned().collect();
    assert_eq!(subjects, checksums("sha256sum", &out(), &paths));
    for file in fs::read_dir(out())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
    {
        let exempt =
            file.starts_with('.') || file == "SHA256SUMS" || file == "firstlight.provenance.json";
        assert!(
            exempt || subjects.contains_key(&file),
            "{file} is no subject"
        );
    }

    let inputs = named(&build["resolvedDependencies"]);
    let lock = fs::read_to_string(workspace().join("image/inputs.lock")).unwrap();
    for line in lock.lines().filter(|l| !l.starts_with('#')) {
        let [usage, name, version, arch, _, hash] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(inputs[&format!("{usage}: {name} {version} {arch}")], hash);
    }
    let recipe: Vec<_> = inputs
        .keys()
        .filter(|name| !name.contains(": "))
        .cloned()
        .collect();
    for must in [
        "Cargo.lock",
        "rust-toolchain.toml",
        "image/build.sh",
        "kernel-config/resolved.config",
        "init/src/main.rs",
    ] {
        assert!(recipe.iter().any(|name| name == must), "{must}");
    }
    for (path, hash) in checksums("sha256sum", workspace(), &recipe) {
        assert_eq!(inputs[&path], hash, "{path}");
    }
    let versions = statement["predicate"]["runDetails"]["builder"]["version"]
        .as_object()
        .unwrap();
    for tool in ["mkosi", "rustc", "gcc", "ld", "ukify"] {
        assert!(versions.contains_key(tool), "{tool}: {versions:?}");
    }
}

#[test]
fn the_documents_contain_nothing_of_the_build_machine() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap()
        .trim()
        .to_owned();
    let top = fs::canonicalize(workspace()).unwrap().display().to_string();
    let cache = std::env::var("HOME").unwrap() + "/";
    for file in [
        "out/firstlight.spdx.json",
        "out/firstlight.provenance.json",
        "media/firstlight.provenance.json",
    ] {
        let text = fs::read_to_string(out().join("..").join(file)).unwrap();
        for word in [&host, &top, &cache] {
            assert!(
                !text.contains(&format!("\"{word}")) && !text.contains(&format!("({word}")),
                "{file}: {word}"
            );
        }
        assert!(
            !text.contains("startedOn") && !text.contains("invocationId"),
            "{file}"
        );
    }
    // The fixed date of every build, and no other.
    assert_eq!(sbom()["creationInfo"]["created"], "2026-08-29T10:40:00Z");
}

#[test]
fn the_checksums_of_image_and_media_are_complete_and_right() {
    for folder in [out(), out().join("../media")] {
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
        let mut find = Command::new("find");
        find.args([
            ".",
            "-type",
            "f",
            "-not",
            "-name",
            ".*",
            "-not",
            "-path",
            "./SHA256SUMS",
            "-printf",
            "%P\\n",
        ]);
        let present =
            String::from_utf8(find.current_dir(&folder).output().unwrap().stdout).unwrap();
        let named: BTreeSet<_> = listed
            .lines()
            .map(|l| l.split_once("  ").unwrap().1)
            .collect();
        assert_eq!(named, present.lines().collect());
    }
}
