//! Does each medium boot to a hand-over, and does the stick keep the report? Does `just pxe --serve` boot nodes with a BIOS
//! on a separate network (those with UEFI are in secure_boot.rs), and refuse what it cannot serve?

use super::{assert_handed_over, golden};
use crate::pixels;
use harness::boot::medium::{FIRMWARE_VARIABLES, MAC};
use harness::lab::{INTERFACE, Lab, LabServer};
use harness::stick::{DATA, Stick};
use harness::{Boot, Booted, End, Image, Medium};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn boot(medium: Medium) -> Boot {
    Boot::shipped().memory(2048).from(medium)
}

/// The one report on the stick.
#[track_caller]
fn report(stick: &Stick, booted: &Booted) -> Value {
    let reports = stick.list(DATA, "reports").unwrap();
    let [name] = &reports[..] else {
        panic!("{reports:?} instead of one report\n{booted}")
    };
    assert!(
        name.starts_with("000001-") && name.ends_with("-PASS.json"),
        "{name}"
    );
    serde_json::from_slice(&stick.get(DATA, &format!("reports/{name}")).unwrap()).unwrap()
}

fn words(report: &Value) -> Vec<&str> {
    report["machine"]["cmdline"]
        .as_str()
        .unwrap()
        .split_whitespace()
        .collect()
}

#[test]
fn the_stick_boots_to_a_hand_over_takes_its_settings_keeps_the_report_and_is_golden() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Stick::shipped(dir.path()).unwrap();
    stick.put(DATA, "config.toml", golden::SETTINGS).unwrap();
    // The firmware supports Secure Boot but has no keys.
    let boot = boot(Medium::Stick(stick.path().into())).secure(Path::new(FIRMWARE_VARIABLES));
    let booted = boot.run().unwrap();
    assert_handed_over(&booted);
    booted.says("firmware  secure boot off\n");
    // The menu has every entry, also those that this test does not boot.
    for [id, ..] in Image::shipped().entries().unwrap() {
        booted.says(&format!("({id}: "));
    }
    booted.says("kept as reports/000001-");
    let report = report(&stick, &booted);
    assert_eq!(
        (&report["verdict"], &report["level"]),
        (&"PASS".into(), &"quick".into()),
        "{booted}"
    );
    let words = words(&report);
    assert!(words.contains(&"firstlight.booted_from=stick"), "{words:?}");
    // The files that systemd-stub adds and the settings on the stick do not change the image.
    golden::assert_golden(&booted, &report);
}

/// Boot loader and UKI say which partition they are from. A second disk with the same partitions makes that ambiguous.
#[test]
fn the_built_in_disk_booted_from_provides_settings_and_a_copy_of_it_stops_the_boot() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stick = Stick::shipped(dir.path()).unwrap();
    stick
        .put(
            DATA,
            "config.toml",
            "[expect]\ngpus = 0\n[validate]\nlevel = \"quick\"\n",
        )
        .unwrap();
    let booted = boot(Medium::BuiltIn(stick.path().into())).run().unwrap();
    assert_handed_over(&booted);
    booted.never_says("is ignored");
    assert_eq!(report(&stick, &booted)["level"], "quick");
    let copy = Stick::copy(stick.path(), other.path()).unwrap();
    let both = boot(Medium::BuiltIn(stick.path().into())).disk(copy.path());
    let booted = both
        .stop_after("FIRSTLIGHT verdict", Duration::from_secs(3))
        .run()
        .unwrap();
    assert_eq!(booted.verdict().failed, ["config"], "{booted}");
    let ignored = "(LABEL=FIRSTLIGHT) is ignored: it is neither removable, nor on USB, nor the disk booted from";
    assert_eq!(booted.console.matches(ignored).count(), 2, "{booted}");
    booted.says(
        "ERROR     INIT-CONFIG: report.partition LABEL=FIRSTLIGHT: LABEL=FIRSTLIGHT: on no disk that may be used",
    );
    booted.ended(&End::StillRunning);
}

/// The CD is read-only, and the machine needs no other medium. The kernel shows its lines on the screen that the firmware
/// has set up; hand_over/policy.rs tests a screen under a BIOS.
#[test]
fn the_cd_boots_to_a_hand_over_and_shows_its_lines_on_the_screen() {
    let medium = Medium::Cd(Image::shipped().iso().unwrap());
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screen-uefi.ppm");
    let booted = boot(medium)
        .append("firstlight.expect.gpus=0 firstlight.validate.level=quick")
        .qemu(&["-vga", "std"])
        .screenshot_at("FIRSTLIGHT verdict", &picture, &[], Duration::from_secs(1))
        .run()
        .unwrap();
    assert_handed_over(&booted);
    for [id, ..] in Image::shipped().entries().unwrap() {
        booted.says(&format!("({id}: "));
    }
    booted.says("no LABEL=FIRSTLIGHT to keep it on");
    let grey = pixels(&picture, [170; 3]);
    assert!(grey > 5000, "{grey} grey pixels on the screen");
}

/// A folder in `dir` with the files of the folder `pxe`, and settings for one node.
pub(super) fn folder(pxe: &Path, dir: &Path, node: &str) -> PathBuf {
    let folder = dir.join("pxe");
    fs::create_dir_all(folder.join("node")).unwrap();
    let pxe = fs::canonicalize(pxe).unwrap();
    for entry in fs::read_dir(&pxe)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().is_file())
    {
        symlink(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    fs::write(
        folder.join("node").join(format!("{MAC}.ipxe")),
        format!("#!ipxe\n{node}\n"),
    )
    .unwrap();
    folder
}

/// The settings of a node that boots at once and expects no GPU.
pub(super) const NODE: &str =
    "set wait 1\nset words firstlight.expect.gpus=0 panic=-1 no_timer_check";

/// A machine that is connected to the lab's network.
pub(super) fn connected_machine(lab: &Lab, uefi: bool) -> Boot {
    let inside = lab.inside();
    let inside: Vec<_> = inside.iter().map(String::as_str).collect();
    let medium = Medium::Tap(uefi, INTERFACE.to_owned());
    Boot::shipped().memory(2048).from(medium).wrapper(&inside)
}

#[track_caller]
pub(super) fn start_pxe_server(lab: &Lab, words: &[&str]) -> LabServer {
    let mut serving = lab.serve(words).unwrap();
    assert!(serving.says("; Ctrl-C ends it"), "{}", serving.said());
    serving
}

#[test]
fn a_bios_node_gets_the_menu_and_its_own_settings_on_a_separate_network() {
    let dir = tempfile::tempdir().unwrap();
    let node = format!("{NODE} firstlight.network.hostname=node-7\nset entry quick");
    let folder = folder(&Image::shipped().pxe().unwrap(), dir.path(), &node);
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving = start_pxe_server(&lab, &[INTERFACE, "--folder", folder.to_str().unwrap()]);
    let booted = connected_machine(&lab, false).run().unwrap();
    assert_handed_over(&booted);
    booted.says("level quick");
    booted.says("node-7, ");
    assert!(
        serving.said().contains("GET /boot.ipxe"),
        "{}",
        serving.said()
    );
    assert!(
        serving.said().contains("GET /node/52-54-00-12-34-56.ipxe"),
        "{}",
        serving.said()
    );
}

/// QEMU's BIOS has no PXE except the iPXE of its network card, which the shipped server recognises and directs to the
/// menu. Therefore another server runs first, until the card has loaded undionly.kpxe, as a firmware's own PXE would. The
/// node's settings name an entry that does not exist; the test above covers the boot after the menu.
#[test]
fn a_bios_node_without_ipxe_gets_undionly_first_and_an_unknown_entry_is_not_replaced_by_another() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let loader = Image::shipped().pxe().unwrap().join("undionly.kpxe");
    fs::copy(loader, dir.path().join("undionly.kpxe")).unwrap();
    let tftp = format!("--tftp-root={}", dir.path().display());
    let leases = format!("--dhcp-leasefile={}", dir.path().join("leases").display());
    let interface = format!("--interface={INTERFACE}");
    let words = "dnsmasq --keep-in-foreground --log-facility=- --conf-file=/dev/null --user=root --pid-file= --port=0 \
        --bind-interfaces --dhcp-range=192.168.77.10,192.168.77.20 --enable-tftp --dhcp-boot=undionly.kpxe";
    let words: Vec<_> = words
        .split_whitespace()
        .chain([tftp.as_str(), &leases, &interface])
        .collect();
    let mut first = lab.run(&words).unwrap();
    // With this, the BIOS prints on the serial port what iPXE prints on the screen.
    let mut node = connected_machine(&lab, false)
        .qemu(&["-machine", "graphics=off"])
        .start()
        .unwrap();
    assert!(
        first.says("undionly.kpxe to 192.168.77."),
        "{}",
        first.said()
    );
    drop(first);
    let pxe = Image::shipped().pxe().unwrap();
    let folder = folder(&pxe, dir.path(), &format!("{NODE}\nset entry quik"));
    let mut serving = start_pxe_server(&lab, &[INTERFACE, "--folder", folder.to_str().unwrap()]);
    node.until("there is no entry quik; allowed: default pt firmware headless quick")
        .unwrap();
    node.cut();
    for file in ["/boot.ipxe", "/node/52-54-00-12-34-56.ipxe"] {
        assert!(serving.says(&format!("GET {file}")), "{}", serving.said());
    }
    for file in ["/vmlinuz", "/initrd"] {
        assert!(
            !serving.said().contains(&format!("GET {file}")),
            "{}",
            serving.said()
        );
    }
}

/// Checks only that the servers accept the configuration: no test runs a second DHCP server beside them.
#[test]
fn beside_another_dhcp_server_no_addresses_are_assigned() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving = start_pxe_server(&lab, &[INTERFACE, "--proxy"]);
    assert!(
        serving.says("DHCP, proxy on subnet 192.168.77.1"),
        "{}",
        serving.said()
    );
    assert!(!serving.said().contains("IP range"), "{}", serving.said());
}

#[test]
fn an_unusable_interface_or_argument_is_refused_in_one_line() {
    let refuses = |lab: &Lab, words: &[&str], text: &str| {
        let mut serving = lab.serve(words).unwrap();
        assert!(serving.says(text), "{words:?}: {}", serving.said());
        assert_eq!(serving.said().lines().count(), 1, "{}", serving.said());
    };
    let lab = Lab::new("").unwrap();
    refuses(&lab, &["eth7"], "there is no interface eth7 (allowed: ");
    refuses(&lab, &[INTERFACE], "has no IPv4 address");
    refuses(&lab, &[INTERFACE, "--fast"], "unknown word --fast");
    refuses(&lab, &[], "--serve needs an interface");
    refuses(
        &lab,
        &[INTERFACE, "--folder", "/nowhere"],
        "--folder needs a folder; '/nowhere' is not one",
    );
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut route = lab
        .run(&[
            "sh",
            "-c",
            "ip route add default via 192.168.77.2 && echo added",
        ])
        .unwrap();
    assert!(route.says("added"), "{}", route.said());
    refuses(&lab, &[INTERFACE], "leads to the rest of the world");
    let lab = Lab::new("192.168.77.1/32").unwrap();
    refuses(&lab, &[INTERFACE], "has no room for nodes");
}
