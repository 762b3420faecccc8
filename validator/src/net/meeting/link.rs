//! A connection to a proven peer. Every message is encrypted and authenticated with the keys of this connection, which are others for
//! each direction, and with its number, so that it cannot be read, changed, repeated, or sent by another machine.

use super::MAX_MESSAGE;
use super::wire::{LinkError, receive, send};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::StatelessTransportState;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// The longest message of Noise (section 3), and the bytes of it that are the tag.
const PIECE: usize = 65_535;
const TAG: usize = 16;
/// The length of a message, before its first byte: the pieces of a message cannot end early.
const LENGTH: usize = 4;

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
    pub(super) fn new(stream: TcpStream, keys: StatelessTransportState) -> Result<Self, LinkError> {
        stream.set_nodelay(true)?;
        let enable_keepalive = || {
            set_socket_keepalive(&stream, true)?;
            set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
            set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
            set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
            set_tcp_user_timeout(&stream, USER_TIMEOUT_MS)
        };
        enable_keepalive().map_err(io::Error::from)?;
        let keys = Arc::new(keys);
        let from = LinkReceiver {
            stream: stream.try_clone()?,
            keys: Arc::clone(&keys),
            count: 0,
        };
        Ok(Self {
            to: LinkSender {
                stream,
                keys,
                count: 0,
            },
            from,
        })
    }
}

/// The sending half of a [`Link`].
pub struct LinkSender {
    stream: TcpStream,
    keys: Arc<StatelessTransportState>,
    /// The number of the next piece.
    count: u64,
}

/// The receiving half of a [`Link`].
pub struct LinkReceiver {
    stream: TcpStream,
    keys: Arc<StatelessTransportState>,
    /// The number of the next piece.
    count: u64,
}

impl LinkSender {
    /// Sends a message.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn send(&mut self, message: &impl Serialize, within: Duration) -> Result<(), LinkError> {
        let body = serde_json::to_vec(message).map_err(|e| LinkError::Broken(e.to_string()))?;
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let plain = [&length.to_le_bytes()[..], &body].concat();
        let mut bytes = Vec::new();
        for piece in plain.chunks(PIECE - TAG) {
            let mut sealed = vec![0; piece.len() + TAG];
            let sealed_bytes = self.keys.write_message(self.count, piece, &mut sealed);
            sealed.truncate(sealed_bytes.map_err(|e| LinkError::Broken(e.to_string()))?);
            self.count += 1;
            bytes.append(&mut sealed);
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(LinkError::Broken(format!(
                "a message of {} bytes, allowed: {MAX_MESSAGE}",
                bytes.len()
            )));
        }
        send(&mut self.stream, &bytes, within)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The system's error.
    pub fn own_address(&self) -> io::Result<std::net::SocketAddr> {
        let own = self.stream.local_addr()?;
        Ok(std::net::SocketAddr::new(
            own.ip().to_canonical(),
            own.port(),
        ))
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// The system's error.
    pub fn other_address(&self) -> io::Result<std::net::SocketAddr> {
        let other = self.stream.peer_addr()?;
        Ok(std::net::SocketAddr::new(
            other.ip().to_canonical(),
            other.port(),
        ))
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
        let mut plain = Vec::new();
        for piece in bytes.chunks(PIECE) {
            let mut opened = vec![0; piece.len()];
            let opened_bytes = self.keys.read_message(self.count, piece, &mut opened);
            opened.truncate(
                opened_bytes
                    .map_err(|_| malformed("it was changed, repeated, or sent by another"))?,
            );
            self.count += 1;
            plain.append(&mut opened);
        }
        let (length, body) = plain
            .split_at_checked(LENGTH)
            .ok_or_else(|| malformed("it has no length"))?;
        if u32::try_from(body.len())
            .ok()
            .map(u32::to_le_bytes)
            .as_ref()
            .map(|own| &own[..])
            != Some(length)
        {
            return Err(malformed("it is incomplete"));
        }
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
