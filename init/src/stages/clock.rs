//! Sets the clock from a time server, once per boot, as soon as the network is up: before a certificate is
//! checked or a report is dated. A child asks the servers; a failure is a warning. The machine's hardware
//! clock (RTC) is not changed.

use crate::child::{End, Stream};
use crate::config::types::{Network, TimeSource};
use crate::fault::Fault;
use crate::file_io::read_at_most;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::sys::kernel::{ClockCorrection, move_clock};
use log::info;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Size limit of the list of servers.
const LARGEST: u64 = 64 << 10;

/// Sets the clock if `network.time` names a server.
///
/// # Errors
/// Only an interruption.
pub(super) fn set(m: &Machine, config: &Network) -> Result<(), Fault> {
    if config.time.is_empty() {
        return Ok(());
    }
    let from_dhcp = read_at_most(Path::new(paths::TIME_SERVERS), LARGEST).ok();
    let from_dhcp = from_dhcp.and_then(|bytes| String::from_utf8(bytes).ok());
    let set = match servers(&config.time, from_dhcp.as_deref()) {
        servers if servers.is_empty() => Err("DHCP names no time server".to_owned()),
        servers => ask(m, &servers)?,
    };
    match set {
        Ok((server, moved)) => info!("time      clock set from {server}, moved by {moved} s"),
        Err(why) => info!("warning: the clock was not set: {why}"),
    }
    Ok(())
}

/// The servers to ask; `from_dhcp` is the list of those that DHCP named.
fn servers(sources: &[TimeSource], from_dhcp: Option<&str>) -> Vec<String> {
    let by_dhcp: Vec<_> = from_dhcp
        .unwrap_or("")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let of = |source: &TimeSource| match source {
        TimeSource::Dhcp => by_dhcp.clone(),
        TimeSource::Server(name) => vec![name.clone()],
    };
    sources.iter().flat_map(of).collect()
}

/// Asks the servers; returns the one that answered and the correction of the clock.
fn ask(
    m: &Machine,
    servers: &[String],
) -> Result<Result<(String, ClockCorrection), String>, Fault> {
    let mut answers = Vec::new();
    let mut line = |stream: Stream, line: &str| {
        let answer = (stream == Stream::Out).then(|| answer(line)).flatten();
        let taken = answer.is_some();
        answers.extend(answer);
        taken
    };
    let done = m.run(&helper::ask_time(servers), &mut line, |_| true)?;
    Ok(match (done.end, answers.pop()) {
        (End::Exited(helper::SUCCESS), Some((server, by))) => move_clock(by)
            .map(|()| (server, by))
            .map_err(|e| e.to_string()),
        _ => Err(done.reason_after("firstlight: ")),
    })
}

/// `SERVER +SECONDS.MICROSECONDS`
fn answer(line: &str) -> Option<(String, ClockCorrection)> {
    let (server, by) = line.split_once(' ')?;
    let forward = by.starts_with('+');
    let (seconds, micros) = by.strip_prefix(['+', '-'])?.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if micros.len() != 6 || !digits(micros) || !digits(seconds) {
        return None;
    }
    let micros: u32 = micros.parse().ok()?;
    let by = Duration::new(seconds.parse().ok()?, micros * 1000);
    Some((server.to_owned(), ClockCorrection { forward, by }))
}

impl fmt::Display for ClockCorrection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.forward { '+' } else { '-' };
        write!(
            f,
            "{sign}{}.{:03}",
            self.by.as_secs(),
            self.by.subsec_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_server_and_a_move() {
        let (server, by) = answer("10.0.0.1 -12.500000").unwrap();
        assert_eq!(
            (server.as_str(), by.to_string().as_str()),
            ("10.0.0.1", "-12.500")
        );
        assert_eq!(
            answer("h +800000000.000001").unwrap().1.by,
            Duration::new(800_000_000, 1000)
        );
        for bad in [
            "",
            "h",
            "h 12.500000",
            "h +1",
            "h +1.5",
            "h ++1.000000",
            "h +1.00000x",
            "h +-1.000000",
        ] {
            assert_eq!(answer(bad), None, "{bad}");
        }
    }

    #[test]
    fn servers_from_dhcp_take_the_place_of_the_word_dhcp() {
        let server = |name: &str| TimeSource::Server(name.to_owned());
        let sources = [server("a"), TimeSource::Dhcp, server("d")];
        assert_eq!(servers(&sources, Some("b c\n")), ["a", "b", "c", "d"]);
        assert_eq!(servers(&[TimeSource::Dhcp], None), [""; 0]);
    }
}
