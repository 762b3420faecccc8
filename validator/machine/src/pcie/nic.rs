//! Network functions that exchange data with GPUs directly (GPUDirect RDMA). Only their ports, links and
//! paths matter here: a Wi-Fi card or a board's management port never accesses a GPU. Pure.

use super::model::{Bdf, Device, Fabric, Rdma};
use contract::pci_vendor;

/// Class InfiniBand, and class fabric (Omni-Path).
const FABRICS: [&str; 2] = ["0x0207", "0x0208"];

/// True for a network function that can access GPUs: one with an RDMA device, or one that is known to have
/// one as soon as its driver is loaded. A function that leads to NVSwitches moves no data of programs.
#[must_use]
pub fn exchanges(device: &Device, rdma: &[Rdma]) -> bool {
    let network = device.class.starts_with("0x02") && !device.leads_to_nvswitches;
    let fabric = FABRICS.iter().any(|class| device.class.starts_with(class));
    let own = rdma
        .iter()
        .any(|r| r.bdf == device.bdf || Some(r.bdf) == device.physfn);
    // Every Ethernet function of Mellanox for which Linux has a driver supports RDMA (mlx4, mlx5).
    network && (own || fabric || device.vendor == pci_vendor::MELLANOX)
}

/// All such functions of a fabric, ordered by address.
#[must_use]
pub fn exchanging<F>(fabric: &Fabric<F>) -> Vec<Bdf> {
    fabric
        .devices
        .iter()
        .filter(|d| exchanges(d, &fabric.rdma))
        .map(|d| d.bdf)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::Kind;
    use super::super::sample;
    use super::*;

    #[test]
    fn a_card_with_rdma_exchanges_data_with_gpus_and_wifi_and_management_do_not() {
        let card = |vendor: &str, class: &str| {
            let device = sample::device("0000:03:00.0", Kind::Endpoint, None);
            Device {
                vendor: vendor.into(),
                class: class.into(),
                ..device
            }
        };
        let at = |bdf: &str| {
            [Rdma {
                name: "bnxt_re0".into(),
                bdf: sample::bdf(bdf),
            }]
        };
        let (wifi, management) = (card("0x8086", "0x028000"), card("0x14e4", "0x020000"));
        assert!(!exchanges(&wifi, &[]) && !exchanges(&management, &at("0000:04:00.0")));
        assert!(
            exchanges(&management, &at("0000:03:00.0")),
            "it has an RDMA device"
        );
        let part = Device {
            physfn: Some(sample::bdf("0000:04:00.0")),
            ..management
        };
        assert!(
            exchanges(&part, &at("0000:04:00.0")),
            "a virtual function is like its physical one"
        );
        for (vendor, class) in [
            ("0x15b3", "0x020000"),
            ("0x15b3", "0x020700"),
            ("0x8086", "0x020800"),
        ] {
            assert!(
                exchanges(&card(vendor, class), &[]),
                "{vendor} {class}: before its driver is loaded"
            );
        }
        let to_nvswitches = Device {
            leads_to_nvswitches: true,
            ..card("0x15b3", "0x020700")
        };
        assert!(
            !exchanges(&to_nvswitches, &at("0000:03:00.0")),
            "it looks like a card and is none"
        );
        assert!(
            !exchanges(&card("0x15b3", "0x080100"), &[]),
            "a DMA controller is not a network function"
        );
    }
}
