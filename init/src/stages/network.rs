//! The stage `network`: sets the host name, brings up the loopback, and the network if one is configured. A
//! network that fails is only a warning here: no verdict depends on it, and the steps that need it report
//! it as their cause. Children do the work, because the driver of a hung card can hold the lock that every
//! change of an interface needs.

use crate::child::{End, GRACE, no_lines, on_output};
use crate::config::types::{CardSelector, Network, NetworkMode, TimeSource};
use crate::fault::Fault;
use crate::file_io::write_atomically;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::sys::kernel;
use crate::sys::process::{self, Pid};
use log::info;
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;

use super::clock;

/// The result of the stage: the host name, and what is connected or why nothing is.
#[derive(Debug, PartialEq, Eq)]
pub struct NetworkResult {
    hostname: String,
    summary: String,
}

impl fmt::Display for NetworkResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.hostname, self.summary)
    }
}

/// Brings the network up.
///
/// # Errors
/// Only an interruption.
pub fn start(m: &mut Machine, config: &Network) -> Result<NetworkResult, Fault> {
    let hostname = match kernel::set_hostname(&config.hostname) {
        Ok(()) => config.hostname.clone(),
        Err(e) => format!("warning: no host name: {e}"),
    };
    let loopback = m.run(&helper::loopback(), &mut no_lines, |_| true)?;
    let summary = match (loopback.end, &config.connection) {
        (End::Exited(helper::SUCCESS), NetworkMode::None) => "loopback only".to_owned(),
        (End::Exited(helper::SUCCESS), _) => match connect_once(m, config)? {
            Ok(summary) => summary,
            Err(why) => format!("warning: no network: {why}"),
        },
        _ => format!("warning: loopback: {}", loopback.reason()),
    };
    let summary = format!("{summary}{}", start_rdma(m, config)?);
    Ok(NetworkResult { hostname, summary })
}

/// Connects once per boot and sets the clock if configured; later calls return the first result.
///
/// # Errors
/// Only an interruption.
pub fn connect_once(m: &mut Machine, config: &Network) -> Result<Result<String, String>, Fault> {
    if let Some(result) = &m.network {
        return Ok(result.clone());
    }
    let result = connect(m, config)?.and_then(|summary| match write_name_servers(config) {
        Ok(()) => Ok(summary),
        Err(e) => Err(format!("{}: {e}", paths::RESOLV_CONF)),
    });
    if result.is_ok() {
        clock::set(m, config)?;
    }
    Ok(m.network.insert(result).clone())
}

/// Children find the interface, wait for its carrier, and give it an address.
fn connect(m: &mut Machine, config: &Network) -> Result<Result<String, String>, Fault> {
    if let NetworkMode::LinkLocal(ports) = &config.connection {
        return take_link_local(m, config, ports);
    }
    let mut name = String::new();
    let mut named = |line: &str| line.clone_into(&mut name);
    let found = m.run(
        &helper::find_interface(config),
        &mut on_output(&mut named),
        |_| true,
    )?;
    if found.end != End::Exited(helper::SUCCESS) {
        return Ok(Err(found.reason()));
    }
    let left = config.timeout_s.saturating_sub(found.took);
    let (spec, how) = match &config.connection {
        NetworkMode::Static {
            address,
            prefix,
            gateway,
        } => {
            let address = format!("{address}/{prefix}");
            (
                helper::set_address(&name, &address, *gateway, left),
                address,
            )
        }
        _ => {
            let time = config.time.contains(&TimeSource::Dhcp);
            (
                helper::ask_for_lease(&name, left, time),
                "by DHCP".to_owned(),
            )
        }
    };
    let done = m.run(&spec, &mut no_lines, |_| true)?;
    Ok(match (done.end, &config.connection) {
        (End::Exited(0), _) => {
            m.interfaces = vec![name.clone()];
            Ok(format!("{name} {how}"))
        }
        (End::Exited(1), NetworkMode::Dhcp) => Err(format!(
            "{name}: no DHCP lease within {} s",
            config.timeout_s.as_secs()
        )),
        _ => Err(format!("{name}: {}", done.reason())),
    })
}

/// A child takes link-local addresses, and leaves another one that keeps them.
fn take_link_local(
    m: &mut Machine,
    config: &Network,
    ports: &[CardSelector],
) -> Result<Result<String, String>, Fault> {
    let (mut names, mut keeper, mut summary) = (Vec::new(), None, String::new());
    let mut line = |line: &str| {
        if let Some(name) = line.strip_prefix(helper::PORT) {
            names.push(name.to_owned());
        } else if let Some(id) = line.strip_prefix(helper::KEEPER) {
            keeper = id
                .parse()
                .ok()
                .and_then(Pid::from_raw)
                .and_then(|id| process::pidfd(id).ok());
        } else {
            line.clone_into(&mut summary);
        }
    };
    let spec = helper::take_link_local(ports, config.timeout_s);
    let done = m.run(&spec, &mut on_output(&mut line), |_| true)?;
    if done.end != End::Exited(helper::SUCCESS) {
        return Ok(Err(done.reason()));
    }
    let Some(keeper) = keeper else {
        return Ok(Err("the keeper of the addresses has ended".to_owned()));
    };
    (m.address_keeper, m.interfaces) = (Some(keeper), names);
    Ok(Ok(summary))
}

/// Ends the child that keeps link-local addresses. The addresses and the routes stay.
pub fn end_keeper(m: &mut Machine) {
    if let Some(keeper) = m.address_keeper.take()
        && !process::end(keeper.as_fd(), GRACE)
    {
        info!("warning: the keeper of the link-local addresses does not end");
    }
}

/// Starts that child again, after a recovery has ended all processes. It takes the same addresses.
///
/// # Errors
/// Only an interruption.
pub fn restart_keeper(m: &mut Machine, config: &Network) -> Result<(), Fault> {
    if let (Some(_), NetworkMode::LinkLocal(ports)) = (m.address_keeper.take(), &config.connection)
        && let Err(why) = take_link_local(m, config, ports)?
    {
        info!("warning: link-local addresses: {why}");
    }
    Ok(())
}

/// Starts RDMA where it is wanted; returns the end of the stage's line.
fn start_rdma(m: &Machine, config: &Network) -> Result<String, Fault> {
    if !config.rdma {
        return Ok(String::new());
    }
    let mut devices = String::new();
    let spec = helper::start_rdma(config.soft_roce, &m.interfaces);
    let done = m.run(
        &spec,
        &mut on_output(|line| line.clone_into(&mut devices)),
        |_| true,
    )?;
    Ok(match done.end {
        End::Exited(helper::SUCCESS) if devices.is_empty() => String::new(),
        End::Exited(helper::SUCCESS) => format!(", RDMA {devices}"),
        _ => format!(", warning: no RDMA: {}", done.reason()),
    })
}

/// Replaces the name servers from DHCP.
fn write_name_servers(config: &Network) -> std::io::Result<()> {
    let lines: String = config
        .dns
        .iter()
        .map(|server| format!("nameserver {server}\n"))
        .collect();
    if lines.is_empty() {
        Ok(())
    } else {
        write_atomically(Path::new(paths::RESOLV_CONF), lines.as_bytes())
    }
}
