//! The PCIe fabric in a boot: IOMMU, ACS and BARs of QEMU's own ports and of a fake PCI domain.

mod isolation;
mod rebar;
mod unusual;
