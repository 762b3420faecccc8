//! The host's memory and clock, as the model sees them. What stands behind is real memory of the
//! program under test in the libraries, and a map in tests.

use std::time::Duration;

/// The host.
pub trait Host {
    /// The bytes at `address`.
    fn read(&self, address: u64, bytes: u64) -> Vec<u8>;
    /// Puts `bytes` at `address`.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// Takes whole grains of page-locked memory away: the model knows what should stand there, and is asked
    /// through [`crate::memory::Pinned::settle`] before the program under test touches them.
    fn close(&mut self, address: u64, bytes: u64);
    /// Gives them back, with anything in them.
    fn open(&mut self, address: u64, bytes: u64);
    /// One word, read again each time.
    fn word(&self, address: u64) -> u32;
    /// Real time since some beginning: what the host waits for must not wait for ever.
    fn clock(&self) -> Duration;
}
