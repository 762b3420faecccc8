//! A folder of numbered files on a disk that may be pulled at any moment: what is there is whole,
//! the newest have the highest numbers, and nothing old goes before the new one is safe.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// How long a word in a name may be.
const LONGEST_WORD: usize = 20;

/// The folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shelf {
    dir: PathBuf,
    keep: usize,
}

/// What keeping did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The new file's name.
    pub(super) name: String,
    /// Names of the old files that went.
    pub(super) removed: Vec<String>,
    /// Why old files that should have gone did not.
    pub(super) left: Option<String>,
}

impl Shelf {
    /// At `dir`, with room for the newest `keep` files.
    #[must_use]
    pub(super) fn new(dir: impl Into<PathBuf>, keep: usize) -> Self {
        Self { dir: dir.into(), keep: keep.max(1) }
    }

    /// Where it is.
    #[must_use]
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps `bytes` under the next number. When this returns they are on the disk under that name.
    ///
    /// # Errors
    /// As the system says; then every older file is as it was and no part of the new one is left.
    pub(super) fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<Kept> {
        if !self.dir.is_dir() {
            fs::create_dir_all(&self.dir)?;
            self.dir.parent().map_or(Ok(()), sync_folder)?;
        }
        let old = self.files()?;
        let next = old.last().map_or(Some(1), |(number, _)| number.checked_add(1));
        let next = next.ok_or_else(|| io::Error::other("no number is left"))?;
        let name = format!("{next:06}-{name}.json");
        self.write(&name, bytes)?;
        let surplus = (old.len() + 1).saturating_sub(self.keep);
        let (mut removed, mut left) = (Vec::new(), None);
        for (_, name) in old.into_iter().take(surplus) {
            match fs::remove_file(self.dir.join(&name)) {
                Ok(()) => removed.push(name),
                Err(e) => left = Some(format!("{name}: {e}")),
            }
        }
        Ok(Kept { name, removed, left })
    }

    /// The numbered files, the oldest first. Other files are none of ours.
    ///
    /// # Errors
    /// As the system says; a folder that is not there has none.
    pub(super) fn files(&self) -> io::Result<Vec<(u64, String)>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            files.extend(number_of(&name).map(|number| (number, name)));
        }
        files.sort();
        Ok(files)
    }

    /// A file's content.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.dir.join(name))
    }

    /// Takes a file away for good.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))?;
        sync_folder(&self.dir)
    }

    /// The content goes to the disk under another name first, then takes its own.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.remove_parts()?;
        let part = self.dir.join(part_of(name));
        let whole = || -> io::Result<()> {
            let mut file = File::create(&part)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            drop(file);
            fs::rename(&part, self.dir.join(name))?;
            sync_folder(&self.dir)
        };
        whole().inspect_err(|_| {
            // On a disk that is gone nothing can be removed; elsewhere nothing half-written stays.
            let _gone = fs::remove_file(&part);
        })
    }

    /// What a stick that was pulled while it was written to has left.
    fn remove_parts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_part(&name) {
                fs::remove_file(self.dir.join(name))?;
            }
        }
        Ok(())
    }
}

fn sync_folder(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn part_of(name: &str) -> String {
    format!(".{name}.part")
}

fn is_part(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    inner.is_some_and(|name| number_of(name).is_some())
}

/// The number that one of our names begins with.
#[must_use]
pub(super) fn number_of(name: &str) -> Option<u64> {
    let (number, rest) = name.split_once('-')?;
    rest.strip_suffix(".json")?;
    let digits = number.len() >= 6 && number.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| number.parse().ok())?
}

/// A text as part of a file's name: its letters and digits.
#[must_use]
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(LONGEST_WORD).collect()
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
