//! Stage 5: host name, loopback, and the network if one is configured. A network that does not come
//! up is a warning: nothing in a verdict depends on it.

use crate::child::{End, Spec};
use crate::config::types::{Network, NetworkMode};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::netlink;
use crate::paths;
use crate::sys::machine;
use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;

/// What became of the network.
#[derive(Debug, PartialEq, Eq)]
pub struct Connected {
    hostname: String,
    said: String,
}

impl fmt::Display for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.hostname, self.said)
    }
}

/// Brings it up.
///
/// # Errors
/// Only an interruption.
pub fn start(m: &mut Machine, config: &Network) -> Result<Connected, Fault> {
    let hostname = match machine::set_hostname(&config.hostname) {
        Ok(()) => config.hostname.clone(),
        Err(e) => format!("warning: no host name: {e}"),
    };
    let said = match (loopback(), &config.mode) {
        (Err(e), _) => format!("warning: loopback: {e}"),
        (Ok(()), NetworkMode::None) => "loopback only".to_owned(),
        (Ok(()), mode) => match connect(m, config, mode)? {
            Ok(said) => said,
            Err(why) => format!("warning: no network: {why}"),
        },
    };
    Ok(Connected { hostname, said })
}

/// Brings an interface up by name.
///
/// # Errors
/// As sysfs and rtnetlink.
pub fn link_up(name: &str) -> io::Result<u32> {
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    let index = index.trim().parse().map_err(io::Error::other)?;
    machine::route_request(&netlink::link_up(index))?;
    Ok(index)
}

fn loopback() -> io::Result<()> {
    link_up("lo").map(|_| ())
}

/// A child finds the interface and waits for its carrier; another asks for a lease.
fn connect(m: &Machine, config: &Network, mode: &NetworkMode) -> Result<Result<String, String>, Fault> {
    let mut name = String::new();
    let first = helper::find_interface(config.interface.as_deref(), config.timeout);
    let done = m.run(
        &first,
        &mut |_, line| {
            line.clone_into(&mut name);
            false
        },
        |_| true,
    )?;
    if done.end != End::Exited(helper::FINE) {
        return Ok(Err(done.reason()));
    }
    if let NetworkMode::Static { address, prefix, gateway } = mode {
        let set = set_address(&name, *address, *prefix, *gateway);
        return Ok(set.map(|()| format!("{name} {address}/{prefix}")).map_err(|e| format!("{name}: {e}")));
    }
    let args = ["udhcpc", "-i", &name, "-n", "-q", "-f", "-t", "3", "-T", "2", "-s", paths::DHCP_SCRIPT];
    let left = config.timeout.saturating_sub(done.took);
    let done = m.run(&Spec::new(paths::BUSYBOX, &args, left), &mut |_, _| false, |_| true)?;
    Ok(match done.end {
        End::Exited(0) => Ok(format!("{name} by DHCP")),
        _ => Err(format!("{name}: {}", done.reason())),
    })
}

fn set_address(name: &str, address: IpAddr, prefix: u8, gateway: Option<IpAddr>) -> io::Result<()> {
    let index = link_up(name)?;
    machine::route_request(&netlink::address(index, address, prefix))?;
    gateway.map_or(Ok(()), |gateway| machine::route_request(&netlink::default_route(index, gateway)))
}
