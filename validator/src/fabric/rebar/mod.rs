//! The Resizable BAR pass: BAR1 of every NVIDIA GPU is resized to the largest size that the GPU offers, as
//! far as the bus has addresses. It runs before the driver, which reports the amount of memory, is loaded, so
//! "largest" stands for "covers all memory".
//!
//! `plan` determines what is wanted, `alone` resizes one GPU, `together` lays out everything below one root
//! port again, `group` goes through the sizes, `fix` and `restore` keep the journal, `decode` records memory
//! decode. The kernel's answers are not trusted: after each step `state` reads ReBAR control, BAR registers
//! and the kernel's own view, and all three must agree.

mod alone;
mod decode;
mod fix;
mod group;
mod kernel;
pub mod plan;
mod registers;
pub mod resize;
mod restore;
mod said;
mod state;
pub mod static_map;
mod together;
mod windows;

pub use decode::{DecodeOutcome, DecodeStep, restore_decode};
pub use fix::{Fixed, fix};
pub use kernel::{Kernel, Sysfs};
pub use plan::RebarChoice;
pub use restore::{BarOutcome, BarStep, restore};
pub use said::disagrees;
pub(super) use said::wrong_now;

use crate::machine::root::Root;

/// Where Linux lists PCI functions.
const DEVICES: &str = "sys/bus/pci/devices";

/// The machine that the pass works on.
#[derive(Clone, Copy)]
struct Machine<'a> {
    root: &'a Root,
    kernel: &'a dyn Kernel,
}

/// Something could not be read or written.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// The kernel returned an error.
    #[error("{what} /{file}: {source}")]
    Io {
        /// `reading` or `writing`.
        what: &'static str,
        /// The file.
        file: String,
        /// The error.
        source: std::io::Error,
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
