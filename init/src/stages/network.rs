//! Stage 5: host name, loopback, and the network if one is configured. A network that does not come
//! up is a warning: nothing in a verdict depends on it. Children do the work: a wedged card's driver
//! can hold the lock that every change of a link needs.

use crate::child::{End, Stream};
use crate::config::types::{Network, NetworkMode};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::sys::machine;
use std::fmt;

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
    let loopback = m.run(&helper::loopback(), &mut |_, _| false, |_| true)?;
    let said = match (loopback.end, &config.mode) {
        (End::Exited(helper::FINE), NetworkMode::None) => "loopback only".to_owned(),
        (End::Exited(helper::FINE), mode) => match connect(m, config, mode)? {
            Ok(said) => said,
            Err(why) => format!("warning: no network: {why}"),
        },
        _ => format!("warning: loopback: {}", loopback.reason()),
    };
    Ok(Connected { hostname, said })
}

/// Children find the interface, wait for its carrier, and give it an address.
fn connect(m: &Machine, config: &Network, mode: &NetworkMode) -> Result<Result<String, String>, Fault> {
    let mut name = String::new();
    let mut line = |stream: Stream, line: &str| {
        if stream == Stream::Out {
            line.clone_into(&mut name);
        }
        stream == Stream::Out
    };
    let found = m.run(&helper::find_interface(config), &mut line, |_| true)?;
    if found.end != End::Exited(helper::FINE) {
        return Ok(Err(found.reason()));
    }
    let left = config.timeout.saturating_sub(found.took);
    let (spec, how) = match mode {
        NetworkMode::Static { address, prefix, gateway } => {
            let address = format!("{address}/{prefix}");
            (helper::set_address(&name, &address, *gateway, left), address)
        }
        NetworkMode::Dhcp | NetworkMode::None => (helper::ask_for_lease(&name, left), "by DHCP".to_owned()),
    };
    let done = m.run(&spec, &mut |_, _| false, |_| true)?;
    Ok(match done.end {
        End::Exited(0) => Ok(format!("{name} {how}")),
        _ => Err(format!("{name}: {}", done.reason())),
    })
}
