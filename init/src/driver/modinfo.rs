//! Parses a module's `.modinfo` section: `key=value` texts, each followed by a zero byte.

use crate::sys::terminal::printable;
use contract::elf::{self, ElfError};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The key-value pairs of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modinfo(Vec<(String, String)>);

impl Modinfo {
    /// Splits the section into its texts; those without `=` are ignored.
    #[must_use]
    pub fn parse(section: &[u8]) -> Self {
        let texts = section.split(|byte| *byte == 0).map(printable);
        let pairs = texts.filter_map(|text| {
            text.split_once('=')
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
        });
        Self(pairs.collect())
    }

    /// Reads the file of a module that is not compressed.
    ///
    /// # Errors
    /// A line with the cause.
    pub fn of(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let read = |at: u64, size: usize| {
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, at).ok()?;
            Some(bytes)
        };
        match elf::section(&read, b".modinfo") {
            Ok(section) => Ok(Self::parse(&section)),
            Err(ElfError::Absent) => Err("has no .modinfo section: not a kernel module".to_owned()),
            Err(bad) => Err(bad.to_string()),
        }
    }

    /// The first value of that key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// The modules that it depends on.
    #[must_use]
    pub fn depends(&self) -> Vec<&str> {
        self.get("depends")
            .unwrap_or("")
            .split(',')
            .filter(|name| !name.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_key_and_the_first_counts() {
        let info =
            Modinfo::parse(b"version=555.58.02\0\0depends=i2c,drm\0version=1\0loose\0firstlight.patch=\0parm=a:b=c\0");
        assert_eq!(info.get("version"), Some("555.58.02"));
        assert_eq!(info.get("firstlight.patch"), Some(""));
        assert_eq!((info.get("loose"), info.get("parm")), (None, Some("a:b=c")));
        assert_eq!(info.depends(), ["i2c", "drm"]);
        assert_eq!(Modinfo::default().depends(), [""; 0]);
    }

    #[test]
    fn a_file_that_is_no_module_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.ko");
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Modinfo::of(&path)
        };
        assert_eq!(
            of(&elf::sample(".modinfo", b"version=1\0"))
                .unwrap()
                .get("version"),
            Some("1")
        );
        assert_eq!(
            of(&elf::sample(".text", b"x")).unwrap_err(),
            "has no .modinfo section: not a kernel module"
        );
        assert_eq!(of(b"").unwrap_err(), "is not a 64-bit ELF file");
        assert!(Modinfo::of(dir.path()).is_err());
    }
}
