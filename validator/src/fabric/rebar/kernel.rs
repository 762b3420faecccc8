//! What the pass requests from the kernel. A trait, so that unit tests can return every answer that the
//! kernel was seen to give, including wrong ones.

use super::DEVICES;
use crate::machine::pcie::model::Bdf;
use crate::machine::root::Root;
use std::io;

/// The three requests. Each returns when the kernel is done.
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
        let code =
            bytes.checked_ilog2().and_then(|n| n.checked_sub(20)).ok_or(io::ErrorKind::InvalidInput)?;
        self.0.write_at(format!("{DEVICES}/{bdf}/resource{bar}_resize"), 0, code.to_string().as_bytes())
    }

    fn remove(&self, bdf: Bdf) -> io::Result<()> {
        self.0.write_at(format!("{DEVICES}/{bdf}/remove"), 0, b"1")
    }

    fn rescan(&self, port: Bdf) -> io::Result<()> {
        self.0.write_at(format!("sys/class/pci_bus/{:04x}:{:02x}/rescan", port.domain, port.bus), 0, b"1")
    }
}
