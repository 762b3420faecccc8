//! The children that work on links: one finds the network interface to use: loads the cards' drivers where they are
//! modules, brings candidates up, and waits for one with a carrier; one sets an address.

use super::say;
use crate::config::values;
use crate::modules::{Tree, alias};
use crate::netlink;
use crate::sys::machine;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(super) fn find_interface(name: &str, timeout_s: &str) -> Result<(), String> {
    let timeout = Duration::from_secs(timeout_s.parse().map_err(|_| format!("{timeout_s}: no seconds"))?);
    if let Err(why) = load_drivers() {
        // A card whose driver is built in works all the same.
        let _nobody_reads = writeln!(io::stderr(), "{why}");
    }
    let until = Instant::now() + timeout;
    loop {
        let candidates = if name.is_empty() { cards(Path::new("/sys")) } else { vec![name.to_owned()] };
        for card in &candidates {
            // A link that cannot be brought up has no carrier either.
            if link_up(card).is_ok() && has_carrier(card) {
                say(card);
                return Ok(());
            }
        }
        if Instant::now() >= until {
            let tried =
                if candidates.is_empty() { "no network card".to_owned() } else { candidates.join(" ") };
            return Err(format!("no carrier within {timeout_s} s: {tried}"));
        }
        sleep(Duration::from_millis(100));
    }
}

/// Brings an interface up; its index.
pub(super) fn link_up(name: &str) -> io::Result<u32> {
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    let index = index.trim().parse().map_err(io::Error::other)?;
    machine::route_request(&netlink::link_up(index))?;
    Ok(index)
}

pub(super) fn set_address(name: &str, address: &str, gateway: &str) -> Result<(), String> {
    let (ip, prefix) = values::address(address).ok_or_else(|| format!("{address}: no address"))?;
    let set = || -> io::Result<()> {
        let index = link_up(name)?;
        machine::route_request(&netlink::address(index, ip, prefix))?;
        if !gateway.is_empty() {
            let gateway = gateway.parse().map_err(io::Error::other)?;
            machine::route_request(&netlink::default_route(index, gateway))?;
        }
        Ok(())
    };
    set().map_err(|e| e.to_string())
}

fn has_carrier(card: &str) -> bool {
    fs::read_to_string(format!("/sys/class/net/{card}/carrier")).is_ok_and(|text| text.trim() == "1")
}

/// Ethernet interfaces (type 1) with a device behind them, by name.
fn cards(sys: &Path) -> Vec<String> {
    let net = sys.join("class/net");
    let entries = fs::read_dir(&net).into_iter().flatten().flatten();
    let is_card = |name: &String| {
        let ethernet = fs::read_to_string(net.join(name).join("type")).is_ok_and(|t| t.trim() == "1");
        ethernet && net.join(name).join("device").exists()
    };
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_card).collect();
    names.sort();
    names
}

/// Loads the modules that network cards ask for: those of PCI class 02, and then the virtual ones that
/// the first may have brought.
fn load_drivers() -> Result<(), String> {
    let dir = Tree::of_this_kernel();
    let aliases = fs::read_to_string(dir.join("modules.alias")).map_err(|e| format!("modules.alias: {e}"))?;
    let tree = Tree::open(&dir)?;
    let load = |modalias: String| {
        let mut modules = alias::modules_for(&aliases, &modalias).into_iter();
        modules.try_for_each(|module| tree.load(&module))
    };
    pci_cards(Path::new("/sys")).into_iter().try_for_each(load)?;
    virtio_cards(Path::new("/sys")).into_iter().try_for_each(load)
}

/// Device type 1 of virtio_ids.h is a network card.
fn virtio_cards(sys: &Path) -> Vec<String> {
    let devices = fs::read_dir(sys.join("bus/virtio/devices")).into_iter().flatten().flatten();
    let aliases = devices.filter_map(|entry| fs::read_to_string(entry.path().join("modalias")).ok());
    aliases.map(|text| text.trim().to_owned()).filter(|text| text.starts_with("virtio:d00000001v")).collect()
}

fn pci_cards(sys: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let devices = fs::read_dir(sys.join("bus/pci/devices")).into_iter().flatten().flatten();
    let devices = devices.map(|entry| entry.path());
    let cards =
        devices.filter(|path| read(&path.join("class")).is_some_and(|class| class.starts_with("0x02")));
    let mut found: Vec<_> = cards.filter_map(|path| read(&path.join("modalias"))).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files as machine;

    #[test]
    fn loopback_and_virtual_links_are_no_cards() {
        let sys = machine(&[
            ("class/net/lo/type", "772\n"),
            ("class/net/dummy0/type", "1\n"),
            ("class/net/eth0/type", "1\n"),
            ("class/net/eth0/device/vendor", ""),
            ("class/net/ib0/type", "32\n"),
            ("class/net/ib0/device/vendor", ""),
        ]);
        assert_eq!(cards(sys.path()), ["eth0"]);
    }

    #[test]
    fn only_network_cards_are_asked_for_their_driver() {
        let sys = machine(&[
            ("bus/pci/devices/0000:00:01.0/class", "0x020000\n"),
            ("bus/pci/devices/0000:00:01.0/modalias", "pci:net\n"),
            ("bus/pci/devices/0000:00:02.0/class", "0x030000\n"),
            ("bus/pci/devices/0000:00:02.0/modalias", "pci:vga\n"),
        ]);
        assert_eq!(pci_cards(sys.path()), ["pci:net"]);
    }
}
