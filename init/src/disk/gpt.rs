//! Finds a partition by its UUID in a disk's GUID partition table (UEFI specification 2.10, section 5.3), because this
//! image's kernel does not show these UUIDs in sysfs. Checksums are not compared: from a damaged table the kernel makes
//! no partition that could be mounted.

/// Where the entries of a table are on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionEntries {
    /// Offset of the first one, in bytes.
    pub start: u64,
    /// Length of all, in bytes.
    pub bytes: usize,
    /// Length of one, in bytes.
    each: usize,
}

/// How many bytes of the header [`entries`] needs.
pub const HEADER: usize = 92;

/// The largest table that is read, in bytes; the usual one has 16 KiB.
const LARGEST: usize = 1 << 20;

/// Parses the header, which is in block 1 of the disk; `block` is the length of a block in bytes.
#[must_use]
pub fn entries(header: &[u8], block: u64) -> Option<PartitionEntries> {
    let long = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let word = |at: usize| {
        usize::try_from(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?)).ok()
    };
    if header.get(..8)? != b"EFI PART" {
        return None;
    }
    let (count, each) = (word(80)?, word(84)?);
    let bytes = count
        .checked_mul(each)
        .filter(|bytes| *bytes <= LARGEST && each >= 128)?;
    Some(PartitionEntries {
        start: long(72)?.checked_mul(block)?,
        bytes,
        each,
    })
}

impl PartitionEntries {
    /// Whether a partition has that UUID; `table` is the content of the disk at `start`.
    #[must_use]
    pub fn contains(&self, table: &[u8], part_uuid: &str) -> bool {
        let unused = [0; 16];
        let mut entries = table
            .chunks_exact(self.each)
            .filter(|entry| entry.get(..16) != Some(&unused[..]));
        entries.any(|entry| {
            entry
                .get(16..32)
                .and_then(uuid_text)
                .is_some_and(|uuid| uuid == part_uuid)
        })
    }
}

/// A UUID as text: its first three fields are little-endian.
fn uuid_text(raw: &[u8]) -> Option<String> {
    let raw: [u8; 16] = raw.try_into().ok()?;
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::new();
    for (n, at) in order.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&n) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", raw.get(at)?));
    }
    Some(text)
}

/// The first bytes of a disk with 512-byte blocks and one partition of that UUID.
#[cfg(test)]
pub(super) fn sample(part_uuid: &str) -> Vec<u8> {
    let hex: String = part_uuid.chars().filter(|c| *c != '-').collect();
    let raw = u128::from_str_radix(&hex, 16).unwrap().to_be_bytes();
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut disk = vec![0; 512 * 34];
    disk[512..520].copy_from_slice(b"EFI PART");
    disk[512 + 72] = 2;
    disk[512 + 80] = 128;
    disk[512 + 84] = 128;
    // The second entry; the first is unused.
    disk[1024 + 128] = 1;
    for (n, at) in order.into_iter().enumerate() {
        disk[1024 + 128 + 16 + n] = raw[at];
    }
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";

    #[test]
    fn a_used_entry_is_found_by_its_uuid_and_an_unused_one_is_not() {
        let mut disk = sample(UUID);
        let found = entries(&disk[512..], 512).unwrap();
        assert_eq!((found.start, found.bytes), (1024, 128 * 128));
        assert!(found.contains(&disk[1024..], UUID));
        assert!(!found.contains(&disk[1024..], &UUID.replace('0', "1")));
        assert!(
            !found.contains(&disk[1024..1024 + 200], UUID),
            "a table that is cut off"
        );
        disk[1024 + 128] = 0;
        assert!(!found.contains(&disk[1024..], UUID));
        assert_eq!(entries(&disk[512..], 4096).unwrap().start, 8192);
    }

    #[test]
    fn a_header_that_is_none_or_that_names_an_impossible_table_is_refused() {
        let disk = sample(UUID);
        let header = &disk[512..512 + HEADER];
        for length in 0..88 {
            assert_eq!(entries(&header[..length], 512), None, "{length} bytes");
        }
        for (at, byte) in [(0, 0), (83, 1), (84, 127), (87, 1), (79, 0xFF)] {
            let mut wrong = header.to_vec();
            wrong[at] = byte;
            assert_eq!(entries(&wrong, 512), None, "{byte} at {at}");
        }
    }
}
