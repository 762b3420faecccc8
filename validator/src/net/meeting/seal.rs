//! Both sides prove that they know the token, each by a MAC over a fresh random number of both; from the same numbers
//! comes the key of this connection, with which every message has a MAC over its direction and its
//! number. A message that is recorded is worth nothing on another connection, nor a second time on this one.

use super::wire::{Cut, receive, send};
use super::{FIRST, LONGEST, NAME, PROTOCOL};
use crate::text::shown::shown;
use hmac::{Hmac, Mac};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// Fewest and most characters of a token. A node sends a MAC of it to whoever listens, who may guess: short ones are
/// guessed.
const LENGTHS: (usize, usize) = (16, 256);
/// Bytes of a nonce and of a MAC.
const BYTES: usize = 32;

type Bytes = [u8; BYTES];

/// The secret that the nodes of one meeting share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of 16 to 256 characters.
    ///
    /// # Errors
    /// What is allowed.
    pub fn new(text: &str) -> Result<Self, String> {
        let (least, most) = LENGTHS;
        let text = text.trim();
        let fits = (least..=most).contains(&text.chars().count()) && !text.contains(char::is_control);
        let refused =
            || format!("a token of {} characters; allowed: {least} to {most}", text.chars().count());
        if fits { Ok(Self(text.to_owned())) } else { Err(refused()) }
    }

    fn mac(&self, label: &str, parts: &[&[u8]]) -> Option<Bytes> {
        Some(fed(self.0.as_bytes(), label, parts)?.finalize().into_bytes().into())
    }

    fn proves(&self, mac: &Bytes, label: &str, parts: &[&[u8]]) -> bool {
        fed(self.0.as_bytes(), label, parts).is_some_and(|fed| fed.verify_slice(mac).is_ok())
    }
}

/// The token itself is never shown.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a token")
    }
}

/// Each part with its length, so that no two lists of parts give the same bytes.
fn fed(key: &[u8], label: &str, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    // A key of any length is valid.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).ok()?;
    for part in [label.as_bytes()].iter().chain(parts) {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    Some(mac)
}

fn nonce() -> Result<Bytes, Cut> {
    let mut bytes = [0; BYTES];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got.map_err(io::Error::from)? {
        BYTES => Ok(bytes),
        few => Err(Cut::Broken(format!("the kernel gave {few} random bytes of {BYTES}"))),
    }
}

#[derive(Serialize, Deserialize)]
struct Hello {
    protocol: String,
    nonce: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Join {
    name: String,
    nonce: Bytes,
    mac: Bytes,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Welcome(Bytes),
    Refused,
}

/// Why a peer is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It knows another token; with the name that it claims.
    Token(String),
    /// It has another version of the protocol.
    Protocol(String),
    /// It does not speak the protocol, or not in time.
    Cut(Cut),
}

impl From<Cut> for Refusal {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

/// The listening side.
pub(super) fn admit(mut stream: TcpStream, token: &Token, within: Duration) -> Result<Link, Refusal> {
    let own = nonce()?;
    put(&mut stream, &Hello { protocol: PROTOCOL.to_owned(), nonce: own }, within)?;
    let join: Join = get(&mut stream, within)?;
    if !token.proves(&join.mac, "node", &[&own, &join.nonce]) {
        // It may be gone already.
        let _ = put(&mut stream, &Answer::Refused, within);
        return Err(Refusal::Token(claimed(&join.name)));
    }
    let failed = || Refusal::Cut(Cut::Broken("no MAC".to_owned()));
    let mac = token.mac("host", &[&join.nonce, &own]).ok_or_else(failed)?;
    put(&mut stream, &Answer::Welcome(mac), within)?;
    let key = token.mac("messages", &[&own, &join.nonce]).ok_or_else(failed)?;
    Ok(Link::new(stream, key, Side::Host)?)
}

/// The connecting side.
pub(super) fn enter(
    mut stream: TcpStream,
    token: &Token,
    name: &str,
    within: Duration,
) -> Result<Link, Refusal> {
    let hello: Hello = get(&mut stream, within)?;
    if hello.protocol != PROTOCOL {
        return Err(Refusal::Protocol(claimed(&hello.protocol)));
    }
    let own = nonce()?;
    let failed = || Refusal::Cut(Cut::Broken("no MAC".to_owned()));
    let mac = token.mac("node", &[&hello.nonce, &own]).ok_or_else(failed)?;
    let name = name.chars().take(NAME).collect();
    put(&mut stream, &Join { name, nonce: own, mac }, within)?;
    match get(&mut stream, within)? {
        Answer::Welcome(mac) if token.proves(&mac, "host", &[&own, &hello.nonce]) => {
            let key = token.mac("messages", &[&hello.nonce, &own]).ok_or_else(failed)?;
            Ok(Link::new(stream, key, Side::Guest)?)
        }
        Answer::Welcome(_) | Answer::Refused => Err(Refusal::Token(String::new())),
    }
}

/// A text of an unproven peer, as it may be shown.
fn claimed(text: &str) -> String {
    shown(&text.chars().take(NAME).collect::<String>())
}

fn put(stream: &mut TcpStream, what: &impl Serialize, within: Duration) -> Result<(), Cut> {
    let bytes = serde_json::to_vec(what).map_err(|e| Cut::Broken(e.to_string()))?;
    send(stream, &bytes, within)
}

fn get<T: DeserializeOwned>(stream: &mut TcpStream, within: Duration) -> Result<T, Cut> {
    let bytes = receive(stream, FIRST, within)?;
    serde_json::from_slice(&bytes)
        .map_err(|_| Cut::Malformed("it does not begin like one of firstlight".to_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
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

/// How long a peer's machine may be silent before the kernel gives the connection up: 5 s, then 5 questions at 3 s.
const IDLE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_secs(3);
const QUESTIONS: u32 = 5;

impl Link {
    fn new(stream: TcpStream, key: Bytes, own: Side) -> Result<Self, Cut> {
        stream.set_nodelay(true)?;
        let alive = || {
            set_socket_keepalive(&stream, true)?;
            set_tcp_keepidle(&stream, IDLE)?;
            set_tcp_keepintvl(&stream, BETWEEN)?;
            set_tcp_keepcnt(&stream, QUESTIONS)
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
        self.stream.local_addr()
    }

    /// Makes the next message use the number of the last one.
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
        if !fed.is_some_and(|fed| fed.verify_slice(mac).is_ok()) {
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
