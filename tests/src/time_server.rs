//! A small NTP server on the loopback that says what it is told to say. A virtual machine reaches it at 10.0.2.2.

use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the server says.
#[derive(Debug, Clone, Copy)]
pub struct Says {
    /// Two bits: 3 is a clock that was never set.
    pub leap: u8,
    /// 1 to 15; 0 and 16 say that it has no time.
    pub stratum: u8,
    /// How far it is ahead of this machine, in seconds.
    pub ahead: i64,
}

/// What a good server says.
pub const RIGHT: Says = Says { leap: 0, stratum: 2, ahead: 0 };

/// From 1900, where NTP counts from, to 1970.
const TO_UNIX: i64 = 2_208_988_800;

/// Starts one, which serves until the test ends; its address as `host` sees it. Without anything to say it is silent.
///
/// # Panics
/// When there is no loopback.
#[must_use]
pub fn start(host: &str, says: Option<Says>) -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut question = [0; 48];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            // Who asks and goes has its reasons.
            let _gone = says.map(|says| socket.send_to(&answer(&question, says), from));
        }
    });
    format!("{host}:{port}")
}

/// RFC 5905, figure 8.
fn answer(question: &[u8; 48], says: Says) -> [u8; 48] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = i64::try_from(now.as_secs()).unwrap_or(0) + TO_UNIX + says.ahead;
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    // Seconds of the era: NTP keeps the lower half.
    let time = ((seconds.cast_unsigned() << 32) | fraction).to_be_bytes();
    let mut answer = [0; 48];
    // Version 4, mode server.
    answer[0] = (says.leap << 6) | 0x24;
    answer[1] = says.stratum;
    answer[12..16].copy_from_slice(&[127, 0, 0, 1]);
    answer[24..32].copy_from_slice(&question[40..48]);
    answer[32..40].copy_from_slice(&time);
    answer[40..48].copy_from_slice(&time);
    answer
}
