//! What `[report]` and `[console]` become: where reports and lines go.

use crate::config::cmdline::Word;
use std::time::Duration;

/// A block device by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `LABEL=..` of its file system.
    Label(String),
    /// `UUID=..` of its file system.
    Uuid(String),
    /// `/dev/..`
    Device(String),
}

/// `[report]`: where the report is kept besides `/run/firstlight`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `partition = "LABEL=FIRSTLIGHT"`: the data partition (vfat or ext4). Its `config.toml` is a
    /// configuration layer, its `reports/` stores the reports. `""` means none.
    pub partition: Option<Place>,
    /// Whether it may be on any disk: only when a file of the image or a kernel word names it. Otherwise it is
    /// used only on a removable disk, on USB, or on the disk that the machine was booted from.
    pub any_disk: bool,
    /// `required`: whether the boot stops when the partition is absent; default: whether a layer names it.
    pub required: bool,
    /// `url = ""`: where the report is sent by HTTP POST.
    pub url: Option<String>,
    /// `timeout_s = 60`: for all attempts to send the report and those still waiting from earlier boots.
    pub timeout: Duration,
    /// `keep = 20`: how many reports stay on the partition, the newest ones, and how many unsent ones wait.
    pub keep: u16,
    /// Whether the partition had a configuration layer.
    pub config_read: bool,
    /// What was already said about partitions of that name that may not be used, one line for each.
    pub ignored: Vec<String>,
}

/// `[console]`: where lines are written besides `/dev/console`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Console {
    /// `serial = ["ttyS0,115200"]`: further serial lines.
    pub serial: Vec<Serial>,
    /// Whether a layer names them; a named line that is absent is a warning.
    pub serial_named: bool,
    /// `screen = "auto"`
    pub screen: Screen,
    /// Where the machine was booted from; see [`Origin::of`].
    pub booted_from: Origin,
}

/// One serial line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serial {
    /// Its name in /dev.
    pub name: String,
    /// Bits per second to set; `None` leaves the rate unchanged.
    pub rate: Option<u32>,
}

impl Serial {
    /// The line that is used when no layer names others.
    #[must_use]
    pub fn usual() -> Self {
        Self { name: "ttyS0".to_owned(), rate: Some(115_200) }
    }
}

/// What happens to a firmware framebuffer on an NVIDIA GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// `"auto"`: keep it after a boot from a stick, release it after a boot from the network.
    Auto,
    /// `"keep"`: leave it alone.
    Keep,
    /// `"release"`: free it before the driver loads, and stop writing to the screen.
    Release,
}

/// Where the machine was booted from, as `console.screen = "auto"` needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A local medium: a person is probably in front of the machine.
    Stick,
    /// The network.
    Network,
}

/// The one name under `firstlight.` that is not a section: `firstlight.booted_from=stick` or `=network`,
/// for boot media that know it.
pub(in crate::config) const BOOTED_FROM: &str = "booted_from";

impl Origin {
    /// `firstlight.booted_from=` decides. Without it, `BOOTIF=` (pxelinux, iPXE) or `ip=` mean the network;
    /// otherwise the machine was booted from a stick.
    ///
    /// # Errors
    /// The value of `firstlight.booted_from` when it is neither `stick` nor `network`.
    pub fn of(words: &[Word]) -> Result<Self, String> {
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
