//! Machines built from a short plan: how many GPUs, behind root ports, switches or a hypervisor, with which links, IOMMU
//! and kernel command line. Named machines are in other files.

use super::config_space::{ConfigSpace, Link, Port};
use super::driver::{Driver, DriverOrigin};
use super::machine::{Function, Machine};
use super::parts::{Bridge, BusLocation, MEMORY_32, MEMORY_64, bridge, function, host_bridge};

/// Where the GPUs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each behind its own root port on its own root bus.
    Ports,
    /// This many behind each switch, and each switch behind a root port.
    Switches(usize),
    /// On bus 0 of a virtual machine, without any port above.
    Guest,
}

/// What the kernel shows about the IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iommu {
    /// The firmware has one, but it is off.
    Off,
    /// The firmware has none.
    None,
    /// It is on and passes addresses through.
    PassThrough,
}

/// The plan of a machine.
#[derive(Debug, Clone)]
pub struct MachinePlan {
    /// Number of GPUs.
    pub gpus: usize,
    /// Where they are.
    pub layout: Layout,
    /// Number of sockets over which they are spread.
    pub sockets: usize,
    /// Generation and lanes of the GPUs' links.
    pub link: (u8, u8),
    /// The maximum of GPU and slot, if that is higher.
    pub max_link: (u8, u8),
    /// The IOMMU.
    pub iommu: Iommu,
    /// The kernel's command line.
    pub cmdline: String,
    /// Whether the appliance's own driver is loaded, with init's account; otherwise a distribution's or a hypervisor's.
    pub image: bool,
    /// The driver's version.
    pub driver: String,
    /// The GPUs' device id and the driver's name for them.
    pub gpu: (u16, String),
    /// Whether they have a display controller's class.
    pub display: bool,
    /// BAR1 in MiB, a power of two.
    pub bar1_mib: u64,
    /// Whether the GPUs offer other sizes of BAR1.
    pub rebar: bool,
}

const AMD: (u16, u16) = (0x1022, 0x1480);
const GPP: (u16, u16) = (0x1022, 0x1483);
const PLX: (u16, u16) = (0x10b5, 0xc010);
/// The first GPU's BAR1; the next ones follow at 1 TiB.
const BAR1: u64 = 0x1000_0000_0000;
/// The first device number of a guest's GPUs.
const FIRST_GUEST_DEVICE: usize = 6;
/// Processors of each of two sockets.
const CPUS: [&str; 2] = ["0-31", "32-63"];

impl MachinePlan {
    /// The addresses of the plan's GPUs, in order.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        (0..self.gpus).map(|gpu| self.address(gpu)).collect()
    }

    fn address(&self, gpu: usize) -> String {
        match self.layout {
            Layout::Ports => format!("0000:{:02x}:00.0", 4 * gpu + 1),
            Layout::Switches(each) => {
                format!("0000:{:02x}:00.0", root(gpu / each, each) + 3 + gpu % each)
            }
            Layout::Guest => format!("0000:00:{:02x}.0", FIRST_GUEST_DEVICE + gpu),
        }
    }

    /// The socket of a GPU.
    #[must_use]
    pub fn socket(&self, gpu: usize) -> usize {
        gpu * self.sockets / self.gpus.max(1)
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let mut functions = match self.layout {
            Layout::Ports => (0..self.gpus).flat_map(|gpu| self.port(gpu)).collect(),
            Layout::Switches(each) => (0..self.gpus.div_ceil(each))
                .flat_map(|n| self.switch(n, each))
                .collect(),
            Layout::Guest => self.guest(),
        };
        if self.iommu == Iommu::PassThrough {
            (0..)
                .zip(&mut functions)
                .for_each(|(n, function)| function.group = Some(n));
        }
        let origin = match self.layout {
            _ if self.image => DriverOrigin::Image,
            Layout::Guest => DriverOrigin::Mounted,
            _ => DriverOrigin::Packages,
        };
        let driver = Driver {
            origin,
            model: self.gpu.1.clone().leak(),
            ..Driver::stock(self.driver.clone().leak())
        };
        let on = self.iommu == Iommu::PassThrough;
        Machine {
            cpus: [if self.sockets > 1 { "0-63" } else { "0-31" }; 3],
            iommu: if on { vec!["ivhd0"] } else { Vec::new() },
            tables: if self.iommu == Iommu::None {
                Vec::new()
            } else {
                vec!["IVRS"]
            },
            cmdline: self.cmdline.clone().leak(),
            driver,
            ..Machine::new("built", "a machine built from a plan", functions)
        }
    }

    fn location(&self, bus: usize, gpu: usize) -> BusLocation {
        let socket = self.socket(gpu);
        let numa = if self.sockets > 1 {
            i32::try_from(socket).unwrap_or(-1)
        } else {
            -1
        };
        BusLocation::on(&format!("pci0000:{bus:02x}"), numa, CPUS[socket.min(1)])
    }

    /// A root bus, its port, and a GPU behind it.
    fn port(&self, gpu: usize) -> Vec<Function> {
        let bus = 4 * gpu;
        let location = self.location(bus, gpu);
        let port = format!("0000:{bus:02x}:01.1");
        vec![
            host_bridge(&location, &format!("0000:{bus:02x}:00.0"), AMD.0, AMD.1),
            self.bridge(&location, &port, Port::Root, (bus + 1, bus + 1)),
            self.gpu(&location.under(&port), gpu),
        ]
    }

    /// A root bus, its port, a switch and the GPUs behind it.
    fn switch(&self, nth: usize, each: usize) -> Vec<Function> {
        let bus = root(nth, each);
        let location = self.location(bus, nth * each);
        let [port, up] = [
            format!("0000:{bus:02x}:01.1"),
            format!("0000:{:02x}:00.0", bus + 1),
        ];
        let last = bus + 2 + each;
        let mut functions = vec![
            host_bridge(&location, &format!("0000:{bus:02x}:00.0"), AMD.0, AMD.1),
            self.bridge(&location, &port, Port::Root, (bus + 1, last)),
            self.bridge(&location.under(&port), &up, Port::Upstream, (bus + 2, last)),
        ];
        let below = location.under(&up);
        for gpu in (nth * each..self.gpus).take(each) {
            let slot = gpu % each;
            let down = format!("0000:{:02x}:{slot:02x}.0", bus + 2);
            functions.push(self.bridge(
                &below,
                &down,
                Port::Downstream,
                (bus + 3 + slot, bus + 3 + slot),
            ));
            functions.push(self.gpu(&below.under(&down), gpu));
        }
        functions
    }

    fn guest(&self) -> Vec<Function> {
        let bus = BusLocation::on("pci0000:00", -1, CPUS[0]);
        let gpus = (0..self.gpus).map(|gpu| self.gpu(&bus, gpu));
        [host_bridge(&bus, "0000:00:00.0", 0x8086, 0x0d57)]
            .into_iter()
            .chain(gpus)
            .collect()
    }

    fn link(&self) -> Link {
        let (speed, width) = self.link;
        Link {
            speed,
            width,
            max_speed: self.max_link.0.max(speed),
            max_width: self.max_link.1.max(width),
        }
    }

    /// A port whose maximum lanes and speed are those that the link uses.
    fn bridge(
        &self,
        location: &BusLocation,
        bdf: &str,
        port: Port,
        buses: (usize, usize),
    ) -> Function {
        let bus = |n: usize| u8::try_from(n).expect("a bus number");
        let (speed, width) = self.link;
        let ids = if port == Port::Root { GPP } else { PLX };
        let acs = (port != Port::Upstream).then_some(0);
        let buses = (bus(buses.0), bus(buses.1));
        bridge(
            location,
            bdf,
            Bridge {
                port,
                ids,
                buses,
                link: Link::full(speed, width),
                acs,
            },
        )
    }

    fn gpu(&self, location: &BusLocation, gpu: usize) -> Function {
        let bar1 = BAR1 + ((gpu as u64) << 40);
        let class = if self.display { 0x03_0000 } else { 0x03_0200 };
        let [low, high] =
            [bar1 & 0xffff_ffff, bar1 >> 32].map(|half| u32::try_from(half).expect("32 bits"));
        let config = ConfigSpace::new(0x10de, self.gpu.0, class, 0)
            .bar(0, 0xb200_0000)
            .bar(1, low | 0xc)
            .bar(2, high);
        let config = config.express(Port::Endpoint, Some(self.link())).aer();
        let size = u8::try_from(self.bar1_mib.ilog2()).expect("a size");
        let config = if self.rebar {
            config.rebar(&[(1, (1 << (size + 1)) - (1 << 6), size)])
        } else {
            config
        };
        let bars = vec![
            (0, 0xb200_0000, 16 << 20, MEMORY_32),
            (1, bar1, self.bar1_mib << 20, MEMORY_64),
        ];
        Function {
            link: Some(self.link()),
            driver: Some("nvidia"),
            boot_vga: self.display.then_some(false),
            bars,
            ..function(
                location,
                &self.address(gpu),
                (0x10de, self.gpu.0, class),
                config.done(),
            )
        }
    }
}

/// The root bus of the nth switch with `each` GPUs.
fn root(nth: usize, each: usize) -> usize {
    nth * (each + 4)
}
