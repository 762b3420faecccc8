//! What the validator's binary is asked to get from other machines: files whose checksum is known, and the
//! time. Each has its own deadline and is given some seconds more to say that it is over.

use crate::child::Spec;
use crate::config::remote::Remote;
use crate::config::types::Network;
use crate::paths;
use std::time::Duration;

/// For all of a root, however large; one whose server falls silent is given up long before.
const ROOT: u64 = 1800;

/// For all time servers together.
const TIME: u64 = 4;

/// Fetches a file.
#[must_use]
pub fn fetch(remote: &Remote, to: &str, config: &Network) -> Spec {
    fetching(remote, to, config, &[], Duration::from_secs(40))
}

/// Fetches a root of at most so many MiB to [`paths::FETCHED_ROOT`] and says how far it is.
#[must_use]
pub fn fetch_root(remote: &Remote, mib: u64, config: &Network) -> Spec {
    let (largest, timeout) = ((mib << 20).to_string(), ROOT.to_string());
    let more = ["--largest", &largest, "--timeout", &timeout, "--progress", "5"];
    fetching(remote, paths::FETCHED_ROOT, config, &more, Duration::from_secs(ROOT + 10))
}

fn fetching(remote: &Remote, to: &str, config: &Network, more: &[&str], deadline: Duration) -> Spec {
    let mut words = vec!["fetch", &remote.url, "--sha256", &remote.sha256, "--output", to];
    words.extend(config.ca.iter().flat_map(|ca| ["--ca", ca]));
    words.extend(more);
    Spec::new(paths::VALIDATOR, &words, deadline)
}

/// Asks these servers what time it is: `SERVER +SECONDS`, by how much our clock must move.
#[must_use]
pub fn ask_time(servers: &[String]) -> Spec {
    let timeout = TIME.to_string();
    let mut words = vec!["time", "--timeout", &timeout];
    words.extend(servers.iter().map(String::as_str));
    Spec::new(paths::VALIDATOR, &words, Duration::from_secs(TIME + 2))
}
