//! The host below the driver: kernel command line, image, IOMMU, processors, GPUs on the bus, display.

pub(super) mod cmdline;
pub(super) mod cpus;
pub(super) mod display;
pub(super) mod gpus;
pub(super) mod image;
pub(super) mod iommu;
