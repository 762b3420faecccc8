//! The only NTP client: queries servers for the time once, and rejects implausible answers. The caller decides
//! whether to set the clock. Its own datagrams: the libraries take the first datagram that arrives for the answer, and read an
//! unknown time as February 2036.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
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
        write!(
            f,
            "{sign}{}.{:06}",
            self.by.as_secs(),
            self.by.subsec_micros()
        )
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
    while let Ok((server, answer)) =
        answers.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        match answer {
            Ok(offset) => return Ok((server, offset)),
            Err(why) => failures.push((server, why)),
        }
    }
    let line = |server: &String| {
        let why = failures
            .iter()
            .find(|(other, _)| other == server)
            .map(|(_, why)| why.clone());
        format!("{server}: {}", why.unwrap_or_else(|| timeout_text(within)))
    };
    Err(servers.iter().map(line).collect::<Vec<_>>().join("; "))
}

fn timeout_text(within: Duration) -> String {
    format!("no answer within {} s", within.as_secs())
}

/// How many requests are sent to a server, and the pause before the next one: a datagram may be lost.
const MAX_REQUESTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// Sends requests until one is answered. Any host can send datagrams that seem to be of the server: those that do not repeat
/// the number of the last request are no answer, and are ignored.
fn exchange(server: &str, within: Duration) -> Result<ClockOffset, String> {
    let until = Instant::now() + within;
    let io = |e: &io::Error| e.to_string();
    let address = resolve(server).map_err(|e| io(&e))?;
    let own = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(own)
        .and_then(|socket| socket.connect(address).map(|()| socket))
        .map_err(|e| io(&e))?;
    for request in 1..=MAX_REQUESTS {
        let number = packet::number().map_err(|e| io(&e))?;
        socket.send(&packet::request(number)).map_err(|e| io(&e))?;
        let (sent, then) = (Instant::now(), SystemTime::now());
        let last = request == MAX_REQUESTS;
        let due = if last { until } else { until.min(sent + PAUSE) };
        while let Some(left) = due
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            socket.set_read_timeout(Some(left)).map_err(|e| io(&e))?;
            let mut bytes = [0; packet::LENGTH];
            match socket.recv(&mut bytes) {
                Ok(length) => {
                    let took = sent.elapsed();
                    let Some(answer) = bytes
                        .get(..length)
                        .and_then(|bytes| packet::answer(bytes, number))
                    else {
                        continue;
                    };
                    let times = answer?;
                    let (offset, round_trip) = times.against(then, took);
                    return check_plausible(offset, round_trip, SystemTime::now(), within);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(io(&e)),
            }
        }
    }
    Err(timeout_text(within))
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

/// The datagrams of NTP (RFC 5905), as a client needs them. Pure, except for the random number.
mod packet {
    use std::io;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    /// Bytes of a datagram without extensions.
    pub(super) const LENGTH: usize = 48;
    /// No leap warning, version 4, a client's request.
    const CLIENT: u8 = 0b00_100_011;
    const SERVER: u8 = 4;
    /// Seconds from 1900, where NTP's times begin, to 1970.
    const EPOCH: f64 = 2_208_988_800.0;

    /// A random number, which only who has seen the request can repeat. It takes the place of the time of sending, which need
    /// not be told.
    pub(super) fn number() -> io::Result<[u8; 8]> {
        let mut bytes = [0; 8];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if got == bytes.len() {
            Ok(bytes)
        } else {
            Err(io::Error::other("the kernel gave too few random bytes"))
        }
    }

    pub(super) fn request(number: [u8; 8]) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes
            .iter_mut()
            .zip([CLIENT])
            .for_each(|(to, from)| *to = from);
        bytes
            .iter_mut()
            .skip(40)
            .zip(number)
            .for_each(|(to, from)| *to = from);
        bytes
    }

    /// When the server received the request and sent the answer, seconds since 1970.
    #[derive(Debug, PartialEq)]
    pub(super) struct Times {
        pub(super) received: f64,
        pub(super) sent: f64,
    }

    /// Reads an answer to the request with this number; `None`: the datagram is none.
    pub(super) fn answer(bytes: &[u8], number: [u8; 8]) -> Option<Result<Times, String>> {
        let [flags, stratum, ..] = *bytes else {
            return None;
        };
        let eight = |at: usize| {
            bytes
                .get(at..at + 8)
                .and_then(|part| <[u8; 8]>::try_from(part).ok())
        };
        let (repeated, received, sent) = (eight(24)?, eight(32)?, eight(40)?);
        let (leap, version, mode) = (flags >> 6, flags >> 3 & 7, flags & 7);
        if mode != SERVER || !matches!(version, 3 | 4) || repeated != number {
            return None;
        }
        let refused = |why: &str| Some(Err(why.to_owned()));
        match (leap, stratum) {
            (_, 0) => return refused("it refuses to answer (Kiss-o'-Death)"),
            (3, _) | (_, 16..) => return refused("its clock is not synchronized"),
            _ => {}
        }
        match (time(received), time(sent)) {
            (Some(received), Some(sent)) => Some(Ok(Times { received, sent })),
            _ => refused("sent no time"),
        }
    }

    /// A time of 32 bits of seconds and 32 of their fraction; 0 means unknown. Seconds below 2^31 are after February 2036.
    fn time(bytes: [u8; 8]) -> Option<f64> {
        let all = u64::from_be_bytes(bytes);
        #[expect(clippy::cast_precision_loss, reason = "some microseconds are lost")]
        let seconds = all as f64 / f64::from(2_u32).powi(32);
        let after = if all >> 63 == 0 {
            f64::from(2_u32).powi(32)
        } else {
            0.0
        };
        (all != 0).then_some(seconds + after - EPOCH)
    }

    impl Times {
        /// The offset of this machine's clock and the time on the way, seconds; the request was sent at `then`, and the
        /// answer arrived `took` later.
        pub(super) fn against(&self, then: SystemTime, took: Duration) -> (f64, f64) {
            let then = match then.duration_since(UNIX_EPOCH) {
                Ok(since) => since.as_secs_f64(),
                Err(before) => -before.duration().as_secs_f64(),
            };
            let took = took.as_secs_f64();
            let offset = f64::midpoint(self.received - then, self.sent - (then + took));
            (offset, took - (self.sent - self.received))
        }
    }
}

fn check_plausible(
    offset: f64,
    round_trip: f64,
    now: SystemTime,
    within: Duration,
) -> Result<ClockOffset, String> {
    // The offset may be wrong by half of the round trip, which clocks of slightly different rates can make negative.
    if !(-0.1..=within.as_secs_f64()).contains(&round_trip) {
        return Err(format!("says that its answer took {round_trip:.3} s"));
    }
    let by =
        Duration::try_from_secs_f64(offset.abs()).map_err(|_| "sent no valid time".to_owned())?;
    let forward = offset >= 0.0;
    let then = if forward {
        now.checked_add(by)
    } else {
        now.checked_sub(by)
    };
    let seconds = then
        .and_then(|then| then.duration_since(UNIX_EPOCH).ok())
        .map(|d| d.as_secs());
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
        for (offset, round_trip) in [
            (-1_800_000_000.0, 0.0),
            (3e9, 0.0),
            (f64::NAN, 0.0),
            (0.0, -1.0),
            (0.0, 4.5),
        ] {
            assert!(
                check_plausible(offset, round_trip, at(1_800_000_000), WITHIN).is_err(),
                "{offset} {round_trip}"
            );
        }
    }

    /// Seconds since 1900 of a plausible time.
    const TIME: u64 = (1_800_000_000 + 2_208_988_800) << 32;

    /// The answer to a request; the time is in both places.
    fn answer_to(request: &[u8], flags: u8, stratum: u8, time: u64) -> Vec<u8> {
        let mut bytes = vec![flags, stratum];
        bytes.resize(24, 0);
        bytes.extend_from_slice(&request[40..48]);
        bytes.extend_from_slice(&time.to_be_bytes());
        bytes.extend_from_slice(&time.to_be_bytes());
        bytes
    }

    const GOOD: (u8, u8) = (0b00_100_100, 2);

    /// Asks a server that sends these datagrams to each request.
    fn asked(
        answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static,
        within: Duration,
    ) -> Result<ClockOffset, String> {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        server
            .set_read_timeout(Some(within + Duration::from_secs(1)))
            .unwrap();
        let serving = thread::spawn(move || {
            let mut bytes = [0; 100];
            while let Ok((length, from)) = server.recv_from(&mut bytes) {
                for answer in answers(&bytes[..length]) {
                    // The client may be done.
                    let _ = server.send_to(&answer, from);
                }
            }
        });
        let answer = exchange(&address, within);
        drop(serving);
        answer
    }

    #[test]
    fn wrong_datagrams_before_the_right_one_are_ignored() {
        let answers = |request: &[u8]| {
            let right = answer_to(request, GOOD.0, GOOD.1, TIME);
            let mut other = right.clone();
            other[24] ^= 1;
            let (short, client) = (
                right[..47].to_vec(),
                [&[0b00_100_011], &right[1..]].concat(),
            );
            vec![b"short".to_vec(), vec![0; 48], other, short, client, right]
        };
        let offset = asked(answers, WITHIN).unwrap();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let signed = if offset.forward {
            offset.by.as_secs_f64()
        } else {
            -offset.by.as_secs_f64()
        };
        assert!((now + signed - 1_800_000_000.0).abs() < 5.0, "{offset}");
    }

    #[test]
    fn an_answer_without_a_time_or_from_a_clock_that_is_not_set_is_refused() {
        for (flags, stratum, time, why) in [
            (GOOD.0, GOOD.1, 0, "sent no time"),
            (GOOD.0, 0, TIME, "refuses to answer"),
            (GOOD.0, 16, TIME, "not synchronized"),
            (0b11_100_100, 2, TIME, "not synchronized"),
            (GOOD.0, GOOD.1, 1 << 63, "its clock is wrong: before 2026"),
        ] {
            let said = asked(
                move |request| vec![answer_to(request, flags, stratum, time)],
                WITHIN,
            )
            .unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let said = asked(|_| vec![vec![0; 48]], Duration::from_secs(1)).unwrap_err();
        assert_eq!(said, "no answer within 1 s");
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
            assert_eq!(
                resolve(server).unwrap(),
                address.parse().unwrap(),
                "{server}"
            );
        }
    }
}
