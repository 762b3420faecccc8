//! The network interface that has an address of this machine: NCCL's sockets must use the network over which the nodes met,
//! and no other. The address is that of a connection, so it is looked up in the running system, not in examined files.

use if_addrs::get_if_addrs;
use std::net::IpAddr;

/// The name of the interface with this address.
///
/// # Errors
/// One line: the kernel's list cannot be read, or no interface, or several, have the address.
pub fn name_of(address: IpAddr) -> Result<String, String> {
    let all =
        get_if_addrs().map_err(|e| format!("the addresses of the network interfaces: {e}"))?;
    find(
        all.into_iter()
            .map(|interface| (interface.ip(), interface.name)),
        address,
    )
}

fn find(all: impl Iterator<Item = (IpAddr, String)>, address: IpAddr) -> Result<String, String> {
    let address = address.to_canonical();
    let mut names: Vec<_> = all
        .filter(|(ip, _)| *ip == address)
        .map(|(_, name)| name)
        .collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("no network interface has the address {address}")),
        several => Err(format!(
            "{} have the address {address}; set NCCL_SOCKET_IFNAME to one of them",
            several.join(" and ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_with_the_address_is_meant_also_where_two_are_in_one_network() {
        let all = || {
            [
                ("eth0", "169.254.1.7"),
                ("eth1", "169.254.1.8"),
                ("eth1", "fe80::1"),
                ("eth2", "fe80::1"),
            ]
            .into_iter()
            .map(|(name, ip)| (ip.parse().unwrap(), name.to_owned()))
        };
        let of = |text: &str| find(all(), text.parse().unwrap());
        assert_eq!(of("169.254.1.8").as_deref(), Ok("eth1"));
        assert_eq!(of("::ffff:169.254.1.7").as_deref(), Ok("eth0"));
        assert_eq!(
            of("169.254.1.9").unwrap_err(),
            "no network interface has the address 169.254.1.9"
        );
        let why = "eth1 and eth2 have the address fe80::1; set NCCL_SOCKET_IFNAME to one of them";
        assert_eq!(of("fe80::1").unwrap_err(), why);
    }

    #[test]
    fn loopback_is_an_interface_of_this_machine() {
        assert_eq!(name_of([127, 0, 0, 1].into()).as_deref(), Ok("lo"));
    }
}
