//! Finds a section in an ELF file and reads no more of the file than necessary: a module has tens of
//! megabytes, its modinfo a few hundred bytes. The file is not trusted: every offset and size is checked
//! against the file and against a limit.

use thiserror::Error;

/// Maximum size of a table or section in bytes.
const LARGEST: u64 = 4 << 20;
/// Size of an entry in the section table.
const ENTRY: usize = 64;

/// Why there is no section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ElfError {
    /// The file has another format.
    #[error("is not a 64-bit ELF file")]
    NotElf,
    /// An offset is outside of the file, or a size exceeds the limit.
    #[error("is a damaged ELF file")]
    Damaged,
    /// There is no such section.
    #[error("has no such section")]
    Absent,
}

/// The content of the section with that name. `read` returns bytes at an offset, or `None` when the file
/// does not have them.
///
/// # Errors
/// [`ElfError`]
pub fn section(
    read: &dyn Fn(u64, usize) -> Option<Vec<u8>>,
    name: &[u8],
) -> Result<Vec<u8>, ElfError> {
    let header = read(0, 64).ok_or(ElfError::NotElf)?;
    if header.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(ElfError::NotElf);
    }
    let bounded = |at: u64, size: u64| {
        let size = usize::try_from(size)
            .ok()
            .filter(|_| size <= LARGEST)
            .ok_or(ElfError::Damaged)?;
        at.checked_add(LARGEST).ok_or(ElfError::Damaged)?;
        read(at, size)
            .filter(|bytes| bytes.len() == size)
            .ok_or(ElfError::Damaged)
    };
    let table_at = number(&header, 0x28, 8).ok_or(ElfError::Damaged)?;
    let (entry, count, names_in) = (
        u16_at(&header, 0x3a)?,
        u16_at(&header, 0x3c)?,
        u16_at(&header, 0x3e)?,
    );
    if entry != ENTRY {
        return Err(ElfError::Damaged);
    }
    let table = bounded(table_at, (count * ENTRY) as u64)?;
    let place = |section: &[u8]| Some((number(section, 0x18, 8)?, number(section, 0x20, 8)?));
    let (at, size) = table
        .chunks_exact(ENTRY)
        .nth(names_in)
        .and_then(place)
        .ok_or(ElfError::Damaged)?;
    let names = bounded(at, size)?;
    for section in table.chunks_exact(ENTRY) {
        let from = number(section, 0, 4)
            .and_then(|at| usize::try_from(at).ok())
            .ok_or(ElfError::Damaged)?;
        let is_it = names
            .get(from..)
            .is_some_and(|rest| rest.split(|b| *b == 0).next() == Some(name));
        if is_it {
            let (at, size) = place(section).ok_or(ElfError::Damaged)?;
            return bounded(at, size);
        }
    }
    Err(ElfError::Absent)
}

/// The same for a file that is in memory.
///
/// # Errors
/// [`ElfError`]
pub fn section_of(file: &[u8], name: &[u8]) -> Result<Vec<u8>, ElfError> {
    let read = |at: u64, size: usize| {
        let at = usize::try_from(at).ok()?;
        Some(file.get(at..at.checked_add(size)?)?.to_vec())
    };
    section(&read, name)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<usize, ElfError> {
    number(bytes, at, 2)
        .and_then(|n| usize::try_from(n).ok())
        .ok_or(ElfError::Damaged)
}

/// A little-endian number of `size` bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)),
    )
}

/// The smallest ELF file with one section of that name.
#[cfg(any(test, feature = "samples"))]
#[must_use]
#[expect(clippy::indexing_slicing, reason = "the header has all these places")]
pub fn sample(name: &str, content: &[u8]) -> Vec<u8> {
    let names = format!("\0.shstrtab\0{name}\0");
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let (content_at, names_at) = (64, 64 + content.len());
    let table_at = names_at + names.len();
    file.extend(content);
    file.extend(names.as_bytes());
    let mut entry = |name: u32, at: usize, size: usize| {
        let mut entry = vec![0; ENTRY];
        entry[..4].copy_from_slice(&name.to_le_bytes());
        entry[0x18..0x20].copy_from_slice(&(at as u64).to_le_bytes());
        entry[0x20..0x28].copy_from_slice(&(size as u64).to_le_bytes());
        file.extend(entry);
    };
    entry(0, 0, 0);
    entry(1, names_at, names.len());
    entry(11, content_at, content.len());
    file[0x28..0x30].copy_from_slice(&(table_at as u64).to_le_bytes());
    for (at, value) in [(0x3a, 64_u16), (0x3c, 3), (0x3e, 1)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_found_by_its_name() {
        let file = sample(".modinfo", b"license=Dual MIT/GPL\0");
        assert_eq!(
            section_of(&file, b".modinfo").unwrap(),
            b"license=Dual MIT/GPL\0"
        );
        assert_eq!(section_of(&file, b".mod"), Err(ElfError::Absent));
    }

    #[test]
    fn no_cut_file_is_read_beyond_its_end() {
        let file = sample(".modinfo", b"a=b\0");
        for end in 0..file.len() {
            assert!(section_of(&file[..end], b".modinfo").is_err(), "{end}");
        }
    }

    #[test]
    fn offsets_and_sizes_beyond_the_file_or_limit_are_damage() {
        let whole = sample(".modinfo", b"a=b\0");
        for at in [0x28, 0x29, 0x2f, 0x3a, 0x3d, 0x3e] {
            let mut file = whole.clone();
            file[at] = 0xff;
            assert_eq!(
                section_of(&file, b".modinfo"),
                Err(ElfError::Damaged),
                "{at}"
            );
        }
        assert_eq!(
            section_of(b"\x7fELF\x01\x01", b".modinfo"),
            Err(ElfError::NotElf)
        );
    }
}
