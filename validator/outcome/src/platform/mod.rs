//! What a machine is made of and of what kind it is, as types without a reader: addresses and numbers, pairs of GPUs, and
//! [`Host`], the one answer to the question what kind of machine this is. Findings, judges and remedies share them.
//! `machine/host/platform` reads a [`Host`].

mod bdf;
mod boot_loader;
mod host;
mod number;
mod pair;

pub use bdf::{Bdf, InvalidBdf};
pub use boot_loader::{BootLoader, Method};
pub use host::{
    Architecture, Distribution, Environment, Host, HostGpu, HotPlug, HotPlugKind, Hypervisor,
    KernelVersion, Known, Mainboard, MemorySource, NoPeers, PassThrough, Peers, Processors, System,
    Vendor,
};
pub use number::{GpuId, Rank};
pub use pair::Pair;
