//! Where the machine was booted from, told by the command line's words.

use super::cmdline::Word;
use super::types::Origin;

/// The one word under `firstlight.` that is no section's key: `firstlight.booted_from=stick` or
/// `=network`, for boot media that know better.
pub(super) const WORD: &str = "booted_from";

impl Origin {
    /// The rule: `firstlight.booted_from=` says it; else `BOOTIF=` (pxelinux, iPXE) or `ip=` mean
    /// the network; else it was a stick. `Err` is what `firstlight.booted_from` said instead.
    ///
    /// # Errors
    /// The word's value when it is neither `stick` nor `network`.
    pub fn of(words: &[Word]) -> Result<Self, String> {
        let said = words.iter().rev().find(|w| w.name.strip_prefix("firstlight.") == Some(WORD));
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
            ("", Ok(Origin::Stick)),
            ("ip=dhcp", Ok(Origin::Network)),
            ("BOOTIF=01-aa-bb", Ok(Origin::Network)),
            ("ip=dhcp firstlight.booted_from=stick", Ok(Origin::Stick)),
            ("firstlight.booted_from=network", Ok(Origin::Network)),
            ("firstlight.booted_from=floppy", Err("floppy".to_owned())),
        ] {
            assert_eq!(Origin::of(&words(line)), want, "{line}");
        }
    }
}
