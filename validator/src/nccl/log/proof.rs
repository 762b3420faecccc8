//! What a log proves about the transport of an arm's data. Absence of evidence is not a proof: if NCCL logged
//! nothing about a pair that must have been connected, or something that is unknown here, the transport is
//! unproven.

use super::{Link, LinkSide, NcclLog};
use machine::Rank;
use outcome::text::count;
use std::collections::{BTreeMap, BTreeSet};

/// The transport that an arm allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedTransport {
    /// All GPUs reach each other's memory.
    P2p,
    /// No GPU reaches another one's memory.
    NoP2p,
}

/// The ranks that must have been connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// Neighbours on the ring of every channel.
    Ring,
    /// Every rank with every other: an alltoall ran.
    All,
}

/// What a log proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// As expected; the transports, and the number of pairs.
    Proven(String),
    /// Not as expected; one line for each contradiction.
    Disproven(Vec<String>),
    /// Unknown, and why.
    Unproven(String),
}

impl NcclLog {
    /// Judges whether `ranks` ranks were connected as expected.
    #[must_use]
    pub fn proves(&self, ranks: usize, expected: ExpectedTransport, pairs: Pairs) -> Proof {
        self.proves_within(ranks, expected, pairs, &|_, _| true)
    }

    /// The same if not all ranks can reach each other: any transport is accepted between two ranks that are not
    /// `together`.
    #[must_use]
    pub fn proves_within(
        &self,
        ranks: usize,
        expected: ExpectedTransport,
        pairs: Pairs,
        together: &dyn Fn(Rank, Rank) -> bool,
    ) -> Proof {
        let contradictions = self.contradictions(expected, together);
        if !contradictions.is_empty() {
            return Proof::Disproven(contradictions);
        }
        match self.missing_evidence(ranks, pairs) {
            Some(why) => Proof::Unproven(why),
            None => Proof::Proven(self.summary(ranks)),
        }
    }

    /// Everything that contradicts the expectation.
    fn contradictions(
        &self,
        expected: ExpectedTransport,
        together: &dyn Fn(Rank, Rank) -> bool,
    ) -> Vec<String> {
        let wanted = expected == ExpectedTransport::P2p;
        let mut wrong = BTreeMap::<_, BTreeSet<u32>>::new();
        let judged = self
            .links
            .iter()
            .filter(|l| !wanted || together(l.from, l.to));
        for link in judged.filter(|l| l.transport.is_p2p() == Some(!wanted)) {
            wrong
                .entry((link.from, link.to, link.text()))
                .or_default()
                .insert(link.channel);
        }
        let links = wrong.iter().map(|((from, to, text), on)| {
            format!(
                "{from} -> {to} via {text} on {}",
                count(on.len(), "channel")
            )
        });
        let none = self
            .unconnected
            .iter()
            .map(|(a, b)| format!("no transport between ranks {a} and {b}"));
        let disabled = self.p2p_disabled.iter().filter(|_| wanted).cloned();
        links.chain(none).chain(disabled).collect()
    }

    /// Why the log is not sufficient evidence: the first reason; `None` if it is sufficient.
    pub(super) fn missing_evidence(&self, ranks: usize, pairs: Pairs) -> Option<String> {
        if ranks < 2 {
            return Some(format!("{ranks} ranks have no connections"));
        }
        if let Some(line) = self.unread.first() {
            return Some(format!("unknown line: Channel {line}"));
        }
        if self.links.is_empty() {
            return Some("NCCL logged no connection".to_owned());
        }
        if let Some(link) = self.links.iter().find(|l| l.transport.is_p2p().is_none()) {
            return Some(format!(
                "unknown transport: {} -> {} via {}",
                link.from, link.to, link.transport
            ));
        }
        let strange = |link: &&Link| {
            link.from.index() >= ranks || link.to.index() >= ranks || link.from == link.to
        };
        if let Some(link) = self.links.iter().find(strange) {
            return Some(format!(
                "a connection {} -> {} among {ranks} ranks",
                link.from, link.to
            ));
        }
        match pairs {
            Pairs::Ring => self.missing_on_rings(ranks),
            Pairs::All => self.missing_pair(ranks),
        }
    }

    fn missing_pair(&self, ranks: usize) -> Option<String> {
        let known = connected(self.links.iter(), |link| (link.from, link.to));
        let all = Rank::all(ranks).flat_map(|from| Rank::all(ranks).map(move |to| (from, to)));
        let missing: Vec<_> = all
            .filter(|(from, to)| from != to && !known.contains(&(*from, *to)))
            .collect();
        let (from, to) = missing.first()?;
        Some(format!(
            "NCCL logged nothing about {from} -> {to}{}",
            more(missing.len())
        ))
    }

    fn missing_on_rings(&self, ranks: usize) -> Option<String> {
        if self.rings.is_empty() {
            return Some("NCCL logged no ring".to_owned());
        }
        let everyone: BTreeSet<_> = Rank::all(ranks).collect();
        let known = connected(self.links.iter(), |link| (link.channel, link.from, link.to));
        let mut missing = Vec::new();
        for ring in &self.rings {
            if ring.order.len() != ranks
                || ring.order.iter().copied().collect::<BTreeSet<_>>() != everyone
            {
                return Some(format!(
                    "the ring of channel {} is not one of {ranks} ranks",
                    ring.channel
                ));
            }
            let next = ring.order.iter().cycle().skip(1);
            let hops = ring
                .order
                .iter()
                .zip(next)
                .map(|(from, to)| (ring.channel, *from, *to));
            missing.extend(hops.filter(|hop| !known.contains(hop)));
        }
        let (channel, from, to) = missing.first()?;
        Some(format!(
            "NCCL logged nothing about {from} -> {to} on channel {channel}{}",
            more(missing.len())
        ))
    }

    fn summary(&self, ranks: usize) -> String {
        let transports: BTreeSet<_> = self.links.iter().map(|l| l.transport.clone()).collect();
        let transports: Vec<_> = transports.iter().map(ToString::to_string).collect();
        let pairs = connected(self.links.iter(), |link| (link.from, link.to)).len();
        let on: BTreeSet<_> = self.links.iter().map(|l| l.channel).collect();
        let all = ranks.saturating_mul(ranks.saturating_sub(1));
        format!(
            "{} between {pairs} of {all} ordered pairs, {}",
            transports.join(" and "),
            count(on.len(), "channel")
        )
    }
}

/// Connections that both sides logged.
fn connected<'a, K: Ord>(
    links: impl Iterator<Item = &'a Link>,
    key: impl Fn(&Link) -> K,
) -> BTreeSet<K> {
    let mut sides = BTreeMap::<K, BTreeSet<LinkSide>>::new();
    for link in links {
        sides.entry(key(link)).or_default().insert(link.side);
    }
    let complete = |seen: &BTreeSet<LinkSide>| seen.contains(&LinkSide::Both) || seen.len() == 2;
    sides
        .into_iter()
        .filter(|(_, seen)| complete(seen))
        .map(|(key, _)| key)
        .collect()
}

fn more(missing: usize) -> String {
    if missing > 1 {
        format!(" and {} more", missing - 1)
    } else {
        String::new()
    }
}
