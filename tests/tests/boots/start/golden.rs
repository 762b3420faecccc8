//! Does an image call itself golden exactly when it is as it was built? The shipped image booted as it is,
//! booted with files over it, and unpacked.

use harness::stick::Fat;
use harness::{Boot, End, Image, Overlay};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXPECTED: &str =
    "firstlight.expect.gpus=0 firstlight.expect.golden=true firstlight.validate.level=quick";

/// What the build says that the image is: id and hash of the list.
fn built() -> (String, String) {
    let image = Image::shipped();
    let told: Value = serde_json::from_slice(&image.file("etc/firstlight/image.json").unwrap().data).unwrap();
    let id = fs::read_to_string(image.uki().unwrap().with_file_name(".image-id")).unwrap();
    assert_eq!(told["image_id"], id.trim());
    (id.trim().to_owned(), told["manifest_sha256"].as_str().unwrap().to_owned())
}

/// Settings come as kernel words and no file is added: the workload is the image's own program, which looks at
/// the image again, when init has written everything that it writes; the report comes back on a stick.
#[test]
fn the_shipped_image_is_golden_and_says_so_on_screen_and_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 4096).unwrap();
    let words = format!("{EXPECTED} firstlight.workload.exec=/usr/bin/firstlight,image");
    let booted = Boot::shipped().whole().append(&words).stick(stick.file()).run().unwrap();
    let (id, manifest) = built();
    let first = booted.lines().find(|line| line.starts_with("firstlight-init ")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(first, format!("firstlight-init {version}   image {version} {id}"));
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("  PASS   image           golden: ");

    let names = stick.names("reports");
    let report: Value =
        serde_json::from_slice(&stick.read(&format!("reports/{}", names[0])).unwrap()).unwrap();
    let appliance = &report["appliance"];
    assert_eq!((&appliance["version"], &appliance["image_id"]), (&version.into(), &id.as_str().into()));
    assert_eq!(appliance["manifest_sha256"], manifest);
    assert!(report["machine"]["cmdline"].as_str().unwrap().contains(EXPECTED), "{report}");
    let row = report["tests"].as_array().unwrap().iter().find(|t| t["id"] == "image").unwrap();
    let listed = Image::shipped().file_list().unwrap().lines().count();
    assert_eq!(row["summary"], format!("golden: {listed} files as listed, image {id}"));

    booted.says(&format!("manifest  {manifest}"));
    booted.says("firstlight exited with status 0");
    booted.ended(&End::PowerOff);
}

/// The files that a test needs in the guest are themselves such a change, and so are the bones of the driver image.
#[test]
fn an_image_with_a_changed_an_added_and_an_unlisted_file_is_refused_by_name() {
    let list = Image::shipped().file_list().unwrap();
    let unlisted = "/usr/lib/firstlight/udhcpc.script";
    let doctored: String = list.lines().filter(|l| !l.contains(unlisted)).map(|l| format!("{l}\n")).collect();
    assert!(doctored.len() < list.len());
    let over = |o: Overlay| {
        let o = o.program("usr/lib/firstlight/demo", "#!/bin/sh\n").file("usr/lib/.hidden", "x");
        o.file("usr/lib/firstlight/files", doctored.as_str())
    };
    let script = "firstlight image > /run/kept/text; echo $? > /run/kept/status
firstlight image --json /run/kept/image.json";
    let boot = Boot::shipped().append(EXPECTED).append("lockdown=integrity").overlay(over);
    let booted = boot.workload(script).whatever_the_verdict().run().unwrap();
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), &verdict.failed[..]),
        ("FAIL", &["image".to_owned()][..]),
        "{booted}"
    );
    assert_eq!(booted.text("kept/status"), "1");
    let text = booted.text("kept/text");
    let told = |change: &str, path: &str| {
        let begins = format!("{change:<9} {path}");
        assert!(text.lines().any(|l| l.starts_with(&begins)), "no {begins} in\n{text}");
    };
    told("changed", "/usr/lib/firstlight/demo (built here): expected ");
    told("changed", "/usr/lib/firstlight/files: expected ");
    told("changed", "/usr/lib/firstlight/driver.squashfs");
    told("added", "/usr/lib/.hidden: found a file");
    told("added", &format!("{unlisted}: found a file"));
    told("added", "/etc/firstlight/config.d/");
    told("added", "/t/workload: found a file");
    assert!(text.lines().last().unwrap().starts_with("not golden: 3 changed, "), "{text}");
    let json = booted.json("kept/image.json");
    assert_eq!((&json["schema"], &json["golden"]), (&"firstlight.image/1".into(), &false.into()));
    assert_eq!(json["cmdline"], booted.report().0["machine"]["cmdline"]);
    assert_eq!(booted.report().about("image", "image"), [("IMAGE-CHANGED", "fail")]);
    // And of a protection that this kernel cannot give it says so.
    assert_eq!(booted.report().about("cmdline", "kernel"), [("LOCKDOWN-IGNORED", "warn")]);
}

/// The shipped image in a folder, all of it.
fn unpacked(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    Image::shipped().unpack(&root, true).unwrap();
    root
}

/// The image's own program, by the image's own loader and libraries: this machine's may be older.
fn ask(root: &Path, json: &Path) -> Output {
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
fn answer(root: &Path, status: i32) -> Value {
    let json = root.parent().unwrap().join("image.json");
    let output = ask(root, &json);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    serde_json::from_slice(&fs::read(json).unwrap()).unwrap()
}

#[test]
fn an_unpacked_image_is_golden_until_anything_in_it_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let root = unpacked(dir.path());
    let whole = answer(&root, 0);
    assert_eq!((&whole["golden"], &whole["image_id"]), (&true.into(), &built().0.into()), "{whole}");
    assert!(whole["cmdline"].is_null() && whole["driver"] != "mounted", "{whole}");

    let the_one = |change: &str, path: &str| {
        let told = answer(&root, 1);
        let [one] = &told["differences"].as_array().unwrap()[..] else { panic!("{told}") };
        assert_eq!((&one["change"], &one["path"]), (&change.into(), &path.into()), "{told}");
    };
    let link = root.join("usr/bin/sh");
    fs::remove_file(&link).unwrap();
    the_one("missing", "/usr/bin/sh");
    symlink("firstlight", &link).unwrap();
    the_one("changed", "/usr/bin/sh");
    fs::remove_file(&link).unwrap();
    symlink("busybox", &link).unwrap();
    let config = root.join("etc/firstlight/config.toml");
    let settings = fs::read(&config).unwrap();
    fs::write(&config, "").unwrap();
    the_one("changed", "/etc/firstlight/config.toml");
    fs::write(&config, settings).unwrap();
    fs::write(root.join("root/.profile"), "x").unwrap();
    the_one("added", "/root/.profile");
    fs::remove_file(root.join("root/.profile")).unwrap();
    assert_eq!(answer(&root, 0), whole);
    fs::remove_file(root.join("usr/lib/firstlight/files")).unwrap();
    assert!(answer(&root, 2)["golden"].is_null());
}
