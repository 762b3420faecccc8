//! Does the repository still follow ARCHITECTURE.md? Each test reads the repository's own files and checks one invariant; the
//! message of a failure names the file that breaks it.

mod cache;
mod docs;
mod kernels;
mod layers;
mod recipes;
mod sbom;

use harness::workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Every file that is or would be checked in, by its path from the top.
fn files() -> Vec<String> {
    let listing = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ];
    let output = Command::new("git")
        .args(listing)
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).unwrap();
    let there = |name: &&str| workspace().join(name).is_file();
    names
        .split('\0')
        .filter(|n| !n.is_empty())
        .filter(there)
        .map(str::to_owned)
        .collect()
}

fn rust_files(under: &str) -> Vec<String> {
    let found: Vec<_> = files()
        .into_iter()
        .filter(|f| f.starts_with(under) && f.ends_with(".rs"))
        .collect();
    assert!(!found.is_empty(), "no Rust file under {under}");
    found
}

fn text(file: &str) -> String {
    let bytes = fs::read(workspace().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// True for a file that only a test build compiles.
fn is_test(file: &str) -> bool {
    let name = Path::new(file).file_stem().unwrap().to_string_lossy();
    file.contains("/tests/") || name == "tests" || name.ends_with("_tests") || name == "fixture"
}

/// A product file's lines without its comments and without the tests at its end.
fn code(file: &str) -> Vec<String> {
    let all = text(file);
    let product = all.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = product
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_owned());
    lines.collect()
}

/// True when `line` has `word`, and not as the end of a longer one (`unix::` is not `nix::`).
fn has(line: &str, word: &str) -> bool {
    let inside = |at: usize| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| !inside(at))
}

/// Files below `under`, except tests, with code that names one of `words`.
fn naming(under: &str, words: &[&str]) -> BTreeSet<String> {
    let names = |file: &String| {
        code(file)
            .iter()
            .any(|line| words.iter().any(|w| has(line, w)))
    };
    rust_files(under)
        .into_iter()
        .filter(|f| !is_test(f))
        .filter(names)
        .collect()
}

/// The crates of the program `firstlight`.
const VALIDATOR: &[&str] = &[
    "", "outcome/", "machine/", "fabric/", "gpu/", "report/", "setup/",
];

/// As [`naming`], in all crates of the validator.
fn naming_in_validator(words: &[&str]) -> BTreeSet<String> {
    VALIDATOR
        .iter()
        .flat_map(|crate_| naming(&format!("validator/{crate_}src"), words))
        .collect()
}

fn validator_manifests() -> Vec<String> {
    VALIDATOR
        .iter()
        .map(|crate_| format!("validator/{crate_}Cargo.toml"))
        .collect()
}

fn manifest(path: &str) -> toml::Table {
    toml::from_str(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn dependencies(path: &str) -> Vec<String> {
    let manifest = manifest(path);
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let found = tables.iter().filter_map(|t| manifest.get(*t)?.as_table());
    found.flat_map(|t| t.keys().cloned()).collect()
}

#[test]
fn init_and_validator_share_only_the_contract_crate() {
    let all = dependencies("init/Cargo.toml");
    let ours: BTreeSet<_> = all
        .iter()
        .filter(|d| d.starts_with("firstlight"))
        .map(String::as_str)
        .collect();
    assert_eq!(ours, BTreeSet::from(["firstlight-contract"]));
    for path in validator_manifests() {
        assert!(
            !dependencies(&path).iter().any(|d| d == "firstlight-init"),
            "{path}"
        );
    }
    assert_eq!(
        dependencies("validator/contract/Cargo.toml"),
        ["serde", "strsim", "thiserror", "toml", "serde_json"]
    );
    let acting = naming(
        "validator/contract/src",
        &["std::fs", "std::io", "std::env", "std::net", "std::process"],
    );
    assert!(acting.is_empty(), "{acting:?}");
    for file in rust_files("init/src")
        .iter()
        .chain(&rust_files("validator/src"))
    {
        assert!(
            !text(file).contains("#[path = \"../.."),
            "{file} takes a file from elsewhere"
        );
    }
}

/// In process 1 they are in `sys.rs`, or in the folder that replaces it.
#[test]
fn system_calls_and_unsafe_code_are_in_the_modules_for_them() {
    let outside = naming(
        "init/src",
        &["unsafe ", "unsafe{", "rustix::", "nix::", "libc::"],
    );
    let outside: Vec<_> = outside
        .iter()
        .filter(|f| !f.starts_with("init/src/sys"))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
    // The compiler refuses unsafe code in all crates of the validator but one.
    for crate_ in VALIDATOR.iter().filter(|crate_| **crate_ != "gpu/") {
        let root = format!("validator/{crate_}src/lib.rs");
        assert!(text(&root).contains("#![forbid(unsafe_code)]"), "{root}");
    }
    // The only unsafe attribute: the program's entry point, in place of std's.
    let attributes = naming("init/src", &["#[unsafe("]);
    assert!(
        attributes.iter().all(|f| f == "init/src/main.rs"),
        "{attributes:?}"
    );
}

/// Modules of the validator that open files: the root, and those for files that are not the machine's own: configuration,
/// journal and reports that the user names, and links to them.
const FILE_MODULES: &[&str] = &[
    "validator/machine/src/root/",
    "validator/outcome/src/files/",
    "validator/fabric/src/journal/",
    "validator/setup/src/files.rs",
    "validator/src/cli/",
    "validator/src/net/publish/",
    "validator/src/engine/",
    "validator/machine/src/recording/unpack.rs",
];

#[test]
fn the_machine_is_read_through_the_root_alone() {
    let calls = [
        "read",
        "read_to_string",
        "read_dir",
        "read_link",
        "write",
        "metadata",
        "remove_file",
        "rename",
    ];
    let mut words: Vec<_> = calls.iter().map(|call| format!("fs::{call}(")).collect();
    words.extend(
        [
            "File::open",
            "File::create",
            "File::options",
            "OpenOptions::new",
        ]
        .map(str::to_owned),
    );
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let opening = naming_in_validator(&words);
    let others: Vec<_> = opening
        .iter()
        .filter(|f| !FILE_MODULES.iter().any(|d| f.starts_with(d)))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(
        opening.contains("validator/machine/src/root/jail.rs"),
        "the search finds nothing: {opening:?}"
    );
}

#[test]
fn one_crate_loads_cuda_nvml_and_libibverbs() {
    let loading = |path: &String| {
        dependencies(path)
            .iter()
            .any(|d| ["cudarc", "nvml-wrapper", "libloading"].contains(&&**d))
    };
    let loading: Vec<_> = validator_manifests().into_iter().filter(loading).collect();
    assert_eq!(loading, ["validator/gpu/Cargo.toml"]);
}

#[test]
fn only_one_file_uses_http() {
    let naming = naming_in_validator(&["ureq"]);
    assert_eq!(
        naming.into_iter().collect::<Vec<_>>(),
        ["validator/src/net/http.rs"]
    );
}

#[test]
fn only_one_file_uses_ntp() {
    let naming = naming_in_validator(&["UdpSocket"]);
    assert_eq!(
        naming.into_iter().collect::<Vec<_>>(),
        ["validator/src/net/sntp.rs"]
    );
}

#[test]
fn tests_of_the_suite_judge_and_open_nothing() {
    let opening = naming(
        "validator/src/suite",
        &["std::fs", "std::env", "cudarc", "std::process"],
    );
    assert!(opening.is_empty(), "{opening:?}");
}

/// One name, one meaning: a module with one of these names only computes return values from its arguments.
#[test]
fn modules_named_judge_or_plan_read_nothing_and_have_no_effects() {
    let acting = [
        "Root", "&Machine", "Instant", "sleep", "fs::", "Command", "RefCell", "unsafe",
    ];
    let acting = naming_in_validator(&acting);
    let pure = |file: &&String| {
        file.split(['/', '.'])
            .any(|part| ["judge", "plan"].contains(&part))
    };
    let wrong: Vec<_> = acting.iter().filter(pure).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn process_one_opens_no_connection() {
    let connecting = naming("init/src", &["TcpStream", "TcpListener", "UdpSocket"]);
    assert!(connecting.is_empty(), "{connecting:?}");
}

/// A simulation uses other files, never another program.
#[test]
fn nothing_in_the_product_selects_a_simulation() {
    let words = ["cfg(feature", "cfg!(", "option_env!", "simulat"];
    let selecting = naming("init/src", &words)
        .into_iter()
        .chain(naming_in_validator(&words))
        .collect::<Vec<_>>();
    assert!(selecting.is_empty(), "{selecting:?}");
    for path in validator_manifests()
        .into_iter()
        .chain(["init/Cargo.toml".to_owned()])
    {
        // Values for the tests of other crates; a dependency of a product must not bring them in.
        let manifest = manifest(&path);
        let mut features = manifest
            .get("features")
            .and_then(|f| f.as_table())
            .into_iter()
            .flat_map(|f| f.keys());
        assert!(features.all(|name| name == "samples"), "{path}");
        let dependencies = manifest
            .get("dependencies")
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(!dependencies.contains("samples"), "{path}");
    }
}

#[test]
fn no_test_is_ignored() {
    // Joined here, so that this file does not contain it.
    let word = ["#[ig", "nore"].concat();
    for folder in ["init", "validator", "tests"] {
        let ignoring: Vec<_> = rust_files(folder)
            .into_iter()
            .filter(|file| text(file).contains(&word))
            .collect();
        assert!(ignoring.is_empty(), "{ignoring:?}");
    }
}

#[test]
fn no_file_names_a_package_mirror_or_a_local_path() {
    // Joined here, so that this file does not contain them.
    let hosts = [
        ["debian", ".org"],
        ["debian", ".net"],
        ["kernel", ".org/pub"],
        ["ubuntu", ".com"],
        ["crates", ".io/api"],
    ];
    let places = [["/wo", "rk/"], ["/ho", "me/"], ["/Us", "ers/"]];
    let words: Vec<_> = hosts.iter().chain(&places).map(|w| w.concat()).collect();
    for file in files()
        .iter()
        .filter(|f| *f != "Cargo.lock" && !f.starts_with("LICENSE"))
    {
        let text = text(file);
        for word in &words {
            let place = text.lines().position(|l| l.contains(word.as_str()));
            assert!(
                place.is_none(),
                "{file}:{} names {word}",
                place.unwrap_or_default() + 1
            );
        }
    }
}

#[test]
fn rust_files_begin_with_their_purpose() {
    let others = [
        "init/src",
        "validator/contract/src",
        "validator/collect/src",
    ]
    .map(str::to_owned);
    let folders = VALIDATOR
        .iter()
        .map(|crate_| format!("validator/{crate_}src"))
        .chain(others);
    let product = folders
        .flat_map(|folder| rust_files(&folder))
        .filter(|f| !is_test(f));
    let mine = rust_files("tests")
        .into_iter()
        .filter(|f| !f.ends_with("/tests.rs"));
    for file in product.chain(mine) {
        assert!(
            text(&file).starts_with("//!"),
            "{file} does not open with its paragraph"
        );
    }
}

#[test]
fn scripts_say_what_they_are_for_and_stop_at_the_first_error() {
    let scripts = files().into_iter().filter(|f| text(f).starts_with("#!/"));
    for file in scripts {
        let text = text(&file);
        let second = text.lines().nth(1).unwrap_or_default();
        if text.starts_with("#!/usr/bin/env python3") {
            assert!(
                second.starts_with("\"\"\""),
                "{file} does not open with its paragraph"
            );
            continue;
        }
        assert!(
            second.starts_with("# "),
            "{file} does not open with its paragraph"
        );
        let guest = file.starts_with("image/recipe/files/");
        assert!(
            guest || text.lines().any(|l| l.starts_with("set -eu")),
            "{file} continues after an error"
        );
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let text = text("Cargo.toml");
    let section = text.split("[workspace.dependencies]").nth(1).unwrap();
    let lines = section.lines().skip(1).take_while(|l| !l.starts_with('['));
    let bare: Vec<_> = lines
        .filter(|l| l.contains(" = ") && !l.starts_with('#') && !l.contains(" # "))
        .collect();
    assert!(bare.is_empty(), "{bare:?}");
}
