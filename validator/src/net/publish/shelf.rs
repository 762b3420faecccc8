//! A folder of numbered files on a disk that may be unplugged at any moment: existing files are complete, the
//! newest have the highest numbers, and old files are removed only after the new one is safe.

use crate::files::whole;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Maximum length of a word in a name.
const LONGEST_WORD: usize = 20;

/// The folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shelf {
    dir: PathBuf,
    keep: usize,
}

/// The result of saving.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The new file's name.
    pub(super) name: String,
    /// Names of the old files that were removed.
    pub(super) removed: Vec<String>,
    /// Why old files could not be removed.
    pub(super) left: Option<String>,
}

impl Shelf {
    /// A shelf at `dir`, with room for the newest `keep` files.
    #[must_use]
    pub(super) fn new(dir: impl Into<PathBuf>, keep: usize) -> Self {
        Self { dir: dir.into(), keep: keep.max(1) }
    }

    /// Its folder.
    #[must_use]
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Saves `bytes` under the next number. When this returns they are on the disk under that name.
    ///
    /// # Errors
    /// The system's error; then every older file is unchanged and no part of the new one is left.
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

    /// The numbered files, the oldest first. Other files are ignored.
    ///
    /// # Errors
    /// The system's error; a missing folder has no files.
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
    /// The system's error.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.dir.join(name))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))?;
        sync_folder(&self.dir)
    }

    /// Writes a new file, which is on the disk when this returns.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.remove_temporary()?;
        whole::write(&self.dir.join(name), bytes)?;
        sync_folder(&self.dir)
    }

    /// Removes incomplete files, left when a disk was unplugged during a write.
    fn remove_temporary(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if whole::is_temporary(&name) {
                fs::remove_file(self.dir.join(name))?;
            }
        }
        Ok(())
    }
}

fn sync_folder(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The number at the start of a name of ours.
#[must_use]
pub(super) fn number_of(name: &str) -> Option<u64> {
    let (number, rest) = name.split_once('-')?;
    rest.strip_suffix(".json")?;
    let digits = number.len() >= 6 && number.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| number.parse().ok())?
}

/// A text as part of a file name: only its letters and digits.
#[must_use]
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(LONGEST_WORD).collect()
}

#[cfg(test)]
mod tests {
    //! A folder that loses power, is full, or contains other files.

    use super::*;

    fn names(shelf: &Shelf) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(shelf.dir())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_files_are_kept_and_others_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("reports"), 3);
        assert_eq!(shelf.files().unwrap(), []);
        shelf.keep("x-PASS", b"{}").unwrap();
        fs::write(shelf.dir().join("notes.txt"), "mine").unwrap();
        for n in 2..=5 {
            let kept = shelf.keep("x-PASS", b"{}").unwrap();
            assert_eq!((kept.name, kept.removed.len()), (format!("{n:06}-x-PASS.json"), usize::from(n > 3)));
        }
        let want = ["000003-x-PASS.json", "000004-x-PASS.json", "000005-x-PASS.json", "notes.txt"];
        assert_eq!(names(&shelf), want);
    }

    #[test]
    fn incomplete_files_are_removed_and_complete_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), 20);
        fs::write(dir.path().join("000007-a-PASS.json"), "old").unwrap();
        fs::write(dir.path().join(".firstlight-71-0.new"), "half").unwrap();
        fs::write(dir.path().join(".profile.part"), "mine").unwrap();
        assert_eq!(shelf.keep("c-FAIL", b"new").unwrap().name, "000008-c-FAIL.json");
        assert_eq!(names(&shelf), [".profile.part", "000007-a-PASS.json", "000008-c-FAIL.json"]);
        assert_eq!(shelf.read("000007-a-PASS.json").unwrap(), b"old");
    }

    #[test]
    fn a_failed_write_removes_no_older_file() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), 1);
        shelf.keep("a", b"old").unwrap();
        // A folder with its name: the rename fails.
        fs::create_dir(dir.path().join("000002-b.json")).unwrap();
        fs::write(dir.path().join("000002-b.json/x"), "").unwrap();
        fs::create_dir(dir.path().join(".firstlight-71-0.new")).unwrap();
        assert!(shelf.keep("b", b"new").is_err());
        assert_eq!(shelf.read("000001-a.json").unwrap(), b"old");
    }

    #[test]
    fn an_old_file_that_cannot_be_removed_is_reported_and_the_new_one_kept() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), 1);
        fs::create_dir(dir.path().join("000001-a.json")).unwrap();
        let kept = shelf.keep("b", b"new").unwrap();
        assert!(kept.left.unwrap().starts_with("000001-a.json: "));
        assert_eq!(shelf.read(&kept.name).unwrap(), b"new");
    }

    #[test]
    fn only_our_own_names_have_a_number() {
        assert_eq!(number_of("000012-a-PASS.json"), Some(12));
        for other in ["report.json", "12-a.json", "000012-a.txt", "0000x2-a.json", "-a.json", "+00012-a.json"]
        {
            assert_eq!(number_of(other), None, "{other}");
        }
        assert!(number_of("99999999999999999999-a.json").is_none());
    }

    #[test]
    fn no_number_is_used_twice() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(format!("{}-a.json", u64::MAX)), "").unwrap();
        let error = Shelf::new(dir.path(), 3).keep("b", b"").unwrap_err();
        assert_eq!(error.to_string(), "no number is left");
    }

    #[test]
    fn unsafe_words_become_plain_names() {
        assert_eq!(plain("../2026-11-20T10:00:00Z"), "20261120T100000Z");
        assert_eq!(plain(&"x".repeat(300)).len(), 20);
    }
}
