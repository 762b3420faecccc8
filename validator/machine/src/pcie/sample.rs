//! Small fabrics for unit tests.

#![expect(clippy::unwrap_used, reason = "for tests alone")]

use super::model::{Acs, Bdf, ConfigState, Device, Fabric, Kind, Link, Peers, Routing, SCHEMA};
use super::tree::Tree;
use super::{path, routing};
use crate::host::cpu::Cpus;
use crate::host::iommu::{Iommu, IommuMode};
use crate::host::platform::peers_of;
use std::collections::BTreeMap;

/// An address.
pub fn bdf(text: &str) -> Bdf {
    text.parse().unwrap()
}

/// A function under `parent`, with a Gen4 x16 link, on root bus and NUMA node 0.
pub fn device(at: &str, kind: Kind, parent: Option<&str>) -> Device {
    Device {
        bdf: bdf(at),
        vendor: "0x1022".into(),
        device: "0x1483".into(),
        class: "0x060400".into(),
        kind,
        parent: parent.map(bdf),
        physfn: None,
        root_bus: Some("pci0000:00".into()),
        numa: Some(0),
        local_cpus: None,
        driver: None,
        lent: false,
        leads_to_nvswitches: false,
        boot_vga: false,
        config: ConfigState {
            bytes: 4096,
            gone: false,
            faults: Vec::new(),
            undetermined: Vec::new(),
        },
        acs: None,
        routing: Routing::default(),
        slot: None,
        clique: None,
        model: None,
        rebar: Vec::new(),
        bars: Vec::new(),
        link: Some(Link {
            gts: 16.0,
            width: 16,
            max_gts: 16.0,
            max_width: 16,
        }),
    }
}

/// An RTX 4090 under `parent`.
pub fn gpu(at: &str, parent: &str) -> Device {
    let gpu = device(at, Kind::Endpoint, Some(parent));
    Device {
        vendor: "0x10de".into(),
        device: "0x2684".into(),
        class: "0x030000".into(),
        ..gpu
    }
}

/// The same function with ACS and this control register.
pub fn with_acs(device: Device, ctrl: u16) -> Device {
    let acs = Acs {
        offset: 0x148,
        cap: 0x5f,
        ctrl,
        quirk: false,
        enabled: routing::acs_names(ctrl),
        egress: None,
    };
    Device {
        acs: Some(acs),
        ..device
    }
}

/// Two root ports with a GPU each, ACS on at the first.
pub fn two_gpus() -> Vec<Device> {
    vec![
        with_acs(device("0000:00:01.0", Kind::RootPort, None), 0x001d),
        with_acs(device("0000:00:02.0", Kind::RootPort, None), 0),
        gpu("0000:01:00.0", "0000:00:01.0"),
        gpu("0000:02:00.0", "0000:00:02.0"),
    ]
}

/// The fabric of `devices`; GPUs are NVIDIA's functions.
pub fn fabric(devices: Vec<Device>) -> Fabric {
    let gpus: Vec<Bdf> = devices
        .iter()
        .filter(|d| d.vendor == "0x10de")
        .map(|d| d.bdf)
        .collect();
    let paths = path::all(&Tree::new(&devices), &gpus, &[]);
    let iommu = Iommu {
        mode: IommuMode::Off,
        classes: Vec::new(),
        groups: 0,
        firmware_tables: Vec::new(),
    };
    let mut fabric = Fabric {
        schema: SCHEMA.into(),
        root: "/".into(),
        iommu,
        cpus: Cpus {
            possible: 4,
            present: 4,
            online: 4,
        },
        devices,
        rdma: Vec::new(),
        lockdown: None,
        numa_nodes: None,
        gpus,
        nics: Vec::new(),
        paths,
        peers: Peers::default(),
        findings: Vec::new(),
    };
    fabric.peers = peers_of(&fabric, &BTreeMap::new());
    fabric
}
