//! Reads the machine into a [`State`]; judges nothing. What decides about a step and cannot be read is an error.

mod boot;
mod build;
mod driver;

use crate::journal::Journal;
use crate::options::Options;
use crate::state::{Gpu, Registers, State, Switches, Unit};
use crate::step::paths;
use crate::{SetupError, SetupResult};
use fabric::acs::AcsPolicy;
use fabric::pass::{self, PassOptions};
use fabric::plan::lockdown;
use fabric::rebar::RebarChoice;
use fabric::turn::{Effect, Turns};
use machine::host::iommu::{self, IommuMode};
use machine::host::nvidia::{chip, gpus, managers};
use machine::host::{identity, modules, platform};
use machine::pcie::config_space::CONVENTIONAL_BYTES;
use machine::pcie::model::{Bdf, ConfigState, Device, Fabric, Undetermined};
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
    let redirecting = redirecting(fabric);
    // `fabric fix` leaves all ports alone as long as requests are translated, and where the kernel is locked down.
    let writes_none = iommu == IommuMode::Translated || lockdown(fabric).is_some();
    let written = |port: &&Bdf| plan.acs.actions.iter().any(|action| action.bdf == **port);
    let ports = redirecting
        .iter()
        .filter(|port| writes_none || written(port))
        .count();
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
        registers: registers(&device.config),
    })
}

fn registers(config: &ConfigState) -> Registers {
    match config {
        config if config.gone => Registers::Gone,
        config if config.bytes < CONVENTIONAL_BYTES => Registers::Short {
            bytes: config.bytes,
        },
        config if config.undetermined.contains(&Undetermined::Rebar) => Registers::Hidden {
            fault: config.faults.first().cloned().unwrap_or_default(),
        },
        _ => Registers::Read,
    }
}

/// The ports that redirect traffic between GPUs and that may be written.
fn redirecting(fabric: &Fabric) -> Vec<Bdf> {
    let turns = Turns::of(fabric);
    let redirects = |device: &&Device| {
        let acs = device.acs.as_ref().filter(|acs| !acs.quirk);
        acs.is_some_and(|acs| turns.effect(device.bdf, acs) == Effect::Redirects)
    };
    fabric
        .devices
        .iter()
        .filter(|device| turns.contains(device.bdf))
        .filter(redirects)
        .map(|device| device.bdf)
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::sample::{fabric, two_gpus, with_acs};

    #[test]
    fn only_ports_that_redirect_count() {
        let counted = |ctrl| {
            let mut devices = two_gpus();
            devices[0] = with_acs(devices[0].clone(), ctrl);
            redirecting(&fabric(devices)).len()
        };
        assert_eq!(counted(0x001d), 1);
        assert_eq!(counted(0x0011), 0, "SV and UF have no effect on peers");
        assert_eq!(counted(0), 0);
    }

    #[test]
    fn registers_of_ones_are_not_a_matter_of_permission() {
        let read = |bytes, gone, faults: &[&str], undetermined: &[Undetermined]| {
            registers(&ConfigState {
                bytes,
                gone,
                faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
                undetermined: undetermined.to_owned(),
            })
        };
        let rebar = &[Undetermined::Rebar][..];
        assert_eq!(read(4096, false, &[], &[]), Registers::Read);
        assert_eq!(read(4096, true, &[], &[]), Registers::Gone);
        assert_eq!(
            read(64, false, &["short"], rebar),
            Registers::Short { bytes: 64 }
        );
        let fault = "a loop at 0x100".to_owned();
        assert_eq!(
            read(4096, false, &[&fault], rebar),
            Registers::Hidden { fault }
        );
    }
}
