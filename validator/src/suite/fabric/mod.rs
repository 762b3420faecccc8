//! The PCIe fabric: whether it could be read, ACS, BAR1 and links.

pub(super) mod acs;
pub(super) mod bar1;
pub(super) mod bar1_static;
#[expect(clippy::module_inception, reason = "a test's file has the test's id")]
pub(super) mod fabric;
pub(super) mod links;
