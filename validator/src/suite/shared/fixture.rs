//! A machine for the judges' unit tests: GPUs behind one switch below a root port, all healthy. Each test breaks
//! the part that it is about.

use machine::host::cpu::Cpus;
use machine::host::iommu::{Iommu, IommuMode};
use machine::host::platform::peers_of;
use machine::pcie::model::{
    Acs, Bar, Bdf, ConfigState, Device, Fabric, Kind, Link, Peers, Routing, SCHEMA,
};
use machine::pcie::path;
use machine::pcie::tree::Tree;
use std::collections::BTreeMap;

/// A machine with that many GPUs.
pub(in crate::suite) fn machine(gpus: u8) -> Fabric {
    let mut devices = vec![
        part(bdf(0, 1), Kind::RootPort, None),
        part(bdf(1, 0), Kind::Upstream, Some(bdf(0, 1))),
    ];
    devices.extend((0..gpus).map(|n| part(bdf(2, n), Kind::Downstream, Some(bdf(1, 0)))));
    devices.extend((0..gpus).map(|n| part(bdf(0x10 + n, 0), Kind::Endpoint, Some(bdf(2, n)))));
    let gpus: Vec<Bdf> = (0..gpus).map(|n| bdf(0x10 + n, 0)).collect();
    let paths = path::all(&Tree::new(&devices), &gpus, &[]);
    let mut fabric = Fabric {
        schema: SCHEMA.into(),
        root: "/".into(),
        iommu: Iommu {
            mode: IommuMode::Off,
            classes: vec![],
            groups: 0,
            firmware_tables: vec![],
        },
        cpus: Cpus {
            possible: 2,
            present: 2,
            online: 2,
        },
        devices,
        rdma: vec![],
        lockdown: None,
        numa_nodes: None,
        gpus,
        nics: vec![],
        paths,
        peers: Peers::default(),
        findings: vec![],
    };
    fabric.peers = peers_of(&fabric, &BTreeMap::new());
    fabric
}

/// The device at `bdf`, to be changed by a test.
pub(in crate::suite) fn device(fabric: &mut Fabric, bdf: Bdf) -> &mut Device {
    fabric
        .devices
        .iter_mut()
        .find(|d| d.bdf == bdf)
        .expect("the fixture has it")
}

/// The downstream port above a GPU.
pub(in crate::suite) fn port(n: u8) -> Bdf {
    bdf(2, n)
}

fn bdf(bus: u8, device: u8) -> Bdf {
    Bdf {
        domain: 0,
        bus,
        device,
        function: 0,
    }
}

fn part(bdf: Bdf, kind: Kind, parent: Option<Bdf>) -> Device {
    let gpu = kind == Kind::Endpoint;
    let has_acs = matches!(kind, Kind::RootPort | Kind::Downstream);
    let acs = Acs {
        offset: 0x148,
        cap: 0x5f,
        ctrl: 0,
        quirk: false,
        enabled: vec![],
        egress: None,
    };
    let bar = Bar {
        index: 1,
        start: 0x40_0000_0000,
        bytes: 32 << 30,
        flags: 0x14220c,
    };
    let (vendor, class) = if gpu {
        ("0x10de", "0x030000")
    } else {
        ("0x1b36", "0x060400")
    };
    Device {
        bdf,
        vendor: vendor.into(),
        device: "0x2684".into(),
        class: class.into(),
        kind,
        parent,
        physfn: None,
        root_bus: Some("pci0000:00".into()),
        numa: None,
        local_cpus: None,
        driver: None,
        lent: false,
        leads_to_nvswitches: false,
        config: ConfigState {
            bytes: 4096,
            gone: false,
            faults: vec![],
            undetermined: vec![],
        },
        boot_vga: false,
        acs: has_acs.then_some(acs),
        routing: Routing::default(),
        slot: None,
        clique: None,
        model: None,
        rebar: vec![],
        bars: if gpu { vec![bar] } else { vec![] },
        link: Some(Link {
            gts: 16.0,
            width: 16,
            max_gts: 16.0,
            max_width: 16,
        }),
    }
}
