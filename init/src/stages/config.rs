//! Stage 2: finds and reads the configuration's layers, and opens the consoles they name.

use crate::child::End;
use crate::config::cmdline::{Word, words};
use crate::config::error::Wrong;
use crate::config::types::{Config, Report};
use crate::config::{self, File, Refused};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::read::read_at_most;
use crate::sys::machine::command_line;
use log::info;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// No configuration is larger.
const LARGEST: u64 = 1 << 20;

/// How long a data partition that a layer names is waited for.
const NAMED_PARTITION: Duration = Duration::from_secs(10);

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition = if self.report.config_read { ", one from the data partition" } else { "" };
        write!(f, "layers: {}{partition}", self.layers)
    }
}

/// Reads the configuration.
///
/// # Errors
/// [`Fault::Config`] with everything that is wrong; the policy as far as the valid layers say is
/// noted before.
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
    match partition_file(m, &first.report)? {
        Ok(None) => Ok(first),
        Ok(Some(file)) => {
            files.push(file);
            let mut config = config::build(&files, words).map_err(|refusal| refused(m, &refusal))?;
            config.report.config_read = true;
            Ok(config)
        }
        Err(wrong) => Err(refused(m, &config::refuse(&files, words, vec![wrong]))),
    }
}

fn refused(m: &mut Machine, refusal: &Refused) -> Fault {
    m.on_fault = refusal.on_error;
    Fault::Config(refusal.wrong.iter().map(ToString::to_string).collect())
}

/// `config.toml`, which must be there, and what lies in `config.d`, which need not.
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

/// The data partition's `config.toml`, fetched by a child, for disks can hang.
fn partition_file(m: &Machine, report: &Report) -> Result<Result<Option<File>, Wrong>, Fault> {
    let Some(place) = &report.partition else { return Ok(Ok(None)) };
    let wait = if report.named { NAMED_PARTITION } else { Duration::ZERO };
    let done = m.run(&helper::fetch_config(place, wait), &mut |_, _| false, |_| true)?;
    let wrong = |why| Wrong::Unreadable { place: format!("report.partition {}", place.text()), why };
    Ok(match done.end {
        End::Exited(helper::FINE) => {
            let path = paths::PARTITION_CONFIG.to_owned();
            read(&path).map(|text| Some(File { path, text })).map_err(wrong)
        }
        End::Exited(helper::NO_FILE) => Ok(None),
        End::Exited(helper::ABSENT) if !report.named => Ok(None),
        _ => Err(wrong(done.reason())),
    })
}
