//! What follows from several keys, or from the layer that sets a key; values that are invalid only in combination (a mode
//! without a key that it needs) are found here.

use super::LayerSource;
use super::cmdline::KernelWord;
use super::keys::{Policy, Settings};
use super::mac::Mac;
use super::types::{
    Action, AddressMode, BootSource, CardSelector, HandoverMode, NetworkMode, RootSource,
    TimeSource, WatchdogMode, WorkloadMode,
};
use super::values;
use contract::config_format::NODES_SIZE;
use contract::config_format::layers::Layers;
use std::time::Duration;

type Merged = Layers<Settings>;

/// The least time for addresses of 169.254.0.0/16.
const LINK_LOCAL: Duration = Duration::from_secs(3);

/// Fills in what follows from several keys, and reports values that do not fit together.
pub(super) fn combine(m: &mut Merged, words: &[KernelWord]) {
    network(m, words);
    policy(m);
    workload(m);
    report(m);
    console(m, words);
    watchdog(m);
}

/// `[policy]`: an action that is refused becomes the default.
pub(super) fn policy(m: &mut Merged) {
    let (policy, standard) = (&mut m.settings.policy, Policy::default());
    if policy.allow_shell {
        return;
    }
    let mut refused = Vec::new();
    for (key, action, default) in [
        ("policy.on_pass", &mut policy.on_pass, standard.on_pass),
        (
            "policy.on_degraded",
            &mut policy.on_degraded,
            standard.on_degraded,
        ),
        ("policy.on_fail", &mut policy.on_fail, standard.on_fail),
        ("policy.on_error", &mut policy.on_error, standard.on_error),
    ] {
        if *action == Action::Shell {
            *action = default;
            refused.push(key);
        }
    }
    let others: Vec<_> = Action::WORDS
        .iter()
        .filter(|(_, action)| *action != Action::Shell)
        .map(|(word, _)| *word)
        .collect();
    let allowed = format!(
        "{}; shell where a file of the image has policy.allow_shell = true",
        others.join(", ")
    );
    refused
        .into_iter()
        .for_each(|key| m.refuse_as(key, &allowed));
}

fn workload(m: &mut Merged) {
    let (mode, exec, root) = {
        let workload = &m.settings.workload;
        (workload.mode, workload.exec.clone(), workload.root.clone())
    };
    let handover = match (mode, root) {
        (HandoverMode::None, _) => WorkloadMode::None,
        (HandoverMode::Exec, _) if exec.is_empty() => {
            m.missing("workload.exec", "workload.mode");
            WorkloadMode::None
        }
        (HandoverMode::Exec, _) => WorkloadMode::Exec(exec),
        (HandoverMode::SwitchRoot, Some(root)) => WorkloadMode::SwitchRoot { root, exec },
        (HandoverMode::SwitchRoot, None) => {
            m.missing("workload.root", "workload.mode");
            WorkloadMode::None
        }
    };
    if m.origin("workload.lock_modules").is_none() {
        m.settings.workload.lock_modules = matches!(handover, WorkloadMode::Exec(_));
    }
    if m.origin("workload.user_namespaces").is_none() {
        m.settings.workload.user_namespaces = !matches!(handover, WorkloadMode::Exec(_));
    }
    m.settings.workload.handover = handover;
}

fn report(m: &mut Merged) {
    let named = m.origin("report.partition").map(|origin| origin.source);
    m.settings.report.any_disk = matches!(named, Some(LayerSource::Image | LayerSource::Word));
    if m.origin("report.required").is_none() {
        m.settings.report.required = named.is_some();
    }
}

fn console(m: &mut Merged, words: &[KernelWord]) {
    let from_network = words
        .iter()
        .any(|word| word.name == "BOOTIF" || word.name == "ip");
    let booted_from = if from_network {
        BootSource::Network
    } else {
        BootSource::Stick
    };
    m.settings.console.booted_from = m.settings.words.booted_from.unwrap_or(booted_from);
    m.settings.console.serial_named = m.origin("console.serial").is_some();
}

fn watchdog(m: &mut Merged) {
    if m.settings.watchdog.mode == WatchdogMode::Off && m.settings.workload.watchdog {
        m.refuse_as("workload.watchdog", "false, because watchdog.mode is off");
    }
}

fn network(m: &mut Merged, words: &[KernelWord]) {
    let mode = address_mode(m);
    ports(m, mode == AddressMode::LinkLocal);
    let has_nodes = m
        .foreign
        .iter()
        .any(|value| value.key.starts_with("nodes."));
    let gateway = m.settings.network.gateway;
    let connection = match (mode, m.settings.network.address) {
        (AddressMode::None, _) => NetworkMode::None,
        (AddressMode::Dhcp, _) => NetworkMode::Dhcp,
        (AddressMode::Static, Some((address, prefix))) => {
            if gateway.is_some_and(|g| g.is_ipv4() != address.is_ipv4()) {
                m.refuse_value("network.gateway");
            }
            NetworkMode::Static {
                address,
                prefix,
                gateway,
            }
        }
        (AddressMode::Static, None) => {
            m.missing("network.address", "network.mode");
            NetworkMode::None
        }
        (AddressMode::LinkLocal, _) => NetworkMode::LinkLocal(m.settings.network.ports.clone()),
    };
    let network = &mut m.settings.network;
    network.rdma = network.soft_roce || has_nodes || mode == AddressMode::LinkLocal;
    network.connection = connection;
    let word = |name| {
        words
            .iter()
            .rev()
            .find(|word| word.name == name)
            .and_then(|word| word.value.as_deref())
    };
    if network.hostname.is_empty() {
        network.hostname = word("hostname")
            .and_then(values::hostname)
            .unwrap_or_else(|| "firstlight".to_owned());
    }
    // A value that is not an Ethernet address is ignored: boot loaders write this word, not people.
    if let (CardSelector::Any, Some(mac)) = (
        &network.interface,
        word("BOOTIF").and_then(Mac::from_bootif),
    ) {
        network.interface = CardSelector::BootedFrom(mac);
    }
}

/// `network.mode`, or what the other settings need.
fn address_mode(m: &mut Merged) -> AddressMode {
    let settings = &m.settings;
    let fetches = settings.workload.mode == HandoverMode::SwitchRoot
        && matches!(settings.workload.root, Some(RootSource::Remote(_)));
    let needs = [
        ("report.url", settings.report.url.is_some()),
        ("firstlight.config", settings.words.config.is_some()),
        ("workload.root", fetches),
        ("network.time", !settings.network.time.is_empty()),
        ("network.soft_roce", settings.network.soft_roce),
        (
            NODES_SIZE,
            m.foreign.iter().any(|value| value.key == NODES_SIZE),
        ),
    ];
    match (
        settings.network.mode,
        needs.into_iter().find(|(_, needed)| *needed),
    ) {
        (Some(AddressMode::None), Some((why, _))) => {
            m.refuse_as(
                "network.mode",
                &format!("dhcp, static, link-local, because {why} needs a network"),
            );
            AddressMode::None
        }
        (Some(mode), _) => mode,
        (None, Some(_)) => AddressMode::Dhcp,
        (None, None) => AddressMode::None,
    }
}

/// The keys for a single interface and its address have no meaning where every port chooses its own address.
fn ports(m: &mut Merged, is_link_local: bool) {
    let network = &m.settings.network;
    if !is_link_local {
        if !network.ports.is_empty() {
            m.refuse_as(
                "network.ports",
                "[], because network.mode is not link-local",
            );
        }
        return;
    }
    let (time, timeout) = (network.time.contains(&TimeSource::Dhcp), network.timeout_s);
    let single = [
        ("network.interface", network.interface != CardSelector::Any),
        ("network.address", network.address.is_some()),
        ("network.gateway", network.gateway.is_some()),
    ];
    for (key, _) in single.into_iter().filter(|(_, is_set)| *is_set) {
        m.refuse_as(
            key,
            "\"\", because network.mode is link-local: network.ports names the ports",
        );
    }
    if time {
        m.refuse_as(
            "network.time",
            "an array of HOST or HOST:PORT, because network.mode is link-local",
        );
    }
    if timeout < LINK_LOCAL {
        let allowed = "3 to 86400 seconds, because network.mode is link-local: probing an address takes 2 of them";
        m.refuse_as("network.timeout_s", allowed);
    }
}
