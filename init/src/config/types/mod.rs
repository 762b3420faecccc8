//! What the configuration becomes: one struct per section, with every key's meaning and default. This
//! folder is the reference of init's keys; `keys` has their spelling, `sections` builds these types.

mod output;

pub use output::{BootSource, Console, DeviceSpec, Report, Screen, ScreenView, Serial, Watchdog, WatchdogMode};

use super::remote::RemoteSource;
use crate::config::mac::Mac;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The whole configuration as init needs it. Layers, later ones win: `/etc/firstlight/config.toml` (must
/// exist), `/etc/firstlight/config.d/*.toml` by name, `config.toml` on the data partition and the files of its
/// `config.d` for this node, the layers that `firstlight.config=URL` names, kernel words
/// `firstlight.SECTION.KEY=VALUE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[config]`
    pub trust: Trust,
    /// `[driver]`
    pub driver: Driver,
    /// `[network]`
    pub network: Network,
    /// The kernel word `firstlight.config=`.
    pub remote: Option<RemoteSource>,
    /// The kernel word `firstlight.reset=clear`: the mark of an earlier boot is removed.
    pub clear_reset: bool,
    /// `[policy]`
    pub policy: Policy,
    /// `[workload]`
    pub workload: Workload,
    /// `[report]`
    pub report: Report,
    /// `[console]`
    pub console: Console,
    /// `[watchdog]`
    pub watchdog: Watchdog,
    /// What init passes on to the validator.
    pub validator: Validator,
    /// The values of the data partition that a server's layer replaced, one line for each.
    pub overridden: Vec<String>,
    /// How many layers were read: files, and the command line if any of its words is ours.
    pub layers: usize,
}

/// `[config]`: which configuration files count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// `key = ""`: with this minisign public key, every file of the data partition and of a server needs a
    /// signature. Only files of the image may set it.
    pub key: Option<String>,
    /// `disk_overrides_server = false`: whether files of the data partition win over those of a server. Only
    /// files of the image and of the server may set it.
    pub disk_overrides_server: bool,
}

/// `[driver]`: the GPU driver's modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// `load`: whether to load the driver; without it, a driver in the image is loaded.
    pub load: Option<bool>,
    /// `modules = ["nvidia", "nvidia-uvm"]`: in this order, dependencies first; from the driver image,
    /// else from the running kernel's modules.
    pub modules: Vec<String>,
    /// `parameters = {}`: per module, as on insmod's command line; each replaces the driver image's.
    pub parameters: BTreeMap<String, String>,
    /// `timeout_s = 300`: for the whole start of the driver; 15 seconds more for each NVIDIA GPU.
    pub timeout: Duration,
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
    /// `on_error = "hold"`: also after a fault in init itself.
    pub on_error: Action,
    /// `recover = "off"`
    pub recover: Recover,
    /// `allow_shell = false`: whether a shell may be started. Only a file of the image sets it.
    pub allow_shell: bool,
}

/// How far init goes to recover GPUs that no longer work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Recover {
    /// `"off"`: nothing is tried.
    Off,
    /// `"gpu"`: the driver is unloaded, the GPUs are reset, and each is tested alone.
    Gpu,
    /// `"reboot"`: if that does not help, the machine is rebooted once, without peer-to-peer.
    Reboot,
}

/// What to do with the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `"workload"`: hand over to the workload.
    Workload,
    /// `"workload-without-p2p"`: hand over with `NCCL_P2P_DISABLE=1` in the environment and in
    /// `/etc/nccl.conf`.
    WorkloadWithoutP2p,
    /// `"hold"`: stay, reap orphans, wait for Ctrl-Alt-Del (reboots) or SIGTERM (powers off).
    Hold,
    /// `"shell"`: busybox sh on the console, then hold. Only where a file of the image sets
    /// `allow_shell = true`.
    Shell,
    /// `"reboot"`
    Reboot,
    /// `"poweroff"`
    PowerOff,
}

/// `[workload]`: the program or system that the machine is handed over to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// `mode = "none"`
    pub mode: WorkloadMode,
    /// `on_exit = "poweroff"`: when an exec'd workload ends.
    pub on_exit: OnExit,
    /// `lock_modules`: whether loading modules is disabled once the workload runs; default `true` for exec,
    /// `false` for switch-root (whose init loads its own modules).
    pub lock_modules: bool,
    /// `watchdog = false`: whether the workload gets the running watchdog and must pet it itself.
    pub watchdog: bool,
}

/// How the machine is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadMode {
    /// `"none"`: there is no workload; the action `workload` then holds.
    None,
    /// `"exec"`: init stays process 1 and supervises `exec = ["/PROGRAM", "WORD", ..]`.
    Exec(Vec<String>),
    /// `"switch-root"`: `root = ".."` becomes `/`, and its init (or `exec`, if given) becomes process 1.
    SwitchRoot {
        /// Where the new root is.
        root: RootSource,
        /// The program to start there; if empty, the first of /sbin/init, /usr/lib/systemd/systemd, /init.
        exec: Vec<String>,
    },
}

/// What to do when an exec'd workload ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// `"poweroff"`
    PowerOff,
    /// `"reboot"`
    Reboot,
    /// `"hold"`
    Hold,
}

/// `workload.root`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootSource {
    /// A file system on a device, or an image file on such a file system (`LABEL=DATA:/images/root.squashfs`).
    Disk {
        /// The device.
        place: DeviceSpec,
        /// Path of a squashfs or erofs image on it.
        image: Option<String>,
    },
    /// A squashfs or erofs image on a server, fetched into memory.
    Remote(RemoteSource),
}

/// What init passes on to the validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// `--config` files, in layer order.
    pub files: Vec<String>,
    /// `--set` words, e.g. `fabric.acs=path`.
    pub set: Vec<String>,
    /// `validate.timeout_s`, default 900. The key belongs to the validator, which checks it; init reads it
    /// because init enforces the deadline.
    pub timeout: Duration,
    /// `nodes.timeout_s`, default 60, where `nodes.size` is set: the machine meets others during the boot.
    pub meeting: Option<Duration>,
}

/// `[network]`: init's own network, for the report and the workload. Loopback is always up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// `mode = "none"`; `"dhcp"` when something needs a network and no layer sets the mode.
    pub mode: NetworkMode,
    /// `hostname = "firstlight"`; the kernel word `hostname=` is used when the key is absent.
    pub hostname: String,
    /// `interface = ""`: by name or Ethernet address. Empty means the card that the machine was booted from
    /// (kernel word `BOOTIF=`), else the first one with a carrier.
    pub interface: CardSelector,
    /// `soft_roce = false`: whether each port of mode `"link-local"`, or the interface of the other modes, gets a soft-RoCE
    /// device, `rxe0`, `rxe1` ..
    pub soft_roce: bool,
    /// Whether the modules of RDMA cards are loaded: in mode `"link-local"`, with `soft_roce`, and if `[nodes]` has a key.
    pub rdma: bool,
    /// `dns = []`: name servers that replace those from DHCP.
    pub dns: Vec<IpAddr>,
    /// `ca = ""`: the only certificates accepted as issuers for https servers; without it, the public ones
    /// that browsers accept.
    pub ca: Option<String>,
    /// `timeout_s = 30`: for the carrier and the address together.
    pub timeout: Duration,
    /// `time = []`: the servers that init asks for the time once the network is up; none by default.
    pub time: Vec<TimeSource>,
}

/// A source of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeSource {
    /// `"dhcp"`: the servers from DHCP option 42.
    Dhcp,
    /// `HOST` or `HOST:PORT`, over NTP.
    Server(String),
}

/// Which network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardSelector {
    /// The first one with a carrier.
    Any,
    /// By its interface's name.
    Name(String),
    /// By its Ethernet address.
    Mac(Mac),
    /// The card that the machine was booted from, by `BOOTIF=`.
    BootedFrom(Mac),
}

/// How the interface gets its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkMode {
    /// `"none"`: loopback only.
    None,
    /// `"dhcp"`: from busybox udhcpc.
    Dhcp,
    /// `"static"`: `address = "ADDRESS/PREFIX"`, `gateway = "ADDRESS"` (optional).
    Static {
        /// The interface's own address.
        address: IpAddr,
        /// Prefix length.
        prefix: u8,
        /// Default route.
        gateway: Option<IpAddr>,
    },
    /// `"link-local"`: addresses of 169.254.0.0/16 on `ports = []`, a list of names or Ethernet addresses; empty means every
    /// card with a carrier.
    LinkLocal(Vec<CardSelector>),
}
