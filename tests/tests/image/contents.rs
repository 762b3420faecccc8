//! Does the image contain what it should, and nothing of the tests? Nothing is booted: the tests read the files themselves.

use harness::Image;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

fn size(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn sizes_stay_within_their_limits() {
    let image = Image::shipped();
    let init = image.file("init").unwrap();
    assert!(
        init.data.len() <= 10 << 18,
        "/init has {} bytes",
        init.data.len()
    );
    let (both, driver) = (size(image.uki().unwrap()), driver_bytes(&image));
    assert!(
        both <= 95_000_000,
        "the UKI has {both} bytes with both flavours of the kernel"
    );
    // The UKI also contains the other flavour's kernel, as a profile; the limit for one flavour alone is lower.
    let uki = both - size(image.pt_kernel().unwrap());
    assert!(
        uki <= 90_000_000,
        "the UKI has {uki} bytes for one flavour of the kernel"
    );
    // The size without a driver: the driver's archive is a separate part behind the rest.
    let rest = uki - driver;
    assert!(
        rest <= 25_000_000,
        "the UKI without its driver ({driver} bytes) has {rest} bytes"
    );
}

/// The size of the driver in the UKI, in bytes; 0 in an image without a driver.
fn driver_bytes(image: &Image) -> u64 {
    let text = fs::read_to_string(image.uki().unwrap().with_file_name("firstlight.sizes")).unwrap();
    let bytes = text
        .lines()
        .find_map(|l| l.strip_prefix("driver "))
        .expect("a line 'driver BYTES'");
    bytes.parse().unwrap()
}

/// The driver image's files, unpacked; None in an image without a driver.
fn driver_image(image: &Image, to: &Path) -> Option<PathBuf> {
    let squashfs = image
        .files()
        .unwrap()
        .into_iter()
        .find(|f| f.path == "usr/lib/firstlight/driver.squashfs");
    assert_eq!(squashfs.is_some(), driver_bytes(image) > 0);
    let file = to.join("driver.squashfs");
    fs::write(&file, squashfs?.data).unwrap();
    let root = to.join("driver");
    let mut unpack = Command::new("unsquashfs");
    let output = unpack
        .args(["-quiet", "-no-progress", "-d"])
        .args([&root, &file])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(root)
}

/// Appends every file and link below a folder to `found`, by its path relative to `root`.
fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(root, &entry.path(), found)?;
        } else {
            found.push(
                entry
                    .path()
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// A second driver could bind the GPU first, or occupy its BAR1.
#[test]
fn there_is_exactly_one_gpu_driver_and_it_is_whole() {
    let image = Image::shipped();
    let dir = tempfile::tempdir().unwrap();
    let Some(root) = driver_image(&image, dir.path()) else {
        return;
    };
    let mut inside = Vec::new();
    walk(&root, &root, &mut inside).unwrap();
    let mut modules: Vec<_> = inside.iter().filter(|p| p.contains(".ko")).collect();
    modules.sort();
    assert_eq!(modules, ["modules/nvidia-uvm.ko", "modules/nvidia.ko"]);
    for file in image.files().unwrap() {
        let name = file.path.rsplit('/').next().unwrap();
        let other = name.starts_with("nvidia") && name.contains(".ko");
        assert!(!other, "a second driver: {}", file.path);
    }
    let text = fs::read_to_string(root.join("driver.toml")).unwrap();
    let description: toml::Table = text.parse().unwrap();
    assert_eq!(
        description["schema"].as_str(),
        Some("firstlight.driver-image/1")
    );
    let version = description["version"].as_str().unwrap();
    for must in [
        format!("lib/libcuda.so.{version}"),
        format!("lib/libnvidia-ml.so.{version}"),
        format!("firmware/nvidia/{version}/gsp_ga10x.bin"),
        "lib/libcuda.so.1".into(),
        "lib/libnvidia-ml.so.1".into(),
        "lib/libnccl.so.2".into(),
        "bin/nvidia-smi".into(),
        "doc/dropped".into(),
        "doc/nvidia-driver.copyright".into(),
        "doc/nvidia-modules.copyright".into(),
        "doc/nccl.copyright".into(),
    ] {
        assert!(
            root.join(&must).exists(),
            "{must} is missing or a dangling link"
        );
    }
    // no device id may be in two families, or its parameters would depend on their order
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for family in description["family"].as_array().unwrap() {
        for devices in family["devices"].as_array().unwrap() {
            let text = devices.as_str().unwrap();
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let range = [first, last].map(|id| u32::from_str_radix(id, 16).unwrap());
            assert!(range[0] <= range[1], "{text}");
            ranges.push(range.into());
        }
    }
    ranges.sort_unstable();
    assert!(
        ranges.windows(2).all(|pair| pair[0].1 < pair[1].0),
        "families overlap: {ranges:x?}"
    );
    // links in the root point into the mounted driver image
    for link in image.files().unwrap() {
        if let Some(target) = link
            .target()
            .and_then(|t| t.strip_prefix("/run/firstlight/driver/"))
        {
            assert!(
                root.join(target).exists(),
                "{} leads to {target}, which is not there",
                link.path
            );
        }
    }
}

#[test]
fn the_file_list_covers_the_driver_image() {
    let image = Image::shipped();
    let dir = tempfile::tempdir().unwrap();
    let Some(root) = driver_image(&image, dir.path()) else {
        return;
    };
    let mut inside = Vec::new();
    walk(&root, &root, &mut inside).unwrap();
    let list = image.file_list().unwrap();
    let listed: BTreeMap<_, _> = list
        .lines()
        .filter_map(|l| l.split_once('\t'))
        .filter_map(|(sum, rest)| {
            Some((
                rest.split('\t')
                    .next()?
                    .strip_prefix("/run/firstlight/driver/")?,
                sum,
            ))
        })
        .collect();
    assert_eq!(listed.len(), inside.len());
    for path in &inside {
        let sum = listed
            .get(path.as_str())
            .unwrap_or_else(|| panic!("{path} is not listed"));
        if let Ok(target) = fs::read_link(root.join(path)) {
            assert_eq!(*sum, format!("-> {}", target.display()), "{path}");
        } else {
            let output = Command::new("sha256sum")
                .arg(root.join(path))
                .output()
                .unwrap();
            assert_eq!(
                *sum,
                &String::from_utf8_lossy(&output.stdout)[..64],
                "{path}"
            );
        }
    }
}

#[test]
fn the_image_contains_nothing_of_the_tests_and_no_foreign_gpu_driver() {
    let files = Image::shipped().files().unwrap();
    assert!(files.len() > 20, "{} files only", files.len());
    for file in &files {
        let name = file.path.rsplit('/').next().unwrap();
        for foreign in [
            "fakepci",
            "nouveau",
            "nvidiafb",
            "nvidia-drm",
            "nvidia-modeset",
            "simgpu",
        ] {
            assert!(!name.contains(foreign), "{}", file.path);
        }
        assert!(
            !file.path.starts_with("t/") && !file.path.starts_with("sim/"),
            "{}",
            file.path
        );
        // The name that the simulated libraries give their GPUs.
        assert!(
            memchr::memmem::find(&file.data, b"Simulated ").is_none(),
            "{} simulates",
            file.path
        );
    }
}

#[test]
fn programs_are_executable_and_linked_as_intended() {
    let files = Image::shipped().files().unwrap();
    let find = |path: &str| {
        files
            .iter()
            .find(|f| f.path == path)
            .unwrap_or_else(|| panic!("no {path}"))
    };
    for program in ["init", "usr/bin/firstlight"] {
        let file = find(program);
        assert!(
            file.is_file() && file.mode & 0o111 == 0o111,
            "{program} cannot be run: {:o}",
            file.mode
        );
        assert!(file.data.starts_with(b"\x7fELF"), "{program}");
    }
    assert!(!wants_loader(&find("init").data), "/init is not static");
    assert!(
        wants_loader(&find("usr/bin/firstlight").data),
        "the validator must be able to load a driver"
    );
    let text = String::from_utf8(find("etc/firstlight/config.toml").data.clone()).unwrap();
    toml::from_str::<toml::Table>(&text).unwrap();
}

/// NCCL and the validator load libibverbs, which loads the provider of each RDMA card that it finds.
#[test]
fn every_rdma_module_has_its_provider_and_each_finds_its_libraries() {
    let image = Image::shipped();
    let files = image.files().unwrap();
    let below = |folder: &str| {
        let rest = |path: &str| path.split_once(folder).map(|(_, rest)| rest.to_owned());
        files
            .iter()
            .filter_map(|f| rest(&f.path))
            .collect::<Vec<_>>()
    };
    let modules: Vec<_> = [
        below("/drivers/infiniband/hw/"),
        below("/drivers/infiniband/sw/"),
    ]
    .concat();
    let modules: BTreeSet<_> = modules
        .iter()
        .filter_map(|path| path.split_once('/'))
        .map(|m| m.0)
        .collect();
    let named = below("etc/libibverbs.d/");
    let named: BTreeSet<_> = named
        .iter()
        .filter_map(|name| name.strip_suffix(".driver"))
        .collect();
    assert!(
        modules.contains("mlx5") && modules == named,
        "modules {modules:?}, providers {named:?}"
    );
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    image.unpack(&root, false).unwrap();
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let provider = |name: &str| {
        let driver =
            fs::read_to_string(root.join(format!("etc/libibverbs.d/{name}.driver"))).unwrap();
        let start = format!(
            "lib{}-rdmav",
            driver.trim().strip_prefix("driver ").unwrap()
        );
        let all = below("libibverbs/").into_iter();
        let found = all
            .filter(|file| file.starts_with(&start))
            .collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        format!("libibverbs/{}", found[0])
    };
    for library in named
        .iter()
        .map(|name| provider(name))
        .chain(["libibverbs.so.1".to_owned()])
    {
        let mut loader = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
        loader
            .arg("--library-path")
            .arg(&libraries)
            .arg("--list")
            .arg(libraries.join(&library));
        let output = loader.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains("libc.so.6 => "),
            "{library}: {text}"
        );
        let of_host = |line: &&str| {
            line.split_once(" => ")
                .is_some_and(|(_, found)| !found.starts_with(root.to_str().unwrap()))
        };
        let elsewhere: Vec<_> = text.lines().filter(of_host).collect();
        assert!(elsewhere.is_empty(), "{library}: {elsewhere:?}");
    }
}

/// True when a 64-bit ELF file has a program header PT_INTERP, which names the loader.
fn wants_loader(elf: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        elf[at..at + bytes]
            .iter()
            .rev()
            .fold(0, |n, b| n << 8 | usize::from(*b))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    assert!(count > 0, "no program headers");
    (0..count).any(|n| number(table + n * size, 4) == 3)
}

/// These parameters are built into the kernel, so that later parameters on the boot medium cannot undo them.
#[test]
fn the_kernels_built_in_command_line_keeps_iommu_and_acs_off() {
    let release = fs::read(Image::shipped().kernel().unwrap()).unwrap();
    // The kernel is compressed, so the test reads the configuration that it was built with.
    assert!(release.len() > 1_000_000);
    let config =
        fs::read_to_string(harness::workspace().join("kernel-config/resolved.config")).unwrap();
    let line = config
        .lines()
        .find_map(|l| l.strip_prefix("CONFIG_CMDLINE=\""))
        .expect("CONFIG_CMDLINE");
    for word in [
        "iommu=off,soft",
        "intel_iommu=off",
        "amd_iommu=off",
        "pci=config_acs=0000000@pci:0:0",
        "pcie_aspm.policy=performance",
    ] {
        assert!(
            line.trim_end_matches('"')
                .split_whitespace()
                .any(|w| w == word),
            "{word} not in {line}"
        );
    }
    assert!(!config.contains("CONFIG_CMDLINE_OVERRIDE=y"));
    assert!(
        !config
            .lines()
            .any(|l| l.starts_with("CONFIG_DRM_NOUVEAU=") || l.starts_with("CONFIG_FB_NVIDIA="))
    );
}

#[test]
fn the_file_list_names_every_file_with_its_hash_and_origin() {
    // These two files are made from the list.
    const AFTER: [&str; 2] = ["usr/lib/firstlight/files", "etc/firstlight/image.json"];
    let image = Image::shipped();
    let list = image.file_list().unwrap();
    let listed: Vec<Vec<_>> = list.lines().map(|l| l.split('\t').collect()).collect();
    assert!(
        listed.iter().all(|l| l.len() == 3 && !l[2].is_empty()),
        "hash, path, origin"
    );
    for file in image
        .files()
        .unwrap()
        .iter()
        .filter(|f| f.is_file() && !AFTER.contains(&f.path.as_str()))
    {
        let line = listed
            .iter()
            .find(|l| l[1].trim_start_matches('/') == file.path);
        let line = line.unwrap_or_else(|| panic!("{} is not listed", file.path));
        assert_eq!(line[0].len(), 64, "{line:?}");
    }
    assert_eq!(
        image.file("usr/lib/firstlight/files").unwrap().data,
        list.as_bytes()
    );
}
