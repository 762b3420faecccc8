//! The parts that machines are built from: host bridge, root port, switch, GPU, NIC.

use super::config_space::{ConfigSpace, Link, Port};
use super::machine::Function;

/// Flags of a 32-bit memory BAR, as the kernel's `resource` files show them.
pub const MEMORY_32: u64 = 0x0004_0200;
/// Flags of a 64-bit prefetchable memory BAR.
pub const MEMORY_64: u64 = 0x0014_220c;
/// What the ports' ACS capability offers: SV TB RR CR UF DT.
pub const ACS_OFFERED: u16 = 0x005f;
/// Sizes of BAR1 of an RTX 4090: 64 MiB to 32 GiB.
pub const BAR1_SIZES: u32 = 0xffc0;
/// The size code of BAR1 that firmware without Resizable BAR sets: 2^(20+8) is 256 MiB.
pub const BAR1_256M: u8 = 8;
/// The size code of BAR1 with Resizable BAR: 2^(20+15) is 32 GiB.
pub const BAR1_32G: u8 = 15;

/// Where a function is located, and what is near it.
#[derive(Debug, Clone)]
pub struct BusLocation {
    root_bus: String,
    parent: Option<String>,
    numa: i32,
    cpus: String,
}

impl BusLocation {
    /// On the root bus `pci0000:c0`.
    pub fn on(root_bus: &str, numa: i32, cpus: &str) -> Self {
        Self {
            root_bus: root_bus.to_owned(),
            parent: None,
            numa,
            cpus: cpus.to_owned(),
        }
    }

    /// Behind the bridge `parent`.
    pub fn under(&self, parent: &str) -> Self {
        Self {
            parent: Some(parent.to_owned()),
            ..self.clone()
        }
    }
}

/// Any function.
pub fn function(
    location: &BusLocation,
    bdf: &str,
    ids: (u16, u16, u32),
    config: Vec<u8>,
) -> Function {
    Function {
        bdf: bdf.to_owned(),
        parent: location.parent.clone(),
        root_bus: location.root_bus.clone(),
        config,
        ids,
        numa: location.numa,
        cpus: location.cpus.clone(),
        driver: None,
        boot_vga: None,
        bars: Vec::new(),
        link: None,
        group: None,
    }
}

/// A host bridge: conventional, 256 bytes.
pub fn host_bridge(location: &BusLocation, bdf: &str, vendor: u16, device: u16) -> Function {
    function(
        location,
        bdf,
        (vendor, device, 0x060000),
        ConfigSpace::new(vendor, device, 0x060000, 0).truncated(256),
    )
}

/// A port of the root complex or of a switch.
#[derive(Debug, Clone, Copy)]
pub struct Bridge {
    /// The kind of port.
    pub port: Port,
    /// Vendor and device.
    pub ids: (u16, u16),
    /// The secondary and the subordinate bus.
    pub buses: (u8, u8),
    /// Its link.
    pub link: Link,
    /// ACS control; `None` without the capability.
    pub acs: Option<u16>,
}

/// A bridge's configuration space. A port that leads down has a slot, with the number of the bus behind it.
pub fn bridge_config(bdf: &str, bridge: &Bridge) -> ConfigSpace {
    let (vendor, device) = bridge.ids;
    let config = ConfigSpace::new(vendor, device, 0x060400, 1)
        .buses(bus(bdf), bridge.buses.0, bridge.buses.1)
        .express(bridge.port, Some(bridge.link));
    let leads_down = matches!(bridge.port, Port::Root | Port::Downstream);
    let config = if leads_down {
        config.slot(bridge.buses.0)
    } else {
        config
    }
    .aer();
    match bridge.acs {
        Some(ctrl) => config.acs(ACS_OFFERED, ctrl),
        None => config,
    }
}

/// The bus in an address.
fn bus(bdf: &str) -> u8 {
    let text = bdf.split(':').nth(1).expect("domain:bus:device.function");
    u8::from_str_radix(text, 16).expect("a bus number")
}

/// A port of the root complex or of a switch, bound to pcieport.
pub fn bridge(location: &BusLocation, bdf: &str, bridge: Bridge) -> Function {
    let (vendor, device) = bridge.ids;
    let config = bridge_config(bdf, &bridge).done();
    let port = function(location, bdf, (vendor, device, 0x060400), config);
    Function {
        driver: Some("pcieport"),
        link: Some(bridge.link),
        ..port
    }
}

/// An RTX 4090's configuration space: BAR1 at `bar1`, of size code `size`.
pub fn gpu_config(bar1: u64, size: u8, link: Link) -> ConfigSpace {
    let low = u32::try_from(bar1 & 0xffff_ffff).expect("32 bits") | 0xc;
    let high = u32::try_from(bar1 >> 32).expect("32 bits");
    ConfigSpace::new(0x10de, 0x2684, 0x030000, 0x80)
        .bar(0, 0xb200_0000)
        .bar(1, low)
        .bar(2, high)
        .express(Port::Endpoint, Some(link))
        .aer()
        .rebar(&[(0, 0x10, 4), (1, BAR1_SIZES, size), (3, 0x20, 5)])
}

/// An RTX 4090 with its own driver.
pub fn gpu(location: &BusLocation, bdf: &str, bar1: u64, size: u8, link: Link) -> Function {
    let config = gpu_config(bar1, size, link).done();
    let gpu = function(location, bdf, (0x10de, 0x2684, 0x030000), config);
    let bars = vec![
        (0, 0xb200_0000, 16 << 20, MEMORY_32),
        (1, bar1, 1 << (20 + u32::from(size)), MEMORY_64),
    ];
    Function {
        driver: Some("nvidia"),
        boot_vga: Some(false),
        bars,
        link: Some(link),
        ..gpu
    }
}

/// A GPU's sound function.
pub fn audio(location: &BusLocation, bdf: &str, link: Link) -> Function {
    let config = ConfigSpace::new(0x10de, 0x22ba, 0x040300, 0x80)
        .express(Port::Endpoint, Some(link))
        .aer();
    let audio = function(location, bdf, (0x10de, 0x22ba, 0x040300), config.done());
    Function {
        link: Some(link),
        ..audio
    }
}

/// One port of a network card.
pub fn nic(
    location: &BusLocation,
    bdf: &str,
    ids: (u16, u16),
    driver: &'static str,
    link: Link,
) -> Function {
    let (vendor, device) = ids;
    let config = ConfigSpace::new(vendor, device, 0x020000, 0x80)
        .express(Port::Endpoint, Some(link))
        .aer();
    let nic = function(location, bdf, (vendor, device, 0x020000), config.done());
    Function {
        driver: Some(driver),
        link: Some(link),
        ..nic
    }
}
