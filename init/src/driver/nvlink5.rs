//! NVLink 5 (B100, B200, B300): its NVSwitches are no PCI devices. Functions of a ConnectX-7 on the GPUs' board lead to them, and
//! two programs manage them over one InfiniBand port of such a function: nvlsm, a subnet manager, and the fabric manager. Here
//! is how these functions and that port are found, and where the driver image has nvlsm.
//!
//! Sources: NVIDIA's Fabric Manager User Guide 2.3, "NVIDIA HGX B200/B300 GPU Baseboard" (the vital product data, VPD, of a
//! function for management has the field SMDL with the value SW_MNG), "Running Fabric Manager as a Non-Root User" (folders,
//! device nodes) and "Getting Started with NVLink Subnet Manager"; IsSMdisabled is bit 10 of the capability mask in the
//! InfiniBand specification (`PortInfo`). Public start scripts (Bottlerocket, NVRC, Talos) select the port in the same way.

use contract::pci_vendor;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// "Network controller, InfiniBand".
const INFINIBAND: &str = "0x0207";
/// What the VPD of a function for management contains, as NVIDIA's own start script searches for it.
const MANAGEMENT: &[u8] = b"SW_MNG";
/// The largest VPD of which the beginning is read; that of a DGX B200 is a quarter of this.
const LARGEST: u64 = 2048;
/// `IsSMdisabled`: a subnet manager must not use the port.
const SM_DISABLED: u32 = 1 << 10;

/// nvlsm in the driver image.
pub const PROGRAM: &str = "bin/nvlsm";
/// The libraries of its package, such as `libgrpc_mgr.so`, by which the fabric manager reaches it.
pub const LIBRARIES: &str = "nvlsm/lib";
/// Its settings in the driver image.
pub const SETTINGS: &str = "nvlsm/nvlsm.conf";
/// Folders of the driver image, and the places where the programs look for them: these places are in the files of the packages
/// themselves (search path of the libraries, names of further settings, files about kinds of machines).
pub const PLACES: &[(&str, &str)] = &[
    ("nvlsm", "opt/nvidia/nvlsm"),
    ("nvlsm", "usr/share/nvidia/nvlsm"),
    ("nvswitch", "usr/share/nvidia/nvswitch"),
];
/// Folders that the programs expect: for their sockets, their logs and their state.
pub const FOLDERS: &[&str] = &["var/run/nvidia-fabricmanager", "var/log", "var/cache/nvlsm"];
/// The socket by which the fabric manager reaches nvlsm: both have it as default.
pub const SOCKET: &str = "var/run/nvidia-fabricmanager/fm_sm_ipc.socket";
/// The kernel modules that nvlsm needs: the card's InfiniBand part, and the device nodes for management packets.
pub const MODULES: &[&str] = &["mlx5_ib", "ib_umad"];

/// The PCI functions for the management of NVSwitches, by address. A function whose VPD cannot be read is not one.
///
/// # Errors
/// A line with the folder that cannot be read.
pub fn bridges(sys: &Path) -> Result<Vec<String>, String> {
    let devices = sys.join("bus/pci/devices");
    let entries = fs::read_dir(&devices).map_err(|e| format!("{}: {e}", devices.display()))?;
    let is_bridge = |path: &Path| {
        let is = |name: &str, start: &str| {
            fs::read_to_string(path.join(name)).is_ok_and(|text| text.starts_with(start))
        };
        is("vendor", pci_vendor::MELLANOX)
            && is("class", INFINIBAND)
            && is_for_management(&vpd(&path.join("vpd")))
    };
    let found = entries.flatten().filter(|entry| is_bridge(&entry.path()));
    let mut found: Vec<_> = found
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    Ok(found)
}

/// The VPD, as far as it can be read: the kernel reports an error where a function's VPD ends too early.
fn vpd(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _what_was_read =
        File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    bytes
}

fn is_for_management(vpd: &[u8]) -> bool {
    vpd.windows(MANAGEMENT.len()).any(|part| part == MANAGEMENT)
}

/// One InfiniBand port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its GUID as both programs want it: `0xe09d730300e400e8`.
    pub guid: String,
    /// Whether a subnet manager may use it.
    pub may_manage: bool,
}

impl Port {
    /// From the port's first GID and its capability mask, as sysfs shows them.
    #[must_use]
    pub fn of(gid: &str, mask: &str) -> Option<Self> {
        let groups: Vec<_> = gid.trim().split(':').collect();
        let is_group =
            |group: &&str| group.len() == 4 && group.bytes().all(|b| b.is_ascii_hexdigit());
        let own = groups
            .get(4..)
            .filter(|own| own.len() == 4 && groups.iter().all(is_group))?;
        let guid = own.concat();
        let mask = u32::from_str_radix(mask.trim().trim_start_matches("0x"), 16).ok()?;
        let is_set = guid.bytes().any(|b| b != b'0');
        is_set.then(|| Self {
            guid: format!("0x{guid}"),
            may_manage: mask & SM_DISABLED == 0,
        })
    }
}

/// The ports of these functions, in the order of functions, devices and numbers. Empty before the driver has made them.
#[must_use]
pub fn ports(sys: &Path, bridges: &[String]) -> Vec<Port> {
    let devices = bridges
        .iter()
        .flat_map(|bridge| sorted(&sys.join("bus/pci/devices").join(bridge).join("infiniband")));
    let ports = devices.flat_map(|device| sorted(&device.join("ports")));
    let read = |port: std::path::PathBuf| {
        let text = |name: &str| fs::read_to_string(port.join(name)).ok();
        Port::of(&text("gids/0")?, &text("cap_mask")?)
    };
    ports.filter_map(read).collect()
}

fn sorted(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;

    const GID: &str = "fe80:0000:0000:0000:e09d:7303:00e4:00e8\n";

    #[test]
    fn a_port_has_the_guid_of_its_first_gid_and_says_whether_it_may_be_managed() {
        let port = Port::of(GID, "0xa751e84a\n").unwrap();
        assert_eq!(
            (port.guid.as_str(), port.may_manage),
            ("0xe09d730300e400e8", true)
        );
        assert!(!Port::of(GID, "0xa751ec4a").unwrap().may_manage);
        for (gid, mask) in [
            ("", "0x0"),
            ("fe80::e09d", "0x0"),
            ("fe80:0000:0000:0000:0000:0000:0000:0000", "0x0"),
            ("fe80:0000:0000:0000:e09d:7303:00e4:00g8", "0x0"),
            ("fe80:0000:0000:0000:e09d:7303:00e4:00e8:0001", "0x0"),
            (GID, ""),
            (GID, "0xmask"),
        ] {
            assert_eq!(Port::of(gid, mask), None, "{gid:?} {mask:?}");
        }
    }

    #[test]
    fn only_functions_for_management_count_and_not_network_cards() {
        let device = |address: &str, class: &str, vpd: &str| {
            [("vendor", "0x15b3\n"), ("class", class), ("vpd", vpd)]
                .map(|(file, text)| (format!("bus/pci/devices/{address}/{file}"), text.to_owned()))
        };
        let managed = "\u{82}name MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:SMDL=SW_MNG:MODL=C7010Z";
        let mut all: Vec<_> = [
            device("0000:05:00.1", "0x020700\n", managed),
            device("0000:05:00.0", "0x020700\n", managed),
            device(
                "0000:05:00.2",
                "0x020700\n",
                "\u{82}name MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=C7010Z",
            ),
            device("0000:06:00.0", "0x020000\n", managed),
        ]
        .concat();
        all.push((
            "bus/pci/devices/0000:07:00.0/vendor".to_owned(),
            "0x15b3\n".to_owned(),
        ));
        all.push((
            "bus/pci/devices/0000:07:00.0/class".to_owned(),
            "0x020700\n".to_owned(),
        ));
        let all: Vec<_> = all
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let sys = files(&all);
        assert_eq!(
            bridges(sys.path()).unwrap(),
            ["0000:05:00.0", "0000:05:00.1"]
        );
        assert!(
            bridges(Path::new("/none"))
                .unwrap_err()
                .starts_with("/none/bus/pci/devices: ")
        );
    }

    #[test]
    fn ports_come_in_the_order_of_their_functions() {
        let port = |address: &str, device: &str, guid: &str| {
            let at = format!("bus/pci/devices/{address}/infiniband/{device}/ports/1");
            [
                (
                    format!("{at}/gids/0"),
                    format!("fe80:0000:0000:0000:{guid}"),
                ),
                (format!("{at}/cap_mask"), "0x0".to_owned()),
            ]
        };
        let all = [
            port("0000:05:00.1", "mlx5_0", "0000:0000:0000:0002"),
            port("0000:05:00.0", "mlx5_1", "0000:0000:0000:0001"),
            port("0000:08:00.0", "mlx5_2", "0000:0000:0000:0003"),
        ]
        .concat();
        let all: Vec<_> = all
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let sys = files(&all);
        let found = ports(
            sys.path(),
            &["0000:05:00.0".to_owned(), "0000:05:00.1".to_owned()],
        );
        let guids: Vec<_> = found.iter().map(|port| port.guid.as_str()).collect();
        assert_eq!(guids, ["0x0000000000000001", "0x0000000000000002"]);
        assert_eq!(ports(sys.path(), &["0000:09:00.0".to_owned()]), []);
    }
}
