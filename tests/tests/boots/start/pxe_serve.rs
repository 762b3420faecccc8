//! Does `just pxe --serve` bring up nodes of every kind on a network of its own, and refuse what it must?

use harness::lab::{INTERFACE, Lab, Serving};
use harness::{Boot, Booted, End, Image, Medium};
use std::time::Duration;
use std::{fs, thread};

/// Boots a machine that is plugged to the lab's network.
fn boot(lab: &Lab, uefi: bool) -> Boot {
    let inside = lab.inside();
    let inside: Vec<_> = inside.iter().map(String::as_str).collect();
    let medium = Medium::Tap(uefi, INTERFACE.to_owned());
    Boot::shipped().memory(2048).from(medium).within(&inside).deadline(Duration::from_secs(400))
}

#[track_caller]
fn serving(lab: &Lab, words: &[&str]) -> Serving {
    let mut serving = lab.serve(words).unwrap();
    assert!(serving.says("; Ctrl-C ends it"), "{}", serving.said());
    serving
}

/// Nobody told the node that no GPU is expected; that it says so is what this is about.
#[track_caller]
fn came_up(boot: Boot) -> Booted {
    let booted = boot.stop_after("FIRSTLIGHT verdict=", Duration::from_secs(1)).run().unwrap();
    assert_eq!(booted.verdict().failed, ["gpus"], "{booted}");
    booted
}

#[test]
fn a_bios_node_gets_the_menu_from_a_network_of_its_own() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving = serving(&lab, &[INTERFACE]);
    came_up(boot(&lab, false));
    assert!(serving.said().contains("GET /boot.ipxe"), "{}", serving.said());
    assert!(serving.said().contains("GET /node/52-54-00-12-34-56.ipxe"), "{}", serving.said());
}

/// QEMU's BIOS has no PXE but the iPXE of its network card, which the shipped server knows and gives the menu. So
/// another server stands in until the card has taken undionly.kpxe, as a firmware's own PXE would.
#[test]
fn a_bios_node_without_ipxe_gets_undionly_first() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let loader = Image::shipped().pxe().unwrap().join("undionly.kpxe");
    fs::copy(loader, dir.path().join("undionly.kpxe")).unwrap();
    let folder = format!("--tftp-root={}", dir.path().display());
    let leases = format!("--dhcp-leasefile={}", dir.path().join("leases").display());
    let interface = format!("--interface={INTERFACE}");
    let words = "dnsmasq --keep-in-foreground --log-facility=- --conf-file=/dev/null --user=root --pid-file= --port=0 \
        --bind-interfaces --dhcp-range=192.168.77.10,192.168.77.20 --enable-tftp --dhcp-boot=undionly.kpxe";
    let words: Vec<_> = words.split_whitespace().chain([folder.as_str(), &leases, &interface]).collect();
    let mut first = lab.run(&words).unwrap();
    thread::scope(|scope| {
        let booted = scope.spawn(|| came_up(boot(&lab, false)));
        assert!(first.says("undionly.kpxe to 192.168.77."), "{}", first.said());
        drop(first);
        let mut serving = serving(&lab, &[INTERFACE]);
        let booted = booted.join().unwrap();
        assert!(serving.said().contains("GET /boot.ipxe"), "{}\n{booted}", serving.said());
    });
}

#[test]
fn a_uefi_node_gets_ipxe_by_pxe_from_a_network_of_its_own() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving = serving(&lab, &[INTERFACE]);
    came_up(boot(&lab, true));
    let said = serving.said();
    assert!(said.contains("ipxe.efi to 192.168.77.") && said.contains("GET /boot.ipxe"), "{said}");
}

#[test]
fn a_uefi_node_gets_the_unified_image_by_http_boot_from_a_network_of_its_own() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving = serving(&lab, &[INTERFACE]);
    let no_pxe = ["4", "6"].map(|v| format!("name=opt/org.tianocore/IPv{v}PXESupport,string=n"));
    let booted = boot(&lab, true).qemu(&["-fw_cfg", &no_pxe[0], "-fw_cfg", &no_pxe[1]]);
    let booted = booted.append("firstlight.expect.gpus=0").run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("level standard");
    booted.says("demo workload: done");
    booted.ended(&End::PowerOff);
    assert!(serving.said().contains("GET /firstlight.efi"), "{}", serving.said());
}

/// Only that the servers take the configuration: no test has a second DHCP server beside them.
#[test]
fn beside_another_dhcp_server_no_addresses_are_given_away() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut serving = serving(&lab, &[INTERFACE, "--proxy"]);
    assert!(serving.says("DHCP, proxy on subnet 192.168.77.1"), "{}", serving.said());
    assert!(!serving.said().contains("IP range"), "{}", serving.said());
}

#[test]
fn what_cannot_be_served_is_told_in_one_line() {
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
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let mut route = lab.run(&["sh", "-c", "ip route add default via 192.168.77.2 && echo added"]).unwrap();
    assert!(route.says("added"), "{}", route.said());
    refuses(&lab, &[INTERFACE], "leads to the rest of the world");
    let lab = Lab::new("192.168.77.1/32").unwrap();
    refuses(&lab, &[INTERFACE], "has no room for nodes");
}
