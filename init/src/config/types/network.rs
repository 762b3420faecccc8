//! What `[network]` becomes.

use crate::config::mac::Mac;
use std::net::IpAddr;
use std::time::Duration;

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
