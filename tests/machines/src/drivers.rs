//! Machines for driver problems, and one that needs no patch.

use super::config_space::{ConfigSpace, Link, Port};
use super::driver::{Driver, DriverOrigin};
use super::machine::{Function, Machine};
use super::parts::{
    BAR1_256M, BusLocation, MEMORY_32, MEMORY_64, function, gpu_config, host_bridge,
};
use super::small::workstation_with;

/// After an upgrade of the libraries without a restart.
pub fn library_mismatch() -> Machine {
    workstation_with(
        "driver-mismatch",
        "libraries of another version than the module that is loaded",
        |m| {
            m.driver = Driver {
                libraries: "550.163.01",
                ..Driver::stock("555.58.02")
            };
        },
    )
}

/// Firmware without Resizable BAR, with the appliance's driver.
pub fn small_bar1() -> Machine {
    workstation_with(
        "bar1-256m",
        "BAR1 of both GPUs is 256 MiB, so the patched driver cannot map them",
        |m| {
            m.driver = Driver::patched();
            for (bdf, bar1) in [
                ("0000:01:00.0", 0x38_0000_0000),
                ("0000:02:00.0", 0x48_0000_0000),
            ] {
                let gpu = m.at(bdf);
                gpu.config = gpu_config(bar1, BAR1_256M, Link::full(4, 16)).done();
                gpu.bars = vec![
                    (0, 0xb200_0000, 16 << 20, MEMORY_32),
                    (1, bar1, 256 << 20, MEMORY_64),
                ];
            }
        },
    )
}

/// Before the driver is loaded: two boards whose BAR1 is as large as their memory.
pub fn unbound_5090() -> Machine {
    workstation_with(
        "rtx5090-unbound",
        "two RTX 5090 with BAR1 32 GiB, before the driver is loaded",
        |m| {
            for bdf in ["0000:01:00.0", "0000:02:00.0"] {
                let gpu = m.at(bdf);
                (gpu.driver, gpu.ids.1) = (None, 0x2b85);
                gpu.config[2..4].copy_from_slice(&0x2b85_u16.to_le_bytes());
            }
        },
    )
}

/// Two RTX 5090 with NVIDIA's own driver of a version and registry keys; `console`: the firmware's is on the first.
pub fn stock_5090(version: &'static str, registry_dwords: &'static str, console: bool) -> Machine {
    workstation_with(
        "rtx5090-stock",
        "two RTX 5090 with BAR1 32 GiB and NVIDIA's own driver",
        |m| {
            for bdf in ["0000:01:00.0", "0000:02:00.0"] {
                m.at(bdf).set_device(0x2b85);
            }
            m.at("0000:01:00.0").boot_vga = Some(console);
            let registry_dwords = Some(registry_dwords);
            m.driver = Driver {
                registry_dwords,
                model: "NVIDIA GeForce RTX 5090",
                ..Driver::stock(version)
            };
        },
    )
}

/// A virtual machine with a GPU that supports peer-to-peer natively, and no root port above it.
pub fn h200() -> Machine {
    let about =
        "a virtual machine with one H200: BAR1 at index 2, its driver mounted, no patch needed";
    Machine {
        about,
        ..vm_with_h200s(&["0000:00:06.0".to_owned()])
    }
}

/// The same with an H200 at each of these addresses of bus 0.
pub fn vm_with_h200s(addresses: &[String]) -> Machine {
    let bus = BusLocation::on("pci0000:00", -1, "0-15");
    let mut functions = vec![host_bridge(&bus, "0000:00:00.0", 0x8086, 0x0d57)];
    functions.extend(
        (0..)
            .zip(addresses)
            .map(|(n, bdf)| one_h200(&bus, bdf, 0x1000_0000_0000 + (n << 40))),
    );
    let driver = Driver {
        origin: DriverOrigin::Mounted,
        model: "NVIDIA H200",
        ..Driver::stock("580.159.04")
    };
    Machine {
        driver,
        ..Machine::new("h200-vm", "a virtual machine with H200", functions)
    }
}

fn one_h200(bus: &BusLocation, bdf: &str, bar: u64) -> Function {
    let link = Link::full(5, 16);
    let config = ConfigSpace::new(0x10de, 0x2335, 0x030200, 0)
        .express(Port::Endpoint, Some(link))
        .done();
    Function {
        link: Some(link),
        driver: Some("nvidia"),
        bars: vec![
            (0, bar + (258 << 30), 16 << 20, MEMORY_64),
            (2, bar, 256 << 30, MEMORY_64),
        ],
        ..function(bus, bdf, (0x10de, 0x2335, 0x030200), config)
    }
}

/// Peer mappings that the GPU cannot use, as logged by a driver that has only half of the patch.
pub fn broken_patch() -> Machine {
    workstation_with(
        "patch-broken",
        "the driver maps peers in a way that the GPU faults on",
        |m| {
            let assertions = [
                "NVRM: nvAssertFailed: Assertion failed: (shifted >> pField->shift) == value @ field_desc.h:272",
                "NVRM: nvAssertFailed: Assertion failed: (shifted & pField->maskPos) == shifted @ field_desc.h:273",
            ];
            let fault = "NVRM: Xid (PCI:0000:01:00): 31, pid=21804, name=simpleP2P, Ch 00000013, intr 00000000. \
            MMU Fault: ENGINE CE3 HUBCLIENT_CE1 faulted @ 0x7f97_94000000. \
            Fault is of type FAULT_INFO_TYPE_UNSUPPORTED_KIND ACCESS_TYPE_VIRT_WRITE";
            m.driver = Driver {
                log: vec![assertions[0], assertions[1], fault],
                ..Driver::patched()
            };
        },
    )
}
