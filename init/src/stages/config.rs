//! The stage `config`: finds and reads the configuration's layers, checks their signatures where the image
//! demands them, and opens the consoles that they name. `server_layers` reads the layers on a server.

use crate::child::{End, on_output};
use crate::config::cmdline::{Word, words};
use crate::config::error::Wrong;
use crate::config::types::{Config, Network};
use crate::config::{self, File, LARGEST, Refused, Source, signature};
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
    config.lost.iter().for_each(|line| info!("warning: {line}"));
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
    let key = first.trust.key.clone();
    let Partition { files: disk, ignored } = partition_files(m, &first)?;
    let disk = match disk {
        Ok(disk) => disk,
        Err(wrong) => return Err(refused(m, &config::refuse(&files, words, vec![wrong]))),
    };
    let config_read = !disk.is_empty();
    files.extend(disk);
    let mut config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
    if let Some(remote) = config.remote.clone() {
        let layers = match server_layers::layers(m, &config.network, &remote, key.as_deref())? {
            Ok(layers) => layers,
            Err(wrong) => return Err(refused(m, &config::refuse(&files, words, vec![wrong]))),
        };
        files.extend(layers);
        let before = config.network;
        config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
        if let Some(wrong) = moved(&before, &config.network, &remote.url) {
            return Err(refused(m, &config::refuse(&files, words, vec![wrong])));
        }
    }
    (config.report.config_read, config.report.ignored) = (config_read, ignored);
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
            Ok(text) => files.push(File { source: Source::Image, path, text }),
            Err(why) => wrong.push(Wrong::Unreadable { place: path, why }),
        }
    }
    (files, wrong)
}

fn read(path: &str) -> Result<String, String> {
    let bytes = read_at_most(Path::new(path), LARGEST).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8".to_owned())
}

/// The result of the search for a data partition.
struct Partition {
    files: Result<Vec<File>, Wrong>,
    /// The lines about partitions that may not be used.
    ignored: Vec<String>,
}

/// The data partition's layers, copied by a child, because disks can hang.
fn partition_files(m: &Machine, first: &Config) -> Result<Partition, Fault> {
    let (report, key) = (&first.report, first.trust.key.as_deref());
    let Some(place) = &report.partition else {
        return Ok(Partition { files: Ok(Vec::new()), ignored: Vec::new() });
    };
    let wait = if report.required { REQUIRED_PARTITION } else { Duration::ZERO };
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
        End::Exited(helper::FINE) => {
            found.into_iter().map(|name| partition_file(&place, &name, key)).collect()
        }
        End::Exited(helper::NO_FILE) => Ok(Vec::new()),
        End::Exited(helper::ABSENT) if !report.required => Ok(Vec::new()),
        End::Exited(helper::NO_SIGNATURE) => Err(Wrong::Signature { place, why: done.reason() }),
        _ => Err(Wrong::Unreadable { place, why: done.reason() }),
    };
    Ok(Partition { files, ignored })
}

/// Reads the copy of one of the partition's files.
fn partition_file(place: &str, name: &str, key: Option<&str>) -> Result<File, Wrong> {
    let path = match name {
        helper::HAS_CONFIG => paths::PARTITION_CONFIG.to_owned(),
        name => format!("{}/{name}", paths::PARTITION_CONFIG_D),
    };
    let wrong = |why| Wrong::Unreadable { place: place.to_owned(), why };
    let file = File { source: Source::Partition, text: read(&path).map_err(wrong)?, path };
    signed(&file, &format!("{place}: {name}"), key)?;
    Ok(file)
}

/// Checks the signature beside a file that was copied or fetched, if the image demands one. `place` is where
/// the file is from.
pub(super) fn signed(file: &File, place: &str, key: Option<&str>) -> Result<(), Wrong> {
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
    checked.map_err(|why| Wrong::Signature { place: place.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_layer_may_name_the_node_and_not_its_network() {
        let built = |text: &str| {
            let file = File { source: Source::Image, path: "f".to_owned(), text: text.to_owned() };
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
