//! The image that the tests boot: the output of `./run image`, and the fake PCI domain that `tests/fakepci/build.sh` built for its
//! kernel.

use crate::archive::{self, Entry};
use crate::driver_image::{self, DriverImage};
use crate::error::{Error, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind::NotFound;
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
    let users =
        || env::var_os("XDG_CACHE_HOME").map_or_else(|| home().join(".cache"), PathBuf::from);
    env::var_os("FIRSTLIGHT_CACHE").map_or_else(|| users().join("firstlight"), PathBuf::from)
}

/// One built image.
#[derive(Debug, Clone)]
pub struct Image(PathBuf);

impl Image {
    /// The image that ships. `FIRSTLIGHT_IMAGE` names another output folder.
    #[must_use]
    pub fn shipped() -> Self {
        Self(
            env::var_os("FIRSTLIGHT_IMAGE")
                .map_or_else(|| workspace().join("target/image/out"), Into::into),
        )
    }

    /// The image for arm64 machines, made by `./run image --arch arm64`.
    #[must_use]
    pub fn arm64() -> Self {
        Self(workspace().join("target/image/arm64/out"))
    }

    /// The kernel, as used for network boot.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn kernel(&self) -> Result<PathBuf> {
        self.part("firstlight.vmlinuz")
    }

    /// The initrd, as used for network boot.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn initrd(&self) -> Result<PathBuf> {
        self.part("firstlight.initrd")
    }

    /// The initrd's archive without compression, for emulated machines: there the kernel takes 5 of a boot's 7 seconds to
    /// decompress it. Made once per image, below `target/boots`.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why it could not be made.
    pub(crate) fn plain_initrd(&self) -> Result<PathBuf> {
        made_once("plain", &self.initrd()?, archive::unzstd)
    }

    /// The same with the skeleton of the driver image, whose libraries and firmware are empty files. An emulated kernel
    /// takes 2 of a boot's 5 seconds of processor time to copy them. Without a driver it is the same as the plain one.
    ///
    /// # Errors
    /// As [`Image::plain_initrd`].
    pub(crate) fn initrd_with_modules(&self) -> Result<PathBuf> {
        made_once("modules", &self.initrd()?, |packed| {
            self.reduced(packed, DriverImage::skeleton)
        })
    }

    /// The same with the driver's modules as empty files too, which takes half a second less.
    ///
    /// # Errors
    /// As [`Image::plain_initrd`].
    pub(crate) fn lean_initrd(&self) -> Result<PathBuf> {
        made_once("lean", &self.initrd()?, |packed| {
            self.reduced(packed, DriverImage::with_empty_modules)
        })
    }

    /// The initrd's archive without compression, with this driver image instead of the shipped one.
    fn reduced(&self, packed: &[u8], driver: fn() -> Result<DriverImage>) -> Result<Vec<u8>> {
        let driver_bytes = self.driver_bytes()?;
        if driver_bytes == 0 {
            return archive::unzstd(packed);
        }
        let (system, added) = packed.split_at(packed.len() - driver_bytes);
        let mut bytes = archive::unzstd(system)?;
        bytes.resize(bytes.len().next_multiple_of(ALIGNED), 0);
        let mut added = archive::read_archives(added)?;
        for entry in added
            .iter_mut()
            .filter(|entry| entry.path == driver_image::PATH)
        {
            entry.data = driver()?.pack()?;
        }
        bytes.extend(archive::write_cpio(&added));
        Ok(bytes)
    }

    /// A kernel of the image without compression, which QEMU starts through its PVH entry: an emulated machine takes most of
    /// a second to unpack it. Made once per image, below `target/boots`.
    ///
    /// # Errors
    /// What is wrong with the kernel, or why it could not be made.
    pub(crate) fn plain(&self, kernel: &Path) -> Result<PathBuf> {
        let kind = kernel.file_name().unwrap_or_default().to_string_lossy();
        made_once(&kind, kernel, archive::unpack_kernel)
    }

    /// The driver image, as a file.
    ///
    /// # Errors
    /// As [`Image::file`].
    pub(crate) fn driver_image(&self) -> Result<PathBuf> {
        made_once("driver", &self.initrd()?, |_| {
            self.file(driver_image::PATH).map(|entry| entry.data)
        })
    }

    /// The size of the driver's archive at the initrd's end, in bytes.
    fn driver_bytes(&self) -> Result<usize> {
        let path = self.0.join("firstlight.sizes");
        let text = if path.exists() {
            fs::read_to_string(&path)
        } else {
            Ok("driver 0".to_owned())
        };
        let text = text.map_err(Error::file("read", &path))?;
        let number = text
            .trim()
            .strip_prefix("driver ")
            .and_then(|n| n.parse().ok());
        number.ok_or(Error::Archive {
            what: "firstlight.sizes",
            why: text,
        })
    }

    /// The unified kernel image, as used on a stick or by UEFI's network boot.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn uki(&self) -> Result<PathBuf> {
        self.part("firstlight.efi")
    }

    /// The kernel words of the unified image besides those built into the kernel.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why it could not be read.
    pub fn words(&self) -> Result<String> {
        let path = self.part("firstlight.cmdline")?;
        Ok(fs::read_to_string(&path)
            .map_err(Error::file("read", path))?
            .trim()
            .to_owned())
    }

    /// The boot entries of the image: id, kernel, title, kernel words.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or why they could not be read.
    pub fn entries(&self) -> Result<Vec<[String; 4]>> {
        let path = self.part("firstlight.entries")?;
        let text = fs::read_to_string(&path).map_err(Error::file("read", path))?;
        let entry = |line: &str| {
            let parts: Vec<_> = line.split('\t').map(str::to_owned).collect();
            parts.try_into().map_err(|_| Error::Archive {
                what: "firstlight.entries",
                why: line.to_owned(),
            })
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

    /// The folder that is served to nodes that boot over the network.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn pxe(&self) -> Result<PathBuf> {
        built(self.0.join("../media/pxe"), "media")
    }

    /// The USB stick image.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn usb(&self) -> Result<PathBuf> {
        built(self.0.join("../media/firstlight-usb.img"), "media")
    }

    /// The CD image.
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

    /// All entries of the initrd.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or what is wrong with the archive.
    pub fn files(&self) -> Result<Vec<Entry>> {
        archive::read_initrd(&self.initrd()?)
    }

    /// The folder of the image's outputs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// One file of the initrd as the kernel leaves it, by its path without the leading `/`: the last of that name. All but the driver image are in the lean initrd too,
    /// which is read in a fraction of the time.
    ///
    /// # Errors
    /// As [`Image::files`]; [`Error::Archive`] if there is no such file.
    pub fn file(&self, path: &str) -> Result<Entry> {
        let all = path == driver_image::PATH;
        let files = if all {
            self.files()
        } else {
            archive::read_initrd(&self.lean_initrd()?)
        };
        files?
            .into_iter()
            .rfind(|entry| entry.path == path)
            .ok_or_else(|| Error::Archive {
                what: "initrd",
                why: format!("holds no {path}"),
            })
    }

    /// Writes the initrd's root into a folder that does not exist yet, with the driver image only if `whole`; returns the
    /// number of files, folders and links.
    ///
    /// # Errors
    /// As [`Image::files`], and what could not be written.
    pub fn unpack(&self, to: &Path, whole: bool) -> Result<usize> {
        let mut entries = self.files()?;
        entries.retain(|entry| whole || !entry.path.ends_with(".squashfs"));
        fs::create_dir(to).map_err(Error::file("create", to))?;
        for entry in &entries {
            entry
                .unpack(to)
                .map_err(Error::file("unpack", &entry.path))?;
        }
        Ok(entries.len())
    }

    /// One of the image's outputs.
    fn part(&self, name: &str) -> Result<PathBuf> {
        built(self.0.join(name), "image")
    }
}

/// Alignment of an archive that follows another: the kernel accepts an uncompressed one only at a multiple of four.
pub(crate) const ALIGNED: usize = 512;

/// The result of `make` for a file of an image, made once per image.
fn made_once(
    kind: &str,
    file: &Path,
    make: impl FnOnce(&[u8]) -> Result<Vec<u8>>,
) -> Result<PathBuf> {
    let changed = |meta: fs::Metadata| Ok((meta.len(), meta.modified()?));
    let state = fs::metadata(file)
        .and_then(changed)
        .map_err(Error::file("look at", file))?;
    let mut hasher = DefaultHasher::new();
    (file, state).hash(&mut hasher);
    let dir = workspace().join("target/boots");
    let made = dir.join(format!("{kind}-{:016x}", hasher.finish()));
    if !made.exists() {
        let bytes = fs::read(file).map_err(Error::file("read", file))?;
        replace(&dir, kind, &made, &make(&bytes)?).map_err(Error::file("write", &made))?;
    }
    Ok(made)
}

/// Writes `made` atomically, since several tests may make it at the same time, and removes those of the same kind for older
/// images.
fn replace(dir: &Path, kind: &str, made: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for old in fs::read_dir(dir)?.flatten().map(|entry| entry.path()) {
        let of_kind = old
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(kind));
        if of_kind && old != made {
            // Another test may already have removed it.
            fs::remove_file(old).or_else(|e| if e.kind() == NotFound { Ok(()) } else { Err(e) })?;
        }
    }
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.persist(made)?;
    Ok(())
}

/// A file of the fake PCI domain: `init` or `fakepci.ko`.
pub(crate) fn fakepci_part(name: &str) -> Result<Vec<u8>> {
    let dir = env::var_os("FIRSTLIGHT_FAKEPCI")
        .map_or_else(|| workspace().join("target/fakepci"), PathBuf::from);
    let path = built(dir.join("t").join(name), "fakepci")?;
    fs::read(&path).map_err(Error::file("read", path))
}

fn built(path: PathBuf, recipe: &'static str) -> Result<PathBuf> {
    if path.exists() {
        Ok(path)
    } else {
        Err(Error::NotBuilt { path, recipe })
    }
}
