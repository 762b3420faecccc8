//! Messages on a TCP connection: their length in four bytes (little endian), then their bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Why a connection failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer closed it.
    #[error("it closed the connection")]
    Gone,
    /// Its machine no longer acknowledges anything.
    #[error("its machine does not answer: its power, a cable or the network between is gone")]
    Unreachable,
    /// Nothing arrived in time.
    #[error("no message within {:.1} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The received bytes are not a message of this protocol, or not from the proven peer.
    #[error("its message is refused: {0}")]
    Malformed(String),
    /// The system's error.
    #[error("{0}")]
    Broken(String),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                Self::Gone
            }
            ErrorKind::ConnectionAborted => Self::Gone,
            // A socket's own timeout is `WouldBlock`.
            ErrorKind::TimedOut | ErrorKind::HostUnreachable => Self::Unreachable,
            ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Self::Unreachable,
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// Sends one message.
pub(super) fn send(
    stream: &mut TcpStream,
    bytes: &[u8],
    within: Duration,
) -> Result<(), LinkError> {
    let length = u32::try_from(bytes.len())
        .map_err(|_| LinkError::Broken("the message is too long".to_owned()))?;
    let mut whole = length.to_le_bytes().to_vec();
    whole.extend_from_slice(bytes);
    let due = Instant::now() + within;
    let mut rest = whole.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(time_left(due, within)?))?;
        match stream.write(rest) {
            Ok(0) => return Err(LinkError::Gone),
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(error) => check_timeout(error, due, within)?,
        }
    }
    Ok(())
}

/// Receives one message of at most `most` bytes.
pub(super) fn receive(
    stream: &mut TcpStream,
    most: usize,
    within: Duration,
) -> Result<Vec<u8>, LinkError> {
    let due = Instant::now() + within;
    let mut length = [0; 4];
    read_full(stream, &mut length, due, within)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(LinkError::Malformed(format!(
            "{length} bytes, allowed: {most}"
        )));
    }
    let mut bytes = vec![0; length];
    read_full(stream, &mut bytes, due, within)?;
    Ok(bytes)
}

fn read_full(
    stream: &mut TcpStream,
    bytes: &mut [u8],
    due: Instant,
    within: Duration,
) -> Result<(), LinkError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_read_timeout(Some(time_left(due, within)?))?;
        match stream.read(rest) {
            Ok(0) => return Err(LinkError::Gone),
            Ok(n) => rest = rest.get_mut(n..).unwrap_or_default(),
            Err(error) => check_timeout(error, due, within)?,
        }
    }
    Ok(())
}

fn time_left(due: Instant, within: Duration) -> Result<Duration, LinkError> {
    let left = due.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(LinkError::Silent(within))
    } else {
        Ok(left.max(Duration::from_millis(1)))
    }
}

fn check_timeout(error: io::Error, due: Instant, within: Duration) -> Result<(), LinkError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        // The socket's timeout, which may expire a little early.
        ErrorKind::WouldBlock => time_left(due, within).map(drop),
        _ => Err(error.into()),
    }
}
