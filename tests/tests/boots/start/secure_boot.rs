//! Under Secure Boot with keys of one's own: does the signed image boot to a hand-over, and is what was not signed,
//! or was changed afterwards, refused by whoever starts it?

use harness::medium::MAC;
use harness::serve::Served;
use harness::signed::Signed;
use harness::stick::{DATA, SYSTEM, Stick};
use harness::{Boot, Booted, End, Image, Medium};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

const UKI: &str = "EFI/Linux/firstlight.efi";
const ADDON: &str = "EFI/Linux/firstlight.efi.extra.d/stick.addon.efi";
/// Fetching and hashing 95 MB is slow in an emulator.
const DEADLINE: Duration = Duration::from_secs(900);

static SIGNED: LazyLock<Signed> = LazyLock::new(|| Signed::shipped("secure-boot").unwrap());

fn boot(medium: Medium, variables: &Path) -> Boot {
    Boot::shipped()
        .memory(2048)
        .from(medium)
        .secure(variables)
        .append("firstlight.expect.gpus=0")
        .deadline(DEADLINE)
}

/// The signed stick with `change` made to it, and firmware that has the keys.
fn stick(change: impl FnOnce(&Stick)) -> (TempDir, Boot, Stick) {
    let dir = tempfile::tempdir().unwrap();
    let variables = SIGNED.variables(dir.path()).unwrap();
    let stick = Stick::copy(&SIGNED.folder().join("firstlight-usb.img"), dir.path()).unwrap();
    change(&stick);
    let boot = boot(Medium::Stick(stick.path().into()), &variables);
    (dir, boot, stick)
}

/// One bit of it.
fn changed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

#[track_caller]
fn handed_over(booted: &Booted) {
    booted.says("EFI stub: UEFI Secure Boot is enabled.");
    booted.says("firmware  secure boot on\n");
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("demo workload: done");
    booted.ended(&End::PowerOff);
}

/// The report, and with it what the kernel was told.
fn words(stick: &Stick) -> String {
    let [name] = &stick.list(DATA, "reports").unwrap()[..] else { panic!("not one report") };
    let report = stick.get(DATA, &format!("reports/{name}")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    report["machine"]["cmdline"].as_str().unwrap().to_owned()
}

#[test]
fn the_signed_stick_boots_to_a_hand_over_and_says_that_secure_boot_is_on() {
    let (_dir, boot, stick) = stick(|_| ());
    handed_over(&boot.run().unwrap());
    assert!(words(&stick).contains("firstlight.booted_from=stick"), "{}", words(&stick));
}

#[track_caller]
fn refused(boot: Boot, said: &str) {
    let booted = boot.stop_after(said, Duration::from_secs(5)).run().unwrap();
    booted.never_says("firstlight-init");
    booted.never_says("EFI stub:");
}

#[test]
fn the_unsigned_stick_is_refused_by_the_firmware() {
    let dir = tempfile::tempdir().unwrap();
    let variables = SIGNED.variables(dir.path()).unwrap();
    let stick = Stick::shipped(dir.path()).unwrap();
    let boot = boot(Medium::Stick(stick.path().into()), &variables);
    refused(boot, "BdsDxe: failed to load Boot0001");
}

#[test]
fn an_unsigned_image_on_the_signed_stick_is_refused() {
    let uki = fs::read(Image::shipped().uki().unwrap()).unwrap();
    let (_dir, boot, _) = stick(|s| s.put(SYSTEM, UKI, uki).unwrap());
    refused(boot, r"Error loading \EFI\Linux\firstlight.efi: Access denied");
}

#[test]
fn one_changed_bit_in_the_middle_of_the_signed_image_is_refused() {
    let (_dir, boot, _) = stick(|s| {
        let uki = s.get(SYSTEM, UKI).unwrap();
        let middle = uki.len() / 2;
        s.put(SYSTEM, UKI, changed(uki, middle)).unwrap();
    });
    refused(boot, r"Error loading \EFI\Linux\firstlight.efi: Access denied");
}

/// The words that it carries do not count; the rest boots, here another entry: a profile with a kernel of its own, since
/// the kernels within the UKI have no signature.
#[test]
fn a_changed_addon_is_refused_and_another_entry_boots_without_its_words() {
    let (_dir, boot, stick) = stick(|s| {
        let addon = s.get(SYSTEM, ADDON).unwrap();
        let at = addon.windows(11).position(|w| w == b"booted_from").unwrap();
        s.put(SYSTEM, ADDON, changed(addon, at)).unwrap();
        s.put(SYSTEM, "loader/loader.conf", "timeout 0\ndefault firstlight.efi@pt\n").unwrap();
    });
    let booted = boot.run().unwrap();
    booted.says("Failed to read 'stick.addon.efi'");
    booted.says("ignoring: Access denied");
    handed_over(&booted);
    let words = words(&stick);
    assert!(words.contains("firstlight.fabric.iommu=pt") && !words.contains("stick"), "{words}");
}

#[test]
fn the_signed_image_boots_over_http() {
    let dir = tempfile::tempdir().unwrap();
    let variables = SIGNED.variables(dir.path()).unwrap();
    let served = Served::folder(&SIGNED.folder().join("pxe")).unwrap();
    let medium = Medium::UefiHttp(served.url("firstlight.efi"));
    handed_over(&boot(medium, &variables).run().unwrap());
}

/// Firmware gets the signed iPXE, and that the signed kernel; the initrd beside it has no signature.
#[test]
fn signed_ipxe_boots_the_signed_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let variables = SIGNED.variables(dir.path()).unwrap();
    let (folder, tftp) = (dir.path().join("pxe"), dir.path().join("tftp"));
    fs::create_dir_all(folder.join("node")).unwrap();
    fs::create_dir(&tftp).unwrap();
    for name in ["vmlinuz", "initrd", "boot.ipxe"] {
        symlink(SIGNED.folder().join("pxe").join(name), folder.join(name)).unwrap();
    }
    let node = "#!ipxe\nset wait 1\nset words firstlight.expect.gpus=0 panic=-1 no_timer_check\n";
    fs::write(folder.join(format!("node/{MAC}.ipxe")), node).unwrap();
    let served = Served::folder(&folder).unwrap();
    fs::copy(SIGNED.folder().join("pxe/ipxe.efi"), tftp.join("ipxe.efi")).unwrap();
    let chain = format!("#!ipxe\ndhcp\nchain {}\n", served.url("boot.ipxe"));
    fs::write(tftp.join("autoexec.ipxe"), chain).unwrap();
    handed_over(&boot(Medium::UefiPxe(tftp, "ipxe.efi".into()), &variables).run().unwrap());
}

/// Firmware that could verify and has no keys.
#[test]
fn without_keys_secure_boot_is_off_and_that_is_told() {
    let uki = Image::shipped().uki().unwrap();
    let variables = PathBuf::from("/usr/share/OVMF/OVMF_VARS_4M.fd");
    let booted = boot(Medium::Disk(uki), &variables).run().unwrap();
    booted.says("firmware  secure boot off\n");
    booted.ended(&End::PowerOff);
}
