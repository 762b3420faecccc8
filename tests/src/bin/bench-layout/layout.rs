//! Makes the layouts that are compared: the shipped image taken apart and put together in other ways, each with the
//! measuring script in place of init.

use harness::boot::medium::FolderServer;
use harness::stick::Fat;
use harness::{Image, Medium, Overlay, driver_image, workspace};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// One way to provide the driver's files to the kernel.
#[derive(Debug)]
pub struct Layout {
    /// Its name in the table.
    pub name: &'static str,
    /// The driver image's file; its extension is the file system's name.
    pub file: &'static str,
    /// Whether the driver image is in the initrd, which the firmware loads; otherwise it is on the medium next to the UKI.
    pub inside: bool,
}

/// The driver image as shipped.
const SHIPPED: &str = "driver.squashfs";

/// The same files in squashfs with each block compressed separately.
const BLOCKS: &str = "zstd.squashfs";

/// The first layout is the shipped one, with which the others are compared.
pub const LAYOUTS: [Layout; 5] = [
    Layout {
        name: "A, one initrd: squashfs, compressed as one",
        file: SHIPPED,
        inside: true,
    },
    Layout {
        name: "A', one initrd: squashfs, zstd",
        file: BLOCKS,
        inside: true,
    },
    Layout {
        name: "B, small UKI and erofs, zstd",
        file: "zstd.erofs",
        inside: false,
    },
    Layout {
        name: "B, small UKI and erofs, lz4hc",
        file: "lz4hc.erofs",
        inside: false,
    },
    Layout {
        name: "B, small UKI and squashfs, zstd",
        file: BLOCKS,
        inside: false,
    },
];

/// What the machine boots from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A USB stick: a driver image next to the UKI is mounted in place.
    Stick,
    /// A web server: a driver image next to the UKI is fetched into memory by the booted system.
    Http,
}

impl Origin {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stick => "USB",
            Self::Http => "HTTP",
        }
    }
}

/// A layout on a medium, ready to boot.
#[derive(Debug)]
pub struct BootableLayout {
    /// The medium to boot from.
    pub medium: Medium,
    /// Kernel words with the location of the driver image, for the measuring script.
    pub words: String,
    /// Size of the files that the firmware loads.
    pub firmware_bytes: u64,
    /// The same, plus the files next to them.
    pub all_bytes: u64,
}

/// Builds the layouts from their parts in a folder that is served over HTTP; removed when dropped.
#[derive(Debug)]
pub struct LayoutBuilder {
    dir: TempDir,
    served: FolderServer,
}

/// Runs in the tools tree, in a folder with the shipped driver image, and packs its files again, compressed per block as a
/// file system does, so that one block can be read without the others.
const PACK: &str = r#"unsquashfs -q -n -d tree driver.squashfs > pack.log
mkfs.erofs -zzstd,level=12 -C1048576 -T"$SOURCE_DATE_EPOCH" --all-root --quiet zstd.erofs tree
mkfs.erofs -zlz4hc,level=12 -C1048576 -T"$SOURCE_DATE_EPOCH" --all-root --quiet lz4hc.erofs tree
mksquashfs tree zstd.squashfs -comp zstd -Xcompression-level 19 -b 1M -no-xattrs -all-root -noappend -no-progress -quiet
rm -rf tree"#;

impl LayoutBuilder {
    /// Takes the shipped image apart and packs its driver in the other ways.
    pub fn make() -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        let path = |name: &str| dir.path().join(name);
        let image = Image::shipped();
        fs::copy(image.kernel()?, path("vmlinuz"))?;
        let initrd = fs::read(image.initrd()?)?;
        fs::write(path("system"), system(&image, &initrd)?)?;
        fs::write(path("whole"), initrd)?;
        fs::write(path(SHIPPED), image.file(driver_image::PATH)?.data)?;
        fs::write(
            path("script"),
            Overlay::new()
                .program("layout/init", include_str!("guest.sh"))
                .cpio(),
        )?;
        eprintln!("packing the driver's files in three ways (some minutes)");
        in_tools(dir.path(), &["sh", "-euc", PACK])?;

        let inside = fs::read(path(BLOCKS))?;
        let inside = Overlay::new().file(&format!("usr/lib/firstlight/{BLOCKS}"), inside);
        fs::write(path("inside"), inside.cpio())?;
        let words = format!("--cmdline={} rdinit=/layout/init", image.words()?);
        for (uki, initrds) in UKIS {
            let output = format!("--output={uki}");
            let mut command = vec!["ukify", "build", STUB, "--linux=vmlinuz", &words, &output];
            command.extend(initrds);
            in_tools(dir.path(), &command)?;
        }
        let served = FolderServer::folder(dir.path())?;
        Ok(Self { dir, served })
    }

    /// Puts a layout on a medium.
    pub fn build(&self, layout: &Layout, from: Origin) -> Result<BootableLayout, Box<dyn Error>> {
        let uki = match (layout.inside, layout.file) {
            (true, SHIPPED) => "shipped.efi",
            (true, _) => "inside.efi",
            (false, _) => "small.efi",
        };
        let bytes = |name: &str| fs::metadata(self.path(name)).map(|about| about.len());
        let beside = (!layout.inside).then_some(layout.file);
        let firmware_bytes = bytes(uki)?;
        let all_bytes = firmware_bytes + beside.map_or(Ok(0), bytes)?;
        let (medium, location) = match from {
            Origin::Stick => (
                Medium::Stick(self.stick(uki, beside, all_bytes)?),
                "stick".to_owned(),
            ),
            Origin::Http => (
                Medium::UefiHttp(self.served.url(uki)),
                self.served.url(layout.file),
            ),
        };
        let location = if layout.inside { "initrd" } else { &location };
        let words = format!("layout.from={location} layout.file={}", layout.file);
        Ok(BootableLayout {
            medium,
            words,
            firmware_bytes,
            all_bytes,
        })
    }

    /// A FAT file system without a partition table that contains these files, with a twentieth more room.
    fn stick(
        &self,
        uki: &str,
        beside: Option<&str>,
        bytes: u64,
    ) -> Result<PathBuf, Box<dyn Error>> {
        let dir = self.path(&format!("stick-{uki}-{}", beside.unwrap_or("alone")));
        fs::create_dir(&dir)?;
        let fat = Fat::new(&dir, u32::try_from(bytes * 21 / 20 / 1024 + 4096)?)?;
        fat.folder("EFI")?;
        fat.folder("EFI/BOOT")?;
        fat.put(&self.path(uki), "EFI/BOOT/BOOTX64.EFI")?;
        if let Some(name) = beside {
            fat.put(&self.path(name), name)?;
        }
        Ok(fat.file().to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

const STUB: &str = "--stub=/usr/lib/systemd/boot/efi/linuxx64.efi.stub";

/// The unified images and the parts of their initrds; ukify pads between them with zeros, as the kernel requires.
const UKIS: [(&str, &[&str]); 3] = [
    ("shipped.efi", &["--initrd=whole", "--initrd=script"]),
    (
        "inside.efi",
        &["--initrd=system", "--initrd=inside", "--initrd=script"],
    ),
    ("small.efi", &["--initrd=system", "--initrd=script"]),
];

/// The initrd without the driver's archive at its end, whose size is in a file next to the image: `driver BYTES`.
fn system<'a>(image: &Image, initrd: &'a [u8]) -> Result<&'a [u8], Box<dyn Error>> {
    let path = image.initrd()?.with_file_name("firstlight.sizes");
    let text = fs::read_to_string(&path)?;
    let driver = text
        .trim()
        .strip_prefix("driver ")
        .and_then(|n| n.parse::<usize>().ok());
    let driver = driver.filter(|bytes| (1..initrd.len()).contains(bytes));
    let bytes =
        driver.ok_or_else(|| format!("{} contains {text:?}: no driver's size", path.display()))?;
    let system = &initrd[..initrd.len() - bytes];
    Ok(system)
}

/// Runs a command in the pinned tools, in this folder.
fn in_tools(dir: &Path, command: &[&str]) -> Result<(), Box<dyn Error>> {
    let output = Command::new(workspace().join("image/in-tools.sh"))
        .args([
            "tools",
            "--bind",
            &format!("{}:/build/layout", dir.display()),
            "--cwd",
            "/build/layout",
        ])
        .args(command)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} in the tools tree: {}: {stderr}",
        command[0], output.status
    )
    .into())
}
