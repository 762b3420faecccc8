//! The PCIe fabric: whether it could be read, ACS, BAR1 and links.

pub(super) mod acs;
pub(super) mod bar1;
pub(super) mod inventory;
pub(super) mod links;
