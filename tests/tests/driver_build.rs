//! What the driver's build refuses: each wrong input gives one clear error, and nothing half-built stays.
//! Every input is made here; no driver is compiled. The tools trees must be there (`./run image`).

use harness::workspace;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder to build in, with a cache that shares only the tools and downloads with the user's.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
        let user = std::env::var("XDG_CACHE_HOME").unwrap_or(format!("{home}/.cache"));
        let user = std::env::var("FIRSTLIGHT_CACHE").unwrap_or(format!("{user}/firstlight"));
        fs::create_dir(bench.path("cache")).unwrap();
        for shared in ["trees", "debs"] {
            symlink(Path::new(&user).join(shared), bench.path("cache").join(shared)).unwrap();
        }
        for empty in ["kernel/source", "kernel/build", "kernel/modules"] {
            fs::create_dir_all(bench.path(empty)).unwrap();
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, data: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, data).unwrap();
        path
    }

    /// A tree that looks like NVIDIA's modules of a version.
    fn tree(&self, version: &str) -> PathBuf {
        self.write("tree/version.mk", format!("NVIDIA_VERSION = {version}\n"));
        self.write("tree/src/nvidia/Makefile", "all:\n\tfalse\n");
        self.write("tree/COPYING", "MIT\n");
        self.write("tree/kernel-open/nvidia/nv.c", "one\ntwo\nthree\nfour\nfive\n");
        self.path("tree")
    }

    /// An installer as NVIDIA makes them: some lines of shell, then a packed tar.
    fn installer(&self, version: &str) -> PathBuf {
        for file in ["libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"] {
            // long and not repetitive, so that a cut takes away more than the end of the archive
            let noise: Vec<u8> =
                (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            self.write(&format!("run/{file}.{version}"), noise);
        }
        for gsp in ["gsp_ga10x.bin", "gsp_tu10x.bin"] {
            self.write(&format!("run/firmware/{gsp}"), "firmware");
        }
        self.write("run/LICENSE", "licence");
        self.write("run/nvidia-smi", "program");
        let packed = self.path("packed");
        let tar = format!("tar -C {} -cf - . | xz > {}", self.path("run").display(), packed.display());
        assert!(Command::new("sh").args(["-c", &tar]).status().unwrap().success());
        let md5 = Command::new("md5sum").arg(&packed).output().unwrap();
        let md5 = String::from_utf8_lossy(&md5.stdout)[..32].to_owned();
        let header = format!("#!/bin/sh\nskip=5\nMD5=\"{md5}\"\nexit 1\n");
        let bytes = [header.into_bytes(), fs::read(packed).unwrap()].concat();
        self.write(&format!("NVIDIA-Linux-x86_64-{version}.run"), bytes)
    }

    /// A description like the project's own, with these replacements.
    fn description(&self, replace: &[(&str, &str)]) -> PathBuf {
        let mut text = fs::read_to_string(workspace().join("image/driver/source.toml")).unwrap();
        for (from, to) in replace {
            assert!(text.contains(from), "source.toml holds no {from}");
            text = text.replace(from, to);
        }
        self.write("source.toml", text)
    }

    /// A description of `files`: this tree, no patches, this installer with its true hash or another.
    fn files(&self, version: &str, run: &Path, run_hash: &str) {
        let hash = if run_hash.is_empty() { sha256(run) } else { run_hash.to_owned() };
        self.description(&[
            ("version = \"555.58.02\"", &format!("version = \"{version}\"")),
            ("source = \"debian\"", "source = \"files\""),
            ("patches = \"patches/555.58.02\"", "patches = \"\""),
            ("patch = \"1\"", "patch = \"\""),
            ("modules = \"\"", "modules = \"tree\""),
            ("run = \"\"", &format!("run = \"{}\"", run.display())),
            ("run_sha256 = \"\"", &format!("run_sha256 = \"{hash}\"")),
        ]);
    }

    fn script(&self, name: &str, arguments: &[&Path]) -> Output {
        Command::new(workspace().join("image/driver").join(name))
            .args(arguments)
            .env("FIRSTLIGHT_CACHE", self.path("cache"))
            .env("FIRSTLIGHT_DRIVER", self.path("source.toml"))
            .output()
            .unwrap()
    }

    /// Runs the whole build, which must fail with one error of these words and leave nothing.
    fn refuses(&self, words: &[&str]) {
        fs::write(self.path("kernel/release"), "6.12.107-firstlight\n").unwrap();
        let output = self.script("build.sh", &[&self.path("kernel")]);
        one_error(&output, words);
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

/// The command failed, nothing went to its result, and its one error line has these words.
fn one_error(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it succeeded: {text}");
    assert!(output.stdout.is_empty(), "it gave a result: {}", String::from_utf8_lossy(&output.stdout));
    let errors: Vec<&str> = text.lines().filter(|l| l.starts_with("firstlight: error:")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    for word in words {
        assert!(errors[0].contains(word), "no '{word}' in: {}", errors[0]);
    }
}

#[test]
fn an_installer_that_is_whole_is_unpacked_and_one_that_is_cut_off_is_not() {
    let bench = Bench::new();
    let whole = bench.installer("570.1.2");
    let output = bench.script("run-file.sh", &[&whole, &bench.path("to")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "570.1.2\n", "{output:?}");
    assert!(bench.path("to/firmware/gsp_ga10x.bin").exists());

    let bytes = fs::read(&whole).unwrap();
    for (length, words) in [
        (bytes.len() - 1, "is cut off or damaged"),
        (bytes.len() / 2, "is cut off or damaged"),
        (20, "names no skip="),
        (0, "names no skip="),
    ] {
        let cut = bench.write("cut.run", &bytes[..length]);
        // its own hash is right: whoever wrote the description had only the cut file
        bench.tree("570.1.2");
        bench.files("570.1.2", &cut, "");
        if length > 20 {
            bench.refuses(&["cut.run", words]);
        } else {
            one_error(&bench.script("run-file.sh", &[&cut, &bench.path("none")]), &["cut.run"]);
        }
    }
    // no MD5 in the header: the packed part itself shows the cut
    let text = String::from_utf8_lossy(&bytes[..200]).replace("MD5=", "NOT=");
    let header = text.split("exit 1\n").next().unwrap().to_owned() + "exit 1\n";
    let cut = [header.as_bytes(), &bytes[header.len()..bytes.len() / 2]].concat();
    let cut = bench.write("cut.run", cut);
    one_error(&bench.script("run-file.sh", &[&cut, &bench.path("none")]), &["cut.run", "cut off"]);
}

#[test]
fn a_file_with_another_hash_is_refused() {
    let bench = Bench::new();
    bench.tree("570.1.2");
    let run = bench.installer("570.1.2");
    bench.files("570.1.2", &run, &"0".repeat(64));
    bench.refuses(&["is not the file that files.run_sha256 names", "expected 0000"]);
}

#[test]
fn a_pair_of_two_versions_is_refused_and_both_are_named() {
    let bench = Bench::new();
    bench.tree("570.1.3");
    let run = bench.installer("570.1.2");
    bench.files("570.1.2", &run, "");
    bench.refuses(&["NVIDIA-Linux-x86_64-570.1.2.run is version 570.1.2", "version 570.1.3"]);
}

#[test]
fn a_tree_that_is_none_is_refused() {
    let bench = Bench::new();
    let run = bench.installer("570.1.2");
    fs::create_dir(bench.path("tree")).unwrap();
    bench.files("570.1.2", &run, "");
    bench.refuses(&["is no tree of NVIDIA's open-gpu-kernel-modules"]);
}

#[test]
fn a_patch_that_does_not_fit_exactly_is_refused_by_name() {
    let bench = Bench::new();
    bench.tree("570.1.2");
    let run = bench.installer("570.1.2");
    bench.files("570.1.2", &run, "");
    let text = fs::read_to_string(bench.path("source.toml")).unwrap();
    bench.write("source.toml", text.replace("patches = \"\"", "patches = \"patches\""));
    bench.write("patches/series", "# order\n0001-good.patch\n0002-fuzzy.patch\n");
    let patch = |context: &str| {
        format!(
            "--- a/kernel-open/nvidia/nv.c\n+++ b/kernel-open/nvidia/nv.c\n@@ -1,3 +1,3 @@\n {context}\n-two\n+TWO\n three\n"
        )
    };
    bench.write("patches/0001-good.patch", patch("one").replace("TWO", "two again"));
    // a line of its surroundings differs: `patch` would take it with fuzz 1
    bench.write("patches/0002-fuzzy.patch", patch("ONE").replace("-two", "-two again"));
    bench.refuses(&["patch 0002-fuzzy.patch does not apply"]);

    bench.write("patches/series", "0003-none.patch\n");
    bench.refuses(&["0003-none.patch", "not there"]);
}

#[test]
fn a_description_with_a_mistake_is_refused() {
    for (from, to, words) in [
        ("patch = \"1\"", "patc = \"1\"", "key patc"),
        ("source = \"debian\"", "source = \"debain\"", "'debain'"),
        ("2400-25ff", "2400..25ff", "no range"),
        ("run_sha256 = \"\"", "run_sha256 = \"abc\"", "no SHA256"),
        ("schema = \"firstlight.driver-source/1\"", "schema = \"2\"", "schema is '2'"),
    ] {
        let bench = Bench::new();
        bench.description(&[(from, to)]);
        let output = bench.script("build.sh", &[&bench.path("kernel")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(words), "{to}: {text}");
    }
}

/// A 64-bit ELF file with these sections.
fn elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut body = vec![0; 64];
    let mut headers = vec![[0_u64; 8]];
    for (name, data) in sections.iter().copied().chain([(".shstrtab", [].as_slice())]) {
        let at = names.len() as u64;
        names.extend(name.bytes().chain([0]));
        let data = if name == ".shstrtab" { names.clone() } else { data.to_vec() };
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
    body[40..48].copy_from_slice(&table.to_le_bytes());
    body[58..60].copy_from_slice(&64_u16.to_le_bytes());
    body[60..62].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    body[62..64].copy_from_slice(&(headers.len() as u16 - 1).to_le_bytes());
    body
}

fn module(version: &str, kernel: &str, compiler: &str, patch: &str) -> Vec<u8> {
    let info = format!("version={version}\0vermagic={kernel} SMP mod_unload \0firstlight.patch={patch}\0");
    elf(&[(".modinfo", info.as_bytes()), (".comment", format!("\0GCC: {compiler}\0").as_bytes())])
}

/// A driver image in which everything fits, and a kernel to compare it with.
fn good_image(bench: &Bench) {
    const KERNEL: &str = "6.12.107-firstlight";
    bench.write("kernel/modules/a.ko", module("1", KERNEL, "14.2.0", ""));
    bench
        .write("image/driver.toml", format!("version = \"570.1.2\"\npatch = \"1\"\nkernel = \"{KERNEL}\"\n"));
    for name in ["nvidia", "nvidia-uvm"] {
        bench.write(&format!("image/modules/{name}.ko"), module("570.1.2", KERNEL, "14.2.0", "1"));
    }
    for name in ["libcuda", "libnvidia-ml"] {
        bench.write(&format!("image/lib/{name}.so.570.1.2"), b"\x7fELF..\x00570.1.2\x00");
        symlink(format!("{name}.so.570.1.2"), bench.path(&format!("image/lib/{name}.so.1"))).unwrap();
    }
    bench.write("image/firmware/nvidia/570.1.2/gsp_ga10x.bin", "firmware");
}

#[test]
fn an_image_whose_parts_belong_together_passes() {
    let bench = Bench::new();
    good_image(&bench);
    let output = bench.script("check.sh", &[&bench.path("image"), &bench.path("kernel")]);
    assert!(output.status.success(), "{output:?}");
}

/// Each way to be wrong, with what its line must name: both sides.
#[test]
fn an_image_with_a_part_that_does_not_belong_is_refused() {
    const KERNEL: &str = "6.12.107-firstlight";
    type Spoil = fn(&Bench);
    let cases: [(Spoil, &[&str]); 12] = [
        (
            |b| drop(b.write("image/modules/nvidia.ko", module("570.1.3", KERNEL, "14.2.0", "1"))),
            &["nvidia.ko", "570.1.3", "570.1.2"],
        ),
        (
            |b| drop(b.write("image/modules/nvidia.ko", module("570.1.2", "6.12.90-amd64", "14.2.0", "1"))),
            &["vermagic", "6.12.90-amd64", KERNEL],
        ),
        (
            |b| drop(b.write("image/modules/nvidia-uvm.ko", module("570.1.2", KERNEL, "12.2.0", "1"))),
            &["nvidia-uvm.ko was compiled by", "12.2.0", "14.2.0"],
        ),
        (
            |b| drop(b.write("image/modules/nvidia.ko", module("570.1.2", KERNEL, "14.2.0", ""))),
            &["patch level ''", "'1'"],
        ),
        (|b| drop(b.write("image/modules/nvidia.ko", "no module")), &["nvidia.ko is not a kernel module"]),
        (|b| drop(b.write("image/modules/nvidia-drm.ko", "x")), &["the modules are", "nvidia-drm.ko"]),
        (
            |b| drop(b.write("image/lib/libcuda.so.570.1.2", b"\x7fELF..\x00570.1.3\x00")),
            &["libcuda.so.570.1.2", "570.1.3", "the driver is 570.1.2"],
        ),
        (
            |b| drop(b.write("image/lib/libnvidia-ml.so.570.1.3", b"\x7fELF570.1.3")),
            &["libnvidia-ml.so.570.1.3", "570.1.2"],
        ),
        (|b| fs::remove_file(b.path("image/lib/libcuda.so.1")).unwrap(), &["libcuda.so.1 is missing"]),
        (
            |b| {
                fs::rename(b.path("image/firmware/nvidia/570.1.2"), b.path("image/firmware/nvidia/550.1"))
                    .unwrap()
            },
            &["GSP", "550.1", "570.1.2"],
        ),
        (|b| fs::remove_dir_all(b.path("image/firmware")).unwrap(), &["GSP", "[]", "570.1.2"]),
        (
            |b| {
                drop(
                    b.write(
                        "image/driver.toml",
                        "version = \"570.1.2\"\npatch = \"1\"\nkernel = \"6.1.0\"\n",
                    ),
                )
            },
            &["driver.toml is for kernel '6.1.0'", KERNEL],
        ),
    ];
    for (spoil, words) in cases {
        let bench = Bench::new();
        good_image(&bench);
        spoil(&bench);
        one_error(&bench.script("check.sh", &[&bench.path("image"), &bench.path("kernel")]), words);
    }
}

/// A container of GPU code: header, then (kind, architecture, payload) each.
fn fatbin(entries: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, arch, payload) in entries {
        let mut header = vec![0; 64];
        header[..2].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&64_u32.to_le_bytes());
        header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[28..32].copy_from_slice(&arch.to_le_bytes());
        body.extend(header);
        body.extend(*payload);
    }
    [&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0][..], &(body.len() as u64).to_le_bytes(), &body].concat()
}

fn prune(bench: &Bench) -> Output {
    let tools = workspace().join("image/in-tools.sh");
    let bind = |from: PathBuf, to: &str| format!("{}:/build/{to}", from.display());
    Command::new(tools)
        .args(["tools", "--bind", &bind(workspace().join("image/driver"), "scripts")])
        .args(["--bind", &bind(bench.path("gpu"), "gpu")])
        .args(["python3", "-B", "scripts/prune.py", "gpu/from", "gpu/to", "80,90"])
        .env("FIRSTLIGHT_CACHE", bench.path("cache"))
        .output()
        .unwrap()
}

#[test]
fn pruning_zeros_other_architectures_and_touches_nothing_else() {
    let bench = Bench::new();
    let entries: [(u16, u32, &[u8]); 5] = [
        (2, 52, b"stub"),
        (2, 70, b"seventy."),
        (2, 80, b"eighty.."),
        (2, 90, b"ninety.."),
        (1, 90, b"ptx90.."),
    ];
    let library =
        [b"library".as_slice(), &fatbin(&entries), b"more", &fatbin(&entries[1..]), b"end"].concat();
    bench.write("gpu/from", &library);
    let output = prune(&bench);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("dropped  sm_70") && text.contains("dropped  PTX compute_90"), "{text}");
    let zeroed = [
        (2, 52, b"stub".as_slice()),
        (2, 70, &[0; 8]),
        (2, 80, b"eighty.."),
        (2, 90, b"ninety.."),
        (1, 90, &[0; 7]),
    ];
    let wanted = [b"library".as_slice(), &fatbin(&zeroed), b"more", &fatbin(&zeroed[1..]), b"end"].concat();
    assert_eq!(fs::read(bench.path("gpu/to")).unwrap(), wanted);
}

#[test]
fn pruning_that_finds_nothing_or_not_what_it_must_keep_is_an_error() {
    for library in [
        b"no container in it".to_vec(),
        fatbin(&[(2, 80, b"a"), (2, 90, b"b")]),
        fatbin(&[(2, 70, b"a"), (2, 80, b"b")]),
        fatbin(&[(2, 70, b"a"), (9, 80, b"b"), (2, 90, b"c")]),
    ] {
        let bench = Bench::new();
        bench.write("gpu/from", &library);
        one_error(&prune(&bench), &["gpu/from"]);
        assert!(!bench.path("gpu/to").exists());
    }
}
