//! The stage `config`: finds and reads the configuration's layers, and opens the consoles that they name.
//! `server_layers` reads the layers on a server.

use crate::child::{End, on_output};
use crate::config::cmdline::{Word, words};
use crate::config::error::Wrong;
use crate::config::types::{Config, Network, Report};
use crate::config::{self, File, LARGEST, Refused};
use crate::fault::Fault;
use crate::file_io::read_at_most;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::sys::kernel::command_line;
use log::info;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::server_layers;

/// How long init waits for a data partition that a layer names.
const NAMED_PARTITION: Duration = Duration::from_secs(10);

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = if self.remote.is_some() { ", some from a server" } else { "" };
        let partition = if self.report.config_read { ", some from the data partition" } else { "" };
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
    m.on_fault = config.policy.on_error;
    let troubles = m.console.add_serial(&config.console.serial, config.console.serial_named);
    troubles.iter().for_each(|trouble| info!("warning: {trouble}"));
    Ok(config)
}

fn layers(m: &mut Machine, words: &[Word]) -> Result<Config, Fault> {
    let (mut files, wrong) = local_files();
    if !wrong.is_empty() {
        return Err(refused(m, &config::refuse(&files, words, wrong)));
    }
    let first = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
    let disk = match partition_files(m, &first.report)? {
        Ok(disk) => disk,
        Err(wrong) => return Err(refused(m, &config::refuse(&files, words, vec![wrong]))),
    };
    let local = files.len();
    files.extend(disk.iter().cloned());
    let mut config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
    if let Some(remote) = config.remote.clone() {
        let layers = match server_layers::layers(m, &config.network, &remote)? {
            Ok(layers) => layers,
            Err(wrong) => return Err(refused(m, &config::refuse(&files, words, vec![wrong]))),
        };
        // A stick in the machine takes precedence over the site's server.
        files.splice(local..local, layers);
        let before = config.network;
        config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
        if let Some(wrong) = moved(&before, &config.network, &remote.url) {
            return Err(refused(m, &config::refuse(&files, words, vec![wrong])));
        }
    }
    config.report.config_read = !disk.is_empty();
    Ok(config)
}

/// A layer that was fetched over the network must not change how to reach the network.
fn moved(before: &Network, after: &Network, url: &str) -> Option<Wrong> {
    let named = Network { hostname: before.hostname.clone(), ..after.clone() };
    (named != *before).then(|| Wrong::Key {
        place: url.to_owned(),
        key: "network".to_owned(),
        read: "other settings than those it was fetched by".to_owned(),
        allowed:
            "network.hostname; the others in files of the image or the data partition, or as kernel words"
                .to_owned(),
    })
}

fn refused(m: &mut Machine, refusal: &Refused) -> Fault {
    m.on_fault = refusal.on_error;
    Fault::Config(refusal.wrong.iter().map(ToString::to_string).collect())
}

/// Reads `config.toml`, which must exist, and the files in `config.d`, which need not.
fn local_files() -> (Vec<File>, Vec<Wrong>) {
    let mut paths = vec![paths::CONFIG.to_owned()];
    let entries = fs::read_dir(paths::CONFIG_D).into_iter().flatten().flatten();
    let mut more: Vec<_> = entries.filter_map(|entry| entry.path().to_str().map(str::to_owned)).collect();
    more.retain(|path| Path::new(path).extension().is_some_and(|end| end == "toml"));
    more.sort();
    paths.extend(more);
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        match read(&path) {
            Ok(text) => files.push(File { path, text }),
            Err(why) => wrong.push(Wrong::Unreadable { place: path, why }),
        }
    }
    (files, wrong)
}

fn read(path: &str) -> Result<String, String> {
    let bytes = read_at_most(Path::new(path), LARGEST).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8".to_owned())
}

/// The data partition's layers, copied by a child, because disks can hang.
fn partition_files(m: &Machine, report: &Report) -> Result<Result<Vec<File>, Wrong>, Fault> {
    let Some(place) = &report.partition else { return Ok(Ok(Vec::new())) };
    let wait = if report.named { NAMED_PARTITION } else { Duration::ZERO };
    let mut found = Vec::new();
    let mut take = |line: &str| {
        found.push(match line {
            helper::HAS_CONFIG => paths::PARTITION_CONFIG.to_owned(),
            name => format!("{}/{name}", paths::PARTITION_CONFIG_D),
        });
    };
    let done = m.run(&helper::fetch_config(place, wait), &mut on_output(&mut take), |_| true)?;
    let wrong = |why| Wrong::Unreadable { place: format!("report.partition {}", place.text()), why };
    Ok(match done.end {
        End::Exited(helper::FINE) => {
            let layer = |path: String| read(&path).map(|text| File { path, text }).map_err(wrong);
            found.into_iter().map(layer).collect()
        }
        End::Exited(helper::NO_FILE) => Ok(Vec::new()),
        End::Exited(helper::ABSENT) if !report.named => Ok(Vec::new()),
        _ => Err(wrong(done.reason())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_layer_may_name_the_node_and_not_its_network() {
        let built = |text: &str| {
            let file = File { path: "f".to_owned(), text: text.to_owned() };
            config::build(&[file], &[]).unwrap().network
        };
        let before = built("[network]\nmode = \"dhcp\"\n");
        let named = built("[network]\nmode = \"dhcp\"\nhostname = \"node7\"\n");
        assert_eq!(moved(&before, &named, "http://h/"), None);
        let other = built("[network]\nmode = \"dhcp\"\ninterface = \"eth1\"\n");
        let wrong = moved(&before, &other, "http://h/n.toml").unwrap().to_string();
        assert!(wrong.starts_with("http://h/n.toml: network: read other settings"), "{wrong}");
    }
}
