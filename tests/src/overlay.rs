//! Files that a test adds to the image: a second cpio that the kernel unpacks over the first. It can
//! add a configuration, a workload or a broken validator; the image itself stays as it ships.

use crate::archive::{Entry, write_cpio};
use crate::error::Result;
use crate::image::fakepci_part;
use std::collections::BTreeMap;

/// A file tree, by path.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Overlay(BTreeMap<String, Entry>);

impl Overlay {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A file that can be read.
    pub fn file(self, path: &str, data: impl Into<Vec<u8>>) -> Self {
        self.with(Entry::file(path, 0o644, data))
    }

    /// A file that can be run.
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
    /// When it has not been built.
    pub fn fakepci(self) -> Result<Self> {
        Ok(self.program("t/init", fakepci_part("init")?).file("t/fakepci.ko", fakepci_part("fakepci.ko")?))
    }

    fn with(mut self, entry: Entry) -> Self {
        let mut folder = entry.path.as_str();
        while let Some((above, _)) = folder.rsplit_once('/') {
            self.0.entry(above.to_owned()).or_insert_with(|| Entry::folder(above));
            folder = above;
        }
        self.0.insert(entry.path.clone(), entry);
        self
    }

    /// As the kernel takes it; folders come first because a prefix sorts before what it is one of.
    #[must_use]
    pub fn cpio(&self) -> Vec<u8> {
        write_cpio(&self.0.values().cloned().collect::<Vec<_>>())
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
