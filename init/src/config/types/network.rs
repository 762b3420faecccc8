//! What `[network]` becomes.

use crate::config::mac::Mac;
use std::net::IpAddr;
use std::time::Duration;

/// `[network]`: init's own network, for the report and the workload. Loopback is always up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// `mode = "none"`; `"dhcp"` when something needs a network and no layer sets the mode.
    pub mode: NetworkMode,
    /// `hostname = "firstlight"`; the kernel word `hostname=` is used when the key is absent.
    pub hostname: String,
    /// `interface = ""`: by name or Ethernet address. Empty means the card that the machine was booted from
    /// (kernel word `BOOTIF=`), else the first one with a carrier.
    pub interface: Card,
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
pub enum Card {
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
}
