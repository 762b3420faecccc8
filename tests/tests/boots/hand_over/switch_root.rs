//! Does the machine end up in the workload's own root, with all promised files and mounts?

use super::{ext4_of, write_root};
use harness::driver_image::squashfs;
use harness::servers::{HttpReply, HttpServer};
use harness::{Boot, Booted, End, Image};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The new root's process 1: prints what it finds and powers the machine off.
const INIT: &str = "#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
echo \"new root pid $$ label $(cat /label)\"
echo \"new root files $(ls /run/firstlight | tr '\\n' ' ')\"
echo \"new root verdict $(grep -o '\"verdict\": *\"[A-Z]*\"' /run/firstlight/verdict.json)\"
echo \"new root mounts $(cut -d ' ' -f 2 /proc/self/mounts | sort | tr '\\n' ' ')\"
echo \"new root old $(ls /usr/bin/firstlight 2>&1)\"
echo \"new root writable $(touch /mark && echo yes)\"
echo \"new root modules $(cat /proc/sys/kernel/modules_disabled)\"
echo \"new root kind $(sed -n 's/^[^ ]* \\/ //p' /proc/self/mounts | tail -n 1 | cut -d ' ' -f 1)\"
sleep 1
poweroff -f
";

fn root_tree(image: &Image, label: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_root(image, dir.path(), INIT);
    std::fs::write(dir.path().join("label"), label).unwrap();
    dir
}

#[track_caller]
fn assert_arrived(booted: &Booted, label: &str, kind: &str) {
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says(&format!("new root pid 1 label {label}"));
    let files = booted
        .lines()
        .find(|l| l.starts_with("new root files"))
        .unwrap_or_else(|| panic!("{booted}"));
    for file in [
        "report.json",
        "verdict.json",
        "env",
        "validated",
        "boot.log",
    ] {
        assert!(files.contains(file), "no {file} in {files:?}");
    }
    let verdict = booted
        .lines()
        .find(|l| l.starts_with("new root verdict"))
        .unwrap();
    assert!(verdict.ends_with("\"PASS\""), "{verdict:?}");
    let mounts = booted
        .lines()
        .find(|l| l.starts_with("new root mounts"))
        .unwrap();
    for mount in ["/ ", "/dev ", "/proc ", "/run ", "/sys "] {
        assert!(mounts.contains(mount), "{mount:?} not in {mounts:?}");
    }
    booted.says("new root old ls: /usr/bin/firstlight: No such file or directory");
    booted.says("new root writable yes");
    booted.says(&format!("new root kind {kind}"));
    booted.ended(&End::PowerOff);
}

fn boot(root: &str) -> Boot {
    let config =
        format!("[workload]\nmode = \"switch-root\"\nroot = \"{root}\"\nexec = [\"/sbin/init\"]\n");
    Boot::shipped()
        .append("firstlight.expect.gpus=0")
        .config(&config)
}

#[test]
fn into_an_ext4_partition_by_label() {
    let image = Image::shipped();
    let dir = root_tree(&image, "ROOTDISK");
    let scratch = tempfile::tempdir().unwrap();
    let disk = ext4_of(dir.path(), "ROOTDISK", 16, scratch.path().join("disk"));
    assert_arrived(
        &boot("LABEL=ROOTDISK").disk(&disk).run().unwrap(),
        "ROOTDISK",
        "ext4",
    );
}

/// A squashfs is read-only; an overlay in memory lets its init write files.
#[test]
fn into_a_squashfs_file_on_a_disk() {
    let image = Image::shipped();
    let inner = root_tree(&image, "INNER");
    let outer = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    squashfs(inner.path(), outer.path().join("node.squashfs")).unwrap();
    let disk = ext4_of(outer.path(), "IMAGES", 16, scratch.path().join("disk"));
    assert_arrived(
        &boot("LABEL=IMAGES:/node.squashfs")
            .disk(&disk)
            .run()
            .unwrap(),
        "INNER",
        "overlay",
    );
}

/// A squashfs, and its checksum.
fn squashfs_image(scratch: &TempDir, label: &str) -> (Vec<u8>, String) {
    let file: PathBuf = scratch.path().join("root.squashfs");
    squashfs(root_tree(&Image::shipped(), label).path(), file.clone()).unwrap();
    let output = Command::new("sha256sum").arg(&file).output().unwrap();
    let sum = String::from_utf8(output.stdout)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    (fs::read(&file).unwrap(), sum)
}

fn from_server(root: &str) -> Boot {
    boot(root)
        .card("user", "52:54:00:12:34:56")
        .append("firstlight.policy.on_error=poweroff")
}

/// The file is in memory afterwards, so the server is no longer needed.
#[test]
fn into_a_squashfs_from_a_server() {
    let scratch = tempfile::tempdir().unwrap();
    let (bytes, sum) = squashfs_image(&scratch, "SERVED");
    let server = HttpServer::start(move |_, _| HttpReply::Status(200, bytes.clone()));
    let url = server.url("10.0.2.2", "/root.squashfs");
    let booted = from_server(&format!("{url}#sha256={sum}")).run().unwrap();
    booted.says("network   firstlight, eth0 by DHCP");
    booted.says(&format!("hand off  switch root to {url}"));
    booted.says(&format!("root      fetches {url}, at most "));
    assert_arrived(&booted, "SERVED", "overlay");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_root_with_a_wrong_checksum_or_that_is_too_large_is_named_and_on_error_applies() {
    let server = HttpServer::start(|_, request| match request.line.contains("/large") {
        true => HttpReply::Status(200, vec![0; 600 << 20]),
        false => HttpReply::Status(200, b"something else".to_vec()),
    });
    for (path, why) in [("/other", "sha256 is "), ("/large", "larger than ")] {
        let url = server.url("10.0.2.2", path);
        // A root may take at most half of the free memory, which is less than what the server sends.
        let booted = from_server(&format!("{url}#sha256={}", "0".repeat(64)))
            .memory(1024)
            .run()
            .unwrap();
        assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
        let line = format!("ERROR     INIT-HANDOFF: workload.root {url}: {why}");
        assert_eq!(
            booted.lines().filter(|l| l.starts_with(&line)).count(),
            1,
            "{booted}"
        );
        booted.never_says("new root");
        booted.ended(&End::PowerOff);
    }
}

#[test]
fn a_server_that_does_not_answer_is_named_and_on_error_applies() {
    let server = HttpServer::start(|_, _| HttpReply::Silence);
    let url = server.url("10.0.2.2", "/root.squashfs");
    let booted = from_server(&format!("{url}#sha256={}", "0".repeat(64)))
        .mostly_waits()
        .run()
        .unwrap();
    booted.says(&format!(
        "ERROR     INIT-HANDOFF: workload.root {url}: nothing came for 30 s"
    ));
    booted.ended(&End::PowerOff);
}

#[test]
fn a_missing_root_is_named_and_on_error_applies() {
    let boot = boot("LABEL=NOWHERE").append("firstlight.policy.on_error=poweroff");
    let booted = boot.run().unwrap();
    booted.says("LABEL=NOWHERE");
    booted.never_says("panic");
    booted.ended(&End::PowerOff);
}
