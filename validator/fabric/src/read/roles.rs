//! The roles of bridges whose registers do not give the port type: without root only 64 bytes are readable,
//! and a port may not answer. The position in the tree gives the role instead. From the root bus down, ports
//! come in the order root port, switch's upstream port, switch's downstream port, upstream port, and so on.
//! Pure.

use super::attributes::unreadable;
use machine::pcie::model::{Bdf, Device, Kind, Rdma, Undetermined};
use machine::root::Root;
use outcome::finding::{Finding, Subject};
use outcome::text::shown;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// A bridge between buses.
const BRIDGE: &str = "0x0604";

/// Sets the port type of every bridge whose registers do not give it, from its position.
pub(super) fn derive(devices: &mut [Device]) {
    // Kernels before 4.13 show no link of any function: then every bridge is assumed to be PCI Express.
    let any_link = devices.iter().any(|d| d.link.is_some());
    let express = |d: &Device| d.link.is_some() || d.config.gone || !any_link;
    let parents: BTreeMap<Bdf, Option<Bdf>> = devices.iter().map(|d| (d.bdf, d.parent)).collect();
    let depth = |bdf: Bdf| {
        let above = std::iter::successors(Some(bdf), |at| parents.get(at).copied().flatten());
        above.take(parents.len() + 1).count()
    };
    let mut order: Vec<(usize, usize)> = devices
        .iter()
        .enumerate()
        .map(|(n, d)| (depth(d.bdf), n))
        .collect();
    order.sort_unstable();
    let mut kinds: BTreeMap<Bdf, Kind> = BTreeMap::new();
    for (_, n) in order {
        let Some(device) = devices.get_mut(n) else {
            continue;
        };
        if device.config.undetermined.contains(&Undetermined::PortType)
            && device.class.starts_with(BRIDGE)
        {
            let above = device.parent.map(|parent| kinds.get(&parent).copied());
            device.kind = if express(device) {
                below(above)
            } else {
                Kind::Bridge
            };
        }
        kinds.insert(device.bdf, device.kind);
    }
}

/// The type of a PCI Express bridge below a bridge of this kind: `None` on a root bus, `Some(None)` below one
/// that is not listed.
const fn below(above: Option<Option<Kind>>) -> Kind {
    match above {
        None => Kind::RootPort,
        Some(Some(Kind::RootPort | Kind::Downstream)) => Kind::Upstream,
        Some(Some(Kind::Upstream)) => Kind::Downstream,
        Some(_) => Kind::Bridge,
    }
}

// RDMA devices and the PCI functions that they belong to. Soft devices (rxe, siw) belong to none;
// `nvidia-smi` does not count them as NICs either.

const CLASS: &str = "sys/class/infiniband";

/// Sorted by address, then name. A kernel without RDMA has no such class: no devices.
pub(super) fn rdma(root: &Root, listed: &[Device], findings: &mut Vec<Finding>) -> Vec<Rdma> {
    let names = match root.names(CLASS) {
        Ok(names) => names,
        Err(e) if e.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(e) => {
            findings.push(unreadable(CLASS, &Subject::Machine, &e));
            return Vec::new();
        }
    };
    let names = names.into_iter().map(|n| n.to_string_lossy().into_owned());
    let mut devices: Vec<Rdma> = names
        .filter_map(|name| one(root, &name, listed, findings))
        .collect();
    devices.sort_by(|a, b| (a.bdf, &a.name).cmp(&(b.bdf, &b.name)));
    devices
}

fn one(root: &Root, name: &str, listed: &[Device], findings: &mut Vec<Finding>) -> Option<Rdma> {
    let file = format!("{CLASS}/{name}/device");
    let label = shown(name);
    let target = match root.link(&file) {
        Ok(target) => target,
        Err(e) if e.kind() == ErrorKind::NotFound => return None,
        Err(e) => {
            findings.push(unreadable(&file, &Subject::file(&label), &e));
            return None;
        }
    };
    // Some drivers put an auxiliary device between the two (`irdma.roce.0`, `bnxt_en.rdma.0`): the path of the
    // RDMA device's own folder names the function then.
    let folder = root.place(&file).unwrap_or_default();
    let own = |bdf: &Bdf| listed.iter().find(|d| d.bdf == *bdf);
    let functions: Vec<Bdf> = [&target, &folder]
        .into_iter()
        .flat_map(|path| functions(path))
        .collect();
    if let Some(device) = functions.iter().find_map(own) {
        // No data of programs goes to NVSwitches this way.
        let bdf = device.bdf;
        return (!device.leads_to_nvswitches).then_some(Rdma { name: label, bdf });
    }
    // No PCI function above it: a soft device, or a platform device.
    let named = functions.first()?;
    let why = format!("it leads to {named}, which is not a listed PCI function");
    findings.push(unreadable(&file, &Subject::file(&label), &why));
    None
}

/// The PCI functions that a path names, the last one first.
fn functions(path: &Path) -> Vec<Bdf> {
    path.iter()
        .rev()
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::sample::device;

    /// A bridge of which only the position is known.
    fn unread(at: &str, parent: Option<&str>) -> Device {
        let mut bridge = device(at, Kind::Bridge, parent);
        bridge.config.undetermined.push(Undetermined::PortType);
        bridge
    }

    fn kinds(mut devices: Vec<Device>) -> Vec<Kind> {
        derive(&mut devices);
        devices.into_iter().map(|d| d.kind).collect()
    }

    fn switches() -> Vec<Device> {
        vec![
            // A later address may be higher in the tree.
            unread("0000:01:00.0", Some("0000:40:01.0")),
            unread("0000:02:08.0", Some("0000:01:00.0")),
            unread("0000:05:00.0", Some("0000:02:08.0")),
            unread("0000:06:00.0", Some("0000:05:00.0")),
            unread("0000:40:01.0", None),
        ]
    }

    #[test]
    fn roles_follow_from_positions() {
        let up_down = [Kind::Upstream, Kind::Downstream];
        assert_eq!(
            kinds(switches()),
            [&up_down[..], &up_down, &[Kind::RootPort]].concat()
        );
    }

    #[test]
    fn a_bridge_without_a_link_is_not_a_port_if_others_have_links() {
        let mut devices = switches();
        devices[2].link = None;
        assert_eq!(
            kinds(devices)[1..4],
            [Kind::Downstream, Kind::Bridge, Kind::Bridge]
        );
        let mut devices = switches();
        devices.iter_mut().for_each(|d| d.link = None);
        assert_eq!(
            kinds(devices)[2],
            Kind::Upstream,
            "a kernel that shows no links"
        );
    }

    #[test]
    fn roles_from_registers_stay_and_a_loop_ends() {
        let mut devices = switches();
        devices[0] = device("0000:01:00.0", Kind::Bridge, Some("0000:40:01.0"));
        assert_eq!(kinds(devices)[..2], [Kind::Bridge; 2]);
        let mut devices = switches();
        devices[4].parent = Some(devices[3].bdf);
        assert_eq!(kinds(devices).len(), 5);
    }
}
