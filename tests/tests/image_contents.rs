//! Is in the image what should be, and nothing of the tests? No boot: the files themselves are read.

use harness::Image;
use std::fs;
use std::path::Path;

fn size(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn sizes_stay_within_their_promise() {
    let image = Image::shipped();
    let init = image.file("init").unwrap();
    assert!(init.data.len() <= 2_000_000, "/init has {} bytes", init.data.len());
    let uki = size(image.uki().unwrap());
    assert!(uki <= 25_000_000, "the UKI has {uki} bytes");
}

#[test]
fn nothing_of_the_tests_and_no_foreign_gpu_driver_is_in_it() {
    let files = Image::shipped().files().unwrap();
    assert!(files.len() > 20, "{} files only", files.len());
    for file in &files {
        let name = file.path.rsplit('/').next().unwrap();
        for foreign in ["fakepci", "nouveau", "nvidiafb", "simgpu"] {
            assert!(!name.contains(foreign), "{}", file.path);
        }
        assert!(!file.path.starts_with("t/"), "{}", file.path);
    }
}

#[test]
fn programs_are_what_they_should_be() {
    let files = Image::shipped().files().unwrap();
    let find = |path: &str| files.iter().find(|f| f.path == path).unwrap_or_else(|| panic!("no {path}"));
    for program in ["init", "usr/bin/firstlight"] {
        let file = find(program);
        assert!(file.is_file() && file.mode & 0o111 == 0o111, "{program} cannot be run: {:o}", file.mode);
        assert!(file.data.starts_with(b"\x7fELF"), "{program}");
    }
    assert!(!wants_loader(&find("init").data), "/init is not static");
    assert!(wants_loader(&find("usr/bin/firstlight").data), "the validator must be able to load a driver");
    let text = String::from_utf8(find("etc/firstlight/config.toml").data.clone()).unwrap();
    toml::from_str::<toml::Table>(&text).unwrap();
}

/// True when a 64-bit ELF file has a program header PT_INTERP, the loader's name.
fn wants_loader(elf: &[u8]) -> bool {
    let number =
        |at: usize, bytes: usize| elf[at..at + bytes].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    assert!(count > 0, "no program headers");
    (0..count).any(|n| number(table + n * size, 4) == 3)
}

/// What later words on the boot medium cannot undo stands in the kernel itself.
#[test]
fn the_kernels_built_in_command_line_keeps_iommu_and_acs_off() {
    let release = fs::read(Image::shipped().kernel().unwrap()).unwrap();
    // The kernel is compressed: its own configuration is the witness.
    assert!(release.len() > 1_000_000);
    let config = fs::read_to_string(harness::workspace().join("kernel-config/resolved.config")).unwrap();
    let line = config.lines().find_map(|l| l.strip_prefix("CONFIG_CMDLINE=\"")).expect("CONFIG_CMDLINE");
    for word in [
        "iommu=off,soft",
        "intel_iommu=off",
        "amd_iommu=off",
        "pci=config_acs=0000000@pci:0:0",
        "pcie_aspm.policy=performance",
    ] {
        assert!(line.trim_end_matches('"').split_whitespace().any(|w| w == word), "{word} not in {line}");
    }
    assert!(!config.contains("CONFIG_CMDLINE_OVERRIDE=y"));
    assert!(
        !config.lines().any(|l| l.starts_with("CONFIG_DRM_NOUVEAU=") || l.starts_with("CONFIG_FB_NVIDIA="))
    );
}

#[test]
fn the_file_list_names_every_file_with_its_hash_and_where_it_is_from() {
    // These two are made from the list.
    const AFTER: [&str; 2] = ["usr/lib/firstlight/files", "etc/firstlight/image.json"];
    let image = Image::shipped();
    let list = image.file_list().unwrap();
    let listed: Vec<Vec<_>> = list.lines().map(|l| l.split('\t').collect()).collect();
    assert!(listed.iter().all(|l| l.len() == 3 && !l[2].is_empty()), "hash, path, origin");
    for file in image.files().unwrap().iter().filter(|f| f.is_file() && !AFTER.contains(&f.path.as_str())) {
        let line = listed.iter().find(|l| l[1].trim_start_matches('/') == file.path);
        let line = line.unwrap_or_else(|| panic!("{} is not listed", file.path));
        assert_eq!(line[0].len(), 64, "{line:?}");
    }
    assert_eq!(image.file("usr/lib/firstlight/files").unwrap().data, list.as_bytes());
}
