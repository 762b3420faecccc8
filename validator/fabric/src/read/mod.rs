//! Reads a machine's fabric from /sys into the model. Files are parsed here and in `config_space` and judged
//! elsewhere. A file that cannot be read becomes a finding, never a value; if the file is indispensable, it
//! is an error.

mod attributes;
mod device;
mod roles;

use crate::{judge, rebar};
use contract::pci_vendor;
use device::RegisterAddresses;
use machine::host::platform::peers_of;
use machine::host::{cpu, iommu, modules, nvidia};
use machine::pcie::model::{Bdf, Device, Fabric, Link, Peers, SCHEMA};
use machine::pcie::tree::Tree;
use machine::pcie::{bus_address, nic, path, pci_ids, vfio};
use machine::root::Root;
use outcome::finding::{Finding, Subject};
use outcome::text::{quoted, shown};
use std::collections::BTreeMap;
use std::io;

/// Where Linux lists PCI functions.
const DEVICES: &str = "sys/bus/pci/devices";

/// Why the fabric could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The list of PCI functions could not be read.
    #[error(
        "cannot list PCI functions in {path}: not the root of a Linux machine, or /sys is not mounted"
    )]
    Devices {
        /// The folder that was tried.
        path: String,
        /// The error.
        source: io::Error,
    },
    /// A recorded machine has no list of PCI functions.
    #[error(
        "cannot list PCI functions in {path}: the recording was cut off, or is not of a whole machine"
    )]
    Recorded {
        /// The recording, and the folder in it.
        path: String,
        /// The error.
        source: io::Error,
    },
    /// Processor counts.
    #[error(transparent)]
    Cpus(#[from] cpu::CpuError),
}

/// Reads everything about the fabric of the machine under `root`.
///
/// # Errors
/// If the PCI functions or the processors cannot be listed. Everything else that cannot be read is in
/// `findings`, with severity `error` if a judgement depends on it.
pub fn read(root: &Root) -> Result<Fabric, ReadError> {
    let mut findings = Vec::new();
    let mut devices = devices(root, &mut findings)?;
    name_models(root, &mut devices);
    let (iommu, iommu_findings) = iommu::read(root);
    findings.extend(iommu_findings);
    let of = |wanted: fn(&Device) -> bool| {
        devices
            .iter()
            .filter(|d| wanted(d))
            .map(|d| d.bdf)
            .collect()
    };
    let gpus: Vec<Bdf> = of(is_gpu);
    let nics: Vec<Bdf> = of(is_nic);
    let rdma = roles::rdma(root, &devices, &mut findings);
    let peers = devices
        .iter()
        .filter(|d| nic::exchanges(d, &rdma))
        .map(|d| d.bdf);
    let paths = path::all(&Tree::new(&devices), &gpus, &peers.collect::<Vec<_>>());
    let lockdown = lockdown(root, &mut findings);
    let schema = SCHEMA.to_owned();
    let cpus = cpu::read(root)?;
    let numa_nodes = attributes::optional(
        root,
        "sys/devices/system/node/online",
        &Subject::Machine,
        &mut findings,
    )
    .map(|nodes| quoted(&nodes));
    let from = root.name();
    let mut fabric = Fabric {
        schema,
        root: from,
        iommu,
        cpus,
        numa_nodes,
        devices,
        rdma,
        lockdown,
        gpus,
        nics,
        paths,
        peers: Peers::default(),
        findings,
    };
    // Without the driver's names the ids tell boards apart.
    fabric.peers = peers_of(&fabric, &nvidia::gpus::read(root).unwrap_or_default());
    fabric.findings.extend(judge::all(&fabric));
    Ok(fabric)
}

fn devices(root: &Root, findings: &mut Vec<Finding>) -> Result<Vec<Device>, ReadError> {
    let unlisted = |source| {
        let path = root.shown(DEVICES);
        if root.given_name().is_some() {
            ReadError::Recorded { path, source }
        } else {
            ReadError::Devices { path, source }
        }
    };
    let mut devices = Vec::new();
    let mut addresses = BTreeMap::new();
    for name in root.names(DEVICES).map_err(unlisted)? {
        match name.to_string_lossy().parse::<Bdf>() {
            Ok(bdf) => {
                let (device, own) = device::read(root, bdf, findings);
                devices.push(device);
                addresses.extend(own.map(|own| (bdf, own)));
            }
            Err(bad) => {
                let subject = Subject::file(shown(&name.to_string_lossy()));
                findings.push(attributes::unreadable(
                    DEVICES,
                    &subject,
                    &shown(&bad.to_string()),
                ));
            }
        }
    }
    devices.sort_by_key(|d| d.bdf);
    virtual_links(&mut devices, findings);
    vfio::mark_lent(&mut devices, has_vgpu_manager(root));
    roles::derive(&mut devices);
    findings.extend(faulty_bars(root, &devices, &addresses));
    Ok(devices)
}

/// Whether NVIDIA's vGPU manager is loaded. If the modules cannot be read, which the test `drivers` reports, it may be.
fn has_vgpu_manager(root: &Root) -> bool {
    modules::absent_is_none(modules::loaded(root, &[vfio::VGPU_MANAGER]))
        .map_or(true, |loaded| loaded.is_some_and(|names| !names.is_empty()))
}

/// GPUs with a BAR that has no address, or whose BAR1 is not where the kernel expects it.
fn faulty_bars(
    root: &Root,
    devices: &[Device],
    addresses: &BTreeMap<Bdf, RegisterAddresses>,
) -> Vec<Finding> {
    let tree = Tree::new(devices);
    let wrong = |gpu: &Device| {
        let above = tree
            .above(gpu.bdf)
            .into_iter()
            .filter_map(|d| addresses.get(&d.bdf));
        let windows = || above.map(|bridge| bridge.windows.clone()).collect();
        let windows: Vec<_> = bus_address::of_this_machine(root).unwrap_or_else(windows);
        rebar::bar_fault(gpu, &addresses.get(&gpu.bdf)?.bases, &windows)
    };
    devices
        .iter()
        .filter(|d| is_gpu(d))
        .filter_map(wrong)
        .collect()
}

/// A virtual function has no link: it uses that of its physical function.
fn virtual_links(devices: &mut [Device], findings: &mut Vec<Finding>) {
    let links: BTreeMap<Bdf, Option<Link>> =
        devices.iter().map(|d| (d.bdf, d.link.clone())).collect();
    for (device, physfn) in devices.iter_mut().filter_map(|d| d.physfn.map(|p| (d, p))) {
        match links.get(&physfn) {
            Some(link) => device.link.clone_from(link),
            None => {
                let file = format!("{DEVICES}/{}/physfn", device.bdf);
                let why = format!("it leads to {physfn}, which is not a listed PCI function");
                findings.push(attributes::unreadable(&file, &device.bdf.into(), &why));
            }
        }
    }
}

/// Gives the GPUs their models by the system's `pci.ids`, where it has that file: a name helps people, and nothing is
/// judged by it.
fn name_models(root: &Root, devices: &mut [Device]) {
    let mut gpus = devices
        .iter_mut()
        .filter(|device| is_gpu(device))
        .peekable();
    if gpus.peek().is_none() {
        return;
    }
    let models = pci_ids::read(root);
    gpus.for_each(|gpu| gpu.model = models.get(&gpu.device).cloned());
}

/// A virtual function of a GPU does not count as a GPU.
fn is_gpu(device: &Device) -> bool {
    device.physfn.is_none()
        && device.vendor == pci_vendor::NVIDIA
        && device.class.starts_with("0x03")
}

fn is_nic(device: &Device) -> bool {
    device.class.starts_with("0x02") && !device.leads_to_nvswitches
}

/// The mode in brackets of `none [integrity] confidentiality`.
fn lockdown(root: &Root, findings: &mut Vec<Finding>) -> Option<String> {
    const FILE: &str = "sys/kernel/security/lockdown";
    let text = attributes::optional(root, FILE, &Subject::Machine, findings)?;
    let mode = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(mode, _)| shown(mode));
    if mode.is_none() {
        let why = format!("no mode in brackets in '{}'", quoted(&text));
        findings.push(attributes::unreadable(FILE, &Subject::Machine, &why));
    }
    mode
}
