//! Which inputs the driver's build accepts and refuses: each wrong input gives one clear error and leaves nothing half-built.
//! `--driver FOLDER` takes a driver from NVIDIA's two downloaded files, and names what is wrong with them. The tools trees must exist (`./run image`).

use harness::driver_inputs::{DriverInputs, REGISTRY, assert_one_error};
use harness::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn a_complete_installer_is_unpacked_and_a_truncated_one_is_refused() {
    let inputs = DriverInputs::new();
    let whole = inputs.installer("570.1.2");
    let output = inputs.script("run-file.sh", &[&whole, &inputs.path("to")]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "570.1.2\n",
        "{output:?}"
    );
    assert!(inputs.path("to/firmware/gsp_ga10x.bin").exists());

    let bytes = fs::read(&whole).unwrap();
    for (length, words) in [
        (bytes.len() - 1, "is cut off or damaged"),
        (bytes.len() / 2, "is cut off or damaged"),
        (20, "do not name skip="),
        (0, "do not name skip="),
    ] {
        let cut = inputs.write("cut.run", &bytes[..length]);
        // the hash matches, because the description was written from the truncated file
        inputs.tree("570.1.2");
        inputs.files("570.1.2", &cut, "");
        if length > 20 {
            inputs.assert_refused(&["cut.run", words]);
        } else {
            assert_one_error(
                &inputs.script("run-file.sh", &[&cut, &inputs.path("none")]),
                &["cut.run"],
            );
        }
    }
    // no MD5 in the header: unpacking the rest detects the truncation
    let text = String::from_utf8_lossy(&bytes[..200]).replace("MD5=", "NOT=");
    let header = text.split("exit 1\n").next().unwrap().to_owned() + "exit 1\n";
    let cut = [header.as_bytes(), &bytes[header.len()..bytes.len() / 2]].concat();
    let cut = inputs.write("cut.run", cut);
    assert_one_error(
        &inputs.script("run-file.sh", &[&cut, &inputs.path("none")]),
        &["cut.run", "cut off"],
    );
}

#[test]
fn a_file_with_another_hash_is_refused() {
    let inputs = DriverInputs::new();
    inputs.tree("570.1.2");
    let run = inputs.installer("570.1.2");
    inputs.files("570.1.2", &run, &"0".repeat(64));
    inputs.assert_refused(&[
        "is not the file that files.run_sha256 names",
        "expected 0000",
    ]);
}

#[test]
fn a_pair_of_two_versions_is_refused_and_both_are_named() {
    let inputs = DriverInputs::new();
    inputs.tree("570.1.3");
    let run = inputs.installer("570.1.2");
    inputs.files("570.1.2", &run, "");
    inputs.assert_refused(&[
        "NVIDIA-Linux-x86_64-570.1.2.run is version 570.1.2",
        "version 570.1.3",
    ]);
}

#[test]
fn a_folder_that_is_no_driver_tree_is_refused() {
    let inputs = DriverInputs::new();
    let run = inputs.installer("570.1.2");
    fs::create_dir(inputs.path("tree")).unwrap();
    inputs.files("570.1.2", &run, "");
    inputs.assert_refused(&["is not a tree of NVIDIA's open-gpu-kernel-modules"]);
}

#[test]
fn a_patch_that_does_not_fit_exactly_is_refused_by_name() {
    let inputs = DriverInputs::new();
    inputs.tree("570.1.2");
    let run = inputs.installer("570.1.2");
    inputs.files("570.1.2", &run, "");
    let text = fs::read_to_string(inputs.path("source.toml")).unwrap();
    let text = text
        .replace("patches = \"\"", "patches = \"patches\"")
        .replace("patch = \"\"", "patch = \"1\"");
    inputs.write("source.toml", text.replace("patch = \"1\"", "patch = \"\""));
    inputs.assert_refused(&["patch is empty; modules with patches or edits must name their level"]);
    inputs.write("source.toml", text.replace("\"ada\", ", ""));
    inputs.write(
        "patches/series",
        "# order\n0001-good.patch\n0002-fuzzy.patch\n",
    );
    let patch = |context: &str| {
        format!(
            "--- a/kernel-open/nvidia/nv.c\n+++ b/kernel-open/nvidia/nv.c\n@@ -1,3 +1,3 @@\n {context}\n-two\n+TWO\n three\n"
        )
    };
    inputs.write(
        "patches/0001-good.patch",
        patch("one").replace("TWO", "two again"),
    );
    // one context line differs: `patch` would apply it with fuzz 1
    inputs.write(
        "patches/0002-fuzzy.patch",
        patch("ONE").replace("-two", "-two again"),
    );
    inputs.assert_refused(&["patch 0002-fuzzy.patch does not apply"]);

    inputs.write("patches/series", "0003-none.patch\n");
    inputs.assert_refused(&["0003-none.patch", "not there"]);
}

#[test]
fn a_description_with_a_mistake_is_refused() {
    for (from, to, words) in [
        ("patch = \"1\"", "patc = \"1\"", "key patc"),
        ("source = \"debian\"", "source = \"debain\"", "'debain'"),
        (
            "\"ampere\"",
            "\"ampre\"",
            "'ampre' is not a family; allowed: turing, ampere",
        ),
        ("[registry]", "[registri]", "key regist"),
        (
            "[registry]",
            "[registry]\n[[family]]",
            "are in image/driver/description/families.toml",
        ),
        (
            "nccl = \"debian\"",
            "nccl = \"own\"",
            "nccl is 'own', not debian or wheel",
        ),
        (
            "run_sha256 = \"\"",
            "run_sha256 = \"abc\"",
            "is not a SHA256",
        ),
        (
            "schema = \"firstlight.driver-source/4\"",
            "schema = \"2\"",
            "schema is '2'",
        ),
    ] {
        let inputs = DriverInputs::new();
        inputs.description(&[(from, to)]);
        let output = inputs.script("build.sh", &[&inputs.path("kernel")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(words),
            "{to}: {text}"
        );
    }
}

/// The same number can mean something else in another driver version.
#[test]
fn a_registry_key_that_means_something_else_in_the_tree_is_refused() {
    for (version, patch, from, to, words) in [
        (
            "570.1.2",
            "",
            "\"ada\"",
            "\"blackwell\"",
            "blackwell needs a driver of version 580 and newer; this is 570.1.2",
        ),
        (
            "570.1.2",
            "1",
            "\"ada\"",
            "\"ampere-geforce\"",
            "ampere-geforce needs a driver of version 580 and newer; this is 570.1.2",
        ),
        (
            "575.1.2",
            "1",
            "",
            "",
            "ada needs a driver of version 550 and newer before 575 or 580 and newer",
        ),
        (
            "570.1.2",
            "1",
            "",
            "",
            "family ada: 570.1.2: RMForceP2PType has no value BAR1P2P there; allowed: DEFAULT (0)",
        ),
        (
            "580.1.2",
            "",
            "\"ada\"",
            "\"blackwell\"",
            "family blackwell: 580.1.2: the header has no key RMPcieP2PType",
        ),
        (
            "580.1.2",
            "",
            "[registry]",
            "[registry]\nRMForceP2PType = \"BAR1\"",
            "RMForceP2PType has no value BAR1 there",
        ),
        (
            "580.1.2",
            "",
            "[registry]",
            "[registry]\nRMForceP2PType = 2",
            "RMForceP2PType=2 means NVLINK, MAX there",
        ),
        (
            "580.1.2",
            "",
            "[registry]",
            "[registry]\nForceP2P = 17",
            "write them by name: READ, WRITE",
        ),
        (
            "580.1.2",
            "",
            "[registry]",
            "[registry]\nForceP2P = { ATOMICS = \"ENABLE\" }",
            "has no field ATOMICS",
        ),
        (
            "580.1.2",
            "",
            "[parameters.nvidia]",
            "[parameters.nvidia]\nNVreg_RegistryDwords = \"RMPeerId=3;RMForceP2PType=2\"",
            "RMForceP2PType=2 means NVLINK, MAX there",
        ),
        (
            "580.1.2",
            "",
            "[parameters.nvidia]",
            "[parameters.nvidia]\nNVreg_RegistryDwords = \"RMPeerID=3\"",
            "the header has no key RMPeerID",
        ),
    ] {
        let inputs = DriverInputs::new();
        inputs.tree(version);
        let run = inputs.installer(version);
        inputs.files(version, &run, "");
        let text = fs::read_to_string(inputs.path("source.toml")).unwrap();
        let text = text
            .replace("patch = \"\"", &format!("patch = \"{patch}\""))
            .replace(from, to);
        inputs.write(
            "source.toml",
            text.replace("nccl = \"debian\"", "nccl = \"wheel\""),
        );
        inputs.assert_refused(&[words]);
        if version == "580.1.2" && to.contains("blackwell") {
            inputs.write("source.toml", text);
            inputs.assert_refused(&[
                "nccl: the archive's NCCL has no code for blackwell; nccl = \"wheel\" has it",
            ]);
        }
    }
}

#[test]
fn registry_keys_use_the_numbers_of_the_tree_itself() {
    let inputs = DriverInputs::new();
    let tree = inputs.tree("580.1.2");
    let look = || {
        inputs.description(&[("patches = \"patches/555.58.02\"", "patches = \"\"")]);
        let output = inputs.script("look.sh", &[&tree]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = look();
    assert!(
        text.starts_with("version 580.1.2\n") && text.ends_with("patches  none described\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "patched  ada: refused: families.toml: family ada: 580.1.2: the header has no key RMPcieP2PType\n"
        )
    );
    assert!(text.contains("as it is  ada: no keys\n"), "{text}");
    // A header whose numbers and bits differ from NVIDIA's.
    let header = REGISTRY
        .replace("5:4", "9:7")
        .replace("READ_ENABLE  0x00000001", "READ_ENABLE  2")
        + "#define T \"RMPcieP2PType\"\n#define T_BAR1 T_X\n#define T_X 0x0A\n\
           #define S \"RMForceStaticBar1\"\n#define S_ENABLE (7u) /* of all */\n";
    inputs.write("tree/src/nvidia/interface/nvrm_registry.h", header);
    let keys = "ForceP2P=130;RMPcieP2PType=10;RMForceStaticBar1=7\n";
    let text = look();
    assert!(
        text.contains(&format!("patched  ada: {keys}"))
            && text.contains(&format!("as it is  blackwell: {keys}")),
        "{text}"
    );
}

const VERSION: &str = "590.1.2";

/// A modules tree and an installer of these versions in `folder`, both with file names of `VERSION`.
fn matching_inputs(modules: &str, run: &str) -> DriverInputs {
    let inputs = DriverInputs::new();
    fs::create_dir(inputs.path("folder")).unwrap();
    inputs.tree(modules);
    fs::rename(
        inputs.path("tree"),
        inputs.path(&format!("folder/open-gpu-kernel-modules-{VERSION}")),
    )
    .unwrap();
    let installer = inputs.installer(run);
    fs::rename(
        installer,
        inputs.path(&format!("folder/NVIDIA-Linux-x86_64-{VERSION}.run")),
    )
    .unwrap();
    inputs
}

fn choose(inputs: &DriverInputs, words: &[&str]) -> Output {
    let folder = inputs.path("folder");
    let words: Vec<_> = [&folder]
        .into_iter()
        .map(PathBuf::as_path)
        .chain(words.iter().map(Path::new))
        .collect();
    inputs.script("choose.sh", &words)
}

#[track_caller]
fn assert_refused(inputs: &DriverInputs, words: &[&str], says: &[&str]) {
    assert_one_error(&choose(inputs, words), says);
    let left = inputs.path("cache/driver");
    assert!(!left.exists() || fs::read_dir(left).unwrap().next().is_none());
}

#[test]
fn two_matching_files_are_described_and_the_build_accepts_the_description() {
    let inputs = matching_inputs(VERSION, VERSION);
    let output = choose(&inputs, &["--without-p2p"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let path = PathBuf::from(String::from_utf8(output.stdout.clone()).unwrap().trim());
    assert!(
        path.starts_with(inputs.path("cache/driver")),
        "{}",
        path.display()
    );
    let text = fs::read_to_string(&path).unwrap();
    for line in [
        "version = \"590.1.2\"",
        "source = \"parts\"",
        "resource_manager = \"source\"",
        "peer_to_peer = false",
        "patches = \"\"",
        "patch = \"\"",
        "families = [\"ampere\", \"hopper\", \"ada\", \"ada-other\", \"blackwell\"]",
        "nccl = \"wheel\"",
        "modules = \"modules.tar\"",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in {text}");
    }
    assert!(
        text.contains("\"NVIDIA-Linux-x86_64-590.1.2.run\" = \""),
        "{text}"
    );
    // The build accepts the description and fails only in the compiler, because this tree has no real sources.
    inputs.write("kernel/release", "6.12-firstlight\n");
    let mut build = Command::new(workspace().join("image/driver/build.sh"));
    build
        .arg(inputs.path("kernel"))
        .env("FIRSTLIGHT_CACHE", inputs.path("cache"))
        .env("FIRSTLIGHT_DRIVER", path);
    assert_one_error(
        &build.output().unwrap(),
        &["the driver's modules do not build"],
    );
}

#[test]
fn only_the_named_families_are_described() {
    let inputs = matching_inputs(VERSION, VERSION);
    let header =
        format!("folder/open-gpu-kernel-modules-{VERSION}/src/nvidia/interface/nvrm_registry.h");
    let more = "#define T \"RMPcieP2PType\"\n#define T_BAR1 1\n#define S \"RMForceStaticBar1\"\n#define S_ENABLE 1\n";
    inputs.write(&header, REGISTRY.to_owned() + more);
    let output = choose(&inputs, &["--families", "hopper"]);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(String::from_utf8(output.stdout).unwrap().trim()).unwrap();
    assert!(text.contains("families = [\"hopper\"]\n"), "{text}");
    // The tree is not NVIDIA's: the edits that RTX 40 needs do not fit.
    assert_refused(
        &matching_inputs(VERSION, VERSION),
        &["--families", "ada"],
        &["does not fit: edits: ", "ada has no peer-to-peer"],
    );
}

/// What init reads of an image for these families, each with its keys.
fn families_of_image(names: &str) -> Vec<(String, Vec<String>, bool)> {
    let inputs = DriverInputs::new();
    let more = "#define T \"RMPcieP2PType\"\n#define T_BAR1 1\n#define S \"RMForceStaticBar1\"\n#define S_ENABLE 1\n";
    let header = inputs.write("nvrm_registry.h", REGISTRY.to_owned() + more);
    let description = inputs.description(&[
        ("version = \"555.58.02\"", "version = \"590.1.2\""),
        ("patches = \"patches/555.58.02\"", "patches = \"\""),
        ("edits = \"\"", "edits = \"edits/bar1\""),
        ("\"ampere\", \"hopper\", \"ada\", \"ada-other\"", names),
    ]);
    let bind = |from: &Path, to: &str| format!("{}:/build/{to}", from.display());
    let output = Command::new(workspace().join("image/in-tools.sh"))
        .args([
            "tools",
            "--bind",
            &bind(&workspace().join("image/driver"), "scripts"),
        ])
        .args([
            "--bind",
            &bind(&description, "source.toml"),
            "--bind",
            &bind(&header, "nvrm_registry.h"),
        ])
        .args([
            "python3",
            "-B",
            "scripts/description/describe.py",
            "image",
            "source.toml",
            "nvrm_registry.h",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let image: toml::Table = toml::from_str(std::str::from_utf8(&output.stdout).unwrap()).unwrap();
    let words = |value: &toml::Value| {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d.as_str().unwrap().to_owned())
            .collect()
    };
    let family = |f: &toml::Value| {
        (
            f["name"].as_str().unwrap().to_owned(),
            words(&f["devices"]),
            f.get("parameters").is_some(),
        )
    };
    image["family"]
        .as_array()
        .unwrap()
        .iter()
        .map(family)
        .collect()
}

/// init gives a GPU the keys of the first family that has it.
#[test]
fn the_devices_of_a_part_are_in_the_whole_family_unless_the_part_is_named() {
    let has = |devices: &[String], id: u16| {
        let within = |range: &String| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text| u16::from_str_radix(text, 16).unwrap();
            (number(first)..=number(last)).contains(&id)
        };
        devices.iter().filter(|range| within(range)).count()
    };
    let alone = families_of_image("\"ampere\"");
    let [(name, whole, keys)] = &alone[..] else {
        panic!("{alone:?}")
    };
    assert_eq!((name.as_str(), keys), ("ampere", &false));
    let both = families_of_image("\"ampere\", \"ampere-geforce\"");
    let [(_, others, false), (part, desktop, true)] = &both[..] else {
        panic!("{both:?}")
    };
    assert_eq!(part, "ampere-geforce");
    for id in 0..=u16::MAX {
        assert_eq!(
            has(whole, id),
            has(others, id) + has(desktop, id),
            "{id:04x}"
        );
    }
    // RTX 3090, 3060 and 3050; RTX A6000, A10G, RTX 3080 Laptop, A100.
    for id in [0x2204, 0x2503, 0x2584] {
        assert_eq!((has(others, id), has(desktop, id)), (0, 1), "{id:04x}");
    }
    for id in [0x2230, 0x2237, 0x249c, 0x20b2] {
        assert_eq!((has(others, id), has(desktop, id)), (1, 0), "{id:04x}");
    }
}

#[test]
fn missing_or_wrong_inputs_are_named_and_nothing_is_written() {
    let empty = DriverInputs::new();
    fs::create_dir(empty.path("folder")).unwrap();
    assert_refused(
        &empty,
        &[],
        &[
            "has neither .deb files nor NVIDIA's installer (allowed: ",
            "NVIDIA-Linux-x86_64-VERSION.run",
        ],
    );
    let lone = matching_inputs(VERSION, VERSION);
    fs::remove_dir_all(lone.path(&format!("folder/open-gpu-kernel-modules-{VERSION}"))).unwrap();
    assert_refused(
        &lone,
        &[],
        &[
            "the modules' source is missing: ",
            "tag 590.1.2 of github.com/NVIDIA",
        ],
    );
    assert_refused(
        &matching_inputs("590.1.3", VERSION),
        &[],
        &["open-gpu-kernel-modules-590.1.2 are version 590.1.3, libcuda.so is version 590.1.2"],
    );
    assert_refused(
        &matching_inputs(VERSION, VERSION),
        &["--families", "blackwell"],
        &["RMPcieP2PType"],
    );
    assert_refused(
        &matching_inputs(VERSION, VERSION),
        &["--families", "adda"],
        &["'adda' is not a family; allowed: all, turing"],
    );
    let foreign = matching_inputs(VERSION, VERSION);
    let run = foreign.installer_for(VERSION, 183);
    fs::rename(
        run,
        foreign.path(&format!("folder/NVIDIA-Linux-x86_64-{VERSION}.run")),
    )
    .unwrap();
    assert_refused(
        &foreign,
        &[],
        &["libcuda.so.590.1.2 is for another processor: arm64, not x86-64"],
    );
    let outside = matching_inputs(VERSION, VERSION);
    let run = format!("folder/NVIDIA-Linux-x86_64-{VERSION}.run");
    fs::rename(outside.path(&run), outside.path("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", outside.path(&run)).unwrap();
    assert_refused(&outside, &[], &["is a link out of the folder"]);
    let two = matching_inputs(VERSION, VERSION);
    two.write("folder/other.run", "");
    assert_refused(&two, &[], &["has 2 installers, not one"]);
}

#[test]
fn the_earlier_recipe_prints_the_new_command() {
    let inputs = DriverInputs::new();
    let output = inputs.script(
        "files.sh",
        &["590.1.2", "DIR", "ada", "blackwell"].map(Path::new),
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "./run image --driver DIR --families ada,blackwell\n"
    );
    assert_one_error(
        &inputs.script("files.sh", &[]),
        &["driver-files takes a version and a folder"],
    );
}
