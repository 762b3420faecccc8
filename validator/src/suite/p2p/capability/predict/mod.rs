//! What NVIDIA's driver can be expected to report about a pair of GPUs, and why, from what is known before any GPU
//! is tried: chips, driver, registry keys, processor, bridges. Based on p2p_caps.c of NVIDIA's open modules (550 to
//! 595) and on public forum threads. Cases that these do not cover are predicted as unknown. Pure.

use crate::suite::fabric::bar1::MapObstruction;
use gpu::Status;
use machine::host::cpu::CpuModel;
use machine::host::nvidia::chip::{self, Chip, Family};
use machine::host::nvidia::keys::{ForceP2p, RegistryKeys, RequestedMechanism, StaticMap};
use outcome::finding::Refusal;
use std::fmt;

/// From this version on, the driver has page entries for peers through BAR1 on Blackwell, and on Ada and Ampere with our
/// changes.
const NEW_PEERS: u32 = 580;
/// Our patches for versions before this one add the same for Ada, and refuse peer access that would not deliver data.
const OLD_PEERS: u32 = 575;

/// What is known about one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GpuFacts {
    /// Its chip; `None` if its device id is not known.
    pub(super) chip: Option<Chip>,
    /// Whether it is a GeForce, which has no mailboxes.
    pub(super) geforce: bool,
    /// Whether NVML counts all of its memory as mapped into BAR1; `None` if it does not answer.
    pub(super) mapped: Option<bool>,
    /// What keeps peers from using the driver's map of its memory in BAR1, as far as it can be computed.
    pub(super) obstruction: Option<MapObstruction>,
    /// The clique that a hypervisor gave it.
    pub(super) clique: Option<u8>,
}

/// What is known about the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Driver {
    /// The first number of its version.
    pub(super) version: u32,
    /// Whether it has firstlight's changes; `None` if that is unknown.
    pub(super) changed: Option<bool>,
    /// The registry keys in force.
    pub(super) keys: RegistryKeys,
}

/// What is known about a pair of GPUs.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairFacts<'a> {
    /// Both GPUs.
    pub(super) gpus: [GpuFacts; 2],
    /// How many NVLinks join them.
    pub(super) nvlinks: u32,
    /// Whether a PCIe switch is above both, below the root port.
    pub(super) switch: bool,
    /// The driver; `None` if its version or keys are unknown.
    pub(super) driver: Option<Driver>,
    /// The processor's model, where known.
    pub(super) host: Option<&'a CpuModel>,
}

/// What is expected of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Peer access works.
    Access,
    /// No peer access, with the status, or the possible statuses, that NVML gives for it.
    Refused(&'static [Status]),
    /// The driver claims peer access, but no data arrives.
    Claimed,
    /// No peer access between such boards, on any machine.
    NotApplicable,
    /// Nothing can be predicted.
    Unknown,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access => f.write_str("access"),
            Self::Refused(possible) => {
                let names: Vec<_> = possible.iter().map(ToString::to_string).collect();
                write!(f, "none, {}", names.join(" or "))
            }
            Self::Claimed => f.write_str("claims without delivery"),
            Self::NotApplicable => f.write_str("not applicable"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl Expected {
    /// The kind of a refusal.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            DISABLED => Refusal::RegistryKey,
            CHIPSET_OR_GPU => Refusal::StockDriver,
            _ => Refusal::Other,
        }
    }
}

const DISABLED: Expected = Expected::Refused(&[Status::Disabled]);
const NOT_SUPPORTED: Expected = Expected::Refused(&[Status::NotSupported]);
const CHIPSET: Expected = Expected::Refused(&[Status::Chipset]);
/// The firmware tests the host first: where it trusts the host, the board is the reason.
const CHIPSET_OR_GPU: Expected = Expected::Refused(&[Status::Chipset, Status::Gpu]);

/// What is expected and why, in one line.
pub(super) type Prediction = (Expected, String);

/// The prediction for a pair.
pub(super) fn predict(pair: &PairFacts<'_>) -> Prediction {
    if pair.nvlinks > 0 {
        return (
            Expected::Access,
            format!("{} NVLinks join the GPUs", pair.nvlinks),
        );
    }
    let [a, b] = pair.gpus;
    if let Some((one, other)) = chip::of_two_generations(a.chip, b.chip) {
        let why = format!(
            "the boards are of two generations ({} {} and {} {}), between which NVIDIA's libcuda gives no peer access",
            one.family, one.name, other.family, other.name
        );
        return (Expected::NotApplicable, why);
    }
    let off = |keys: RegistryKeys| keys.read == ForceP2p::Off || keys.write == ForceP2p::Off;
    if pair.driver.is_some_and(|driver| off(driver.keys)) {
        return (
            DISABLED,
            "the registry key ForceP2P forbids peer access".to_owned(),
        );
    }
    if let Some(clique) = a.clique.filter(|clique| b.clique == Some(*clique)) {
        let why = format!(
            "the hypervisor put both GPUs into peer-to-peer clique {clique}, and NVIDIA's driver gives access within a clique"
        );
        return (Expected::Access, why);
    }
    let Some(Driver {
        version,
        changed,
        keys,
    }) = pair.driver
    else {
        return (
            Expected::Unknown,
            "the driver's version or keys are unknown".to_owned(),
        );
    };
    let Some((one, other)) = a.chip.zip(b.chip) else {
        return (Expected::Unknown, "the chip of a GPU is unknown".to_owned());
    };
    let forced = keys.read == ForceP2p::On && keys.write == ForceP2p::On;
    if one.name != other.name && !forced {
        let why = format!(
            "the chips differ ({} and {}), and ForceP2P is not set",
            one.name, other.name
        );
        return (NOT_SUPPORTED, why);
    }
    if !(a.geforce && b.geforce) {
        return professional(pair, keys);
    }
    let ours = changed == Some(true);
    if !forced {
        return (CHIPSET_OR_GPU, stock());
    }
    // The driver is forced to report peer access here, even where it does not work. Nothing tells a module of others from NVIDIA's own,
    // and need not obey the keys below.
    let whose = |boards: String| (Expected::Unknown, others_decide(&boards, one.family));
    match one.family {
        Family::Ada if changed.is_none() => {
            return (
                Expected::Unknown,
                "the patch level of the driver's module is unknown".to_owned(),
            );
        }
        Family::Ada if !ours => return whose(format!("GeForce boards of {}", one.family)),
        Family::Turing | Family::Hopper => {
            return whose(format!("GeForce boards of {}", one.family));
        }
        // Our changes for Ampere are in modules of 580 and newer whose description names the family, which a module does not tell.
        // Where they were left out, the module refuses peers.
        Family::Ampere if !ours || version < NEW_PEERS => {
            return whose(format!("GeForce boards of {}", one.family));
        }
        Family::Blackwell if !ours && version < NEW_PEERS => {
            return whose(format!(
                "GeForce boards of {} before version {NEW_PEERS}",
                one.family
            ));
        }
        Family::Ampere | Family::Ada | Family::Blackwell => {}
    }
    if let RequestedMechanism::Other(key, value) = keys.through {
        let why = format!(
            "{key}={value} does not mean BAR1 in driver {version}, so only mailboxes are left, which a GeForce does not have"
        );
        return claimed(ours && version < OLD_PEERS, why);
    }
    let has_entries = match one.family {
        Family::Ada => !(OLD_PEERS..NEW_PEERS).contains(&version),
        _ => version >= NEW_PEERS,
    };
    if !has_entries {
        return claimed(
            ours,
            format!("driver {version} has no page entries for peers through BAR1; {NEW_PEERS} has"),
        );
    }
    if keys.through != RequestedMechanism::Bar1 {
        let key = if version >= NEW_PEERS {
            "RMPcieP2PType=1"
        } else {
            "RMForceP2PType=2"
        };
        return claimed(
            ours && version < OLD_PEERS,
            format!(
                "the registry key {key} is not set, so only mailboxes are left, which a GeForce does not have"
            ),
        );
    }
    static_map([a, b], keys, ours).unwrap_or_else(|| {
        let why = "through BAR1: driver, keys and static maps are as they must be".to_owned();
        (Expected::Access, why)
    })
}

/// A claim of peer access that would not deliver data: with our changes, the driver refuses access instead.
fn claimed(ours: bool, why: String) -> Prediction {
    if ours {
        (NOT_SUPPORTED, why)
    } else {
        (Expected::Claimed, why)
    }
}

fn stock() -> String {
    "without the key ForceP2P, NVIDIA's own driver offers no PCIe peer access between GeForce boards".to_owned()
}

/// For boards for which only modules of others have peers through BAR1.
fn others_decide(boards: &str, family: Family) -> String {
    let ours = match family {
        Family::Ampere => {
            format!(", and firstlight's from {NEW_PEERS} on in an image for ampere-geforce")
        }
        _ => String::new(),
    };
    format!(
        "NVIDIA's own module has no peer-to-peer through BAR1 for {boards}, and ForceP2P makes it claim peers; modules of \
         others have it{ours}: the measured tests decide whether data arrives"
    )
}

/// The prediction unless both GPUs have their memory in BAR1; `None` if they have.
fn static_map(gpus: [GpuFacts; 2], keys: RegistryKeys, ours: bool) -> Option<Prediction> {
    if keys.static_map == StaticMap::Off {
        return Some(claimed(
            ours,
            "RMForceStaticBar1=0 forbids the static map of BAR1".to_owned(),
        ));
    }
    let unmapped = gpus.iter().any(|gpu| gpu.mapped == Some(false));
    // A map that is there is not short of room, but may begin at the wrong address.
    let obstructed = gpus.iter().find_map(|gpu| match gpu.obstruction? {
        MapObstruction::Short { .. } if gpu.mapped == Some(true) => None,
        obstruction => Some(obstruction),
    });
    if let Some(obstruction) = obstructed {
        let counted = if unmapped {
            "; NVML counts too little of BAR1 as mapped"
        } else {
            ""
        };
        return Some(claimed(
            ours,
            format!("{}{counted}; see the test bar1", obstructed_by(obstruction)),
        ));
    }
    if unmapped {
        return Some(claimed(
            ours,
            "NVML counts too little of a GPU's BAR1 as mapped; see the test bar1-static".to_owned(),
        ));
    }
    let known = gpus.iter().all(|gpu| gpu.mapped == Some(true));
    (!known).then(|| {
        (
            Expected::Unknown,
            "NVML does not report whether BAR1 is mapped".to_owned(),
        )
    })
}

/// What keeps peers from using a GPU's map, in words.
fn obstructed_by(obstruction: MapObstruction) -> String {
    match obstruction {
        MapObstruction::Short { missing, console } => {
            let console = if console {
                ", because a console takes its first 512 MiB"
            } else {
                ""
            };
            format!(
                "BAR1 of a GPU is at least {missing} MiB too small for the driver's map of all memory{console}"
            )
        }
        MapObstruction::Misaligned { console } => {
            let what = if console {
                "a console"
            } else {
                "the driver's mailboxes"
            };
            format!(
                "{what} at the start of BAR1 of a GPU moves the driver's map of all memory away from a multiple of 512 MiB, \
                 and the driver maps peers nowhere else before version {NEW_PEERS}"
            )
        }
    }
}

/// Boards with their own mechanism: firmware and host decide about access.
fn professional(pair: &PairFacts<'_>, keys: RegistryKeys) -> Prediction {
    if keys.through != RequestedMechanism::Bar1 || keys.read == ForceP2p::On {
        return (
            Expected::Unknown,
            "the firmware of these boards decides".to_owned(),
        );
    }
    if pair.switch {
        return (
            Expected::Access,
            "through BAR1: a PCIe switch is above both".to_owned(),
        );
    }
    match pair.host {
        None => (
            Expected::Unknown,
            "through BAR1, and the processor's model is unknown".to_owned(),
        ),
        Some(host) if trusted(host) => (
            Expected::Access,
            "through BAR1: NVIDIA's driver trusts this processor's root complex".to_owned(),
        ),
        Some(host) => {
            let why = format!(
                "through BAR1 NVIDIA's driver trusts AMD Zen, Intel Sapphire Rapids, or a switch above both; this is {} family {} model {}",
                host.vendor, host.family, host.model
            );
            (CHIPSET, why)
        }
    }
}

/// AMD's families from Zen (0x17) on, and Intel's model 143.
fn trusted(host: &CpuModel) -> bool {
    match host.vendor.as_str() {
        "AuthenticAMD" => host.family >= 0x17,
        "GenuineIntel" => host.family == 6 && host.model == 143,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
