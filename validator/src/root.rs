//! The one door to the machine's files. Every read of /sys, /proc and /dev goes through a `Root`,
//! so that a recorded machine can be examined anywhere and a report can say what it was made from.

use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How much of a file is handed on at once, bytes.
const PIECE: usize = 256 << 10;

/// A folder that stands for `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The machine (`/`) or a recorded one.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// The folder as it was given, for reports.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// True when this is the running machine itself.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where `rel` (e.g. `sys/bus/pci/devices`) lies.
    #[must_use]
    pub fn join(&self, rel: impl AsRef<Path>) -> PathBuf {
        let rel = rel.as_ref();
        self.0.join(rel.strip_prefix("/").unwrap_or(rel))
    }

    /// The whole file as bytes.
    ///
    /// # Errors
    /// Whatever the read came back with; a missing file is `NotFound`.
    pub fn read(&self, rel: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        fs::read(self.join(rel))
    }

    /// The whole file as text, without the white space around it.
    ///
    /// # Errors
    /// As [`Root::read`]; `InvalidData` when it is not UTF-8.
    pub fn text(&self, rel: impl AsRef<Path>) -> io::Result<String> {
        Ok(fs::read_to_string(self.join(rel))?.trim().to_owned())
    }

    /// As [`Root::read`], for who has no deadline: a pipe in the place of a file is an error and never
    /// waited for.
    ///
    /// # Errors
    /// As [`Root::read`]; `InvalidInput` when it is no regular file.
    pub fn regular(&self, rel: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_regular(rel)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// As [`Root::text`], of a regular file.
    ///
    /// # Errors
    /// As [`Root::regular`] and [`Root::text`].
    pub fn regular_text(&self, rel: impl AsRef<Path>) -> io::Result<String> {
        let mut text = String::new();
        self.open_regular(rel)?.read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    }

    fn open_regular(&self, rel: impl AsRef<Path>) -> io::Result<File> {
        let file = self.open_nonblocking(rel)?;
        let kind = file.metadata()?.file_type();
        // Reading a folder has an error of its own.
        if kind.is_file() || kind.is_dir() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }

    /// The names in a folder, sorted. Hidden names are left out: sysfs has none, and a recorded
    /// machine kept in git needs one to keep an empty folder.
    ///
    /// # Errors
    /// Whatever the read came back with; a missing folder is `NotFound`, never an empty list.
    pub fn names(&self, rel: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let mut names =
            fs::read_dir(self.join(rel))?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
        names.sort();
        Ok(names)
    }

    /// What a symbolic link says, unresolved.
    ///
    /// # Errors
    /// As the kernel says; `InvalidInput` when it is not a link.
    pub fn link(&self, rel: impl AsRef<Path>) -> io::Result<PathBuf> {
        fs::read_link(self.join(rel))
    }

    /// True when there is something at this place, links followed.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn exists(&self, rel: impl AsRef<Path>) -> io::Result<bool> {
        self.join(rel).try_exists()
    }

    /// Major and minor number of a character device. A recorded machine kept in git cannot hold
    /// device nodes: there, and only there, a file with `c MAJOR MINOR` stands for one.
    ///
    /// # Errors
    /// Whatever the kernel says; `InvalidData` when it is something else than a character device.
    pub fn character_device(&self, rel: impl AsRef<Path>) -> io::Result<(u32, u32)> {
        let path = self.join(rel);
        let meta = fs::metadata(&path)?;
        if meta.file_type().is_char_device() {
            let number = meta.rdev();
            return Ok((rustix::fs::major(number), rustix::fs::minor(number)));
        }
        let recorded = if self.is_live() { None } else { recorded_device(&fs::read_to_string(path)?) };
        recorded.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no character device"))
    }

    /// Opens a file for reads that never wait: /dev/kmsg ends where the log ends at this moment,
    /// and a pipe in a recorded machine cannot block.
    ///
    /// # Errors
    /// Whatever the open came back with.
    pub fn open_nonblocking(&self, rel: impl AsRef<Path>) -> io::Result<File> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        OpenOptions::new().read(true).custom_flags(flags).open(self.join(rel))
    }

    /// Every name in a folder with what it names, links not followed; the hidden ones too. In no order.
    ///
    /// # Errors
    /// As [`Root::names`].
    pub fn entries(&self, rel: impl AsRef<Path>) -> io::Result<Vec<(OsString, FileType)>> {
        fs::read_dir(self.join(rel))?.map(|e| e.and_then(|e| Ok((e.file_name(), e.file_type()?)))).collect()
    }

    /// Major and minor number of the file system that a place lies in, links not followed.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn file_system(&self, rel: impl AsRef<Path>) -> io::Result<(u32, u32)> {
        let number = fs::symlink_metadata(self.join(rel))?.dev();
        Ok((rustix::fs::major(number), rustix::fs::minor(number)))
    }

    /// Hands a file on piece by piece, so that its size costs no memory. A link in its place is an error.
    ///
    /// # Errors
    /// Whatever the open and the reads came back with.
    pub fn stream(&self, rel: impl AsRef<Path>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(self.join(rel))?;
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(n) => each(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes `bytes` at `offset` of an existing file in one system call: to a `config` file in
    /// sysfs this is one configuration write of that width.
    ///
    /// # Errors
    /// As the kernel says; a short write is `WriteZero`.
    pub fn write_at(&self, rel: impl AsRef<Path>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.join(rel))?;
        let n = file.write_at(bytes, offset)?;
        if n == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// `c 195 255`
fn recorded_device(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split_whitespace();
    let (kind, major, minor) = (words.next()?, words.next()?, words.next()?);
    (kind == "c" && words.next().is_none()).then_some(())?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_whole_in_pieces_and_a_link_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let long = vec![7; PIECE + 1];
        fs::write(dir.path().join("f"), &long).unwrap();
        std::os::unix::fs::symlink("f", dir.path().join(".l")).unwrap();
        let root = Root::new(dir.path());
        let (mut read, mut pieces) = (Vec::new(), 0);
        root.stream("/f", |piece| {
            read.extend_from_slice(piece);
            pieces += 1;
        })
        .unwrap();
        assert!(read == long && pieces > 1);
        assert!(root.stream("/.l", |_| ()).is_err());
        let mut names: Vec<_> =
            root.entries("/").unwrap().into_iter().map(|(n, kind)| (n, kind.is_symlink())).collect();
        names.sort();
        assert_eq!(names, [(".l".into(), true), ("f".into(), false)]);
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_an_error_and_waits_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.path().join("f")).status().unwrap();
        assert!(made.success());
        let root = Root::new(dir.path());
        assert_eq!(root.regular("f").unwrap_err().to_string(), "it is no regular file");
        assert_eq!(root.regular_text("f").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(root.regular_text("").unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_device_is_told_by_its_numbers_and_a_file_is_none() {
        let live = Root::new("/");
        assert_eq!(live.character_device("dev/null").unwrap(), (1, 3));
        assert!(live.character_device("etc/passwd").is_err());
        let dir = tempfile::tempdir().unwrap();
        let recorded = Root::new(dir.path());
        for (text, device) in
            [("c 195 255\n", Some((195, 255))), ("b 8 0\n", None), ("", None), ("c 195 0 1", None)]
        {
            fs::write(dir.path().join("node"), text).unwrap();
            assert_eq!(recorded.character_device("node").ok(), device, "{text}");
        }
        assert_eq!(recorded.character_device("none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
