//! Which devices are meant to exchange data directly, and if none are, why. Pure. A board about which too little is known
//! counts, because nothing may be missed.

use crate::pcie::model::{Bdf, Device, Fabric};
use crate::pcie::nic;
use crate::pcie::tree::Tree;
use outcome::platform::{HostGpu, NoPeers, Peers};

/// Every two GPUs between which the driver gives peer access or could, then each GPU with each network card that
/// exchanges data with it by GPUDirect RDMA. `gpus` are the fabric's.
#[must_use]
pub fn peers(fabric: &Fabric, gpus: &[HostGpu]) -> Peers {
    let own: Vec<_> = gpus.iter().filter(|gpu| gpu.passed_by.is_none()).collect();
    // Data for a GPU with a link of its own to the processor crosses that link or NVLink, and no port of PCIe.
    let discrete: Vec<_> = own
        .iter()
        .copied()
        .filter(|gpu| !gpu.integrated && !gpu.own_link)
        .collect();
    let cards = cards(fabric);
    let with_gpus = discrete
        .iter()
        .enumerate()
        .flat_map(|(n, a)| discrete.iter().skip(n + 1).map(|b| (a.bdf, b.bdf)));
    let with_cards = discrete.iter().filter(|gpu| gpu.geforce != Some(true));
    let with_cards = with_cards.flat_map(|gpu| cards.iter().map(|card| (gpu.bdf, *card)));
    let pairs: Vec<_> = with_gpus.chain(with_cards).collect();
    let none = pairs
        .is_empty()
        .then(|| match (gpus.len(), own.len(), discrete.first()) {
            (0, ..) => NoPeers::NoGpu,
            (all, own, _) if own < all => NoPeers::PassedThrough,
            (_, _, None) if own.iter().any(|gpu| gpu.own_link) => NoPeers::OwnLink,
            (_, _, None) => NoPeers::Integrated,
            (_, _, Some(gpu)) if gpu.geforce == Some(true) && !cards.is_empty() => NoPeers::GeForce,
            _ => NoPeers::OneGpu,
        });
    Peers { pairs, none }
}

/// The network cards that can reach GPUs and are not a guest's.
fn cards(fabric: &Fabric) -> Vec<Bdf> {
    let tree = Tree::of(fabric);
    let own = |bdf: &Bdf| {
        tree.get(*bdf)
            .is_some_and(|card: &Device| card.pass_through_driver().is_none())
    };
    nic::exchanging(fabric).into_iter().filter(own).collect()
}

#[cfg(test)]
mod tests {
    use super::super::peers_of;
    use super::*;
    use crate::pcie::model::Kind;
    use crate::pcie::sample;
    use std::collections::BTreeMap;

    const GEFORCE: &str = "0x2684";
    const WORKSTATION: &str = "0x26b1";
    const INTEGRATED: &str = "0x2e12";
    const UNKNOWN: &str = "0x3fff";
    const GRACE: &str = "0x2342";

    /// GPUs with these device ids and drivers, and a ConnectX with a driver if there is one.
    fn of(gpus: &[(&str, &str)], card: Option<&str>) -> (Vec<(String, String)>, Option<NoPeers>) {
        let gpu = |(n, (id, driver)): (usize, &(&str, &str))| {
            let gpu = sample::gpu(&format!("0000:{:02x}:00.0", n + 1), "0000:00:01.0");
            Device {
                device: (*id).into(),
                driver: Some((*driver).into()),
                ..gpu
            }
        };
        let mut devices: Vec<_> = gpus.iter().enumerate().map(gpu).collect();
        if let Some(driver) = card {
            let card = sample::device("0000:41:00.0", Kind::Endpoint, None);
            let (vendor, class) = ("0x15b3".into(), "0x020000".into());
            devices.push(Device {
                vendor,
                class,
                driver: Some(driver.into()),
                ..card
            });
        }
        let found = peers_of(&sample::fabric(devices), &BTreeMap::new());
        (
            found
                .pairs
                .iter()
                .map(|(a, b)| (a.to_string(), b.to_string()))
                .collect(),
            found.none,
        )
    }

    #[track_caller]
    fn none(gpus: &[(&str, &str)], card: Option<&str>, why: NoPeers) {
        assert_eq!(of(gpus, card), (vec![], Some(why)));
    }

    fn pairs(gpus: &[(&str, &str)], card: Option<&str>) -> usize {
        let (pairs, none) = of(gpus, card);
        assert_eq!(none.is_none(), !pairs.is_empty());
        pairs.len()
    }

    #[test]
    fn two_gpus_are_peers_and_a_card_is_one_of_boards_with_gpudirect_rdma() {
        let nvidia = |id| (id, "nvidia");
        assert_eq!(pairs(&[nvidia(GEFORCE), nvidia(GEFORCE)], None), 1);
        assert_eq!(
            pairs(&[nvidia(GEFORCE), nvidia(GEFORCE)], Some("mlx5_core")),
            1
        );
        assert_eq!(pairs(&[nvidia(WORKSTATION)], Some("mlx5_core")), 1);
        assert_eq!(pairs(&[nvidia(WORKSTATION); 4], Some("mlx5_core")), 6 + 4);
        assert_eq!(
            pairs(&[nvidia(UNKNOWN)], Some("mlx5_core")),
            1,
            "an unknown board may have it"
        );
        assert_eq!(
            pairs(
                &[nvidia(INTEGRATED), nvidia(GEFORCE), nvidia(GEFORCE)],
                None
            ),
            1
        );
    }

    #[test]
    fn without_a_pair_the_reason_is_known() {
        let nvidia = |id| (id, "nvidia");
        none(&[], Some("mlx5_core"), NoPeers::NoGpu);
        none(&[nvidia(GEFORCE)], None, NoPeers::OneGpu);
        none(&[nvidia(WORKSTATION)], None, NoPeers::OneGpu);
        none(&[nvidia(GEFORCE)], Some("mlx5_core"), NoPeers::GeForce);
        none(
            &[nvidia(INTEGRATED)],
            Some("mlx5_core"),
            NoPeers::Integrated,
        );
        none(
            &[nvidia(INTEGRATED), nvidia(INTEGRATED)],
            None,
            NoPeers::Integrated,
        );
    }

    #[test]
    fn gpus_with_a_link_of_their_own_to_the_processor_have_no_peers_on_pcie() {
        let grace = (GRACE, "nvidia");
        none(&[grace], Some("mlx5_core"), NoPeers::OwnLink);
        none(&[grace; 4], Some("mlx5_core"), NoPeers::OwnLink);
        assert_eq!(
            pairs(&[grace, (WORKSTATION, "nvidia")], Some("mlx5_core")),
            1
        );
    }

    #[test]
    fn what_is_passed_to_a_guest_is_no_peer() {
        let (own, guests) = ((WORKSTATION, "nvidia"), (WORKSTATION, "vfio-pci"));
        none(&[guests], Some("mlx5_core"), NoPeers::PassedThrough);
        none(&[guests, guests], None, NoPeers::PassedThrough);
        none(&[guests, own], None, NoPeers::PassedThrough);
        none(&[own], Some("mlx5_vfio_pci"), NoPeers::OneGpu);
        assert_eq!(pairs(&[own, own, guests], Some("mlx5_vfio_pci")), 1);
        assert_eq!(pairs(&[own, guests], Some("mlx5_core")), 1);
    }
}
