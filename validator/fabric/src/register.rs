//! The only module that accesses an ACS control register: 16 bits in a function's `config` file. It reads the
//! whole space and locates the capability each time, so that it never writes to another register.

use super::plan::ACS_CONTROL;
use machine::pcie::config_space;
use machine::pcie::model::Bdf;
use machine::root::Root;
use std::io;

/// Why a register could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
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
    /// The capability is not where it was.
    #[error("{0} has no ACS control register at {1:#05x}")]
    NoRegister(Bdf, u16),
}

/// The value of the ACS control register at `offset` of `bdf`.
///
/// # Errors
/// If configuration space cannot be read, or the register is not there.
pub fn read(root: &Root, bdf: Bdf, offset: u16) -> Result<u16, RegisterError> {
    let file = file(bdf);
    let bytes = root.read(&file).map_err(|source| RegisterError::Io {
        what: "reading",
        file,
        source,
    })?;
    let acs = config_space::parse(&bytes).acs.filter(|a| !a.quirk);
    acs.filter(|a| a.offset.checked_add(ACS_CONTROL) == Some(offset))
        .map(|a| a.ctrl)
        .ok_or(RegisterError::NoRegister(bdf, offset))
}

/// Writes the register, as one configuration write of 16 bits.
///
/// # Errors
/// If the kernel refuses the write.
pub fn write(root: &Root, bdf: Bdf, offset: u16, value: u16) -> Result<(), RegisterError> {
    let file = file(bdf);
    root.write_at(&file, u64::from(offset), &value.to_le_bytes())
        .map_err(|source| RegisterError::Io {
            what: "writing",
            file,
            source,
        })
}

fn file(bdf: Bdf) -> String {
    format!("sys/bus/pci/devices/{bdf}/config")
}
