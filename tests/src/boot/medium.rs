//! What a machine boots from: kernel and initrd loaded by QEMU, or firmware that finds the image on a disk, a stick, a CD
//! or the network. Each is a set of QEMU arguments, and a way to pass kernel words. For firmware that boots over HTTP there
//! is a web server for one folder.

use crate::boot::qemu::Processor;
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the image comes from.
#[derive(Debug, Clone)]
pub enum Medium {
    /// QEMU loads kernel and initrd itself, without firmware that matters here.
    Direct,
    /// UEFI firmware starts the kernel and initrd that QEMU provides.
    DirectUefi,
    /// UEFI firmware starts this UKI from a disk.
    Disk(PathBuf),
    /// UEFI firmware starts from this stick's image; the machine's writes are in it afterwards.
    Stick(PathBuf),
    /// UEFI firmware starts from the stick's image on a built-in disk.
    BuiltIn(PathBuf),
    /// UEFI firmware starts from this image in a SATA CD drive.
    Cd(PathBuf),
    /// BIOS with iPXE in the network card, which receives this script.
    IpxeBios(String),
    /// UEFI firmware fetches this URL by HTTP.
    UefiHttp(String),
    /// UEFI (or else BIOS) firmware boots from the network that it is on, whatever that offers: a bridge or TAP of this
    /// name.
    Tap(bool, String),
}

/// Debian's `ovmf` package.
pub(crate) const FIRMWARE_FOLDER: &str = "/usr/share/OVMF";
/// UEFI firmware.
pub(crate) const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
/// Its variables with nothing set.
pub const FIRMWARE_VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// UEFI firmware for arm64 and its variables: Debian's `qemu-efi-aarch64` package.
const ARM64_FIRMWARE: [&str; 2] = [
    "/usr/share/AAVMF/AAVMF_CODE.fd",
    "/usr/share/AAVMF/AAVMF_VARS.fd",
];

/// UEFI firmware that supports Secure Boot.
const SECURE_FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd";

/// QEMU's arguments for UEFI firmware that boots over HTTP: otherwise it tries PXE first, until that gives up.
pub const NO_PXE: [&str; 4] = [
    "-fw_cfg",
    "name=opt/org.tianocore/IPv4PXESupport,string=n",
    "-fw_cfg",
    "name=opt/org.tianocore/IPv6PXESupport,string=n",
];

/// The first network card of every machine that has one.
pub const MAC: &str = "52-54-00-12-34-56";

impl Medium {
    /// QEMU's arguments for the medium; its files are made in `dir`. `words` are the kernel words, if the medium itself can
    /// pass them: systemd-stub reads them from the machine's SMBIOS. `secure` are the variables of firmware that supports
    /// Secure Boot.
    pub(crate) fn arguments(
        &self,
        processor: Processor,
        dir: &Path,
        words: &str,
        secure: Option<&Path>,
    ) -> Result<Vec<OsString>> {
        let (program, plain, unset) = match processor {
            Processor::X86 => ("BOOTX64.EFI", FIRMWARE, FIRMWARE_VARIABLES),
            Processor::Arm64 => ("BOOTAA64.EFI", ARM64_FIRMWARE[0], ARM64_FIRMWARE[1]),
        };
        let mut args = Vec::new();
        let mut add = |more: &[&str]| args.extend(more.iter().map(OsString::from));
        match self {
            Self::Direct => return Ok(args),
            Self::DirectUefi => {}
            Self::Disk(uki) => {
                let boot = dir.join("esp/EFI/BOOT");
                fs::create_dir_all(&boot).map_err(Error::file("create", &boot))?;
                fs::copy(uki, boot.join(program)).map_err(Error::file("copy", uki))?;
                let drive = format!(
                    "if=none,id=esp,format=raw,readonly=on,file=fat:{}",
                    dir.join("esp").display()
                );
                add(&[
                    "-drive",
                    &drive,
                    "-device",
                    "virtio-blk-pci,drive=esp,bootindex=1",
                ]);
            }
            Self::Stick(image) => {
                let drive = format!("if=none,id=stick,format=raw,file={}", image.display());
                add(&["-device", "qemu-xhci", "-drive", &drive]);
                add(&["-device", "usb-storage,drive=stick,bootindex=1"]);
            }
            Self::BuiltIn(image) => {
                let drive = format!("if=none,id=built-in,format=raw,file={}", image.display());
                add(&[
                    "-drive",
                    &drive,
                    "-device",
                    "virtio-blk-pci,drive=built-in,bootindex=1",
                ]);
            }
            Self::Cd(image) => {
                let drive = format!(
                    "if=none,id=cd,media=cdrom,readonly=on,file={}",
                    image.display()
                );
                add(&["-drive", &drive, "-device", "ide-cd,drive=cd,bootindex=1"]);
            }
            Self::IpxeBios(url) => {
                let net = format!("user,id=net,bootfile={url}");
                add(&["-netdev", &net, "-device", BIOS_CARD]);
            }
            Self::UefiHttp(url) => {
                add(&NO_PXE);
                let net = format!("user,id=net,ipv6=off,bootfile={url}");
                add(&["-netdev", &net, "-device", UEFI_CARD]);
            }
            Self::Tap(uefi, name) => {
                let net = format!("tap,id=net,ifname={name},script=no,downscript=no");
                add(&[
                    "-netdev",
                    &net,
                    "-device",
                    if *uefi { UEFI_CARD } else { BIOS_CARD },
                ]);
            }
        }
        if self.is_uefi() {
            let variables = dir.join("variables");
            let from = secure.unwrap_or(Path::new(unset));
            fs::copy(from, &variables).map_err(Error::file("copy", from))?;
            let firmware = if secure.is_some() {
                SECURE_FIRMWARE
            } else {
                plain
            };
            if secure.is_some() {
                // Its variables can be written in system management mode only.
                add(&[
                    "-machine",
                    "smm=on",
                    "-global",
                    "driver=cfi.pflash01,property=secure,value=on",
                ]);
                add(&["-global", "ICH9-LPC.disable_s3=1"]);
            }
            let flash = |unit: u8, rest: String| format!("if=pflash,format=raw,unit={unit},{rest}");
            add(&["-drive", &flash(0, format!("readonly=on,file={firmware}"))]);
            add(&["-drive", &flash(1, format!("file={}", variables.display()))]);
            if !words.is_empty() && !matches!(self, Self::DirectUefi) {
                let words = words.replace(',', ",,");
                add(&[
                    "-smbios",
                    &format!("type=11,value=io.systemd.stub.kernel-cmdline-extra={words}"),
                ]);
            }
        }
        // Newer firmware needs a source of randomness for network boot.
        add(&["-device", "virtio-rng-pci"]);
        Ok(args)
    }

    fn is_uefi(&self) -> bool {
        !matches!(self, Self::Direct | Self::IpxeBios(_) | Self::Tap(false, _))
    }
}

/// Without the iPXE ROM that QEMU would add.
const UEFI_CARD: &str = "virtio-net-pci,netdev=net,mac=52:54:00:12:34:56,bootindex=1,romfile=";
const BIOS_CARD: &str = "virtio-net-pci,netdev=net,mac=52:54:00:12:34:56,bootindex=1";

/// A folder that is being served.
#[derive(Debug)]
pub struct FolderServer {
    server: Child,
    port: u16,
}

impl FolderServer {
    /// Serves `folder`.
    ///
    /// # Errors
    /// If Python does not start or does not print its port.
    pub fn folder(folder: &Path) -> Result<Self> {
        let failed = |why: String| Error::Program {
            program: "python3 -m http.server".into(),
            why,
        };
        let mut server = Command::new("python3")
            .args([
                "-u",
                "-m",
                "http.server",
                "0",
                "--bind",
                "127.0.0.1",
                "--directory",
            ])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        // "Serving HTTP on 127.0.0.1 port 43211 (http://127.0.0.1:43211/) ..."
        let mut line = String::new();
        let read = server
            .stdout
            .take()
            .map(|out| BufReader::new(out).read_line(&mut line));
        let port = line
            .split(" port ")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        match (read, port) {
            (Some(Ok(_)), Some(port)) => Ok(Self { server, port }),
            _ => {
                let _ = server.kill();
                let _ = server.wait();
                Err(failed(format!("it said {line:?}")))
            }
        }
    }

    /// The URL of a file in it, as seen by a machine in QEMU's user network.
    #[must_use]
    pub fn url(&self, file: &str) -> String {
        format!("http://10.0.2.2:{}/{file}", self.port)
    }
}

impl Drop for FolderServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
