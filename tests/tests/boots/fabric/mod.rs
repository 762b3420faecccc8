//! The PCIe fabric in a boot: IOMMU, ACS and BARs of QEMU's own ports and of a fake PCI domain.

mod acs;
mod broken;
mod domains;
mod iommu_stays_off;
mod rebar;
mod rebar_left;
mod switch_acs;
