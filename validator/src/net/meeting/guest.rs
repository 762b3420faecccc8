//! The connecting side.

use super::link::Link;
use super::seal::{Refusal, Token, enter};
use super::wire::Cut;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of one attempt, and the pause before the next.
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// The time limit of the proof.
const PROOF: Duration = Duration::from_secs(10);

/// Why a node could not join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoEntry {
    /// Nothing listens there, or the host cannot be reached; the last error.
    #[error("nothing answers: {0}")]
    Nothing(String),
    /// It has another token.
    #[error("it has another token")]
    Token,
    /// It has another version of the protocol.
    #[error("it speaks {0}")]
    Protocol(String),
    /// Something else listens there.
    #[error("it is no firstlight: {0}")]
    Stranger(Cut),
}

/// Connects to the first of `hosts` that answers, retrying until `due`, and proves that it knows the token.
///
/// # Errors
/// See [`NoEntry`]. If a connection closes before its first message, the host may not be ready yet or may be done:
/// the connection is retried.
pub fn join(hosts: &[SocketAddr], token: &Token, name: &str, due: Instant) -> Result<Link, NoEntry> {
    let mut last = NoEntry::Nothing("no address".to_owned());
    for host in hosts.iter().cycle() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(host, left.min(ATTEMPT)) {
            Ok(stream) => match enter(stream, token, name, left.min(PROOF)) {
                Ok(link) => return Ok(link),
                Err(Refusal::Token(_)) => return Err(NoEntry::Token),
                Err(Refusal::Protocol(theirs)) => return Err(NoEntry::Protocol(theirs)),
                Err(Refusal::Cut(cut @ Cut::Malformed(_))) => return Err(NoEntry::Stranger(cut)),
                Err(Refusal::Cut(cut)) => last = NoEntry::Stranger(cut),
            },
            Err(error) => last = NoEntry::Nothing(error.to_string()),
        }
        thread::sleep(PAUSE.min(due.saturating_duration_since(Instant::now())));
    }
    Err(last)
}
