//! Checks how each machine is read: the link of each function, by sysfs and by its registers, the function of each RDMA
//! device, and which network cards are peers of GPUs.

mod modelled;

use crate::modelled::{MachineCopy, bdf, fabric, names};
use machine::pcie::model::Fabric;
use outcome::finding::Severity::{self, Error, Info, Warn};
use outcome::finding::{Code, Subject};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Code, severity and subject of a finding.
type Named = (&'static str, Severity, String);

fn named(code: &'static str, severity: Severity, subject: &str) -> Named {
    (code, severity, subject.to_owned())
}

fn findings(fabric: &Fabric) -> Vec<Named> {
    fabric
        .findings
        .iter()
        .map(|f| (f.code.as_str(), f.severity, f.subject.to_string()))
        .collect()
}

/// Adds a function next to `of` that Linux shows like a virtual one: no ids, no link.
fn virtual_function(copy: &MachineCopy, of: &str, own: &str) {
    let real = copy.file(of, "").canonicalize().unwrap();
    let folder = real.with_file_name(own);
    fs::create_dir(&folder).unwrap();
    for file in fs::read_dir(&real)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_file())
    {
        fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    let mut config = fs::read(real.join("config")).unwrap();
    config[..4].fill(0xff);
    config[0x10..0x28].fill(0);
    fs::write(folder.join("config"), config).unwrap();
    fs::write(folder.join("current_link_width"), "0\n").unwrap();
    fs::write(folder.join("current_link_speed"), "Unknown\n").unwrap();
    symlink(format!("../{of}"), folder.join("physfn")).unwrap();
    let listed = fs::read_link(copy.at("sys/bus/pci/devices").join(of)).unwrap();
    symlink(
        listed.with_file_name(own),
        copy.at("sys/bus/pci/devices").join(own),
    )
    .unwrap();
}

#[test]
fn virtual_functions_use_the_link_of_their_physical_one_and_are_no_further_gpus() {
    let copy = MachineCopy::of("epyc-8x4090");
    virtual_function(&copy, "0000:c4:00.0", "0000:c4:00.2");
    virtual_function(&copy, "0000:01:00.0", "0000:01:00.4");
    let fabric = copy.fabric();
    assert_eq!(
        (findings(&fabric), fabric.gpus.len(), fabric.nics.len()),
        (vec![], 8, 5)
    );
    let link = |at: &str| {
        fabric
            .devices
            .iter()
            .find(|d| d.bdf == bdf(at))
            .unwrap()
            .link
            .clone()
    };
    assert_eq!(link("0000:c4:00.2"), link("0000:c4:00.0"));
    assert!(link("0000:c4:00.2").is_some());
    assert!(
        fabric.paths.iter().all(|p| p.raw_gb_s > 31.0),
        "also to the virtual function"
    );
}

#[test]
fn functions_that_lead_to_nvswitches_are_no_network_cards() {
    let copy = MachineCopy::of("epyc-8x4090");
    let cards = copy.fabric().nics;
    let card = cards[0].to_string();
    fs::write(copy.file(&card, "class"), "0x020700\n").unwrap();
    fs::write(copy.file(&card, "vpd"), "MLX:MN=MLNX:SMDL=SW_MNG").unwrap();
    let fabric = copy.fabric();
    assert_eq!(fabric.nics, cards[1..]);
    assert!(fabric.paths.iter().all(|path| path.b != cards[0]));
    assert!(fabric.rdma.iter().all(|rdma| rdma.bdf != cards[0]));
}

#[test]
fn gpus_that_their_own_driver_gives_to_virtual_machines_have_no_peers_here() {
    let (gpu, part) = ("0000:01:00.0", "0000:01:00.4");
    let lent = |change: &dyn Fn(&MachineCopy)| {
        let copy = MachineCopy::of("epyc-8x4090");
        virtual_function(&copy, gpu, part);
        change(&copy);
        let fabric = copy.fabric();
        assert_eq!(findings(&fabric), []);
        let lent: Vec<_> = fabric.devices.iter().filter(|d| d.lent).collect();
        let lent: Vec<_> = lent.iter().map(|d| d.bdf.to_string()).collect();
        (lent, fabric.peers.contain(bdf(gpu)))
    };
    let write = |copy: &MachineCopy, name: &str, text: &str| {
        let file = copy.file(part, name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let both = (vec![gpu.to_owned(), part.to_owned()], false);
    assert_eq!(lent(&|_| ()), (vec![], true));
    let vgpu = |kind| move |copy: &MachineCopy| write(copy, "nvidia/current_vgpu_type", kind);
    assert_eq!(lent(&vgpu("0\n")), (vec![], true), "none is set up");
    assert_eq!(lent(&vgpu("918\n")), both);
    let mediated = |copy: &MachineCopy| {
        write(
            copy,
            "mdev_supported_types/nvidia-592/name",
            "NVIDIA A40-4Q\n",
        );
    };
    assert_eq!(lent(&mediated), both);
}

#[test]
fn without_a_physical_function_ids_of_ones_are_a_contradiction() {
    let copy = MachineCopy::of("epyc-8x4090");
    virtual_function(&copy, "0000:01:00.0", "0000:01:00.4");
    fs::remove_file(copy.file("0000:01:00.4", "physfn")).unwrap();
    assert!(findings(&copy.fabric()).contains(&named("PCI-MALFORMED", Error, "0000:01:00.4")));
    symlink("../0000:01:00.7", copy.file("0000:01:00.4", "physfn")).unwrap();
    assert!(findings(&copy.fabric()).contains(&named("PCI-UNREADABLE", Error, "0000:01:00.4")));
}

#[test]
fn link_files_that_make_no_sense_are_told_and_what_the_kernel_says_of_a_link_that_is_down_is_not() {
    let says = |name: &str, text: &str| {
        let copy = MachineCopy::of("epyc-8x4090");
        fs::write(copy.file("0000:01:00.0", name), text).unwrap();
        copy.fabric().findings
    };
    for (name, text) in [
        ("current_link_width", "sixteen"),
        ("current_link_width", "99999"),
        ("max_link_width", ""),
        ("max_link_speed", "fast"),
        ("current_link_speed", "-1 GT/s"),
    ] {
        let found = says(name, text);
        assert!(
            found[0].is(Code::PciUnreadable) && found[0].message.to_string().contains(name),
            "{found:?}"
        );
    }
    for (name, text) in [
        ("current_link_speed", "Unknown"),
        ("max_link_width", "255"),
        ("current_link_width", "0"),
    ] {
        assert!(
            says(name, text)
                .iter()
                .all(|f| f.code.as_str().starts_with("LINK-")),
            "{name} {text}"
        );
    }
}

#[test]
fn sysfs_and_registers_must_tell_the_same_link() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::write(copy.file("0000:01:00.0", "current_link_width"), "8\n").unwrap();
    let fabric = copy.fabric();
    let codes: Vec<_> = findings(&fabric)
        .iter()
        .map(|f| (f.0.to_owned(), f.1))
        .collect();
    assert_eq!(
        codes,
        [
            ("LINK-DISAGREES".to_owned(), Warn),
            ("LINK-NARROW".to_owned(), Warn)
        ]
    );
}

#[test]
fn registers_tell_the_link_where_sysfs_is_silent() {
    let copy = MachineCopy::of("narrow-link");
    for name in [
        "current_link_width",
        "current_link_speed",
        "max_link_width",
        "max_link_speed",
    ] {
        fs::remove_file(copy.file("0000:02:00.0", name)).unwrap();
    }
    assert_eq!(
        findings(&copy.fabric()),
        [named("LINK-NARROW", Warn, "0000:02:00.0")]
    );
}

#[test]
fn an_idle_gpus_slow_link_is_only_information() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::write(
        copy.file("0000:01:00.0", "current_link_speed"),
        "2.5 GT/s PCIe\n",
    )
    .unwrap();
    let slow = copy
        .fabric()
        .findings
        .into_iter()
        .find(|f| f.is(Code::LinkSlow))
        .unwrap();
    assert_eq!((slow.severity, slow.unit.as_deref()), (Info, Some("GT/s")));
}

#[test]
fn an_rdma_device_without_a_function_is_no_nic_and_one_with_a_strange_one_is_told() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::create_dir(copy.at("sys/class/infiniband/rxe0")).unwrap();
    assert_eq!(copy.fabric().rdma.len(), 4);
    fs::create_dir(copy.at("sys/class/infiniband/odd0")).unwrap();
    symlink(
        "../../../0000:77:00.0",
        copy.at("sys/class/infiniband/odd0/device"),
    )
    .unwrap();
    let fabric = copy.fabric();
    assert_eq!(
        (fabric.rdma.len(), findings(&fabric).swap_remove(0)),
        (4, named("PCI-UNREADABLE", Error, "odd0"))
    );
}

/// Drivers such as `irdma` and `bnxt_re` are on an auxiliary device, whose name is not an address.
#[test]
fn an_rdma_device_on_an_auxiliary_device_stands_on_the_function_above_it() {
    let copy = MachineCopy::of("epyc-8x4090");
    let class = copy.at("sys/class/infiniband");
    let function = fs::read_link(copy.at("sys/bus/pci/devices/0000:c4:00.0")).unwrap();
    let place = function.strip_prefix("../../../devices").unwrap();
    let own = format!(
        "sys/devices/{}/irdma.roce.0/infiniband/irdma0",
        place.display()
    );
    fs::create_dir_all(copy.at(&own)).unwrap();
    symlink("../../../irdma.roce.0", copy.at(&own).join("device")).unwrap();
    symlink(Path::new("../../..").join(&own), class.join("irdma0")).unwrap();
    // The platform's own device is not on a PCI function, and does not belong to the fabric.
    fs::create_dir_all(copy.at("sys/devices/platform/HISI0001:00/infiniband/hns_0")).unwrap();
    symlink(
        "../../devices/platform/HISI0001:00/infiniband/hns_0",
        class.join("hns_0"),
    )
    .unwrap();
    symlink("../../../HISI0001:00", class.join("hns_0/device")).unwrap();
    let fabric = copy.fabric();
    assert_eq!(findings(&fabric), []);
    let at = |name: &str| fabric.rdma.iter().find(|r| r.name == name).map(|r| r.bdf);
    assert_eq!(
        (at("irdma0"), at("hns_0"), fabric.rdma.len()),
        (Some(bdf("0000:c4:00.0")), None, 5)
    );
}

/// A laptop: one GPU, Wi-Fi and a wired port that trained one lane of four.
#[test]
fn a_boards_own_network_is_no_peer_of_gpus() {
    let copy = MachineCopy::of("narrow-link");
    for (name, lanes) in [("current_link_width", "1\n"), ("max_link_width", "4\n")] {
        fs::write(copy.file("0000:03:00.0", name), lanes).unwrap();
    }
    let fabric = copy.fabric();
    assert_eq!(
        (fabric.nics.len(), fabric.paths.len()),
        (1, 1),
        "the GPUs with each other"
    );
    let about: Vec<_> = fabric
        .findings
        .iter()
        .filter(|f| f.subject == Subject::from(bdf("0000:03:00.0")))
        .collect();
    assert!(about.iter().all(|f| f.is(Code::LinkDisagrees)), "{about:?}");
    // The same card with RDMA is a peer, and its link matters.
    fs::create_dir_all(copy.at("sys/class/infiniband/i0")).unwrap();
    symlink(
        "../../../0000:03:00.0",
        copy.at("sys/class/infiniband/i0/device"),
    )
    .unwrap();
    let fabric = copy.fabric();
    assert!(
        fabric.paths.len() == 3
            && findings(&fabric).contains(&named("LINK-NARROW", Info, "0000:03:00.0"))
    );
}
