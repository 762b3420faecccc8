//! Finds the one block device that a place names. A name that matches two devices is refused, because the
//! choice between them would depend on chance.

use super::superblock::{self, Kind, Superblock};
use crate::config::types::Place;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error;

/// A device and what is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path in /dev.
    pub device: String,
    /// Its file system.
    pub kind: Kind,
}

/// Why there is no such device.
#[derive(Debug, Error)]
pub enum NotFound {
    /// No device has that name.
    #[error("{0}: no such file system on any disk")]
    Absent(String),
    /// More than one device has that name.
    #[error("{0}: more than one: {1}")]
    Ambiguous(String, String),
    /// The device holds no file system that init mounts.
    #[error("{0}: neither vfat, ext4, xfs, squashfs nor erofs")]
    Unknown(String),
    /// The device cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, io::Error),
}

impl Place {
    /// The place of the data partition when no layer names another.
    #[must_use]
    pub fn usual() -> Self {
        Self::Label("FIRSTLIGHT".to_owned())
    }

    /// The place as the configuration spells it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Label(label) => format!("LABEL={label}"),
            Self::Uuid(uuid) => format!("UUID={uuid}"),
            Self::Device(path) => path.clone(),
        }
    }

    fn fits(&self, block: &Superblock) -> bool {
        match self {
            Self::Label(label) => block.label.as_ref() == Some(label),
            Self::Uuid(uuid) => block.uuid.as_ref().is_some_and(|u| u.eq_ignore_ascii_case(uuid)),
            Self::Device(_) => false,
        }
    }
}

/// Finds the device now.
///
/// # Errors
/// See [`NotFound`].
pub fn find(place: &Place) -> Result<Found, NotFound> {
    if let Place::Device(path) = place {
        let block = read(Path::new(path)).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => NotFound::Absent(place.text()),
            _ => NotFound::Unreadable(place.text(), e),
        })?;
        let kind = block.ok_or_else(|| NotFound::Unknown(place.text()))?.kind;
        return Ok(Found { device: path.clone(), kind });
    }
    // A disk that cannot be read cannot match.
    let blocks = candidates().into_iter().filter_map(|path| Some((read(Path::new(&path)).ok()??, path)));
    let mut fitting: Vec<_> = blocks.filter(|(block, _)| place.fits(block)).collect();
    match (fitting.pop(), fitting.as_slice()) {
        (None, _) => Err(NotFound::Absent(place.text())),
        (Some((block, device)), []) => Ok(Found { device, kind: block.kind }),
        (Some((_, device)), [(_, other), ..]) => {
            Err(NotFound::Ambiguous(place.text(), format!("{other} and {device}")))
        }
    }
}

/// Finds the device and waits while it may still appear: up to `wait` in any case, and up to [`USB_SETTLE`]
/// while a USB disk is known whose block device does not exist yet.
///
/// # Errors
/// As [`find`].
pub fn find_waiting(place: &Place, wait: Duration) -> Result<Found, NotFound> {
    let started = Instant::now();
    loop {
        let found = find(place);
        let over = started.elapsed() >= wait
            && (started.elapsed() >= USB_SETTLE || !usb_disk_pending(Path::new("/sys")));
        if over || !matches!(found, Err(NotFound::Absent(_))) {
            return found;
        }
        sleep(Duration::from_millis(50));
    }
}

/// How long a USB disk may take from its interface to its block device: the kernel's own delay is
/// 1 s (usb-storage.delay_use), slow sticks take a few.
pub const USB_SETTLE: Duration = Duration::from_secs(5);

fn candidates() -> Vec<String> {
    let unfit = ["ram", "loop", "zram", "sr", "fd", "nbd"];
    let names = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !unfit.iter().any(|prefix| name.starts_with(prefix)));
    let mut paths: Vec<_> = names.map(|name| format!("/dev/{}", name.replace('!', "/"))).collect();
    paths.sort();
    paths
}

fn read(device: &Path) -> io::Result<Option<Superblock>> {
    let file = File::open(device)?;
    let mut head = vec![0; superblock::HEAD];
    let length = file.read_at(&mut head, 0)?;
    head.truncate(length);
    let mut block = superblock::probe(&head);
    if let Some(fat) = block.as_mut().filter(|b| b.kind == Kind::Vfat) {
        let mut folder = vec![0; superblock::HEAD];
        let at = superblock::vfat_root(&head);
        if at.is_some_and(|at| file.read_exact_at(&mut folder, at).is_ok()) {
            fat.label = superblock::vfat_root_label(&folder).or_else(|| fat.label.take());
        }
    }
    Ok(block)
}

/// Whether a USB mass storage interface (class 08) has no block device yet.
fn usb_disk_pending(sys: &Path) -> bool {
    let interfaces = fs::read_dir(sys.join("bus/usb/devices")).into_iter().flatten().flatten();
    let disks = interfaces.map(|entry| entry.path()).filter(|path| {
        fs::read_to_string(path.join("bInterfaceClass")).is_ok_and(|class| class.trim() == "08")
    });
    disks.into_iter().any(|interface| !has_folder(&interface, "block", 4))
}

fn has_folder(at: &Path, name: &str, depth: usize) -> bool {
    let entries: Vec<_> = fs::read_dir(at).into_iter().flatten().flatten().collect();
    entries.iter().any(|e| e.file_name() == name)
        || (depth > 0
            && entries
                .iter()
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
                .any(|e| has_folder(&e.path(), name, depth - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_device_and_one_without_a_file_system_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let place = Place::Device(path.to_str().unwrap().to_owned());
        assert!(matches!(find(&place), Err(NotFound::Absent(_))));
        fs::write(&path, vec![0; 8192]).unwrap();
        assert!(matches!(find(&place), Err(NotFound::Unknown(_))));
        let mut disk = vec![0; 8192];
        disk[..4].copy_from_slice(b"hsqs");
        fs::write(&path, disk).unwrap();
        assert_eq!(find(&place).unwrap().kind, Kind::Squashfs);
    }

    #[test]
    fn a_usb_disk_is_pending_until_its_block_device_is_there() {
        let sys = tempfile::tempdir().unwrap();
        let interface = sys.path().join("bus/usb/devices/1-1:1.0");
        fs::create_dir_all(interface.join("host0/target0:0:0/0:0:0:0")).unwrap();
        fs::write(interface.join("bInterfaceClass"), "08\n").unwrap();
        assert!(usb_disk_pending(sys.path()));
        fs::create_dir_all(interface.join("host0/target0:0:0/0:0:0:0/block/sda")).unwrap();
        assert!(!usb_disk_pending(sys.path()));
    }

    #[test]
    fn a_keyboard_is_not_waited_for() {
        let sys = tempfile::tempdir().unwrap();
        let interface = sys.path().join("bus/usb/devices/1-2:1.0");
        fs::create_dir_all(&interface).unwrap();
        fs::write(interface.join("bInterfaceClass"), "03\n").unwrap();
        assert!(!usb_disk_pending(sys.path()));
    }
}
