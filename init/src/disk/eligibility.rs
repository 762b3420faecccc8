//! Whether a disk may configure this machine and store its reports when neither the image nor a kernel word
//! names it: a disk that was plugged in or booted from may, a built-in disk may not.

use super::gpt;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Which disks a place may be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllowedDisks {
    /// All of them: the image or a kernel word names the place.
    Any,
    /// Those that [`may_be_used`] accepts.
    RemovableOrBoot,
}

/// What is known about a block device and its disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// The image or a kernel word names it.
    pub named: bool,
    /// Its medium can be taken out: the kernel says so, or it is an SD card.
    pub removable: bool,
    /// It is attached by USB.
    pub usb: bool,
    /// It is on the disk that the machine was booted from.
    pub boot_disk: bool,
}

/// The rule by which a device may be used.
#[must_use]
pub const fn may_be_used(facts: DiskFacts) -> bool {
    facts.named || facts.removable || facts.usb || facts.boot_disk
}

/// The EFI variable in which the boot loader or UKI stub leaves the UUID of the partition it was started from:
/// <https://systemd.io/BOOT_LOADER_INTERFACE>.
const BOOTED_FROM: &str = "LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The attribute of a variable that is stored permanently. The variable about this boot is not stored permanently;
/// a stored one was left by another system, and boot loaders do not replace it.
const NON_VOLATILE: u8 = 1;

/// Parses that variable: four bytes of attributes, then a UUID in UTF-16, which a zero may end. `None` when it
/// is anything else, or stored permanently.
#[must_use]
pub fn part_uuid(variable: &[u8]) -> Option<String> {
    let (attributes, text) = variable.split_at_checked(4)?;
    if attributes.first()? & NON_VOLATILE != 0 {
        return None;
    }
    let units = text
        .chunks(2)
        .map(|two| Some(u16::from_le_bytes(two.try_into().ok()?)));
    let text = String::from_utf16(&units.collect::<Option<Vec<_>>>()?).ok()?;
    let text = text
        .strip_suffix('\0')
        .unwrap_or(&text)
        .to_ascii_lowercase();
    let hyphens = [8, 13, 18, 23];
    let fits = |(at, b): (usize, u8)| {
        if hyphens.contains(&at) {
            b == b'-'
        } else {
            b.is_ascii_hexdigit()
        }
    };
    (text.len() == 36 && text.bytes().enumerate().all(fits)).then_some(text)
}

/// The disks as sysfs shows them, and the partition that the machine was booted from.
#[derive(Debug)]
pub struct DiskInventory {
    sys: PathBuf,
    dev: PathBuf,
    variables: PathBuf,
    /// Its UUID, read at most once and only when it matters: firmware can be slow. `Ok(None)` when there is no
    /// such variable.
    booted_from: OnceCell<Result<Option<String>, String>>,
}

impl DiskInventory {
    /// Reads disks below `sys` and `dev` and EFI variables below `variables`, when they are asked for.
    #[must_use]
    pub fn new(sys: &Path, dev: &Path, variables: &Path) -> Self {
        let [sys, dev, variables] = [sys, dev, variables].map(Path::to_owned);
        Self {
            sys,
            dev,
            variables,
            booted_from: OnceCell::new(),
        }
    }

    fn booted_from(&self) -> &Result<Option<String>, String> {
        self.booted_from
            .get_or_init(|| match fs::read(self.variables.join(BOOTED_FROM)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(format!("{BOOTED_FROM}: {e}")),
                Ok(bytes) => match part_uuid(&bytes) {
                    Some(uuid) => Ok(Some(uuid)),
                    None => Err(format!("{BOOTED_FROM}: holds no UUID of this boot")),
                },
            })
    }

    /// Why the device, named as in /dev, may not be used; `None` if it may.
    #[must_use]
    pub fn objection(&self, device: &str, disks: AllowedDisks) -> Option<String> {
        let facts = match disks {
            AllowedDisks::Any => Ok(DiskFacts {
                named: true,
                ..DiskFacts::default()
            }),
            AllowedDisks::RemovableOrBoot => self.facts(device),
        };
        match facts {
            Ok(facts) if may_be_used(facts) => None,
            Ok(_) => Some(match self.booted_from() {
                Ok(_) => "it is neither removable, nor on USB, nor the disk booted from".to_owned(),
                Err(why) => {
                    format!(
                        "it is neither removable nor on USB, and the disk booted from is unknown ({why})"
                    )
                }
            }),
            Err(e) => Some(format!("where it is attached cannot be read ({e})")),
        }
    }

    fn facts(&self, device: &str) -> io::Result<DiskFacts> {
        let disk = disk_of(
            &self.sys,
            &device.trim_start_matches("/dev/").replace('/', "!"),
        )?;
        let says = |file: &str, word: &str| match fs::read_to_string(disk.join(file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            text => Ok::<_, io::Error>(text?.trim() == word),
        };
        Ok(DiskFacts {
            named: false,
            // The kernel calls no card in an SD slot removable; a soldered eMMC is of type MMC.
            removable: says("removable", "1")? || says("device/type", "SD")?,
            usb: on_usb(&disk),
            boot_disk: match self.booted_from() {
                Ok(Some(uuid)) => {
                    disk_with(&self.sys, &self.dev, uuid)?.is_some_and(|booted| booted == disk)
                }
                Ok(None) | Err(_) => false,
            },
        })
    }
}

/// The folder of a device's disk: its own, or that of the disk it is a partition of.
fn disk_of(sys: &Path, name: &str) -> io::Result<PathBuf> {
    let at = fs::canonicalize(sys.join("class/block").join(name))?;
    let partition = at.join("partition").try_exists()?;
    Ok(at
        .parent()
        .filter(|_| partition)
        .map(Path::to_owned)
        .unwrap_or(at))
}

/// The disk with the partition of that UUID. `None` also when several disks have it, as copies of one image do:
/// then the boot disk is unknown. A disk that cannot be read is not the boot disk.
fn disk_with(sys: &Path, dev: &Path, part_uuid: &str) -> io::Result<Option<PathBuf>> {
    let mut disks = Vec::new();
    for entry in fs::read_dir(sys.join("class/block"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // A device may disappear during the scan, and a drive may be empty.
        let Ok(disk) = disk_of(sys, &name) else {
            continue;
        };
        let whole = disk.file_name().is_some_and(|own| *own == *name);
        if whole
            && has_partition(&disk, &dev.join(name.replace('!', "/")), part_uuid).unwrap_or(false)
        {
            disks.push(disk);
        }
    }
    let last = disks.pop();
    Ok(last.filter(|_| disks.is_empty()))
}

fn has_partition(disk: &Path, device: &Path, part_uuid: &str) -> io::Result<bool> {
    let block = fs::read_to_string(disk.join("queue/logical_block_size"))?;
    let block: u64 = block.trim().parse().map_err(io::Error::other)?;
    let file = File::open(device)?;
    let mut header = [0; gpt::HEADER];
    file.read_exact_at(&mut header, block)?;
    let Some(entries) = gpt::entries(&header, block) else {
        return Ok(false);
    };
    let mut table = vec![0; entries.bytes];
    file.read_exact_at(&mut table, entries.start)?;
    Ok(entries.contains(&table, part_uuid))
}

/// Whether a device above the disk belongs to the subsystem usb.
fn on_usb(disk: &Path) -> bool {
    let subsystem = |folder: &Path| fs::read_link(folder.join("subsystem")).ok();
    disk.ancestors()
        .filter_map(subsystem)
        .any(|link| link.file_name().is_some_and(|name| name == "usb"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const UUID: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";

    #[test]
    fn a_disk_is_used_for_any_one_of_four_reasons_and_otherwise_not() {
        for n in 0..16 {
            let bit = |at: u8| n >> at & 1 == 1;
            let facts = DiskFacts {
                named: bit(0),
                removable: bit(1),
                usb: bit(2),
                boot_disk: bit(3),
            };
            assert_eq!(may_be_used(facts), n != 0, "{facts:?}");
        }
    }

    fn variable(text: &str) -> Vec<u8> {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [6, 0, 0, 0].into_iter().chain(units).collect()
    }

    #[test]
    fn the_variable_holds_one_uuid_in_utf_16() {
        for good in [UUID.to_owned(), UUID.to_uppercase(), format!("{UUID}\0")] {
            assert_eq!(part_uuid(&variable(&good)).as_deref(), Some(UUID));
        }
        for bad in [
            "",
            "x",
            &format!("{UUID}0"),
            &UUID.replace('-', "0"),
            &UUID.replace('0', "g"),
        ] {
            assert_eq!(part_uuid(&variable(bad)), None, "{bad}");
        }
        let mut stored = variable(UUID);
        stored[0] |= NON_VOLATILE;
        assert_eq!(part_uuid(&stored), None, "it is from another boot");
        let whole = variable(UUID);
        for length in 0..whole.len() {
            assert_eq!(part_uuid(&whole[..length]), None, "{length} bytes");
        }
    }

    /// A sysfs with a virtio disk and its partition, a USB stick, a card reader, an eMMC and an SD card.
    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let disks = [
            ("pci0/virtio0/block/vda", "0", ""),
            ("pci0/usb1/1-1/1-1:1.0/host0/0:0:0:0/block/sda", "0", ""),
            ("pci0/ata1/host1/1:0:0:0/block/sdb", "1", ""),
            ("pci0/mmc_host/mmc0/mmc0:0001/block/mmcblk0", "0", "MMC\n"),
            ("pci0/mmc_host/mmc1/mmc1:aaaa/block/mmcblk1", "0", "SD\n"),
        ];
        let class = dir.path().join("class/block");
        fs::create_dir_all(&class).unwrap();
        for (path, removable, kind) in disks {
            let disk = dir.path().join("devices").join(path);
            fs::create_dir_all(disk.join("device")).unwrap();
            fs::write(disk.join("removable"), format!("{removable}\n")).unwrap();
            fs::create_dir(disk.join("queue")).unwrap();
            fs::write(disk.join("queue/logical_block_size"), "512\n").unwrap();
            fs::write(dir.path().join(disk.file_name().unwrap()), [0; 4096]).unwrap();
            if !kind.is_empty() {
                fs::write(disk.join("device/type"), kind).unwrap();
            }
            symlink(&disk, class.join(disk.file_name().unwrap())).unwrap();
        }
        let part = dir.path().join("devices/pci0/virtio0/block/vda/vda1");
        fs::create_dir(&part).unwrap();
        fs::write(part.join("partition"), "1\n").unwrap();
        fs::write(dir.path().join("vda"), gpt::sample(UUID)).unwrap();
        // The content of a partition does not count.
        fs::write(
            dir.path().join("vda1"),
            gpt::sample(&UUID.replace('0', "1")),
        )
        .unwrap();
        symlink(&part, class.join("vda1")).unwrap();
        for (at, subsystem) in [("pci0/usb1/1-1", "usb"), ("pci0/virtio0", "virtio")] {
            symlink(
                format!("../../bus/{subsystem}"),
                dir.path().join("devices").join(at).join("subsystem"),
            )
            .unwrap();
        }
        dir
    }

    /// The devices that may be used when the variable has this content.
    fn used(dir: &Path, content: Option<&[u8]>) -> Vec<&'static str> {
        if let Some(content) = content {
            fs::write(dir.join(BOOTED_FROM), content).unwrap();
        }
        let inventory = DiskInventory::new(dir, dir, dir);
        let all = ["vda", "vda1", "sda", "sdb", "mmcblk0", "mmcblk1", "none"];
        let disks = AllowedDisks::RemovableOrBoot;
        let fits = |name: &&str| {
            inventory
                .objection(&format!("/dev/{name}"), disks)
                .is_none()
        };
        all.into_iter().filter(fits).collect()
    }

    #[test]
    fn usb_removable_and_sd_disks_may_be_used_and_built_in_ones_not() {
        let sys = machine();
        assert_eq!(used(sys.path(), None), ["sda", "sdb", "mmcblk1"]);
        let inventory = DiskInventory::new(sys.path(), sys.path(), sys.path());
        let why = inventory
            .objection("/dev/vda1", AllowedDisks::RemovableOrBoot)
            .unwrap();
        assert_eq!(
            why,
            "it is neither removable, nor on USB, nor the disk booted from"
        );
        let why = inventory
            .objection("/dev/none", AllowedDisks::RemovableOrBoot)
            .unwrap();
        assert!(
            why.starts_with("where it is attached cannot be read (No such file"),
            "{why}"
        );
        assert_eq!(inventory.objection("/dev/vda1", AllowedDisks::Any), None);
    }

    #[test]
    fn the_disk_that_has_the_boot_partition_may_be_used_with_all_its_partitions() {
        let sys = machine();
        let own = variable(&UUID.to_uppercase());
        assert_eq!(
            used(sys.path(), Some(&own)),
            ["vda", "vda1", "sda", "sdb", "mmcblk1"]
        );
        let other = variable(&UUID.replace('0', "1"));
        assert_eq!(used(sys.path(), Some(&other)), ["sda", "sdb", "mmcblk1"]);
    }

    #[test]
    fn with_two_copies_of_the_boot_medium_or_a_broken_variable_no_disk_is_the_one_booted_from() {
        let sys = machine();
        fs::write(sys.path().join("mmcblk0"), gpt::sample(UUID)).unwrap();
        assert_eq!(
            used(sys.path(), Some(&variable(UUID))),
            ["sda", "sdb", "mmcblk1"]
        );
        assert_eq!(
            used(sys.path(), Some(b"\x06\0\0\0?")),
            ["sda", "sdb", "mmcblk1"]
        );
        let inventory = DiskInventory::new(sys.path(), sys.path(), sys.path());
        let why = inventory.objection("/dev/vda", AllowedDisks::RemovableOrBoot);
        assert!(
            why.unwrap()
                .contains("4a67b082-0a4c-41cf-b6c7-440b29bb8c4f: holds no UUID of this boot")
        );
    }
}
