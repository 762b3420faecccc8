//! The stage `network`: sets the host name, brings up the loopback, and the network if one is configured. A
//! network that fails is only a warning here: no verdict depends on it, and the steps that need it report
//! it as their cause. Children do the work, because the driver of a hung card can hold the lock that every
//! change of an interface needs.

use crate::child::{End, no_lines, on_output};
use crate::config::types::{Network, NetworkMode, TimeSource};
use crate::fault::Fault;
use crate::file_io::write_atomically;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::sys::kernel;
use std::fmt;
use std::path::Path;

use super::clock;

/// The result of the stage.
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

/// Brings the network up.
///
/// # Errors
/// Only an interruption.
pub fn start(m: &mut Machine, config: &Network) -> Result<Connected, Fault> {
    let hostname = match kernel::set_hostname(&config.hostname) {
        Ok(()) => config.hostname.clone(),
        Err(e) => format!("warning: no host name: {e}"),
    };
    let loopback = m.run(&helper::loopback(), &mut no_lines, |_| true)?;
    let said = match (loopback.end, &config.mode) {
        (End::Exited(helper::FINE), NetworkMode::None) => "loopback only".to_owned(),
        (End::Exited(helper::FINE), _) => match reach(m, config)? {
            Ok(said) => said,
            Err(why) => format!("warning: no network: {why}"),
        },
        _ => format!("warning: loopback: {}", loopback.reason()),
    };
    Ok(Connected { hostname, said })
}

/// Connects once per boot and sets the clock if configured; later calls return the first result.
///
/// # Errors
/// Only an interruption.
pub fn reach(m: &mut Machine, config: &Network) -> Result<Result<String, String>, Fault> {
    if let Some(result) = &m.network {
        return Ok(result.clone());
    }
    let result = connect(m, config)?.and_then(|said| match write_name_servers(config) {
        Ok(()) => Ok(said),
        Err(e) => Err(format!("{}: {e}", paths::RESOLV_CONF)),
    });
    if result.is_ok() {
        clock::set(m, config)?;
    }
    Ok(m.network.insert(result).clone())
}

/// Children find the interface, wait for its carrier, and give it an address.
fn connect(m: &Machine, config: &Network) -> Result<Result<String, String>, Fault> {
    let mut name = String::new();
    let mut named = |line: &str| line.clone_into(&mut name);
    let found = m.run(&helper::find_interface(config), &mut on_output(&mut named), |_| true)?;
    if found.end != End::Exited(helper::FINE) {
        return Ok(Err(found.reason()));
    }
    let left = config.timeout.saturating_sub(found.took);
    let (spec, how) = match &config.mode {
        NetworkMode::Static { address, prefix, gateway } => {
            let address = format!("{address}/{prefix}");
            (helper::set_address(&name, &address, *gateway, left), address)
        }
        NetworkMode::Dhcp | NetworkMode::None => {
            let time = config.time.contains(&TimeSource::Dhcp);
            (helper::ask_for_lease(&name, left, time), "by DHCP".to_owned())
        }
    };
    let done = m.run(&spec, &mut no_lines, |_| true)?;
    Ok(match (done.end, &config.mode) {
        (End::Exited(0), _) => Ok(format!("{name} {how}")),
        (End::Exited(1), NetworkMode::Dhcp) => {
            Err(format!("{name}: no DHCP lease within {} s", config.timeout.as_secs()))
        }
        _ => Err(format!("{name}: {}", done.reason())),
    })
}

/// Replaces the name servers from DHCP.
fn write_name_servers(config: &Network) -> std::io::Result<()> {
    let lines: String = config.dns.iter().map(|server| format!("nameserver {server}\n")).collect();
    if lines.is_empty() { Ok(()) } else { write_atomically(Path::new(paths::RESOLV_CONF), lines.as_bytes()) }
}
