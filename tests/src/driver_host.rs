//! Machines with an installed driver, made up for tests: their files lie where a distribution's packages put them, and their
//! contents are made here. Layouts: Debian 13 from its packages libcuda1, libnvidia-ml1, nvidia-smi, firmware-nvidia-gsp and
//! nvidia-open-kernel-dkms; Ubuntu 24.04 from the file lists of libnvidia-compute-580, nvidia-utils-580, nvidia-firmware-580 and
//! nvidia-kernel-source-580-open; Fedora from RPM Fusion's xorg-x11-drv-nvidia.spec; Arch from the file lists of nvidia-utils
//! and nvidia-open-dkms.

use crate::driver_inputs::{REGISTRY, assert_one_error, elf};
use crate::image::workspace;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const X86_64: u16 = 62;
const RISC_V: u16 = 243;
/// The values that `seen.h` names, as a header of NVIDIA's has them.
pub const KEYS: &str = "#define T \"RMPcieP2PType\"\n#define T_BAR1 1\n#define S \"RMForceStaticBar1\"\n#define S_ENABLE 1\n";

/// Whose packages the files are laid out as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Debian 13.
    Debian,
    /// Ubuntu 24.04.
    Ubuntu,
    /// Fedora with RPM Fusion: packed firmware, the modules' source in an archive.
    Fedora,
    /// Arch: the whole source of the modules.
    Arch,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Debian, Self::Ubuntu, Self::Fedora, Self::Arch];

    const fn libraries(self) -> &'static str {
        match self {
            Self::Debian => "usr/lib/x86_64-linux-gnu/nvidia/current",
            Self::Ubuntu => "usr/lib/x86_64-linux-gnu",
            Self::Fedora => "usr/lib64",
            Self::Arch => "usr/lib",
        }
    }

    const fn release(self) -> &'static str {
        match self {
            Self::Debian => "ID=debian\nVERSION_ID=\"13\"\n",
            Self::Ubuntu => "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n",
            Self::Fedora => "ID=fedora\nVERSION_ID=43\n",
            Self::Arch => "ID=arch\n",
        }
    }

    /// Where the source of the modules is.
    #[must_use]
    pub fn source(self, version: &str) -> String {
        match self {
            Self::Debian => format!("usr/src/nvidia-current-open-{version}"),
            Self::Ubuntu | Self::Arch => format!("usr/src/nvidia-{version}"),
            Self::Fedora => {
                format!("usr/share/nvidia-kmod-{version}/nvidia-kmod-{version}-x86_64.tar.xz")
            }
        }
    }

    /// Where the module that the kernel loads is.
    #[must_use]
    pub const fn module(self) -> &'static str {
        match self {
            Self::Debian => "usr/lib/modules/6.12.1/updates/dkms/nvidia-current-open.ko.xz",
            Self::Ubuntu => "usr/lib/modules/6.8.0/updates/dkms/nvidia.ko.zst",
            Self::Fedora => "usr/lib/modules/6.17.1/extra/nvidia/nvidia.ko.xz",
            Self::Arch => "usr/lib/modules/7.2.15/extramodules/nvidia.ko.zst",
        }
    }

    /// The name of a firmware file.
    #[must_use]
    pub fn firmware(self, version: &str, name: &str) -> String {
        let packed = if self == Self::Fedora { ".xz" } else { "" };
        format!("usr/lib/firmware/nvidia/{version}/{name}{packed}")
    }
}

/// A machine's root.
#[derive(Debug)]
pub struct Host {
    dir: tempfile::TempDir,
    /// How its files are laid out.
    pub layout: Layout,
    /// The driver's version.
    pub version: String,
}

/// A library or program of a version, for a processor.
#[must_use]
pub fn program(version: &str, machine: u16) -> Vec<u8> {
    elf(
        machine,
        &[
            (".rodata", format!("\0{version}\0").as_bytes()),
            (".text", &[0x90; 3000]),
        ],
    )
}

/// Firmware of a version.
#[must_use]
pub fn firmware(version: &str) -> Vec<u8> {
    elf(
        RISC_V,
        &[
            (".fwimage", &[7; 3000]),
            (".fwversion", format!("{version}\0").as_bytes()),
        ],
    )
}

/// A resource manager that was compiled before and knows these registry keys.
#[must_use]
pub fn resource_manager(keys: &[&str]) -> Vec<u8> {
    elf(
        X86_64,
        &[(
            ".rodata.str1.1",
            format!("\0{}\0", keys.join("\0")).as_bytes(),
        )],
    )
}

/// A kernel module of a version, with a licence.
#[must_use]
pub fn module(version: &str, licence: &str) -> Vec<u8> {
    elf(
        X86_64,
        &[(
            ".modinfo",
            format!("license={licence}\0version={version}\0").as_bytes(),
        )],
    )
}

/// Packs as the name's end says.
///
/// # Panics
/// If the program cannot be run. The same is true of all functions here: a test stops at the first surprise.
#[must_use]
pub fn packed(name: &str, data: &[u8]) -> Vec<u8> {
    let program = match Path::new(name).extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return data.to_vec(),
    };
    let mut child = Command::new(program)
        .arg("-qc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let data = data.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&data).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// The files below a folder, in order.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let output = Command::new("find")
        .arg(folder)
        .args(["-type", "f", "-printf", "%P\n"])
        .output()
        .unwrap();
    let mut names: Vec<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// A .deb with these files, by NAME_VERSION_ARCHITECTURE.
pub fn deb(folder: &Path, name: &str, version: &str, arch: &str, files: &[(&str, Vec<u8>)]) {
    deb_with(folder, name, version, arch, files, &[]);
}

/// The same with links: where, and to what.
pub fn deb_with(
    folder: &Path,
    name: &str,
    version: &str,
    arch: &str,
    files: &[(&str, Vec<u8>)],
    links: &[(&str, &str)],
) {
    let made = tempfile::tempdir().unwrap();
    let at = |path: &str| {
        let path = made.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (path, data) in files {
        fs::write(at(path), data).unwrap();
    }
    for (path, target) in links {
        symlink(target, at(path)).unwrap();
    }
    fs::create_dir(made.path().join("DEBIAN")).unwrap();
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nMaintainer: N <n@localhost>\nDescription: t\n"
    );
    fs::write(made.path().join("DEBIAN/control"), control).unwrap();
    let to = folder.join(format!("{name}_{version}_{arch}.deb"));
    let built = Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(made.path())
        .arg(to)
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
}

impl Host {
    /// A machine that lacks nothing, with one RTX 5090.
    #[must_use]
    pub fn new(layout: Layout, version: &str) -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
            layout,
            version: version.to_owned(),
        };
        fs::create_dir_all(host.path("root/usr/lib")).unwrap();
        fs::create_dir(host.path("to")).unwrap();
        symlink("usr/lib", host.path("root/lib")).unwrap();
        host.write("etc/os-release", layout.release());
        for name in [
            "libcuda.so",
            "libnvidia-ml.so",
            "libnvidia-ptxjitcompiler.so",
        ] {
            host.library(name, version);
        }
        host.programs();
        for name in ["gsp_ga10x.bin", "gsp_tu10x.bin"] {
            let path = layout.firmware(version, name);
            host.write(&path, packed(&path, &firmware(version)));
        }
        host.licence();
        host.source(version, "Dual MIT/GPL");
        host.write(
            layout.module(),
            packed(layout.module(), &module(version, "Dual MIT/GPL")),
        );
        host.write("sys/module/nvidia/version", format!("{version}\n"));
        host.gpu("0000:01:00.0", 0x2b85);
        host
    }

    fn library(&self, name: &str, version: &str) {
        let folder = self.layout.libraries();
        self.write(
            &format!("{folder}/{name}.{version}"),
            program(version, X86_64),
        );
        self.link(&format!("{folder}/{name}.1"), &format!("{name}.{version}"));
        if self.layout == Layout::Debian {
            // as libcuda1 and update-alternatives make them
            let alternative = format!("/etc/alternatives/nvidia--{name}.1-x86_64-linux-gnu");
            self.link(&format!("usr/lib/x86_64-linux-gnu/{name}.1"), &alternative);
            self.link(
                alternative.trim_start_matches('/'),
                &format!("/{folder}/{name}.1"),
            );
        }
    }

    fn programs(&self) {
        let smi = program(&self.version, X86_64);
        if self.layout == Layout::Debian {
            self.write("usr/lib/nvidia/current/nvidia-smi", smi);
            self.link(
                "etc/alternatives/nvidia--nvidia-smi",
                "/usr/lib/nvidia/current/nvidia-smi",
            );
            self.link("usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi");
        } else {
            self.write("usr/bin/nvidia-smi", smi);
        }
    }

    fn licence(&self) {
        self.write(
            match self.layout {
                Layout::Debian => "usr/share/doc/libcuda1/copyright",
                Layout::Ubuntu => "usr/share/doc/libnvidia-compute-580/copyright",
                Layout::Fedora => "usr/share/licenses/xorg-x11-drv-nvidia/LICENSE",
                Layout::Arch => "usr/share/licenses/nvidia-utils/LICENSE",
            },
            "licence\n",
        );
    }

    /// The source of the modules, in a flavour: the whole tree on Arch, else what the installer has.
    pub fn source(&self, version: &str, licence: &str) {
        let at = self.layout.source(version);
        match self.layout {
            Layout::Arch => {
                self.kernel_open(&format!("{at}/kernel-open"), version, licence);
                self.write(
                    &format!("{at}/version.mk"),
                    format!("NVIDIA_VERSION = {version}\n"),
                );
                self.write(&format!("{at}/COPYING"), "MIT\n");
                self.write(&format!("{at}/src/nvidia/Makefile"), "all:\n\tfalse\n");
                let header = format!("{at}/src/nvidia/interface/nvrm_registry.h");
                self.write(&header, format!("{REGISTRY}{KEYS}"));
                // what an earlier build left
                self.write(&format!("{at}/kernel-open/nvidia/nv.o"), "object");
            }
            Layout::Fedora => {
                let made = self.path("archive");
                let name = |folder: &str| format!("../archive/{folder}");
                self.kernel_open(&name("kernel-open"), version, licence);
                self.kernel_open(&name("kernel"), version, "NVIDIA");
                let to = self.path(&format!("root/{at}"));
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                let tar = Command::new("tar")
                    .arg("-C")
                    .arg(&made)
                    .arg("-cJf")
                    .arg(&to)
                    .args(["kernel", "kernel-open"])
                    .status();
                assert!(tar.unwrap().success());
                fs::remove_dir_all(made).unwrap();
            }
            Layout::Debian | Layout::Ubuntu => {
                self.kernel_open(&at, version, licence);
                self.write(
                    &format!("{at}/dkms.conf"),
                    format!("PACKAGE_VERSION=\"{version}\"\n"),
                );
            }
        }
    }

    fn kernel_open(&self, at: &str, version: &str, licence: &str) {
        self.write(
            &format!("{at}/Kbuild"),
            format!("ccflags-y += -DNV_VERSION_STRING=\\\"{version}\\\"\n"),
        );
        self.write(&format!("{at}/Makefile"), "modules:\n\tfalse\n");
        self.write(
            &format!("{at}/nvidia/nv.c"),
            format!("/* permission */\nMODULE_LICENSE(\"{licence}\");\n"),
        );
        self.write(
            &format!("{at}/nvidia/nv-pci.c"),
            "int f(void)\n{\n    return pci_resize_resource(dev, bar, size);\n}\n",
        );
        self.write(
            &format!("{at}/nvidia/nvidia-sources.Kbuild"),
            "NVIDIA_SOURCES += nvidia/nv.c\n",
        );
        self.write(&format!("{at}/nvidia-uvm/nvidia-uvm-sources.Kbuild"), "\n");
        self.write(
            &format!("{at}/nvidia/nv-kernel.o_binary"),
            resource_manager(&["ForceP2P", "RMPcieP2PType", "RMForceStaticBar1"]),
        );
    }

    /// A GPU of NVIDIA's with this device id.
    pub fn gpu(&self, address: &str, device: u16) {
        for (name, value) in [
            ("vendor", 0x10de),
            ("device", u32::from(device)),
            ("class", 0x03_0000),
        ] {
            self.write(
                &format!("sys/bus/pci/devices/{address}/{name}"),
                format!("0x{value:04x}\n").replace("0x30000", "0x030000"),
            );
        }
    }

    /// A path beside the root.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file below the root, and its parent folders.
    pub fn write(&self, name: &str, data: impl AsRef<[u8]>) {
        let path = self.path("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }

    /// Makes a link below the root.
    pub fn link(&self, name: &str, target: &str) {
        let path = self.path("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(fs::remove_file(&path));
        symlink(target, path).unwrap();
    }

    /// Where a library is.
    #[must_use]
    pub fn library_path(&self, name: &str) -> String {
        format!("{}/{name}.so.{}", self.layout.libraries(), self.version)
    }

    /// `parts.py WORDS`.
    #[must_use]
    pub fn parts(&self, words: &[&str]) -> Output {
        let script = workspace().join("image/driver/sources/parts.py");
        let mut command = Command::new("python3");
        command
            .arg("-B")
            .arg(script)
            .args(words)
            .current_dir(self.dir.path())
            .env("SOURCE_DATE_EPOCH", "1");
        command.output().unwrap()
    }

    /// Copies the parts of the driver to the folder `to`.
    #[must_use]
    pub fn take(&self, more: &[&str]) -> Output {
        self.parts(&[&["take", "installed", "root", "to"], more].concat())
    }

    /// Writes the packages of an Ubuntu machine to a folder, with names of 580 (with the branch) or 590 (without).
    pub fn packages(&self, folder: &Path, branch: &str) {
        let read = |name: &str| {
            (
                fs::read(self.path("root").join(name)).unwrap(),
                name.to_owned(),
            )
        };
        let pack = |name: &str, paths: &[String]| {
            let files: Vec<_> = paths.iter().map(|path| read(path)).collect();
            let files: Vec<_> = files
                .iter()
                .map(|(data, path)| (path.as_str(), data.clone()))
                .collect();
            deb(
                folder,
                name,
                &format!("{}-0ubuntu1", self.version),
                "amd64",
                &files,
            );
        };
        let library = |name: &str| self.library_path(name);
        pack(
            &format!("libnvidia-compute{branch}"),
            &[
                library("libcuda"),
                library("libnvidia-ml"),
                library("libnvidia-ptxjitcompiler"),
            ],
        );
        pack(
            &format!("nvidia-utils{branch}"),
            &["usr/bin/nvidia-smi".to_owned()],
        );
        let gsp = ["gsp_ga10x.bin", "gsp_tu10x.bin"]
            .map(|name| self.layout.firmware(&self.version, name));
        pack(&format!("nvidia-firmware{branch}"), &gsp);
        let source = self.layout.source(&self.version);
        let files: Vec<_> = names(&self.path("root").join(&source))
            .iter()
            .map(|name| format!("{source}/{name}"))
            .collect();
        pack(&format!("nvidia-kernel-source{branch}-open"), &files);
    }

    /// Empties the folder `to`.
    pub fn clear(&self) {
        fs::remove_dir_all(self.path("to")).unwrap();
        fs::create_dir(self.path("to")).unwrap();
    }

    /// Asserts that the parts are refused with one line that contains these words, and that nothing is written.
    #[track_caller]
    pub fn assert_refused(&self, words: &[&str]) {
        assert_one_error(&self.take(&[]), words);
        assert_eq!(fs::read_dir(self.path("to")).unwrap().count(), 0);
    }
}
