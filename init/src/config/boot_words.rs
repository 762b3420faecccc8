//! firstlight's kernel words that are not settings: where the machine was booted from, and a request to clear the mark of a
//! reset.

use super::cmdline::KernelWord;
use super::types::BootSource;

/// `firstlight.booted_from=stick` or `=network`, for boot media that know it.
pub(super) const BOOTED_FROM: &str = "booted_from";

/// `firstlight.reset=clear`, for a machine on which `firstlight reset clear` cannot be run.
pub(super) const RESET: &str = "reset";

/// Whether the kernel words ask to clear the mark of a reset.
///
/// # Errors
/// The word's value when it is anything but `clear`.
pub(super) fn clears_reset(words: &[KernelWord]) -> Result<bool, String> {
    let said = words.iter().rev().find(|w| w.name.strip_prefix("firstlight.") == Some(RESET));
    match said.map(|w| w.value.as_deref().unwrap_or("")) {
        None => Ok(false),
        Some("clear") => Ok(true),
        Some(other) => Err(other.to_owned()),
    }
}

impl BootSource {
    /// `firstlight.booted_from=` decides. Without it, `BOOTIF=` (pxelinux, iPXE) or `ip=` mean the network;
    /// otherwise the machine was booted from a stick.
    ///
    /// # Errors
    /// The value of `firstlight.booted_from` when it is neither `stick` nor `network`.
    pub fn of(words: &[KernelWord]) -> Result<Self, String> {
        let said = words.iter().rev().find(|w| w.name.strip_prefix("firstlight.") == Some(BOOTED_FROM));
        match said.map(|w| w.value.as_deref().unwrap_or("")) {
            Some("stick") => Ok(Self::Stick),
            Some("network") => Ok(Self::Network),
            Some(other) => Err(other.to_owned()),
            None if words.iter().any(|w| w.name == "BOOTIF" || w.name == "ip") => Ok(Self::Network),
            None => Ok(Self::Stick),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::cmdline::words;

    #[test]
    fn the_word_wins_then_network_words_then_it_was_a_stick() {
        for (line, want) in [
            ("", Ok(BootSource::Stick)),
            ("ip=dhcp", Ok(BootSource::Network)),
            ("BOOTIF=01-aa-bb", Ok(BootSource::Network)),
            ("ip=dhcp firstlight.booted_from=stick", Ok(BootSource::Stick)),
            ("firstlight.booted_from=network", Ok(BootSource::Network)),
            ("firstlight.booted_from=floppy", Err("floppy".to_owned())),
        ] {
            assert_eq!(BootSource::of(&words(line)), want, "{line}");
        }
    }
}
