//! The handshake: both sides prove that they know the token by the Noise protocol (<https://noiseprotocol.org/noise.html>, pattern
//! NNpsk0), from which the connection's keys come as well. The host speaks first, with a random number that the handshake covers
//! (its prologue), so that a recorded proof is useless on another connection.

use super::link::Link;
use super::wire::{LinkError, receive, send};
use super::{MAX_NAME, MAX_UNPROVEN_MESSAGE, PROTOCOL};
use hmac::{Hmac, Mac};
use outcome::text::shown;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use snow::{Builder, HandshakeState};
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// Fewest and most characters of a token. A node sends a MAC of it to any program that listens, which may try tokens
/// offline: a short one could be found.
const TOKEN_LENGTHS: (usize, usize) = (16, 256);
/// Bytes of an HMAC-SHA256, of a nonce and of a key.
const HASH_BYTES: usize = 32;
/// Ephemeral keys alone, and the token's key from the first message on.
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Bytes of a message of the handshake: an ephemeral key and the tag of an empty payload.
const HANDSHAKE_BYTES: usize = 48;

type Bytes32 = [u8; HASH_BYTES];

/// The secret that the nodes of one meeting share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of 16 to 256 characters.
    ///
    /// # Errors
    /// The allowed lengths.
    pub fn new(text: &str) -> Result<Self, String> {
        let (least, most) = TOKEN_LENGTHS;
        let text = text.trim();
        let fits =
            (least..=most).contains(&text.chars().count()) && !text.contains(char::is_control);
        let refused = || {
            format!(
                "a token of {} characters; allowed: {least} to {most}",
                text.chars().count()
            )
        };
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(refused())
        }
    }

    /// The name of a meeting of `size` nodes: 16 hexadecimal digits, which do not reveal the token.
    #[must_use]
    pub fn meeting(&self, size: usize) -> Option<String> {
        let mac = self.mac("meeting", &[&(size as u64).to_le_bytes()])?;
        Some(
            mac.iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }

    /// A MAC over each part and its length, so that no two lists of parts give the same bytes.
    fn mac(&self, label: &str, parts: &[&[u8]]) -> Option<Bytes32> {
        // A key of any length is valid.
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(self.0.as_bytes()).ok()?;
        for part in [label.as_bytes()].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        Some(mac.finalize().into_bytes().into())
    }

    /// The Noise handshake of one side, on a connection that the host has begun with `hello`.
    fn noise(&self, hello: &Hello, is_host: bool) -> Result<HandshakeState, LinkError> {
        let key = self
            .mac("link", &[])
            .ok_or_else(|| LinkError::Broken("no key".to_owned()))?;
        let prologue = [hello.protocol.as_bytes(), &hello.nonce].concat();
        let built = || {
            let builder = Builder::new(NOISE.parse()?)
                .psk(0, &key)?
                .prologue(&prologue)?;
            if is_host {
                builder.build_responder()
            } else {
                builder.build_initiator()
            }
        };
        built().map_err(|e| broken(&e))
    }
}

/// What cannot happen with these parameters and buffers.
fn broken(error: &snow::Error) -> LinkError {
    LinkError::Broken(error.to_string())
}

/// Writes the next message of a handshake.
fn next_message(noise: &mut HandshakeState) -> Result<Vec<u8>, LinkError> {
    let mut message = vec![0; HANDSHAKE_BYTES];
    let length = noise
        .write_message(&[], &mut message)
        .map_err(|e| broken(&e))?;
    message.truncate(length);
    Ok(message)
}

/// The token itself is never shown.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a token")
    }
}

/// Random bytes from the kernel.
pub(super) fn nonce() -> Result<Bytes32, LinkError> {
    let mut bytes = [0; HASH_BYTES];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got.map_err(io::Error::from)? {
        HASH_BYTES => Ok(bytes),
        few => Err(LinkError::Broken(format!(
            "the kernel gave {few} random bytes of {HASH_BYTES}"
        ))),
    }
}

#[derive(Serialize, Deserialize)]
struct Hello {
    protocol: String,
    nonce: Bytes32,
}

#[derive(Serialize, Deserialize)]
struct Join {
    name: String,
    noise: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Welcome(Vec<u8>),
    Refused,
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandshakeError {
    /// The peer has another token; with the name that it claims.
    Token(String),
    /// The peer has another version of the protocol.
    Protocol(String),
    /// The connection failed, or the peer does not follow the protocol.
    Link(LinkError),
}

impl From<LinkError> for HandshakeError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

/// The handshake of the listening side.
pub(super) fn handshake_as_host(
    mut stream: TcpStream,
    token: &Token,
    within: Duration,
) -> Result<Link, HandshakeError> {
    let hello = Hello {
        protocol: PROTOCOL.to_owned(),
        nonce: nonce()?,
    };
    let mut noise = token.noise(&hello, true)?;
    send_json(&mut stream, &hello, within)?;
    let join: Join = receive_json(&mut stream, within)?;
    if noise.read_message(&join.noise, &mut []).is_err() {
        // The peer may be gone already.
        let _ = send_json(&mut stream, &Answer::Refused, within);
        return Err(HandshakeError::Token(displayable(&join.name)));
    }
    send_json(
        &mut stream,
        &Answer::Welcome(next_message(&mut noise)?),
        within,
    )?;
    Ok(Link::new(
        stream,
        noise
            .into_stateless_transport_mode()
            .map_err(|e| broken(&e))?,
    )?)
}

/// The handshake of the connecting side.
pub(super) fn handshake_as_guest(
    mut stream: TcpStream,
    token: &Token,
    name: &str,
    within: Duration,
) -> Result<Link, HandshakeError> {
    let hello: Hello = receive_json(&mut stream, within)?;
    if hello.protocol != PROTOCOL {
        return Err(HandshakeError::Protocol(displayable(&hello.protocol)));
    }
    let mut noise = token.noise(&hello, false)?;
    let name = name.chars().take(MAX_NAME).collect();
    send_json(
        &mut stream,
        &Join {
            name,
            noise: next_message(&mut noise)?,
        },
        within,
    )?;
    match receive_json(&mut stream, within)? {
        Answer::Welcome(message) if noise.read_message(&message, &mut []).is_ok() => Ok(Link::new(
            stream,
            noise
                .into_stateless_transport_mode()
                .map_err(|e| broken(&e))?,
        )?),
        Answer::Welcome(_) | Answer::Refused => Err(HandshakeError::Token(String::new())),
    }
}

/// A text from an unproven peer, made safe for display.
fn displayable(text: &str) -> String {
    shown(&text.chars().take(MAX_NAME).collect::<String>())
}

fn send_json(
    stream: &mut TcpStream,
    message: &impl Serialize,
    within: Duration,
) -> Result<(), LinkError> {
    let bytes = serde_json::to_vec(message).map_err(|e| LinkError::Broken(e.to_string()))?;
    send(stream, &bytes, within)
}

fn receive_json<T: DeserializeOwned>(
    stream: &mut TcpStream,
    within: Duration,
) -> Result<T, LinkError> {
    let bytes = receive(stream, MAX_UNPROVEN_MESSAGE, within)?;
    serde_json::from_slice(&bytes)
        .map_err(|_| LinkError::Malformed("it does not begin like one of firstlight".to_owned()))
}
