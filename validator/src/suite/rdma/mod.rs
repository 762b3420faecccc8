//! Network cards that exchange data with GPUs (GPUDirect RDMA).

pub(super) mod gdr;
pub(super) mod nics;
