//! Builds `[network]` from the merged layers, with defaults, and finds values that are invalid only in combination.

use super::cmdline::KernelWord;
use super::layers::MergedLayers;
use super::mac::Mac;
use super::types::{CardSelector, Network, NetworkMode, TimeSource};
use super::values;
use std::time::Duration;

/// The least time for addresses of 169.254.0.0/16.
const LINK_LOCAL: Duration = Duration::from_secs(3);

impl CardSelector {
    /// Parses the kernel word `BOOTIF=`; a value that is not an Ethernet address is ignored.
    pub(super) fn booted_from(words: &[KernelWord]) -> Self {
        let word = words.iter().rev().find(|w| w.name == "BOOTIF").and_then(|w| w.value.as_deref());
        word.and_then(Mac::from_bootif).map_or(Self::Any, Self::BootedFrom)
    }
}

fn card(text: &str) -> Option<CardSelector> {
    Mac::parse(text)
        .filter(|_| text.contains(':'))
        .map(CardSelector::Mac)
        .or_else(|| values::interface(text).map(CardSelector::Name))
}

/// `[network]`; `word` is the value of the kernel word `hostname=`, `booted_from` the card that `BOOTIF=`
/// names. `needed` is true when a layer must be fetched.
pub(super) fn network(m: &mut MergedLayers, word: Option<&str>, booted_from: CardSelector, needed: bool) -> Network {
    let (time, soft_roce) = (time(m), m.flag("network.soft_roce").unwrap_or(false));
    let fetches = m.text("workload.mode") == Some("switch-root")
        && m.text("workload.root").is_some_and(|root| root.starts_with("http"));
    let needs = [
        ("report.url", m.text("report.url").is_some_and(|url| !url.is_empty())),
        ("firstlight.config", needed),
        ("workload.root", fetches),
        ("network.time", !time.is_empty()),
        ("network.soft_roce", soft_roce),
        ("nodes.size", m.has_nodes_size),
    ];
    let asked = m.text("network.mode").map(str::to_owned);
    let asked = match (asked.as_deref(), needs.into_iter().find(|(_, needed)| *needed)) {
        (Some("none"), Some((why, _))) => {
            m.refuse_as("network.mode", &format!("dhcp, static, link-local, because {why} needs a network"));
            None
        }
        (None, Some(_)) => Some("dhcp"),
        (mode, _) => mode,
    };
    let ports = ports(m, asked == Some("link-local"), &time);
    let address = m.parsed("network.address", values::address);
    let gateway = m.parsed("network.gateway", |text| text.parse::<std::net::IpAddr>().ok());
    let mode = match (asked, address) {
        (Some("dhcp"), _) => NetworkMode::Dhcp,
        (Some("static"), Some((address, prefix))) => {
            if gateway.is_some_and(|g| g.is_ipv4() != address.is_ipv4()) {
                m.refuse_entry("network.gateway");
            }
            NetworkMode::Static { address, prefix, gateway }
        }
        (Some("static"), None) => {
            m.missing("network.address", "network.mode");
            NetworkMode::None
        }
        (Some("link-local"), _) => NetworkMode::LinkLocal(ports),
        _ => NetworkMode::None,
    };
    let timeout = m.seconds("network.timeout_s", 30);
    if matches!(mode, NetworkMode::LinkLocal(_)) && timeout < LINK_LOCAL {
        let allowed = "3 to 86400 seconds, because network.mode is link-local: probing an address takes 2 of them";
        m.refuse_as("network.timeout_s", allowed);
    }
    let rdma = soft_roce || m.has_nodes || matches!(mode, NetworkMode::LinkLocal(_));
    let hostname = m.parsed("network.hostname", values::hostname);
    let named = m.list("network.dns").unwrap_or_default();
    let dns: Option<Vec<_>> = named.iter().map(|text| text.parse().ok()).collect();
    if dns.is_none() {
        m.refuse_entry("network.dns");
    }
    Network {
        mode,
        hostname: hostname.or_else(|| word.and_then(values::hostname)).unwrap_or_else(|| "firstlight".to_owned()),
        interface: m.parsed("network.interface", card).unwrap_or(booted_from),
        soft_roce,
        rdma,
        dns: dns.unwrap_or_default(),
        ca: m.parsed("network.ca", |path| path.starts_with('/').then(|| path.to_owned())),
        timeout,
        time,
    }
}

/// `network.ports`. The keys for a single interface and its address have no meaning where every port chooses its own address.
fn ports(m: &mut MergedLayers, is_link_local: bool, time: &[TimeSource]) -> Vec<CardSelector> {
    let named = m.list("network.ports").unwrap_or_default();
    let read: Option<Vec<_>> = named.iter().map(|text| card(text)).collect();
    if read.is_none() {
        m.refuse_entry("network.ports");
    } else if !is_link_local && !named.is_empty() {
        m.refuse_as("network.ports", "[], because network.mode is not link-local");
    }
    if is_link_local {
        for key in ["network.interface", "network.address", "network.gateway"] {
            if m.text(key).is_some_and(|text| !text.is_empty()) {
                m.refuse_as(key, "\"\", because network.mode is link-local: network.ports names the ports");
            }
        }
        if time.contains(&TimeSource::Dhcp) {
            m.refuse_as("network.time", "an array of HOST or HOST:PORT, because network.mode is link-local");
        }
    }
    read.unwrap_or_default()
}

/// `network.time`
fn time(m: &mut MergedLayers) -> Vec<TimeSource> {
    let named = m.list("network.time").unwrap_or_default();
    let read: Option<Vec<_>> = named.iter().map(|text| values::time_source(text)).collect();
    if read.is_none() {
        m.refuse_entry("network.time");
    }
    read.unwrap_or_default()
}
