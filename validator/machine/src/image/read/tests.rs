//! Intact and modified images in a folder.

use super::super::compare::Change;
use super::super::{Document, IDENTITY_FILE, LIST};
use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A small image as its build leaves it, with a driver image.
struct Image(TempDir);

impl Image {
    fn whole() -> Self {
        let image = Self(tempfile::tempdir().unwrap());
        for folder in [
            "dev",
            "run",
            "usr/bin",
            "usr/lib/firstlight",
            "etc/firstlight",
        ] {
            fs::create_dir_all(image.at(folder)).unwrap();
        }
        symlink("usr/bin", image.at("bin")).unwrap();
        let mut list = "-> usr/bin\t/bin\tbuilt here\n".to_owned();
        for path in [
            "/init",
            "/usr/bin/busybox",
            "/usr/lib/firstlight/driver.squashfs",
        ] {
            image.write(path, path);
            list += &format!("{}\t{path}\tp 1\n", hex(&Sha256::digest(path)));
        }
        list += &format!(
            "{}\t/run/firstlight/driver/lib/libcuda.so\tdriver 5\n",
            hex(&Sha256::digest("x"))
        );
        image.lists(&list);
        image
    }

    fn lists(&self, list: &str) {
        self.write(LIST, list);
        let sum = hex(&Sha256::digest(list));
        let text =
            format!(r#"{{ "version": "9.1", "image_id": "abc", "manifest_sha256": "{sum}" }}"#);
        self.write(IDENTITY_FILE, &text);
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn examined(&self) -> Result<Option<Examined>, ExamineError> {
        examine(&Root::new(self.0.path()))
    }

    #[track_caller]
    fn differences(&self) -> Vec<(Change, String)> {
        let seen = self.examined().unwrap().unwrap();
        assert_eq!(seen.is_golden(), seen.differences.is_empty());
        seen.differences
            .into_iter()
            .map(|d| (d.change, d.path))
            .collect()
    }
}

#[test]
fn an_image_as_it_was_built_is_golden() {
    let seen = Image::whole().examined().unwrap().unwrap();
    assert!(seen.is_golden(), "{:?}", seen.differences);
    assert_eq!(seen.to_string(), "golden: 5 files as listed, image abc");
    assert_eq!(
        (seen.driver, seen.bytes),
        (DriverImage::NotMounted, 5 + 16 + 35)
    );
}

#[test]
fn what_init_makes_while_it_runs_changes_nothing() {
    let image = Image::whole();
    for path in [
        "/run/firstlight/report.json",
        "/etc/nccl.conf",
        "/etc/resolv.conf",
        "/.extra/os-release",
    ] {
        image.write(path, "x");
    }
    assert_eq!(image.differences(), []);
}

#[test]
fn every_added_file_is_reported() {
    let added = [
        "/.hidden",
        "/etc/firstlight/config.d/50.toml",
        "/etc/nccl.conf.d/x",
        "/root/.profile",
        "/run/firstlight/driver/lib/libcuda.so",
        "/usr/bin/sh",
    ];
    for path in added {
        let image = Image::whole();
        image.write(path, "x");
        assert_eq!(image.differences(), [(Change::Added, path.to_owned())]);
    }
    // The name of a permitted file does not permit a folder, nor the name of a folder a link.
    let image = Image::whole();
    image.write("/etc/nccl.conf/x", "x");
    symlink("usr", image.at("tmp")).unwrap();
    let two = [
        (Change::Added, "/etc/nccl.conf/x".to_owned()),
        (Change::Added, "/tmp".to_owned()),
    ];
    assert_eq!(image.differences(), two);
}

#[test]
fn changed_and_missing_files_are_reported_with_their_package() {
    let image = Image::whole();
    image.write("/usr/bin/busybox", "other");
    fs::remove_file(image.at("init")).unwrap();
    let seen = image.examined();
    let document = Document::of(&Root::new("/r"), Some("a b"), &seen);
    let text = document.text();
    let lines: Vec<_> = text.lines().collect();
    let sum = hex(&Sha256::digest("/usr/bin/busybox"));
    let sum = sum.get(..12).unwrap();
    let busybox = format!("changed   /usr/bin/busybox (p 1): expected {sum}, found d9298a10d1b0");
    assert_eq!(lines[0..2], ["version   9.1", "image     abc"]);
    assert_eq!(lines[3..5], ["cmdline   a b", "driver    not mounted"]);
    assert!(
        lines[5].starts_with("missing   /init (p 1): expected "),
        "{text}"
    );
    assert_eq!(
        lines[6..],
        [
            &busybox,
            "not golden: 1 changed, 1 missing of image abc's 5 files"
        ]
    );
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(
        (&json["golden"], &json["changed"], &json["added"]),
        (&false.into(), &1.into(), &0.into())
    );
}

#[test]
fn a_modified_list_is_not_golden_even_if_the_files_match_it() {
    let image = Image::whole();
    image.write("/usr/bin/sh", "x");
    let list = fs::read_to_string(image.at(LIST)).unwrap();
    image.write(
        LIST,
        &format!("{list}{}\t/usr/bin/sh\tp 1\n", hex(&Sha256::digest("x"))),
    );
    assert_eq!(image.differences(), [(Change::Changed, LIST.to_owned())]);
}

#[test]
fn the_first_differences_are_shown_and_all_are_counted() {
    let image = Image::whole();
    for n in 0..30 {
        image.write(&format!("/usr/share/{n:02}"), "x");
    }
    let seen = image.examined();
    let text = Document::of(&Root::new("/r"), None, &seen).text();
    assert_eq!(text.matches("added ").count(), 20 + 1, "{text}");
    assert!(
        text.ends_with("..        and 10 more\nnot golden: 30 added of image abc's 5 files\n"),
        "{text}"
    );
}

#[test]
fn unreadable_or_invalid_files_are_errors_and_never_golden() {
    for (path, text, why) in [
        (IDENTITY_FILE, "{", "/etc/firstlight/image.json: EOF"),
        (
            IDENTITY_FILE,
            r#"{"version":"1","image_id":null,"manifest_sha256":null}"#,
            "names no manifest_sha256",
        ),
        (LIST, "", "/usr/lib/firstlight/files: lists no file"),
        (LIST, "x\ty\tz\n", "line 1: has neither"),
        (
            "/proc/self/mountinfo",
            "nonsense\n",
            "/proc/self/mountinfo: not understood: nonsense",
        ),
    ] {
        let image = Image::whole();
        image.write(path, text);
        let seen = image.examined();
        let error = seen.as_ref().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        let document = serde_json::to_value(Document::of(&Root::new("/r"), None, &seen)).unwrap();
        assert!(
            document["golden"].is_null() && document["summary"].as_str().unwrap().contains(why)
        );
    }
    let image = Image::whole();
    fs::remove_file(image.at(LIST)).unwrap();
    assert!(image.examined().unwrap_err().to_string().starts_with(LIST));
    let image = Image::whole();
    fs::remove_file(image.at(IDENTITY_FILE)).unwrap();
    assert_eq!(image.examined().unwrap(), None);
}

#[test]
fn a_driver_mounted_from_elsewhere_is_reported() {
    let image = Image::whole();
    fs::create_dir_all(image.at("run/firstlight/driver")).unwrap();
    let root = Root::new(image.0.path());
    let (major, minor) = root.file_system("run/firstlight/driver").unwrap();
    let line =
        format!("9 1 {major}:{minor} / /run/firstlight/driver ro - squashfs /dev/loop0 ro\n");
    image.write("/proc/self/mountinfo", &line);
    let block = format!("/sys/dev/block/{major}:{minor}/loop");
    for (name, text) in [
        ("backing_file", "/usr/lib/firstlight/driver.squashfs\n"),
        ("offset", "0\n"),
        ("sizelimit", "0\n"),
    ] {
        image.write(&format!("{block}/{name}"), text);
    }
    assert_eq!(
        image.examined().unwrap().unwrap().driver,
        DriverImage::Mounted
    );
    assert_eq!(image.differences(), []);
    image.write(&format!("{block}/backing_file"), "/tmp/mine\n");
    assert_eq!(
        image.differences(),
        [(Change::Changed, "/run/firstlight/driver".to_owned())]
    );
}
