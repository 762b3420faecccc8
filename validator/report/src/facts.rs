//! The facts of a report about the machine and its software, by name, for comparison with another report. Pure. A fact
//! that could not be read is absent, so that the comparison shows its absence.

use super::{Gpu, Report};
use machine::host::cmdline::words;
use machine::pcie::model::Device;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Facts by name: `driver.module`, `gpu.0.vbios`, `acs.0000:00:01.1`.
pub type Facts = BTreeMap<String, String>;

/// All facts of a report.
pub(super) fn facts(report: &Report) -> Facts {
    let mut all = Facts::new();
    let mut put = |name: String, value: Option<String>| {
        if let Some(value) = value {
            all.insert(name, value);
        }
    };
    let (machine, driver) = (&report.machine, &report.driver);
    let appliance = report.appliance.as_ref();
    let bound = &machine.bound_to;
    for (name, value) in [
        ("machine.host", machine.host.clone()),
        ("machine.id", machine.machine_id.clone()),
        ("machine.serial", machine.serial.clone()),
        ("kernel", machine.kernel.clone()),
        ("image.version", appliance.map(|a| a.version.clone())),
        ("image.id", appliance.and_then(|a| a.image_id.clone())),
        ("driver.module", driver.module.clone()),
        ("driver.srcversion", bound.module_srcversion.clone()),
        ("driver.build-id", bound.module_build_id.clone()),
        ("driver.userspace", driver.userspace.clone()),
        ("driver.gsp", driver.gsp.clone()),
        ("driver.cuda", driver.cuda.clone()),
        ("driver.nccl", driver.nccl.clone()),
        ("iommu", iommu(report)),
    ] {
        put(name.to_owned(), value);
    }
    for (name, value) in &machine.dmi {
        put(format!("firmware.{name}"), value.clone());
    }
    let mut given: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for word in machine.cmdline.iter().flat_map(|line| words(line)) {
        given
            .entry(word.key)
            .or_default()
            .push(word.value.unwrap_or_else(|| "set".to_owned()));
    }
    for (key, values) in given {
        put(format!("cmdline.{key}"), Some(values.join(" ")));
    }
    for (number, gpu) in report.gpus.iter().enumerate() {
        let link = gpu.link.as_ref();
        for (name, value) in [
            ("address", Some(gpu.bdf.to_string())),
            ("name", gpu.name.clone()),
            ("uuid", gpu.uuid.clone()),
            ("vbios", gpu.vbios.clone()),
            (
                "bar1",
                gpu.bar1_bytes.map(|bytes| format!("{} MiB", bytes >> 20)),
            ),
            ("numa", gpu.numa.map(|node| node.to_string())),
            (
                "link.lanes",
                link.map(|link| format!("{} of {}", link.width, link.max_width)),
            ),
            // The present rate is lower when the link is idle: only the tests under load judge it.
            (
                "link.fastest",
                link.map(|link| format!("{} GT/s", link.max_gts)),
            ),
        ] {
            put(format!("gpu.{number}.{name}"), value);
        }
    }
    if let Some(fabric) = &report.fabric {
        put(
            "processors".to_owned(),
            Some(fabric.cpus.online.to_string()),
        );
        put("lockdown".to_owned(), fabric.lockdown.clone());
        for device in &fabric.devices {
            put(format!("acs.{}", device.bdf), acs(device));
        }
    }
    all
}

/// The state of the IOMMU: `off`, `identity`, `translated`, `unknown`.
pub(super) fn iommu(report: &Report) -> Option<String> {
    let mode = report
        .machine
        .bound_to
        .iommu
        .or_else(|| Some(report.fabric.as_ref()?.iommu.mode))?;
    Some(format!("{mode:?}").to_lowercase())
}

/// The words of the kernel command line about the IOMMU, and about what firstlight does to the fabric, unchanged.
pub(super) fn iommu_words(report: &Report) -> String {
    let all = report.machine.cmdline.iter().flat_map(|line| words(line));
    let about =
        all.filter(|word| word.key.contains("iommu") || word.key.starts_with("firstlight.fabric."));
    let shown: Vec<_> = about
        .map(|word| word.key + &word.value.map(|v| format!("={v}")).unwrap_or_default())
        .collect();
    shown.join(" ")
}

/// The models of the GPUs in their order, which figures by GPU number need.
pub(super) fn models(gpus: &[Gpu]) -> Vec<String> {
    gpus.iter()
        .map(|gpu| gpu.name.clone().unwrap_or_else(|| gpu.device.clone()))
        .collect()
}

/// Models as text: `8 x NVIDIA H200`, or each of them.
pub(super) fn models_text(models: &[String]) -> String {
    let same = models.iter().all(|model| Some(model) == models.first());
    match models.first() {
        None => "no GPU".to_owned(),
        Some(model) if same => format!("{} x {model}", models.len()),
        Some(_) => models.join(", "),
    }
}

/// An identity that is the same in every boot of one machine: its id, otherwise the ids of its GPUs; `None` if a report
/// has neither.
pub(super) fn identity(report: &Report) -> Option<String> {
    let gpus = || {
        let ids: Option<BTreeSet<_>> = report.gpus.iter().map(|gpu| gpu.uuid.as_deref()).collect();
        ids.filter(|ids| !ids.is_empty())
            .map(|ids| ids.into_iter().collect::<Vec<_>>().join(" "))
    };
    report.machine.machine_id.clone().or_else(gpus)
}

fn acs(device: &Device) -> Option<String> {
    let set = &device.acs.as_ref()?.enabled;
    Some(if set.is_empty() {
        "off".to_owned()
    } else {
        set.join(" ")
    })
}

/// A fact that changed; `null` for a side that does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub what: String,
    /// In the baseline.
    pub then: Option<String>,
    /// In the report.
    pub now: Option<String>,
}

/// The facts that differ from `then`; the facts in `varying` are not compared.
pub(super) fn changes(then: &Facts, varying: &BTreeSet<String>, report: &Report) -> Vec<Change> {
    let now = facts(report);
    let names: BTreeSet<_> = then
        .keys()
        .chain(now.keys())
        .filter(|name| !varying.contains(*name))
        .collect();
    let change = |what: &String| Change {
        what: what.clone(),
        then: then.get(what).cloned(),
        now: now.get(what).cloned(),
    };
    names
        .into_iter()
        .map(change)
        .filter(|change| change.then != change.now)
        .collect()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        write!(
            f,
            "{}: {}, baseline {}",
            self.what,
            word(&self.now),
            word(&self.then)
        )
    }
}
