//! A dozen kinds of machines. `firstlight list --findings` shows for which of them a remedy is, and a test holds the remedies
//! of all findings against what each kind allows.

use crate::platform::{
    Architecture, Bdf, BootLoader, Distribution, Environment, Host, HostGpu, HotPlug, HotPlugKind,
    Hypervisor, KernelVersion, Known, Mainboard, MemorySource, Processors, System, Vendor,
};
use crate::platform::{GpuId, Peers};

/// The address of the first GPU of each kind of machine.
pub(super) const GPU: Bdf = Bdf {
    domain: 0,
    bus: 0x41,
    device: 0,
    function: 0,
};
/// The address of the second one.
const OTHER: Bdf = Bdf {
    domain: 0,
    bus: 0x61,
    device: 0,
    function: 0,
};

/// The address of a network card.
const NETWORK: Bdf = Bdf {
    domain: 0,
    bus: 0x81,
    device: 0,
    function: 0,
};

/// Each kind with its name.
#[must_use]
pub(super) fn kinds() -> Vec<(&'static str, Host)> {
    let bare = x86();
    let large = Processors {
        present: Some(512),
        firmware: Some(512),
        largest_apic_id: Some(511),
    };
    let guest = |hypervisor| Host {
        environment: Environment::Guest(hypervisor),
        ..x86()
    };
    let arm = || Host {
        architecture: Architecture::Arm64,
        vendor: Vendor::Other,
        processors: Processors {
            present: Some(128),
            ..Processors::default()
        },
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
        (
            "x86 with Fedora",
            Host {
                system: System::Installed(Distribution::Fedora, BootLoader::Grubby),
                ..x86()
            },
        ),
        (
            "more than 255 processors",
            Host {
                processors: large,
                ..x86()
            },
        ),
        (
            "kernel before 6.11",
            Host {
                kernel: kernel("6.8.0-90-generic", (6, 8), false),
                ..x86()
            },
        ),
        ("QEMU guest", guest(Hypervisor::Qemu)),
        ("VMware guest", guest(Hypervisor::Vmware)),
        ("Hyper-V guest", guest(Hypervisor::HyperV)),
        (
            "i440FX guest",
            Host {
                mainboard: Some(Mainboard::I440fx),
                ..guest(Hypervisor::Qemu)
            },
        ),
        ("EC2 instance", guest(Hypervisor::Amazon)),
        ("Azure instance", guest(Hypervisor::Azure)),
        ("WSL2", guest(Hypervisor::Wsl)),
        (
            "container",
            Host {
                container: true,
                ..x86()
            },
        ),
        (
            "locked down",
            Host {
                lockdown: Some("integrity".to_owned()),
                ..x86()
            },
        ),
        (
            "words there",
            with_words("ro iommu=pt pci=config_acs=0000000@pci:0:0"),
        ),
        (
            "contradicting word",
            with_words("ro iommu=pt iommu.passthrough=0"),
        ),
        ("translating word", with_words("ro iommu=nopt")),
        (
            "NixOS",
            Host {
                system: System::Installed(Distribution::NixOs, BootLoader::NixOs),
                ..x86()
            },
        ),
        (
            "kernel before 4.19",
            Host {
                kernel: kernel("4.15.0-213-generic", (4, 15), false),
                ..x86()
            },
        ),
        ("arm64 server", arm()),
        (
            "GB10",
            Host {
                gpus: with(|gpu| gpu.integrated = true)
                    .into_iter()
                    .take(1)
                    .collect(),
                peers: Peers::default(),
                ..arm()
            },
        ),
        (
            "Grace",
            Host {
                vendor: Vendor::Grace,
                gpus: with(|gpu| gpu.own_link = true),
                ..arm()
            },
        ),
        (
            "GPU of a virtual machine",
            Host {
                gpus: with(|gpu| gpu.passed_by = Some("vfio-pci".to_owned())),
                ..x86()
            },
        ),
        (
            "network card of a virtual machine",
            Host {
                passed: vec![NETWORK],
                ..x86()
            },
        ),
        (
            "Thunderbolt box",
            Host {
                gpus: with(|gpu| {
                    gpu.hot_plug = Some(HotPlug {
                        port: OTHER,
                        kind: HotPlugKind::Thunderbolt,
                    });
                }),
                ..x86()
            },
        ),
        (
            "one GPU",
            Host {
                gpus: one(),
                peers: Peers::default(),
                ..x86()
            },
        ),
        (
            "appliance",
            Host {
                kernel: kernel("6.12.107-firstlight", (6, 12), true),
                system: System::Appliance,
                ..x86()
            },
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
        processors: Processors {
            present: Some(64),
            firmware: Some(64),
            largest_apic_id: Some(63),
        },
        system: System::Installed(Distribution::Debian, BootLoader::Grub),
        gpus: vec![gpu(0, GPU), gpu(1, OTHER)],
        peers: Peers {
            pairs: vec![(GPU, OTHER)],
            none: None,
        },
        passed: Vec::new(),
        mainboard: None,
        lockdown: None,
    }
}

/// The same with this kernel command line.
fn with_words(line: &str) -> Host {
    let bare = x86();
    let words = line.split_whitespace().map(str::to_owned).collect();
    Host {
        kernel: KernelVersion {
            words,
            ..bare.kernel
        },
        ..bare
    }
}

fn kernel(release: &str, version: (u32, u32), own: bool) -> KernelVersion {
    KernelVersion {
        release: Some(release.to_owned()),
        version: Some(version),
        own,
        words: Vec::new(),
    }
}

const fn gpu(number: usize, bdf: Bdf) -> HostGpu {
    HostGpu {
        bdf,
        number: GpuId::new(number),
        model: None,
        memory_bytes: Some(Known {
            value: 24 << 30,
            source: MemorySource::Boards,
        }),
        geforce: Some(true),
        integrated: false,
        own_link: false,
        passed_by: None,
        hot_plug: None,
        clique: None,
        slot: None,
    }
}
