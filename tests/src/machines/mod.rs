//! Recorded machines: what a kernel shows of machines that nobody has at hand, in the layout of
//! the real /sys and /proc. They are described here and checked in under `tests/machines`, where
//! the validator's tests and `lspci -O sysfs.path=` read them; `record-machines` writes them.

pub mod built;
mod config;
mod driver;
mod drivers;
mod epyc;
mod machine;
mod parts;
mod rdma;
mod small;
mod tree;

pub use config::Link;
pub use drivers::h200s;
pub use epyc::many;
pub use machine::Machine;
pub use tree::write;

use std::path::PathBuf;

/// Every machine that is checked in.
pub const ALL: [fn() -> Machine; 19] = [
    epyc::eight,
    epyc::eight_before,
    small::switch,
    small::intel_pch,
    small::no_ecam,
    small::dead_gpu,
    small::malformed,
    small::translated,
    small::lost_cpus,
    small::second_domain,
    small::narrow_link,
    small::no_manager,
    small::nouveau,
    small::boot_display,
    drivers::h200,
    small::small_bars,
    drivers::mismatch,
    drivers::small_bar1,
    drivers::broken_patch,
];

/// The folder of the checked-in machines.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("machines")
}

#[cfg(test)]
mod tests;
