//! Registers besides ACS control that determine how a function routes peer traffic, and what its registers
//! leave unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Other routing registers of a function (PCI Express Base Specification, 6.12).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Routing {
    /// Its Port Number (Link Capabilities, bits 31:24), which an Egress Control Vector refers to; only for
    /// ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_number: Option<u8>,
    /// Whether Address Translation Services are on: it may then send translated requests.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ats: bool,
    /// For root ports of Intel's older chipsets, which isolate without an ACS capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pch: Option<Pch>,
}

/// An Intel chipset's root port of the years before 2015.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pch {
    /// Linux has not isolated it.
    Open,
    /// Linux has enabled its isolation (`IRBNCE`, which it sets together with it).
    Isolated,
}

/// What the registers leave unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Undetermined {
    /// The role of the function, and its link.
    PortType,
    /// Whether it has Access Control Services, and their settings.
    Acs,
    /// Whether it has Resizable BARs, and which.
    Rebar,
}

impl Routing {
    /// True if there is nothing to report.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

// The bits of the ACS Control register (include/uapi/linux/pci_regs.h).

/// Control bits from bit 0 up.
const NAMES: [&str; 7] = ["SV", "TB", "RR", "CR", "UF", "EC", "DT"];
/// Request redirect, completion redirect, egress control: what `pci=disable_acs_redir=` clears.
pub const REDIRECT: u16 = 0x04 | 0x08 | EGRESS;
/// Egress control.
pub const EGRESS: u16 = 0x20;

/// The names of the bits that are set.
#[must_use]
pub fn acs_names(ctrl: u16) -> Vec<String> {
    let set = |n: &usize| ctrl >> n & 1 == 1;
    (0..)
        .zip(NAMES)
        .filter(|(n, _)| set(n))
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_standard_enable_is_named_bit_by_bit() {
        assert_eq!(acs_names(0x001d), ["SV", "RR", "CR", "UF"]);
        assert_eq!(acs_names(0x007f), NAMES);
        assert_eq!(acs_names(0x0000), Vec::<String>::new());
    }
}
