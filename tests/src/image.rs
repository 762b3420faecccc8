//! Where the image lies that the tests boot: what `./run image` left in the output folder, and the
//! fake PCI domain that `./run fakepci` built for its kernel.

use crate::archive::{self, Entry};
use crate::error::{Error, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The repository's top folder.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Where the build scripts keep kernel, driver, tools and downloads.
#[must_use]
pub fn cache() -> PathBuf {
    let home = || env::var_os("HOME").map_or_else(|| "/root".into(), PathBuf::from);
    let users = || env::var_os("XDG_CACHE_HOME").map_or_else(|| home().join(".cache"), PathBuf::from);
    env::var_os("FIRSTLIGHT_CACHE").map_or_else(|| users().join("firstlight"), PathBuf::from)
}

/// One built image.
#[derive(Debug, Clone)]
pub struct Image(PathBuf);

impl Image {
    /// The image that ships. `FIRSTLIGHT_IMAGE` names another output folder.
    #[must_use]
    pub fn shipped() -> Self {
        Self(env::var_os("FIRSTLIGHT_IMAGE").map_or_else(|| workspace().join("target/image/out"), Into::into))
    }

    /// The image for arm64 machines, which `./run image --arch arm64` makes.
    #[must_use]
    pub fn arm64() -> Self {
        Self(workspace().join("target/image/arm64/out"))
    }

    /// The kernel, as network boot gets it.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn kernel(&self) -> Result<PathBuf> {
        self.part("firstlight.vmlinuz")
    }

    /// The initrd, as network boot gets it.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn initrd(&self) -> Result<PathBuf> {
        self.part("firstlight.initrd")
    }

    /// The initrd's archive without its compression, for machines that are emulated: there the kernel takes 5 of a
    /// boot's 7 seconds to decompress it, and copies it in one. Made once for each image, below `target/boots`.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why it could not be made.
    pub(crate) fn plain_initrd(&self) -> Result<PathBuf> {
        let packed = self.initrd()?;
        let changed = |meta: fs::Metadata| Ok((meta.len(), meta.modified()?));
        let state = fs::metadata(&packed).and_then(changed).map_err(Error::file("look at", &packed))?;
        let mut hasher = DefaultHasher::new();
        (&packed, state).hash(&mut hasher);
        let dir = workspace().join("target/boots");
        let plain = dir.join(format!("initrd-{:016x}.cpio", hasher.finish()));
        if !plain.exists() {
            let packed = fs::read(&packed).map_err(Error::file("read", packed))?;
            replace_plain(&dir, &plain, &archive::unzstd(&packed)?).map_err(Error::file("write", &plain))?;
        }
        Ok(plain)
    }

    /// The unified kernel image, as a stick or UEFI's network boot gets it.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn uki(&self) -> Result<PathBuf> {
        self.part("firstlight.efi")
    }

    /// The kernel words that the unified image carries besides the kernel's built-in ones.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why it could not be read.
    pub fn words(&self) -> Result<String> {
        let path = self.part("firstlight.cmdline")?;
        Ok(fs::read_to_string(&path).map_err(Error::file("read", path))?.trim().to_owned())
    }

    /// The boot entries, as the image has them: id, kernel, title, kernel words.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why they could not be read.
    pub fn entries(&self) -> Result<Vec<[String; 4]>> {
        let path = self.part("firstlight.entries")?;
        let text = fs::read_to_string(&path).map_err(Error::file("read", path))?;
        let entry = |line: &str| {
            let parts: Vec<_> = line.split('\t').map(str::to_owned).collect();
            parts.try_into().map_err(|_| Error::Archive { what: "firstlight.entries", why: line.to_owned() })
        };
        text.lines().map(entry).collect()
    }

    /// The kernel of flavour `pt`.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn pt_kernel(&self) -> Result<PathBuf> {
        self.part("firstlight-pt.vmlinuz")
    }

    /// The folder for nodes that boot over the network.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn pxe(&self) -> Result<PathBuf> {
        built(self.0.join("../media/pxe"), "media")
    }

    /// The image of a stick.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn usb(&self) -> Result<PathBuf> {
        built(self.0.join("../media/firstlight-usb.img"), "media")
    }

    /// The image of a CD.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn iso(&self) -> Result<PathBuf> {
        built(self.0.join("../media/firstlight.iso"), "media")
    }

    /// Every file of the initrd with its hash, path, package and version.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why it could not be read.
    pub fn file_list(&self) -> Result<String> {
        let path = self.part("firstlight.files")?;
        fs::read_to_string(&path).map_err(Error::file("read", path))
    }

    /// What the initrd holds.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or what is wrong with the archive.
    pub fn files(&self) -> Result<Vec<Entry>> {
        archive::read_initrd(&self.initrd()?)
    }

    /// One file of the initrd, by its path without the first `/`.
    ///
    /// # Errors
    /// As [`Image::files`]; [`Error::Archive`] when it is not in there.
    pub fn file(&self, path: &str) -> Result<Entry> {
        self.files()?
            .into_iter()
            .find(|entry| entry.path == path)
            .ok_or_else(|| Error::Archive { what: "initrd", why: format!("holds no {path}") })
    }

    /// Writes the root that the initrd holds into a folder that is not there yet, the driver image only where
    /// `whole`; how many files, folders and links that are.
    ///
    /// # Errors
    /// As [`Image::files`], and what could not be written.
    pub fn unpack(&self, to: &Path, whole: bool) -> Result<usize> {
        let mut entries = self.files()?;
        entries.retain(|entry| whole || !entry.path.ends_with(".squashfs"));
        fs::create_dir(to).map_err(Error::file("create", to))?;
        for entry in &entries {
            entry.unpack(to).map_err(Error::file("unpack", &entry.path))?;
        }
        Ok(entries.len())
    }

    /// One of the image's outputs.
    fn part(&self, name: &str) -> Result<PathBuf> {
        built(self.0.join(name), "image")
    }
}

/// Writes `plain` as a whole, since several tests may make it at a time, and removes those of earlier images.
fn replace_plain(dir: &Path, plain: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let earlier = |path: &PathBuf| path != plain && path.extension().is_some_and(|e| e == "cpio");
    for old in fs::read_dir(dir)?.flatten().map(|entry| entry.path()).filter(earlier) {
        fs::remove_file(old)?;
    }
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.persist(plain)?;
    Ok(())
}

/// A file of the fake PCI domain: `init` or `fakepci.ko`.
pub(crate) fn fakepci_part(name: &str) -> Result<Vec<u8>> {
    let dir =
        env::var_os("FIRSTLIGHT_FAKEPCI").map_or_else(|| workspace().join("target/fakepci"), PathBuf::from);
    let path = built(dir.join("t").join(name), "fakepci")?;
    fs::read(&path).map_err(Error::file("read", path))
}

fn built(path: PathBuf, recipe: &'static str) -> Result<PathBuf> {
    if path.exists() { Ok(path) } else { Err(Error::NotBuilt { path, recipe }) }
}
