//! On which function is each RDMA device, and which network card is a peer of GPUs?

use super::*;
use std::path::Path;

#[test]
fn an_rdma_device_without_a_function_is_no_nic_and_one_with_a_strange_one_is_told() {
    let copy = Copy::of("epyc-8x4090");
    fs::create_dir(copy.at("sys/class/infiniband/rxe0")).unwrap();
    assert_eq!(copy.fabric().rdma.len(), 4);
    fs::create_dir(copy.at("sys/class/infiniband/odd0")).unwrap();
    symlink("../../../0000:77:00.0", copy.at("sys/class/infiniband/odd0/device")).unwrap();
    let fabric = copy.fabric();
    assert_eq!((fabric.rdma.len(), findings(&fabric)[0]), (4, ("PCI-UNREADABLE", Error, "odd0")));
}

/// Drivers such as `irdma` and `bnxt_re` stand on an auxiliary device, whose name is no address.
#[test]
fn an_rdma_device_on_an_auxiliary_device_stands_on_the_function_above_it() {
    let copy = Copy::of("epyc-8x4090");
    let class = copy.at("sys/class/infiniband");
    let function = fs::read_link(copy.at("sys/bus/pci/devices/0000:c4:00.0")).unwrap();
    let place = function.strip_prefix("../../../devices").unwrap();
    let own = format!("sys/devices/{}/irdma.roce.0/infiniband/irdma0", place.display());
    fs::create_dir_all(copy.at(&own)).unwrap();
    symlink("../../../irdma.roce.0", copy.at(&own).join("device")).unwrap();
    symlink(Path::new("../../..").join(&own), class.join("irdma0")).unwrap();
    // The platform's own stands on no PCI function, and is none of ours.
    fs::create_dir_all(copy.at("sys/devices/platform/HISI0001:00/infiniband/hns_0")).unwrap();
    symlink("../../devices/platform/HISI0001:00/infiniband/hns_0", class.join("hns_0")).unwrap();
    symlink("../../../HISI0001:00", class.join("hns_0/device")).unwrap();
    let fabric = copy.fabric();
    assert_eq!(findings(&fabric), []);
    let at = |name: &str| fabric.rdma.iter().find(|r| r.name == name).map(|r| r.bdf);
    assert_eq!((at("irdma0"), at("hns_0"), fabric.rdma.len()), (Some(bdf("0000:c4:00.0")), None, 5));
}

/// A laptop: one GPU, Wi-Fi and a wired port that trained one lane of four.
#[test]
fn a_boards_own_network_is_no_peer_of_gpus() {
    let copy = Copy::of("narrow-link");
    for (name, lanes) in [("current_link_width", "1\n"), ("max_link_width", "4\n")] {
        fs::write(copy.file("0000:03:00.0", name), lanes).unwrap();
    }
    let fabric = copy.fabric();
    assert_eq!((fabric.nics.len(), fabric.paths.len()), (1, 1), "the GPUs with each other");
    let about: Vec<_> = fabric.findings.iter().filter(|f| f.subject == "0000:03:00.0").collect();
    assert!(about.iter().all(|f| f.code == "LINK-DISAGREES"), "{about:?}");
    // The same card with RDMA is a peer, and its link matters.
    fs::create_dir_all(copy.at("sys/class/infiniband/i0")).unwrap();
    symlink("../../../0000:03:00.0", copy.at("sys/class/infiniband/i0/device")).unwrap();
    let fabric = copy.fabric();
    assert!(fabric.paths.len() == 3 && findings(&fabric).contains(&("LINK-NARROW", Warn, "0000:03:00.0")));
}
