//! The PCIe fabric in a boot: IOMMU, ACS and BARs of QEMU's own ports and of a fake PCI domain.

mod acs;
mod iommu_stays_off;
mod rebar;
mod rebar_left;
mod unusual;
