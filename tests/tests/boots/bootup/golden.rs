//! Does an image report that it is golden if, and only if, it is unchanged since its build? The shipped image is booted
//! unchanged (from the stick, in media.rs), booted with added files, and unpacked.

use harness::{Boot, Booted, Image, Overlay};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXPECTED: &str =
    "firstlight.expect.gpus=0 firstlight.expect.golden=true firstlight.validate.level=quick";

/// The image's id and the hash of its file list, as the build recorded them.
fn recorded_id_and_hash() -> (String, String) {
    let image = Image::shipped();
    let record: Value =
        serde_json::from_slice(&image.file("etc/firstlight/image.json").unwrap().data).unwrap();
    let id = fs::read_to_string(image.uki().unwrap().with_file_name(".image-id")).unwrap();
    assert_eq!(record["image_id"], id.trim());
    (
        id.trim().to_owned(),
        record["manifest_sha256"].as_str().unwrap().to_owned(),
    )
}

/// The settings of a boot that checks the image.
pub(super) const SETTINGS: &str =
    "[expect]\ngpus = 0\ngolden = true\n[validate]\nlevel = \"quick\"\n";

/// Checks what the screen and the report of such a boot say about the image.
#[track_caller]
pub(super) fn assert_golden(booted: &Booted, report: &Value) {
    let (id, manifest) = recorded_id_and_hash();
    let first = booted
        .lines()
        .find(|line| line.starts_with("firstlight-init "))
        .unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        first,
        format!("firstlight-init {version}   image {version} {id}")
    );
    booted.says("  PASS   image           golden: ");
    let appliance = &report["appliance"];
    assert_eq!(
        (&appliance["version"], &appliance["image_id"]),
        (&version.into(), &id.as_str().into())
    );
    assert_eq!(appliance["manifest_sha256"], manifest);
    let row = report["tests"]
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["id"] == "image")
        .unwrap();
    let listed = Image::shipped().file_list().unwrap().lines().count();
    assert_eq!(
        row["summary"],
        format!("golden: {listed} files as listed, image {id}")
    );
}

/// The files that a test adds to the guest are also such changes, and so is the reduced driver image. The workload checks the
/// image after init has written all its files, which are no changes.
#[test]
fn an_image_with_a_changed_an_added_and_an_unlisted_file_fails_and_names_them() {
    let list = Image::shipped().file_list().unwrap();
    let unlisted = "/usr/lib/firstlight/udhcpc.script";
    let doctored: String = list
        .lines()
        .filter(|l| !l.contains(unlisted))
        .map(|l| format!("{l}\n"))
        .collect();
    assert!(doctored.len() < list.len());
    let over = |o: Overlay| {
        let o = o
            .program("usr/lib/firstlight/demo", "#!/bin/sh\n")
            .file("usr/lib/.hidden", "x");
        o.file("usr/lib/firstlight/files", doctored.as_str())
    };
    let script = "firstlight image > /run/kept/text; echo $? > /run/kept/status
firstlight image --json /run/kept/image.json";
    let boot = Boot::shipped()
        .append(EXPECTED)
        .append("lockdown=integrity")
        .overlay(over);
    let booted = boot.workload(script).on_any_verdict().run().unwrap();
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), &verdict.failed[..]),
        ("FAIL", &["image".to_owned()][..]),
        "{booted}"
    );
    assert_eq!(booted.text("kept/status"), "1");
    let text = booted.text("kept/text");
    let lists = |change: &str, path: &str| {
        let begins = format!("{change:<9} {path}");
        assert!(
            text.lines().any(|l| l.starts_with(&begins)),
            "no {begins} in\n{text}"
        );
    };
    lists(
        "changed",
        "/usr/lib/firstlight/demo (built here): expected ",
    );
    lists("changed", "/usr/lib/firstlight/files: expected ");
    lists("changed", "/usr/lib/firstlight/driver.squashfs");
    lists("added", "/usr/lib/.hidden: found a file");
    lists("added", &format!("{unlisted}: found a file"));
    lists("added", "/etc/firstlight/config.d/");
    lists("added", "/t/workload: found a file");
    assert!(
        text.lines()
            .last()
            .unwrap()
            .starts_with("not golden: 3 changed, "),
        "{text}"
    );
    let added = text
        .lines()
        .filter_map(|l| l.strip_prefix("added")?.trim_start().split(':').next());
    let own = |path: &str| {
        ["/usr/lib/.hidden", unlisted].contains(&path)
            || ["/etc/firstlight/config.d", "/t"]
                .iter()
                .any(|folder| Path::new(path).starts_with(folder))
    };
    let others: Vec<_> = added.filter(|path| !own(path)).collect();
    assert!(others.is_empty(), "{others:?}\n{text}");
    let json = booted.json("kept/image.json");
    assert_eq!(
        (&json["schema"], &json["golden"]),
        (&"firstlight.image/1".into(), &false.into())
    );
    assert_eq!(json["cmdline"], booted.report().0["machine"]["cmdline"]);
    assert_eq!(
        booted.report().findings_about("image", "image"),
        [("IMAGE-CHANGED", "fail")]
    );
    // It also reports a protection that this kernel does not have.
    assert_eq!(
        booted.report().findings_about("cmdline", "kernel"),
        [("LOCKDOWN-IGNORED", "warn")]
    );
}

/// The whole shipped image, unpacked to a folder.
fn unpacked(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    Image::shipped().unpack(&root, true).unwrap();
    root
}

/// Runs the image's own program with the image's own loader and libraries, because this machine's may be older.
fn run_check(root: &Path, json: &Path) -> Output {
    let of_image = |path: &str| root.join(path);
    Command::new(of_image("usr/lib64/ld-linux-x86-64.so.2"))
        .arg("--library-path")
        .arg(of_image("usr/lib/x86_64-linux-gnu"))
        .arg(of_image("usr/bin/firstlight"))
        .arg("--root")
        .arg(root)
        .args(["image", "--json"])
        .arg(json)
        .output()
        .unwrap()
}

#[track_caller]
fn check(root: &Path, status: i32) -> Value {
    let json = root.parent().unwrap().join("image.json");
    let output = run_check(root, &json);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    serde_json::from_slice(&fs::read(json).unwrap()).unwrap()
}

#[test]
fn an_unpacked_image_is_golden_until_anything_in_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let root = unpacked(dir.path());
    let whole = check(&root, 0);
    assert_eq!(
        (&whole["golden"], &whole["image_id"]),
        (&true.into(), &recorded_id_and_hash().0.into()),
        "{whole}"
    );
    assert!(
        whole["cmdline"].is_null() && whole["driver"] != "mounted",
        "{whole}"
    );

    let the_only_change = |change: &str, path: &str| {
        let result = check(&root, 1);
        let [one] = &result["differences"].as_array().unwrap()[..] else {
            panic!("{result}")
        };
        assert_eq!(
            (&one["change"], &one["path"]),
            (&change.into(), &path.into()),
            "{result}"
        );
    };
    let link = root.join("usr/bin/sh");
    fs::remove_file(&link).unwrap();
    the_only_change("missing", "/usr/bin/sh");
    symlink("firstlight", &link).unwrap();
    the_only_change("changed", "/usr/bin/sh");
    fs::remove_file(&link).unwrap();
    symlink("busybox", &link).unwrap();
    let config = root.join("etc/firstlight/config.toml");
    let settings = fs::read(&config).unwrap();
    fs::write(&config, "").unwrap();
    the_only_change("changed", "/etc/firstlight/config.toml");
    fs::write(&config, settings).unwrap();
    fs::write(root.join("root/.profile"), "x").unwrap();
    the_only_change("added", "/root/.profile");
    fs::remove_file(root.join("root/.profile")).unwrap();
    assert_eq!(check(&root, 0), whole);
    fs::remove_file(root.join("usr/lib/firstlight/files")).unwrap();
    assert!(check(&root, 2)["golden"].is_null());
}
