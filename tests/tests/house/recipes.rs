//! Do the recipes run every test? A test binary that no stage names would silently never run.

use super::{files, text, workspace};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The name of the test binary whose top file this is, if it is one.
fn binary(file: &str) -> Option<String> {
    let file = file
        .strip_suffix("/main.rs")
        .or_else(|| file.strip_suffix(".rs"))?;
    let path = Path::new(file);
    path.parent()?
        .ends_with("tests")
        .then(|| path.file_name()?.to_str().map(str::to_owned))?
}

#[test]
fn every_test_binary_is_in_a_stage() {
    let under_src = |file: &String| file.contains("/src/");
    let all = files();
    let binaries: Vec<_> = all
        .iter()
        .filter(|f| !under_src(f))
        .filter_map(|f| binary(f))
        .collect();
    assert!(binaries.len() >= 10, "{binaries:?}");
    let (check, recipes) = (text("tests/check.sh"), text("Justfile"));
    for name in binaries {
        let word = format!("--test {name}");
        let named = |text: &str| {
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(&word)
        };
        assert!(
            named(&check) || named(&recipes),
            "neither tests/check.sh nor the Justfile has {word}"
        );
    }
    // With `--tests` cargo leaves out what `--test` names when it is no default target.
    let lints = check
        .lines()
        .find(|line| line.starts_with("step clippy "))
        .unwrap();
    assert!(!lints.contains("--tests"), "{lints}");
    for name in ["image", "boots", "deploy", "handout", "arm64"] {
        assert!(lints.contains(&format!("--test {name}")), "{lints}");
    }
}

#[test]
fn only_the_top_file_of_a_test_binary_has_its_name() {
    assert_eq!(binary("validator/tests/one.rs").as_deref(), Some("one"));
    assert_eq!(
        binary("tests/tests/boots/main.rs").as_deref(),
        Some("boots")
    );
    assert_eq!(binary("tests/tests/boots/acs.rs"), None);
    assert_eq!(binary("tests/check.sh"), None);
}

/// On the host, simulated GPUs are judged by the program that all other tests run: it is built anyway, and checks for
/// overflow. The image contains the release build, which judges them when the image boots.
#[test]
fn simulated_gpus_are_judged_by_the_debug_build_on_the_host_and_by_the_release_build_in_the_image()
{
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    let profiles: Vec<_> = manifest["profile"]
        .as_table()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(profiles, ["dev", "host", "init", "release"]);
    assert!(manifest["profile"]["dev"].get("overflow-checks").is_none());
    assert!(text("image/rust.sh").contains("--release -p firstlight"));
}

/// Runs `prove_rust` of the image's scripts on a sysroot; a refusal is an error with what it printed.
fn proven(sysroot: &Path) -> Result<(), String> {
    let cache = tempfile::tempdir().unwrap();
    let script = "set -euo pipefail; source image/lib/common.sh; prove_rust \"$1\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"])
        .arg(sysroot)
        .env("FIRSTLIGHT_CACHE", cache.path())
        .env_remove("FIRSTLIGHT_INPUTS");
    let output = bash.current_dir(workspace()).output().unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn an_image_is_built_by_the_pinned_rust_and_by_no_other_of_its_version() {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(workspace())
        .output()
        .unwrap();
    proven(Path::new(String::from_utf8(sysroot.stdout).unwrap().trim())).unwrap();

    let other = tempfile::tempdir().unwrap();
    let lists = other.path().join("lib/rustlib");
    std::fs::create_dir_all(&lists).unwrap();
    std::fs::create_dir(other.path().join("bin")).unwrap();
    assert!(
        proven(other.path())
            .unwrap_err()
            .contains("has no lists of its files")
    );
    for component in ["rustc", "cargo", "rust-std"] {
        std::fs::write(
            lists.join(format!("manifest-{component}-x86_64-unknown-linux-gnu")),
            "file:bin/rustc\n",
        )
        .unwrap();
    }
    let rustc = other.path().join("bin/rustc");
    std::fs::write(
        &rustc,
        "#!/bin/sh\necho commit-hash: 59807616e1fa2540724bfbac14d7976d7e4a3860\n",
    )
    .unwrap();
    std::fs::set_permissions(&rustc, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let why = proven(other.path()).unwrap_err();
    let pinned = text("rust-toolchain.toml");
    let hash = pinned
        .lines()
        .find_map(|line| line.strip_prefix("# sha256 "))
        .unwrap();
    assert!(
        why.contains("is not the one that rust-toolchain.toml names") && why.contains(hash),
        "{why}"
    );
}

// Does the check of the kernel's configuration notice options that kconfig dropped?

fn check(resolved: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("resolved.config");
    fs::write(&file, resolved).unwrap();
    let folder = workspace().join("kernel-config");
    let mut fragments: Vec<PathBuf> = fs::read_dir(folder.join("fragments"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    fragments.sort();
    fragments.push(folder.join("flavours/off.config"));
    Command::new(folder.join("check.sh"))
        .arg(&file)
        .args(&fragments)
        .output()
        .unwrap()
}

fn resolved() -> String {
    fs::read_to_string(workspace().join("kernel-config/resolved.config")).unwrap()
}

#[test]
fn every_requested_kernel_option_is_set() {
    let output = check(&resolved());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The option that a line of a fragment asks for or rules out.
fn option(line: &str) -> Option<&str> {
    let name = line
        .strip_prefix("# ")
        .unwrap_or(line)
        .split(['=', ' '])
        .next()?;
    let asks = line.starts_with("CONFIG_") || line.ends_with(" is not set");
    (asks && name.starts_with("CONFIG_")).then_some(name)
}

/// arm64 uses the shared fragments without the options that its own file names, as in kernel-config/arm64/build.sh.
#[test]
fn every_requested_kernel_option_is_set_on_arm64() {
    let own = text("kernel-config/arm64/base.config");
    let named: BTreeSet<_> = own.lines().filter_map(option).collect();
    let shared = files()
        .into_iter()
        .filter(|f| f.starts_with("kernel-config/fragments/"));
    let shared: Vec<_> = shared.map(|file| text(&file)).collect();
    let kept = shared.iter().flat_map(|text| text.lines());
    let kept: Vec<_> = kept
        .filter(|line| option(line).is_none_or(|name| !named.contains(name)))
        .chain(own.lines())
        .collect();
    assert!(
        kept.len() > 500 && named.len() > 100,
        "{} {}",
        kept.len(),
        named.len()
    );
    // A line that rules out an option is superfluous if no fragment asks for that option.
    let off = own
        .lines()
        .filter(|line| line.starts_with("# CONFIG_"))
        .filter_map(option);
    let idle: Vec<_> = off
        .filter(|name| {
            !shared
                .iter()
                .any(|text| text.lines().any(|line| option(line) == Some(name)))
        })
        .collect();
    assert!(idle.is_empty(), "{idle:?}");
    let dir = tempfile::tempdir().unwrap();
    let requested = dir.path().join("arm64.config");
    fs::write(&requested, kept.join("\n")).unwrap();
    let folder = workspace().join("kernel-config");
    let resolved = folder.join("arm64/resolved.config");
    let output = Command::new(folder.join("check.sh"))
        .args([resolved, requested])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_option_that_was_dropped_changed_or_came_back_is_named() {
    let lines = [
        (
            "CONFIG_PCI_P2PDMA=y\n",
            "",
            "pci.config:",
            "CONFIG_PCI_P2PDMA: requested y, resolved to not set",
        ),
        (
            "CONFIG_NR_CPUS=512\n",
            "CONFIG_NR_CPUS=64\n",
            "platform.config:",
            "requested 512, resolved to 64",
        ),
        (
            "# CONFIG_HOTPLUG_PCI is not set\n",
            "CONFIG_HOTPLUG_PCI=y\n",
            "pci.config:",
            "CONFIG_HOTPLUG_PCI: requested not set, resolved to y",
        ),
        (
            "iommu=off,soft",
            "iommu=on",
            "off.config:",
            "CONFIG_CMDLINE: requested \"iommu=off,soft",
        ),
    ];
    for (was, becomes, file, message) in lines {
        assert!(resolved().contains(was), "{was}");
        let output = check(&resolved().replace(was, becomes));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            errors.contains(file) && errors.contains(message),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

/// The page compares the kernel with KSPP's recommendations: what it calls equal is equal, and what it calls different is not.
#[test]
fn the_page_on_kernel_hardening_tells_what_the_kernel_has() {
    let (page, config) = (text("docs/build/kernel-hardening.md"), resolved());
    let value = |name: &str| {
        let set = config
            .lines()
            .find_map(|line| line.strip_prefix(&format!("CONFIG_{name}=")));
        set.unwrap_or("is not set").to_owned()
    };
    let part = |from: &str, to: &str| {
        page.split_once(from)
            .unwrap()
            .1
            .split_once(to)
            .unwrap()
            .0
            .to_owned()
    };
    let names = |list: &str| {
        list.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (on, off) = (
        names(&part("recommended value:", "No longer")),
        names(&part("\nOff:\n", "## Options that differ")),
    );
    let outdated = names(&part("(the third):", "Off:"));
    for name in &on {
        assert_ne!(value(name), "is not set", "{name}");
    }
    for name in off.iter().chain(&outdated) {
        assert_eq!(value(name), "is not set", "{name}");
    }
    let table = part("## Options that differ", "## Further decisions");
    let rows: Vec<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .collect();
    for (name, rest) in &rows {
        let recommended = rest.split(" | ").next().unwrap();
        assert!(
            *name == "LSM" || value(name) != recommended || recommended == "is not set",
            "{name}"
        );
    }
    let agree = on.len() + off.len() + outdated.len();
    assert!(
        page.contains(&format!("{} options; {agree} agree", agree + rows.len())),
        "{agree} {}",
        rows.len()
    );
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    assert_eq!(check("nothing\n").status.code(), Some(1));
}
