//! What needs root: `publish` to a mounted disk, for which a file stands, and holding a process while it opens a file.

mod workers;

use crate::publish::{Place, REPORT, names};
use std::fs;
use std::process::Command;

#[test]
fn a_full_partition_is_one_line_and_keeps_what_it_has() {
    let place = Place::new();
    let disk = Disk::of(&place);
    let at = disk.at.clone();
    assert_eq!(place.publish(&["--partition", &at]).status, 0);
    let fill =
        Command::new("dd").args(["if=/dev/zero", &format!("of={at}/rest"), "bs=512"]).output().unwrap();
    assert!(!fill.status.success());
    let long = REPORT.replace('}', &format!(",\"x\":\"{}\"}}", "x".repeat(4000)));
    fs::write(place.path("report.json"), long).unwrap();
    let done = place.publish(&["--partition", &at, "--keep", "1"]);
    let said =
        "partition: not kept: reports/: no room for 4089 bytes; nothing was removed: delete files there\n";
    assert_eq!((done.out.as_str(), done.status), (said, 1));
    assert_eq!(names(format!("{at}/reports")), ["000001-20261120T100000Z-FAIL.json"]);
    assert_eq!(
        fs::read_to_string(format!("{at}/reports/000001-20261120T100000Z-FAIL.json")).unwrap(),
        REPORT
    );
}

/// A small mounted file system; gone when dropped. Needs root.
struct Disk {
    at: String,
}

impl Disk {
    fn of(place: &Place) -> Self {
        let (file, at) = (place.path("disk"), place.path("mounted"));
        fs::create_dir(&at).unwrap();
        let options = ["-q", "-t", "ext4", "-O", "^has_journal", "-b", "1024"];
        let made = Command::new("mke2fs").args(options).args([&file, "512k"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mounted = Command::new("mount").args(["-o", "loop", &file, &at]).output().unwrap();
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
        Self { at }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}

#[test]
fn a_mounted_device_is_found_by_its_name() {
    let place = Place::new();
    let disk = Disk::of(&place);
    let (mounts, at) =
        (fs::read_to_string("/proc/self/mounts").unwrap(), fs::canonicalize(&disk.at).unwrap());
    let device = mounts.lines().find(|l| l.split(' ').nth(1) == at.to_str()).unwrap();
    let device = device.split(' ').next().unwrap();
    let done = place.publish(&["--partition", device]);
    assert_eq!(done.status, 0, "{}", done.out);
    assert_eq!(names(format!("{}/reports", disk.at)).len(), 1);
    drop(disk);
    let done = place.publish(&["--partition", "/dev/null"]);
    assert!(done.out.contains("/dev/null and not mounted: mount it"), "{}", done.out);
}
