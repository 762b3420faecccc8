//! Small machines, each with one feature that the large ones do not have.

use super::config_space::{Link, Port};
use super::machine::{Function, Machine};
use super::parts::{
    ACS_OFFERED, BAR1_32G, BAR1_256M, Bridge, BusLocation, audio, bridge, bridge_config, gpu,
    gpu_config, host_bridge, nic,
};

use super::machine::Rdma;

const GEN3_X16: Link = Link::full(3, 16);
const GEN4_X16: Link = Link::full(4, 16);
const GEN5_X16: Link = Link::full(5, 16);
/// Address of the first GPU's BAR1; the next ones follow at 64 GiB.
const BAR1: u64 = 0x38_0000_0000;
const BAR1_STRIDE: u64 = 0x10_0000_0000;
const PLX: (u16, u16) = (0x10b5, 0x8796);
const I225: (u16, u16) = (0x8086, 0x15f3);

fn root(ids: (u16, u16), buses: (u8, u8), acs: Option<u16>) -> Bridge {
    Bridge {
        port: Port::Root,
        ids,
        buses,
        link: GEN4_X16,
        acs,
    }
}

/// A workstation: two GPUs and a network card, each behind its own root port with ACS off.
fn workstation() -> Vec<Function> {
    let bus = BusLocation::on("pci0000:00", -1, "0-15");
    let port = |below| root((0x1022, 0x1483), (below, below), Some(0));
    vec![
        host_bridge(&bus, "0000:00:00.0", 0x1022, 0x1480),
        bridge(&bus, "0000:00:01.1", port(1)),
        bridge(&bus, "0000:00:01.2", port(2)),
        bridge(
            &bus,
            "0000:00:02.1",
            Bridge {
                link: Link::full(2, 1),
                ..port(3)
            },
        ),
        gpu(
            &bus.under("0000:00:01.1"),
            "0000:01:00.0",
            BAR1,
            BAR1_32G,
            GEN4_X16,
        ),
        gpu(
            &bus.under("0000:00:01.2"),
            "0000:02:00.0",
            BAR1 + BAR1_STRIDE,
            BAR1_32G,
            GEN4_X16,
        ),
        nic(
            &bus.under("0000:00:02.1"),
            "0000:03:00.0",
            I225,
            "igc",
            Link::full(2, 1),
        ),
    ]
}

pub(super) fn workstation_with(
    name: &'static str,
    about: &'static str,
    change: impl Fn(&mut Machine),
) -> Machine {
    let mut machine = Machine::new(name, about, workstation());
    change(&mut machine);
    machine
}

/// RTX 4500 Ada: memory and BAR1 as an RTX 4090, and GPUDirect RDMA.
const WORKSTATION_GPU: u16 = 0x27b1;

/// A switch with ACS on: two GPUs and an RDMA card behind it, and a third GPU behind a second switch that is below the
/// first.
pub fn switch() -> Machine {
    let bus = BusLocation::on("pci0000:00", 0, "0-31");
    let acs = Some(0x001d);
    let up = |buses| Bridge {
        port: Port::Upstream,
        ids: PLX,
        buses,
        link: GEN3_X16,
        acs: None,
    };
    let down = |buses| Bridge {
        port: Port::Downstream,
        ids: PLX,
        buses,
        link: GEN3_X16,
        acs,
    };
    let root_port = Bridge {
        link: GEN3_X16,
        ..root((0x8086, 0x2030), (0x01, 0x08), acs)
    };
    let inside = bus.under("0000:01:00.0");
    let inner = bus.under("0000:06:00.0");
    let functions = vec![
        host_bridge(&bus, "0000:00:00.0", 0x8086, 0x2020),
        bridge(&bus, "0000:00:02.0", root_port),
        bridge(&bus.under("0000:00:02.0"), "0000:01:00.0", up((0x02, 0x08))),
        bridge(&inside, "0000:02:08.0", down((0x03, 0x03))),
        bridge(&inside, "0000:02:09.0", down((0x04, 0x04))),
        bridge(&inside, "0000:02:10.0", down((0x05, 0x05))),
        bridge(&inside, "0000:02:11.0", down((0x06, 0x08))),
        bridge(&bus.under("0000:02:11.0"), "0000:06:00.0", up((0x07, 0x08))),
        bridge(&inner, "0000:07:08.0", down((0x08, 0x08))),
        gpu(
            &bus.under("0000:02:08.0"),
            "0000:03:00.0",
            BAR1,
            BAR1_32G,
            GEN3_X16,
        ),
        gpu(
            &bus.under("0000:02:09.0"),
            "0000:04:00.0",
            BAR1 + BAR1_STRIDE,
            BAR1_32G,
            GEN3_X16,
        ),
        nic(
            &bus.under("0000:02:10.0"),
            "0000:05:00.0",
            (0x15b3, 0x1017),
            "mlx5_core",
            GEN3_X16,
        ),
        gpu(
            &bus.under("0000:07:08.0"),
            "0000:08:00.0",
            BAR1 + 2 * BAR1_STRIDE,
            BAR1_32G,
            GEN3_X16,
        ),
    ];
    let about = "PLX switches with ACS on: workstation GPUs at PIX and PXB, a NIC beside them";
    let rdma = vec![Rdma::infiniband("mlx5_0", "0000:05:00.0", "ib0")];
    let mut machine = Machine {
        rdma,
        ..Machine::new("switch-acs", about, functions)
    };
    for gpu in ["0000:03:00.0", "0000:04:00.0", "0000:08:00.0"] {
        machine.at(gpu).set_device(WORKSTATION_GPU);
    }
    machine.driver.model = "NVIDIA RTX 4500 Ada Generation";
    machine
}

/// A GPU behind a root port of an Intel 100-series chipset, whose ACS control register is at +8.
pub fn intel_pch() -> Machine {
    let bus = BusLocation::on("pci0000:00", -1, "0-7");
    let cpu_port = Bridge {
        link: GEN3_X16,
        ..root((0x8086, 0x1901), (1, 1), None)
    };
    let link = Link {
        speed: 3,
        width: 4,
        max_speed: 3,
        max_width: 4,
    };
    let chipset = Bridge {
        link,
        ..root((0x8086, 0xa110), (2, 2), None)
    };
    let mut chipset_port = bridge(&bus, "0000:00:1c.0", chipset);
    chipset_port.config = bridge_config("0000:00:1c.0", &chipset)
        .acs_intel_pch(u32::from(ACS_OFFERED), 0x001d)
        .done();
    let slow = Link {
        speed: 3,
        width: 4,
        max_speed: 4,
        max_width: 16,
    };
    let functions = vec![
        host_bridge(&bus, "0000:00:00.0", 0x8086, 0x191f),
        bridge(&bus, "0000:00:01.0", cpu_port),
        chipset_port,
        gpu(
            &bus.under("0000:00:01.0"),
            "0000:01:00.0",
            BAR1,
            BAR1_256M,
            Link {
                speed: 3,
                ..GEN4_X16
            },
        ),
        gpu(
            &bus.under("0000:00:1c.0"),
            "0000:02:00.0",
            BAR1 + BAR1_STRIDE,
            BAR1_256M,
            slow,
        ),
    ];
    Machine::new(
        "intel-pch",
        "a chipset root port with 32-bit ACS registers: lspci reads it wrong",
        functions,
    )
}

/// No function shows more than 256 bytes of configuration space.
pub fn no_ecam() -> Machine {
    workstation_with(
        "no-ecam",
        "configuration space of 256 bytes everywhere: ACS cannot be seen",
        |m| {
            m.cmdline = "pci=nommconf";
            for function in &mut m.functions {
                function.config.truncate(256);
            }
        },
    )
}

/// The second GPU has fallen off the bus.
pub fn dead_gpu() -> Machine {
    workstation_with("dead-gpu", "the second GPU answers with ones", |m| {
        let gpu = m.at("0000:02:00.0");
        gpu.config.fill(0xff);
        gpu.driver = None;
        gpu.link = Some(Link {
            speed: 15,
            width: 63,
            max_speed: 4,
            max_width: 16,
        });
        m.at("0000:00:01.2").link = Some(Link {
            speed: 1,
            width: 0,
            ..GEN4_X16
        });
        m.at("0000:00:01.2").config = bridge_config(
            "0000:00:01.2",
            &Bridge {
                link: Link {
                    speed: 1,
                    width: 0,
                    ..GEN4_X16
                },
                ..root((0x1022, 0x1483), (2, 2), Some(0))
            },
        )
        .done();
    })
}

/// A GPU's extended capability chain loops; the chain of the other GPU's port leads out of the space before its ACS.
pub fn malformed_chain() -> Machine {
    workstation_with(
        "malformed-chain",
        "a GPU's capability chain loops, a port's leads astray",
        |m| {
            let looping = gpu_config(BAR1, BAR1_32G, GEN4_X16);
            let last = looping.last_extended();
            m.at("0000:01:00.0").config = looping
                .with32(last, 0x0015 | (1 << 16) | (0x100 << 20))
                .done();
            let port = bridge_config(
                "0000:00:01.2",
                &root((0x1022, 0x1483), (2, 2), Some(0x001d)),
            );
            m.at("0000:00:01.2").config = port
                .with32(0x100, 0x0001 | (1 << 16) | (0x0c8 << 20))
                .done();
        },
    )
}

/// The IOMMU translates addresses, and ACS is on as the kernel then sets it.
pub fn iommu_translated() -> Machine {
    let about = "the IOMMU translates: a group for each function, ACS on";
    workstation_with("iommu-translated", about, |m| {
        m.cmdline = "quiet";
        m.iommu = vec!["ivhd0"];
        m.group_type = "DMA-FQ";
        m.tables = vec!["IVRS"];
        for (n, function) in (0..).zip(&mut m.functions) {
            function.group = Some(n);
        }
        for (bdf, bus) in [("0000:00:01.1", 1), ("0000:00:01.2", 2)] {
            let port = root((0x1022, 0x1483), (bus, bus), Some(0x001d));
            m.at(bdf).config = bridge_config(bdf, &port).done();
        }
    })
}

/// A kernel without x2APIC runs 255 of 384 processors.
pub fn lost_cpus() -> Machine {
    workstation_with(
        "lost-cpus",
        "384 processors are present, 255 run: no x2APIC",
        |m| {
            m.cpus = ["0-383", "0-383", "0-254"];
        },
    )
}

/// GPUs in two PCI domains, and an Intel VMD domain beyond 16 bits with a drive in it.
pub fn second_domain() -> Machine {
    let port = |below| root((0x8086, 0x347a), (below, below), Some(0));
    let buses = [
        BusLocation::on("pci0000:00", 0, "0-7"),
        BusLocation::on("pci0001:00", 1, "8-15"),
    ];
    let vmd = BusLocation::on("pci0000:00/0000:00:05.5/pci10000:00", 0, "0-7");
    let drive = Function {
        ids: (0x144d, 0xa80a, 0x010802),
        driver: Some("nvme"),
        ..nic(
            &vmd.under("10000:00:02.0"),
            "10000:01:00.0",
            (0x144d, 0xa80a),
            "nvme",
            Link::full(4, 4),
        )
    };
    let functions = vec![
        host_bridge(&buses[0], "0000:00:00.0", 0x8086, 0x09a2),
        host_bridge(&buses[0], "0000:00:05.5", 0x8086, 0x201d),
        bridge(&buses[0], "0000:00:01.0", port(1)),
        gpu(
            &buses[0].under("0000:00:01.0"),
            "0000:01:00.0",
            BAR1,
            BAR1_32G,
            GEN4_X16,
        ),
        bridge(&buses[1], "0001:00:01.0", port(1)),
        gpu(
            &buses[1].under("0001:00:01.0"),
            "0001:01:00.0",
            BAR1 + BAR1_STRIDE,
            BAR1_32G,
            GEN4_X16,
        ),
        bridge(
            &vmd,
            "10000:00:02.0",
            Bridge {
                link: Link::full(4, 4),
                ..port(1)
            },
        ),
        drive,
    ];
    Machine::new(
        "second-domain",
        "GPUs in domains 0000 and 0001, a drive in domain 10000",
        functions,
    )
}

/// The second GPU trained 8 of its 16 lanes.
pub fn narrow_link() -> Machine {
    workstation_with(
        "narrow-link",
        "the second GPU uses 8 of its 16 lanes",
        |m| {
            let link = Link {
                width: 8,
                ..GEN4_X16
            };
            let gpu = m.at("0000:02:00.0");
            gpu.link = Some(link);
            gpu.config = gpu_config(BAR1 + BAR1_STRIDE, BAR1_32G, link).done();
            let port = Bridge {
                link,
                ..root((0x1022, 0x1483), (2, 2), Some(0))
            };
            m.at("0000:00:01.2").link = Some(link);
            m.at("0000:00:01.2").config = bridge_config("0000:00:01.2", &port).done();
        },
    )
}

/// An InfiniBand card whose port has a link and trained one lane of four; a second one that no subnet manager has
/// configured.
pub fn no_subnet_manager() -> Machine {
    let about =
        "two InfiniBand cards: one port on one lane of four, one that no subnet manager has set up";
    workstation_with("ib-no-manager", about, |m| {
        let bus = BusLocation::on("pci0000:00", -1, "0-15");
        for (port, bdf, below) in [
            ("0000:00:03.1", "0000:04:00.0", 4),
            ("0000:00:03.2", "0000:05:00.0", 5),
        ] {
            m.functions.push(bridge(
                &bus,
                port,
                root((0x1022, 0x1483), (below, below), Some(0)),
            ));
            m.functions.push(nic(
                &bus.under(port),
                bdf,
                (0x15b3, 0x101b),
                "mlx5_core",
                GEN4_X16,
            ));
        }
        let narrow = Rdma::infiniband("mlx5_0", "0000:04:00.0", "ib0");
        let waiting = Rdma::infiniband("mlx5_1", "0000:05:00.0", "ib1");
        m.rdma = vec![
            Rdma {
                port: ["4: ACTIVE", "5: LinkUp", "InfiniBand", "25 Gb/sec (1X EDR)"],
                ..narrow
            },
            Rdma {
                port: ["2: INIT", "5: LinkUp", "InfiniBand", "100 Gb/sec (4X EDR)"],
                link: ["down", "0", "-1"],
                ..waiting
            },
        ];
    })
}

/// Both GPUs are bound to the wrong driver.
pub fn nouveau() -> Machine {
    workstation_with("nouveau", "nouveau is bound to both GPUs", |m| {
        m.at("0000:01:00.0").driver = Some("nouveau");
        m.at("0000:02:00.0").driver = Some("nouveau");
    })
}

/// The firmware's display is on the first GPU, which is faster than its slot.
pub fn boot_display() -> Machine {
    workstation_with(
        "boot-display",
        "the firmware's display is on the first GPU, a Gen5 card",
        |m| {
            let link = Link {
                speed: 4,
                ..GEN5_X16
            };
            let gpu = m.at("0000:01:00.0");
            gpu.boot_vga = Some(true);
            gpu.link = Some(link);
            gpu.config = gpu_config(BAR1, BAR1_32G, link).done();
        },
    )
}

/// Before the driver is loaded: BAR1s of 256 MiB, two of them behind a switch that a network card shares, one behind its
/// own root port.
pub fn small_bars() -> Machine {
    let bus = BusLocation::on("pci0000:00", 0, "0-15");
    let root_port = |below| root((0x1022, 0x1483), below, Some(0));
    let up = Bridge {
        port: Port::Upstream,
        ids: PLX,
        buses: (2, 5),
        link: GEN4_X16,
        acs: None,
    };
    let down = |below| Bridge {
        port: Port::Downstream,
        ids: PLX,
        buses: (below, below),
        link: GEN4_X16,
        acs: Some(0),
    };
    let inside = bus.under("0000:01:00.0");
    // One directly after the other, as firmware places them.
    let small = |under: &str, bdf, nth: u64| {
        let at = BAR1 + nth * (256 << 20);
        Function {
            driver: None,
            ..gpu(&bus.under(under), bdf, at, BAR1_256M, GEN4_X16)
        }
    };
    let card = nic(
        &bus.under("0000:02:02.0"),
        "0000:05:00.0",
        (0x15b3, 0x1021),
        "mlx5_core",
        GEN4_X16,
    );
    let functions = vec![
        host_bridge(&bus, "0000:00:00.0", 0x1022, 0x1480),
        bridge(&bus, "0000:00:01.0", root_port((1, 5))),
        bridge(&bus, "0000:00:02.0", root_port((6, 6))),
        bridge(&bus.under("0000:00:01.0"), "0000:01:00.0", up),
        bridge(&inside, "0000:02:00.0", down(3)),
        bridge(&inside, "0000:02:01.0", down(4)),
        bridge(&inside, "0000:02:02.0", down(5)),
        small("0000:02:00.0", "0000:03:00.0", 0),
        audio(&bus.under("0000:02:00.0"), "0000:03:00.1", GEN4_X16),
        small("0000:02:01.0", "0000:04:00.0", 1),
        Function {
            driver: None,
            ..card
        },
        small("0000:00:02.0", "0000:06:00.0", 2),
    ];
    Machine::new(
        "rebar-small",
        "before the driver: BAR1s of 256 MiB, alone and behind a switch",
        functions,
    )
}
