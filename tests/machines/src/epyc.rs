//! Eight RTX 4090 and two dual-port ConnectX-6 in a server with two EPYC 7542, four NUMA nodes per socket: every GPU has
//! its own root bus and node, both NICs share those of GPU 6.

use super::config_space::{Link, Port};
use super::driver::Driver;
use super::machine::{Function, Machine, Rdma};
use super::parts::{
    BAR1_32G, BAR1_256M, Bridge, BusLocation, audio, bridge, gpu, host_bridge, nic,
};

/// Root bus, bus below, NUMA node and processors of a GPU.
type GpuSlot = (u8, u8, i32, &'static str);
const GPUS: [GpuSlot; 8] = [
    (0x00, 0x01, 3, "24-31,88-95"),
    (0x20, 0x25, 2, "16-23,80-87"),
    (0x40, 0x41, 1, "8-15,72-79"),
    (0x60, 0x61, 0, "0-7,64-71"),
    (0x80, 0x81, 7, "56-63,120-127"),
    (0xa0, 0xa1, 6, "48-55,112-119"),
    (0xc0, 0xc1, 5, "40-47,104-111"),
    (0xe0, 0xe1, 4, "32-39,96-103"),
];
/// The root bus that both network cards share with GPU 6.
const NIC_BUS: u8 = 0xc0;
/// AMD's root complex and its PCIe ports.
const ROOT_COMPLEX: (u16, u16) = (0x1022, 0x1480);
const GPP_BRIDGE: (u16, u16) = (0x1022, 0x1483);
const CONNECTX_6_DX: (u16, u16) = (0x15b3, 0x101d);
/// Distance from the BAR1 of one GPU to the next one's.
const BAR1_STRIDE: u64 = 0x10_0000_0000;
const GEN4_X16: Link = Link::full(4, 16);

/// The working configuration: BAR1 covers all memory, ACS is off, the appliance's driver runs.
pub fn eight_gpus() -> Machine {
    let about = "8 x RTX 4090, 2 x EPYC 7542 (NPS4), 4 NICs: BAR1 32 GiB, ACS off, IOMMU off, patched driver";
    Machine {
        driver: Driver::patched(),
        ..machine("epyc-8x4090", about, BAR1_32G, 0x0000)
    }
}

/// The configuration that firmware and kernel leave: BAR1 256 MiB, and ACS on although the IOMMU is off.
pub fn eight_unconfigured() -> Machine {
    let about = "the same server before: BAR1 256 MiB, ACS 0x001d on every port, IOMMU off";
    let machine = machine("epyc-8x4090-before", about, BAR1_256M, 0x001d);
    Machine {
        cmdline: "quiet amd_iommu=off iommu=off",
        ..machine
    }
}

/// The same kind of server with GPUs at these addresses, function 0 of device 0, each on a bus below its own root bus. NUMA
/// nodes and processors are distributed evenly over eight nodes.
pub fn epyc_with_gpus(addresses: &[String]) -> Machine {
    let gpu_slot = |(n, bdf): (usize, &String)| {
        let below = bdf
            .get(5..7)
            .and_then(|bus| u8::from_str_radix(bus, 16).ok())
            .expect("an address");
        let node = n * GPUS.len() / addresses.len();
        (
            below - 1,
            below,
            i32::try_from(node).expect("few nodes"),
            GPUS[node].3,
        )
    };
    let gpu_slots: Vec<_> = addresses.iter().enumerate().map(gpu_slot).collect();
    let bar1 = |n: u64| 0x400_0000_0000 + n * BAR1_STRIDE;
    let functions = (0..)
        .zip(gpu_slots)
        .flat_map(|(n, gpu_slot)| root_bus(bar1(n), gpu_slot, BAR1_32G, 0x0000))
        .collect();
    let machine = machine(
        "epyc-many",
        "the same server with another number of GPUs",
        BAR1_32G,
        0x0000,
    );
    Machine {
        driver: Driver::patched(),
        functions,
        rdma: Vec::new(),
        ..machine
    }
}

fn machine(name: &'static str, about: &'static str, bar1: u8, acs: u16) -> Machine {
    let one = |(n, gpu_slot): (u64, _)| {
        let mut functions = root_bus(0x288_0000_0000 - n * BAR1_STRIDE, gpu_slot, bar1, acs);
        functions.extend(
            (gpu_slot.0 == NIC_BUS)
                .then(|| nics(gpu_slot, acs))
                .into_iter()
                .flatten(),
        );
        functions
    };
    let functions = (0..).zip(GPUS).flat_map(one).collect();
    Machine {
        rdma: vec![
            Rdma::ethernet(
                "mlx5_0",
                "0000:c4:00.0",
                "ens1f0np0",
                (3, "0000:0000:0000:0000:0000:ffff:0a00:0001"),
            ),
            Rdma::unplugged("mlx5_1", "0000:c4:00.1", "ens1f1np1"),
            Rdma::ethernet(
                "mlx5_2",
                "0000:c5:00.0",
                "ens2f0np0",
                (5, "0000:0000:0000:0000:0000:ffff:0a00:0101"),
            ),
            Rdma::unplugged("mlx5_3", "0000:c5:00.1", "ens2f1np1"),
        ],
        cpus: ["0-127"; 3],
        tables: vec!["IVRS"],
        dmi: ["Example", "Dual EPYC 8-GPU server", "2.7"],
        ..Machine::new(name, about, functions)
    }
}

/// A host bridge, a root port and the GPU behind it, BAR1 at `address`.
fn root_bus(address: u64, (root, below, numa, cpus): GpuSlot, bar1: u8, acs: u16) -> Vec<Function> {
    let location = BusLocation::on(&format!("pci0000:{root:02x}"), numa, cpus);
    let root_port = format!("0000:{root:02x}:01.1");
    let slot = location.under(&root_port);
    let (vendor, device) = ROOT_COMPLEX;
    vec![
        host_bridge(&location, &format!("0000:{root:02x}:00.0"), vendor, device),
        bridge(&location, &root_port, port(below, acs)),
        gpu(
            &slot,
            &format!("0000:{below:02x}:00.0"),
            address,
            bar1,
            GEN4_X16,
        ),
        audio(&slot, &format!("0000:{below:02x}:00.1"), GEN4_X16),
    ]
}

/// Two network cards on the root bus of a GPU.
fn nics((root, _, numa, cpus): GpuSlot, acs: u16) -> Vec<Function> {
    let location = BusLocation::on(&format!("pci0000:{root:02x}"), numa, cpus);
    let mut functions = Vec::new();
    for (function, below) in [(1, 0xc4), (2, 0xc5)] {
        let root_port = format!("0000:{root:02x}:03.{function}");
        functions.push(bridge(&location, &root_port, port(below, acs)));
        let slot = location.under(&root_port);
        for half in 0..2 {
            let bdf = format!("0000:{below:02x}:00.{half}");
            functions.push(nic(&slot, &bdf, CONNECTX_6_DX, "mlx5_core", GEN4_X16));
        }
    }
    functions
}

fn port(below: u8, acs: u16) -> Bridge {
    Bridge {
        port: Port::Root,
        ids: GPP_BRIDGE,
        buses: (below, below),
        link: GEN4_X16,
        acs: Some(acs),
    }
}
