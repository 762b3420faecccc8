//! What `--driver installed` and `--driver FOLDER` take: from machines laid out as Debian, Ubuntu, Fedora and Arch do, and from
//! folders of packages. Each part that is missing, of another version, for another processor, cut off, unreadable or outside
//! gives one clear line, and nothing is written. The tools trees must exist (`./run image`); nothing is compiled.
//! `./run driver-paths` compiles and loads real modules through the same paths.

use harness::driver_host::{
    Host, Layout, deb, deb_with, firmware, module, names, packed, program, resource_manager,
};
use harness::driver_inputs::{DriverInputs, assert_one_error};
use harness::{Checkout, cache, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VERSION: &str = "590.48.01";
const OTHER: &str = "580.95.05";

/// Changes a folder of inputs.
type Change<'a> = &'a dyn Fn(&Path);
/// Puts something unfit at a path of a machine.
type SpoilPath<'a> = &'a dyn Fn(&Host, &str);

#[test]
fn each_distributions_layout_gives_the_same_parts() {
    for layout in Layout::ALL {
        let host = Host::new(layout, VERSION);
        let output = host.take(&[]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{layout:?}: {output:?}"
        );
        let wanted = [
            "bin/nvidia-smi",
            "doc/nvidia-driver.copyright",
            "facts",
            "firmware/nvidia/590.48.01/gsp_ga10x.bin",
            "firmware/nvidia/590.48.01/gsp_tu10x.bin",
            "lib/libcuda.so.590.48.01",
            "lib/libnvidia-ml.so.590.48.01",
            "lib/libnvidia-ptxjitcompiler.so.590.48.01",
            "modules.tar",
            "taken",
        ];
        assert_eq!(names(&host.path("to")), wanted, "{layout:?}");
        let unpacked = fs::read(host.path("to/firmware/nvidia/590.48.01/gsp_ga10x.bin")).unwrap();
        assert_eq!(unpacked, firmware(VERSION), "{layout:?}");
        let kind = if layout == Layout::Arch {
            "source"
        } else {
            "prebuilt"
        };
        let facts = fs::read_to_string(host.path("to/facts")).unwrap();
        assert!(
            facts.contains(&format!("modules={kind}\n")) && facts.contains("gpus=2b85\n"),
            "{facts}"
        );
        // every file with its hash, and the modules as build scripts expect them
        let check = "cut -f1,2 taken | tr '\\t' ' ' | sed 's/ /  /' | sha256sum -c --quiet -";
        let sums = Command::new("sh")
            .args(["-c", check])
            .current_dir(host.path("to"))
            .output()
            .unwrap();
        assert!(sums.status.success(), "{sums:?}");
        let list = Command::new("tar")
            .arg("-tf")
            .arg(host.path("to/modules.tar"))
            .output()
            .unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        for file in [
            "version.mk",
            "COPYING",
            "kernel-open/nvidia/nv.c",
            "kernel-open/Makefile",
        ] {
            assert!(
                list.contains(&format!("open-gpu-kernel-modules-{VERSION}/{file}\n")),
                "{layout:?}: {list}"
            );
        }
        assert_eq!(
            list.contains("nv-kernel.o_binary"),
            layout != Layout::Arch,
            "{list}"
        );
        assert!(!list.contains("nv.o\n"), "{list}");
    }
}

/// As machines that lend their driver to containers have it: a script starts `nvidia-smi`, and a parameter of the kernel names
/// the folder of the firmware.
#[test]
fn a_driver_in_a_folder_of_its_own_is_taken() {
    let host = Host::new(Layout::Ubuntu, VERSION);
    host.write(
        "usr/bin/nvidia-smi",
        "#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi\n",
    );
    host.write("usr/local/nvidia/bin/nvidia-smi", program(VERSION, 62));
    host.write(
        "sys/module/firmware_class/parameters/path",
        "/srv/firmware\n",
    );
    for name in ["gsp_ga10x.bin", "gsp_tu10x.bin"] {
        let usual = Layout::Ubuntu.firmware(VERSION, name);
        fs::remove_file(host.path("root").join(usual)).unwrap();
        host.write(
            &format!("srv/firmware/nvidia/{VERSION}/{name}"),
            firmware(VERSION),
        );
    }
    let output = host.take(&[]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    assert_eq!(
        fs::read(host.path("to/bin/nvidia-smi")).unwrap(),
        program(VERSION, 62)
    );
    assert_eq!(
        fs::read(host.path(&format!("to/firmware/nvidia/{VERSION}/gsp_ga10x.bin"))).unwrap(),
        firmware(VERSION)
    );
}

#[test]
fn the_same_files_in_another_folder_give_the_same_description() {
    for layout in Layout::ALL {
        let described = || {
            let host = Host::new(layout, VERSION);
            let inputs = DriverInputs::new();
            let output = choose(&inputs, Some(&host), &["installed"]);
            assert!(output.status.success(), "{layout:?}: {output:?}");
            let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
            (
                path.parent().unwrap().file_name().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
            )
        };
        let (name, text) = described();
        assert_eq!((name, text.clone()), described());
        let manager = if layout == Layout::Arch {
            "source"
        } else {
            "prebuilt"
        };
        for line in [
            &format!("resource_manager = \"{manager}\""),
            "families = [\"blackwell\"]",
            "source = \"parts\"",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in {text}");
        }
    }
}

/// `choose.sh WORDS` with this host as the machine.
fn choose(inputs: &DriverInputs, host: Option<&Host>, words: &[&str]) -> Output {
    let mut command = Command::new(workspace().join("image/driver/choose.sh"));
    command
        .args(words)
        .env("FIRSTLIGHT_CACHE", inputs.path("cache"));
    if let Some(host) = host {
        command.env("FIRSTLIGHT_HOST", host.path("root"));
    }
    command.output().unwrap()
}

/// Asserts that choose.sh gives one error line with these words, and leaves nothing behind.
#[track_caller]
fn assert_refused(inputs: &DriverInputs, host: Option<&Host>, words: &[&str], says: &[&str]) {
    assert_one_error(&choose(inputs, host, words), says);
    let left = inputs.path("cache/driver");
    assert!(
        !left.exists() || fs::read_dir(&left).unwrap().next().is_none(),
        "left behind in {}",
        left.display()
    );
}

/// What is wrong with one part: how it is spoiled, and what the line says.
fn spoil(host: &Host, part: &str, data: &[u8], other: &[u8], foreign: &[u8], fault: &str) {
    let path = host.path("root").join(part);
    drop(fs::remove_file(&path));
    match fault {
        "absent" => {}
        "other version" => host.write(part, packed(part, other)),
        "other processor" => host.write(part, packed(part, foreign)),
        "cut off" => host.write(part, packed(part, &data[..data.len() / 2])),
        "unreadable" => fs::create_dir(path).unwrap(),
        "link out" => {
            fs::write(host.path("outside"), data).unwrap();
            host.link(part, "../../../../../../../../outside");
        }
        _ => panic!("{fault}"),
    }
}

#[test]
fn each_fault_of_each_part_is_one_clear_line() {
    const X86_64: u16 = 62;
    const ARM64: u16 = 183;
    let cases = |layout: Layout, version: &str| {
        let host = Host::new(layout, version);
        let library = |name: &str| host.library_path(name);
        let smi = if layout == Layout::Debian {
            "usr/lib/nvidia/current/nvidia-smi"
        } else {
            "usr/bin/nvidia-smi"
        };
        let elf = program(version, X86_64);
        let (other, foreign) = (program(OTHER, X86_64), program(version, ARM64));
        let gsp = layout.firmware(version, "gsp_ga10x.bin");
        [
            (
                library("libcuda"),
                elf.clone(),
                other.clone(),
                foreign.clone(),
                "libcuda.so.VERSION is missing: ",
            ),
            (
                library("libnvidia-ml"),
                elf.clone(),
                other.clone(),
                foreign.clone(),
                "libnvidia-ml.so.VERSION is missing: ",
            ),
            (
                smi.to_owned(),
                elf,
                other,
                foreign,
                "nvidia-smi is missing: ",
            ),
            (
                gsp,
                firmware(version),
                firmware(OTHER),
                program(version, X86_64),
                "",
            ),
        ]
    };
    for layout in [Layout::Debian, Layout::Ubuntu, Layout::Fedora] {
        for (part, data, other, foreign, absent) in cases(layout, VERSION) {
            for fault in [
                "absent",
                "other version",
                "other processor",
                "cut off",
                "unreadable",
                "link out",
            ] {
                let host = Host::new(layout, VERSION);
                spoil(&host, &part, &data, &other, &foreign, fault);
                // the file, or a link to it
                let name = part
                    .rsplit('/')
                    .next()
                    .unwrap()
                    .trim_end_matches(&format!(".{VERSION}"));
                let words: &[&str] = match fault {
                    "absent" if absent.is_empty() => {
                        // the other firmware is there; the families tell which is needed
                        assert!(host.take(&[]).status.success());
                        continue;
                    }
                    "absent" => &[absent],
                    "other version" if part.contains("nvidia-smi") || part.contains("gsp_") => &[
                        name,
                        "is version 580.95.05, libcuda.so is version 590.48.01",
                    ],
                    "other version" => &[name, "does not contain 590.48.01"],
                    "other processor" => &[name, "is for another processor: "],
                    "cut off" => &[name, "is cut off"],
                    "unreadable" => &[name, "is not an ordinary file"],
                    _ => &[name, "is a link out of "],
                };
                host.assert_refused(words);
            }
        }
    }
}

#[test]
fn each_fault_of_the_modules_source_is_one_clear_line() {
    for layout in Layout::ALL {
        let source = layout.source(VERSION);
        let at = |host: &Host| host.path("root").join(&source);
        let remove = |host: &Host| {
            let path = at(host);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        };
        let package = match layout {
            Layout::Debian => {
                "apt-get install nvidia-open-kernel-dkms (NVIDIA's repository: nvidia-kernel-open-dkms)"
            }
            Layout::Ubuntu => "apt-get install nvidia-kernel-source-590-open",
            Layout::Fedora => {
                "dnf install xorg-x11-drv-nvidia-kmodsrc (RPM Fusion) or kmod-nvidia-open-dkms"
            }
            Layout::Arch => "pacman -S nvidia-open-dkms",
        };
        let host = Host::new(layout, VERSION);
        remove(&host);
        host.assert_refused(&[
            "the modules are prebuilt, and their source is missing: ",
            package,
            "or --modules FILE with open-gpu-kernel-modules-590.48.01.tar.gz, tag 590.48.01 of github.com/NVIDIA",
        ]);
        host.source(OTHER, "Dual MIT/GPL");
        if layout != Layout::Fedora {
            fs::rename(host.path("root").join(layout.source(OTHER)), at(&host)).unwrap();
        }
        host.assert_refused(&[
            "is version 580.95.05, libcuda.so is version 590.48.01: ",
            package,
        ]);

        let host = Host::new(layout, VERSION);
        remove(&host);
        host.source(VERSION, "NVIDIA");
        host.assert_refused(&[
            "is the closed flavour of the modules 590.48.01 (MODULE_LICENSE NVIDIA)",
            package,
        ]);

        let host = Host::new(layout, VERSION);
        if layout == Layout::Fedora {
            let data = fs::read(at(&host)).unwrap();
            fs::write(at(&host), &data[..data.len() / 2]).unwrap();
            host.assert_refused(&[&source, "is cut off or damaged"]);
            remove(&host);
            fs::create_dir(at(&host)).unwrap();
            host.assert_refused(&[&source, "is not an ordinary file"]);
            continue;
        }
        let inside = if layout == Layout::Arch {
            "kernel-open/"
        } else {
            ""
        };
        let file = |name: &str| format!("{source}/{inside}{name}");
        fs::remove_file(host.path("root").join(file("nvidia/nvidia-sources.Kbuild"))).unwrap();
        host.assert_refused(&[
            &source,
            "is not complete: it has no nvidia/nvidia-sources.Kbuild",
        ]);
        host.link(
            &file("nvidia/nvidia-sources.Kbuild"),
            "../../../../../../../../../outside",
        );
        host.assert_refused(&["nvidia-sources.Kbuild is a link out of "]);
        if layout != Layout::Arch {
            let host = Host::new(layout, VERSION);
            let object = file("nvidia/nv-kernel.o_binary");
            for (data, words) in [
                (
                    program(VERSION, 183),
                    "nvidia/nv-kernel.o_binary is for another processor",
                ),
                (
                    program(VERSION, 62)[..500].to_vec(),
                    "nvidia/nv-kernel.o_binary is cut off",
                ),
            ] {
                host.write(&object, data);
                host.assert_refused(&[&source, words]);
            }
            fs::remove_file(host.path("root").join(&object)).unwrap();
            host.assert_refused(&["nv-kernel.o_binary is not there"]);
        }
    }
}

#[test]
fn a_machine_whose_driver_the_image_cannot_run_is_refused_by_what_it_runs() {
    for layout in Layout::ALL {
        let host = Host::new(layout, VERSION);
        host.write(
            layout.module(),
            packed(layout.module(), &module(VERSION, "NVIDIA")),
        );
        // with the open flavour's source beside it, the machine's own flavour does not matter
        let output = host.take(&[]);
        let note = format!(
            "firstlight: this machine runs the closed flavour of the modules 590.48.01 ({}: license NVIDIA); the image gets",
            layout.module()
        );
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stderr).starts_with(&note),
            "{layout:?}: {output:?}"
        );

        let host = Host::new(layout, VERSION);
        host.write(
            layout.module(),
            packed(layout.module(), &module(VERSION, "NVIDIA")),
        );
        let source = host.path("root").join(layout.source(VERSION));
        if source.is_dir() {
            fs::remove_dir_all(&source).unwrap();
        } else {
            fs::remove_file(&source).unwrap();
        }
        let switch = match layout {
            Layout::Debian => "apt-get install nvidia-open-kernel-dkms",
            Layout::Ubuntu => "apt-get install nvidia-driver-590-open, which replaces it",
            Layout::Fedora => "dnf install xorg-x11-drv-nvidia-kmodsrc",
            Layout::Arch => "pacman -S nvidia-open-dkms",
        };
        let runs = [
            "this machine runs the closed flavour of the modules 590.48.01 (",
            layout.module(),
            switch,
        ];
        host.assert_refused(&[&runs[..], &["no source of modules is installed"]].concat());
        host.source(VERSION, "NVIDIA");
        host.assert_refused(
            &[
                &runs[..],
                &["is the closed flavour of the modules 590.48.01 (MODULE_LICENSE"],
            ]
            .concat(),
        );
        let output = host.take(&["--modules", "open-gpu-kernel-modules.tar.gz"]);
        assert!(output.status.success(), "{output:?}");
    }
    let host = Host::new(Layout::Ubuntu, VERSION);
    host.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01\n",
    );
    let output = host.take(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("/proc/driver/nvidia/version does not say Open"),
        "{said}"
    );
    host.clear();
    host.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01\n",
    );
    assert!(host.take(&[]).status.success());

    let host = Host::new(Layout::Ubuntu, VERSION);
    host.write("sys/module/nvidia/version", "580.95.05\n");
    host.assert_refused(&[
        "the loaded module nvidia is version 580.95.05, libcuda.so is version 590.48.01: restart the machine",
    ]);

    // a GTX 1080 and a Titan V: Pascal, Volta
    let host = Host::new(Layout::Ubuntu, VERSION);
    host.gpu("0000:01:00.0", 0x1b80);
    host.gpu("0000:02:00.0", 0x1d81);
    host.assert_refused(&[
        "older than Turing",
        "0000:01:00.0 (10de:1b80), 0000:02:00.0 (10de:1d81)",
    ]);
    host.gpu("0000:02:00.0", 0x2204);
    let output = host.take(&[]);
    assert!(
        output.status.success()
            && String::from_utf8_lossy(&output.stderr).contains("without 0000:01:00.0"),
        "{output:?}"
    );
}

#[test]
fn of_two_installed_versions_the_one_that_programs_use_is_taken() {
    let host = Host::new(Layout::Ubuntu, VERSION);
    let old = format!("usr/lib/x86_64-linux-gnu/libcuda.so.{OTHER}");
    host.write(&old, program(OTHER, 62));
    assert!(host.take(&[]).status.success());
    fs::remove_file(host.path("root/usr/lib/x86_64-linux-gnu/libcuda.so.1")).unwrap();
    host.clear();
    host.assert_refused(&["libcuda.so is there in 2 versions, 580.95.05 and 590.48.01"]);
}

#[test]
fn the_fabric_manager_and_nvlsm_are_taken_with_what_they_need() {
    let host = Host::new(Layout::Ubuntu, VERSION);
    host.write("usr/bin/nv-fabricmanager", program(VERSION, 62));
    host.write(
        "usr/share/nvidia/nvswitch/dgxh100_hgxh100_topology",
        "topology",
    );
    host.write("opt/nvidia/nvlsm/sbin/nvlsm", program("2025.06.6", 62));
    host.write(
        "opt/nvidia/nvlsm/lib/libgrpc_mgr.so",
        program("2025.06.6", 62),
    );
    host.write("usr/share/nvidia/nvlsm/nvlsm.conf", "guid 0\n");
    assert!(host.take(&[]).status.success());
    let names = names(&host.path("to"));
    for name in [
        "bin/nv-fabricmanager",
        "nvswitch/dgxh100_hgxh100_topology",
        "bin/nvlsm",
        "nvlsm/lib/libgrpc_mgr.so",
        "nvlsm/nvlsm.conf",
    ] {
        assert!(names.iter().any(|n| n == name), "no {name} in {names:?}");
    }
    let host = Host::new(Layout::Ubuntu, VERSION);
    host.write("usr/bin/nv-fabricmanager", program(OTHER, 62));
    host.assert_refused(&[
        "usr/bin/nv-fabricmanager is version 580.95.05, libcuda.so is version 590.48.01",
    ]);
}

/// The packages of a driver with names of 580 (with the branch) or 590 (without).
fn packages(folder: &Path, branch: &str) {
    Host::new(Layout::Ubuntu, VERSION).packages(folder, branch);
}

#[test]
fn a_folder_of_packages_is_taken_with_and_without_the_branch_in_their_names() {
    for branch in ["-590", ""] {
        let inputs = DriverInputs::new();
        fs::create_dir(inputs.path("folder")).unwrap();
        packages(&inputs.path("folder"), branch);
        let output = choose(&inputs, None, &[inputs.path("folder").to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(
                "ada: no peer-to-peer: the packages' resource manager is prebuilt; --modules FILE"
            ),
            "{said}"
        );
        let text = fs::read_to_string(String::from_utf8(output.stdout).unwrap().trim()).unwrap();
        for line in [
            "resource_manager = \"prebuilt\"",
            "edits = \"firstlight:edits/kernel\"",
            "patch = \"\"",
            "nccl = \"wheel\"",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in {text}");
        }
        let from = text
            .split("[from]\n")
            .nth(1)
            .unwrap()
            .split("\n\n")
            .next()
            .unwrap();
        assert_eq!(
            from.lines()
                .filter(|line| line.contains(".deb\" = \""))
                .count(),
            4,
            "{text}"
        );
    }
}

#[test]
fn a_folder_of_packages_that_do_not_fit_is_refused() {
    let folder = |inputs: &DriverInputs| {
        fs::create_dir(inputs.path("folder")).unwrap();
        packages(&inputs.path("folder"), "-590");
        inputs.path("folder")
    };
    let cases: [(Change, &[&str]); 8] = [
        (
            &|at| {
                fs::remove_file(at.join(format!("nvidia-utils-590_{VERSION}-0ubuntu1_amd64.deb")))
                    .unwrap();
            },
            &["nvidia-smi is missing: it is in nvidia-smi (Debian) or nvidia-utils-590"],
        ),
        (
            &|at| deb(at, "other", "1", "arm64", &[]),
            &["other_1_arm64.deb is for arm64, the image is for amd64"],
        ),
        (
            &|at| {
                deb(
                    at,
                    "libnvidia-compute-580",
                    "1",
                    "amd64",
                    &[(
                        &format!("usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}"),
                        b"x".to_vec(),
                    )],
                );
            },
            &[
                "does not fit the other packages in the folder",
                "libcuda.so.590.48.01",
            ],
        ),
        (
            &|at| {
                let path = at.join(format!("nvidia-firmware-590_{VERSION}-0ubuntu1_amd64.deb"));
                let data = fs::read(&path).unwrap();
                fs::write(path, &data[..data.len() - 100]).unwrap();
            },
            &["nvidia-firmware-590_590.48.01-0ubuntu1_amd64.deb is cut off or damaged"],
        ),
        (
            &|at| fs::write(at.join("empty.deb"), "").unwrap(),
            &["empty.deb is not a .deb file, or is cut off"],
        ),
        (
            &|at| {
                fs::rename(
                    at.join(format!("nvidia-utils-590_{VERSION}-0ubuntu1_amd64.deb")),
                    at.join("../outside.deb"),
                )
                .unwrap();
                symlink("../outside.deb", at.join("utils.deb")).unwrap();
            },
            &["utils.deb is a link out of the folder"],
        ),
        (
            &|at| fs::create_dir(at.join("folder.deb")).unwrap(),
            &["folder.deb is not a .deb file"],
        ),
        (
            &|at| fs::write(at.join("a.run"), "").unwrap(),
            &["has .deb files and an installer of NVIDIA's"],
        ),
    ];
    for (spoil, words) in cases {
        let inputs = DriverInputs::new();
        let at = folder(&inputs);
        spoil(&at);
        assert_refused(&inputs, None, &[at.to_str().unwrap()], words);
    }
}

/// A .deb whose list of files has this path, which dpkg-deb would not write.
fn deb_with_path(folder: &Path, name: &str, path: &str) {
    let script = "
import io, sys, tarfile
def tar(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as made:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        made.addfile(entry, io.BytesIO(data))
    return out.getvalue()
control = b'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: N <n@localhost>\\nDescription: t\\n'
with open(sys.argv[1], 'wb') as file:
    file.write(b'!<arch>\\n')
    for name, data in (('debian-binary', b'2.0\\n'), ('control.tar', tar('./control', control)), ('data.tar', tar(sys.argv[2], b'x'))):
        file.write(f'{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\\n'.encode() + data + b'\\n' * (len(data) % 2))
";
    let made = Command::new("python3")
        .args(["-c", script])
        .arg(folder.join(name))
        .arg(path)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn a_package_whose_links_or_paths_lead_out_is_refused_and_nothing_outside_is_written() {
    let cases: [(Change, &[&str]); 6] = [
        (
            &|at| {
                let outside = at.join("../outside").canonicalize().unwrap();
                deb_with(
                    at,
                    "aaa",
                    "1",
                    "amd64",
                    &[],
                    &[("opt", outside.to_str().unwrap())],
                );
                deb(at, "zzz", "1", "amd64", &[("opt/written", b"x".to_vec())]);
            },
            &[
                "zzz_1_amd64.deb",
                "would be written through the link opt to /",
                "leads out of the package",
            ],
        ),
        (
            &|at| {
                deb_with(
                    at,
                    "aaa",
                    "1",
                    "amd64",
                    &[],
                    &[("opt", "var"), ("var", "/tmp")],
                );
                deb(
                    at,
                    "zzz",
                    "1",
                    "amd64",
                    &[("opt/new/written", b"x".to_vec())],
                );
            },
            &[
                "zzz_1_amd64.deb",
                "would be written through the link var to /tmp",
            ],
        ),
        (
            &|at| {
                deb_with(
                    at,
                    "aaa",
                    "1",
                    "amd64",
                    &[],
                    &[("opt/a", "../../../../outside")],
                );
            },
            &["the link ./opt/a to ../../../../outside leads out of the package"],
        ),
        (
            &|at| {
                deb_with(at, "aaa", "1", "amd64", &[], &[("usr", "/etc")]);
            },
            &[
                "aaa_1_amd64.deb (aaa 1) does not fit the other packages in the folder: usr is in every Debian system too",
            ],
        ),
        (
            &|at| deb_with_path(at, "p.deb", "./../../../outside/written"),
            &["p.deb (p 1): ./../../../outside/written leads out of the package"],
        ),
        (
            &|at| {
                let outside = at.join("../outside/written");
                deb_with_path(at, "p.deb", outside.to_str().unwrap());
            },
            &["p.deb (p 1): /", "leads out of the package"],
        ),
    ];
    for (spoil, words) in cases {
        let inputs = DriverInputs::new();
        let at = inputs.path("folder");
        fs::create_dir(&at).unwrap();
        fs::create_dir(inputs.path("outside")).unwrap();
        packages(&at, "-590");
        spoil(&at);
        assert_refused(&inputs, None, &[at.to_str().unwrap()], words);
        assert_refused(&inputs, None, &["--look", at.to_str().unwrap()], words);
        assert_eq!(fs::read_dir(inputs.path("outside")).unwrap().count(), 0);
    }
}

#[test]
fn packages_have_paths_in_lib_and_in_usr_lib_and_links_inside() {
    let inputs = DriverInputs::new();
    let at = inputs.path("folder");
    fs::create_dir(&at).unwrap();
    packages(&at, "-590");
    fs::remove_file(at.join(format!("nvidia-firmware-590_{VERSION}-0ubuntu1_amd64.deb"))).unwrap();
    let [gsp, other] =
        ["ga10x", "tu10x"].map(|name| format!("lib/firmware/nvidia/{VERSION}/gsp_{name}.bin"));
    deb(
        &at,
        "nvidia-firmware",
        "1",
        "all",
        &[(&gsp, firmware(VERSION)), (&other, firmware(VERSION))],
    );
    let text = b"x".to_vec();
    deb_with(
        &at,
        "more",
        "1",
        "all",
        &[("usr/lib/more/file", text.clone()), ("srv/a", text)],
        &[
            (
                "usr/lib/x86_64-linux-gnu/libcuda.so.1",
                "/etc/alternatives/libcuda",
            ),
            ("lib/more/link", "file"),
        ],
    );
    let output = choose(&inputs, None, &[at.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(String::from_utf8(output.stdout).unwrap().trim()).unwrap();
    assert!(text.contains("/gsp_ga10x.bin\" = \""), "{text}");
    // one file under both names
    deb(
        &at,
        "twice",
        "1",
        "all",
        &[(&format!("usr/{gsp}"), firmware(VERSION))],
    );
    let words = [
        "twice_1_all.deb (twice 1) does not fit",
        "gsp_ga10x.bin is in nvidia-firmware_1_all.deb",
    ];
    assert_one_error(&choose(&inputs, None, &[at.to_str().unwrap()]), &words);
}

#[test]
fn a_source_of_the_modules_that_cannot_be_packed_is_refused_before_anything_is_written() {
    let source = Layout::Arch.source(VERSION);
    let cases: [(SpoilPath, &str); 5] = [
        (&|host, at| host.link(at, "nothing"), "is not there"),
        (
            &|host, at| host.link(at, "../../../../../../../../outside"),
            "is a link out of ",
        ),
        (
            &|host, at| host.link(at, "../src"),
            "is a link to a folder that it is in",
        ),
        (&|host, at| host.link(at, "extra"), "is a circle of links"),
        (
            &|host, at| {
                assert!(
                    Command::new("mkfifo")
                        .arg(host.path("root").join(at))
                        .status()
                        .unwrap()
                        .success()
                );
            },
            "is not an ordinary file",
        ),
    ];
    for (spoil, says) in cases {
        let host = Host::new(Layout::Arch, VERSION);
        spoil(&host, &format!("{source}/src/extra"));
        host.assert_refused(&[&source, "src/extra", says]);
        let output = host.parts(&["look", "installed", host.path("root").to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains(says) && said.ends_with("\n1 fault: no image can be built from it\n"),
            "{output:?}"
        );
        // it is another driver's source: this one's is not touched by it
        let host = Host::new(Layout::Ubuntu, VERSION);
        host.write("usr/src/nvidia-570.1/nvidia/nv.c", "");
        spoil(&host, "usr/src/nvidia-570.1/Kbuild");
        assert!(host.take(&[]).status.success());
    }
}

#[test]
fn a_file_without_end_and_a_device_without_an_id_are_one_clear_line() {
    let sparse = |host: &Host, name: &str| {
        let path = host.path("root").join(name);
        fs::File::create(path).unwrap().set_len(100 << 30).unwrap();
    };
    let host = Host::new(Layout::Ubuntu, VERSION);
    for name in [
        host.library_path("libcuda"),
        "usr/bin/nvidia-smi".to_owned(),
    ] {
        let host = Host::new(Layout::Ubuntu, VERSION);
        sparse(&host, &name);
        host.assert_refused(&[&name, "has 107374182400 bytes, more than 1 GiB"]);
    }
    let device = "sys/bus/pci/devices/0000:01:00.0/device";
    host.write(device, "zz\n");
    host.assert_refused(&[device, "is 'zz', not a device id"]);
    fs::remove_file(host.path("root").join(device)).unwrap();
    host.assert_refused(&[device, "is '', not a device id"]);

    let inputs = DriverInputs::new();
    fs::create_dir(inputs.path("folder")).unwrap();
    let run = inputs.path("folder/NVIDIA-Linux-x86_64-590.48.01.run");
    fs::File::create(run).unwrap().set_len(100 << 30).unwrap();
    assert_refused(
        &inputs,
        None,
        &[inputs.path("folder").to_str().unwrap()],
        &[".run has 107374182400 bytes"],
    );
}

#[test]
fn packed_firmware_is_unpacked_up_to_a_limit() {
    let host = Host::new(Layout::Fedora, VERSION);
    let name = format!("usr/lib/firmware/nvidia/{VERSION}/gsp_tu10x.bin.zst");
    fs::remove_file(
        host.path("root")
            .join(Layout::Fedora.firmware(VERSION, "gsp_tu10x.bin")),
    )
    .unwrap();
    let pack = format!(
        "head -c 1100M /dev/zero | zstd -q > {}",
        host.path("root").join(&name).display()
    );
    assert!(
        Command::new("sh")
            .args(["-c", &pack])
            .status()
            .unwrap()
            .success()
    );
    host.assert_refused(&[&name, "is larger than 1 GiB"]);
}

#[test]
fn a_machine_without_a_driver_is_told_its_distributions_packages() {
    let without = |layout: Layout, release: &str, files: &[&str]| {
        let host = Host::new(layout, VERSION);
        host.write("etc/os-release", release);
        for file in files {
            fs::remove_file(host.path("root").join(file)).unwrap();
        }
        host
    };
    let ubuntu = "ID=ubuntu\nID_LIKE=debian\n";
    let cuda = format!("usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}");
    let gsp = ["gsp_ga10x.bin", "gsp_tu10x.bin"].map(|name| Layout::Ubuntu.firmware(VERSION, name));
    let gsp = [gsp[0].as_str(), &gsp[1]];
    without(Layout::Ubuntu, ubuntu, &[&cuda]).assert_refused(&[
        "libcuda.so.VERSION is missing: ubuntu-drivers install, or apt-get install nvidia-driver-BRANCH-open (BRANCH is",
    ]);
    without(Layout::Ubuntu, ubuntu, &gsp).assert_refused(&[
        "apt-get install nvidia-firmware-590-590.48.01 (NVIDIA's repository: nvidia-firmware)",
    ]);
    let server = without(Layout::Ubuntu, ubuntu, &gsp);
    server.write("usr/share/doc/libnvidia-compute-590-server/copyright", "");
    server.assert_refused(&["apt-get install nvidia-firmware-590-server-590.48.01"]);
    without(
        Layout::Ubuntu,
        "ID='opensuse-leap'\nID_LIKE=\"suse opensuse\"\n",
        &gsp,
    )
    .assert_refused(&[
        "install the package of NVIDIA's driver that brings /lib/firmware/nvidia/590.48.01",
    ]);
    without(
        Layout::Arch,
        "NAME='Arch Linux'\nID='arch'\n",
        &["usr/bin/nvidia-smi"],
    )
    .assert_refused(&["nvidia-smi is missing: pacman -S nvidia-utils"]);
    let ml = format!("usr/lib64/libnvidia-ml.so.{VERSION}");
    without(Layout::Fedora, "ID=fedora\n", &[&ml])
        .assert_refused(&["or libnvidia-ml (NVIDIA's repository)"]);
}

#[test]
fn words_that_cannot_be_meant_are_refused_at_once() {
    let host = Host::new(Layout::Ubuntu, VERSION);
    let root = host.path("root");
    let root = root.to_str().unwrap();
    let full = host.path("to/full");
    fs::create_dir(&full).unwrap();
    for (words, says) in [
        (
            &["take", "installed", root][..],
            "take needs a folder to write to",
        ),
        (
            &["take", "installed", root, host.path("to").to_str().unwrap()],
            "is not a new or empty folder",
        ),
        (
            &["look", "installed", "/nowhere"],
            "there is no folder /nowhere",
        ),
        (
            &["look", "installed", root, "--libraries", "NOTHING"],
            "--libraries: there is no folder NOTHING",
        ),
        (&["pack"], "pack needs a folder and a file"),
        (&["pack", "/nowhere", "x"], "there is no folder /nowhere"),
        (&["look", "other", root], "invalid choice: 'other'"),
    ] {
        let output = host.parts(words);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {output:?}");
        assert_one_error(&output, &[says]);
    }
    fs::remove_dir(full).unwrap();
    let inputs = DriverInputs::new();
    assert!(
        choose(
            &inputs,
            Some(&host),
            &["installed", "--libraries", "usr/lib"]
        )
        .status
        .success()
    );
    let inputs = DriverInputs::new();
    fs::write(inputs.path("other.toml"), "a = 1\n").unwrap();
    let other = inputs.path("other.toml");
    for (words, says) in [
        (
            &["installed", "--libraries", "NOTHING"][..],
            "--libraries: there is no folder NOTHING",
        ),
        (
            &["installed", "--libraries", "--without-p2p"],
            "--libraries needs a word",
        ),
        (
            &[other.to_str().unwrap()],
            "other.toml', which is no description of a driver",
        ),
    ] {
        assert_refused(&inputs, Some(&host), words, &[says]);
        assert_eq!(
            choose(&inputs, Some(&host), words).status.code(),
            Some(64),
            "{words:?}"
        );
    }
    let folder = inputs.path("folder");
    fs::create_dir(&folder).unwrap();
    let at = folder.to_str().unwrap();
    let look = |driver: &str, what: &str| {
        let mut look = Command::new(workspace().join("image/driver/look.sh"));
        look.arg(what)
            .env("FIRSTLIGHT_CACHE", inputs.path("cache"))
            .env("FIRSTLIGHT_DRIVER", driver)
            .output()
            .unwrap()
    };
    let empty = "has neither .deb files nor NVIDIA's installer (allowed: the .deb files of one version, or NVIDIA-Linux";
    assert_one_error(&look("none", at), &[empty]);
    fs::write(folder.join("driver.rpm"), "").unwrap();
    assert_one_error(&look("none", at), &[empty]);
    assert_one_error(
        &look(at, other.to_str().unwrap()),
        &["FIRSTLIGHT_DRIVER is the folder ", "(--driver "],
    );
    fs::write(folder.join("fw (1).deb"), "").unwrap();
    assert_one_error(
        &look("none", at),
        &["'fw (1).deb' has blanks or other characters in its name"],
    );
    assert_refused(
        &inputs,
        None,
        &[at],
        &["'fw (1).deb' has blanks or other characters in its name"],
    );
}

/// A tree of a version that `seen.toml` does not have. Registry keys and edits do not fit it.
#[test]
fn a_version_that_does_not_fit_is_built_only_without_peer_to_peer() {
    let unseen = "610.1.2";
    for (layout, says) in [
        (Layout::Arch, "edits: "),
        (
            Layout::Ubuntu,
            "registry keys of blackwell: 610.1.2 was not seen by us, and a prebuilt resource manager comes without the header",
        ),
    ] {
        let host = Host::new(layout, unseen);
        let inputs = DriverInputs::new();
        assert_refused(
            &inputs,
            Some(&host),
            &["installed", "--families", "ada,blackwell"],
            &[
                "driver 610.1.2 does not fit: ",
                says,
                "--without-p2p builds it without peer-to-peer changes",
            ],
        );
        let output = choose(
            &inputs,
            Some(&host),
            &["installed", "--families", "ada,blackwell", "--without-p2p"],
        );
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("driver 610.1.2 was not seen by us (as of 20")
                && said.contains("ada: no keys"),
            "{said}"
        );
        let text = fs::read_to_string(String::from_utf8(output.stdout).unwrap().trim()).unwrap();
        assert!(
            text.contains("peer_to_peer = false\n") && text.contains("patch = \"\"\n"),
            "{text}"
        );
    }
    // a resource manager that lacks a key of its version
    let host = Host::new(Layout::Ubuntu, VERSION);
    let object = format!(
        "{}/nvidia/nv-kernel.o_binary",
        Layout::Ubuntu.source(VERSION)
    );
    host.write(&object, resource_manager(&["ForceP2P", "RMPcieP2PType"]));
    assert_refused(
        &DriverInputs::new(),
        Some(&host),
        &["installed"],
        &[
            "registry keys of blackwell: the prebuilt resource manager does not know RMForceStaticBar1",
        ],
    );
    // nothing is lost for GPUs that need neither
    let host = Host::new(Layout::Ubuntu, unseen);
    let output = choose(
        &DriverInputs::new(),
        Some(&host),
        &["installed", "--families", "hopper"],
    );
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_end_of_a_build_names_the_families_and_what_brings_the_others_in() {
    let checkout = Checkout::new(&["image/"]).unwrap();
    let end = |driver: &str| {
        let mut command = checkout.script("image/report.sh");
        command.args(["sh", "-c", "echo 'modules 700' >> \"$FIRSTLIGHT_SECONDS\""]);
        command.env("FIRSTLIGHT_SECONDS", checkout.path("seconds"));
        let output = command
            .env("FIRSTLIGHT_CACHE", cache())
            .env("FIRSTLIGHT_DRIVER", driver)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(!checkout.path("seconds").exists());
        String::from_utf8(output.stderr).unwrap()
    };
    // what came before counts, and steps beside each other count once
    fs::write(checkout.path("seconds"), "gathering 100\n").unwrap();
    let shipped = end("image/driver/source.toml");
    let seconds = shipped
        .lines()
        .find_map(|l| l.strip_prefix("firstlight: seconds: gathering 100, modules 700, together "));
    let seconds =
        seconds.and_then(|l| l.strip_suffix(" (the programs are built beside the driver)"));
    let seconds: u32 = seconds
        .unwrap_or_else(|| panic!("{shipped}"))
        .parse()
        .unwrap();
    assert!((100..800).contains(&seconds), "{shipped}");
    for line in [
        "firstlight: GPUs that this image drives, with driver 555.58.02:",
        "  ada (GeForce RTX 40, desktop): yes, peer-to-peer through BAR1 (expected, unproven on a board)",
        "  blackwell (GeForce RTX 50, RTX PRO): no: needs 580 or newer: ./run image --driver installed, or --driver FOLDER with such a driver",
    ] {
        assert!(shipped.lines().any(|l| l == line), "no {line} in {shipped}");
    }
    assert!(
        end("none")
            .contains("this image has no GPU driver; ./run image --driver installed takes the one")
    );
    let output = choose(
        &DriverInputs::new(),
        Some(&Host::new(Layout::Ubuntu, VERSION)),
        &["installed", "--families", "ada,blackwell"],
    );
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("ada: no peer-to-peer: the packages' resource manager is prebuilt")
    );
}

#[test]
fn the_firmware_that_the_families_need_must_be_there() {
    let host = Host::new(Layout::Ubuntu, VERSION);
    fs::remove_file(
        host.path("root")
            .join(Layout::Ubuntu.firmware(VERSION, "gsp_tu10x.bin")),
    )
    .unwrap();
    assert!(
        choose(&DriverInputs::new(), Some(&host), &["installed"])
            .status
            .success()
    );
    assert_refused(
        &DriverInputs::new(),
        Some(&host),
        &["installed", "--families", "turing"],
        &["firmware/nvidia/590.48.01/gsp_tu10x.bin is missing, and the families need it"],
    );
}

#[test]
fn a_taken_file_that_was_changed_since_is_refused_by_the_build() {
    let host = Host::new(Layout::Ubuntu, VERSION);
    let inputs = DriverInputs::new();
    let output = choose(&inputs, Some(&host), &["installed"]);
    let description = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    fs::rename(description.parent().unwrap(), inputs.path("taken")).unwrap();
    fs::copy(
        inputs.path("taken/driver.toml"),
        inputs.path("taken/other.toml"),
    )
    .unwrap();
    fs::write(inputs.path("taken/bin/nvidia-smi"), "other").unwrap();
    fs::write(inputs.path("kernel/release"), "6.12.107-firstlight\n").unwrap();
    let mut build = Command::new(workspace().join("image/driver/build.sh"));
    build
        .arg(inputs.path("kernel"))
        .env("FIRSTLIGHT_CACHE", inputs.path("cache"));
    let output = build
        .env("FIRSTLIGHT_DRIVER", inputs.path("taken/driver.toml"))
        .output()
        .unwrap();
    assert_one_error(
        &output,
        &["nvidia-smi is not the file that parts.bin/nvidia-smi names"],
    );
}

/// `run WORDS` in a checkout whose `just` prints its words and the driver.
fn run(checkout: &Checkout, words: &[&str], driver: Option<&str>) -> Output {
    let mut command = checkout.script("image/driver/sources/with.sh");
    command.args(words);
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", checkout.top().display()))
        .env("FIRSTLIGHT_CACHE", checkout.path("cache"));
    if let Some(driver) = driver {
        command.env("FIRSTLIGHT_DRIVER", driver);
    }
    command.output().unwrap()
}

#[test]
fn the_word_after_driver_is_for_all_recipes_that_build_an_image() {
    let checkout = Checkout::new(&["image/"]).unwrap();
    let just = checkout.path("just");
    fs::write(&just, "#!/bin/sh\necho \"$* with $FIRSTLIGHT_DRIVER\"\n").unwrap();
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(&just)
            .status()
            .unwrap()
            .success()
    );
    let file = workspace()
        .join("image/driver/source.toml")
        .canonicalize()
        .unwrap();
    let file = file.to_str().unwrap();
    for (words, says) in [
        (&["image", "--driver", "none"][..], "image with none\n"),
        (
            &["usb", "--driver", "none", "/dev/sdx", "--yes"],
            "usb /dev/sdx --yes with none\n",
        ),
        (
            &["pxe", "--serve", "eth1", "--driver", file],
            &format!("pxe --serve eth1 with {file}\n"),
        ),
    ] {
        let output = run(&checkout, words, None);
        assert_eq!(String::from_utf8_lossy(&output.stdout), says, "{output:?}");
    }
    for (words, driver, says) in [
        (
            &["image", "--driver", "none"][..],
            Some("none"),
            "both --driver and FIRSTLIGHT_DRIVER are given: 'none' and 'none'",
        ),
        (&["image", "--driver"], None, "--driver needs a word"),
        (
            &["image", "--driver", "--without-p2p"],
            None,
            "--driver needs a word",
        ),
        (
            &["image", "--libraries", "--driver", "installed"],
            None,
            "--libraries needs a word",
        ),
        (
            &["image", "--driver", "new"],
            None,
            "--driver is 'new' (allowed: installed, none, a folder with .deb files",
        ),
        (
            &["image", "--driver", "none", "--driver", "none"],
            None,
            "--driver is given twice",
        ),
        (
            &["image", "--driver", "none", "--without-p2p"],
            None,
            "are for --driver installed and --driver FOLDER",
        ),
        (
            &["image", "--without-p2p"],
            None,
            "--without-p2p is for --driver installed and --driver FOLDER",
        ),
        (
            &["check", "--driver", "none"],
            None,
            "--driver is for image, media, usb, pxe, sign, vendor and driver",
        ),
        (
            &["image", "--driver", "none", "--offline", "x"],
            None,
            "--driver and --offline do not go together",
        ),
    ] {
        let output = run(&checkout, words, driver);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {output:?}");
        assert_one_error(&output, &[says]);
    }
}

#[test]
fn an_equals_sign_before_the_word_is_a_blank() {
    let checkout = Checkout::new(&["run", "image/"]).unwrap();
    let just = checkout.path("just");
    fs::write(
        &just,
        "#!/bin/sh\necho \"$* with ${FIRSTLIGHT_DRIVER:-nothing}\"\n",
    )
    .unwrap();
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(&just)
            .status()
            .unwrap()
            .success()
    );
    let run = |words: &[&str]| {
        let path = format!(
            "{}:{}",
            checkout.top().display(),
            std::env::var("PATH").unwrap()
        );
        checkout
            .script("run")
            .args(words)
            .env("PATH", path)
            .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
            .output()
            .unwrap()
    };
    for (words, says) in [
        (&["image", "--driver=none"][..], "image with none\n"),
        (
            &["usb", "/dev/sdx", "--driver=none", "a b=c"],
            "usb /dev/sdx a b=c with none\n",
        ),
        (&["sign", "--key=x", ""], "sign --key=x  with nothing\n"),
    ] {
        let output = run(words);
        assert_eq!(String::from_utf8_lossy(&output.stdout), says, "{output:?}");
    }
    for (words, says) in [
        (&["image", "--driver="][..], "--driver needs a word"),
        (
            &["image", "--driver=none", "--driver", "none"],
            "--driver is given twice",
        ),
        (
            &["image", "--driver=new", "--modules=x=y"],
            "--driver is 'new' (allowed: ",
        ),
        (
            &["image", "--driver=none", "--offline=x"],
            "--driver and --offline do not go together",
        ),
        (
            &["image", "--driver=none", "--arch=arm64"],
            "--driver and --arch do not go together",
        ),
        (
            &["driver", "--for=", "--driver=installed"],
            "--for needs a value",
        ),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {output:?}");
        assert_one_error(&output, &[says]);
    }
}
