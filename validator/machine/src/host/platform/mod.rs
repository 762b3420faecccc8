//! Reads what kind of machine this is, as one [`Host`]. Each file answers one question: it reads the evidence, and a pure
//! function beside it decides. What the machine does not show is unknown; nothing here is an error, because other readers
//! report files that cannot be read.

mod architecture;
mod cpuinfo;
mod dmi;
mod environment;
mod gpus;
mod hot_plug;
mod peers;
mod system;

pub use peers::{demand, peers};

use super::cmdline;
use super::identity::Identity;
use super::madt;
use super::nvidia::gpus::Information;
use crate::pcie::model::{Bdf, Fabric};
use crate::root::Root;
use cpuinfo::CpuInfo;
use outcome::platform::{Host, HostGpu, KernelVersion, Known, Peers, Processors};
use std::collections::BTreeMap;

/// Reads all of it. `known` is what the driver says about its GPUs; `memory` is the memory of GPUs from better sources than
/// the table of boards, by address.
#[must_use]
pub fn read(
    root: &Root,
    fabric: Option<&Fabric>,
    identity: &Identity,
    known: &BTreeMap<String, Information>,
    memory: &BTreeMap<Bdf, Known<u64>>,
) -> Host {
    let cpuinfo = root
        .text("proc/cpuinfo")
        .ok()
        .as_deref()
        .map(CpuInfo::of)
        .unwrap_or_default();
    let madt = madt::read(root).ok().flatten();
    let gpus = fabric.map_or_else(Vec::new, |fabric| read_gpus(root, fabric, known, memory));
    let kernel = kernel(identity);
    let shown = architecture::Evidence::read(root, identity, &cpuinfo, madt);
    let architecture = shown.architecture();
    let dmi = dmi::Dmi::of(&identity.dmi);
    let vendor = shown.vendor(architecture, &dmi, gpus.iter().any(|gpu| gpu.own_link));
    let gpus = gpus
        .into_iter()
        .map(|gpu| own_link_of(gpu, architecture))
        .collect::<Vec<_>>();
    Host {
        architecture,
        vendor,
        environment: environment::Evidence::read(root, fabric, &kernel, &cpuinfo, &dmi)
            .environment(architecture),
        container: environment::is_container(root),
        processors: Processors {
            present: fabric.map(|fabric| fabric.cpus.present),
            firmware: madt.map(|madt| madt.enabled),
            largest_apic_id: madt.and_then(|madt| madt.largest_apic_id),
        },
        system: system::read(root, identity),
        passed: fabric.map_or_else(Vec::new, passed),
        mainboard: dmi.mainboard(),
        lockdown: fabric
            .and_then(|fabric| fabric.lockdown.clone())
            .filter(|mode| mode != "none"),
        peers: fabric.map_or_else(Peers::default, |fabric| peers(fabric, &gpus)),
        gpus,
        kernel,
    }
}

/// The GPUs of a fabric.
#[must_use]
pub fn read_gpus(
    root: &Root,
    fabric: &Fabric,
    known: &BTreeMap<String, Information>,
    memory: &BTreeMap<Bdf, Known<u64>>,
) -> Vec<HostGpu> {
    let mut gpus = gpus::of(fabric, known, memory);
    for gpu in &mut gpus {
        gpu.clique = gpus::clique(root, gpu.bdf);
        gpu.hot_plug = hot_plug::read(root, fabric, gpu.bdf);
    }
    gpus
}

/// The peers of a fabric, by what it and the driver's names show.
#[must_use]
pub fn peers_of(fabric: &Fabric, known: &BTreeMap<String, Information>) -> Peers {
    peers(fabric, &gpus::of(fabric, known, &BTreeMap::new()))
}

/// Only machines of arm64 have Grace.
fn own_link_of(gpu: HostGpu, architecture: outcome::platform::Architecture) -> HostGpu {
    HostGpu {
        own_link: gpu.own_link && architecture != outcome::platform::Architecture::X86,
        ..gpu
    }
}

fn kernel(identity: &Identity) -> KernelVersion {
    let release = identity
        .kernel
        .as_deref()
        .map(|release| release.trim().to_owned());
    let words = cmdline::written(identity.cmdline.as_deref().unwrap_or_default());
    KernelVersion {
        version: release.as_deref().and_then(version),
        release,
        own: identity.is_own(),
        words,
    }
}

/// The devices besides GPUs that are passed to virtual machines.
fn passed(fabric: &Fabric) -> Vec<Bdf> {
    let others = fabric
        .devices
        .iter()
        .filter(|device| !fabric.gpus.contains(&device.bdf));
    others
        .filter(|device| device.pass_through_driver().is_some())
        .map(|device| device.bdf)
        .collect()
}

/// `6.12.9-arch1-1` is 6.12.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let (major, minor) = (numbers.next()?, numbers.next()?);
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::identity;
    use crate::pcie::sample;
    use outcome::platform::{Architecture, Environment, Hypervisor, Mainboard, System, Vendor};

    #[test]
    fn a_release_gives_two_numbers() {
        assert_eq!(version("6.12.9-arch1-1"), Some((6, 12)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!(
            (version("6"), version(""), version("x.1")),
            (None, None, None)
        );
    }

    fn host(files: &[(&str, &str)]) -> Host {
        let (_dir, root) = Root::written(files);
        let fabric = sample::fabric(sample::two_gpus());
        read(
            &root,
            Some(&fabric),
            &identity::read(&root),
            &BTreeMap::new(),
            &BTreeMap::new(),
        )
    }

    #[test]
    fn a_server_is_read_whole() {
        let host = host(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu x2apic\n",
            ),
            ("proc/sys/kernel/osrelease", "6.8.0-90-generic\n"),
            ("sys/class/dmi/id/sys_vendor", "Supermicro\n"),
            ("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n"),
            ("etc/default/grub", ""),
        ]);
        assert_eq!(
            (host.architecture, host.vendor),
            (Architecture::X86, Vendor::Amd)
        );
        assert_eq!(
            (host.environment, host.container),
            (Environment::BareMetal, false)
        );
        assert!(host.kernel.at_least((6, 8)) && !host.kernel.at_least((6, 11)) && !host.kernel.own);
        assert_eq!(
            host.system.add_words(&["iommu=pt"]).split(',').nth(1),
            Some(" run `update-grub` and reboot")
        );
        assert_eq!(
            (host.gpus.len(), host.peers.pairs.len(), host.peers.none),
            (2, 1, None)
        );
    }

    #[test]
    fn a_recording_with_nothing_in_it_is_unknown() {
        let host = host(&[]);
        assert_eq!(
            (host.architecture, host.vendor),
            (Architecture::Unknown, Vendor::Unknown)
        );
        assert_eq!(
            (host.environment, host.system),
            (Environment::Unknown, System::Unknown)
        );
    }

    #[test]
    fn a_guest_is_read_whole() {
        let host = host(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n",
            ),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            (
                "sys/class/dmi/id/product_name",
                "Standard PC (Q35 + ICH9, 2009)\n",
            ),
        ]);
        assert_eq!(
            (host.environment, host.vendor),
            (Environment::Guest(Hypervisor::Qemu), Vendor::Intel)
        );
        assert_eq!(
            (host.mainboard, host.has_own_host(), host.is_rented()),
            (Some(Mainboard::Q35), true, false)
        );
    }

    #[test]
    fn azure_is_known_by_its_chassis_or_its_kernel() {
        let names = [
            ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n"),
            ("sys/class/dmi/id/product_name", "Virtual Machine\n"),
        ];
        let with = |file: &[(&'static str, &'static str)]| host(&[&names, file].concat());
        let tag = with(&[(
            "sys/class/dmi/id/chassis_asset_tag",
            "7783-7084-3265-9085-8269-3286-77\n",
        )]);
        let kernel = with(&[("proc/sys/kernel/osrelease", "6.8.0-1030-azure\n")]);
        for azure in [tag, kernel] {
            assert_eq!(
                (azure.environment, azure.is_rented()),
                (Environment::Guest(Hypervisor::Azure), true)
            );
        }
        let own = with(&[]);
        assert_eq!(
            (own.environment, own.has_own_host()),
            (Environment::Guest(Hypervisor::HyperV), true)
        );
    }

    #[test]
    fn the_words_of_the_kernel_are_read() {
        let host = host(&[("proc/cmdline", "ro iommu=pt iommu.passthrough=0 -- quiet\n")]);
        assert_eq!(host.kernel.words, ["ro", "iommu=pt", "iommu.passthrough=0"]);
    }
}
