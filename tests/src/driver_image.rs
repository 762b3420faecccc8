//! The skeleton of the driver image: all of the shipped one, but with empty files instead of its libraries and firmware.
//! Most boots use it as it is; a test may change something in it.

use crate::error::{Error, Result, output, run};
use crate::image::Image;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Its path in the image.
pub const PATH: &str = "usr/lib/firstlight/driver.squashfs";

/// A driver image as a folder.
#[derive(Debug)]
pub struct DriverImage(TempDir);

impl DriverImage {
    /// The contents of the shipped driver image; libraries and firmware are empty files.
    ///
    /// # Errors
    /// If the image has no driver, or unsquashfs cannot read it.
    pub fn skeleton() -> Result<Self> {
        let dir = tempfile::tempdir().map_err(Error::file("create a folder in", "/tmp"))?;
        let shipped = Image::shipped().driver_image()?;
        let image = Self(dir);
        let unsquashfs = || Command::new("unsquashfs");
        run(unsquashfs()
            .args(["-q", "-n", "-d"])
            .arg(image.tree())
            .arg(&shipped)
            .args(["driver.toml", "modules", "bin", "doc"]))?;
        let names = output(unsquashfs().args(["-q", "-l", "-d", ""]).arg(&shipped))?;
        for name in names
            .lines()
            .filter(|name| name.starts_with("/lib/") || name.starts_with("/firmware/"))
        {
            image.create_empty(name.trim_start_matches('/'))?;
        }
        Ok(image)
    }

    /// The same, and the modules are empty files too: such a driver can only be named.
    ///
    /// # Errors
    /// As [`DriverImage::skeleton`].
    pub(crate) fn with_empty_modules() -> Result<Self> {
        let image = Self::skeleton()?;
        let dir = image.path("modules");
        let read = fs::read_dir(&dir).map_err(Error::file("read", &dir))?;
        for file in read.flatten().map(|entry| entry.path()) {
            fs::write(&file, "").map_err(Error::file("write", file))?;
        }
        Ok(image)
    }

    fn tree(&self) -> PathBuf {
        self.0.path().join("tree")
    }

    /// Creates a folder if the name has no dot, else an empty file.
    fn create_empty(&self, name: &str) -> Result<()> {
        let path = self.tree().join(name);
        let is_file = name.ends_with(".bin") || name.contains(".so");
        let folder = path.parent().filter(|_| is_file).unwrap_or(&path);
        let made = fs::create_dir_all(folder).and_then(|()| {
            if is_file {
                fs::write(&path, "")
            } else {
                Ok(())
            }
        });
        made.map_err(Error::file("create", path))
    }

    /// Replaces a text in a file by another one of the same length, at all places.
    ///
    /// # Errors
    /// If the text is not in the file: then the test would test nothing.
    pub fn replace(&self, file: &str, old: &str, new: &str) -> Result<()> {
        assert_eq!(old.len(), new.len(), "the file must keep its layout");
        let path = self.tree().join(file);
        let mut bytes = fs::read(&path).map_err(Error::file("read", &path))?;
        let places: Vec<_> = (0..bytes.len().saturating_sub(old.len()))
            .filter(|at| bytes[*at..].starts_with(old.as_bytes()))
            .collect();
        if places.is_empty() {
            return Err(Error::Archive {
                what: "driver image",
                why: format!("{file} holds no {old}"),
            });
        }
        for at in places {
            bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
        }
        fs::write(&path, bytes).map_err(Error::file("write", path))
    }

    /// Renames a file.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.tree().join(from), self.tree().join(to))
            .map_err(Error::file("rename", from))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove(&self, file: &str) -> Result<()> {
        fs::remove_file(self.tree().join(file)).map_err(Error::file("remove", file))
    }

    /// The squashfs, for an overlay at [`PATH`]; its blocks are uncompressed, as in the shipped image.
    ///
    /// # Errors
    /// If mksquashfs cannot make it.
    pub fn pack(&self) -> Result<Vec<u8>> {
        let options = ["-noI", "-noD", "-noF", "-no-fragments"];
        let out = make_squashfs(&self.tree(), self.0.path().join("packed"), &options)?;
        fs::read(&out).map_err(Error::file("read", out))
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.tree().join(file)
    }
}

/// A squashfs file with the contents of `dir`.
///
/// # Errors
/// If mksquashfs cannot make it.
pub fn squashfs(dir: &Path, out: PathBuf) -> Result<PathBuf> {
    make_squashfs(dir, out, &["-comp", "zstd"])
}

fn make_squashfs(dir: &Path, out: PathBuf, options: &[&str]) -> Result<PathBuf> {
    let quiet = ["-quiet", "-no-progress", "-all-root"];
    run(Command::new("mksquashfs")
        .arg(dir)
        .arg(&out)
        .args(quiet)
        .args(options))?;
    Ok(out)
}
