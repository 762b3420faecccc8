//! What the configuration becomes: one struct a section, with every key's meaning and default.
//! This file is the reference of init's keys; `keys` has their spelling, `read` builds these.

use super::mac::Mac;
use super::remote::Remote;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The whole configuration as init needs it. Layers, the later wins: `/etc/firstlight/config.toml`
/// (must exist), `/etc/firstlight/config.d/*.toml` by name, what `firstlight.config=URL` names,
/// `config.toml` on the data partition and what its `config.d` has for this node, kernel words
/// `firstlight.SECTION.KEY=VALUE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[driver]`
    pub driver: Driver,
    /// `[network]`
    pub network: Network,
    /// The kernel word `firstlight.config=`.
    pub remote: Option<Remote>,
    /// `[policy]`
    pub policy: Policy,
    /// `[workload]`
    pub workload: Workload,
    /// `[report]`
    pub report: Report,
    /// `[console]`
    pub console: Console,
    /// What is passed on to the validator.
    pub validator: Validator,
    /// How many layers were read (files and, if any word counts, the command line).
    pub layers: usize,
}

/// `[driver]`: the GPU driver's modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// `load = true`: whether to load anything.
    pub load: bool,
    /// `modules = ["nvidia", "nvidia-uvm"]`: in this order, dependencies first; from the driver image,
    /// else from the running kernel's modules.
    pub modules: Vec<String>,
    /// `parameters = {}`: per module, as on insmod's command line; each wins over the driver image's.
    pub parameters: BTreeMap<String, String>,
    /// `timeout_s = 300`: for all of the driver's start; 15 seconds more for each NVIDIA GPU.
    pub timeout: Duration,
}

/// `[network]`: init's own network, for the report and the workload. Loopback is always up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// `mode = "none"`; `"dhcp"` when something needs a network and no layer names the mode.
    pub mode: NetworkMode,
    /// `hostname = "firstlight"`; the kernel word `hostname=` counts when the key is absent.
    pub hostname: String,
    /// `interface = ""`: which, by name or Ethernet address; empty means the one that the machine was
    /// booted from (kernel word `BOOTIF=`), else the first one with a carrier.
    pub interface: Card,
    /// `dns = []`: name servers, in the place of those that DHCP tells.
    pub dns: Vec<IpAddr>,
    /// `ca = ""`: certificates that alone may vouch for https servers; without it those that browsers
    /// know.
    pub ca: Option<String>,
    /// `timeout_s = 30`: for the carrier and the address together.
    pub timeout: Duration,
    /// `time = []`: who is asked for the time once the network is up; without any nobody is.
    pub time: Vec<TimeSource>,
}

/// Who knows the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeSource {
    /// `"dhcp"`: the servers that DHCP names (option 42).
    Dhcp,
    /// `HOST` or `HOST:PORT`, by NTP.
    Server(String),
}

/// Which network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Card {
    /// The first with a carrier.
    Any,
    /// By its interface's name.
    Name(String),
    /// By its Ethernet address.
    Mac(Mac),
    /// The one that the machine was booted from, by `BOOTIF=`.
    BootedFrom(Mac),
}

/// How the network gets its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkMode {
    /// `"none"`: loopback only.
    None,
    /// `"dhcp"`: asked for with busybox udhcpc.
    Dhcp,
    /// `"static"`: `address = "ADDRESS/PREFIX"`, `gateway = "ADDRESS"` (optional).
    Static {
        /// The interface's own address.
        address: IpAddr,
        /// Bits of the network part.
        prefix: u8,
        /// Default route.
        gateway: Option<IpAddr>,
    },
}

/// `[policy]`: what to do after each verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `on_pass = "workload"`
    pub on_pass: Action,
    /// `on_degraded = "workload"`
    pub on_degraded: Action,
    /// `on_fail = "hold"`
    pub on_fail: Action,
    /// `on_error = "hold"`: also after a fault of init itself.
    pub on_error: Action,
}

/// One thing to do with the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `"workload"`: hand over.
    Workload,
    /// `"workload-without-p2p"`: hand over with `NCCL_P2P_DISABLE=1` in the environment and in
    /// `/etc/nccl.conf`.
    WorkloadWithoutP2p,
    /// `"hold"`: stay, reap, wait for Ctrl-Alt-Del (reboots) or SIGTERM (powers off).
    Hold,
    /// `"shell"`: busybox sh on the console, then hold.
    Shell,
    /// `"reboot"`
    Reboot,
    /// `"poweroff"`
    PowerOff,
}

/// `[workload]`: what the machine is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// `mode = "none"`
    pub mode: WorkloadMode,
    /// `on_exit = "poweroff"`: when an exec'd workload ends.
    pub on_exit: OnExit,
    /// `lock_modules`: whether no module can be loaded any more once the workload runs; default
    /// `true` for exec, `false` for switch-root (whose init loads its own).
    pub lock_modules: bool,
}

/// How the machine is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadMode {
    /// `"none"`: there is none; the action `workload` then holds.
    None,
    /// `"exec"`: init stays process 1 and supervises `exec = ["/PROGRAM", "WORD", ..]`.
    Exec(Vec<String>),
    /// `"switch-root"`: `root = ".."` becomes `/` and its init (or `exec`, if given) process 1.
    SwitchRoot {
        /// Where the new root lies.
        root: RootSource,
        /// What to start there; empty means the first of /sbin/init, /usr/lib/systemd/systemd, /init.
        exec: Vec<String>,
    },
}

/// What follows the end of an exec'd workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// `"poweroff"`
    PowerOff,
    /// `"reboot"`
    Reboot,
    /// `"hold"`
    Hold,
}

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

/// `workload.root`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootSource {
    /// A file system on a device, or an image file on such a file system (`LABEL=DATA:/images/root.squashfs`).
    Disk {
        /// The device.
        place: Place,
        /// Path of a squashfs or erofs image on it.
        image: Option<String>,
    },
    /// A squashfs or erofs image that a server has, fetched into memory.
    Remote(Remote),
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

/// What init passes on to the validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// `--config` files, in layer order.
    pub files: Vec<String>,
    /// `--set` words, e.g. `fabric.acs=path`.
    pub set: Vec<String>,
    /// `validate.timeout_s`, default 900. The key is the validator's and checked there; init reads
    /// it because the deadline is kept here.
    pub timeout: Duration,
}
