//! A machine made of files, for tests of the driver's start: a real image that is really mounted (in the test's
//! own mount namespace), device nodes that are really made and opened, and a kernel that answers as the test specifies.

use super::*;
use crate::driver::description::SAMPLE;
use crate::sys::descriptors::{pair, receive_all};
use crate::sys::mount::unshare_mounts;
use contract::elf;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tempfile::TempDir;

const RELEASE: &str = "6.12.107-firstlight";
pub(super) const MODINFO: &str =
    "version=555.58.02\0vermagic=6.12.107-firstlight SMP \0srcversion=AB\0firstlight.patch=1\0";
pub(super) const GPU: &str = "0000:01:00.0";
pub(super) const PARAMETERS: &str =
    "NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords=ForceP2P=17;RMForceP2PType=2";

/// Simulates the kernel's response to a module.
pub(super) type LoadModule = fn(&Path, &str) -> io::Result<()>;

pub(super) struct FakeMachine {
    pub(super) root: TempDir,
    pub(super) wanted: DriverSettings,
}

impl FakeMachine {
    /// A machine with an RTX 4090, a valid image in a folder, and a log with the boot's first lines.
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let fake = Self {
            root,
            wanted: DriverSettings {
                load: true,
                modules: vec!["nvidia".into(), "nvidia-uvm".into()],
                parameters: BTreeMap::new(),
                deadline: Duration::from_secs(10),
            },
        };
        fake.gpu(GPU, "0x2684");
        fake.file("image/driver.toml", SAMPLE.as_bytes());
        for (name, texts) in [
            ("nvidia", MODINFO.to_owned()),
            ("nvidia-uvm", format!("depends=nvidia\0{MODINFO}")),
        ] {
            fake.file(
                &format!("image/modules/{name}.ko"),
                &elf::sample(".modinfo", texts.as_bytes()),
            );
        }
        for name in ["libcuda.so.555.58.02", "libnvidia-ml.so.555.58.02"] {
            fake.file(&format!("image/lib/{name}"), b"");
        }
        fake.file("image/firmware/nvidia/555.58.02/gsp_ga10x.bin", b"");
        fake.file("sys/module/firmware_class/parameters/path", b"");
        fake.file(
            "kmsg",
            b"6,1,1000000,-;Unpacking initramfs...\n6,2,1250000,-;Freeing initrd memory: 1K\n4,3,1,-;NVRM: old\n",
        );
        fake.file("run/none", b"");
        fake
    }

    pub(super) fn file(&self, path: &str, content: &[u8]) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A shell script in the driver image.
    pub(super) fn script(&self, path: &str, script: &str) {
        self.file(
            &format!("image/{path}"),
            format!("#!/bin/sh\n{script}\n").as_bytes(),
        );
        let file = self.root.path().join("image").join(path);
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Makes it a machine with NVLink 5: a GPU of a data center, the functions that lead to its switches and are on the bus
    /// already, and the kernel modules for them.
    pub(super) fn with_nvlink5(&self) {
        self.device("0000:1b:00.0", "0x030200", "0x2901");
        for (function, vpd, mask) in [
            (0, "SMDL=SW_MNG", "0xa751ec4a"),
            (1, "SMDL=SW_MNG", "0xa751e84a"),
            (2, "", "0x0"),
        ] {
            let at = format!("sys/bus/pci/devices/0000:05:00.{function}");
            for (file, text) in [("vendor", "0x15b3"), ("class", "0x020700"), ("vpd", vpd)] {
                self.file(&format!("{at}/{file}"), text.as_bytes());
            }
            let port = format!("{at}/infiniband/mlx5_{function}/ports/1");
            let gid = format!("fe80:0000:0000:0000:e09d:7303:00e4:000{function}\n");
            self.file(&format!("{port}/gids/0"), gid.as_bytes());
            self.file(&format!("{port}/cap_mask"), mask.as_bytes());
        }
        self.file("dev/infiniband/umad0", b"");
        self.file(
            "lib/modules/modules.dep",
            b"a/mlx5_core.ko:\na/mlx5_ib.ko: a/mlx5_core.ko\na/ib_umad.ko:\n",
        );
        for module in ["mlx5_core", "mlx5_ib", "ib_umad"] {
            self.file(&format!("lib/modules/a/{module}.ko"), b"");
        }
    }

    pub(super) fn device(&self, address: &str, class: &str, id: &str) {
        for (file, text) in [("vendor", "0x10de"), ("class", class), ("device", id)] {
            self.file(
                &format!("sys/bus/pci/devices/{address}/{file}"),
                format!("{text}\n").as_bytes(),
            );
        }
    }

    pub(super) fn gpu(&self, address: &str, id: &str) {
        self.device(address, "0x030000", id);
    }

    pub(super) fn replace(&self, path: &str, from: &str, to: &str) {
        let path = self.root.path().join(path);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes
            .windows(from.len())
            .position(|window| window == from.as_bytes())
            .unwrap();
        bytes.splice(at..at + from.len(), to.bytes());
        fs::write(path, bytes).unwrap();
    }

    /// Starts the driver; returns the report, the number of descriptors received, and the lines of `say`.
    pub(super) fn start(self, kernel: LoadModule) -> (Report, usize, Vec<String>) {
        let squashed = self.root.path().join("driver.squashfs");
        let image = self.root.path().join("image");
        if !squashed.exists() && image.exists() {
            let made = Command::new("mksquashfs")
                .args([&image, &squashed])
                .arg("-quiet")
                .output()
                .unwrap();
            assert!(
                made.status.success(),
                "{}",
                String::from_utf8_lossy(&made.stderr)
            );
            fs::remove_dir_all(image).unwrap();
        }
        unshare_mounts().unwrap();
        let at = |path: &str| self.root.path().join(path);
        let places = DriverPaths {
            root: at(""),
            run: at("run"),
            image: squashed,
            image_at: at("run/driver"),
            log: at("kmsg"),
            modules: at("lib/modules"),
            release: RELEASE.to_owned(),
        };
        let (ours, theirs) = pair().unwrap();
        let mut said = Vec::new();
        let root = self.root.path().to_owned();
        let mut insert = |file: &Path, parameters: &str| {
            assert!(file.exists(), "{}", file.display());
            std::env::set_current_dir(&root).unwrap();
            kernel(file, parameters)
        };
        let mut actions = MachineActions {
            insert: &mut insert,
            say: &mut |line| said.push(line.to_owned()),
            loopback: &mut || {},
            socket: Some(theirs.as_fd()),
        };
        let report = start(&places, &self.wanted, &mut actions);
        (report, receive_all(ours.as_fd()).len(), said)
    }
}

/// Appends lines to the kernel's log; the current folder is the machine.
pub(super) fn log(lines: &[&str]) {
    let mut log = fs::File::options().append(true).open("kmsg").unwrap();
    lines
        .iter()
        .for_each(|line| writeln!(log, "4,9,9000000,-;{line}").unwrap());
}

/// A driver that takes the GPU; its node has the number of /dev/null.
pub(super) fn accepts_gpu(file: &Path, parameters: &str) -> io::Result<()> {
    if file.ends_with("nvidia.ko") {
        fs::create_dir_all(format!("proc/driver/nvidia/gpus/{GPU}"))?;
        fs::write(
            format!("proc/driver/nvidia/gpus/{GPU}/information"),
            "Device Minor: \t 3\n",
        )?;
        let dwords = parameters.split("RegistryDwords=").nth(1).unwrap_or("");
        fs::write(
            "proc/driver/nvidia/params",
            format!("EnableStreamMemOPs: 1\nDeviceFileMode: 438\nRegistryDwords: \"{dwords}\"\n"),
        )?;
        fs::write(
            "proc/devices",
            "Character devices:\n  1 nvidia\n\nBlock devices:\n",
        )?;
    } else {
        fs::write(
            "proc/devices",
            "Character devices:\n  1 nvidia\n  1 nvidia-uvm\n\nBlock devices:\n",
        )?;
    }
    log(&["NVRM: loading NVIDIA UNIX Open Kernel Module"]);
    Ok(())
}
