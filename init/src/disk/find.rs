//! Finds the one block device that a place names, among the disks that may be used. A name that matches two
//! devices is refused, because the choice between them would depend on chance.

use super::eligibility::{AllowedDisks, DiskInventory};
use super::superblock::{self, FileSystem, Superblock};
use crate::config::types::DeviceSpec;
use crate::paths;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The device that was found, and its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDevice {
    /// Its path in /dev.
    pub device: String,
    /// Its file system.
    pub kind: FileSystem,
}

/// The result of a search: the device, and the devices that were ignored.
#[derive(Debug)]
pub struct SearchResult {
    /// The only device that fits, or why there is none.
    pub found: Result<FoundDevice, FindError>,
    /// A line for each device of that name that may not be used: which, why, and which kernel word allows it.
    pub ignored: Vec<String>,
}

/// Why no device was found.
#[derive(Debug, Error)]
pub enum FindError {
    /// No device has that name.
    #[error("{0}: no such file system on any disk")]
    Absent(String),
    /// Only devices that may not be used have that name.
    #[error("{0}: on no disk that may be used")]
    Ignored(String),
    /// More than one device has that name.
    #[error("{0}: more than one: {1}")]
    Ambiguous(String, String),
    /// The device holds no file system that init mounts.
    #[error("{0}: neither vfat, ext4, squashfs nor erofs")]
    Unknown(String),
    /// The device cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, io::Error),
}

impl DeviceSpec {
    /// The place of the data partition when no layer names another.
    #[must_use]
    pub fn default_partition() -> Self {
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

    fn matches(&self, block: &Superblock) -> bool {
        match self {
            Self::Label(label) => block.label.as_ref() == Some(label),
            Self::Uuid(uuid) => block
                .uuid
                .as_ref()
                .is_some_and(|u| u.eq_ignore_ascii_case(uuid)),
            Self::Device(_) => false,
        }
    }
}

/// A device, and what is on it.
type Candidate = (String, Superblock);

/// Finds the device among those that exist now.
fn find(place: &DeviceSpec, disks: AllowedDisks, inventory: &DiskInventory) -> SearchResult {
    let matching_devices = match matching_devices(place) {
        Ok(matching_devices) => matching_devices,
        Err(why) => {
            return SearchResult {
                found: Err(why),
                ignored: Vec::new(),
            };
        }
    };
    select(place, matching_devices, |device| {
        inventory.objection(device, disks)
    })
}

/// Selects the only device to which there is no objection.
fn select(
    place: &DeviceSpec,
    all: Vec<Candidate>,
    objection: impl Fn(&str) -> Option<String>,
) -> SearchResult {
    let (mut usable, mut ignored) = (Vec::new(), Vec::new());
    for (device, block) in all {
        match objection(&device) {
            Some(why) => ignored.push(ignored_line(place, &device, &block, &why)),
            None => usable.push((device, block.kind)),
        }
    }
    let found = match (usable.pop(), usable.as_slice()) {
        (None, _) if ignored.is_empty() => Err(FindError::Absent(place.text())),
        (None, _) => Err(FindError::Ignored(place.text())),
        (Some((device, kind)), []) => Ok(FoundDevice { device, kind }),
        (Some((device, _)), [(other, _), ..]) => Err(FindError::Ambiguous(
            place.text(),
            format!("{other} and {device}"),
        )),
    };
    SearchResult { found, ignored }
}

fn ignored_line(place: &DeviceSpec, device: &str, block: &Superblock, why: &str) -> String {
    let name = block
        .uuid
        .as_ref()
        .map_or_else(|| device.to_owned(), |uuid| format!("UUID={uuid}"));
    format!(
        "{device} ({}) is ignored: {why}; firstlight.report.partition={name} uses it",
        place.text()
    )
}

/// Every device that the place names.
fn matching_devices(place: &DeviceSpec) -> Result<Vec<Candidate>, FindError> {
    if let DeviceSpec::Device(path) = place {
        let block = read(Path::new(path)).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => FindError::Absent(place.text()),
            _ => FindError::Unreadable(place.text(), e),
        })?;
        return Ok(vec![(
            path.clone(),
            block.ok_or_else(|| FindError::Unknown(place.text()))?,
        )]);
    }
    // A disk that cannot be read cannot match.
    let blocks = candidates()
        .into_iter()
        .filter_map(|path| Some((read(Path::new(&path)).ok()??, path)));
    Ok(blocks
        .filter(|(block, _)| place.matches(block))
        .map(|(block, path)| (path, block))
        .collect())
}

/// Finds the device and waits while it may still appear: up to `wait` in any case, and up to [`USB_SETTLE`]
/// while a USB disk is known whose block device does not exist yet. Only a device that may be used ends the wait.
#[must_use]
pub fn find_waiting(place: &DeviceSpec, wait: Duration, disks: AllowedDisks) -> SearchResult {
    let started = Instant::now();
    let inventory = DiskInventory::new(
        Path::new("/sys"),
        Path::new("/dev"),
        Path::new(paths::EFI_VARIABLES),
    );
    loop {
        let search = find(place, disks, &inventory);
        let over = started.elapsed() >= wait
            && (started.elapsed() >= USB_SETTLE || !usb_disk_pending(Path::new("/sys")));
        if over
            || !matches!(
                search.found,
                Err(FindError::Absent(_) | FindError::Ignored(_))
            )
        {
            return search;
        }
        sleep(Duration::from_millis(50));
    }
}

/// How long a USB disk may take from its interface to its block device: the kernel's own delay is
/// 1 s (usb-storage.delay_use), slow sticks take a few.
pub const USB_SETTLE: Duration = Duration::from_secs(5);

fn candidates() -> Vec<String> {
    let unfit = ["ram", "loop", "zram", "sr", "fd", "nbd"];
    let names = fs::read_dir("/sys/class/block")
        .into_iter()
        .flatten()
        .flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !unfit.iter().any(|prefix| name.starts_with(prefix)));
    let mut paths: Vec<_> = names
        .map(|name| format!("/dev/{}", name.replace('!', "/")))
        .collect();
    paths.sort();
    paths
}

fn read(device: &Path) -> io::Result<Option<Superblock>> {
    let file = File::open(device)?;
    let mut head = vec![0; superblock::HEAD];
    let length = file.read_at(&mut head, 0)?;
    head.truncate(length);
    let mut block = superblock::probe(&head);
    if let Some(fat) = block.as_mut().filter(|b| b.kind == FileSystem::Vfat) {
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
    let interfaces = fs::read_dir(sys.join("bus/usb/devices"))
        .into_iter()
        .flatten()
        .flatten();
    let disks = interfaces.map(|entry| entry.path()).filter(|path| {
        fs::read_to_string(path.join("bInterfaceClass")).is_ok_and(|class| class.trim() == "08")
    });
    disks
        .into_iter()
        .any(|interface| !has_folder(&interface, "block", 4))
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
        let place = DeviceSpec::Device(path.to_str().unwrap().to_owned());
        let find = |place| find_waiting(place, Duration::ZERO, AllowedDisks::Any).found;
        assert!(matches!(find(&place), Err(FindError::Absent(_))));
        fs::write(&path, vec![0; 8192]).unwrap();
        assert!(matches!(find(&place), Err(FindError::Unknown(_))));
        let mut disk = vec![0; 8192];
        disk[..4].copy_from_slice(b"hsqs");
        fs::write(&path, disk).unwrap();
        assert_eq!(find(&place).unwrap().kind, FileSystem::Squashfs);
    }

    fn block(uuid: Option<&str>) -> Superblock {
        Superblock {
            kind: FileSystem::Vfat,
            label: Some("FIRSTLIGHT".into()),
            uuid: uuid.map(str::to_owned),
        }
    }

    /// The devices of these names, of which those with `vd` may not be used.
    fn selected(names: &[&str]) -> SearchResult {
        let all = names
            .iter()
            .map(|name| (format!("/dev/{name}"), block(Some("12AB-34CD"))))
            .collect();
        let objection = |device: &str| device.contains("vd").then(|| "it is built in".to_owned());
        select(&DeviceSpec::default_partition(), all, objection)
    }

    #[test]
    fn a_disk_that_may_not_be_used_neither_counts_nor_makes_the_name_ambiguous() {
        let one = selected(&["vda", "sda"]);
        assert_eq!(
            one.found.unwrap(),
            FoundDevice {
                device: "/dev/sda".into(),
                kind: FileSystem::Vfat
            }
        );
        assert_eq!(
            one.ignored,
            [
                "/dev/vda (LABEL=FIRSTLIGHT) is ignored: it is built in; firstlight.report.partition=UUID=12AB-34CD uses it"
            ]
        );
        let none = selected(&["vda", "vdb"]);
        assert!(matches!(none.found, Err(FindError::Ignored(_))) && none.ignored.len() == 2);
        assert!(matches!(
            selected(&["sda", "sdb", "vda"]).found,
            Err(FindError::Ambiguous(..))
        ));
        assert!(matches!(selected(&[]).found, Err(FindError::Absent(_))));
    }

    #[test]
    fn a_file_system_without_a_uuid_is_named_by_its_device() {
        let line = ignored_line(
            &DeviceSpec::default_partition(),
            "/dev/vda",
            &block(None),
            "why",
        );
        assert!(
            line.ends_with("; firstlight.report.partition=/dev/vda uses it"),
            "{line}"
        );
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
