//! A connection to a proven peer. Every message has a MAC with the key of this connection that also covers its direction
//! and number, so that it cannot be changed, repeated, or sent by another machine.

use super::MAX_MESSAGE;
use super::handshake::{Bytes32, HASH_BYTES, keyed_mac};
use super::wire::{LinkError, receive, send};
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
    /// The sending half.
    pub to: LinkSender,
    /// The receiving half.
    pub from: LinkReceiver,
}

/// How long sent data may remain unacknowledged before the kernel closes the connection, ms. While nothing is sent, the
/// kernel sends keep-alive probes after 3 s of silence and then each second.
const USER_TIMEOUT_MS: u32 = 10_000;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(3);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 7;

impl Link {
    pub(super) fn new(stream: TcpStream, key: Bytes32, own: Side) -> Result<Self, LinkError> {
        stream.set_nodelay(true)?;
        let enable_keepalive = || {
            set_socket_keepalive(&stream, true)?;
            set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
            set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
            set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
            set_tcp_user_timeout(&stream, USER_TIMEOUT_MS)
        };
        enable_keepalive().map_err(io::Error::from)?;
        let from = LinkReceiver { stream: stream.try_clone()?, key, side: own.other(), count: 0 };
        Ok(Self { to: LinkSender { stream, key, side: own, count: 0 }, from })
    }
}

/// The sending half of a [`Link`].
pub struct LinkSender {
    stream: TcpStream,
    key: Bytes32,
    side: Side,
    count: u64,
}

/// The receiving half of a [`Link`].
pub struct LinkReceiver {
    stream: TcpStream,
    key: Bytes32,
    side: Side,
    count: u64,
}

impl LinkSender {
    /// Sends a message.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn send(&mut self, message: &impl Serialize, within: Duration) -> Result<(), LinkError> {
        let body = serde_json::to_vec(message).map_err(|e| LinkError::Broken(e.to_string()))?;
        let mac = keyed_mac(&self.key, self.side.label(), &[&self.count.to_le_bytes(), &body]);
        let mac = mac.ok_or_else(|| LinkError::Broken("no MAC".to_owned()))?.finalize().into_bytes();
        self.count += 1;
        let mut bytes = mac.to_vec();
        bytes.extend_from_slice(&body);
        if bytes.len() > MAX_MESSAGE {
            return Err(LinkError::Broken(format!("a message of {} bytes, allowed: {MAX_MESSAGE}", bytes.len())));
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
    pub(super) fn reuse_last_number(&mut self) {
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

impl LinkReceiver {
    /// Receives the next message.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T, LinkError> {
        let bytes = receive(&mut self.stream, MAX_MESSAGE, within)?;
        let malformed = |why: &str| LinkError::Malformed(why.to_owned());
        let (mac, body) = bytes.split_at_checked(HASH_BYTES).ok_or_else(|| malformed("it has no MAC"))?;
        let mac_state = keyed_mac(&self.key, self.side.label(), &[&self.count.to_le_bytes(), body]);
        if mac_state.is_none_or(|state| state.verify_slice(mac).is_err()) {
            return Err(malformed("its MAC is wrong: it was changed, repeated, or sent by another"));
        }
        self.count += 1;
        serde_json::from_slice(body).map_err(|e| LinkError::Malformed(e.to_string()))
    }
}

impl std::fmt::Debug for LinkSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LinkSender({:?})", self.stream.peer_addr())
    }
}

impl std::fmt::Debug for LinkReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LinkReceiver({:?})", self.stream.peer_addr())
    }
}
