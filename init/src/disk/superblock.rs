//! Detects the file system on a block device by its first bytes: vfat, ext4, squashfs, erofs or xfs, with
//! label and UUID. Offsets: linux/fs/fat/fat.h, ext4/ext4.h, squashfs_fs.h, erofs_fs.h, xfs_format.h.

/// A file system, as its superblock describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Its type.
    pub kind: FileSystem,
    /// Its label without trailing blanks; `None` when it has none.
    pub label: Option<String>,
    /// Its UUID as blkid prints it: `12AB-34CD` for vfat.
    pub uuid: Option<String>,
}

/// The types of file systems that init recognizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// FAT12, FAT16 or FAT32
    Vfat,
    /// ext2, ext3 or ext4: the ext4 driver mounts all three.
    Ext4,
    /// squashfs 4
    Squashfs,
    /// erofs
    Erofs,
    /// xfs, which the kernel does not have: the refusal names it
    Xfs,
}

impl FileSystem {
    /// The name for mount(2).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vfat => "vfat",
            Self::Ext4 => "ext4",
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
            Self::Xfs => "xfs",
        }
    }

    /// Whether the file system is read-only by design.
    #[must_use]
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::Squashfs | Self::Erofs)
    }
}

/// How many bytes of a device [`probe`] reads.
pub const HEAD: usize = 4096;

fn bytes<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn label(head: &[u8], at: usize, length: usize) -> Option<String> {
    let raw = head.get(at..at.checked_add(length)?)?;
    let raw = raw.split(|&b| b == 0).next()?;
    let text = String::from_utf8_lossy(raw).trim_end().to_owned();
    (!text.is_empty() && text != "NO NAME").then_some(text)
}

fn uuid(head: &[u8], at: usize) -> Option<String> {
    let raw: [u8; 16] = bytes(head, at)?;
    let hex = |part: &[u8]| part.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let parts = [(0, 4), (4, 6), (6, 8), (8, 10), (10, 16)];
    let text: Vec<_> = parts
        .iter()
        .filter_map(|&(a, b)| raw.get(a..b).map(hex))
        .collect();
    raw.iter().any(|&b| b != 0).then(|| text.join("-"))
}

/// Detects the file system from the first [`HEAD`] bytes; `None` when it is none of these.
#[must_use]
pub fn probe(head: &[u8]) -> Option<Superblock> {
    let made = |kind, label, uuid| Some(Superblock { kind, label, uuid });
    if bytes(head, 0)? == *b"hsqs" {
        return made(FileSystem::Squashfs, None, None);
    }
    if bytes(head, 0)? == *b"XFSB" {
        return made(FileSystem::Xfs, label(head, 108, 12), uuid(head, 32));
    }
    if bytes(head, 1024) == Some(0xE0F5_E1E2_u32.to_le_bytes()) {
        return made(
            FileSystem::Erofs,
            label(head, 1024 + 64, 16),
            uuid(head, 1024 + 48),
        );
    }
    if bytes(head, 1024 + 0x38) == Some(0xEF53_u16.to_le_bytes()) {
        return made(
            FileSystem::Ext4,
            label(head, 1024 + 0x78, 16),
            uuid(head, 1024 + 0x68),
        );
    }
    vfat(head)
}

/// Parses a vfat boot sector. Serial number, label and type are at 39, 43 and 54 in FAT12/16, at 67, 71 and
/// 82 in FAT32. Windows stores the label elsewhere: see [`vfat_root_label`].
fn vfat(head: &[u8]) -> Option<Superblock> {
    if bytes(head, 510)? != [0x55, 0xAA] {
        return None;
    }
    let old = bytes(head, 54).is_some_and(|t: [u8; 5]| t == *b"FAT12" || t == *b"FAT16");
    let (serial, name) = match (bytes(head, 82) == Some(*b"FAT32"), old) {
        (true, _) => (67, 71),
        (false, true) => (39, 43),
        (false, false) => return None,
    };
    let [a, b, c, d]: [u8; 4] = bytes(head, serial)?;
    Some(Superblock {
        kind: FileSystem::Vfat,
        label: label(head, name, 11),
        uuid: Some(format!("{d:02X}{c:02X}-{b:02X}{a:02X}")),
    })
}

/// The offset of a vfat's root folder from the start of the device, in bytes. Windows writes the volume
/// label there and leaves `NO NAME` in the boot sector.
#[must_use]
pub fn vfat_root(head: &[u8]) -> Option<u64> {
    let word = |at| bytes(head, at).map(u16::from_le_bytes).map(u64::from);
    let long = |at| bytes(head, at).map(u32::from_le_bytes).map(u64::from);
    let byte = |at| bytes::<1>(head, at).map(|[b]| u64::from(b));
    let (sector, cluster, reserved, copies) = (word(11)?, byte(13)?, word(14)?, byte(16)?);
    let table = Some(word(22)?).filter(|&n| n != 0).or_else(|| long(36))?;
    let first = reserved + copies * table;
    let into = if bytes(head, 82) == Some(*b"FAT32") {
        long(44)?.checked_sub(2)? * cluster
    } else {
        0
    };
    (first + into).checked_mul(sector)
}

/// Finds the volume label among the first entries of a vfat root folder (32 bytes each; attribute 0x08 and
/// not 0x0F marks the label).
#[must_use]
pub fn vfat_root_label(folder: &[u8]) -> Option<String> {
    let entries = folder
        .chunks_exact(32)
        .take_while(|e| e.first() != Some(&0));
    let mut live = entries.filter(|e| e.first() != Some(&0xE5));
    let entry = live.find(|e| e.get(11).is_some_and(|a| a & 0x08 != 0 && a & 0x3F != 0x0F))?;
    label(entry, 0, 11)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(writes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; HEAD];
        for (at, what) in writes {
            head[*at..at + what.len()].copy_from_slice(what);
        }
        head
    }

    #[test]
    fn each_file_system_is_detected_by_its_magic() {
        for (writes, kind) in [
            (vec![(0, b"hsqs".as_slice())], FileSystem::Squashfs),
            (vec![(0, b"XFSB".as_slice())], FileSystem::Xfs),
            (
                vec![(1024, [0xE2, 0xE1, 0xF5, 0xE0].as_slice())],
                FileSystem::Erofs,
            ),
            (vec![(1080, [0x53, 0xEF].as_slice())], FileSystem::Ext4),
            (
                vec![(510, [0x55, 0xAA].as_slice()), (82, b"FAT32   ".as_slice())],
                FileSystem::Vfat,
            ),
            (
                vec![(510, [0x55, 0xAA].as_slice()), (54, b"FAT16   ".as_slice())],
                FileSystem::Vfat,
            ),
        ] {
            assert_eq!(probe(&head(&writes)).unwrap().kind, kind);
        }
        assert_eq!(probe(&head(&[])), None);
        assert_eq!(
            probe(&head(&[(510, &[0x55, 0xAA])])),
            None,
            "a partition table holds no known file system"
        );
    }

    #[test]
    fn labels_and_uuids_read_as_blkid_prints_them() {
        let uuid: Vec<u8> = (1..=16).collect();
        let ext4 = probe(&head(&[
            (1080, &[0x53, 0xEF]),
            (1024 + 0x68, &uuid),
            (1024 + 0x78, b"DATA"),
        ]))
        .unwrap();
        assert_eq!(
            ext4.uuid.as_deref(),
            Some("01020304-0506-0708-090a-0b0c0d0e0f10")
        );
        assert_eq!(ext4.label.as_deref(), Some("DATA"));
        let magic = [(510, [0x55, 0xAA].as_slice()), (82, b"FAT32".as_slice())];
        let fat = probe(&head(&[
            magic[0],
            magic[1],
            (67, &[0xCD, 0x34, 0xAB, 0x12]),
            (71, b"FIRSTLIGHT "),
        ]))
        .unwrap();
        assert_eq!(fat.uuid.as_deref(), Some("12AB-34CD"));
        assert_eq!(fat.label.as_deref(), Some("FIRSTLIGHT"));
    }

    #[test]
    fn a_short_head_is_no_file_system() {
        for length in [0, 3, 511, 1023] {
            assert_eq!(probe(&vec![0xFF; length]), None);
        }
    }

    #[test]
    fn the_label_of_a_vfat_formatted_by_windows_is_in_its_root_folder() {
        let mut folder = vec![0; 96];
        folder[..11].copy_from_slice(b"README  TXT");
        folder[32..43].copy_from_slice(b"FIRSTLIGHT ");
        folder[43] = 0x08;
        assert_eq!(vfat_root_label(&folder).as_deref(), Some("FIRSTLIGHT"));
        folder[43] = 0x0F;
        assert_eq!(
            vfat_root_label(&folder),
            None,
            "a long name's entry is no label"
        );
    }

    #[test]
    fn the_root_folder_of_a_fat32_is_at_its_cluster() {
        let boot = head(&[
            (11, &512u16.to_le_bytes()),
            (13, &[8]),
            (14, &32u16.to_le_bytes()),
            (16, &[2]),
            (36, &1000u32.to_le_bytes()),
            (44, &3u32.to_le_bytes()),
            (82, b"FAT32"),
        ]);
        assert_eq!(vfat_root(&boot), Some((32 + 2000 + 8) * 512));
    }
}
