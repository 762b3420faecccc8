//! Both sides prove that they know the token, each by a MAC over fresh random numbers of both sides. The key of the
//! connection is derived from the same numbers. A recorded proof is useless on another connection.

use super::link::{Link, Side};
use super::wire::{Cut, receive, send};
use super::{FIRST, NAME, PROTOCOL};
use crate::text::shown;
use hmac::{Hmac, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// Fewest and most characters of a token. A node sends a MAC of it to any program that listens, which may try tokens
/// offline: a short one could be found.
const LENGTHS: (usize, usize) = (16, 256);
/// Bytes of a nonce and of a MAC.
pub(super) const BYTES: usize = 32;

pub(super) type Bytes = [u8; BYTES];

/// The secret that the nodes of one meeting share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of 16 to 256 characters.
    ///
    /// # Errors
    /// The allowed lengths.
    pub fn new(text: &str) -> Result<Self, String> {
        let (least, most) = LENGTHS;
        let text = text.trim();
        let fits = (least..=most).contains(&text.chars().count()) && !text.contains(char::is_control);
        let refused =
            || format!("a token of {} characters; allowed: {least} to {most}", text.chars().count());
        if fits { Ok(Self(text.to_owned())) } else { Err(refused()) }
    }

    /// The name of a meeting of so many nodes, which does not reveal the token: 16 hexadecimal digits.
    #[must_use]
    pub fn meeting(&self, size: usize) -> Option<String> {
        let mac = self.mac("meeting", &[&(size as u64).to_le_bytes()])?;
        Some(mac.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
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

/// A MAC over each part and its length, so that no two lists of parts give the same bytes.
pub(super) fn fed(key: &[u8], label: &str, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    // A key of any length is valid.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).ok()?;
    for part in [label.as_bytes()].iter().chain(parts) {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    Some(mac)
}

/// Random bytes.
pub(super) fn nonce() -> Result<Bytes, Cut> {
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
    /// It has another token; with the name that it claims.
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
        // The peer may be gone already.
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

/// A text from an unproven peer, made safe for display.
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
