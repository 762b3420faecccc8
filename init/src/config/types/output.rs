//! What `[report]`, `[console]` and `[watchdog]` become: where reports and lines go, and what resets a machine that has
//! hung.

use std::time::Duration;

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

/// `[report]`: where the report is kept besides `/run/firstlight`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `partition = "LABEL=FIRSTLIGHT"`: the data partition (vfat or ext4). Its `config.toml` is a
    /// configuration layer, its `reports/` stores the reports. `""` means none.
    pub partition: Option<DeviceSpec>,
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
    /// `key_file`: the key for the MAC of each report; never on the partition.
    pub key_file: Option<String>,
    /// `token_file`: the token that the server demands.
    pub token_file: Option<String>,
    /// Whether the partition had a configuration layer.
    pub config_read: bool,
    /// What was already logged about partitions of that name that may not be used, one line for each.
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
    /// `view = "auto"`
    pub view: ScreenView,
    /// Where the machine was booted from; see [`BootSource::of`].
    pub booted_from: BootSource,
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

/// What the machine's own screen shows; serial lines get lines in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenView {
    /// `"auto"`: the full screen after a boot from a stick, where there is a picture.
    Auto,
    /// `"lines"`: the same lines as a serial line.
    Lines,
    /// `"full"`: tests and pairs as they run, the verdict in large letters, a menu when the machine holds.
    Full,
}

/// Where the machine was booted from, as `console.screen = "auto"` needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootSource {
    /// A local medium: a person is probably in front of the machine.
    Stick,
    /// The network.
    Network,
}

/// `[watchdog]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watchdog {
    /// `mode = "auto"`
    pub mode: WatchdogMode,
    /// `timeout_s = 60`: the device resets the machine when it was not petted for so long. From 10 seconds, because
    /// process 1 needs some of them to end a child; to 600, because iTCO_wdt measures 613.
    pub timeout: Duration,
}

/// Which device is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchdogMode {
    /// `"auto"`: the machine's own, else the kernel's software watchdog; a warning if there is neither.
    Auto,
    /// `"hardware"`: the machine's own; an error if there is none.
    Hardware,
    /// `"software"`: the kernel's software watchdog; an error if there is none.
    Software,
    /// `"off"`: none.
    Off,
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

    /// Its word in the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Hardware => "hardware",
            Self::Software => "software",
            Self::Off => "off",
        }
    }
}
