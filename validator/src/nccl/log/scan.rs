//! Parsers for parts of NCCL's lines: messages, links and their transports, settings. All return `None` for unknown input.

use super::{Link, LinkSide};
use machine::Rank;
use std::fmt;
use std::str::FromStr;

/// The first of `marks` in a line, and the text after it.
pub(super) fn split_at_mark<'a>(
    line: &'a str,
    marks: &[&'static str],
) -> Option<(&'static str, &'a str)> {
    let found = marks
        .iter()
        .filter_map(|mark| line.split_once(mark).map(|parts| (*mark, parts)));
    let (mark, (_, message)) = found.min_by_key(|(_, (before, _))| before.len())?;
    Some((mark, message.trim()))
}

/// A text that has only digits, as a number.
pub(super) fn number<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// `00/0 : 0[0] -> 1[1] via P2P/CUMEM`; the brackets hold the GPU's number or its bus.
pub(super) fn link(text: &str) -> Option<Link> {
    let (channel, rest) = text.split_once(" : ")?;
    let (ends, via) = rest.split_once(" via ")?;
    let (from, to) = ends.split_once(" -> ")?;
    let (to, side) = match to.trim().rsplit_once(' ') {
        Some((to, "[send]")) => (to, LinkSide::Send),
        Some((to, "[receive]")) => (to, LinkSide::Receive),
        Some(_) => return None,
        None => (to.trim(), LinkSide::Both),
    };
    let channel = channel.trim();
    let channel = number(
        channel
            .split_once('/')
            .map_or(channel, |(channel, _)| channel),
    )?;
    let (transport, suffix) = Transport::read(via.trim());
    Some(Link {
        channel,
        from: rank(from.trim())?,
        to: rank(to)?,
        side,
        transport,
        suffix,
    })
}

/// `3[90]`, or the number alone.
fn rank(text: &str) -> Option<Rank> {
    let Some((rank, place)) = text.split_once('[') else {
        return number(text).map(Rank::new);
    };
    let place = place.strip_suffix(']')?;
    let plain = !place.is_empty() && place.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| number(rank)).flatten().map(Rank::new)
}

/// `NCCL_X set by environment to V`; numbers are followed by a full stop, words are not.
pub(super) fn setting(message: &str) -> Option<(String, String)> {
    let (name, value) = message
        .split_once(" set by environment to ")
        .or_else(|| message.split_once(" set to "))?;
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let known = name.starts_with("NCCL_") && name.bytes().all(plain);
    let value = value.trim();
    let whole = value.strip_suffix('.').filter(|v| v.parse::<i64>().is_ok());
    known.then(|| (name.to_owned(), whole.unwrap_or(value).to_owned()))
}

/// `No transport found for rank 3[90] -> rank 2[80]`.
pub(super) fn no_transport(message: &str) -> Option<(Rank, Rank)> {
    let (_, ends) = message.split_once("No transport found for rank ")?;
    let (from, to) = ends.split_once(" -> rank ")?;
    Some((rank(from.trim())?, rank(to.trim())?))
}

/// The transport of data from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// The peer's memory under its own address: both ranks are in one process.
    Direct,
    /// The peer's memory, mapped through CUDA's virtual memory management.
    Cumem,
    /// The peer's memory, mapped through CUDA IPC.
    Ipc,
    /// The peer's memory, through another GPU.
    Indirect,
    /// The peer's memory on another host of the same `NVLink` fabric.
    Mnnvl,
    /// The host's memory.
    Shm,
    /// A network, including the host's own loopback.
    Net,
    /// An unknown transport, as logged.
    Other(String),
}

/// The transports and their names in NCCL's log.
const NAMES: [(Transport, &str); 7] = [
    (Transport::Direct, "P2P/direct pointer"),
    (Transport::Cumem, "P2P/CUMEM"),
    (Transport::Ipc, "P2P/IPC"),
    (Transport::Indirect, "P2P/indirect"),
    (Transport::Mnnvl, "P2P/MNNVL"),
    (Transport::Shm, "SHM"),
    (Transport::Net, "NET"),
];

impl Transport {
    /// The transport and the text after its name. A name of which only the beginning is known does not match.
    pub(super) fn read(text: &str) -> (Self, String) {
        let known = NAMES
            .iter()
            .find_map(|(transport, name)| Some((transport, text.strip_prefix(name)?)));
        match known {
            Some((transport, rest)) if rest.is_empty() || rest.starts_with('/') => {
                (transport.clone(), rest.to_owned())
            }
            _ => (Self::Other(text.to_owned()), String::new()),
        }
    }

    /// Whether GPUs reach each other's memory; `None` where that is unknown.
    #[must_use]
    pub const fn is_p2p(&self) -> Option<bool> {
        match self {
            Self::Direct | Self::Cumem | Self::Ipc | Self::Indirect | Self::Mnnvl => Some(true),
            Self::Shm | Self::Net => Some(false),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = NAMES
            .iter()
            .find(|(transport, _)| transport == self)
            .map(|(_, name)| *name);
        match (self, known) {
            (Self::Other(text), _) => f.write_str(text),
            (_, name) => f.write_str(name.unwrap_or("?")),
        }
    }
}
