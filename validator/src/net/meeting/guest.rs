//! The connecting side.

use super::handshake::{HandshakeError, Token, handshake_as_guest};
use super::link::Link;
use super::wire::LinkError;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of one attempt to connect, and the pause before the next.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The time limit of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a node could not join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Nothing listens at the address, or the host cannot be reached; with the last error.
    #[error("nothing answers: {0}")]
    Nothing(String),
    /// The host has another token.
    #[error("it has another token")]
    Token,
    /// The host has another version of the protocol.
    #[error("it speaks {0}")]
    Protocol(String),
    /// Another program listens at the address.
    #[error("it is no firstlight: {0}")]
    Stranger(LinkError),
}

/// Connects to the first of `hosts` that answers, retrying until `due`, and proves that it knows the token.
///
/// # Errors
/// See [`JoinError`]. If a connection closes before its first message, the host may not be ready yet or may be done:
/// the connection is retried.
pub fn join(
    hosts: &[SocketAddr],
    token: &Token,
    name: &str,
    due: Instant,
) -> Result<Link, JoinError> {
    let mut last = JoinError::Nothing("no address".to_owned());
    for host in hosts.iter().cycle() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(host, left.min(CONNECT_TIMEOUT)) {
            Ok(stream) => {
                match handshake_as_guest(stream, token, name, left.min(HANDSHAKE_TIMEOUT)) {
                    Ok(link) => return Ok(link),
                    Err(HandshakeError::Token(_)) => return Err(JoinError::Token),
                    Err(HandshakeError::Protocol(theirs)) => {
                        return Err(JoinError::Protocol(theirs));
                    }
                    Err(HandshakeError::Link(error @ LinkError::Malformed(_))) => {
                        return Err(JoinError::Stranger(error));
                    }
                    Err(HandshakeError::Link(error)) => last = JoinError::Stranger(error),
                }
            }
            Err(error) => last = JoinError::Nothing(error.to_string()),
        }
        thread::sleep(RETRY_PAUSE.min(due.saturating_duration_since(Instant::now())));
    }
    Err(last)
}
