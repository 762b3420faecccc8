//! Under Secure Boot with the user's own keys: does the signed image boot to a hand-over, and does each loader refuse
//! files that are unsigned or were changed afterwards? What happens if the kernel is locked down, as is usual under
//! Secure Boot, so that no program may write to configuration space? Our own kernel has no lockdown, so Debian's kernel
//! of the same version boots our initrd. There are no GPUs, so `acs=all` replaces their paths.

use super::media;
use harness::boot::medium::NO_PXE;
use harness::lab::{INTERFACE, Lab};
use harness::signed::SignedMedia;
use harness::stick::{DATA, SYSTEM, Stick};
use harness::{Boot, Booted, Medium, workspace};
use memchr::memmem;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const UKI: &str = "EFI/Linux/firstlight.efi";
const ADDON: &str = "EFI/Linux/firstlight.efi.extra.d/stick.addon.efi";

static SIGNED: LazyLock<SignedMedia> =
    LazyLock::new(|| SignedMedia::shipped("secure-boot").unwrap());

fn boot(medium: Medium, variables: &Path) -> Boot {
    Boot::shipped()
        .memory(2048)
        .from(medium)
        .secure(variables)
        .append("firstlight.expect.gpus=0")
}

/// A copy of the signed stick in a folder of this name.
fn signed_stick(dir: &Path, name: &str) -> Stick {
    let dir = dir.join(name);
    fs::create_dir(&dir).unwrap();
    Stick::copy(&SIGNED.folder().join("firstlight-usb.img"), &dir).unwrap()
}

/// Destroys the file system for users, so that only one of several sticks has one.
fn without_data(stick: &Stick) {
    let data = stick
        .partitions()
        .iter()
        .find(|partition| partition.name == DATA)
        .unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(stick.path())
        .unwrap();
    file.write_all_at(&[0; 4096], data.start).unwrap();
}

/// Changes one bit of the byte `at`.
fn with_bit_changed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

#[track_caller]
fn assert_handed_over(booted: &Booted) {
    booted.says("EFI stub: UEFI Secure Boot is enabled.");
    booted.says("firmware  secure boot on\n");
    super::assert_handed_over(booted);
}

/// The kernel's command line, from the report on the stick.
fn kernel_words(stick: &Stick) -> String {
    let [name] = &stick.list(DATA, "reports").unwrap()[..] else {
        panic!("not one report")
    };
    let report = stick.get(DATA, &format!("reports/{name}")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    report["machine"]["cmdline"].as_str().unwrap().to_owned()
}

/// The firmware tries three sticks in turn: the unsigned one, the signed one with a changed bit in its image, and the signed
/// one. Beside the last one's addon there is a changed copy of it: its words are ignored, and everything else boots. This stick
/// boots another entry, a profile with its own kernel, because the kernels within the UKI have no signature.
#[test]
fn unsigned_and_changed_sticks_are_refused_and_the_signed_one_boots_without_the_words_of_a_changed_addon()
 {
    let dir = tempfile::tempdir().unwrap();
    let variables = SIGNED.variables(dir.path()).unwrap();
    let unsigned = Stick::shipped(dir.path()).unwrap();
    let changed_uki = signed_stick(dir.path(), "changed");
    let uki = changed_uki.get(SYSTEM, UKI).unwrap();
    let middle = uki.len() / 2;
    changed_uki
        .put(SYSTEM, UKI, with_bit_changed(uki, middle))
        .unwrap();
    [&unsigned, &changed_uki].into_iter().for_each(without_data);
    let stick = signed_stick(dir.path(), "signed");
    let addon = stick.get(SYSTEM, ADDON).unwrap();
    let at = memmem::find(&addon, b"firstlight.booted_from").unwrap();
    stick
        .put(
            SYSTEM,
            &ADDON.replace("stick", "changed"),
            with_bit_changed(addon, at),
        )
        .unwrap();
    stick
        .put(
            SYSTEM,
            "loader/loader.conf",
            "timeout 0\ndefault firstlight.efi@pt\n",
        )
        .unwrap();

    let mut boot = boot(Medium::Stick(unsigned.path().into()), &variables)
        .qemu(&["-device", "qemu-xhci,id=more"]);
    for (next, stick) in [(2, &changed_uki), (3, &stick)] {
        let drive = format!(
            "if=none,id=stick{next},format=raw,file={}",
            stick.path().display()
        );
        let device = format!("usb-storage,bus=more.0,drive=stick{next},bootindex={next}");
        boot = boot.qemu(&["-drive", &drive, "-device", &device]);
    }
    let booted = boot.run().unwrap();
    let mut rest = booted.console.as_str();
    for message in [
        "BdsDxe: failed to load Boot0001",
        r"Error loading \EFI\Linux\firstlight.efi: Access denied",
        "Failed to read 'changed.addon.efi'",
        "ignoring: Access denied",
        "EFI stub:",
    ] {
        let Some((before, after)) = rest.split_once(message) else {
            panic!("{message}\n{booted}")
        };
        assert!(!before.contains("EFI stub:"), "{message}\n{booted}");
        rest = after;
    }
    assert_handed_over(&booted);
    let words = kernel_words(&stick);
    assert!(words.contains("firstlight.fabric.iommu=pt"), "{words}");
    assert_eq!(words.matches("booted_from=stick").count(), 1, "{words}");
}

/// Boots a node whose firmware has the keys on a separate network, on which `pxe --serve` serves the signed folder with
/// settings for the node; also returns what the servers printed.
fn on_network(qemu: &[&str]) -> (Booted, String) {
    let dir = tempfile::tempdir().unwrap();
    let variables = SIGNED.variables(dir.path()).unwrap();
    let folder = media::folder(&SIGNED.folder().join("pxe"), dir.path(), media::NODE);
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving =
        media::start_pxe_server(&lab, &[INTERFACE, "--folder", folder.to_str().unwrap()]);
    let boot = media::connected_machine(&lab, true)
        .secure(&variables)
        .append("firstlight.expect.gpus=0")
        .qemu(qemu);
    (boot.run().unwrap(), serving.said().to_owned())
}

#[test]
fn the_signed_image_boots_over_http_on_a_separate_network() {
    let (booted, served) = on_network(&NO_PXE);
    assert_handed_over(&booted);
    booted.says("level standard");
    assert!(served.contains("GET /firstlight.efi"), "{served}");
}

/// Firmware loads the signed iPXE, which loads the signed kernel; the initrd beside the kernel has no signature.
#[test]
fn signed_ipxe_boots_the_signed_kernel_on_a_separate_network() {
    let (booted, served) = on_network(&[]);
    assert_handed_over(&booted);
    for text in [
        "ipxe.efi to 192.168.77.",
        "GET /boot.ipxe",
        "GET /node/52-54-00-12-34-56.ipxe",
        "GET /vmlinuz",
    ] {
        assert!(served.contains(text), "{text}: {served}");
    }
}

/// The words that are built into our kernel, which Debian's kernel lacks.
fn built_in() -> String {
    let config = fs::read_to_string(workspace().join("kernel-config/resolved.config")).unwrap();
    let line = config
        .lines()
        .find_map(|l| l.strip_prefix("CONFIG_CMDLINE=\""))
        .expect("CONFIG_CMDLINE");
    line.trim_end_matches('"').to_owned()
}

/// ACS left on as if by firmware, and settings that make the pass clear it on every port.
const WORDS: &str = "pci=config_acs=1111111@pci:0:0 firstlight.fabric.acs=all firstlight.expect.gpus=0 \
    firstlight.driver.load=false firstlight.validate.level=quick";

/// Runs the pass again by hand and, as independent evidence, a write without any program of ours.
const SCRIPT: &str = "echo \"mode: $(cat /sys/kernel/security/lockdown)\"
firstlight fabric fix --acs all
echo \"fix ended with $?\"
dd if=/dev/zero of=/sys/bus/pci/devices/0000:00:05.0/config bs=1 count=1 seek=60 conv=notrunc 2>&1 | grep -v records
echo \"written\"";

/// Debian's kernel of the version that ours is built from, in `dir`. It is a locked package with the use `test-kernel`,
/// downloaded once into the cache.
fn debians_kernel(dir: &Path) -> PathBuf {
    let script = "set -euo pipefail; source \"$1/image/lib/common.sh\"
exec 9> \"$CACHE/test-kernel.lock\"; flock 9   # tests run side by side
\"$1/image/fetch.sh\" test-kernel
read -r name version arch _ < <(locked test-kernel)
dpkg-deb --fsys-tarfile \"$(deb_path \"$name\" \"$version\" \"$arch\")\" |
    tar -x -C \"$2\" --wildcards --transform 's,.*/,,' './boot/vmlinuz-*'
ls \"$2\"/vmlinuz-*";
    let mut unpack = Command::new("bash");
    let output = unpack
        .args(["-c", script, "image/test-kernel"])
        .arg(workspace())
        .arg(dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn machine(words: &str) -> Booted {
    let dir = tempfile::tempdir().unwrap();
    let kernel = debians_kernel(dir.path());
    Boot::shipped()
        .kernel(&kernel)
        .device("pcie-root-port,id=port1,chassis=1,slot=1,addr=5")
        .device("pcie-root-port,id=port2,chassis=2,slot=2,addr=6")
        .append(&format!("{} {WORDS} {words}", built_in()))
        .workload(SCRIPT)
        .on_any_verdict()
        .run()
        .unwrap()
}

/// The ids of the failed tests. `driver` fails in both boots: the driver image cannot be mounted, because Debian's
/// kernel has loop devices only as a module.
fn failed_tests(tests: &[&str]) -> Vec<String> {
    tests.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn a_locked_down_kernel_is_named_with_its_mode_and_fails_the_machine() {
    let booted = machine("lockdown=integrity");
    booted.says("mode: none [integrity] confidentiality");
    // Init's line about the pass.
    booted.says("ACS all: none cleared; LOCKDOWN machine");
    // The output of the pass by hand, and the kernel's own answer to a write.
    let unwrapped = booted
        .console
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let finding =
        "LOCKDOWN: the kernel is locked down (integrity): it refuses writes to configuration space";
    assert!(unwrapped.contains(finding), "{booted}");
    booted.says("fix ended with 1");
    booted.says("Operation not permitted");
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), verdict.failed),
        ("FAIL", failed_tests(&["driver", "acs"])),
        "{booted}"
    );
    booted.never_says("LOCKDOWN-IGNORED");
}

/// The same kernel and machine without lockdown: proves that the lockdown alone keeps ACS on in the test above.
#[test]
fn the_same_kernel_without_lockdown_has_its_ports_cleared() {
    let booted = machine("");
    booted.says("mode: [none] integrity confidentiality");
    booted.says("ACS policy all: 2 functions with ACS, 2 of 2 cleared");
    booted.says("fix ended with 0");
    booted.never_says("Operation not permitted");
    booted.never_says("LOCKDOWN");
    assert_eq!(
        booted.verdict().failed,
        failed_tests(&["driver"]),
        "{booted}"
    );
}

/// A processor with the vulnerabilities of its generation. An emulated one has no new microcode: the kernel mitigates
/// what it can and says so, and for two vulnerabilities it needs registers of the processor (IBRS, SSBD).
#[test]
fn no_processor_vulnerability_is_left_open() {
    let script = "cd /sys/devices/system/cpu/vulnerabilities
for fault in *; do echo \"$fault: $(cat $fault)\"; done > /run/kept/faults
grep -m1 ^flags /proc/cpuinfo > /run/kept/flags
cat /proc/sys/kernel/unprivileged_bpf_disabled > /run/kept/bpf";
    let boot = Boot::shipped()
        .append("firstlight.expect.gpus=0")
        .workload(script);
    let booted = boot.qemu(&["-cpu", "Skylake-Server,-cx16"]).run().unwrap();
    let (faults, flags) = (booted.text("kept/faults"), booted.text("kept/flags"));
    let needs = [("spec_store_bypass: ", " ssbd"), ("retbleed: ", " ibrs")];
    let excused = |line: &str| {
        let lacks = needs
            .iter()
            .any(|(fault, flag)| line.starts_with(fault) && !flags.contains(flag));
        line.to_lowercase().contains("no microcode") || lacks
    };
    let open: Vec<_> = faults
        .lines()
        .filter(|l| l.contains(": Vulnerable") && !excused(l))
        .collect();
    assert!(open.is_empty(), "{faults}");
    for fault in [
        "mds",
        "meltdown",
        "spectre_v1",
        "spectre_v2",
        "spec_store_bypass",
        "l1tf",
        "retbleed",
    ] {
        assert!(
            faults
                .lines()
                .any(|line| line.starts_with(&format!("{fault}: "))),
            "{fault}: {faults}"
        );
    }
    assert_ne!(booted.text("kept/bpf"), "0");
}
