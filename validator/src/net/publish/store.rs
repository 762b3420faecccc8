//! A folder of numbered files on a disk that may be unplugged at any moment: existing files are complete, the newest have
//! the highest numbers, and old files are removed only after the new one is safely on the disk. Other programs may have
//! written to the disk: only regular files with names of ours count, and a link in place of the folder is refused.

use super::finished::LARGEST;
use super::mac::mac_file_name;
use outcome::files::{self, atomic};
use report::mac::Key;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum length of a word in a name.
const MAX_WORD: usize = 20;
/// The highest number: a file with a higher one is not ours.
const MAX_NUMBER: u64 = 999_999_999;

/// How long another program may hold the folder: a slow stick takes seconds for a report.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// The time between two attempts to hold it.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A folder that keeps the newest reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportStore {
    dir: PathBuf,
    keep: usize,
    /// Each file is saved with a MAC by this key, and only files with a correct MAC are sent.
    pub(super) key: Option<Key>,
}

/// The result of [`ReportStore::save`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SavedReport {
    /// The new file's name.
    pub(super) name: String,
    /// Names of the old files that were removed.
    pub(super) removed: Vec<String>,
    /// Why old files could not be removed.
    pub(super) left: Option<String>,
}

impl ReportStore {
    /// A shelf at `dir`, which keeps the newest `keep` files.
    #[must_use]
    pub(super) fn new(dir: impl Into<PathBuf>, keep: usize) -> Self {
        Self {
            dir: dir.into(),
            keep: keep.max(1),
            key: None,
        }
    }

    /// Its folder.
    #[must_use]
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The most files that it keeps.
    pub(super) const fn keep(&self) -> usize {
        self.keep
    }

    /// Saves `bytes` under the next number. When this returns they are on the disk under that name.
    ///
    /// # Errors
    /// The system's error, or that another program holds the folder; in that case every older file is unchanged and no part
    /// of the new one is left.
    pub(super) fn save(&self, name: &str, bytes: &[u8]) -> io::Result<SavedReport> {
        match fs::symlink_metadata(&self.dir) {
            Ok(data) if data.is_dir() => {}
            Ok(_) => return Err(ErrorKind::NotADirectory.into()),
            Err(_) => {
                fs::create_dir_all(&self.dir)?;
                sync_folder(files::folder_of(&self.dir))?;
            }
        }
        // From the choice of the number to the removal of old files: two programs with one number would replace each
        // other's report.
        let _held = hold(&self.dir, LOCK_WAIT)?;
        let old = self.files()?;
        let mut used = self.files_set_aside()?;
        used.extend(old.iter().cloned());
        used.sort();
        let number = next_number(&used);
        let name = format!("{number:06}-{name}.json");
        // The MAC is written first, so that no report is on the disk without one.
        if let Some(mac) = self.mac(&name, bytes) {
            self.write(&mac_file_name(&name), format!("{mac}\n").as_bytes())?;
        }
        self.write(&name, bytes)?;
        let surplus = (old.len() + 1).saturating_sub(self.keep);
        let (removed, left) = self.remove_old(old.into_iter().take(surplus).map(|(_, name)| name));
        Ok(SavedReport {
            name,
            removed,
            left,
        })
    }

    /// Removes the files; returns the names of those that were removed, and why one was not.
    pub(super) fn remove_old(
        &self,
        names: impl Iterator<Item = String>,
    ) -> (Vec<String>, Option<String>) {
        let (mut removed, mut left) = (Vec::new(), None);
        for name in names {
            match fs::remove_file(self.dir.join(&name)) {
                Ok(()) => {
                    // There may be no MAC; a leftover MAC proves nothing.
                    let _ = fs::remove_file(self.dir.join(mac_file_name(&name)));
                    removed.push(name);
                }
                Err(e) => left = Some(format!("{name}: {e}")),
            }
        }
        (removed, left)
    }

    /// The numbered regular files, the oldest first. Everything else is ignored.
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
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_file() {
                files.extend(number_of(&name).map(|number| (number, name)));
            }
        }
        files.sort();
        Ok(files)
    }

    /// A file's content.
    ///
    /// # Errors
    /// The system's error, or that it is not a regular file or larger than a report.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.read_small(name, LARGEST)
    }

    /// As [`Self::read`], of at most this many bytes.
    pub(super) fn read_small(&self, name: &str, largest: u64) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(self.dir.join(name), flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        files::content(file, largest).map_err(io::Error::other)
    }

    /// Removes a file, which another program may have removed before.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.dir.join(name)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        // There may be no MAC, as in `remove_old`.
        let _ = fs::remove_file(self.dir.join(mac_file_name(name)));
        sync_folder(&self.dir)
    }

    /// Writes a new file, which is on the disk when this returns.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.remove_temporary()?;
        atomic::write(&self.dir.join(name), bytes)?;
        sync_folder(&self.dir)
    }

    /// Removes incomplete files, left when a disk was unplugged during a write. The folder is held: none is of a program
    /// that still writes.
    fn remove_temporary(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if atomic::is_temporary(&name) {
                fs::remove_file(self.dir.join(name))?;
            }
        }
        Ok(())
    }
}

/// Holds a folder against other runs of this program until the file is closed, also by the end of the process. Nothing is
/// written for that, so it also works on a full disk and on FAT. A file system that has no such locks does not prevent the
/// saving.
///
/// # Errors
/// The folder cannot be opened, or another program holds it for longer than `wait`.
fn hold(dir: &Path, wait: Duration) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(open(dir, flags, Mode::empty())?);
    let began = Instant::now();
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < wait => sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                let why = format!(
                    "another program has locked the folder for {} s",
                    wait.as_secs()
                );
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            Ok(()) | Err(_) => return Ok(folder),
        }
    }
}

fn sync_folder(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The number after the highest one in use; if that is the last number, the first free one.
fn next_number(old: &[(u64, String)]) -> u64 {
    let after = old.last().map_or(1, |(number, _)| number + 1);
    let is_free = |n: &u64| !old.iter().any(|(number, _)| number == n);
    if after <= MAX_NUMBER {
        after
    } else {
        (1..=MAX_NUMBER).find(is_free).unwrap_or(1)
    }
}

/// The number at the start of the name of a report file; `None` for other files.
#[must_use]
pub(super) fn number_of(name: &str) -> Option<u64> {
    let (number, rest) = name.split_once('-')?;
    rest.strip_suffix(".json")?;
    let digits = number.len() >= 6 && number.bytes().all(|b| b.is_ascii_digit());
    digits
        .then(|| number.parse().ok())?
        .filter(|number| *number <= MAX_NUMBER)
}

/// A text as part of a file name: only its letters and digits.
#[must_use]
pub(super) fn file_name_part(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_alphanumeric)
        .take(MAX_WORD)
        .collect()
}

#[cfg(test)]
mod tests {
    //! A folder that loses power, is full, or contains other files.

    use super::*;

    fn names(store: &ReportStore) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(store.dir())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_files_are_kept_and_others_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = ReportStore::new(dir.path().join("reports"), 3);
        assert_eq!(store.files().unwrap(), []);
        store.save("x-PASS", b"{}").unwrap();
        fs::write(store.dir().join("notes.txt"), "mine").unwrap();
        for n in 2..=5 {
            let saved = store.save("x-PASS", b"{}").unwrap();
            assert_eq!(
                (saved.name, saved.removed.len()),
                (format!("{n:06}-x-PASS.json"), usize::from(n > 3))
            );
        }
        let want = [
            "000003-x-PASS.json",
            "000004-x-PASS.json",
            "000005-x-PASS.json",
            "notes.txt",
        ];
        assert_eq!(names(&store), want);
    }

    #[test]
    fn simultaneous_reports_of_one_name_are_all_kept_with_a_number_each() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("reports");
        let texts: Vec<String> = (0..16).map(|n| format!("report {n}")).collect();
        std::thread::scope(|scope| {
            for text in &texts {
                // Each run of the program opens the folder by itself.
                let store = ReportStore::new(&at, 20);
                scope.spawn(move || store.save("x-PASS", text.as_bytes()).unwrap());
            }
        });
        let store = ReportStore::new(&at, 20);
        let files = store.files().unwrap();
        let numbers: Vec<_> = files.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..=16).collect::<Vec<_>>());
        let mut kept: Vec<_> = files
            .iter()
            .map(|(_, name)| String::from_utf8(store.read(name).unwrap()).unwrap())
            .collect();
        kept.sort();
        let mut texts = texts;
        texts.sort();
        assert_eq!(kept, texts);
    }

    #[test]
    fn a_folder_that_another_program_holds_is_an_error_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let held = hold(dir.path(), Duration::ZERO).unwrap();
        let why = hold(dir.path(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(
            why.to_string(),
            "another program has locked the folder for 0 s"
        );
        drop(held);
        assert!(hold(dir.path(), Duration::ZERO).is_ok());
    }

    #[test]
    fn a_file_that_another_run_has_removed_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            ReportStore::new(dir.path(), 1)
                .remove("000001-a.json")
                .is_ok()
        );
    }

    #[test]
    fn incomplete_files_are_removed_and_complete_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let store = ReportStore::new(dir.path(), 20);
        fs::write(dir.path().join("000007-a-PASS.json"), "old").unwrap();
        fs::write(dir.path().join(".firstlight-71-0.new"), "half").unwrap();
        fs::write(dir.path().join(".profile.part"), "mine").unwrap();
        assert_eq!(
            store.save("c-FAIL", b"new").unwrap().name,
            "000008-c-FAIL.json"
        );
        assert_eq!(
            names(&store),
            [".profile.part", "000007-a-PASS.json", "000008-c-FAIL.json"]
        );
        assert_eq!(store.read("000007-a-PASS.json").unwrap(), b"old");
    }

    #[test]
    fn a_failed_write_removes_no_older_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = ReportStore::new(dir.path(), 1);
        store.save("a", b"old").unwrap();
        // A folder with its name: the rename fails.
        fs::create_dir(dir.path().join("000002-b.json")).unwrap();
        fs::write(dir.path().join("000002-b.json/x"), "").unwrap();
        fs::create_dir(dir.path().join(".firstlight-71-0.new")).unwrap();
        assert!(store.save("b", b"new").is_err());
        assert_eq!(store.read("000001-a.json").unwrap(), b"old");
    }

    #[test]
    fn links_folders_and_fifos_with_our_names_are_left_alone() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = outside.path().join("000001-a.json");
        fs::write(&theirs, "theirs").unwrap();
        let at = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink(&theirs, at("000001-a.json")).unwrap();
        fs::create_dir(at("000002-b.json")).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(at("000003-c.json"))
                .status()
                .unwrap()
                .success()
        );
        let store = ReportStore::new(dir.path(), 1);
        assert_eq!(store.files().unwrap(), []);
        for name in ["000001-a.json", "000002-b.json", "000003-c.json"] {
            assert!(store.read(name).is_err(), "{name}");
        }
        assert_eq!(store.save("d", b"new").unwrap().removed, [""; 0]);
        let link = outside.path().join("reports");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert_eq!(
            ReportStore::new(&link, 1)
                .save("e", b"")
                .unwrap_err()
                .kind(),
            ErrorKind::NotADirectory
        );
        assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
    }

    #[test]
    fn an_old_file_that_cannot_be_removed_is_reported_and_the_others_go() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("000001-a.json")).unwrap();
        fs::write(dir.path().join("000002-b.json"), "").unwrap();
        let names = ["000001-a.json", "000002-b.json"].map(str::to_owned);
        let (removed, left) = ReportStore::new(dir.path(), 1).remove_old(names.into_iter());
        assert_eq!(removed, ["000002-b.json"]);
        assert!(left.unwrap().starts_with("000001-a.json: "));
    }

    #[test]
    fn only_our_own_names_have_a_number() {
        assert_eq!(number_of("000012-a-PASS.json"), Some(12));
        for other in [
            "report.json",
            "12-a.json",
            "000012-a.txt",
            "0000x2-a.json",
            "-a.json",
            "+00012-a.json",
        ] {
            assert_eq!(number_of(other), None, "{other}");
        }
        assert!(number_of("99999999999999999999-a.json").is_none());
    }

    #[test]
    fn a_forged_number_does_not_stop_the_keeping() {
        for forged in [u64::MAX, MAX_NUMBER + 1, MAX_NUMBER] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(format!("{forged}-a.json")), "").unwrap();
            let store = ReportStore::new(dir.path(), 3);
            assert_eq!(store.save("b", b"").unwrap().name, "000001-b.json");
            assert_eq!(store.save("c", b"").unwrap().name, "000002-c.json");
        }
    }

    #[test]
    fn unsafe_words_become_plain_names() {
        assert_eq!(
            file_name_part("../2026-11-20T10:00:00Z"),
            "20261120T100000Z"
        );
        assert_eq!(file_name_part(&"x".repeat(300)).len(), 20);
    }
}
