//! What NVIDIA's driver can be expected to report about a pair of GPUs, and why, from what is known before any GPU
//! is tried: chips, driver, registry keys, processor, bridges. Based on p2p_caps.c of NVIDIA's open modules (550 to
//! 595) and on public forum threads. Cases that these do not cover are predicted as unknown. Pure.

use crate::gpu::Status;
use crate::machine::host::cpu::CpuModel;
use crate::machine::host::nvidia::chip::{Chip, Family};
use crate::machine::host::nvidia::keys::{ForceP2p, RegistryKeys, RequestedMechanism, StaticMap};
use crate::outcome::finding::Refusal;
use std::fmt;

/// From this version on, the driver has page entries for peers through BAR1 on Blackwell, and on Ada with our changes.
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
    /// No peer access, with NVML's status for it and the kind of reason.
    Refused(Status, Refusal),
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
            Self::Refused(status, _) => write!(f, "none, {status}"),
            Self::Claimed => f.write_str("claims without delivery"),
            Self::NotApplicable => f.write_str("not applicable"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// What is expected and why, in one line.
pub(super) type Prediction = (Expected, String);

/// The prediction for a pair.
pub(super) fn predict(pair: &PairFacts<'_>) -> Prediction {
    if pair.nvlinks > 0 {
        return (Expected::Access, format!("{} NVLinks join the GPUs", pair.nvlinks));
    }
    let Some(Driver { version, changed, keys }) = pair.driver else {
        return (Expected::Unknown, "the driver's version or keys are unknown".to_owned());
    };
    let [a, b] = pair.gpus;
    let (Some(one), Some(other)) = (a.chip, b.chip) else {
        return (Expected::Unknown, "the chip of a GPU is unknown".to_owned());
    };
    if one.family != other.family {
        let why = format!(
            "the boards are of two generations ({} {} and {} {}), between which NVIDIA's libcuda gives no peer access",
            one.family, one.name, other.family, other.name
        );
        return (Expected::NotApplicable, why);
    }
    let forced = keys.read == ForceP2p::On && keys.write == ForceP2p::On;
    if keys.read == ForceP2p::Off || keys.write == ForceP2p::Off {
        let why = "the registry key ForceP2P forbids peer access".to_owned();
        return (Expected::Refused(Status::Disabled, Refusal::RegistryKey), why);
    }
    if one.name != other.name && !forced {
        let why = format!("the chips differ ({} and {}), and ForceP2P is not set", one.name, other.name);
        return (Expected::Refused(Status::NotSupported, Refusal::Models), why);
    }
    if !(a.geforce && b.geforce) {
        return professional(pair, keys);
    }
    let ours = changed == Some(true);
    if !forced {
        return (Expected::Refused(Status::Chipset, Refusal::Other), stock());
    }
    // From here on the driver claims peers, whether or not they work.
    if let RequestedMechanism::Other(key, value) = keys.through {
        let why = format!(
            "{key}={value} does not mean BAR1 in driver {version}, so only mailboxes are left, which a GeForce does not have"
        );
        return claimed(ours && version < OLD_PEERS, why);
    }
    match one.family {
        Family::Ada if changed.is_none() => {
            return (Expected::Unknown, "the patch level of the driver's module is unknown".to_owned());
        }
        Family::Ada if !ours => {
            return claimed(
                false,
                "NVIDIA's own module has no peer-to-peer through BAR1 for Ada, and ForceP2P makes it claim peers"
                    .to_owned(),
            );
        }
        Family::Ada if !(OLD_PEERS..NEW_PEERS).contains(&version) => {}
        Family::Blackwell if version >= NEW_PEERS => {}
        Family::Ada | Family::Blackwell => {
            return claimed(
                ours,
                format!("driver {version} has no page entries for peers through BAR1; {NEW_PEERS} has"),
            );
        }
        Family::Turing | Family::Ampere | Family::Hopper => {
            let why = format!("no driver has peer-to-peer through BAR1 for GeForce boards of {}", one.family);
            return claimed(false, why);
        }
    }
    if keys.through != RequestedMechanism::Bar1 {
        let key = if version >= NEW_PEERS { "RMPcieP2PType=1" } else { "RMForceP2PType=2" };
        return claimed_by(
            Refusal::RegistryKey,
            ours && version < OLD_PEERS,
            format!("the registry key {key} is not set, so only mailboxes are left, which a GeForce does not have"),
        );
    }
    static_map([a, b], keys, ours).unwrap_or_else(|| {
        let why = "through BAR1: driver, keys and static maps are as they must be".to_owned();
        (Expected::Access, why)
    })
}

/// A claim of peer access that would not deliver data: with our changes, the driver refuses access instead.
fn claimed(ours: bool, why: String) -> Prediction {
    claimed_by(Refusal::Other, ours, why)
}

fn claimed_by(refusal: Refusal, ours: bool, why: String) -> Prediction {
    if ours { (Expected::Refused(Status::NotSupported, refusal), why) } else { (Expected::Claimed, why) }
}

fn stock() -> String {
    "a driver without the key ForceP2P offers no PCIe peer access between GeForce boards".to_owned()
}

/// The prediction unless both GPUs have their memory in BAR1; `None` if they have.
fn static_map(gpus: [GpuFacts; 2], keys: RegistryKeys, ours: bool) -> Option<Prediction> {
    if keys.static_map == StaticMap::Off {
        return Some(claimed(ours, "RMForceStaticBar1=0 forbids the static map of BAR1".to_owned()));
    }
    if gpus.iter().any(|gpu| gpu.mapped == Some(false)) {
        return Some(claimed(
            ours,
            "NVML counts too little of a GPU's BAR1 as mapped; see the test bar1-static".to_owned(),
        ));
    }
    let known = gpus.iter().all(|gpu| gpu.mapped == Some(true));
    (!known).then(|| (Expected::Unknown, "NVML does not report whether BAR1 is mapped".to_owned()))
}

/// Boards with their own mechanism: firmware and host decide about access.
fn professional(pair: &PairFacts<'_>, keys: RegistryKeys) -> Prediction {
    if keys.through != RequestedMechanism::Bar1 || keys.read == ForceP2p::On {
        return (Expected::Unknown, "the firmware of these boards decides".to_owned());
    }
    if pair.switch {
        return (Expected::Access, "through BAR1: a PCIe switch is above both".to_owned());
    }
    match pair.host {
        None => (Expected::Unknown, "through BAR1, and the processor's model is unknown".to_owned()),
        Some(host) if trusted(host) => {
            (Expected::Access, "through BAR1: NVIDIA's driver trusts this processor's root complex".to_owned())
        }
        Some(host) => {
            let why = format!(
                "through BAR1 NVIDIA's driver trusts AMD Zen, Intel Sapphire Rapids, or a switch above both; this is {} family {} model {}",
                host.vendor, host.family, host.model
            );
            (Expected::Refused(Status::Chipset, Refusal::Other), why)
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
