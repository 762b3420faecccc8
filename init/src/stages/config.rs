//! The stage `config`: finds and reads the configuration's layers, checks their signatures where the image
//! demands them, and opens the consoles that they name. `server_layers` reads the layers on a server.

use crate::child::{End, on_output};
use crate::config::cmdline::{KernelWord, words};
use crate::config::error::ConfigError;
use crate::config::types::{Config, Network};
use crate::config::{self, ConfigFile, InvalidConfig, LARGEST, LayerSource, signature};
use crate::fault::Fault;
use crate::file_io::read_at_most;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::sys::kernel::command_line;
use log::info;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::server_layers;

/// How long init waits for a data partition that is required.
const REQUIRED_PARTITION: Duration = Duration::from_secs(10);

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = if self.remote.is_some() {
            ", some from a server"
        } else {
            ""
        };
        let partition = if self.report.config_read {
            ", some from the data partition"
        } else {
            ""
        };
        write!(f, "layers: {}{remote}{partition}", self.layers)
    }
}

/// Reads the configuration.
///
/// # Errors
/// [`Fault::Config`] with all errors; before that the policy of the valid layers is stored.
pub fn load(m: &mut Machine) -> Result<Config, Fault> {
    let words = words(&command_line());
    let config = layers(m, &words)?;
    (m.on_fault, m.max_reboots) = (config.policy.on_error, config.policy.max_reboots);
    config
        .overridden
        .iter()
        .for_each(|line| info!("warning: {line}"));
    let warnings = m
        .console
        .add_serial(&config.console.serial, config.console.serial_named);
    warnings
        .iter()
        .for_each(|warning| info!("warning: {warning}"));
    Ok(config)
}

fn layers(m: &mut Machine, words: &[KernelWord]) -> Result<Config, Fault> {
    let (mut files, errors) = local_files();
    if !errors.is_empty() {
        return Err(refused(m, &config::refuse(&files, words, errors)));
    }
    let first = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
    let key = first.trust.key.clone();
    let PartitionLayers {
        files: disk,
        ignored,
    } = partition_files(m, &first)?;
    let disk = match disk {
        Ok(disk) => disk,
        Err(error) => return Err(refused(m, &config::refuse(&files, words, vec![error]))),
    };
    let config_read = !disk.is_empty();
    files.extend(disk);
    let mut config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
    if let Some(remote) = config.remote.clone() {
        let layers = match server_layers::layers(m, &config.network, &remote, key.as_deref())? {
            Ok(layers) => layers,
            Err(error) => return Err(refused(m, &config::refuse(&files, words, vec![error]))),
        };
        files.extend(layers);
        let before = config.network;
        config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
        if let Some(error) = network_changed(&before, &config.network, &remote.url) {
            return Err(refused(m, &config::refuse(&files, words, vec![error])));
        }
    }
    (config.report.config_read, config.report.ignored) = (config_read, ignored);
    Ok(config)
}

/// A layer that was fetched over the network must not change how to reach the network.
fn network_changed(before: &Network, after: &Network, url: &str) -> Option<ConfigError> {
    let named = Network {
        hostname: before.hostname.clone(),
        ..after.clone()
    };
    (named != *before).then(|| ConfigError::Key {
        place: url.to_owned(),
        key: "network".to_owned(),
        read: "other settings than those it was fetched by".to_owned(),
        allowed: "network.hostname; the others in files of the image or the data partition, or as kernel words"
            .to_owned(),
    })
}

fn refused(m: &mut Machine, refusal: &InvalidConfig) -> Fault {
    m.on_fault = refusal.on_error;
    Fault::Config(refusal.errors.iter().map(ToString::to_string).collect())
}

/// Reads `config.toml`, which must exist, and the files in `config.d`, which need not.
fn local_files() -> (Vec<ConfigFile>, Vec<ConfigError>) {
    let mut paths = vec![paths::CONFIG.to_owned()];
    let entries = fs::read_dir(paths::CONFIG_D)
        .into_iter()
        .flatten()
        .flatten();
    let mut more: Vec<_> = entries
        .filter_map(|entry| entry.path().to_str().map(str::to_owned))
        .collect();
    more.retain(|path| Path::new(path).extension().is_some_and(|end| end == "toml"));
    more.sort();
    paths.extend(more);
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match read(&path) {
            Ok(text) => files.push(ConfigFile {
                source: LayerSource::Image,
                path,
                text,
            }),
            Err(why) => errors.push(ConfigError::Unreadable { place: path, why }),
        }
    }
    (files, errors)
}

fn read(path: &str) -> Result<String, String> {
    let bytes = read_at_most(Path::new(path), LARGEST).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8".to_owned())
}

/// The result of the search for a data partition.
struct PartitionLayers {
    files: Result<Vec<ConfigFile>, ConfigError>,
    /// The lines about partitions that may not be used.
    ignored: Vec<String>,
}

/// The data partition's layers, copied by a child, because disks can hang.
fn partition_files(m: &Machine, first: &Config) -> Result<PartitionLayers, Fault> {
    let (report, key) = (&first.report, first.trust.key.as_deref());
    let Some(place) = &report.partition else {
        return Ok(PartitionLayers {
            files: Ok(Vec::new()),
            ignored: Vec::new(),
        });
    };
    let wait = if report.required {
        REQUIRED_PARTITION
    } else {
        Duration::ZERO
    };
    let (mut found, mut ignored) = (Vec::new(), Vec::new());
    let mut take = |line: &str| match line.strip_prefix(helper::IGNORED) {
        Some(line) => ignored.push(line.to_owned()),
        None => found.push(line.to_owned()),
    };
    let spec = helper::fetch_config(place, report, wait, key.is_some());
    let done = m.run(&spec, &mut on_output(&mut take), |_| true)?;
    ignored.iter().for_each(|line| info!("warning: {line}"));
    let place = format!("report.partition {}", place.text());
    let files = match done.end {
        End::Exited(helper::SUCCESS) => found
            .into_iter()
            .map(|name| partition_file(&place, &name, key))
            .collect(),
        End::Exited(helper::NO_FILE) => Ok(Vec::new()),
        End::Exited(helper::ABSENT) if !report.required => Ok(Vec::new()),
        End::Exited(helper::NO_SIGNATURE) => Err(ConfigError::Signature {
            place,
            why: done.reason(),
        }),
        _ => Err(ConfigError::Unreadable {
            place,
            why: done.reason(),
        }),
    };
    Ok(PartitionLayers { files, ignored })
}

/// Reads the copy of one of the partition's files.
fn partition_file(place: &str, name: &str, key: Option<&str>) -> Result<ConfigFile, ConfigError> {
    let path = match name {
        helper::HAS_CONFIG => paths::PARTITION_CONFIG.to_owned(),
        name => format!("{}/{name}", paths::PARTITION_CONFIG_D),
    };
    let error = |why| ConfigError::Unreadable {
        place: place.to_owned(),
        why,
    };
    let file = ConfigFile {
        source: LayerSource::Partition,
        text: read(&path).map_err(error)?,
        path,
    };
    check_signature(&file, &format!("{place}: {name}"), key)?;
    Ok(file)
}

/// Checks the signature beside a file that was copied or fetched, if the image demands one. `place` is where
/// the file is from.
pub(super) fn check_signature(
    file: &ConfigFile,
    place: &str,
    key: Option<&str>,
) -> Result<(), ConfigError> {
    let Some(key) = key else { return Ok(()) };
    let path = format!("{}.{}", file.path, signature::EXTENSION);
    let checked = match read_at_most(Path::new(&path), signature::LARGEST) {
        Ok(bytes) => signature::check(key, file.text.as_bytes(), &String::from_utf8_lossy(&bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(format!(
            "has no signature (.{}), which config.key of this image demands",
            signature::EXTENSION
        )),
        Err(e) => Err(format!("its signature (.{}): {e}", signature::EXTENSION)),
    };
    checked.map_err(|why| ConfigError::Signature {
        place: place.to_owned(),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_layer_may_name_the_node_and_not_its_network() {
        let built = |text: &str| {
            let file = ConfigFile {
                source: LayerSource::Image,
                path: "f".to_owned(),
                text: text.to_owned(),
            };
            config::build(&[file], &[]).unwrap().network
        };
        let before = built("[network]\nmode = \"dhcp\"\n");
        let named = built("[network]\nmode = \"dhcp\"\nhostname = \"node7\"\n");
        assert_eq!(network_changed(&before, &named, "http://h/"), None);
        let other = built("[network]\nmode = \"dhcp\"\ninterface = \"eth1\"\n");
        let error = network_changed(&before, &other, "http://h/n.toml")
            .unwrap()
            .to_string();
        assert!(
            error.starts_with("http://h/n.toml: network: read other settings"),
            "{error}"
        );
    }
}
