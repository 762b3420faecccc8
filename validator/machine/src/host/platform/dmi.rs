//! The firmware's names for the machine: whether they are those of a hypervisor, of a cloud, or of a maker of hardware.
//! Pure.

use outcome::platform::{Hypervisor, Mainboard};
use std::collections::BTreeMap;

/// The names, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dmi {
    vendor: String,
    product: String,
    version: String,
    board: String,
    bios: String,
}

/// What the names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Those of a hypervisor.
    Hypervisor(Hypervisor),
    /// Those of a cloud that also rents whole machines.
    Cloud(Hypervisor),
    /// Those of a maker of hardware.
    Hardware,
    /// The names are missing, or not in these tables.
    Unknown,
}

/// Beginnings of a vendor's name (sys_vendor, board_vendor) that only virtual machines have.
const VIRTUAL_VENDORS: &[(&str, Hypervisor)] = &[
    ("qemu", Hypervisor::Qemu),
    ("bochs", Hypervisor::Qemu),
    ("openstack", Hypervisor::Qemu),
    ("kubevirt", Hypervisor::Qemu),
    ("ovirt", Hypervisor::Qemu),
    ("rdo", Hypervisor::Qemu),
    ("proxmox", Hypervisor::Qemu),
    ("vmware", Hypervisor::Vmware),
    ("vmw", Hypervisor::Vmware),
    ("innotek", Hypervisor::VirtualBox),
    ("xen", Hypervisor::Xen),
    ("cloud hypervisor", Hypervisor::CloudHypervisor),
    ("parallels", Hypervisor::Other),
    ("bhyve", Hypervisor::Other),
    ("freebsd", Hypervisor::Other),
    ("linode", Hypervisor::Cloud),
    ("akamai", Hypervisor::Cloud),
];

/// Beginnings of a product's name that only virtual machines have.
const VIRTUAL_PRODUCTS: &[(&str, Hypervisor)] = &[
    ("standard pc", Hypervisor::Qemu),
    ("qemu", Hypervisor::Qemu),
    ("kvm", Hypervisor::Qemu),
    ("openstack", Hypervisor::Qemu),
    ("rhev", Hypervisor::Qemu),
    ("rhel", Hypervisor::Qemu),
    ("openshift virtualization", Hypervisor::Qemu),
    ("kubevirt", Hypervisor::Qemu),
    ("ovirt", Hypervisor::Qemu),
    ("bochs", Hypervisor::Qemu),
    ("ahv", Hypervisor::Qemu),
    ("cloudstack", Hypervisor::Qemu),
    ("droplet", Hypervisor::Cloud),
    ("vserver", Hypervisor::Cloud),
    ("vmware", Hypervisor::Vmware),
    ("virtualbox", Hypervisor::VirtualBox),
    ("hvm domu", Hypervisor::Xen),
    ("google compute engine", Hypervisor::Google),
    ("cloud-hypervisor", Hypervisor::CloudHypervisor),
    ("parallels", Hypervisor::Other),
    ("bhyve", Hypervisor::Other),
    ("apple virtualization", Hypervisor::Other),
];

/// Parts of a BIOS vendor's name that only virtual machines have.
const VIRTUAL_BIOSES: &[(&str, Hypervisor)] = &[
    ("seabios", Hypervisor::Qemu),
    ("ovmf", Hypervisor::Qemu),
    ("proxmox", Hypervisor::Qemu),
    ("bochs", Hypervisor::Qemu),
    ("qemu", Hypervisor::Qemu),
    ("innotek", Hypervisor::VirtualBox),
    ("bhyve", Hypervisor::Other),
    ("parallels", Hypervisor::Other),
];

/// Beginnings of the names of clouds whose guests run on KVM, and which also rent whole machines.
const CLOUDS: &[&str] = &[
    "alibaba cloud",
    "tencent cloud",
    "digitalocean",
    "hetzner",
    "vultr",
    "scaleway",
    "upcloud",
    "exoscale",
    "ovhcloud",
    "huaweicloud",
    "huawei cloud",
    "ionos",
    "yandex",
    "baidu cloud",
    "bytedance",
    "volcengine",
    "jdcloud",
    "ucloud",
    "nebius",
    "crusoe",
    "coreweave",
    "runpod",
    "lambda",
    "oraclecloud",
    "ibm:cloud",
    "gridscale",
];

/// Beginnings of the names of makers of machines and boards, and what boards without a name say.
const MAKERS: &[&str] = &[
    "acer",
    "advantech",
    "aivres",
    "alienware",
    "amd",
    "ampere",
    "apple",
    "asrock",
    "asus",
    "aorus",
    "azw",
    "biostar",
    "bull",
    "cisco",
    "clevo",
    "colorful",
    "compal",
    "cray",
    "default string",
    "dell",
    "ecs",
    "elitegroup",
    "evga",
    "foxconn",
    "framework",
    "fujitsu",
    "fusion",
    "gigabyte",
    "giga-byte",
    "gigacomputing",
    "h3c",
    "hewlett",
    "hon hai",
    "hp",
    "hpe",
    "huananzhi",
    "huawei",
    "hygon",
    "ibm",
    "ieit",
    "ingrasys",
    "inspur",
    "intel",
    "inventec",
    "kontron",
    "lenovo",
    "lg electronics",
    "maxsun",
    "medion",
    "micro computer",
    "micro-star",
    "minisforum",
    "mitac",
    "msi",
    "nec",
    "nettrix",
    "nvidia",
    "oracle",
    "panasonic",
    "pegatron",
    "penguin",
    "positivo",
    "quanta",
    "raspberry pi",
    "razer",
    "samsung",
    "schenker",
    "shuttle",
    "siemens",
    "sony",
    "sugon",
    "super micro",
    "supermicro",
    "system76",
    "system manufacturer",
    "tencent_",
    "to be filled",
    "toshiba",
    "tuxedo",
    "tyan",
    "wistron",
    "wiwynn",
    "xfusion",
    "zotac",
    "zte",
];

impl Dmi {
    pub(super) fn of(names: &BTreeMap<String, Option<String>>) -> Self {
        let of = |key: &str| {
            names
                .get(key)
                .and_then(Option::as_deref)
                .unwrap_or_default()
                .trim()
                .to_lowercase()
        };
        Self {
            vendor: of("sys_vendor"),
            product: of("product_name"),
            version: of("product_version"),
            board: of("board_vendor"),
            bios: of("bios_vendor"),
        }
    }

    /// What these names are.
    pub(super) fn names(&self) -> Names {
        let begins = |text: &str, beginning: &str| text.starts_with(beginning);
        let first = |table: &[(&str, Hypervisor)], text: &str| {
            table
                .iter()
                .find(|(beginning, _)| begins(text, beginning))
                .map(|(_, hypervisor)| *hypervisor)
        };
        let of_bios = VIRTUAL_BIOSES
            .iter()
            .find(|(part, _)| self.bios.contains(part))
            .map(|(_, found)| *found);
        let q35 = ["pc-q35", "pc-i440fx", "virt-"]
            .iter()
            .any(|version| begins(&self.version, version));
        if begins(&self.vendor, "amazon ec2") {
            let metal = self.product.split('.').any(|part| begins(part, "metal"));
            return if metal {
                Names::Hardware
            } else {
                Names::Hypervisor(Hypervisor::Amazon)
            };
        }
        if begins(&self.vendor, "microsoft") && begins(&self.product, "virtual machine") {
            return Names::Hypervisor(Hypervisor::HyperV);
        }
        let cloud = |text: &str| CLOUDS.iter().any(|name| begins(text, name));
        let maker = |text: &str| MAKERS.iter().any(|name| begins(text, name));
        // The product of a guest says more than its vendor, which a cloud may set to its own name.
        let found =
            first(VIRTUAL_PRODUCTS, &self.product).or_else(|| first(VIRTUAL_VENDORS, &self.vendor));
        match found.or_else(|| q35.then_some(Hypervisor::Qemu)) {
            // A cloud's own name shows that it is one; those of software for clouds of one's own are not in the list.
            Some(Hypervisor::Qemu) if cloud(&self.vendor) => Names::Hypervisor(Hypervisor::Cloud),
            Some(hypervisor) => Names::Hypervisor(hypervisor),
            None if cloud(&self.vendor) => Names::Cloud(Hypervisor::Cloud),
            None => match first(VIRTUAL_VENDORS, &self.board).or(of_bios) {
                Some(hypervisor) => Names::Hypervisor(hypervisor),
                None if maker(&self.vendor) || begins(&self.vendor, "microsoft") => Names::Hardware,
                None if maker(&self.board) => Names::Hardware,
                None => Names::Unknown,
            },
        }
    }

    /// QEMU's mainboard, by its machine type.
    pub(super) fn mainboard(&self) -> Option<Mainboard> {
        let names = [&self.product, &self.version];
        let any = |part: &str| names.iter().any(|name| name.contains(part));
        match () {
            () if any("i440fx") => Some(Mainboard::I440fx),
            () if any("q35") => Some(Mainboard::Q35),
            () => None,
        }
    }

    /// Whether there are no names at all.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the machine is NVIDIA's.
    pub(super) fn is_nvidia(&self) -> bool {
        self.vendor.contains("nvidia") || self.board.contains("nvidia")
    }

    /// Whether the product is one with NVIDIA Grace.
    pub(super) fn is_grace(&self) -> bool {
        [
            "gh200", "gb200", "gb300", "grace", "p3880", "p3809", "p4764",
        ]
        .iter()
        .any(|name| self.product.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(vendor: &str, product: &str, bios: &str) -> Names {
        let pairs = [
            ("sys_vendor", vendor),
            ("product_name", product),
            ("bios_vendor", bios),
        ];
        Dmi::of(
            &pairs
                .map(|(key, value)| (key.to_owned(), Some(value.to_owned())))
                .into(),
        )
        .names()
    }

    #[test]
    fn guests_are_known_by_their_names() {
        use Hypervisor::*;
        for (vendor, product, bios, hypervisor) in [
            (
                "QEMU",
                "Standard PC (Q35 + ICH9, 2009)",
                "Proxmox distribution of EDK II",
                Qemu,
            ),
            (
                "QEMU",
                "QEMU Virtual Machine",
                "EFI Development Kit II / OVMF",
                Qemu,
            ),
            ("Red Hat", "KVM", "SeaBIOS", Qemu),
            ("Red Hat", "RHEL", "", Qemu),
            ("OpenStack Foundation", "OpenStack Nova", "SeaBIOS", Qemu),
            ("DigitalOcean", "Droplet", "DigitalOcean", Cloud),
            ("Hetzner", "vServer", "Hetzner", Cloud),
            ("Nutanix", "AHV", "", Qemu),
            (
                "VMware, Inc.",
                "VMware Virtual Platform",
                "Phoenix Technologies LTD",
                Vmware,
            ),
            ("VMware, Inc.", "VMware7,1", "VMware, Inc.", Vmware),
            (
                "Microsoft Corporation",
                "Virtual Machine",
                "Microsoft Corporation",
                HyperV,
            ),
            ("innotek GmbH", "VirtualBox", "innotek GmbH", VirtualBox),
            ("Oracle Corporation", "VirtualBox", "", VirtualBox),
            ("Xen", "HVM domU", "Xen", Xen),
            ("Amazon EC2", "p5.48xlarge", "Amazon EC2", Amazon),
            ("Google", "Google Compute Engine", "Google", Google),
            ("Cloud Hypervisor", "cloud-hypervisor", "", CloudHypervisor),
            (
                "Parallels International GmbH.",
                "Parallels ARM Virtual Machine",
                "",
                Other,
            ),
            ("FreeBSD", "BHYVE", "BHYVE", Other),
            (
                "Apple Inc.",
                "Apple Virtualization Generic Platform",
                "",
                Other,
            ),
            ("Supermicro", "SYS-4029GP", "SeaBIOS", Qemu),
        ] {
            assert_eq!(
                names(vendor, product, bios),
                Names::Hypervisor(hypervisor),
                "{vendor} {product}"
            );
        }
    }

    #[test]
    fn machines_of_makers_are_hardware_and_so_are_whole_machines_of_a_cloud() {
        for (vendor, product) in [
            ("Dell Inc.", "PowerEdge XE9680"),
            ("HPE", "ProLiant DL380 Gen11"),
            ("ASUSTeK COMPUTER INC.", "ESC8000A-E12"),
            ("To Be Filled By O.E.M.", "To Be Filled By O.E.M."),
            ("Amazon EC2", "g4dn.metal"),
            ("Amazon EC2", "m7i.metal-24xl"),
            ("Microsoft Corporation", "Surface Laptop Studio"),
            ("NVIDIA", "NVIDIA_DGX_Spark"),
            ("Oracle Corporation", "ORACLE SERVER X9-2c"),
            ("Intel Corporation", "S2600WFT"),
        ] {
            assert_eq!(
                names(vendor, product, "American Megatrends Inc."),
                Names::Hardware,
                "{vendor} {product}"
            );
        }
    }

    #[test]
    fn the_machine_type_of_qemu_is_in_its_names() {
        let of = |product: &str, version: &str| {
            let pairs = [
                ("sys_vendor", "QEMU"),
                ("product_name", product),
                ("product_version", version),
            ];
            Dmi::of(
                &pairs
                    .map(|(key, value)| (key.to_owned(), Some(value.to_owned())))
                    .into(),
            )
            .mainboard()
        };
        assert_eq!(
            of("Standard PC (i440FX + PIIX, 1996)", "pc-i440fx-8.2"),
            Some(Mainboard::I440fx)
        );
        assert_eq!(
            of("Standard PC (Q35 + ICH9, 2009)", ""),
            Some(Mainboard::Q35)
        );
        assert_eq!(
            (of("KVM", "pc-q35-9.0"), of("KVM", "")),
            (Some(Mainboard::Q35), None)
        );
    }

    #[test]
    fn a_cloud_may_rent_both_and_other_names_are_unknown() {
        assert_eq!(
            names("Alibaba Cloud", "Alibaba Cloud ECS", "SeaBIOS"),
            Names::Cloud(Hypervisor::Cloud)
        );
        assert_eq!(
            names("Tencent Cloud", "CVM", ""),
            Names::Cloud(Hypervisor::Cloud)
        );
        assert_eq!(
            (names("Example", "Server", ""), names("", "", "")),
            (Names::Unknown, Names::Unknown)
        );
    }
}
