//! The types of values of `[report]`, `[console]` and `[watchdog]`: where reports and lines go, and what resets a machine that
//! has hung.

use contract::choice;

/// A block device by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSpec {
    /// `LABEL=..` of its file system.
    Label(String),
    /// `UUID=..` of its file system.
    Uuid(String),
    /// `/dev/..`
    Device(String),
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
    pub fn default_line() -> Self {
        Self {
            name: "ttyS0".to_owned(),
            rate: Some(115_200),
        }
    }
}

choice! {
/// What happens to a firmware framebuffer on an NVIDIA GPU.
pub enum Screen {
    /// Keep it after a boot from a stick, release it after a boot from the network.
    Auto = "auto",
    /// Leave it alone.
    Keep = "keep",
    /// Free it before the driver loads, and stop writing to the screen.
    Release = "release",
}
}

choice! {
/// What the machine's own screen shows; serial lines get lines in any case.
pub enum ScreenView {
    /// The full screen after a boot from a stick, where there is a picture.
    Auto = "auto",
    /// The same lines as a serial line.
    Lines = "lines",
    /// Tests and pairs as they run, the verdict in large letters, a menu when the machine holds.
    Full = "full",
}
}

choice! {
/// Where the machine was booted from, as `console.screen = "auto"` needs it.
pub enum BootSource {
    /// A local medium: a person is probably in front of the machine.
    Stick = "stick",
    /// The network.
    Network = "network",
}
}

choice! {
/// Which device is used.
pub enum WatchdogMode {
    /// The machine's own, else the kernel's software watchdog; a warning if there is neither.
    Auto = "auto",
    /// The machine's own; an error if there is none.
    Hardware = "hardware",
    /// The kernel's software watchdog; an error if there is none.
    Software = "software",
    /// None.
    Off = "off",
}
}

impl WatchdogMode {
    /// Whether the machine's own device may be used.
    #[must_use]
    pub const fn allows_hardware(self) -> bool {
        matches!(self, Self::Auto | Self::Hardware)
    }

    /// Whether the kernel's software watchdog may be used.
    #[must_use]
    pub const fn allows_software(self) -> bool {
        matches!(self, Self::Auto | Self::Software)
    }
}
