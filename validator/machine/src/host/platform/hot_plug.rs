//! The port above a GPU through which it can be plugged in while the machine runs. Linux calls a function removable if the
//! firmware says that it is below a port that leads out of the machine: Thunderbolt or USB4. The register of a port shows
//! less: slots inside servers have the same bits.

use crate::pcie::config_space;
use crate::pcie::model::{Bdf, Device, Fabric, Kind};
use crate::pcie::tree::Tree;
use crate::root::Root;
use outcome::platform::{HotPlug, HotPlugKind};

const DEVICES: &str = "sys/bus/pci/devices";

/// Device ids of the switches in Intel's Thunderbolt and USB4 controllers: Light Ridge to Barlow Ridge.
const INTEL_SWITCHES: &[&str] = &[
    "0x1513", "0x151a", "0x151b", "0x1547", "0x1548", "0x1549", "0x1566", "0x1567", "0x1568",
    "0x1569", "0x156a", "0x156b", "0x156c", "0x156d", "0x157e", "0x1575", "0x1576", "0x1577",
    "0x1578", "0x15c0", "0x15d3", "0x15da", "0x15e7", "0x15ea", "0x15ef", "0x0b26", "0x1136",
    "0x5780", "0x5781", "0x5784", "0x5786", "0x57a4",
];
/// ASMedia's USB4 controllers and devices.
const ASMEDIA_SWITCHES: &[&str] = &["0x2421", "0x2423", "0x2425", "0x2426"];

/// What one port above the GPU shows.
#[derive(Debug, Clone, Copy)]
struct Port<'a> {
    device: &'a Device,
    /// Its registers say that cards may be plugged in and pulled out.
    capable: bool,
    /// The kernel says that what is below it can be removed.
    removable: bool,
}

pub(super) fn read(root: &Root, fabric: &Fabric, gpu: Bdf) -> Option<HotPlug> {
    let removable = |bdf: Bdf| {
        root.text(format!("{DEVICES}/{bdf}/removable"))
            .is_ok_and(|text| text == "removable")
    };
    let capable = |bdf: Bdf| {
        let bytes = root
            .read(format!("{DEVICES}/{bdf}/config"))
            .unwrap_or_default();
        config_space::parse(&bytes)
            .express
            .is_some_and(|express| express.hot_plug)
    };
    let tree = Tree::of(fabric);
    let above = tree.above(gpu).into_iter();
    let ports: Vec<_> = above
        .map(|device| Port {
            device,
            capable: capable(device.bdf),
            removable: removable(device.bdf),
        })
        .collect();
    let thunderbolt = root
        .names("sys/bus/thunderbolt/devices")
        .is_ok_and(|devices| !devices.is_empty());
    find(&ports, removable(gpu), thunderbolt)
}

/// `ports` are those above the GPU, the nearest first. `removable`: the kernel says so of the GPU itself. `thunderbolt`:
/// the machine has Thunderbolt, which makes a port that may be a slot's one of Thunderbolt if the switch below it is in a box.
fn find(ports: &[Port], removable: bool, thunderbolt: bool) -> Option<HotPlug> {
    let outside = removable
        || ports
            .iter()
            .any(|port| port.removable || is_thunderbolt(port.device))
        || (thunderbolt
            && ports
                .iter()
                .any(|port| port.capable && port.device.kind == Kind::Downstream));
    let kind = if outside {
        HotPlugKind::Thunderbolt
    } else {
        HotPlugKind::Slot
    };
    let port = ports
        .iter()
        .find(|port| port.capable)
        .or_else(|| ports.first().filter(|_| outside))?;
    Some(HotPlug {
        port: port.device.bdf,
        kind,
    })
}

fn is_thunderbolt(port: &Device) -> bool {
    let ids = match port.vendor.as_str() {
        "0x8086" => INTEL_SWITCHES,
        "0x1b21" => ASMEDIA_SWITCHES,
        _ => return false,
    };
    matches!(port.kind, Kind::Upstream | Kind::Downstream) && ids.contains(&port.device.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::sample::device;

    /// A downstream port below an upstream port below a root port, nearest first.
    fn chain() -> [Device; 3] {
        [
            device("0000:03:01.0", Kind::Downstream, Some("0000:02:00.0")),
            device("0000:02:00.0", Kind::Upstream, Some("0000:00:07.0")),
            device("0000:00:07.0", Kind::RootPort, None),
        ]
    }

    fn found(
        devices: &[Device],
        capable: usize,
        removable: bool,
        thunderbolt: bool,
    ) -> Option<(String, HotPlugKind)> {
        let ports: Vec<_> = devices
            .iter()
            .enumerate()
            .map(|(n, device)| Port {
                device,
                capable: n == capable,
                removable: false,
            })
            .collect();
        find(&ports, removable, thunderbolt).map(|found| (found.port.to_string(), found.kind))
    }

    #[test]
    fn a_removable_gpu_is_outside_and_the_nearest_capable_port_counts() {
        let thunderbolt = |port: &str| Some((port.to_owned(), HotPlugKind::Thunderbolt));
        assert_eq!(found(&chain(), 0, true, false), thunderbolt("0000:03:01.0"));
        assert_eq!(found(&chain(), 2, true, false), thunderbolt("0000:00:07.0"));
        assert_eq!(
            found(&chain(), 9, true, false),
            thunderbolt("0000:03:01.0"),
            "no port has the bits"
        );
        assert_eq!(
            found(&chain(), 0, false, true),
            thunderbolt("0000:03:01.0"),
            "the machine has Thunderbolt"
        );
        let mut ridge = chain();
        (ridge[0].vendor, ridge[0].device) = ("0x8086".into(), "0x15d3".into());
        assert_eq!(
            found(&ridge, 9, false, false),
            thunderbolt("0000:03:01.0"),
            "a Thunderbolt switch"
        );
    }

    #[test]
    fn a_slot_with_the_bits_alone_is_a_slot_and_one_without_is_none() {
        assert_eq!(
            found(&chain(), 2, false, false),
            Some(("0000:00:07.0".to_owned(), HotPlugKind::Slot))
        );
        assert_eq!(
            found(&chain(), 2, false, true),
            Some(("0000:00:07.0".to_owned(), HotPlugKind::Slot))
        );
        assert_eq!(
            (found(&chain(), 9, false, false), found(&[], 0, true, false)),
            (None, None)
        );
    }
}
