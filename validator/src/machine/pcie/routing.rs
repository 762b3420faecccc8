//! What decides at a function how peer traffic is routed, besides its ACS control register; and what its
//! registers leave open.

use serde::{Deserialize, Serialize};

/// What else decides how peer traffic is routed at a function (PCI Express Base Specification, 6.12).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    /// Its Port Number (Link Capabilities, bits 31:24), by which an Egress Control Vector means it; of
    /// ports only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_number: Option<u8>,
    /// Address Translation Services are switched on: it may send requests that are translated already.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ats: bool,
    /// Of the root ports of Intel's older chipsets, which isolate without an ACS capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pch: Option<Pch>,
}

/// An Intel chipset's root port of the years before 2015.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pch {
    /// Linux has not isolated it.
    Open,
    /// Linux has switched its isolation on (`IRBNCE`, which it sets together with that).
    Isolated,
}

/// What registers cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Untold {
    /// What part of the fabric the function is, and its link.
    PortType,
    /// Whether it has Access Control Services, and what they are set to.
    Acs,
    /// Whether it has Resizable BARs, and which.
    Rebar,
}

impl Routing {
    /// True when there is nothing to tell.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
