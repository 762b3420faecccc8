//! A dozen kinds of machines. `firstlight list --findings` shows for which of them a remedy is, and a test holds the remedies
//! of all findings against what each kind allows.

use crate::platform::{
    Architecture, Bdf, BootLoader, Distribution, Environment, Host, HostGpu, HotPlug, HotPlugKind, Hypervisor,
    KernelVersion, Known, MemorySource, Processors, System, Vendor,
};
use crate::platform::{GpuId, Peers};

/// The address of the first GPU of each kind of machine.
pub(super) const GPU: Bdf = Bdf { domain: 0, bus: 0x41, device: 0, function: 0 };
/// The address of the second one.
const OTHER: Bdf = Bdf { domain: 0, bus: 0x61, device: 0, function: 0 };

/// Each kind with its name.
#[must_use]
pub(super) fn kinds() -> Vec<(&'static str, Host)> {
    let bare = x86();
    let large = Processors { present: Some(512), firmware: Some(512), largest_apic_id: Some(511) };
    let guest = |hypervisor| Host { environment: Environment::Guest(hypervisor), ..x86() };
    let arm = || Host {
        architecture: Architecture::Arm64,
        vendor: Vendor::Other,
        processors: Processors { present: Some(128), ..Processors::default() },
        ..x86()
    };
    let with = |change: fn(&mut HostGpu)| {
        let mut gpus = x86().gpus;
        gpus.iter_mut().for_each(change);
        gpus
    };
    let one = || x86().gpus.into_iter().take(1).collect::<Vec<_>>();
    vec![
        ("x86", bare),
        ("x86 with Fedora", Host { system: System::Installed(Distribution::Fedora, BootLoader::Grubby), ..x86() }),
        ("more than 255 processors", Host { processors: large, ..x86() }),
        ("kernel before 6.11", Host { kernel: kernel("6.8.0-90-generic", (6, 8), false), ..x86() }),
        ("QEMU guest", guest(Hypervisor::Qemu)),
        ("VMware guest", guest(Hypervisor::Vmware)),
        ("Hyper-V guest", guest(Hypervisor::HyperV)),
        ("arm64 server", arm()),
        (
            "GB10",
            Host {
                gpus: with(|gpu| gpu.integrated = true).into_iter().take(1).collect(),
                peers: Peers::default(),
                ..arm()
            },
        ),
        ("Grace", Host { vendor: Vendor::Grace, gpus: with(|gpu| gpu.own_link = true), ..arm() }),
        ("GPU of a virtual machine", Host { gpus: with(|gpu| gpu.passed_by = Some("vfio-pci".to_owned())), ..x86() }),
        (
            "Thunderbolt box",
            Host {
                gpus: with(|gpu| gpu.hot_plug = Some(HotPlug { port: OTHER, kind: HotPlugKind::Thunderbolt })),
                ..x86()
            },
        ),
        ("one GPU", Host { gpus: one(), peers: Peers::default(), ..x86() }),
        (
            "appliance",
            Host { kernel: kernel("6.12.107-firstlight", (6, 12), true), system: System::Appliance, ..x86() },
        ),
        ("unknown machine", Host::default()),
    ]
}

/// A bare machine with Debian and two GPUs.
fn x86() -> Host {
    Host {
        architecture: Architecture::X86,
        vendor: Vendor::Amd,
        kernel: kernel("6.12.107+deb13-amd64", (6, 12), false),
        environment: Environment::BareMetal,
        container: false,
        processors: Processors { present: Some(64), firmware: Some(64), largest_apic_id: Some(63) },
        system: System::Installed(Distribution::Debian, BootLoader::Grub),
        gpus: vec![gpu(0, GPU), gpu(1, OTHER)],
        peers: Peers { pairs: vec![(GPU, OTHER)], none: None },
    }
}

fn kernel(release: &str, version: (u32, u32), own: bool) -> KernelVersion {
    KernelVersion { release: Some(release.to_owned()), version: Some(version), own }
}

const fn gpu(number: usize, bdf: Bdf) -> HostGpu {
    HostGpu {
        bdf,
        number: GpuId::new(number),
        model: None,
        memory_bytes: Some(Known { value: 24 << 30, source: MemorySource::Boards }),
        geforce: Some(true),
        integrated: false,
        own_link: false,
        passed_by: None,
        hot_plug: None,
        clique: None,
        slot: None,
    }
}
