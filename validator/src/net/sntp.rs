//! The only NTP client: queries servers for the time once, and rejects implausible answers. The caller decides
//! whether to set the clock.

use rsntp::{Config, ProtocolError, SntpClient, SynchronizationError, SynchronizationResult};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The port of NTP servers.
const PORT: u16 = 123;
/// No server's clock is before 2026-01-01, when this was written, or after 2100-01-01: such a clock was never
/// set.
const PLAUSIBLE_TIMES: std::ops::Range<u64> = 1_767_225_600..4_102_444_800;

/// The correction that this machine's clock needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Whether the clock is behind, so that it must be set forward.
    pub forward: bool,
    /// The amount.
    pub by: Duration,
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.forward { '+' } else { '-' };
        write!(f, "{sign}{}.{:06}", self.by.as_secs(), self.by.subsec_micros())
    }
}

/// Queries all servers at the same time; returns the first plausible answer and its server.
///
/// # Errors
/// The failure of each server, in one line.
pub fn query(servers: &[String], within: Duration) -> Result<(String, ClockOffset), String> {
    let until = Instant::now() + within;
    let (sender, answers) = channel();
    for server in servers {
        let (sender, server) = (sender.clone(), server.clone());
        // A name lookup may take longer than the time limit: its thread ends with the process.
        thread::spawn(move || {
            let answer = exchange(&server, within);
            // Another server was faster, or the time was up.
            let _gone = sender.send((server, answer));
        });
    }
    drop(sender);
    let mut failures: Vec<(String, String)> = Vec::new();
    while let Ok((server, answer)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match answer {
            Ok(offset) => return Ok((server, offset)),
            Err(why) => failures.push((server, why)),
        }
    }
    let line = |server: &String| {
        let why = failures.iter().find(|(other, _)| other == server).map(|(_, why)| why.clone());
        format!("{server}: {}", why.unwrap_or_else(|| timeout_text(within)))
    };
    Err(servers.iter().map(line).collect::<Vec<_>>().join("; "))
}

fn timeout_text(within: Duration) -> String {
    format!("no answer within {} s", within.as_secs())
}

/// How many requests are sent to a server, and the pause before the next one.
const MAX_REQUESTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// Sends a request and receives its answer; repeats it if a received datagram is no answer, since any host can send one.
fn exchange(server: &str, within: Duration) -> Result<ClockOffset, String> {
    let until = Instant::now() + within;
    let address = resolve(server).map_err(|e| e.to_string())?;
    let own = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let mut requests = 1;
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(PAUSE);
        let client = SntpClient::with_config(Config::default().bind_address(own).timeout(left));
        match client.synchronize(address) {
            Ok(answer) => return check_answer(&answer, SystemTime::now(), within),
            Err(SynchronizationError::ProtocolError(e)) if is_no_answer(&e) && requests < MAX_REQUESTS => {
                requests += 1;
                thread::sleep(PAUSE);
            }
            Err(e) => return Err(error_text(&e, within)),
        }
    }
}

/// Whether a datagram is not an answer of the server to this request.
const fn is_no_answer(error: &ProtocolError) -> bool {
    use ProtocolError::{InvalidMode, InvalidOriginateTimestamp, InvalidPacketVersion, PacketIsTooShort};
    matches!(error, PacketIsTooShort | InvalidPacketVersion | InvalidMode | InvalidOriginateTimestamp)
}

/// The first address of `HOST` or `HOST:PORT`.
fn resolve(server: &str) -> io::Result<SocketAddr> {
    let bare = server.trim_start_matches('[').trim_end_matches(']');
    let found = match server.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') || host.ends_with(']') => server.to_socket_addrs(),
        _ => (bare, PORT).to_socket_addrs(),
    };
    found?.next().ok_or_else(|| ErrorKind::NotFound.into())
}

fn error_text(error: &SynchronizationError, within: Duration) -> String {
    match error {
        SynchronizationError::IOError(e) if e.kind() == ErrorKind::WouldBlock => timeout_text(within),
        SynchronizationError::IOError(e) => e.to_string(),
        SynchronizationError::ProtocolError(e) => e.to_string(),
    }
}

/// Checks an answer that rsntp accepted: stratum 1 to 15, a leap indicator without alarm, an answer to our
/// request.
fn check_answer(answer: &SynchronizationResult, now: SystemTime, within: Duration) -> Result<ClockOffset, String> {
    check_plausible(answer.clock_offset().as_secs_f64(), answer.round_trip_delay().as_secs_f64(), now, within)
}

fn check_plausible(offset: f64, round_trip: f64, now: SystemTime, within: Duration) -> Result<ClockOffset, String> {
    // The offset may be wrong by half of the round trip, which clocks of slightly different rates can make negative.
    if !(-0.1..=within.as_secs_f64()).contains(&round_trip) {
        return Err(format!("says that its answer took {round_trip:.3} s"));
    }
    let by = Duration::try_from_secs_f64(offset.abs()).map_err(|_| "sent no valid time".to_owned())?;
    let forward = offset >= 0.0;
    let then = if forward { now.checked_add(by) } else { now.checked_sub(by) };
    let seconds = then.and_then(|then| then.duration_since(UNIX_EPOCH).ok()).map(|d| d.as_secs());
    match seconds {
        Some(seconds) if PLAUSIBLE_TIMES.contains(&seconds) => Ok(ClockOffset { forward, by }),
        _ => Err("its clock is wrong: before 2026 or after 2099".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(4);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_clock_that_starts_in_1970_is_moved_to_today() {
        let forward = check_plausible(1_800_000_000.5, 0.01, at(10), WITHIN).unwrap();
        assert_eq!(forward.to_string(), "+1800000000.500000");
        let back = check_plausible(-3600.25, 0.01, at(1_800_000_000), WITHIN).unwrap();
        assert_eq!(back.to_string(), "-3600.250000");
    }

    #[test]
    fn implausible_servers_are_rejected() {
        for (offset, round_trip) in [(-1_800_000_000.0, 0.0), (3e9, 0.0), (f64::NAN, 0.0), (0.0, -1.0), (0.0, 4.5)] {
            assert!(check_plausible(offset, round_trip, at(1_800_000_000), WITHIN).is_err(), "{offset} {round_trip}");
        }
    }

    #[test]
    fn a_datagram_that_is_no_answer_does_not_end_the_exchange() {
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        let requests = thread::spawn(move || {
            let mut bytes = [0; 100];
            (0..MAX_REQUESTS).for_each(|_| {
                let (_, from) = server.recv_from(&mut bytes).unwrap();
                server.send_to(b"short", from).unwrap();
            });
        });
        assert!(exchange(&address, WITHIN).unwrap_err().contains("short"));
        requests.join().unwrap();
    }

    #[test]
    fn a_server_is_an_address_with_or_without_a_port() {
        for (server, address) in [
            ("127.0.0.1", "127.0.0.1:123"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("::1", "[::1]:123"),
            ("[::1]", "[::1]:123"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(resolve(server).unwrap(), address.parse().unwrap(), "{server}");
        }
    }
}
