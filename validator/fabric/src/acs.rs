//! Access Control Services: the meaning of the bits, the state of a port, and the findings about it. Redirect
//! and egress control divert peer traffic; the other bits only check it. `turn` determines where paths turn,
//! which is where traffic is diverted.

use super::turn::{Effect, Turns};
use machine::pcie::model::{Acs, Bdf, Device, Fabric, Kind, Undetermined};
use machine::pcie::tree::Tree;
use outcome::finding::{Code, Finding, Reason, Severity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Which ports the fabric pass may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AcsPolicy {
    /// Ports on the path between two GPUs or between a GPU and a NIC.
    Path,
    /// Every function that has the capability.
    All,
    /// No port.
    Off,
}

impl AcsPolicy {
    /// Each word with its value.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("path", Self::Path), ("all", Self::All), ("off", Self::Off)];
}

impl fmt::Display for AcsPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path => "path",
            Self::All => "all",
            Self::Off => "off",
        })
    }
}

/// A word that is not an ACS policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an ACS policy; allowed are path, all, off")]
pub struct InvalidPolicy(pub String);

impl FromStr for AcsPolicy {
    type Err = InvalidPolicy;

    fn from_str(s: &str) -> Result<Self, InvalidPolicy> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == s);
        found
            .map(|(_, policy)| *policy)
            .ok_or_else(|| InvalidPolicy(s.to_owned()))
    }
}

/// The state of a function's ACS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcsState<'a> {
    /// It has no such capability: it redirects nothing.
    Absent,
    /// It has the capability, with a valid control register.
    Known(&'a Acs),
    /// Its extended configuration space cannot be read.
    NoEcam,
    /// Its configuration space cannot be read or is invalid.
    Unknown,
}

/// The ACS state of `device`.
#[must_use]
pub fn state(device: &Device) -> AcsState<'_> {
    let config = &device.config;
    match &device.acs {
        _ if config.gone || config.bytes < machine::pcie::config_space::CONVENTIONAL_BYTES => {
            AcsState::Unknown
        }
        Some(acs) => AcsState::Known(acs),
        None if config.undetermined.contains(&Undetermined::Acs) => AcsState::Unknown,
        None if is_port(device.kind)
            && config.bytes == machine::pcie::config_space::CONVENTIONAL_BYTES =>
        {
            AcsState::NoEcam
        }
        None => AcsState::Absent,
    }
}

/// True for ports of the root complex and of switches, which are the ports that have ACS.
fn is_port(kind: Kind) -> bool {
    matches!(kind, Kind::RootPort | Kind::Upstream | Kind::Downstream)
}

/// Every port on a path between peers, sorted.
#[must_use]
pub fn ports_on_paths<F>(fabric: &Fabric<F>) -> BTreeSet<Bdf> {
    fabric
        .peer_paths()
        .flat_map(|p| p.ports.iter().copied())
        .collect()
}

/// Findings on GPU paths: ports that redirect, and ports whose ACS state is unknown.
#[must_use]
pub fn judge(fabric: &Fabric) -> Vec<Finding> {
    let turns = Turns::of(fabric);
    let ports = fabric.devices.iter().filter(|d| turns.contains(d.bdf));
    ports
        .filter_map(|port| judge_port(&turns, port))
        .chain(unread(fabric))
        .collect()
}

/// Bridges above the ends of GPU paths that were not read: the bridges above them are unknown.
#[must_use]
pub fn unread(fabric: &Fabric) -> Vec<Finding> {
    let tree = Tree::of(fabric);
    let ends = fabric.peer_paths().flat_map(|p| [p.a, p.b]);
    let ports: BTreeSet<Bdf> = ends.filter_map(|end| tree.unread(end)).collect();
    ports
        .iter()
        .map(|port| state_unknown(port, "it is not in /sys/bus/pci/devices"))
        .collect()
}

/// One port at which GPU paths turn.
#[must_use]
pub fn judge_port(turns: &Turns, port: &Device) -> Option<Finding> {
    match state(port) {
        AcsState::Known(acs) => match turns.effect(port.bdf, acs) {
            Effect::Direct => None,
            Effect::TranslatedPass => Some(translated(port, acs)),
            Effect::Redirects if acs.quirk => Some(quirk(port, acs, Severity::Fail)),
            Effect::Redirects => Some(redirects(port, acs)),
        },
        AcsState::Absent => turns.isolates(port).then(|| isolated(port)),
        AcsState::NoEcam => Some(no_ecam(port, Severity::Fail)),
        AcsState::Unknown => Some(unknown(port)),
    }
}

/// Request redirect together with direct translated: set on purpose for devices that translate addresses themselves.
pub fn translated(port: &Device, acs: &Acs) -> Finding {
    let bits = acs.enabled.join(" ");
    let message = format!(
        "{} redirects only untranslated requests: ACS control is {:#06x} ({bits}), and ATS is on at all senders",
        port.bdf, acs.ctrl
    );
    Code::AcsRedirect
        .finding(Severity::Info, port.bdf, message)
        .values(acs.ctrl, acs.ctrl, None)
        .because(Reason::SendersTranslate)
}

/// Linux shows in configuration space that it isolated the port; the registers that isolate it are elsewhere.
fn isolated(port: &Device) -> Finding {
    let bdf = port.bdf;
    let message = format!(
        "{bdf} is a port of an older Intel chipset that Linux isolates from the chipset's other ports"
    );
    Code::AcsQuirk
        .finding(Severity::Warn, bdf, message)
        .seen(format!("{bdf} register 0xd8: bit 26 (IRBNCE) is set"))
        .because(Reason::IsolatedByLinux)
}

/// A port that is never written: a fault if it redirects on a GPU path.
pub fn quirk(port: &Device, acs: &Acs, severity: Severity) -> Finding {
    let (bdf, ctrl) = (port.bdf, acs.ctrl);
    let message = format!(
        "{bdf} is an Intel chipset port with 32-bit ACS registers: its control {ctrl:#06x} is not written, expected 0x0000"
    );
    Code::AcsQuirk
        .finding(severity, bdf, message)
        .values(ctrl, 0, None)
        .seen(format!(
            "{bdf} ACS capability at {:#05x}, control at +8 {ctrl:#06x}",
            acs.offset
        ))
}

fn redirects(port: &Device, acs: &Acs) -> Finding {
    let bits = acs.enabled.join(" ");
    let message = format!(
        "{} redirects peer traffic: ACS control is {:#06x} ({bits}), expected 0x0000",
        port.bdf, acs.ctrl
    );
    Code::AcsRedirect
        .finding(Severity::Fail, port.bdf, message)
        .values(acs.ctrl, 0, None)
        .seen(format!(
            "{} ACS capability at {:#05x}, control {:#06x}",
            port.bdf, acs.offset, acs.ctrl
        ))
}

/// A port without extended configuration space: on a GPU path it cannot be shown that ACS is off.
pub fn no_ecam(port: &Device, severity: Severity) -> Finding {
    let bytes = port.config.bytes;
    let message = format!(
        "{} shows {bytes} bytes of configuration space, expected 4096: its ACS state is unknown",
        port.bdf
    );
    Code::NoEcam
        .finding(severity, port.bdf, message)
        .values(bytes, 4096, Some("bytes"))
}

fn unknown(port: &Device) -> Finding {
    let why = match &port.config {
        c if c.gone => "it does not answer (every register reads as all ones)".to_owned(),
        c if c.faults.is_empty() => format!(
            "only {} bytes of configuration space could be read",
            c.bytes
        ),
        c => c.faults.join("; "),
    };
    state_unknown(&port.bdf, &why)
}

fn state_unknown(port: &Bdf, why: &str) -> Finding {
    let message = format!("{port} is on a GPU path and its ACS state is unknown: {why}");
    Code::AcsUnknown.finding(Severity::Error, port, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::sample::{fabric, two_gpus, with_acs};

    #[test]
    fn only_bits_that_redirect_traffic_are_findings() {
        let judged = |ctrl| {
            let mut devices = two_gpus();
            devices[0] = with_acs(devices[0].clone(), ctrl);
            !judge(&fabric(devices)).is_empty()
        };
        for (bit, harmful) in [
            (0x01, false),
            (0x02, false),
            (0x04, true),
            (0x08, true),
            (0x10, false),
            (0x20, true),
            (0x40, false),
        ] {
            assert_eq!(judged(bit), harmful, "{bit:#x}");
        }
    }

    #[test]
    fn a_port_is_unknown_only_if_its_own_acs_is() {
        let judged = |change: fn(&mut Device)| {
            let mut devices = two_gpus();
            (devices[0].acs, devices[1].acs) = (None, None);
            change(&mut devices[0]);
            judge(&fabric(devices))
                .into_iter()
                .map(|f| f.code)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            judged(|port| port.config.faults.push("resizable BAR's index".into())),
            [] as [Code; 0]
        );
        assert_eq!(
            judged(
                |port| port.config.undetermined = vec![Undetermined::Rebar, Undetermined::PortType]
            ),
            [] as [Code; 0]
        );
        assert_eq!(
            judged(|port| port.config.undetermined = vec![Undetermined::Acs]),
            [Code::AcsUnknown]
        );
    }

    #[test]
    fn a_policy_is_one_of_three_words() {
        for policy in [AcsPolicy::Path, AcsPolicy::All, AcsPolicy::Off] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let bad = "on".parse::<AcsPolicy>().unwrap_err();
        assert_eq!(
            bad.to_string(),
            "'on' is not an ACS policy; allowed are path, all, off"
        );
    }
}
