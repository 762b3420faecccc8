//! The Resizable BAR pass: BAR1 of every NVIDIA GPU becomes the largest size that the GPU offers, as
//! far as the bus has addresses. It runs before the driver is loaded, which tells how much memory
//! there is, so "largest" stands for "covers it all".
//!
//! `plan` says what is wanted, `alone` asks the kernel for one GPU, `together` lays out everything
//! below one root port anew, `group` goes through the sizes, `fix` and `restore` keep the journal,
//! `decode` says who decoded memory before.
//! The kernel's answers are not believed: after each step `state` reads ReBAR control, BAR
//! registers and the kernel's own view, and all three must agree.

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

/// Something could not be read or written on the way.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// The kernel said no.
    #[error("{what} /{file}: {source}")]
    Io {
        /// `reading` or `writing`.
        what: &'static str,
        /// Which file.
        file: String,
        /// What came back.
        source: std::io::Error,
    },
    /// A file holds what it cannot hold.
    #[error("/{file}: {why}")]
    Malformed {
        /// Which file.
        file: String,
        /// What does not fit.
        why: String,
    },
}
