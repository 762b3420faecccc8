//! Does `just usb` write what it should, and refuse what it must? A loop device represents the disk; a bind mount over its
//! `removable` file, in a separate mount namespace, makes the script see it as removable.
//! Not tested: a real stick, and a stick that does not store what it accepts. Needs root, or sudo without a password.

use harness::workspace;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MIB: u64 = 1 << 20;

fn root(script: &str) -> Output {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|o| o.stdout == b"0\n");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null());
    command
        .args(if is_root { &[][..] } else { &["-n"] })
        .args(["sh", "-euc", script])
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace('\r', "\n")
}

/// A loop device over its own file; detached when dropped.
struct Disk {
    device: String,
    file: PathBuf,
    _dir: tempfile::TempDir,
}

impl Disk {
    fn new(bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        let output = root(&format!(
            "losetup --find --show --partscan {}",
            file.display()
        ));
        assert!(output.status.success(), "{}", stderr(&output));
        Self {
            device: String::from_utf8(output.stdout).unwrap().trim().to_owned(),
            file,
            _dir: dir,
        }
    }

    /// Runs the script in a mount namespace where this disk is removable. `before` runs first in the same namespace.
    fn usb(&self, before: &str, words: &str) -> Output {
        let script = workspace().join("image/media/usb.sh");
        let name = self.device.trim_start_matches("/dev/");
        root(&format!(
            "exec unshare --mount sh -euc '
                echo 1 > {one}; mount --bind {one} /sys/class/block/{name}/removable
                {before}
                exec {} {words}'",
            script.display(),
            one = self.file.with_extension("one").display(),
        ))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = root(&format!("losetup --detach {}", self.device));
    }
}

/// A small image for these tests, so that no test has to write a whole stick.
fn image(dir: &Path) -> (PathBuf, Vec<u8>) {
    let bytes: Vec<u8> = (0..9 * MIB + 512)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 16) as u8)
        .collect();
    let path = dir.join("image");
    fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

#[track_caller]
fn assert_refused(output: &Output, words: &str) {
    let text = stderr(output);
    assert!(!output.status.success(), "{text}");
    let errors: Vec<_> = text
        .lines()
        .filter(|l| l.contains("firstlight: error:"))
        .collect();
    assert!(
        errors.len() == 1 && errors[0].contains(words),
        "no {words:?} in:\n{text}"
    );
    assert!(!text.contains("writing "), "it wrote anyway:\n{text}");
}

#[test]
fn a_removable_disk_is_written_read_back_and_freed_of_old_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (image, bytes) = image(dir.path());
    let disk = Disk::new(64 * MIB);
    fs::OpenOptions::new()
        .append(true)
        .open(&disk.file)
        .unwrap();
    let old = "EFI PART";
    let before = format!(
        "printf \"{old}\" | dd of={} bs=512 seek=131071 conv=notrunc status=none",
        disk.device
    );
    let output = disk.usb(
        &before,
        &format!("{} --yes --image {}", disk.device, image.display()),
    );
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "writing 10 MiB to /dev/loop",
        "copied",
        "reading it back",
        "is ready",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let after = fs::read(&disk.file).unwrap();
    assert!(
        after[..bytes.len()] == bytes[..],
        "the disk has other contents"
    );
    assert!(
        after[63 * 1_048_576..].iter().all(|b| *b == 0),
        "the old table is still there"
    );
}

#[test]
fn disks_that_must_not_be_written_are_refused_each_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (image, bytes) = image(dir.path());
    let disk = Disk::new(64 * MIB);
    let words = format!("{} --yes --image {}", disk.device, image.display());
    let script = workspace().join("image/media/usb.sh");
    assert_refused(
        &root(&format!("exec {} {words}", script.display())),
        "is not a removable disk",
    );
    let mounted = format!(
        "mke2fs -q -F {0}; mkdir -p {1}; mount {0} {1}",
        disk.device,
        dir.path().join("at").display()
    );
    assert_refused(&disk.usb(&mounted, &words), "is mounted on");
    assert_refused(
        &disk.usb(
            "",
            &format!(
                "{} --yes --image {}",
                disk.device,
                workspace().join("target/image/out/none").display()
            ),
        ),
        "there is no USB image",
    );
    let small = Disk::new(8 * MIB);
    assert_refused(
        &small.usb(
            "",
            &format!("{} --yes --image {}", small.device, image.display()),
        ),
        "is too small (it has 8 MiB, the image needs 10 MiB)",
    );
    assert_refused(
        &disk.usb("", &format!("/dev/null --yes --image {}", image.display())),
        "is neither a disk nor a file",
    );
    assert_refused(
        &disk.usb("", &format!("/dev/none --yes --image {}", image.display())),
        "/dev/none is not there",
    );
    assert_refused(
        &disk.usb("", &format!("--yes --image {}", image.display())),
        "which device?",
    );
    assert_refused(
        &disk.usb("", &format!("{words} --force")),
        "unknown word --force",
    );
    let (disk, start) = (fs::read(&disk.file).unwrap(), 4096);
    assert!(
        disk[start..2 * start] != bytes[start..2 * start],
        "the image was written"
    );
}

#[test]
fn a_partition_is_refused_and_the_disk_is_named() {
    let disk = Disk::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let (image, _) = image(dir.path());
    // An MBR with one partition of 126976 sectors, from sector 2048; the disk has 131072.
    let mut table = [0_u8; 512];
    table[446..462].copy_from_slice(&[0, 0, 0, 0, 0x0c, 0, 0, 0, 0, 8, 0, 0, 0, 0xf0, 1, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    fs::OpenOptions::new()
        .write(true)
        .open(&disk.file)
        .unwrap()
        .write_all(&table)
        .unwrap();
    let output = root(&format!(
        "partx --add {0} 2> /dev/null || partx --update {0}; ls {0}p1",
        disk.device
    ));
    assert!(output.status.success(), "{}", stderr(&output));
    let part = format!("{}p1", disk.device);
    let words = format!("{part} --yes --image {}", image.display());
    let script = workspace().join("image/media/usb.sh");
    assert_refused(
        &root(&format!("exec {} {words}", script.display())),
        &format!("name the whole disk: {}", disk.device),
    );
    // The disk itself, while its partition is in use.
    let mounted = format!(
        "mke2fs -q -F {part}; mkdir -p {0}; mount {part} {0}",
        dir.path().join("at").display()
    );
    assert_refused(
        &disk.usb(
            &mounted,
            &format!("{} --yes --image {}", disk.device, image.display()),
        ),
        "is mounted on",
    );
    let _ = root(&format!("partx --delete {}", disk.device));
}

#[test]
fn nothing_is_written_without_a_yes() {
    let dir = tempfile::tempdir().unwrap();
    let (image, bytes) = image(dir.path());
    let target = dir.path().join("medium");
    fs::write(&target, vec![7; bytes.len()]).unwrap();
    let ask = |answer: &str| {
        let mut command = Command::new(workspace().join("image/media/usb.sh"));
        let pipes = command
            .arg(&target)
            .arg("--image")
            .arg(&image)
            .stdin(Stdio::piped());
        let mut child = pipes
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(answer.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    };
    for answer in ["", "\n", "y\n", "no\n"] {
        let output = ask(answer);
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.contains("not confirmed, nothing was written"),
            "{text}"
        );
        assert!(fs::read(&target).unwrap().iter().all(|b| *b == 7));
    }
    let output = ask("yes\n");
    let text = stderr(&output);
    assert!(
        output.status.success() && text.contains("Everything on "),
        "{text}"
    );
    assert!(fs::read(&target).unwrap() == bytes);
}
