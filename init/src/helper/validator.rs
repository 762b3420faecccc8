//! How process 1 starts the validator's binary: to test the machine, to publish a report, and to fetch files
//! and the time from other machines. Commands of the last kind have their own deadlines; init allows them
//! some seconds more to report a timeout.

use crate::child::ChildSpec;
use crate::config::remote::RemoteSource;
use crate::config::signature;
use crate::config::types::{Network, Report, Validator};
use crate::paths;
use std::time::Duration;

/// A command of the validator with its part of the configuration.
#[must_use]
pub fn validator(config: &Validator, command: &[&str], deadline: Duration) -> ChildSpec {
    let mut args = Vec::new();
    config
        .files
        .iter()
        .for_each(|file| args.extend(["--config", file]));
    config
        .set
        .iter()
        .for_each(|word| args.extend(["--set", word]));
    args.extend(command);
    ChildSpec::new(paths::VALIDATOR, &args, deadline)
}

/// The validator's `env` for this boot's report; it also writes the files that vLLM reads. With `met`, the settings that
/// passed the tests between the nodes replace those of this machine alone.
#[must_use]
pub fn environment(met: bool) -> ChildSpec {
    let nodes = if met {
        &["--nodes", paths::NODES][..]
    } else {
        &[]
    };
    let words = [&["env", paths::REPORT, "--vllm", paths::VLLM], nodes].concat();
    ChildSpec::new(paths::VALIDATOR, &words, Duration::from_secs(20))
}

/// The document that `firstlight publish` keeps and sends.
#[derive(Debug)]
pub struct PublishRequest<'a> {
    /// The report, or the verdict if there is no report.
    pub file: &'a str,
    /// The verdict that applies.
    pub verdict: &'a str,
    /// Why there is no network; `None` when it works.
    pub offline: Option<&'a str>,
}

/// Sends a report when there is no data partition.
#[must_use]
pub fn publish(config: &Network, report: &Report, what: &PublishRequest<'_>) -> ChildSpec {
    let words = publish_words(config, report, what);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    ChildSpec::new(
        paths::VALIDATOR,
        &words,
        report.timeout_s + Duration::from_secs(10),
    )
}

/// The arguments of `firstlight publish` that do not depend on the data partition.
pub(super) fn publish_words<'a>(
    config: &'a Network,
    report: &'a Report,
    what: &'a PublishRequest<'a>,
) -> Vec<String> {
    let mut words = vec!["publish", what.file, "--verdict", what.verdict];
    let (keep, timeout) = (
        report.keep.to_string(),
        report.timeout_s.as_secs().to_string(),
    );
    words.extend(["--keep", &keep]);
    words.extend(report.key_file.iter().flat_map(|file| ["--key-file", file]));
    if let Some(url) = &report.url {
        words.extend(["--url", url, "--timeout", &timeout]);
        words.extend(
            report
                .token_file
                .iter()
                .flat_map(|file| ["--token-file", file]),
        );
        words.extend(config.ca.iter().flat_map(|ca| ["--ca", ca]));
        words.extend(what.offline.iter().flat_map(|why| ["--offline", why]));
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Seconds for a whole root of any size; if a server stops sending, the download is given up much earlier.
const ROOT: u64 = 1800;

/// Seconds for all time servers together.
const TIME: u64 = 4;

/// Fetches a file.
#[must_use]
pub fn fetch(remote: &RemoteSource, to: &str, config: &Network) -> ChildSpec {
    fetching(remote, to, config, &[], Duration::from_secs(40))
}

/// Fetches a signature, which has no checksum: it is checked against the file.
#[must_use]
pub fn fetch_signature(url: &str, to: &str, config: &Network) -> ChildSpec {
    let largest = signature::LARGEST.to_string();
    let content = ["--any-content", "--largest", &largest];
    fetching_as(url, &content, to, config, Duration::from_secs(40))
}

/// Fetches a root of at most `mib` MiB to [`paths::FETCHED_ROOT`] and prints its progress.
#[must_use]
pub fn fetch_root(remote: &RemoteSource, mib: u64, config: &Network) -> ChildSpec {
    let (largest, timeout) = ((mib << 20).to_string(), ROOT.to_string());
    let more = [
        "--largest",
        &largest,
        "--timeout",
        &timeout,
        "--progress",
        "5",
    ];
    fetching(
        remote,
        paths::FETCHED_ROOT,
        config,
        &more,
        Duration::from_secs(ROOT + 10),
    )
}

fn fetching(
    remote: &RemoteSource,
    to: &str,
    config: &Network,
    more: &[&str],
    deadline: Duration,
) -> ChildSpec {
    let mut words = vec!["--sha256", remote.sha256.as_str()];
    words.extend(more);
    fetching_as(&remote.url, &words, to, config, deadline)
}

fn fetching_as(
    url: &str,
    how: &[&str],
    to: &str,
    config: &Network,
    deadline: Duration,
) -> ChildSpec {
    let mut words = vec!["fetch", url, "--output", to];
    words.extend(config.ca.iter().flat_map(|ca| ["--ca", ca]));
    words.extend(how);
    ChildSpec::new(paths::VALIDATOR, &words, deadline)
}

/// Asks these servers for the time; prints `SERVER +SECONDS`, the correction of our clock.
#[must_use]
pub fn ask_time(servers: &[String]) -> ChildSpec {
    let timeout = TIME.to_string();
    let mut words = vec!["time", "--timeout", &timeout];
    words.extend(servers.iter().map(String::as_str));
    ChildSpec::new(paths::VALIDATOR, &words, Duration::from_secs(TIME + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_that_allows_vllm_no_pair_is_where_the_validator_writes_it() {
        assert_eq!(
            crate::environment::VLLM_NONE,
            format!("{}/none", paths::VLLM)
        );
        let alone = ["env", paths::REPORT, "--vllm", paths::VLLM];
        assert_eq!(environment(false).args, alone);
        assert_eq!(
            environment(true).args,
            [&alone[..], &["--nodes", paths::NODES]].concat()
        );
    }

    #[test]
    fn a_report_gets_a_mac_where_a_key_is_configured() {
        let words = |text: &str| {
            let file = crate::config::ConfigFile {
                source: crate::config::LayerSource::Image,
                path: "f".to_owned(),
                text: text.to_owned(),
            };
            let config = crate::config::build(&[file], &[]).unwrap();
            let what = PublishRequest {
                file: "r",
                verdict: "PASS",
                offline: None,
            };
            publish_words(&config.network, &config.report, &what)
        };
        assert!(
            words("[report]\nkey_file = \"/etc/key\"\n")
                .ends_with(&["--key-file", "/etc/key"].map(String::from))
        );
        assert!(!words("").iter().any(|word| word == "--key-file"));
        let token = "[report]\nurl = \"http://h/\"\ntoken_file = \"/etc/token\"\n";
        assert!(words(token).ends_with(&["--token-file", "/etc/token"].map(String::from)));
        assert!(
            !words("[report]\nurl = \"http://h/\"\n")
                .iter()
                .any(|word| word == "--token-file")
        );
    }

    #[test]
    fn the_validator_gets_files_then_words_then_the_command() {
        let config = Validator {
            files: vec!["a".into(), "b".into()],
            set: vec!["x.y=1".into()],
            timeout: Duration::ZERO,
            meeting: None,
        };
        let spec = validator(&config, &["validate"], Duration::ZERO);
        assert_eq!(
            spec.args,
            [
                "--config", "a", "--config", "b", "--set", "x.y=1", "validate"
            ]
        );
    }
}
