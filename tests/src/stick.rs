//! Boot media: a copy of the stick's image, which a test can change before a boot and inspect afterwards, with mtools; its
//! FAT data partition alone; and the sections of a unified kernel image, by profile.

use crate::error::{Error, Result, output, run};
use crate::image::Image;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A stick that a test may write to.
#[derive(Debug)]
pub struct Stick {
    image: PathBuf,
    partitions: Vec<Partition>,
}

/// One partition of the stick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its name in the partition table.
    pub name: String,
    /// Its offset in bytes.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The partition that firmware boots from.
pub const SYSTEM: &str = "FL-SYSTEM";
/// The same if the ISO was written to the stick.
pub const CD_SYSTEM: &str = "EFI boot partition";
/// The data partition for users.
pub const DATA: &str = "FIRSTLIGHT";

impl Stick {
    /// A copy of the shipped image, in `dir`.
    ///
    /// # Errors
    /// If it is not built or has no readable partition table.
    pub fn shipped(dir: &Path) -> Result<Self> {
        Self::copy(&Image::shipped().usb()?, dir)
    }

    /// A copy of this image, in `dir`.
    ///
    /// # Errors
    /// If it cannot be copied or has no readable partition table.
    pub fn copy(from: &Path, dir: &Path) -> Result<Self> {
        let image = dir.join(from.file_name().unwrap_or("stick".as_ref()));
        fs::copy(from, &image).map_err(Error::file("copy", from))?;
        let mut table = Vec::new();
        let file = File::open(&image).map_err(Error::file("open", &image))?;
        file.take(TABLE)
            .read_to_end(&mut table)
            .map_err(Error::file("read", &image))?;
        let partitions =
            partitions(&table).ok_or_else(|| wrong("has no partition table".to_owned()))?;
        Ok(Self { image, partitions })
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.image
    }

    /// Its partitions.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Writes a file to a partition.
    ///
    /// # Errors
    /// If mtools fails.
    pub fn put(&self, partition: &str, path: &str, text: impl AsRef<[u8]>) -> Result<()> {
        let from = self.image.with_extension("put");
        fs::write(&from, text).map_err(Error::file("write", &from))?;
        self.mtool("mcopy", partition, |c| {
            c.arg("-o").arg(&from).arg(format!("::{path}"))
        })
        .map(drop)
    }

    /// A file of a partition.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn get(&self, partition: &str, path: &str) -> Result<Vec<u8>> {
        self.mtool("mtype", partition, |c| c.arg(format!("::{path}")))
    }

    /// The files of a partition's folder, by name.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn list(&self, partition: &str, path: &str) -> Result<Vec<String>> {
        let listing = self.mtool("mdir", partition, |c| c.arg("-b").arg(format!("::{path}")))?;
        let name = |line: &str| line.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(String::from_utf8_lossy(&listing)
            .lines()
            .map(name)
            .collect())
    }

    fn mtool(
        &self,
        tool: &str,
        partition: &str,
        words: impl Fn(&mut Command) -> &mut Command,
    ) -> Result<Vec<u8>> {
        let found = self.partitions.iter().find(|p| p.name == partition);
        let found = found.ok_or_else(|| wrong(format!("has no partition {partition}")))?;
        let mut command = Command::new(tool);
        command
            .arg("-i")
            .arg(format!("{}@@{}", self.image.display(), found.start));
        let output = words(&mut command).output();
        let failed = |why: String| Error::Program {
            program: tool.to_owned(),
            why,
        };
        let output = output.map_err(|e| failed(e.to_string()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

fn wrong(why: String) -> Error {
    Error::Archive {
        what: "the stick's image",
        why,
    }
}

/// The size of the beginning of a disk that holds its partition table, bytes.
const TABLE: u64 = 1024 + 128 * 128;

/// The partitions of a GPT with 512-byte sectors whose entries follow its header, as they always do.
fn partitions(disk: &[u8]) -> Option<Vec<Partition>> {
    let number = |at: usize| Some(u64::from_le_bytes(disk.get(at..at + 8)?.try_into().ok()?));
    if disk.get(512..520)? != b"EFI PART" {
        return None;
    }
    let mut found = Vec::new();
    for at in (1024..1024 + 128 * 128).step_by(128) {
        let (first, last) = (number(at + 32)?, number(at + 40)?);
        if first == 0 {
            break;
        }
        let units: Vec<_> = disk
            .get(at + 56..at + 128)?
            .chunks(2)
            .map(|two| u16::from_le_bytes([two[0], two[1]]))
            .collect();
        let name = String::from_utf16_lossy(&units)
            .trim_end_matches('\0')
            .to_owned();
        found.push(Partition {
            name,
            start: first * 512,
            bytes: (last + 1 - first) * 512,
        });
    }
    Some(found)
}

/// One section: its name and its content.
pub type Section<'a> = (String, &'a [u8]);

/// All sections of a PE file, in order; `None` if it is not one.
#[must_use]
pub fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        Some(
            file.get(at..at + bytes)?
                .iter()
                .rev()
                .fold(0, |n, b| n << 8 | usize::from(*b)),
        )
    };
    let header = number(0x3c, 4)?;
    if file.get(header..header + 4)? != b"PE\0\0" {
        return None;
    }
    let (count, optional) = (number(header + 6, 2)?, number(header + 20, 2)?);
    let table = header + 24 + optional;
    (0..count)
        .map(|n| {
            let at = table + n * 40;
            let name = String::from_utf8_lossy(file.get(at..at + 8)?)
                .trim_end_matches('\0')
                .to_owned();
            // The size in memory; in the file the section is padded.
            let (bytes, start) = (
                number(at + 8, 4)?.min(number(at + 16, 4)?),
                number(at + 20, 4)?,
            );
            Some((name, file.get(start..start + bytes)?))
        })
        .collect()
}

/// The profiles of a unified kernel image, as systemd-stub sees them: each has its own sections and, for names that it
/// lacks, those before the first profile.
#[must_use]
pub fn profiles<'a>(sections: &[Section<'a>]) -> Vec<Vec<Section<'a>>> {
    let mut parts = sections;
    let first = parts
        .iter()
        .position(|s| s.0 == ".profile")
        .unwrap_or(parts.len());
    let base = &parts[..first];
    parts = &parts[first..];
    let mut found = Vec::new();
    while !parts.is_empty() {
        let end = parts[1..]
            .iter()
            .position(|s| s.0 == ".profile")
            .map_or(parts.len(), |at| at + 1);
        let own = &parts[..end];
        let inherited = base
            .iter()
            .filter(|(name, _)| own.iter().all(|(other, _)| other != name));
        found.push(own.iter().chain(inherited).cloned().collect());
        parts = &parts[end..];
    }
    found
}

/// The content of the section of that name.
#[must_use]
pub fn section<'a>(sections: &[Section<'a>], name: &str) -> Option<&'a [u8]> {
    sections.iter().find(|s| s.0 == name).map(|s| s.1)
}

/// A FAT file system in a file.
#[derive(Debug, Clone)]
pub struct Fat {
    file: PathBuf,
}

impl Fat {
    /// An empty one of `kib` KiB in `dir`, labelled `FIRSTLIGHT`.
    ///
    /// # Errors
    /// If mkfs.vfat fails.
    pub fn new(dir: &Path, kib: u32) -> Result<Self> {
        let file = dir.join("stick.img");
        let kib = kib.to_string();
        run(Command::new("mkfs.vfat")
            .args(["-n", "FIRSTLIGHT", "-C"])
            .arg(&file)
            .arg(kib))?;
        Ok(Self { file })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Creates a folder.
    ///
    /// # Errors
    /// If mmd fails.
    pub fn folder(&self, name: &str) -> Result<()> {
        run(Command::new("mmd")
            .arg("-i")
            .arg(&self.file)
            .arg(format!("::{name}")))
    }

    /// Copies a file of the host onto it.
    ///
    /// # Errors
    /// If mcopy fails, for example because the file system is full.
    pub fn put(&self, from: &Path, name: &str) -> Result<()> {
        run(Command::new("mcopy")
            .arg("-i")
            .arg(&self.file)
            .arg(from)
            .arg(format!("::{name}")))
    }

    /// The names in a folder, sorted; none if there is no such folder.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let mut list = Command::new("mdir");
        list.arg("-i")
            .arg(&self.file)
            .args(["-b", "-a"])
            .arg(format!("::{folder}"));
        let text = output(&mut list).unwrap_or_default();
        let mut names: Vec<_> = text
            .lines()
            .filter_map(|line| line.trim_end_matches('/').rsplit('/').next())
            .collect();
        names.retain(|name| !name.is_empty() && *name != "." && *name != "..");
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect()
    }

    /// A file's content.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        output(
            Command::new("mtype")
                .arg("-i")
                .arg(&self.file)
                .arg(format!("::{name}")),
        )
        .map(String::into_bytes)
    }
}
