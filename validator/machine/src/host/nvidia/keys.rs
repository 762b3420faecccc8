//! The registry keys of NVIDIA's module that control peer-to-peer over PCIe, with their meaning in the loaded
//! version (nvrm_registry.h of NVIDIA's open modules). Pure.

use std::collections::BTreeMap;

/// From this version on `RMForceP2PType` no longer chooses BAR1: 2 is NVLink, and `RMPcieP2PType` chooses instead.
const NEW_TYPES: u32 = 575;

/// The setting of `ForceP2P` for reads or for writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceP2p {
    /// Peer access is refused.
    Off,
    /// Peer access is reported without checking host and GPU.
    On,
    /// The driver decides.
    Unset,
}

/// The setting of `RMForceStaticBar1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaticMap {
    /// No static map.
    Off,
    /// All memory that programs can use is mapped; if that fails, the GPU is not started.
    Forced,
    /// The map is made if all of the memory and what the driver maps in addition fit.
    Auto,
}

/// The mechanism for peers over PCIe that the keys request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedMechanism {
    /// RequestedMechanism BAR1.
    Bar1,
    /// No key asks for BAR1.
    Unset,
    /// A key asks for another mechanism, and BAR1 is refused: the key and its value.
    Other(&'static str, u32),
}

/// The registry keys in force that control peer-to-peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryKeys {
    /// Reads of a peer's memory.
    pub read: ForceP2p,
    /// Writes to a peer's memory.
    pub write: ForceP2p,
    /// The static map of BAR1.
    pub static_map: StaticMap,
    /// The requested mechanism.
    pub through: RequestedMechanism,
}

/// The number before the first dot of `580.95.05`.
#[must_use]
pub fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

impl RegistryKeys {
    /// The keys of a module of this `version` whose parameter `RegistryDwords` is `dwords`: `a=1;b=0x2`.
    #[must_use]
    pub fn of(version: u32, dwords: &str) -> Self {
        let all = parse(dwords);
        let value = |name: &str| all.get(name).copied();
        let force = value("ForceP2P");
        let new = version >= NEW_TYPES;
        let through = match (value("RMForceP2PType"), value("RMPcieP2PType")) {
            (Some(2), _) if !new => RequestedMechanism::Bar1,
            (Some(other @ 1..), _) if !new => RequestedMechanism::Other("RMForceP2PType", other),
            // 1 is any mechanism over PCIe.
            (Some(other @ 2..), _) if new => RequestedMechanism::Other("RMForceP2PType", other),
            (_, Some(1 | 2)) if new => RequestedMechanism::Bar1,
            _ => RequestedMechanism::Unset,
        };
        Self {
            read: part(force, 0),
            write: part(force, 4),
            static_map: match value("RMForceStaticBar1") {
                Some(0) => StaticMap::Off,
                Some(1) => StaticMap::Forced,
                _ => StaticMap::Auto,
            },
            through,
        }
    }

    /// True if the keys ask for peer-to-peer through BAR1, which needs the static map.
    #[must_use]
    pub fn ask_for_bar1(&self) -> bool {
        self.static_map == StaticMap::Forced || self.through == RequestedMechanism::Bar1
    }
}

/// Two bits of `ForceP2P`.
const fn part(force: Option<u32>, shift: u32) -> ForceP2p {
    match force {
        Some(value) if (value >> shift) & 3 == 0 => ForceP2p::Off,
        Some(value) if (value >> shift) & 3 == 1 => ForceP2p::On,
        _ => ForceP2p::Unset,
    }
}

fn parse(dwords: &str) -> BTreeMap<&str, u32> {
    let pairs = dwords.split(';').filter_map(|pair| pair.split_once('='));
    let number = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    pairs
        .filter_map(|(name, value)| Some((name.trim(), number(value.trim())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_meaning_of_its_version() {
        let both = "ForceP2P=17;RMForceP2PType=2;RMForceStaticBar1=1";
        let old = RegistryKeys::of(555, both);
        assert_eq!((old.read, old.write), (ForceP2p::On, ForceP2p::On));
        assert_eq!(
            (old.through, old.static_map),
            (RequestedMechanism::Bar1, StaticMap::Forced)
        );
        assert_eq!(
            RegistryKeys::of(570, both).through,
            RequestedMechanism::Bar1
        );
        for version in [575, 580, 590, 595] {
            assert_eq!(
                RegistryKeys::of(version, both).through,
                RequestedMechanism::Other("RMForceP2PType", 2),
                "{version}"
            );
            assert_eq!(
                RegistryKeys::of(version, "RMPcieP2PType=1").through,
                RequestedMechanism::Bar1
            );
        }
        assert_eq!(
            RegistryKeys::of(570, "RMPcieP2PType=1").through,
            RequestedMechanism::Unset,
            "570 does not know this key"
        );
    }

    #[test]
    fn no_key_leaves_the_decision_to_the_driver() {
        let none = RegistryKeys::of(580, "");
        assert_eq!(
            (none.read, none.write, none.through),
            (ForceP2p::Unset, ForceP2p::Unset, RequestedMechanism::Unset)
        );
        assert!(!none.ask_for_bar1() && none.static_map == StaticMap::Auto);
        assert_eq!(RegistryKeys::of(580, "ForceP2P=0x22").read, ForceP2p::Unset);
        let off = RegistryKeys::of(580, " ForceP2P = 0x0 ; RMForceStaticBar1=0;nonsense;x=y");
        assert_eq!(
            (off.read, off.write, off.static_map),
            (ForceP2p::Off, ForceP2p::Off, StaticMap::Off)
        );
    }

    #[test]
    fn a_version_has_a_first_number() {
        assert_eq!(major("580.95.05"), Some(580));
        assert_eq!(major("x"), None);
    }
}
