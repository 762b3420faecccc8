//! NCCL's (2.19 to 2.32) log lines with `NCCL_DEBUG=INFO`: its version, the rings, the transport between
//! ranks, the settings from the environment, warnings. Lines of several processes may be mixed, with other
//! programs' lines in between. `proof` judges what they prove.

mod network;
mod proof;
mod scan;

pub use proof::{ExpectedTransport, Pairs, Proof};
pub use scan::Transport;

use machine::Rank;
use scan::{number, setting, split_at_mark};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that was recognized in NCCL's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NcclLog {
    /// NCCL's version as printed: `2.28.9+cuda13.0`.
    pub version: Option<String>,
    /// Every connection, in the order of the lines.
    pub links: Vec<Link>,
    /// The order of the ranks on each channel.
    pub rings: Vec<ChannelRing>,
    /// The settings that NCCL found, each name and value once: ours, or from the host's `/etc/nccl.conf`.
    pub settings: Vec<(String, String)>,
    /// Warnings, each once; from 2.32 on also lines that ask for attention (`NCCL ATTN`).
    pub warnings: Vec<String>,
    /// The lines of NCCL's own diagnostics (`NCCL DIAG`, from 2.31 on), without what stands before them.
    pub diagnostics: Vec<String>,
    /// Pairs of ranks without any transport between them, in NCCL's order: the rank that reports it is first.
    pub unconnected: Vec<(Rank, Rank)>,
    /// NCCL's lines about GPUs between which the driver does not allow P2P, each once.
    pub p2p_disabled: Vec<String>,
    /// The most channels for NVLink SHARP of a rank; `None`: no line tells it.
    pub nvls_channels: Option<u32>,
    /// Lines about a connection that could not be parsed.
    pub unread: Vec<String>,
}

/// One connection of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its channel.
    pub channel: u32,
    /// The sending rank.
    pub from: Rank,
    /// The receiving rank.
    pub to: Rank,
    /// The side of the connection that the line is about.
    pub side: LinkSide,
    /// The transport.
    pub transport: Transport,
    /// The text after the transport's name: `/read`, `/direct/direct`, `/IB/0/GDRDMA`.
    pub suffix: String,
}

impl Link {
    /// The transport as NCCL wrote it.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.transport, self.suffix)
    }
}

/// Over a network each side logs its own line; otherwise the sender logs one for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkSide {
    /// The sender's.
    Send,
    /// The receiver's.
    Receive,
    /// Both.
    Both,
}

/// One channel's ring: each rank sends to the next, the last to the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRing {
    /// Its channel.
    pub channel: u32,
    /// How many channels there are.
    pub of: u32,
    /// The ranks in order.
    pub order: Vec<Rank>,
}

impl NcclLog {
    /// Parses a log.
    #[must_use]
    pub fn read(log: &str) -> Self {
        let mut parsed = Self::default();
        let mut settings = BTreeSet::new();
        for line in log.lines() {
            let line = line.trim();
            match split_at_mark(
                line,
                &[" NCCL WARN ", " NCCL INFO ", " NCCL ATTN ", "NCCL DIAG "],
            ) {
                Some((" NCCL WARN " | " NCCL ATTN ", message)) => parsed.warned(message),
                // `vm:2344 NCCL DIAG [OK]   p2p: ..`: no log level hides them.
                Some(("NCCL DIAG ", message)) => parsed.diagnostics.push(message.to_owned()),
                Some((_, message)) => parsed.info(message, &mut settings),
                // At level VERSION, and before 2.20 at every level, this line has no prefix.
                None if line.starts_with("NCCL version ") => parsed.info(line, &mut settings),
                None => {}
            }
        }
        parsed.settings = settings.into_iter().collect();
        parsed
    }

    /// The number of channels of the rings.
    #[must_use]
    pub fn channels(&self) -> Option<u32> {
        self.rings.iter().map(|ring| ring.of).max()
    }

    /// The transports from each rank to each other.
    #[must_use]
    pub fn transports(&self) -> Vec<(Rank, Rank, Vec<Transport>)> {
        let mut pairs = BTreeMap::<_, BTreeSet<_>>::new();
        for link in &self.links {
            pairs
                .entry((link.from, link.to))
                .or_default()
                .insert(link.transport.clone());
        }
        pairs
            .into_iter()
            .map(|((from, to), via)| (from, to, via.into_iter().collect()))
            .collect()
    }

    /// Settings that are not ours: in effect although not requested, or with another value.
    #[must_use]
    pub fn foreign_settings(&self, ours: &[(String, String)]) -> Vec<(String, String)> {
        let is_ours = |(name, value): &&(String, String)| {
            ours.iter().any(|(n, v)| n == name && same(v, value))
        };
        self.settings
            .iter()
            .filter(|s| !is_ours(s))
            .cloned()
            .collect()
    }

    fn warned(&mut self, message: &str) {
        if let Some(pair) = scan::no_transport(message) {
            push_new(&mut self.unconnected, pair);
        }
        self.p2p_message(message);
        push_new(&mut self.warnings, message.to_owned());
    }

    fn info(&mut self, message: &str, settings: &mut BTreeSet<(String, String)>) {
        if let Some(channel) = message.strip_prefix("Channel ") {
            self.channel_message(channel);
        } else if let Some(version) = message.strip_prefix("NCCL version ") {
            self.version = version
                .split_whitespace()
                .next()
                .map(str::to_owned)
                .or(self.version.take());
        } else if let Some(nvls) = nvls_channels(message) {
            self.nvls_channels = self.nvls_channels.max(Some(nvls));
        } else if let Some(set) = setting(message) {
            settings.insert(set);
        } else {
            self.p2p_message(message);
        }
    }

    fn p2p_message(&mut self, message: &str) {
        if message.starts_with("P2P is disabled between") {
            push_new(&mut self.p2p_disabled, message.to_owned());
        }
    }

    /// `00/24 : 0 1 2 3`, or `00/0 : 0[0] -> 1[1] via P2P/CUMEM`.
    fn channel_message(&mut self, text: &str) {
        if text.contains("->") {
            match scan::link(text) {
                Some(link) => self.links.push(link),
                None => push_new(&mut self.unread, text.to_owned()),
            }
        } else if let Some(ring) = ring(text) {
            self.rings.push(ring);
        }
    }
}

/// 16 of `24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer`.
fn nvls_channels(message: &str) -> Option<u32> {
    message
        .split(", ")
        .find_map(|part| number(part.strip_suffix(" nvls channels")?))
}

fn ring(text: &str) -> Option<ChannelRing> {
    let (channels, order) = text.split_once(" :")?;
    let (channel, of) = channels.trim().split_once('/')?;
    let order = order
        .split_whitespace()
        .map(|rank| number(rank).map(Rank::new))
        .collect::<Option<Vec<_>>>()?;
    Some(ChannelRing {
        channel: number(channel)?,
        of: number(of)?,
        order,
    })
}

/// NCCL prints numbers as it parsed them: `0x1` becomes `1`.
fn same(ours: &str, printed: &str) -> bool {
    let whole = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (ours, printed) = (ours.trim(), printed.trim());
    ours.eq_ignore_ascii_case(printed)
        || whole(ours).is_some_and(|value| whole(printed) == Some(value))
}

/// The most distinct entries that are kept; one is enough to make the proof fail.
const MOST: usize = 256;

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if list.len() < MOST && !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests;
