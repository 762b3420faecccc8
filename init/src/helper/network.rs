//! The children that configure network interfaces. One finds the interface to use: it loads the drivers of
//! network cards, brings candidates up, and waits for one with a carrier. Another sets an address, and one starts RDMA.

use super::say;
use crate::config::mac::Mac;
use crate::config::values;
use crate::modules::{ModuleTree, alias};
use crate::sys::netlink;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An Ethernet interface with a device: its name and address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetworkCard {
    pub(super) name: String,
    pub(super) mac: Option<Mac>,
}

pub(super) fn find_interface(card: &str, timeout_s: u64) -> Result<(), String> {
    if let Err(why) = load_drivers() {
        // A card whose driver is built in needs no module.
        let _no_reader = writeln!(io::stderr(), "{why}");
    }
    let until = Instant::now() + Duration::from_secs(timeout_s);
    loop {
        let seen = cards(Path::new("/sys"));
        let candidates = candidates(card, &seen);
        for name in &candidates {
            // A link that cannot be brought up has no carrier either.
            if link_up(name).is_ok() && has_carrier(name) {
                say(name);
                return Ok(());
            }
        }
        if Instant::now() >= until {
            return Err(not_found(card, &seen, &candidates, timeout_s));
        }
        sleep(Duration::from_millis(100));
    }
}

/// The interfaces that `card` may mean: all if it is empty, else by Ethernet address or by name.
pub(super) fn candidates(card: &str, seen: &[NetworkCard]) -> Vec<String> {
    match Mac::parse(card) {
        _ if card.is_empty() => seen.iter().map(|s| s.name.clone()).collect(),
        Some(mac) if card.contains(':') => seen
            .iter()
            .filter(|s| s.mac == Some(mac))
            .map(|s| s.name.clone())
            .collect(),
        _ => vec![card.to_owned()],
    }
}

pub(super) fn not_found(
    card: &str,
    seen: &[NetworkCard],
    candidates: &[String],
    timeout_s: u64,
) -> String {
    if !candidates.is_empty() {
        return format!("no carrier within {timeout_s} s: {}", candidates.join(" "));
    }
    let mac = |s: &NetworkCard| {
        s.mac
            .map_or_else(|| "without address".to_owned(), |mac| mac.to_string())
    };
    let there: Vec<_> = seen
        .iter()
        .map(|s| format!("{} {}", s.name, mac(s)))
        .collect();
    match there.as_slice() {
        [] => "no network card".to_owned(),
        there => format!("no card is {card}; there are {}", there.join(", ")),
    }
}

/// Brings an interface up and returns its index.
pub(super) fn link_up(name: &str) -> io::Result<u32> {
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    let index = index.trim().parse().map_err(io::Error::other)?;
    netlink::request(&netlink::link_up(index))?;
    Ok(index)
}

pub(super) fn set_address(
    name: &str,
    address: &str,
    gateway: Option<IpAddr>,
) -> Result<(), String> {
    let (ip, prefix) =
        values::address(address).ok_or_else(|| format!("{address}: not an address"))?;
    let set = || -> io::Result<()> {
        let index = link_up(name)?;
        netlink::request(&netlink::address(index, ip, prefix))?;
        if let Some(gateway) = gateway {
            netlink::request(&netlink::default_route(index, gateway))?;
        }
        Ok(())
    };
    set().map_err(|e| e.to_string())
}

pub(super) fn has_carrier(card: &str) -> bool {
    fs::read_to_string(format!("/sys/class/net/{card}/carrier"))
        .is_ok_and(|text| text.trim() == "1")
}

/// Ethernet interfaces (type 1) with a device, in the order in which the kernel found them.
pub(super) fn cards(sys: &Path) -> Vec<NetworkCard> {
    let net = sys.join("class/net");
    let entries = fs::read_dir(&net).into_iter().flatten().flatten();
    let read = |name: &str, file: &str| {
        fs::read_to_string(net.join(name).join(file))
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let card = |name: String| {
        let ethernet = read(&name, "type").as_deref() == Some("1");
        (ethernet && net.join(&name).join("device").exists()).then(|| {
            let index: u32 = read(&name, "ifindex")
                .and_then(|n| n.parse().ok())
                .unwrap_or(u32::MAX);
            (
                index,
                NetworkCard {
                    mac: read(&name, "address").and_then(|text| Mac::parse(&text)),
                    name,
                },
            )
        })
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(card)
        .collect();
    found.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    found.into_iter().map(|(_, seen)| seen).collect()
}

/// Loads the modules for network cards: those of PCI class 02, then the virtio ones that the first may have
/// added.
pub(super) fn load_drivers() -> Result<(), String> {
    let dir = ModuleTree::running_kernel_dir();
    let aliases =
        fs::read_to_string(dir.join("modules.alias")).map_err(|e| format!("modules.alias: {e}"))?;
    let tree = ModuleTree::open(&dir)?;
    let load = |modalias: String| {
        let mut modules = alias::modules_for(&aliases, &modalias).into_iter();
        modules.try_for_each(|module| tree.load(&module))
    };
    pci_cards(Path::new("/sys"))
        .into_iter()
        .try_for_each(load)?;
    virtio_cards(Path::new("/sys"))
        .into_iter()
        .try_for_each(load)
}

/// Loads the modules of RDMA cards, and if `is_soft` makes a soft-RoCE device on each of these interfaces. Prints the RDMA
/// devices.
pub(super) fn start_rdma(is_soft: bool, interfaces: &[String]) -> Result<(), String> {
    let dir = ModuleTree::running_kernel_dir();
    // A machine without a network may have RDMA cards. A built-in driver needs no module.
    let _no_modules = load_drivers();
    let aliases = fs::read_to_string(dir.join("modules.alias")).unwrap_or_else(|_| String::new());
    let cards = rdma_cards(Path::new("/sys"));
    if !is_soft && cards.is_empty() {
        return Ok(());
    }
    let tree = ModuleTree::open(&dir)?;
    for module in cards
        .iter()
        .flat_map(|card| alias::modules_for(&aliases, card))
    {
        tree.load(&module)?;
    }
    tree.load("ib_uverbs")?;
    if is_soft {
        // rdma_rxe requests it by the name of the algorithm, so its dependencies do not list it. A kernel that has CRC32
        // as plain functions has no such module.
        let without = tree.load("crc32_generic").err();
        tree.load("rdma_rxe")?;
        for (n, interface) in interfaces.iter().enumerate() {
            let name = format!("rxe{n}");
            netlink::add_soft_roce(&name, interface).map_err(|e| {
                let why = without
                    .as_ref()
                    .map_or_else(String::new, |why| format!(" ({why})"));
                format!("soft-RoCE {name} on {interface}: {e}{why}")
            })?;
        }
    }
    let devices = fs::read_dir("/sys/class/infiniband")
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<_> = devices
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    say(&names.join(" "));
    Ok(())
}

/// The devices of the auxiliary bus that are the RDMA part of a network card.
fn rdma_cards(sys: &Path) -> Vec<String> {
    let is_rdma = |name: &String| {
        [".rdma", ".roce", ".iwarp"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    alias::devices(sys, "auxiliary").filter(is_rdma).collect()
}

/// Device type 1 of virtio_ids.h is a network card.
fn virtio_cards(sys: &Path) -> Vec<String> {
    alias::devices(sys, "virtio")
        .filter(|text| text.starts_with("virtio:d00000001v"))
        .collect()
}

fn pci_cards(sys: &Path) -> Vec<String> {
    let read = |path: &Path| {
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let devices = fs::read_dir(sys.join("bus/pci/devices"))
        .into_iter()
        .flatten()
        .flatten();
    let devices = devices.map(|entry| entry.path());
    let cards = devices
        .filter(|path| read(&path.join("class")).is_some_and(|class| class.starts_with("0x02")));
    let mut found: Vec<_> = cards
        .filter_map(|path| read(&path.join("modalias")))
        .collect();
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
            ("class/net/eth0/ifindex", "12\n"),
            ("class/net/eth10/type", "1\n"),
            ("class/net/eth10/device/vendor", ""),
            ("class/net/eth10/ifindex", "3\n"),
            ("class/net/eth10/address", "52:54:00:12:34:56\n"),
            ("class/net/ib0/type", "32\n"),
            ("class/net/ib0/device/vendor", ""),
        ]);
        let seen = cards(sys.path());
        assert_eq!(
            seen.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["eth10", "eth0"]
        );
        assert_eq!(
            (seen[0].mac, seen[1].mac),
            (Mac::parse("525400123456"), None)
        );
    }

    #[test]
    fn a_card_is_any_or_the_one_of_that_name_or_address() {
        let seen = |name: &str, mac: &str| NetworkCard {
            name: name.to_owned(),
            mac: Mac::parse(mac),
        };
        let all = [
            seen("eth0", "52:54:00:12:34:56"),
            seen("eth1", "52:54:00:12:34:57"),
        ];
        assert_eq!(candidates("", &all), ["eth0", "eth1"]);
        assert_eq!(candidates("52:54:00:12:34:57", &all), ["eth1"]);
        assert_eq!(candidates("bond0", &all), ["bond0"]);
        let other = "52:54:00:12:34:58";
        assert_eq!(
            not_found(other, &all, &candidates(other, &all), 4),
            format!("no card is {other}; there are eth0 52:54:00:12:34:56, eth1 52:54:00:12:34:57")
        );
        assert_eq!(
            not_found("", &all, &candidates("", &all), 4),
            "no carrier within 4 s: eth0 eth1"
        );
        assert_eq!(not_found("", &[], &[], 4), "no network card");
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

    #[test]
    fn only_the_rdma_parts_of_cards_are_asked_for_their_modules() {
        let sys = machine(&[
            (
                "bus/auxiliary/devices/mlx5_core.rdma.0/uevent",
                "MODALIAS=auxiliary:mlx5_core.rdma\n",
            ),
            (
                "bus/auxiliary/devices/mlx5_core.eth.0/uevent",
                "MODALIAS=auxiliary:mlx5_core.eth\n",
            ),
            (
                "bus/auxiliary/devices/bnxt_en.rdma.0/modalias",
                "auxiliary:bnxt_en.rdma\n",
            ),
            (
                "bus/auxiliary/devices/ice.roce.1/uevent",
                "DRIVER=x\nMODALIAS=auxiliary:ice.roce\n",
            ),
        ]);
        let mut found = rdma_cards(sys.path());
        found.sort();
        assert_eq!(
            found,
            [
                "auxiliary:bnxt_en.rdma",
                "auxiliary:ice.roce",
                "auxiliary:mlx5_core.rdma"
            ]
        );
    }
}
