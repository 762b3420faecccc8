//! The part of the stage `config` that reads layers from a server, which the kernel word
//! `firstlight.config=` names. It brings the network up for that; children fetch the files.

use super::config::check_signature;
use super::network;
use crate::child::{End, no_lines, on_output};
use crate::config::error::ConfigError;
use crate::config::mac::Mac;
use crate::config::node::NodeIdentity;
use crate::config::remote::{CHECKSUMS, RemoteSource};
use crate::config::types::Network;
use crate::config::{ConfigFile, LARGEST, LayerSource, signature};
use crate::fault::Fault;
use crate::file_io::read_at_most;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The layers that a server has for this node; with a key, only those that are signed.
///
/// # Errors
/// An interruption; the inner result is an error that names the URL.
pub(super) fn layers(
    m: &mut Machine,
    config: &Network,
    remote: &RemoteSource,
    key: Option<&str>,
) -> Result<Result<Vec<ConfigFile>, ConfigError>, Fault> {
    let error = |why| ConfigError::Unreadable {
        place: "kernel word firstlight.config".to_owned(),
        why,
    };
    if let Err(why) = network::connect_once(m, config)? {
        return Ok(Err(error(format!("{}: no network: {why}", remote.url))));
    }
    // Only root may read what comes into it: a layer may have the secret of [nodes].
    if let Err(e) = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(paths::REMOTE_CONFIG_D)
    {
        return Ok(Err(error(format!("{}: {e}", paths::REMOTE_CONFIG_D))));
    }
    let files = if remote.is_folder() {
        let sums = match fetch(m, config, &remote.checksums(), CHECKSUMS)? {
            Ok(file) => file,
            Err(why) => return Ok(Err(error(why))),
        };
        let identity = identity(m)?;
        match remote.files(&sums.text, &identity) {
            Ok(files) => files,
            Err(why) => return Ok(Err(error(format!("{}: {why}", remote.url)))),
        }
    } else {
        vec![remote.clone()]
    };
    let mut layers = Vec::new();
    for (n, file) in files.iter().enumerate() {
        match fetch(m, config, file, &format!("{n}-{}", name(&file.url)))? {
            Ok(layer) => layers.push(layer),
            Err(why) => return Ok(Err(error(why))),
        }
        if let (Some(layer), Some(key)) = (layers.last(), key)
            && let Err(error) = check(m, config, &file.url, layer, key)?
        {
            return Ok(Err(error));
        }
    }
    Ok(Ok(layers))
}

/// The last part of the URL as a file name.
fn name(url: &str) -> String {
    let last = url.rsplit('/').next().unwrap_or("");
    last.chars()
        .filter(|c| c.is_ascii_alphanumeric() || ".-_".contains(*c))
        .take(100)
        .collect()
}

fn fetch(
    m: &Machine,
    config: &Network,
    remote: &RemoteSource,
    name: &str,
) -> Result<Result<ConfigFile, String>, Fault> {
    let path = format!("{}/{name}", paths::REMOTE_CONFIG_D);
    let done = m.run(&helper::fetch(remote, &path, config), &mut no_lines, |_| {
        true
    })?;
    if done.end != End::Exited(0) {
        return Ok(Err(done.reason_after("firstlight: ")));
    }
    let text = read_at_most(Path::new(&path), LARGEST).map_err(|e| format!("{path}: {e}"));
    let text = text
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| format!("{path}: not valid UTF-8")));
    Ok(text.map(|text| ConfigFile {
        source: LayerSource::Server,
        path,
        text,
    }))
}

/// Fetches the signature of a layer and checks it.
fn check(
    m: &Machine,
    config: &Network,
    url: &str,
    layer: &ConfigFile,
    key: &str,
) -> Result<Result<(), ConfigError>, Fault> {
    let (url_of, path) = (
        format!("{url}.{}", signature::EXTENSION),
        format!("{}.{}", layer.path, signature::EXTENSION),
    );
    let done = m.run(
        &helper::fetch_signature(&url_of, &path, config),
        &mut no_lines,
        |_| true,
    )?;
    if done.end != End::Exited(0) {
        let (place, why) = (url.to_owned(), done.reason_after("firstlight: "));
        return Ok(Err(ConfigError::Signature { place, why }));
    }
    Ok(check_signature(layer, url, Some(key)))
}

fn identity(m: &Machine) -> Result<NodeIdentity, Fault> {
    let mut identity = NodeIdentity::default();
    let mut take = |line: &str| {
        if let Some(mac) = line.strip_prefix("mac=").and_then(Mac::parse) {
            identity.macs.push(mac);
        } else if let Some(serial) = line.strip_prefix("serial=") {
            identity.serial = Some(serial.to_owned());
        }
    };
    m.run(&helper::identify(), &mut on_output(&mut take), |end| {
        end == End::Exited(helper::SUCCESS)
    })?;
    Ok(identity)
}
