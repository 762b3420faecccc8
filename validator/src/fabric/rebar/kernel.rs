//! What the pass asks of the kernel. A trait, so that every answer the kernel was seen to give, the
//! false ones too, can be a unit test.

use super::DEVICES;
use crate::machine::pcie::model::Bdf;
use crate::machine::root::Root;
use std::io;

/// The three requests. Each ends when the kernel is done with it.
pub trait Kernel {
    /// Make BAR `bar` of `bdf` so large, and find addresses for it.
    ///
    /// # Errors
    /// As the kernel answers. No error is no proof.
    fn resize(&self, bdf: Bdf, bar: u8, bytes: u64) -> io::Result<()>;

    /// Forget `bdf` and everything below it.
    ///
    /// # Errors
    /// As the kernel answers.
    fn remove(&self, bdf: Bdf) -> io::Result<()>;

    /// Look again for what is on the root bus of the root port `port`, and give addresses to what has
    /// none. (A rescan of a bus below the port would do more: when it finds no room, Linux takes the
    /// windows of all root ports of that root bus away, those in use too.)
    ///
    /// # Errors
    /// As the kernel answers.
    fn rescan(&self, port: Bdf) -> io::Result<()>;
}

/// The files of sysfs. On a recorded machine nothing stands behind them: nothing happens then, and
/// the pass finds that out as it finds out everything else.
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
