//! The comparison of two builds reports which files are the same and which differ, and never calls two empty builds the same.

use harness::workspace;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Two builds, identical at first.
struct Builds(TempDir);

impl Builds {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for build in ["first", "second"] {
            fs::create_dir_all(dir.path().join(build).join("modules")).unwrap();
        }
        let builds = Self(dir);
        builds.both("image", &[7; 3000]);
        builds.both("modules/a.ko", b"module");
        builds.both(
            "firstlight.files",
            b"aa\t/init\tbuilt here\nbb\t/usr/bin/busybox\tbusybox 1\n",
        );
        builds.both(".note", b"");
        for build in ["first", "second"] {
            symlink("a.ko", builds.at(build, "modules/b.ko")).unwrap();
        }
        builds
    }

    fn at(&self, build: &str, path: &str) -> PathBuf {
        self.0.path().join(build).join(path)
    }

    fn both(&self, path: &str, data: &[u8]) {
        for build in ["first", "second"] {
            fs::write(self.at(build, path), data).unwrap();
        }
    }

    fn compared(&self) -> Output {
        let script = workspace().join("image/reproduce/compare.py");
        let mut python = Command::new("python3");
        python
            .arg("-B")
            .arg(script)
            .arg("built")
            .arg(self.at("first", ""))
            .arg(self.at("second", ""));
        python.output().unwrap()
    }

    /// Asserts that the comparison reports exactly one difference, with these words.
    fn assert_difference(&self, words: &str) {
        let output = self.compared();
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert!(report.contains(words), "no '{words}' in\n{report}");
        assert!(report.contains("3 of 4 files are the same"), "{report}");
    }
}

#[test]
fn the_same_bytes_are_the_same() {
    let output = Builds::new().compared();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.ends_with("4 of 4 files are the same\n"), "{report}");
    assert!(
        report.contains(" 3000  ") && report.contains("  built/image\n"),
        "{report}"
    );
}

#[test]
fn a_byte_that_differs_is_reported_with_its_offset() {
    let builds = Builds::new();
    let mut data = [7; 3000];
    data[2500] = 8;
    fs::write(builds.at("second", "image"), data).unwrap();
    builds.assert_difference(
        "DIFFERS  built/image: first different byte at 2500; sizes 3000, 3000\n",
    );
}

#[test]
fn a_file_that_ends_earlier_differs_where_it_ends() {
    let builds = Builds::new();
    fs::write(builds.at("second", "image"), [7; 2000]).unwrap();
    builds.assert_difference(
        "DIFFERS  built/image: first different byte at 2000; sizes 3000, 2000\n",
    );
}

#[test]
fn a_file_in_only_one_build_is_a_difference() {
    let builds = Builds::new();
    fs::remove_file(builds.at("first", "modules/a.ko")).unwrap();
    builds.assert_difference("DIFFERS  built/modules/a.ko: only in the second\n");
}

#[test]
fn differing_links_and_permissions_are_reported() {
    let builds = Builds::new();
    fs::remove_file(builds.at("second", "modules/b.ko")).unwrap();
    fs::write(builds.at("second", "modules/b.ko"), "module").unwrap();
    builds.assert_difference("DIFFERS  built/modules/b.ko: links to a.ko, to no link\n");
    let builds = Builds::new();
    fs::set_permissions(
        builds.at("first", "image"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    builds.assert_difference("DIFFERS  built/image: executable: True, False\n");
}

#[test]
fn files_that_differ_between_two_lists_are_named() {
    let builds = Builds::new();
    let list = "aa\t/init\tbuilt here\ncc\t/usr/bin/busybox\tbusybox 2\ndd\t/new\tbuilt here\n";
    fs::write(builds.at("second", "firstlight.files"), list).unwrap();
    builds.assert_difference("/usr/bin/busybox: bb (busybox 1), cc (busybox 2)\n");
    builds.assert_difference("/new only in the second\n");
}

#[test]
fn two_empty_builds_are_an_error() {
    let builds = Builds::new();
    for build in ["first", "second"] {
        fs::remove_dir_all(builds.at(build, "")).unwrap();
    }
    let output = builds.compared();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        stderr,
        "firstlight: error: built: there is nothing to compare\n"
    );
}
