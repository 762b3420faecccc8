//! The Resizable BAR pass: BAR1 of every NVIDIA GPU is resized to the largest size that the GPU offers, as
//! far as the bus has addresses. It runs before the driver, which reports the amount of memory, is loaded, so
//! "largest" means "covers all memory".
//!
//! `plan` determines what is wanted, `single` resizes one GPU, `joint` lays out everything below one root
//! port again, `group` goes through the sizes, `limit` determines whether a board can have a large BAR1 at all, `fix` and `restore` keep the journal, `decode` records memory
//! decode, `reasons` makes the findings. The kernel's answers are not trusted: after each step `state`
//! reads ReBAR control, BAR registers and the kernel's own view, and all three must agree.

mod decode;
mod fix;
mod group;
mod joint;
mod limit;
pub mod plan;
mod reasons;
pub mod resize;
mod restore;
mod single;
mod state;
pub mod static_map;
mod windows;

pub use decode::{DecodeOutcome, DecodeStep, restore_decode};
pub use fix::{ResizeReport, fix};
pub use limit::{DEFAULT_BAR1, limit};
pub use plan::RebarChoice;
pub(super) use reasons::bar_fault;
pub use reasons::disagrees;
pub use restore::{BarOutcome, BarStep, restore};

use machine::pcie::model::Bdf;
use machine::root::Root;
use std::io;

/// Where Linux lists PCI functions.
const DEVICES: &str = "sys/bus/pci/devices";

/// The machine that the pass works on: its files, and the kernel's operations on its devices.
#[derive(Clone, Copy)]
struct Machine<'a> {
    root: &'a Root,
    kernel: &'a dyn Kernel,
}

/// A file of sysfs or configuration space that could not be read or written.
#[derive(Debug, thiserror::Error)]
enum AccessError {
    /// The kernel returned an error.
    #[error("{what} /{file}: {source}")]
    Io {
        /// `reading` or `writing`.
        what: &'static str,
        /// The file.
        file: String,
        /// The error.
        source: io::Error,
    },
    /// A file has invalid content.
    #[error("/{file}: {why}")]
    Malformed {
        /// The file.
        file: String,
        /// What is invalid.
        why: String,
    },
}

/// What the pass requests from the kernel. A trait, so that unit tests can return every answer that the kernel was
/// seen to give, including wrong ones. Each request returns when the kernel is done.
pub trait Kernel {
    /// Resize BAR `bar` of `bdf` and find addresses for it.
    ///
    /// # Errors
    /// The kernel's error. Success proves nothing.
    fn resize(&self, bdf: Bdf, bar: u8, bytes: u64) -> io::Result<()>;

    /// Remove `bdf` and everything below it.
    ///
    /// # Errors
    /// The kernel's error.
    fn remove(&self, bdf: Bdf) -> io::Result<()>;

    /// Rescan the root bus of the root port `port`, and assign addresses to functions that have none. (A
    /// rescan of a bus below the port would do more: if it finds no room, Linux releases the windows of all
    /// root ports of that root bus, including those in use.)
    ///
    /// # Errors
    /// The kernel's error.
    fn rescan(&self, port: Bdf) -> io::Result<()>;
}

/// The files of sysfs. On a recorded machine writing them has no effect, which the pass notices like any
/// other failure.
#[derive(Debug)]
pub struct Sysfs<'a>(pub &'a Root);

impl Kernel for Sysfs<'_> {
    fn resize(&self, bdf: Bdf, bar: u8, bytes: u64) -> io::Result<()> {
        // Size code n is 2^(20+n) bytes.
        let code = bytes
            .checked_ilog2()
            .and_then(|n| n.checked_sub(20))
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.0.write_at(
            format!("{DEVICES}/{bdf}/resource{bar}_resize"),
            0,
            code.to_string().as_bytes(),
        )
    }

    fn remove(&self, bdf: Bdf) -> io::Result<()> {
        self.0.write_at(format!("{DEVICES}/{bdf}/remove"), 0, b"1")
    }

    fn rescan(&self, port: Bdf) -> io::Result<()> {
        self.0.write_at(
            format!(
                "sys/class/pci_bus/{:04x}:{:02x}/rescan",
                port.domain, port.bus
            ),
            0,
            b"1",
        )
    }
}
