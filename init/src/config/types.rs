//! The types of init's settings: words, places, addresses, and the whole configuration. The sections and their keys are in
//! `keys`.

pub use super::keys::{Console, Driver, Network, Policy, Report, Trust, Watchdog, Workload};
pub use super::output::{BootSource, DeviceSpec, Screen, ScreenView, Serial, WatchdogMode};

use super::remote::RemoteSource;
use crate::config::mac::Mac;
use contract::choice;
use serde::Serialize;
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

choice! {
/// How far init goes to recover GPUs that no longer work.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Recover {
    /// Nothing is tried.
    Off = "off",
    /// The driver is unloaded, the GPUs are reset, and each is tested alone.
    Gpu = "gpu",
    /// If that does not help, the machine is rebooted once, without peer-to-peer.
    Reboot = "reboot",
}
}

choice! {
/// What to do with the machine.
pub enum Action {
    /// Hand over to the workload.
    Workload = "workload",
    /// Hand over with `NCCL_P2P_DISABLE=1` in the environment and in `/etc/nccl.conf`.
    WorkloadWithoutP2p = "workload-without-p2p",
    /// Stay, reap orphans, wait for Ctrl-Alt-Del (reboots) or SIGTERM (powers off).
    Hold = "hold",
    /// busybox sh on the console, then hold. Only where a file of the image sets `allow_shell = true`.
    Shell = "shell",
    /// Restart the machine.
    Reboot = "reboot",
    /// Switch the machine off.
    PowerOff = "poweroff",
}
}

choice! {
/// The word of `workload.mode`; with the other keys it becomes a [`WorkloadMode`].
pub enum HandoverMode {
    /// There is no workload; the action `workload` then holds.
    None = "none",
    /// init stays process 1 and supervises a program.
    Exec = "exec",
    /// Another root, and its init becomes process 1.
    SwitchRoot = "switch-root",
}
}

choice! {
/// The word of `network.mode`; with the other keys it becomes a [`NetworkMode`].
pub enum AddressMode {
    /// Loopback only.
    None = "none",
    /// From busybox udhcpc.
    Dhcp = "dhcp",
    /// `network.address`
    Static = "static",
    /// Addresses of 169.254.0.0/16.
    LinkLocal = "link-local",
}
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

choice! {
/// What to do when an exec'd workload ends.
pub enum OnExit {
    /// Switch the machine off.
    PowerOff = "poweroff",
    /// Restart the machine.
    Reboot = "reboot",
    /// Stay.
    Hold = "hold",
}
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
    /// `validate.timeout_s`. The key belongs to the validator, which checks it; init reads it because init enforces the
    /// deadline.
    pub timeout: Duration,
    /// `nodes.timeout_s`, where `nodes.size` is set: the machine meets others during the boot.
    pub meeting: Option<Duration>,
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
