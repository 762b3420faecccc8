//! Files that a test adds to the image, and how files come back. They are added as a second cpio that the kernel unpacks
//! over the first: it can add a configuration, a workload or a broken validator; the image itself is as shipped. They come
//! back as an archive that the workload writes to a separate small disk. The serial line is not used for that, because
//! kernel messages interrupt the output of programs there, and because with an AMD IOMMU emulated programs cannot reach a
//! serial line.

use crate::archive::{Entry, read_tar, write_cpio};
use crate::error::{Error, Result};
use crate::image::fakepci_part;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// A file tree, by path.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Overlay(BTreeMap<String, Entry>);

impl Overlay {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// A readable file.
    pub fn file(self, path: &str, data: impl Into<Vec<u8>>) -> Self {
        self.with(Entry::file(path, 0o644, data))
    }

    /// An executable file.
    pub fn program(self, path: &str, data: impl Into<Vec<u8>>) -> Self {
        self.with(Entry::file(path, 0o755, data))
    }

    /// An empty folder.
    pub fn folder(self, path: &str) -> Self {
        self.with(Entry::folder(path))
    }

    /// A symbolic link.
    pub fn link(self, path: &str, target: &str) -> Self {
        self.with(Entry::link(path, target))
    }

    /// A layer of configuration, read after the image's own.
    pub fn config(self, name: &str, toml: &str) -> Self {
        self.file(&format!("etc/firstlight/config.d/{name}.toml"), toml)
    }

    /// The fake PCI domain and the first program that loads it.
    ///
    /// # Errors
    /// If it has not been built.
    pub fn fakepci(self) -> Result<Self> {
        Ok(self
            .program("t/init", fakepci_part("init")?)
            .file("t/fakepci.ko", fakepci_part("fakepci.ko")?))
    }

    fn with(mut self, entry: Entry) -> Self {
        let mut folder = entry.path.as_str();
        while let Some((above, _)) = folder.rsplit_once('/') {
            self.0
                .entry(above.to_owned())
                .or_insert_with(|| Entry::folder(above));
            folder = above;
        }
        self.0.insert(entry.path.clone(), entry);
        self
    }

    /// The cpio archive for the kernel; folders come first because a path sorts before the paths below it.
    #[must_use]
    pub fn cpio(&self) -> Vec<u8> {
        write_cpio(&self.0.values().cloned().collect::<Vec<_>>())
    }
}

/// Room for a report with its logs many times over.
const DISK_BYTES: u64 = 16 << 20;

/// The disk's serial number, by which the guest finds it.
const SERIAL: &str = "recover";

/// The path of a test's workload in the guest.
pub(crate) const WORKLOAD: &str = "t/workload";

/// Creates an empty disk, and returns QEMU's words for it.
pub(crate) fn disk(path: &Path) -> Result<[String; 4]> {
    let create = || File::create(path)?.set_len(DISK_BYTES);
    create().map_err(Error::file("create", path))?;
    Ok([
        "-drive".into(),
        format!("if=none,id=recover,format=raw,file={}", path.display()),
        "-device".into(),
        format!("virtio-blk-pci,drive=recover,serial={SERIAL}"),
    ])
}

/// The workload: runs `script`, which may leave files in /run/kept, and then sends back those files and the files of
/// /run/firstlight, except what is mounted there. Its exit status is that of `script`.
pub(crate) fn workload(script: &str) -> String {
    format!(
        "#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mkdir -p /run/kept
send_back() {{
\tstatus=$?
\tfor disk in /sys/block/vd*; do
\t\t[ \"$(cat $disk/serial)\" = {SERIAL} ] || continue
\t\tcd /run && tar -cf /dev/${{disk##*/}} $(find firstlight kept -xdev -type f) && sync
\tdone
\texit $status
}}
trap send_back EXIT
{script}
"
    )
}

/// The files that came back; none if the workload did not get that far.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    if bytes.iter().take(512).all(|b| *b == 0) {
        Ok(Vec::new())
    } else {
        read_tar(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_the_files_in_them() {
        let overlay = Overlay::new().file("/a/b/c", "x").program("a/b-d", "y");
        let paths: Vec<_> = overlay.0.keys().map(String::as_str).collect();
        assert_eq!(paths, ["a", "a/b", "a/b-d", "a/b/c"]);
    }
}
