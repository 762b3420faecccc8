//! The two archive formats that are passed between host and guest: cpio "newc", the format of the initrd and of an overlay,
//! and ustar, in which the guest sends files back.

use crate::error::{Error, Result};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, thread};

/// File type bits of a mode, as in `stat(2)`.
const TYPE: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// One file, folder or link of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path without a leading `/` or `./`.
    pub path: String,
    /// Type and permission bits, as in `stat(2)`.
    pub mode: u32,
    /// A file's bytes, or a link's target.
    pub data: Vec<u8>,
}

impl Entry {
    /// An ordinary file.
    #[must_use]
    pub fn file(path: &str, permissions: u32, data: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.trim_start_matches('/').to_owned(),
            mode: REGULAR | permissions,
            data: data.into(),
        }
    }

    /// A folder.
    #[must_use]
    pub fn folder(path: &str) -> Self {
        Self {
            path: path.trim_matches('/').to_owned(),
            mode: FOLDER | 0o755,
            data: Vec::new(),
        }
    }

    /// A symbolic link.
    #[must_use]
    pub fn link(path: &str, target: &str) -> Self {
        Self {
            path: path.trim_start_matches('/').to_owned(),
            mode: LINK | 0o777,
            data: target.into(),
        }
    }

    /// True for an ordinary file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.mode & TYPE == REGULAR
    }

    /// Writes the entry below a folder; the parent folders must exist. Device nodes are skipped, since the kernel's own
    /// /dev is mounted over them.
    pub(crate) fn unpack(&self, to: &Path) -> io::Result<()> {
        let path = to.join(&self.path);
        if let Some(target) = self.target() {
            return symlink(target, path);
        }
        match self.mode & TYPE {
            REGULAR => fs::write(&path, &self.data)?,
            FOLDER => fs::create_dir_all(&path)?,
            _ => return Ok(()),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(self.mode & 0o7777))
    }

    /// The target of a symbolic link.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        (self.mode & TYPE == LINK)
            .then(|| std::str::from_utf8(&self.data).ok())
            .flatten()
    }
}

/// A cpio archive of `entries`, in their order; folders must come before their contents.
#[must_use]
pub fn write_cpio(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        member(&mut out, number + 1, entry);
    }
    member(
        &mut out,
        0,
        &Entry {
            path: "TRAILER!!!".into(),
            mode: 0,
            data: Vec::new(),
        },
    );
    out
}

fn member(out: &mut Vec<u8>, inode: usize, entry: &Entry) {
    let links = 1;
    let fields = [
        inode,
        entry.mode as usize,
        0,
        0,
        links,
        0,
        entry.data.len(),
        0,
        0,
        0,
        0,
    ];
    out.extend(b"070701");
    for field in fields {
        out.extend(format!("{field:08x}").bytes());
    }
    out.extend(format!("{:08x}{:08x}", entry.path.len() + 1, 0).bytes());
    out.extend(entry.path.bytes());
    out.push(0);
    pad(out, 4);
    out.extend(&entry.data);
    pad(out, 4);
}

/// Pads with zeros to a multiple of `to`.
fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// All entries of an initrd: consecutive archives, each plain or compressed with zstd.
///
/// # Errors
/// If the file cannot be read, `zstd` cannot be run, or the file does not consist of such archives.
pub fn read_initrd(path: &Path) -> Result<Vec<Entry>> {
    read_archives(&fs::read(path).map_err(Error::file("read", path))?)
}

/// The same for an initrd or a part of one in memory.
///
/// # Errors
/// As [`read_initrd`].
pub(crate) fn read_archives(bytes: &[u8]) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    loop {
        let zeros = rest.iter().take_while(|b| **b == 0).count();
        rest = &rest[zeros..];
        if rest.is_empty() {
            return Ok(entries);
        }
        if rest.starts_with(b"070701") {
            rest = &rest[read_cpio(rest, &mut entries)?..];
        } else {
            let plain = unzstd(rest)?;
            let mut at = 0;
            while at < plain.len() {
                at += read_cpio(&plain[at..], &mut entries)?;
                at += plain[at..].iter().take_while(|b| **b == 0).count();
            }
            return Ok(entries);
        }
    }
}

/// Decompresses a zstd stream.
///
/// # Errors
/// If `zstd` cannot be run, or the bytes are not such a stream.
pub(crate) fn unzstd(bytes: &[u8]) -> Result<Vec<u8>> {
    let failed = |why: String| Error::Program {
        program: "zstd".into(),
        why,
    };
    let mut child = Command::new("zstd")
        .args(["-dcq"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(e.to_string()))?;
    let mut stdin = child
        .stdin
        .take()
        .ok_or_else(|| failed("has no input".into()))?;
    let output = thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(bytes));
        child.wait_with_output()
    })
    .map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(failed(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )))
    }
}

/// The ELF file in an x86 kernel that is compressed with zstd: the header has its place and length, and its last four bytes
/// are its decompressed size.
///
/// Source: the kernel's Documentation/arch/x86/boot.rst, `setup_sects`, `payload_offset` and `payload_length`.
///
/// # Errors
/// If there is no such header, or as [`unzstd`].
pub(crate) fn unpack_kernel(bytes: &[u8]) -> Result<Vec<u8>> {
    let word =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let payload = || {
        let start = (usize::from(*bytes.get(0x1f1)?) + 1) * 512 + word(0x248)?;
        bytes.get(start..(start + word(0x24c)?).checked_sub(4)?)
    };
    unzstd(payload().ok_or_else(|| Error::Archive {
        what: "kernel",
        why: "has no payload".into(),
    })?)
}

/// Appends one archive's entries; returns the archive's size in bytes.
fn read_cpio(bytes: &[u8], entries: &mut Vec<Entry>) -> Result<usize> {
    let bad = |at: usize, why: &str| Error::Archive {
        what: "cpio",
        why: format!("{why} at byte {at}"),
    };
    let mut at = 0;
    loop {
        let header = bytes.get(at..at + 110).ok_or_else(|| bad(at, "ends"))?;
        if !header.starts_with(b"070701") {
            return Err(bad(at, "no newc header"));
        }
        let field = |n: usize| {
            let text = std::str::from_utf8(&header[6 + 8 * n..14 + 8 * n]).ok();
            text.and_then(|t| usize::from_str_radix(t, 16).ok())
                .ok_or_else(|| bad(at, "bad number"))
        };
        let (mode, size, name_size) = (field(1)?, field(6)?, field(11)?);
        let name = bytes
            .get(at + 110..at + 110 + name_size)
            .ok_or_else(|| bad(at, "ends in a name"))?;
        let name = String::from_utf8_lossy(name)
            .trim_end_matches('\0')
            .to_owned();
        let start = (at + 110 + name_size).next_multiple_of(4);
        let data = bytes
            .get(start..start + size)
            .ok_or_else(|| bad(at, "ends in a file"))?;
        at = (start + size).next_multiple_of(4).min(bytes.len());
        if name == "TRAILER!!!" {
            return Ok(at);
        }
        let mode = u32::try_from(mode).map_err(|_| bad(at, "bad mode"))?;
        let path = name
            .trim_start_matches("./")
            .trim_start_matches('/')
            .to_owned();
        if path != "." {
            entries.push(Entry {
                path,
                mode,
                data: data.to_vec(),
            });
        }
    }
}

/// The ordinary files of a ustar archive; anything after its end is ignored.
///
/// # Errors
/// If the bytes are not a ustar archive.
pub fn read_tar(bytes: &[u8]) -> Result<Vec<Entry>> {
    let bad = |at: usize, why: &str| Error::Archive {
        what: "tar",
        why: format!("{why} at byte {at}"),
    };
    let mut entries = Vec::new();
    let mut at = 0;
    loop {
        let header = bytes.get(at..at + 512).ok_or_else(|| bad(at, "ends"))?;
        if header.iter().all(|b| *b == 0) {
            return if at == 0 {
                Err(bad(0, "nothing"))
            } else {
                Ok(entries)
            };
        }
        if !header[257..].starts_with(b"ustar") {
            return Err(bad(at, "no ustar header"));
        }
        let text = |from: usize, to: usize| {
            String::from_utf8_lossy(&header[from..to])
                .trim_end_matches(['\0', ' '])
                .to_owned()
        };
        let octal = |from, to| {
            u32::from_str_radix(text(from, to).trim(), 8).map_err(|_| bad(at, "bad number"))
        };
        let size = octal(124, 136)? as usize;
        let data = bytes
            .get(at + 512..at + 512 + size)
            .ok_or_else(|| bad(at, "ends in a file"))?;
        if header[156] == b'0' {
            entries.push(Entry::file(&text(0, 100), octal(100, 108)?, data));
        }
        at += 512 + size.next_multiple_of(512);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_as_cpio_is_read_back_also_behind_other_archives_and_zeros() {
        let first = [Entry::folder("t"), Entry::file("t/init", 0o755, "abc")];
        let second = [Entry::file("etc/odd", 0o644, vec![0, 1, 2, 255])];
        let mut image = write_cpio(&first);
        pad(&mut image, 512);
        image.extend(write_cpio(&second));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("initrd");
        fs::write(&path, image).unwrap();
        assert_eq!(
            read_initrd(&path).unwrap(),
            [&first[..], &second[..]].concat()
        );
    }

    #[test]
    fn a_cut_cpio_is_an_error() {
        let whole = write_cpio(&[Entry::file("a", 0o644, vec![7; 4000])]);
        for cut in [1, 109, 115, 3000, whole.len() - 8] {
            assert!(
                read_cpio(&whole[..cut], &mut Vec::new()).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_empty_disk_is_no_archive() {
        assert!(read_tar(&[0; 4096]).is_err());
    }
}
