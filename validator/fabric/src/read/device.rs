//! Reads one PCI function from its folder in sysfs and its configuration space.

use super::DEVICES;
use super::attributes::{self, optional, required, unreadable};
use machine::host::modules::absent_is_none;
use machine::pcie::bus_address::{self, BusWindow};
use machine::pcie::config_space::{self, ConfigSpace, Express, PortType};
use machine::pcie::model::{Bar, Bdf, ConfigState, Device, Kind, Link, Routing, Undetermined};
use machine::pcie::vpd::leads_to_nvswitches;
use machine::pcie::{link, resource, vfio};
use machine::root::Root;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::text::{quoted, shown};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Reads the files of one function's folder, and collects findings about what cannot be read there.
struct FunctionReader<'a> {
    root: &'a Root,
    bdf: Bdf,
    subject: Subject,
    findings: &'a mut Vec<Finding>,
}

/// The addresses in a function's registers; the kernel's view is compared with them.
pub(super) struct RegisterAddresses {
    /// The contents of the memory BARs.
    pub(super) bases: [Option<u64>; 6],
    /// The windows of a bridge.
    pub(super) windows: Vec<BusWindow>,
}

/// Reads what sysfs provides about `bdf`.
pub(super) fn read(
    root: &Root,
    bdf: Bdf,
    findings: &mut Vec<Finding>,
) -> (Device, Option<RegisterAddresses>) {
    let mut reader = FunctionReader {
        root,
        bdf,
        subject: bdf.into(),
        findings,
    };
    let physfn = reader.physfn();
    let space = reader.config();
    let class = reader.id("class", space.as_ref().map(|s| format!("{:#08x}", s.class)));
    let location = reader.location(bdf);
    let vendor = reader.id(
        "vendor",
        space.as_ref().map(|s| format!("{:#06x}", s.vendor)),
    );
    let id = reader.id(
        "device",
        space.as_ref().map(|s| format!("{:#06x}", s.device)),
    );
    // The ids of a virtual function read as ones, and it has no link.
    let space = space.map(|s| {
        if physfn.is_none() {
            s.of(&vendor, &id)
        } else {
            s
        }
    });
    let resource = reader.required("resource");
    let windows =
        |s: &ConfigSpace| bus_address::windows(s, resource.as_deref().unwrap_or_default());
    let addresses = space.as_ref().map(|s| RegisterAddresses {
        bases: s.bases,
        windows: windows(s),
    });
    let device = Device {
        bdf,
        vendor,
        device: id,
        kind: kind(space.as_ref(), &class),
        class,
        parent: location.as_ref().and_then(|p| p.parent),
        physfn,
        root_bus: location.and_then(|p| p.root_bus),
        numa: reader.numa(),
        local_cpus: reader
            .optional("local_cpulist")
            .filter(|t| !t.is_empty())
            .map(|t| quoted(&t)),
        driver: reader.driver(),
        lent: reader.is_lent(),
        leads_to_nvswitches: leads_to_nvswitches(root, &format!("{DEVICES}/{bdf}")),
        boot_vga: reader.boot_vga(),
        config: state(space.as_ref()),
        link: if physfn.is_none() {
            reader.link(space.as_ref())
        } else {
            None
        },
        bars: resource.map_or_else(Vec::new, |text| reader.bars(&text)),
        routing: space.as_ref().map_or_else(Routing::default, |s| s.routing),
        acs: space.as_ref().and_then(|s| s.acs.clone()),
        slot: space.as_ref().and_then(|s| s.express?.slot),
        clique: space.as_ref().and_then(|s| s.clique),
        model: None,
        rebar: space.map_or_else(Vec::new, |s| s.rebar),
    };
    (device, addresses)
}

impl FunctionReader<'_> {
    fn file(&self, name: &str) -> String {
        format!("{DEVICES}/{}/{name}", self.bdf)
    }

    fn optional(&mut self, name: &str) -> Option<String> {
        optional(self.root, &self.file(name), &self.subject, self.findings)
    }

    fn required(&mut self, name: &str) -> Option<String> {
        required(self.root, &self.file(name), &self.subject, self.findings)
    }

    fn report_unreadable(&mut self, name: &str, why: &impl std::fmt::Display) {
        self.findings
            .push(unreadable(&self.file(name), &self.subject, why));
    }

    fn config(&mut self) -> Option<ConfigSpace> {
        match self.root.read(self.file("config")) {
            Ok(bytes) => {
                if bytes.len() < config_space::CONVENTIONAL_BYTES {
                    self.report_unreadable(
                        "config",
                        &format!(
                            "only {} bytes are readable, root can read 256 or 4096",
                            bytes.len()
                        ),
                    );
                }
                Some(config_space::parse(&bytes))
            }
            Err(e) => {
                self.report_unreadable("config", &e);
                None
            }
        }
    }

    /// An id from sysfs, or from the registers if sysfs lacks it.
    fn id(&mut self, name: &str, register: Option<String>) -> String {
        let text = self.required(name);
        let good = |t: &String| {
            t.strip_prefix("0x")
                .is_some_and(|h| u32::from_str_radix(h, 16).is_ok())
        };
        match text {
            Some(text) if good(&text) => text,
            Some(text) => {
                self.report_unreadable(
                    name,
                    &format!("'{}' is not a hexadecimal number", quoted(&text)),
                );
                register.unwrap_or_else(|| "unknown".to_owned())
            }
            None => register.unwrap_or_else(|| "unknown".to_owned()),
        }
    }

    fn location(&mut self, bdf: Bdf) -> Option<attributes::BusLocation> {
        let link = self.root.link(PathBuf::from(DEVICES).join(bdf.to_string()));
        let why = match link.as_ref().map(|l| attributes::parse(l, bdf)) {
            Ok(Some(location)) => return Some(location),
            Ok(None) => "its link names no root bus".to_owned(),
            Err(e) => format!("no link into /sys/devices: {e}"),
        };
        self.report_unreadable("", &why);
        None
    }

    /// -1 means that the firmware names no node.
    fn numa(&mut self) -> Option<u32> {
        let text = self.optional("numa_node")?;
        match text.parse::<i64>() {
            Ok(-1) => None,
            Ok(node) if u32::try_from(node).is_ok() => u32::try_from(node).ok(),
            _ => {
                self.report_unreadable(
                    "numa_node",
                    &format!("'{}' is not a node number", quoted(&text)),
                );
                None
            }
        }
    }

    fn driver(&mut self) -> Option<String> {
        match self.root.link(self.file("driver")) {
            Ok(target) => target.file_name().map(|n| shown(&n.to_string_lossy())),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => {
                self.report_unreadable("driver", &e);
                None
            }
        }
    }

    /// Files that cannot be read count as those of a guest's function, because that one must keep its isolation.
    fn is_lent(&mut self) -> bool {
        let vgpu = self.root.text(self.file(vfio::VGPU_TYPE));
        let mediated = self.root.names(self.file(vfio::MEDIATED_TYPES));
        let (vgpu, mediated) = (absent_is_none(vgpu), absent_is_none(mediated));
        for (name, error) in [
            (vfio::VGPU_TYPE, vgpu.as_ref().err()),
            (vfio::MEDIATED_TYPES, mediated.as_ref().err()),
        ] {
            if let Some(error) = error {
                self.report_unreadable(name, error);
            }
        }
        vgpu.map_or(true, |kind| kind.is_some_and(|kind| vfio::is_vgpu(&kind)))
            || mediated.map_or(true, |types| types.is_some())
    }

    /// Virtual functions have a link to their physical one beside them.
    fn physfn(&mut self) -> Option<Bdf> {
        let why = match self.root.link(self.file("physfn")) {
            Ok(target) => match target
                .file_name()
                .and_then(|n| n.to_str())
                .and_then(|n| n.parse().ok())
            {
                Some(bdf) => return Some(bdf),
                None => "it leads to no PCI function".to_owned(),
            },
            Err(e) if e.kind() == ErrorKind::NotFound => return None,
            Err(e) => e.to_string(),
        };
        self.report_unreadable("physfn", &why);
        None
    }

    fn boot_vga(&mut self) -> bool {
        self.optional("boot_vga").is_some_and(|t| t == "1")
    }

    fn bars(&mut self, text: &str) -> Vec<Bar> {
        resource::parse(text).unwrap_or_else(|why| {
            self.report_unreadable("resource", &why);
            Vec::new()
        })
    }

    /// From sysfs, or from the registers if sysfs lacks it; if both exist they must agree.
    fn link(&mut self, space: Option<&ConfigSpace>) -> Option<Link> {
        let registers = space
            .and_then(|s| s.express)
            .and_then(|e| from_registers(&e));
        let sysfs = self.sysfs_link();
        if let (Some(sysfs), Some(registers)) = (&sysfs, &registers)
            && sysfs != registers
        {
            self.findings
                .push(links_disagree(self.bdf, sysfs, registers));
        }
        sysfs.or(registers)
    }

    fn sysfs_link(&mut self) -> Option<Link> {
        let max_width = self.parsed("max_link_width", link::parse_width);
        let width = self.parsed("current_link_width", link::parse_width);
        let max_gts = self.parsed("max_link_speed", link::parse_speed);
        let gts = self.parsed("current_link_speed", link::parse_speed);
        up(gts?, width?, max_gts??, max_width?)
    }

    /// The value of an optional file; an invalid value gives a finding.
    fn parsed<T>(&mut self, name: &str, parse: fn(&str) -> Result<T, &'static str>) -> Option<T> {
        let text = self.optional(name)?;
        parse(&text)
            .map_err(|why| self.report_unreadable(name, &format!("'{}' is {why}", quoted(&text))))
            .ok()
    }
}

/// A link whose rate or width is unknown is down.
fn up(gts: Option<f64>, width: u32, max_gts: f64, max_width: u32) -> Option<Link> {
    let (gts, width) = if width == 0 {
        (0.0, 0)
    } else {
        gts.map_or((0.0, 0), |g| (g, width))
    };
    (max_width > 0).then_some(Link {
        gts,
        width,
        max_gts,
        max_width,
    })
}

fn from_registers(express: &Express) -> Option<Link> {
    if express.port == PortType::Integrated {
        return None;
    }
    let max_gts = link::gts(express.max_speed)?;
    up(
        link::gts(express.speed),
        u32::from(express.width),
        max_gts,
        u32::from(express.max_width),
    )
}

fn links_disagree(bdf: Bdf, sysfs: &Link, registers: &Link) -> Finding {
    let words = |l: &Link| {
        format!(
            "x{} at {} GT/s of x{} at {} GT/s",
            l.width, l.gts, l.max_width, l.max_gts
        )
    };
    let (sysfs, registers) = (words(sysfs), words(registers));
    Code::LinkDisagrees
        .finding(
            Severity::Warn,
            bdf,
            format!("{bdf}: sysfs says {sysfs}, registers say {registers}"),
        )
        .values(sysfs, registers, None)
}

fn kind(space: Option<&ConfigSpace>, class: &str) -> Kind {
    match space.and_then(|s| s.express).map(|e| e.port) {
        Some(PortType::RootPort) => Kind::RootPort,
        Some(PortType::Upstream) => Kind::Upstream,
        Some(PortType::Downstream) => Kind::Downstream,
        Some(PortType::Endpoint | PortType::Integrated) => Kind::Endpoint,
        Some(PortType::Bridge) => Kind::Bridge,
        None if class.starts_with("0x06") => Kind::Bridge,
        None => Kind::Other,
    }
}

fn state(space: Option<&ConfigSpace>) -> ConfigState {
    let nothing = || {
        vec![
            Undetermined::PortType,
            Undetermined::Acs,
            Undetermined::Rebar,
        ]
    };
    let Some(s) = space else {
        return ConfigState {
            bytes: 0,
            gone: false,
            faults: Vec::new(),
            undetermined: nothing(),
        };
    };
    let short = s.gone || s.bytes < config_space::CONVENTIONAL_BYTES;
    ConfigState {
        bytes: s.bytes,
        gone: s.gone,
        faults: s.faults.iter().map(ToString::to_string).collect(),
        undetermined: if short {
            nothing()
        } else {
            s.undetermined.clone()
        },
    }
}
