//! Which devices are meant to exchange data directly, and if none are, why. Pure. A board about which too little is known
//! counts, because nothing may be missed.

use crate::host::nvidia::{board_kind, chip};
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
    let tree = Tree::of(fabric);
    let gpus_here: Vec<_> = discrete.iter().map(|gpu| gpu.bdf).collect();
    let with_gpus = each_two(&gpus_here).filter(|(a, b)| !are_of_two_generations(&tree, *a, *b));
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
            _ if discrete.len() > 1 => NoPeers::Generations,
            (_, _, Some(gpu)) if gpu.geforce == Some(true) && !cards.is_empty() => NoPeers::GeForce,
            _ => NoPeers::OneGpu,
        });
    Peers { pairs, none }
}

/// The unordered pairs of a list.
fn each_two(all: &[Bdf]) -> impl Iterator<Item = (Bdf, Bdf)> {
    let later = |n: usize| all.iter().skip(n.saturating_add(1));
    all.iter()
        .enumerate()
        .flat_map(move |(n, one)| later(n).map(move |other| (*one, *other)))
}

fn are_of_two_generations(tree: &Tree, one: Bdf, other: Bdf) -> bool {
    let chip = |gpu| chip::of(chip::number(&tree.get(gpu)?.device)?);
    chip::of_two_generations(chip(one), chip(other)).is_some()
}

/// Adds the pairs of two generations that the configuration demands (`expect.peers`). Each group has GPUs of which every two are
/// demanded; GPUs that can have no peers on PCIe are not added.
pub fn demand(fabric: &mut Fabric, groups: &[Vec<Bdf>]) {
    let tree = Tree::of(fabric);
    let possible = |gpu: &Bdf| {
        tree.get(*gpu).is_some_and(|gpu| {
            gpu.pass_through_driver().is_none()
                && !board_kind::has_own_link(chip::number(&gpu.device), None)
        })
    };
    let pairs = groups.iter().flat_map(|group| each_two(group));
    let demanded: Vec<_> = pairs
        .filter(|(one, other)| are_of_two_generations(&tree, *one, *other))
        .filter(|(one, other)| possible(one) && possible(other))
        .filter(|(one, other)| !fabric.peers.are(*one, *other))
        .collect();
    if !demanded.is_empty() {
        fabric.peers.none = None;
        fabric.peers.pairs.extend(demanded);
    }
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
    const NEWER: &str = "0x2b85";
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
    fn boards_of_two_generations_are_no_peers_unless_they_are_demanded() {
        let nvidia = |id| (id, "nvidia");
        let mixed = [nvidia(GEFORCE), nvidia(NEWER)];
        none(&mixed, None, NoPeers::Generations);
        none(&mixed, Some("mlx5_core"), NoPeers::Generations);
        assert_eq!(pairs(&[mixed[0], mixed[0], mixed[1]], None), 1);
        assert_eq!(pairs(&[mixed[0], nvidia(UNKNOWN)], None), 1, "it may be");
        assert_eq!(
            pairs(&[nvidia(WORKSTATION), nvidia(NEWER)], Some("mlx5_core")),
            1,
            "the card of one"
        );
        let gpu = |at: &str, id: &str| Device {
            device: id.into(),
            ..sample::gpu(at, "0000:00:01.0")
        };
        let of = |driver: &str, group: &[usize]| {
            let mut devices = vec![
                gpu("0000:01:00.0", GEFORCE),
                gpu("0000:02:00.0", NEWER),
                gpu("0000:03:00.0", GRACE),
            ];
            devices[1].driver = Some(driver.to_owned());
            let mut fabric = sample::fabric(devices);
            let group = group.iter().map(|n| fabric.gpus[*n]).collect();
            demand(&mut fabric, &[group]);
            (fabric.peers.pairs.len(), fabric.peers.none.is_some())
        };
        assert_eq!(of("nvidia", &[]), (0, true));
        assert_eq!(of("nvidia", &[0, 1]), (1, false));
        assert_eq!(
            of("nvidia", &[0, 1, 2]),
            (1, false),
            "Grace has its own link"
        );
        assert_eq!(of("vfio-pci", &[0, 1]), (0, true), "a guest has it");
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
