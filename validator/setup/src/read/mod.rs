//! Reads the machine into a [`State`]; judges nothing. What decides about a step and cannot be read is an error.

mod boot;
mod build;
mod driver;

use crate::journal::Journal;
use crate::options::Options;
use crate::state::{Gpu, State, Switches, Unit};
use crate::step::paths;
use crate::{SetupError, SetupResult};
use fabric::acs::{self, AcsPolicy};
use fabric::pass::{self, PassOptions};
use fabric::rebar::RebarChoice;
use machine::host::iommu::{self, IommuMode};
use machine::host::nvidia::{chip, gpus, managers};
use machine::host::{identity, modules, platform};
use machine::pcie::model::{Device, Fabric, Undetermined};
use machine::root::Root;
use outcome::platform::{Host, HostGpu};
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Reads it.
///
/// # Errors
/// One line with the file that could not be read.
pub fn read(root: &Root, options: &Options) -> SetupResult<State> {
    let plan = pass::make_plan(
        root,
        PassOptions {
            acs: AcsPolicy::Path,
            rebar: RebarChoice::Fix,
        },
        &|_| Vec::new(),
    )
    .map_err(|e| SetupError(outcome::text::chain(&e)))?;
    let fabric = &plan.fabric;
    let identity = identity::read(root);
    let known = gpus::read(root).map_err(|e| SetupError::at("proc/driver/nvidia/gpus", &e))?;
    let host = platform::read(root, Some(fabric), &identity, &known, &BTreeMap::new());
    let release = host.kernel.release.clone().unwrap_or_default();
    let gpus: Vec<_> = host
        .gpus
        .iter()
        .filter(|gpu| is_own(gpu))
        .filter_map(|gpu| gpu_of(fabric, gpu))
        .collect();
    let iommu = iommu::read(root).0.mode;
    let ports = match iommu {
        // `fabric fix` leaves them alone as long as requests are translated.
        IommuMode::Translated => redirecting(fabric),
        _ => plan.acs.actions.len(),
    };
    Ok(State {
        distribution: distribution(root),
        iommu,
        ports,
        switches: switches(fabric, root),
        driver: driver::read(root, &release, &gpus, options)?,
        build: build::read(root, &release),
        secure_boot: boot::secure_boot(root),
        boot: boot::read(root),
        unit: unit(root),
        set_up: Journal::read(root)?.is_some(),
        files: files(root, &host)?,
        gpus,
        host,
    })
}

/// A card that this system itself uses.
fn is_own(gpu: &HostGpu) -> bool {
    gpu.passed_by.is_none() && !gpu.integrated && !gpu.own_link
}

fn gpu_of(fabric: &Fabric, gpu: &HostGpu) -> Option<Gpu> {
    let device: &Device = fabric.devices.iter().find(|device| device.bdf == gpu.bdf)?;
    let sizes = device.aperture_sizes();
    let hidden = device.config.undetermined.contains(&Undetermined::Rebar);
    Some(Gpu {
        bdf: gpu.bdf,
        device: chip::number(&device.device)?,
        model: gpu.model.as_ref().map(|known| known.value.clone()),
        geforce: gpu.geforce,
        memory_bytes: gpu.memory_bytes.as_ref().map(|known| known.value),
        bar1_bytes: device
            .aperture()
            .map(|bar| bar.bytes)
            .or_else(|| sizes.map(|sizes| sizes.current_bytes)),
        largest_bar1_bytes: sizes.and_then(|sizes| sizes.supported_bytes.last().copied()),
        boot_display: device.boot_vga,
        registers_read: !hidden && !device.config.gone && device.config.bytes >= 256,
    })
}

/// The ports on paths between GPUs whose ACS is on.
fn redirecting(fabric: &Fabric) -> usize {
    let on_paths = acs::ports_on_paths(fabric);
    let on = |device: &&Device| device.acs.as_ref().is_some_and(|acs| acs.ctrl != 0);
    fabric
        .devices
        .iter()
        .filter(|device| on_paths.contains(&device.bdf))
        .filter(on)
        .count()
}

fn switches(fabric: &Fabric, root: &Root) -> Switches {
    let Some(found) = managers::switches(fabric, root) else {
        return Switches::default();
    };
    let running = managers::running(root);
    Switches {
        there: true,
        nvlink5: matches!(found, managers::Switches::Nvlink5(_)),
        nvlsm: running.nvlsm,
        fabric_manager: running.fabric_manager,
    }
}

fn distribution(root: &Root) -> String {
    let text = ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|file| root.text(file).ok());
    let text = text.unwrap_or_default();
    let id = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("ID="));
    id.unwrap_or_default()
        .trim_matches(['"', '\''])
        .to_lowercase()
}

fn unit(root: &Root) -> Unit {
    let there = |folder: &str, unit: &str| root.stat(format!("{folder}/{unit}")).is_ok();
    let installed = |unit| {
        [
            "etc/systemd/system",
            "usr/lib/systemd/system",
            "lib/systemd/system",
        ]
        .iter()
        .any(|place| there(place, unit))
    };
    Unit {
        installed: installed(paths::UNIT),
        enabled: there("etc/systemd/system/sysinit.target.wants", paths::UNIT),
        check_installed: installed(paths::CHECK_UNIT),
        check_enabled: there(
            "etc/systemd/system/multi-user.target.wants",
            paths::CHECK_UNIT,
        ),
    }
}

/// The text of each file that a plan may write, if it exists.
fn files(root: &Root, host: &Host) -> SetupResult<BTreeMap<String, String>> {
    let mut names: Vec<String> = paths::WRITTEN
        .iter()
        .map(|path| (*path).to_owned())
        .collect();
    if host.system != outcome::platform::System::Appliance {
        for folder in paths::ENTRIES {
            // An EFI partition that is not mounted has none.
            let entries = modules::absent_is_none(root.names(folder))
                .map_err(|e| SetupError::at(folder, &e))?;
            let entries = entries
                .unwrap_or_default()
                .into_iter()
                .filter_map(|name| name.into_string().ok());
            names.extend(
                entries
                    .filter(|name| name.ends_with(".conf"))
                    .map(|name| format!("{folder}/{name}")),
            );
        }
    }
    let mut files = BTreeMap::new();
    for name in names {
        if let Some(text) = text_of(root, &name)? {
            files.insert(name, text);
        }
    }
    Ok(files)
}

/// A file's whole text; `None` if it does not exist.
///
/// # Errors
/// One line: it cannot be read, or is not text.
pub(crate) fn text_of(root: &Root, path: &str) -> SetupResult<Option<String>> {
    match root.read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| SetupError::at(path, &"is not text, and is left alone")),
        Err(e) if e.kind() == ErrorKind::NotFound || e.kind() == ErrorKind::NotADirectory => {
            Ok(None)
        }
        Err(e) => Err(SetupError::at(path, &e)),
    }
}
