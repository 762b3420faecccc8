//! A folder with inputs for the driver's build: trees, installers and descriptions that a test makes, and its own cache, so
//! that anything that a failed build leaves behind is detected. No driver is compiled.

use crate::image::{cache, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Registry keys in the style of NVIDIA's headers, written for these tests: one made of fields, one with names, one
/// without.
pub const REGISTRY: &str = "
#define NV_REG_STR_CL_FORCE_P2P          \"ForceP2P\"
#define NV_REG_STR_CL_FORCE_P2P_READ     1:0
#define NV_REG_STR_CL_FORCE_P2P_READ_ENABLE  0x00000001
#define NV_REG_STR_CL_FORCE_P2P_WRITE    5:4
#define NV_REG_STR_CL_FORCE_P2P_WRITE_ENABLE 0x00000001
#define NV_REG_STR_RM_FORCE_P2P_TYPE         \"RMForceP2PType\"  // which way
#define NV_REG_STR_RM_FORCE_P2P_TYPE_DEFAULT (0x00000000)
#define NV_REG_STR_RM_FORCE_P2P_TYPE_PCIEP2P (0x00000001)
#define NV_REG_STR_RM_FORCE_P2P_TYPE_NVLINK  (0x00000002)
#define NV_REG_STR_RM_FORCE_P2P_TYPE_MAX     NV_REG_STR_RM_FORCE_P2P_TYPE_NVLINK
#define NV_REG_STR_RM_PEER_ID                \"RMPeerId\"
";

/// A 64-bit ELF file for a processor, with these sections.
#[must_use]
pub fn elf(machine: u16, sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut body = vec![0; 64];
    let mut headers = vec![[0_u64; 8]];
    for (name, data) in sections
        .iter()
        .copied()
        .chain([(".shstrtab", [].as_slice())])
    {
        let at = names.len() as u64;
        names.extend(name.bytes().chain([0]));
        let data = if name == ".shstrtab" {
            names.clone()
        } else {
            data.to_vec()
        };
        headers.push([at, 1, 0, 0, body.len() as u64, data.len() as u64, 0, 0]);
        body.extend(data);
    }
    let table = body.len() as u64;
    for [name, kind, flags, address, offset, size, _, _] in &headers {
        body.extend((*name as u32).to_le_bytes());
        body.extend((*kind as u32).to_le_bytes());
        for field in [flags, address, offset, size] {
            body.extend(field.to_le_bytes());
        }
        body.extend([0; 24]);
    }
    body[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    body[18..20].copy_from_slice(&machine.to_le_bytes());
    body[40..48].copy_from_slice(&table.to_le_bytes());
    body[58..60].copy_from_slice(&64_u16.to_le_bytes());
    body[60..62].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    body[62..64].copy_from_slice(&(headers.len() as u16 - 1).to_le_bytes());
    body
}

/// A folder to build in, whose cache shares only tools and downloads with the user's.
#[derive(Debug)]
pub struct DriverInputs(tempfile::TempDir);

impl DriverInputs {
    /// An empty folder.
    ///
    /// # Panics
    /// If the folder cannot be created. The same is true of all functions here: a test stops at the first surprise.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        let inputs = Self(tempfile::tempdir().unwrap());
        fs::create_dir(inputs.path("cache")).unwrap();
        for shared in ["trees", "debs"] {
            symlink(cache().join(shared), inputs.path("cache").join(shared)).unwrap();
        }
        for empty in ["kernel/source", "kernel/build", "kernel/modules"] {
            fs::create_dir_all(inputs.path(empty)).unwrap();
        }
        inputs
    }

    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and its parent folders.
    pub fn write(&self, name: &str, data: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, data).unwrap();
        path
    }

    /// A tree that looks like a version of NVIDIA's modules.
    pub fn tree(&self, version: &str) -> PathBuf {
        self.write("tree/version.mk", format!("NVIDIA_VERSION = {version}\n"));
        self.write("tree/src/nvidia/Makefile", "all:\n\tfalse\n");
        self.write("tree/COPYING", "MIT\n");
        self.write("tree/kernel-open/Makefile", "modules:\n\tfalse\n");
        self.write(
            "tree/kernel-open/nvidia/nv-frontend.c",
            "MODULE_LICENSE(\"Dual MIT/GPL\");\n",
        );
        self.write(
            "tree/kernel-open/nvidia/nvidia-sources.Kbuild",
            "NVIDIA_SOURCES += nvidia/nv.c\n",
        );
        self.write(
            "tree/kernel-open/nvidia-uvm/nvidia-uvm-sources.Kbuild",
            "\n",
        );
        self.write("tree/src/nvidia/interface/nvrm_registry.h", REGISTRY);
        self.write(
            "tree/kernel-open/nvidia/nv.c",
            "one\ntwo\nthree\nfour\nfive\n",
        );
        self.path("tree")
    }

    /// An installer in NVIDIA's format: some lines of shell, then a compressed tar.
    pub fn installer(&self, version: &str) -> PathBuf {
        self.installer_for(version, 0x3e)
    }

    /// An installer whose libraries are for the processor with this number in ELF files.
    pub fn installer_for(&self, version: &str, machine: u16) -> PathBuf {
        for file in [
            "libcuda.so",
            "libnvidia-ml.so",
            "libnvidia-ptxjitcompiler.so",
        ] {
            // long and not repetitive, so that a cut removes more than the end of the archive
            let noise = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8);
            let said = format!("\0{version}\0");
            let sections = [
                (".rodata", said.as_bytes()),
                (".text", &noise.collect::<Vec<_>>()[..]),
            ];
            self.write(&format!("run/{file}.{version}"), elf(machine, &sections));
        }
        for gsp in ["gsp_ga10x.bin", "gsp_tu10x.bin"] {
            self.write(
                &format!("run/firmware/{gsp}"),
                crate::driver_host::firmware(version),
            );
        }
        self.write("run/LICENSE", "licence");
        self.write(
            "run/nvidia-smi",
            crate::driver_host::program(version, machine),
        );
        let packed = self.path("packed");
        let tar = format!(
            "tar -C {} -cf - . | xz > {}",
            self.path("run").display(),
            packed.display()
        );
        assert!(
            Command::new("sh")
                .args(["-c", &tar])
                .status()
                .unwrap()
                .success()
        );
        let md5 = Command::new("md5sum").arg(&packed).output().unwrap();
        let md5 = String::from_utf8_lossy(&md5.stdout)[..32].to_owned();
        let header = format!("#!/bin/sh\nskip=5\nMD5=\"{md5}\"\nexit 1\n");
        let bytes = [header.into_bytes(), fs::read(packed).unwrap()].concat();
        self.write(&format!("NVIDIA-Linux-x86_64-{version}.run"), bytes)
    }

    /// A description like the project's own, with these replacements.
    pub fn description(&self, replace: &[(&str, &str)]) -> PathBuf {
        let mut text = fs::read_to_string(workspace().join("image/driver/source.toml")).unwrap();
        for (from, to) in replace {
            assert!(text.contains(from), "source.toml holds no {from}");
            text = text.replace(from, to);
        }
        self.write("source.toml", text)
    }

    /// A description of this tree without patches and of this installer, with its true hash or another one.
    pub fn files(&self, version: &str, run: &Path, run_hash: &str) {
        let hash = if run_hash.is_empty() {
            sha256(run)
        } else {
            run_hash.to_owned()
        };
        self.description(&[
            (
                "version = \"555.58.02\"",
                &format!("version = \"{version}\""),
            ),
            ("source = \"debian\"", "source = \"files\""),
            ("patches = \"patches/555.58.02\"", "patches = \"\""),
            ("patch = \"1\"", "patch = \"\""),
            ("modules = \"\"", "modules = \"tree\""),
            ("run = \"\"", &format!("run = \"{}\"", run.display())),
            ("run_sha256 = \"\"", &format!("run_sha256 = \"{hash}\"")),
        ]);
    }

    /// Runs one of the scripts of image/driver with this bench's cache and description.
    pub fn script(&self, name: &str, arguments: &[&Path]) -> Output {
        Command::new(workspace().join("image/driver").join(name))
            .args(arguments)
            .env("FIRSTLIGHT_CACHE", self.path("cache"))
            .env("FIRSTLIGHT_DRIVER", self.path("source.toml"))
            .output()
            .unwrap()
    }

    /// Runs the whole build, which must fail with one error that contains these words and leave nothing behind.
    pub fn assert_refused(&self, words: &[&str]) {
        fs::write(self.path("kernel/release"), "6.12.107-firstlight\n").unwrap();
        let output = self.script("build.sh", &[&self.path("kernel")]);
        assert_one_error(&output, words);
        let left: Vec<_> = fs::read_dir(self.path("cache/driver"))
            .map(|entries| entries.map(|e| e.unwrap().file_name()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}

/// Checks that the command failed, left no result, and printed one error line that contains these words.
pub fn assert_one_error(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it succeeded: {text}");
    assert!(
        output.stdout.is_empty(),
        "it gave a result: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let errors: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("firstlight: error:"))
        .collect();
    assert_eq!(errors.len(), 1, "{text}");
    for word in words {
        assert!(errors[0].contains(word), "no '{word}' in: {}", errors[0]);
    }
}
