//! The only access to the machine's files. Every read of /sys, /proc and /dev goes through a `Root`, so that
//! a recorded machine can be examined anywhere and a report can name its source. Nothing leaves the root, and
//! nothing blocks: a file is a regular file, or an error.

mod jail;

use rustix::fs::{FileType, IFlags, OFlags, Stat, ioctl_setflags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Size of the pieces in which a file is passed on, bytes.
const PIECE: usize = 256 << 10;

/// A folder that is used as `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    dir: PathBuf,
    /// What people call it, if that is not the folder.
    name: Option<String>,
}

impl Root {
    /// The machine (`/`) or a recorded one.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            name: None,
        }
    }

    /// The same folder, under a name of its own: a recorded machine has that of its file.
    #[must_use]
    pub fn named(self, name: Option<String>) -> Self {
        Self { name, ..self }
    }

    /// The name that it was given, if it has one.
    #[must_use]
    pub fn given_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What reports and messages call the machine: the name that it was given, or its folder.
    #[must_use]
    pub fn name(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| self.dir.display().to_string())
    }

    /// The folder as it was given, for reports.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// True if this is the running machine itself.
    #[must_use]
    pub fn is_live(&self) -> bool {
        jail::is_live(&self.dir)
    }

    /// `rel` (e.g. `sys/bus/pci/devices`) below what people call the machine, for messages: a recorded machine is unpacked into
    /// a temporary folder, whose name tells the user nothing.
    #[must_use]
    pub fn shown(&self, rel: impl AsRef<Path>) -> String {
        let rel = rel.as_ref();
        let rel = rel.strip_prefix("/").unwrap_or(rel);
        Path::new(&self.name()).join(rel).display().to_string()
    }

    /// `rel` with the root in front. Links in it may lead out of the root, so use the other functions to open it.
    #[must_use]
    pub fn join(&self, rel: impl AsRef<Path>) -> PathBuf {
        let rel = rel.as_ref();
        self.dir.join(rel.strip_prefix("/").unwrap_or(rel))
    }

    /// The path to which `rel` leads, with every link resolved inside the root, even if it does not exist
    /// yet. The path starts with the root.
    ///
    /// # Errors
    /// If links form a loop.
    pub fn place(&self, rel: impl AsRef<Path>) -> io::Result<PathBuf> {
        Ok(self.dir.join(jail::resolved(&self.dir, rel.as_ref())?))
    }

    /// The whole file as bytes. Regular files only: a pipe or a device is an error, and is not waited for.
    ///
    /// # Errors
    /// The read's error; a missing file is `NotFound`, anything but a regular file is `InvalidInput`.
    pub fn read(&self, rel: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(rel.as_ref(), OFlags::RDONLY)?
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The whole file as text, without surrounding white space.
    ///
    /// # Errors
    /// As [`Root::read`]; `InvalidData` if it is not UTF-8.
    pub fn text(&self, rel: impl AsRef<Path>) -> io::Result<String> {
        let mut text = String::new();
        self.open(rel.as_ref(), OFlags::RDONLY)?
            .read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    }

    fn open(&self, rel: &Path, flags: OFlags) -> io::Result<File> {
        regular(jail::open(&self.dir, rel, flags | OFlags::NONBLOCK)?.into())
    }

    /// The names in a folder, sorted. Hidden names are left out: sysfs has none, and a recorded
    /// machine kept in git needs one to keep an empty folder.
    ///
    /// # Errors
    /// The read's error; a missing folder is `NotFound`, never an empty list.
    pub fn names(&self, rel: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let mut names: Vec<_> = self
            .entries(rel)?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
        names.sort();
        Ok(names)
    }

    /// The target of a symbolic link, unresolved.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` if it is not a link.
    pub fn link(&self, rel: impl AsRef<Path>) -> io::Result<PathBuf> {
        jail::link(&self.dir, rel.as_ref())
    }

    /// True if this path exists, links followed.
    ///
    /// # Errors
    /// If the check fails.
    pub fn exists(&self, rel: impl AsRef<Path>) -> io::Result<bool> {
        match jail::open(&self.dir, rel.as_ref(), OFlags::PATH) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Major and minor number of a character device. A recorded machine kept in git cannot contain device
    /// nodes: there, and only there, a file with `c MAJOR MINOR` replaces one.
    ///
    /// # Errors
    /// The kernel's error; `InvalidData` if it is not a character device.
    pub fn character_device(&self, rel: impl AsRef<Path>) -> io::Result<(u32, u32)> {
        let stat = rustix::fs::fstat(jail::open(&self.dir, rel.as_ref(), OFlags::PATH)?)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice {
            return Ok((
                rustix::fs::major(stat.st_rdev),
                rustix::fs::minor(stat.st_rdev),
            ));
        }
        let recorded = if self.is_live() {
            None
        } else {
            recorded_device(&self.text(rel)?)
        };
        recorded.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a character device"))
    }

    /// Opens a log for reads that never wait: /dev/kmsg ends where the log ends at this moment, and a
    /// recorded machine has a regular file in its place.
    ///
    /// # Errors
    /// The open's error; `InvalidInput` if it is neither a device nor a regular file.
    pub fn open_log(&self, rel: impl AsRef<Path>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file: File = jail::open(&self.dir, rel.as_ref(), flags)?.into();
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if kind == FileType::CharacterDevice {
            Ok(file)
        } else {
            regular(file)
        }
    }

    /// Every name in a folder with its type, links not followed, including hidden names. Unordered.
    ///
    /// # Errors
    /// As [`Root::names`].
    pub fn entries(&self, rel: impl AsRef<Path>) -> io::Result<Vec<(OsString, FileType)>> {
        jail::entries(&self.dir, rel.as_ref())
    }

    /// The metadata of a path, links not followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn stat(&self, rel: impl AsRef<Path>) -> io::Result<Stat> {
        jail::stat(&self.dir, rel.as_ref())
    }

    /// Major and minor number of the file system of a path, links not followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn file_system(&self, rel: impl AsRef<Path>) -> io::Result<(u32, u32)> {
        let number = self.stat(rel)?.st_dev;
        Ok((rustix::fs::major(number), rustix::fs::minor(number)))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove(&self, rel: impl AsRef<Path>) -> io::Result<()> {
        jail::remove(&self.dir, rel.as_ref())
    }

    /// Like [`Root::remove`], but also removes a file that its file system protects, as efivarfs does with variables.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_protected(&self, rel: impl AsRef<Path>) -> io::Result<()> {
        // A file system without such a protection refuses this, but the file can be removed.
        let _refused = ioctl_setflags(self.open(rel.as_ref(), OFlags::RDONLY)?, IFlags::empty());
        self.remove(rel)
    }

    /// Passes a file on in pieces, so that memory use does not depend on its size. A link is an error.
    ///
    /// # Errors
    /// The error of the open or of a read.
    pub fn stream(&self, rel: impl AsRef<Path>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut file = self.open(rel.as_ref(), OFlags::RDONLY | OFlags::NOFOLLOW)?;
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

    /// Writes `bytes` at `offset` of an existing regular file in one system call: to a `config` file in
    /// sysfs this is one configuration write of that width.
    ///
    /// # Errors
    /// The kernel's error; a short write is `WriteZero`.
    pub fn write_at(&self, rel: impl AsRef<Path>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.open(rel.as_ref(), OFlags::WRONLY)?;
        let n = file.write_at(bytes, offset)?;
        if n == bytes.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }
}

/// The file, if it is a regular one. Reading a folder gives its own error.
fn regular(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "not a regular file",
    ))
}

/// Reads a user-supplied regular file, wherever it is, as bytes; other file types are not waited for.
///
/// # Errors
/// As [`Root::read`].
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    let mut bytes = Vec::new();
    regular(opened.into())?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `c 195 255`
fn recorded_device(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split_whitespace();
    let (kind, major, minor) = (words.next()?, words.next()?, words.next()?);
    (kind == "c" && words.next().is_none()).then_some(())?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(any(test, feature = "samples"))]
#[expect(clippy::unwrap_used, reason = "for tests alone")]
impl Root {
    /// A root with these files, which is deleted with the folder.
    pub fn written(files: &[(&str, impl AsRef<[u8]>)]) -> (tempfile::TempDir, Self) {
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let root = Self::new(dir.path());
        (dir, root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_passed_on_in_pieces_and_a_link_is_refused() {
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
        let mut names: Vec<_> = root
            .entries("/")
            .unwrap()
            .into_iter()
            .map(|(n, kind)| (n, kind == FileType::Symlink))
            .collect();
        names.sort();
        assert_eq!(names, [(".l".into(), true), ("f".into(), false)]);
    }

    #[test]
    fn a_pipe_in_place_of_a_file_is_an_error_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(dir.path().join("f"))
            .status()
            .unwrap();
        assert!(made.success());
        let root = Root::new(dir.path());
        assert_eq!(
            root.read("f").unwrap_err().to_string(),
            "not a regular file"
        );
        assert_eq!(
            root.text("f").unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(
            root.text("").unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        assert!(root.stream("f", |_| ()).is_err() && root.open_log("f").is_err());
        assert!(root.character_device("f").is_err() && root.names("f").is_err());
        assert!(root.write_at("f", 0, b"x").is_err());
        assert!(read_regular(&dir.path().join("f")).is_err());
    }

    #[test]
    fn a_device_has_its_numbers_and_a_file_has_none() {
        let (live, dir) = (Root::new("/"), tempfile::tempdir().unwrap());
        assert_eq!(live.character_device("dev/null").unwrap(), (1, 3));
        fs::write(dir.path().join("node"), "c 1 3").unwrap();
        assert!(
            live.character_device(dir.path().join("node")).is_err(),
            "only a recording represents it like this"
        );
        let recorded = Root::new(dir.path());
        for (text, device) in [
            ("c 195 255\n", Some((195, 255))),
            ("b 8 0\n", None),
            ("", None),
            ("c 195 0 1", None),
        ] {
            fs::write(dir.path().join("node"), text).unwrap();
            assert_eq!(recorded.character_device("node").ok(), device, "{text}");
        }
        assert_eq!(
            recorded.character_device("none").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
