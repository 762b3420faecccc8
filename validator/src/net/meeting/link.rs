//! A connection to a proven peer. Every message has a MAC with the key of this connection that also covers its direction
//! and number, so that it cannot be changed, repeated, or sent by another machine.

use super::LONGEST;
use super::seal::{BYTES, Bytes, fed};
use super::wire::{Cut, receive, send};
use hmac::Mac;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Guest,
}

impl Side {
    const fn label(self) -> &'static str {
        match self {
            Self::Host => "from the host",
            Self::Guest => "to the host",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Host => Self::Guest,
            Self::Guest => Self::Host,
        }
    }
}

/// A connection to a proven peer.
#[derive(Debug)]
pub struct Link {
    /// Sends.
    pub to: Speaker,
    /// Receives.
    pub from: Listener,
}

/// How long a peer's machine may acknowledge nothing before the kernel closes the connection, ms. This applies to data
/// that was sent; while nothing is sent, the kernel sends keep-alive probes after 3 s of silence and then each second.
const GONE_MS: u32 = 10_000;
const IDLE: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_secs(1);
const PROBES: u32 = 7;

impl Link {
    pub(super) fn new(stream: TcpStream, key: Bytes, own: Side) -> Result<Self, Cut> {
        stream.set_nodelay(true)?;
        let alive = || {
            set_socket_keepalive(&stream, true)?;
            set_tcp_keepidle(&stream, IDLE)?;
            set_tcp_keepintvl(&stream, BETWEEN)?;
            set_tcp_keepcnt(&stream, PROBES)?;
            set_tcp_user_timeout(&stream, GONE_MS)
        };
        alive().map_err(io::Error::from)?;
        let from = Listener { stream: stream.try_clone()?, key, side: own.other(), count: 0 };
        Ok(Self { to: Speaker { stream, key, side: own, count: 0 }, from })
    }
}

/// The sending half.
pub struct Speaker {
    stream: TcpStream,
    key: Bytes,
    side: Side,
    count: u64,
}

/// The receiving half.
pub struct Listener {
    stream: TcpStream,
    key: Bytes,
    side: Side,
    count: u64,
}

impl Speaker {
    /// Sends a message.
    ///
    /// # Errors
    /// See [`Cut`].
    pub fn say(&mut self, what: &impl Serialize, within: Duration) -> Result<(), Cut> {
        let body = serde_json::to_vec(what).map_err(|e| Cut::Broken(e.to_string()))?;
        let mac = fed(&self.key, self.side.label(), &[&self.count.to_le_bytes(), &body]);
        let mac = mac.ok_or_else(|| Cut::Broken("no MAC".to_owned()))?.finalize().into_bytes();
        self.count += 1;
        let mut bytes = mac.to_vec();
        bytes.extend_from_slice(&body);
        if bytes.len() > LONGEST {
            return Err(Cut::Broken(format!("a message of {} bytes, allowed: {LONGEST}", bytes.len())));
        }
        send(&mut self.stream, &bytes, within)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The system's error.
    pub fn own_address(&self) -> io::Result<std::net::SocketAddr> {
        let own = self.stream.local_addr()?;
        Ok(std::net::SocketAddr::new(own.ip().to_canonical(), own.port()))
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// The system's error.
    pub fn other_address(&self) -> io::Result<std::net::SocketAddr> {
        let other = self.stream.peer_addr()?;
        Ok(std::net::SocketAddr::new(other.ip().to_canonical(), other.port()))
    }

    /// Makes the next message reuse the number of the last one.
    #[cfg(test)]
    pub(super) fn again(&mut self) {
        self.count -= 1;
    }

    #[cfg(test)]
    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Closes the connection in both directions.
    pub fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Listener {
    /// The next message.
    ///
    /// # Errors
    /// See [`Cut`].
    pub fn hear<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T, Cut> {
        let bytes = receive(&mut self.stream, LONGEST, within)?;
        let refused = |why: &str| Cut::Malformed(why.to_owned());
        let (mac, body) = bytes.split_at_checked(BYTES).ok_or_else(|| refused("it has no MAC"))?;
        let fed = fed(&self.key, self.side.label(), &[&self.count.to_le_bytes(), body]);
        if fed.is_none_or(|fed| fed.verify_slice(mac).is_err()) {
            return Err(refused("its MAC is wrong: it was changed, repeated, or sent by another"));
        }
        self.count += 1;
        serde_json::from_slice(body).map_err(|e| Cut::Malformed(e.to_string()))
    }
}

impl std::fmt::Debug for Speaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Speaker({:?})", self.stream.peer_addr())
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listener({:?})", self.stream.peer_addr())
    }
}
