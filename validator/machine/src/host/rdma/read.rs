//! Reads RDMA devices from /sys/class/infiniband and their network interfaces from /sys/class/net.

use super::{Gid, Hca, Netdev, Port, text};
use crate::host::modules::absent_is_none;
use crate::root::Root;
use std::io::{self, ErrorKind};
use std::net::Ipv6Addr;

pub(super) const CLASS: &str = "sys/class/infiniband";

/// The devices of these names, each with its ports.
///
/// # Errors
/// The first file that cannot be read or is invalid, with its name.
pub fn read<'a>(root: &Root, names: impl Iterator<Item = &'a str>) -> Result<Vec<Hca>, String> {
    names
        .map(|name| {
            Ok(Hca {
                name: name.to_owned(),
                ports: ports(root, name)?,
            })
        })
        .collect()
}

fn ports(root: &Root, hca: &str) -> Result<Vec<Port>, String> {
    let folder = format!("{CLASS}/{hca}/ports");
    let mut numbers = numbers(root, &folder)?;
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|number| port(root, hca, number))
        .collect()
}

/// The names in a folder that are numbers.
fn numbers(root: &Root, folder: &str) -> Result<Vec<u32>, String> {
    let names = root.names(folder).map_err(|e| format!("/{folder}: {e}"))?;
    Ok(names
        .iter()
        .filter_map(|n| n.to_str()?.parse().ok())
        .collect())
}

fn port(root: &Root, hca: &str, number: u32) -> Result<Port, String> {
    let folder = format!("{CLASS}/{hca}/ports/{number}");
    let gids = gids(root, &folder)?;
    Ok(Port {
        number,
        state: parsed(root, &format!("{folder}/state"), text::state)?,
        physical: parsed(root, &format!("{folder}/phys_state"), text::physical)?,
        layer: parsed(root, &format!("{folder}/link_layer"), |t| {
            Some(t.to_owned())
        })?,
        rate: parsed(root, &format!("{folder}/rate"), text::rate)?,
        netdev: netdev(root, hca, number, &gids)?,
        gids,
    })
}

fn parsed<T>(root: &Root, file: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, String> {
    let text = root.text(file).map_err(|e| format!("/{file}: {e}"))?;
    parse(&text).ok_or_else(|| format!("/{file}: read {text:?}, which is invalid"))
}

fn gids(root: &Root, port: &str) -> Result<Vec<Gid>, String> {
    let mut slots = numbers(root, &format!("{port}/gids"))?;
    slots.sort_unstable();
    let mut found = Vec::new();
    for index in slots {
        if let Some(address) = parsed(root, &format!("{port}/gids/{index}"), text::gid)? {
            found.extend(gid(root, port, index, address)?);
        }
    }
    Ok(found)
}

/// One address; `None` if it disappeared during the read.
fn gid(root: &Root, port: &str, index: u32, address: Ipv6Addr) -> Result<Option<Gid>, String> {
    let Some(kind) = optional_text(root, &format!("{port}/gid_attrs/types/{index}"))? else {
        return Ok(None);
    };
    let netdev = optional_text(root, &format!("{port}/gid_attrs/ndevs/{index}"))?;
    Ok(Some(Gid {
        index,
        kind,
        ipv4: text::ipv4(address),
        netdev,
    }))
}

/// A file that may have no value, for an empty slot or a disabled link: the kernel then returns EINVAL, and a
/// recording has no file.
fn optional_text(root: &Root, file: &str) -> Result<Option<String>, String> {
    let optional = |read: io::Result<String>| match read {
        Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(None),
        other => absent_is_none(other),
    };
    let text = optional(root.text(file)).map_err(|e| format!("/{file}: {e}"))?;
    Ok(text.filter(|t| !t.is_empty()))
}

/// The interface of a port: the one that its addresses name, or the one of the same PCI function with the
/// port's number (InfiniBand's addresses name none).
fn netdev(root: &Root, hca: &str, number: u32, gids: &[Gid]) -> Result<Option<Netdev>, String> {
    let named = gids.iter().find_map(|gid| gid.netdev.clone());
    let name = match named {
        Some(name) => Some(name),
        None => same_function_interface(root, hca, number)?,
    };
    name.map(|name| interface(root, name)).transpose()
}

fn same_function_interface(root: &Root, hca: &str, number: u32) -> Result<Option<String>, String> {
    let folder = format!("{CLASS}/{hca}/device/net");
    let names = absent_is_none(root.names(&folder)).map_err(|e| format!("/{folder}: {e}"))?;
    for name in names.unwrap_or_default().iter().filter_map(|n| n.to_str()) {
        let file = format!("{folder}/{name}/dev_port");
        if parsed(root, &file, |t| t.parse::<u32>().ok())? + 1 == number {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

fn interface(root: &Root, name: String) -> Result<Netdev, String> {
    let folder = format!("sys/class/net/{name}");
    let operstate = parsed(root, &format!("{folder}/operstate"), |t| Some(t.to_owned()))?;
    let carrier = optional_text(root, &format!("{folder}/carrier"))?.map(|t| t == "1");
    // -1 and 4294967295 mean unknown.
    let known = |mbit_s: &u64| (1..u64::from(u32::MAX)).contains(mbit_s);
    let mbit_s = optional_text(root, &format!("{folder}/speed"))?
        .and_then(|t| t.parse().ok())
        .filter(known);
    Ok(Netdev {
        name,
        operstate,
        carrier,
        mbit_s,
    })
}

#[cfg(test)]
mod tests {
    use super::super::PortState;
    use super::*;
    use std::fs;
    use std::net::Ipv4Addr;
    use std::path::Path;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

    /// A soft device as the kernel showed it, after its addresses had moved.
    fn moved() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = "sys/class/infiniband/rxe0/ports/1";
        let ipv4 = "0000:0000:0000:0000:0000:ffff:a9fe:0a01";
        let mut files = vec![
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("link_layer", "Ethernet"),
            ("rate", "2.5 Gb/sec (1X SDR)"),
            ("gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456"),
            ("gids/1", EMPTY),
            ("gids/2", ipv4),
            ("gids/10", ipv4),
        ];
        files.extend([
            ("gid_attrs/types/0", "RoCE v2"),
            ("gid_attrs/ndevs/0", "eth0"),
        ]);
        files.extend([
            ("gid_attrs/types/2", "IB/RoCE v1"),
            ("gid_attrs/ndevs/2", "eth0"),
        ]);
        files.extend([
            ("gid_attrs/types/10", "RoCE v2"),
            ("gid_attrs/ndevs/10", "eth0"),
        ]);
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (format!("{at}/{name}"), *text))
            .collect();
        write(
            dir.path(),
            &files
                .iter()
                .map(|(name, text)| (name.as_str(), *text))
                .collect::<Vec<_>>(),
        );
        write(
            dir.path(),
            &[
                ("sys/class/net/eth0/operstate", "up"),
                ("sys/class/net/eth0/carrier", "1"),
            ],
        );
        write(dir.path(), &[("sys/class/net/eth0/speed", "-1")]);
        dir
    }

    fn only(dir: &Path) -> Result<Hca, String> {
        read(&Root::new(dir), ["rxe0"].into_iter()).map(|mut all| all.pop().unwrap())
    }

    #[test]
    fn the_ipv4_address_is_found_at_its_actual_index() {
        let dir = moved();
        let hca = only(dir.path()).unwrap();
        let port = &hca.ports[0];
        let gid = port.roce_v2_ipv4().unwrap();
        assert_eq!(
            (gid.index, gid.ipv4),
            (10, Some(Ipv4Addr::new(169, 254, 10, 1)))
        );
        assert_eq!(port.gids.len(), 3, "an empty slot is not an address");
        assert_eq!(port.netdev.as_ref().unwrap().mbit_s, None);
        assert_eq!(
            hca.ibdev2netdev().collect::<Vec<_>>(),
            ["rxe0 port 1 ==> eth0 (Up)"]
        );
    }

    #[test]
    fn a_port_that_is_down_keeps_its_addresses_and_is_not_active() {
        let dir = moved();
        write(
            dir.path(),
            &[
                ("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN"),
                ("sys/class/net/eth0/operstate", "down"),
            ],
        );
        let hca = only(dir.path()).unwrap();
        let port = &hca.ports[0];
        assert_eq!((port.state, port.is_active()), (PortState::Down, false));
        assert!(port.roce_v2_ipv4().is_some());
        assert_eq!(
            hca.ibdev2netdev().collect::<Vec<_>>(),
            ["rxe0 port 1 ==> eth0 (Down)"]
        );
    }

    #[test]
    fn a_missing_or_invalid_file_is_an_error_that_names_it() {
        let dir = moved();
        for (file, text) in [("state", "up"), ("rate", "fast"), ("gids/2", "x")] {
            let path = format!("sys/class/infiniband/rxe0/ports/1/{file}");
            let good = fs::read_to_string(dir.path().join(&path)).unwrap();
            write(dir.path(), &[(&path, text)]);
            let why = only(dir.path()).unwrap_err();
            assert!(why.contains(&path) && why.contains(text), "{why}");
            write(dir.path(), &[(&path, good.trim())]);
        }
        fs::remove_file(dir.path().join("sys/class/infiniband/rxe0/ports/1/state")).unwrap();
        assert!(
            only(dir.path())
                .unwrap_err()
                .contains("/ports/1/state: No such file")
        );
        fs::remove_dir_all(dir.path().join("sys/class/infiniband/rxe0")).unwrap();
        assert!(only(dir.path()).is_err());
    }
}
