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
pub enum Untold {
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
