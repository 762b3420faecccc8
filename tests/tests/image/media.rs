//! Do all boot media contain the same kernel and initrd, offer the same entries, and stay within their sizes?

use harness::stick::{CD_SYSTEM, DATA, SYSTEM, Stick, profiles, section, sections};
use harness::{Image, workspace};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

const UKI_ON_STICK: &str = "EFI/Linux/firstlight.efi";

#[test]
fn every_medium_holds_the_same_kernel_and_initrd() {
    let image = Image::shipped();
    let initrd = bytes(image.initrd().unwrap());
    let kernels = BTreeMap::from([
        ("off", bytes(image.kernel().unwrap())),
        ("pt", bytes(image.pt_kernel().unwrap())),
    ]);
    let pxe = image.pxe().unwrap();
    assert!(
        bytes(pxe.join("vmlinuz")) == kernels["off"]
            && bytes(pxe.join("vmlinuz-pt")) == kernels["pt"]
    );
    assert!(bytes(pxe.join("initrd")) == initrd);

    let uki = bytes(image.uki().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let stick = Stick::shipped(dir.path()).unwrap();
    assert!(
        stick.get(SYSTEM, UKI_ON_STICK).unwrap() == uki,
        "the stick has a different UKI"
    );
    let cd = Stick::copy(&image.iso().unwrap(), dir.path()).unwrap();
    assert!(
        cd.get(CD_SYSTEM, UKI_ON_STICK).unwrap() == uki,
        "the CD has a different UKI"
    );
    assert!(
        bytes(pxe.join("firstlight.efi")) == uki,
        "the network folder has a different UKI"
    );

    let all = sections(&uki).unwrap();
    assert_eq!(
        all.iter().filter(|s| s.0 == ".initrd").count(),
        1,
        "the initrd is in it more than once"
    );
    let entries = image.entries().unwrap();
    let profiles = profiles(&all);
    assert_eq!(profiles.len(), entries.len());
    for (profile, [id, kernel, title, words]) in profiles.iter().zip(&entries) {
        let text = |name| String::from_utf8_lossy(section(profile, name).unwrap()).into_owned();
        let about = text(".profile");
        assert!(
            about.lines().any(|l| l == format!("ID={id}")) && about.contains(title),
            "{id}: {about}"
        );
        assert_eq!(&text(".cmdline"), words);
        assert!(
            section(profile, ".linux").unwrap() == kernels[kernel.as_str()],
            "{id}: another kernel"
        );
        assert!(
            section(profile, ".initrd").unwrap() == initrd,
            "{id}: another initrd"
        );
    }
    let alone = bytes(pxe.join("firstlight-pt.efi"));
    let alone = sections(&alone).unwrap();
    assert!(section(&alone, ".linux").unwrap() == kernels["pt"]);
    assert!(section(&alone, ".initrd").unwrap() == initrd);
}

#[test]
fn the_network_menu_offers_the_same_entries_with_the_same_parameters() {
    let image = Image::shipped();
    let script = String::from_utf8(bytes(image.pxe().unwrap().join("boot.ipxe"))).unwrap();
    assert!(script.starts_with("#!ipxe\n"));
    let entries = image.entries().unwrap();
    for [id, kernel, title, words] in &entries {
        assert!(
            script
                .lines()
                .any(|l| l.starts_with(&format!("item {id} ")) && l.ends_with(title)),
            "{id}"
        );
        let file = if kernel == "pt" {
            "vmlinuz-pt"
        } else {
            "vmlinuz"
        };
        let line = format!("kernel {file} initrd=initrd {words} BOOTIF=");
        let after = script.split(&format!("\n:{id}\n")).nth(1).unwrap();
        assert!(after.starts_with(&line), "{id}: {after}");
    }
    assert!(
        script.contains(&format!("set entry {}\n", entries[0][0])),
        "the default is a different one"
    );
    // The paths are relative: the folder may be anywhere on a server.
    assert!(
        !script.contains("http:") && !script.contains("tftp:"),
        "{script}"
    );
}

#[test]
fn the_entry_shell_is_only_in_images_built_for_it() {
    let entries = workspace().join("image/media/entries.py");
    let table = |words: &[&str]| {
        let mut command = Command::new(&entries);
        let output = command
            .arg(workspace().join("image/media/entries.toml"))
            .args(words)
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let image = Image::shipped();
    let own = image.file("etc/firstlight/config.toml").unwrap().data;
    let allowed = String::from_utf8(own)
        .unwrap()
        .contains("allow_shell = true");
    assert_eq!(
        allowed,
        image
            .entries()
            .unwrap()
            .iter()
            .any(|entry| entry[0] == "shell")
    );
    let has_shell = |text: &str| text.lines().any(|l| l.starts_with("shell\t"));
    let (success, text) = table(&["table"]);
    assert!(
        success && text.starts_with("default\t") && !has_shell(&text),
        "{text}"
    );
    let (success, text) = table(&["table", "shell"]);
    assert!(success && has_shell(&text), "{text}");
    let (success, text) = table(&["table", "shel"]);
    assert!(
        !success && text.contains("'shel'") && text.contains("allowed: shell"),
        "{text}"
    );
}

#[test]
fn the_readme_shows_the_entries() {
    let script = workspace().join("image/media/entries.py");
    let mut command = Command::new(script);
    let output = command
        .arg(workspace().join("image/media/entries.toml"))
        .args(["markdown", "shell"])
        .output();
    let table = String::from_utf8(output.unwrap().stdout).unwrap();
    let page = fs::read_to_string(workspace().join("docs/image.md")).unwrap();
    let block = format!("<!-- entries -->\n{table}<!-- /entries -->\n");
    assert!(
        table.lines().count() > 5 && page.contains(&block),
        "docs/image.md lacks:\n{block}"
    );
}

#[test]
fn a_mistake_in_the_file_of_entries_is_reported_in_one_line() {
    let good = fs::read_to_string(workspace().join("image/media/entries.toml")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (from, to, words) in [
        ("id = \"quick\"", "id = \"full\"", "two entries"),
        ("id = \"quick\"", "id = \"menu\"", "'menu'"),
        ("id = \"quick\"", "id = \"Quick\"", "'Quick'"),
        ("kernel = \"pt\"", "kernel = \"on\"", "allowed: off, pt"),
        ("when = \"after", "wen = \"after", "key wen"),
        ("words = \"\"", "words = \"quiet\"", "the first entry"),
        ("common = ", "comon = ", "missing key common"),
    ] {
        assert!(good.contains(from), "{from}");
        let file = dir.path().join("entries.toml");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let mut command = Command::new(workspace().join("image/media/entries.py"));
        let output = command.arg(&file).arg("table").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(words) && text.lines().count() == 1,
            "{to}: {text}"
        );
    }
}

#[test]
fn the_stick_has_a_system_and_a_data_partition_and_is_little_larger_than_the_uki() {
    let image = Image::shipped();
    let uki = fs::metadata(image.uki().unwrap()).unwrap().len();
    let file = fs::metadata(image.usb().unwrap()).unwrap();
    assert!(
        file.len() <= uki + 100_000_000,
        "{} bytes for a UKI of {uki}",
        file.len()
    );
    assert!(file.blocks() * 512 <= file.len());

    let dir = tempfile::tempdir().unwrap();
    let stick = Stick::shipped(dir.path()).unwrap();
    let names: Vec<_> = stick.partitions().iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, [SYSTEM, DATA]);
    let whole = bytes(stick.path());
    for partition in stick.partitions() {
        let start = usize::try_from(partition.start).unwrap();
        // Firmware reads sectors of 512 bytes; it cannot read a FAT with larger ones.
        assert_eq!(whole[start + 11..start + 13], [0, 2], "{}", partition.name);
        let label = String::from_utf8_lossy(&whole[start + 71..start + 82])
            .trim()
            .to_owned();
        assert_eq!(label, partition.name);
    }
    assert_eq!(stick.list(SYSTEM, "EFI/BOOT").unwrap(), ["BOOTX64.EFI"]);
    let data = stick.list(DATA, "/").unwrap();
    assert!(
        data.iter().any(|n| n == "README.TXT") && !data.iter().any(|n| n == "config.toml"),
        "{data:?}"
    );
}

/// The CD image has the same system as the stick; written to a stick, it is a disk that firmware can boot.
#[test]
fn the_cd_has_the_sticks_system_except_for_the_parts_that_only_a_stick_has() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Stick::shipped(dir.path()).unwrap();
    let cd = Stick::copy(&Image::shipped().iso().unwrap(), dir.path()).unwrap();
    for file in ["EFI/BOOT/BOOTX64.EFI", "loader/loader.conf"] {
        assert!(
            stick.get(SYSTEM, file).unwrap() == cd.get(CD_SYSTEM, file).unwrap(),
            "{file} differs"
        );
    }
    assert_eq!(cd.list(CD_SYSTEM, "EFI/Linux").unwrap(), ["firstlight.efi"]);
    let whole = bytes(cd.path());
    let volume = whole.get(16 * 2048..17 * 2048).unwrap();
    assert_eq!(
        (&volume[1..6], volume[40..72].trim_ascii_end()),
        (&b"CD001"[..], &b"FIRSTLIGHT-ISO"[..])
    );
    let partition = cd
        .partitions()
        .iter()
        .find(|p| p.name == CD_SYSTEM)
        .unwrap();
    // A CD's sectors have 2048 bytes; there is less than 1 MiB besides the partition.
    assert_eq!(
        (
            partition.start % 2048,
            whole.len() as u64 - partition.bytes < 1 << 20
        ),
        (0, true)
    );
}

#[test]
fn the_checksums_of_the_network_folder_are_complete_and_right() {
    let pxe = Image::shipped().pxe().unwrap();
    let mut check = Command::new("sha256sum");
    let output = check
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(&pxe)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = fs::read_to_string(pxe.join("SHA256SUMS")).unwrap();
    for file in [
        "vmlinuz",
        "vmlinuz-pt",
        "initrd",
        "firstlight.efi",
        "boot.ipxe",
        "undionly.kpxe",
        "ipxe.efi",
    ] {
        assert!(
            listed.lines().any(|l| l.ends_with(&format!("  {file}"))),
            "{file} is not listed"
        );
    }
    for entry in fs::read_dir(&pxe)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().is_file())
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(
            name == "SHA256SUMS" || listed.contains(&format!("  {name}\n")),
            "{name} is not listed"
        );
    }
}
