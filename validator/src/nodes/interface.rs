//! The network interface that has an address of this machine, from the kernel's routes: NCCL's sockets are to use the
//! network over which the nodes have met, and no other.

use crate::machine::root::Root;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ROUTES: &str = "proc/net/route";
const ADDRESSES: &str = "proc/net/if_inet6";

/// The name of the interface with this address.
///
/// # Errors
/// One line: the kernel's list cannot be read, or no interface, or several, can be meant.
pub fn of(root: &Root, address: IpAddr) -> Result<String, String> {
    if address.to_canonical().is_loopback() {
        return Ok("lo".to_owned());
    }
    let read = |path: &str| root.text(path).map_err(|e| format!("/{path}: {e}"));
    let found = match address.to_canonical() {
        IpAddr::V4(address) => by_route(&read(ROUTES)?, address),
        IpAddr::V6(address) => by_address(&read(ADDRESSES)?, address),
    };
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("no network interface has the address {address}")),
        several => Err(format!(
            "{address} can belong to {}; set NCCL_SOCKET_IFNAME to one of them",
            several.join(" or ")
        )),
    }
}

/// The interfaces with the narrowest route to the network of an address: `Iface Destination Gateway Flags RefCnt Use
/// Metric Mask ..`, addresses as hexadecimal numbers in the machine's byte order. Routes through a gateway are not an
/// interface's own network.
fn by_route(text: &str, address: Ipv4Addr) -> Vec<String> {
    let own = u32::from_ne_bytes(address.octets());
    let route = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let number = |n: usize| u32::from_str_radix(fields.get(n)?, 16).ok();
        let (to, gateway, mask) = (number(1)?, number(2)?, number(7)?);
        let is_own = gateway == 0 && mask != 0 && own & mask == to;
        is_own.then_some((mask.count_ones(), (*fields.first()?).to_owned()))
    };
    let routes: Vec<(u32, String)> = text.lines().skip(1).filter_map(route).collect();
    let narrowest = routes.iter().map(|(bits, _)| *bits).max();
    let mut names: Vec<_> =
        routes.into_iter().filter(|(bits, _)| Some(*bits) == narrowest).map(|(_, name)| name).collect();
    names.sort();
    names.dedup();
    names
}

/// `fe80..(32 digits) index prefix scope flags name`
fn by_address(text: &str, address: Ipv6Addr) -> Vec<String> {
    let digits: String = address.octets().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        (fields.first() == Some(&digits.as_str())).then(|| fields.last().map(|name| (*name).to_owned()))?
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    type Route<'a> = (&'a str, [u8; 4], [u8; 4], [u8; 4]);

    fn routes(rows: &[Route<'_>]) -> String {
        let hex = |bytes: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*bytes));
        let row = |(name, to, gateway, mask): &Route<'_>| {
            format!("{name}\t{}\t{}\t0001\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(gateway), hex(mask))
        };
        HEAD.to_owned() + &rows.iter().map(row).collect::<String>()
    }

    #[test]
    fn the_network_of_the_address_gives_the_interface() {
        let text = routes(&[
            ("eth0", [0, 0, 0, 0], [10, 0, 0, 1], [0, 0, 0, 0]),
            ("eth0", [10, 0, 0, 0], [0; 4], [255, 255, 255, 0]),
            ("eth1", [10, 0, 0, 0], [0; 4], [255, 0, 0, 0]),
            ("eth2", [192, 168, 1, 0], [0; 4], [255, 255, 255, 0]),
        ]);
        assert_eq!(by_route(&text, [10, 0, 0, 7].into()), ["eth0"]);
        assert_eq!(by_route(&text, [10, 9, 0, 7].into()), ["eth1"]);
        assert_eq!(by_route(&text, [172, 16, 0, 7].into()), [""; 0]);
    }

    #[test]
    fn two_link_local_ports_are_not_told_apart() {
        let net = |name| (name, [169, 254, 0, 0], [0; 4], [255, 255, 0, 0]);
        let text = routes(&[net("enp1s0f1"), net("enp1s0f0")]);
        assert_eq!(by_route(&text, [169, 254, 1, 1].into()), ["enp1s0f0", "enp1s0f1"]);
    }

    #[test]
    fn an_ipv6_address_is_listed_with_its_interface() {
        let text = "fd000000000000000000000000000001 02 40 00 80     eth0\n00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(by_address(text, "fd00::1".parse().unwrap()), ["eth0"]);
        assert_eq!(by_address(text, "fd00::2".parse().unwrap()), [""; 0]);
    }

    #[test]
    fn loopback_needs_no_list_and_an_unreadable_one_is_an_error() {
        let root = Root::new("/nowhere");
        assert_eq!(of(&root, [127, 0, 0, 1].into()), Ok("lo".to_owned()));
        assert!(of(&root, [10, 0, 0, 1].into()).unwrap_err().starts_with("/proc/net/route: "));
    }
}
