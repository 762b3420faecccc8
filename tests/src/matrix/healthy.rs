//! Healthy machines: simulated GPUs with different figures, in matching modelled machines.

use super::{number, text, words};
use crate::error::{Error, Result};
use crate::simgpu::Scenario;
use machines::built::{Iommu, Layout, MachinePlan};
use toml::{Table, Value};

/// A machine with nothing wrong.
#[derive(Debug, Clone)]
pub struct HealthyMachine {
    /// Its unique name.
    pub name: String,
    /// What it represents.
    pub what: String,
    /// The required verdict.
    pub expect: String,
    /// Number of GPUs.
    pub gpus: usize,
    settings: Vec<String>,
    table: Table,
}

/// The kernel command line of readers of the guides.
const PLAIN_CMDLINE: &str = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet";
/// The kernel command line of firstlight's image.
const IMAGE_CMDLINE: &str = "iommu=off,soft intel_iommu=off amd_iommu=off pci=config_acs=0000000@pci:0:0 \
    pcie_aspm.policy=performance";

impl HealthyMachine {
    /// All healthy machines.
    ///
    /// # Errors
    /// If a file cannot be read, or a machine is invalid.
    pub fn all() -> Result<Vec<Self>> {
        super::tables("healthy")?
            .into_iter()
            .map(|(file, table)| Self::from_table(&file, table))
            .collect()
    }

    fn from_table(file: &str, table: Table) -> Result<Self> {
        let name = text(&table, "name").unwrap_or_default();
        let wrong = |why: String| Error::Scenario {
            path: format!("{file}: {name:?}").into(),
            why,
        };
        let known = [
            "name", "what", "expect", "on", "gpus", "rate", "machine", "figures", "fault", "event",
            "set", "layout", "each", "sockets", "link", "best", "iommu", "cmdline", "image",
            "bar1_mib", "rebar", "display",
        ];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(wrong(format!("{key} is no key of a machine")));
        }
        let gpus =
            number(&table, "gpus").ok_or_else(|| wrong("does not say how many GPUs".to_owned()))?;
        let what = text(&table, "what")
            .ok_or_else(|| wrong("does not say what it is there for".to_owned()))?;
        let expect = text(&table, "expect").unwrap_or_else(|| "PASS".to_owned());
        Ok(Self {
            what,
            expect,
            gpus,
            settings: words(&table, "set"),
            name: name.clone(),
            table,
        })
    }

    /// The scenario, in the modelled machine that matches it.
    ///
    /// # Errors
    /// If its machine does not exist, or the plan is invalid.
    pub fn scenario(&self) -> Result<Scenario> {
        let mut own = Table::new();
        let on = text(&self.table, "on").unwrap_or_else(|| "epyc-8x4090".to_owned());
        own.insert("on".to_owned(), Value::String(on));
        for key in ["machine", "figures", "fault", "event"] {
            own.extend(
                self.table
                    .get(key)
                    .map(|value| (key.to_owned(), value.clone())),
            );
        }
        let rate = self
            .table
            .get("rate")
            .and_then(Value::as_float)
            .unwrap_or(1.0);
        let scenario = Scenario::of(own)?.gpus(self.gpus).scaled(rate);
        // The tables are for a ring that crosses the sockets.
        let one = number(&self.table, "sockets").unwrap_or(1) == 1;
        let faster = if one {
            scenario.same_socket_speedup()
        } else {
            1.0
        };
        Ok(self
            .in_matching_machine(scenario.collectives_scaled(faster, &["p2p"]))?
            .set(&self.settings))
    }

    /// The same GPUs in the machine built from this plan.
    pub(super) fn in_matching_machine(&self, scenario: Scenario) -> Result<Scenario> {
        let plan = self.plan(&scenario)?;
        let integer = |n: usize| Value::Integer(i64::try_from(n).unwrap_or_default());
        let numa = (0..plan.gpus).map(|gpu| integer(plan.socket(gpu)));
        let (speed, width) = plan.link;
        let pcie = [
            ("gen", i64::from(speed)),
            ("width", i64::from(width)),
            ("idle_gen", 1),
        ];
        let pcie: Table = pcie
            .into_iter()
            .map(|(key, n)| (key.to_owned(), Value::Integer(n)))
            .collect();
        let scenario = scenario
            .machine("bdf", plan.addresses())
            .machine("sockets", integer(plan.sockets))
            .machine("numa", numa.collect::<Vec<_>>())
            .machine(
                "bar1_mib",
                Value::Integer(i64::try_from(plan.bar1_mib).unwrap_or_default()),
            )
            .machine("pcie", Value::Table(pcie));
        Ok(scenario.within(plan.machine()))
    }

    /// A virtual machine with this many GPUs, joined by NVSwitch.
    pub(super) fn guest(gpus: usize) -> Self {
        let text = "layout = \"guest\"\nlink = [5, 16]\ndisplay = false\nimage = false\ncmdline = \"plain\"\n\
            iommu = \"none\"\nbar1_mib = 262144\nrebar = false\n";
        let table = text.parse().expect("it is TOML");
        let (name, what, expect) = ("guest".to_owned(), String::new(), "PASS".to_owned());
        Self {
            name,
            what,
            expect,
            gpus,
            settings: Vec::new(),
            table,
        }
    }

    /// A machine with `each` GPUs behind each of its PCIe switches.
    pub(super) fn switched(gpus: usize, each: usize) -> Self {
        let text = format!("layout = \"switches\"\neach = {each}\nsockets = 2\n");
        let table = text.parse().expect("it is TOML");
        let (name, what, expect) = ("switches".to_owned(), String::new(), "PASS".to_owned());
        Self {
            name,
            what,
            expect,
            gpus,
            settings: Vec::new(),
            table,
        }
    }

    fn plan(&self, scenario: &Scenario) -> Result<MachinePlan> {
        let wrong = |why: &str| Error::Scenario {
            path: self.name.clone().into(),
            why: why.to_owned(),
        };
        let pair = |key: &str, or: (u8, u8)| -> Result<(u8, u8)> {
            let Some(value) = self.table.get(key) else {
                return Ok(or);
            };
            let pair = value
                .clone()
                .try_into::<[u8; 2]>()
                .map_err(|e| wrong(&e.to_string()))?;
            Ok((pair[0], pair[1]))
        };
        let layout = match text(&self.table, "layout").as_deref() {
            None | Some("ports") => Layout::Ports,
            Some("switches") => Layout::Switches(number(&self.table, "each").unwrap_or(4)),
            Some("guest") => Layout::Guest,
            Some(_) => return Err(wrong("layout: ports, switches or guest")),
        };
        let iommu = match text(&self.table, "iommu").as_deref() {
            None | Some("off") => Iommu::Off,
            Some("none") => Iommu::None,
            Some("pt") => Iommu::PassThrough,
            Some(_) => return Err(wrong("iommu: off, none or pt")),
        };
        let flag = |key: &str, or: bool| self.table.get(key).and_then(Value::as_bool).unwrap_or(or);
        let cmdline = match text(&self.table, "cmdline").as_deref() {
            None | Some("image") => IMAGE_CMDLINE.to_owned(),
            Some("plain") => PLAIN_CMDLINE.to_owned(),
            Some(words) => format!("{PLAIN_CMDLINE} {words}"),
        };
        let table = scenario.machine_table();
        let link = pair("link", (4, 16))?;
        let device = table
            .get("pci_ids")
            .and_then(Value::as_array)
            .and_then(|ids| ids.first()?.as_integer());
        let model = text(&table, "name").unwrap_or_default();
        Ok(MachinePlan {
            gpus: self.gpus,
            layout,
            sockets: number(&self.table, "sockets").unwrap_or(1),
            link,
            max_link: pair("best", link)?,
            iommu,
            cmdline,
            image: flag("image", true),
            driver: scenario.version().to_owned(),
            gpu: (
                device
                    .and_then(|id| u16::try_from(id >> 16).ok())
                    .unwrap_or_default(),
                model,
            ),
            display: flag("display", true),
            bar1_mib: number(&self.table, "bar1_mib").unwrap_or(32768) as u64,
            rebar: flag("rebar", true),
        })
    }
}
