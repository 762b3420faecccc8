//! What `[report]` and `[console]` become: where reports and lines go.

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
    /// configuration layer, its `reports/` keeps the reports. It may be absent, unless a layer
    /// names it; `""` means none.
    pub partition: Option<Place>,
    /// Whether a layer names the partition.
    pub named: bool,
    /// `url = ""`: where the report is sent by POST, http or https.
    pub url: Option<String>,
    /// `timeout_s = 60`: for all tries to send it, and those that wait from earlier.
    pub timeout: Duration,
    /// `keep = 20`: how many reports stay on the partition, the newest, and how many unsent ones wait.
    pub keep: u16,
    /// Whether the partition had anything that is one of the layers.
    pub config_read: bool,
}

/// `[console]`: where the lines appear besides `/dev/console`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Console {
    /// `serial = ["ttyS0,115200"]`: further serial lines.
    pub serial: Vec<Serial>,
    /// Whether a layer names them: a named line that is absent is warned of.
    pub serial_named: bool,
    /// `screen = "auto"`
    pub screen: Screen,
    /// How the machine was booted; see [`Origin::of`].
    pub booted_from: Origin,
}

/// One serial line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serial {
    /// Its name in /dev.
    pub name: String,
    /// Bits per second to set; `None` leaves it as it is.
    pub rate: Option<u32>,
}

impl Serial {
    /// The line that is used unless a layer names others.
    #[must_use]
    pub fn usual() -> Self {
        Self { name: "ttyS0".to_owned(), rate: Some(115_200) }
    }
}

/// What happens to a firmware framebuffer that sits on an NVIDIA GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// `"auto"`: keep when booted from a stick, release from the network.
    Auto,
    /// `"keep"`: leave it.
    Keep,
    /// `"release"`: free it before the driver loads, and write no more to the screen.
    Release,
}

/// Where the machine was booted from, as far as `console.screen = "auto"` needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A local medium: somebody stands before the machine.
    Stick,
    /// The network.
    Network,
}
