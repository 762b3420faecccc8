//! The children that use the data partition. They mount it in their own mount namespace: when the child
//! ends, in whatever way, the partition is no longer mounted.

use super::request::Partition;
use super::{ABSENT, HAS_CONFIG, IGNORED, NO_FILE, NO_SIGNATURE, SUCCESS, firmware, say};
use crate::config::node::{NAMES, NodeIdentity, NodeMatch, match_node};
use crate::config::types::DeviceSpec;
use crate::config::{LARGEST, signature, values};
use crate::disk::find::{FindError, FoundDevice, find_waiting};
use crate::disk::superblock::FileSystem;
use crate::file_io::{read_at_most, write_privately};
use crate::paths;
use crate::sys::mount::{self, Flags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const AT: &str = "/run/firstlight/partition";

/// Copies the partition's files for this node to /run, with their signatures if they need them.
pub(super) fn fetch_config(
    partition: &Partition,
    wait: Duration,
    signed: bool,
) -> Result<i32, String> {
    let Some(at) = mount_partition(partition, wait, Flags::RDONLY)? else {
        return Ok(ABSENT);
    };
    let mut copied = Vec::new();
    let whole = at.join("config.toml");
    if whole.exists() {
        copy(&whole, Path::new(paths::PARTITION_CONFIG), LARGEST)?;
        say(HAS_CONFIG);
        copied.push((whole, PathBuf::from(paths::PARTITION_CONFIG)));
    }
    for name in files_for_this_node(&at)? {
        fs::create_dir_all(paths::PARTITION_CONFIG_D).map_err(|e| e.to_string())?;
        let (from, to) = (
            at.join("config.d").join(&name),
            Path::new(paths::PARTITION_CONFIG_D).join(&name),
        );
        copy(&from, &to, LARGEST)?;
        say(&name);
        copied.push((from, to));
    }
    if let Err(why) = copied
        .iter()
        .filter(|_| signed)
        .try_for_each(|(from, to)| copy_signature(from, to))
    {
        let _no_reader = io::Write::write_fmt(&mut io::stderr(), format_args!("{why}\n"));
        return Ok(NO_SIGNATURE);
    }
    Ok(if copied.is_empty() { NO_FILE } else { SUCCESS })
}

/// Copies the signature beside a file, if there is one. Process 1 checks it.
fn copy_signature(from: &Path, to: &Path) -> Result<(), String> {
    let [from, to] = [from, to].map(|path| path.with_added_extension(signature::EXTENSION));
    if from.exists() {
        copy(&from, &to, signature::LARGEST)
    } else {
        Ok(())
    }
}

fn copy(from: &Path, to: &Path, largest: u64) -> Result<(), String> {
    let name = from.file_name().unwrap_or_default().display();
    let bytes = read_at_most(from, largest).map_err(|e| format!("{name}: {e}"))?;
    write_privately(to, &bytes).map_err(|e| format!("{}: {e}", to.display()))
}

/// Names of the files in `config.d` that are for this node, in the order of the layers.
fn files_for_this_node(at: &Path) -> Result<Vec<String>, String> {
    let entries = match fs::read_dir(at.join("config.d")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| format!("config.d: {e}"))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(
            entry
                .map_err(|e| format!("config.d: {e}"))?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    // Editors and other systems leave hidden files.
    names.retain(|name| !name.starts_with('.') && name.ends_with(".toml"));
    if names.is_empty() {
        Ok(names)
    } else {
        select_for_node(names, &firmware::identity_with_drivers())
    }
}

fn select_for_node(names: Vec<String>, identity: &NodeIdentity) -> Result<Vec<String>, String> {
    let mut ours = Vec::new();
    for name in names {
        match match_node(&name, identity) {
            Some(NodeMatch::OtherNode) => {}
            Some(order) => ours.push((order, name)),
            None => {
                return Err(format!(
                    "config.d/{name}: not the name of a node; allowed: {NAMES}"
                ));
            }
        }
    }
    ours.sort();
    Ok(ours.into_iter().map(|(_, name)| name).collect())
}

/// Mounts the partition and runs the validator, which keeps the report there and sends it, with the arguments `words`.
pub(super) fn publish(partition: &Partition, words: &[String]) -> Result<i32, String> {
    let Some(at) = mount_partition(partition, Duration::ZERO, Flags::empty())? else {
        return Ok(ABSENT);
    };
    // An error in these files matters only where they are read.
    if at.join("config.toml").exists()
        || files_for_this_node(&at).is_ok_and(|files| !files.is_empty())
    {
        say(HAS_CONFIG);
    }
    let status = Command::new(paths::VALIDATOR)
        .args(words)
        .arg("--partition")
        .arg(&at)
        .status();
    let status = status.map_err(|e| format!("{}: {e}", paths::VALIDATOR))?;
    mount::unmount(&at).map_err(|e| format!("unmounting: {e}"))?;
    Ok(status.code().unwrap_or(super::FAILED))
}

/// Finds the partition and mounts it; `None` when it does not exist.
pub(super) fn mount_partition(
    partition: &Partition,
    wait: Duration,
    flags: Flags,
) -> Result<Option<PathBuf>, String> {
    let place = &partition.place;
    let place: DeviceSpec =
        values::device_spec(place).ok_or_else(|| format!("{place}: not a place"))?;
    let search = find_waiting(&place, wait, partition.disks);
    search
        .ignored
        .iter()
        .for_each(|line| say(&format!("{IGNORED}{line}")));
    let FoundDevice { device, kind } = match search.found {
        Ok(found) => found,
        Err(e @ (FindError::Absent(_) | FindError::Ignored(_))) => {
            // Process 1 shows this only for a partition that is required.
            let _no_reader = io::Write::write_fmt(&mut io::stderr(), format_args!("{e}\n"));
            return Ok(None);
        }
        Err(e) => return Err(e.to_string()),
    };
    if !matches!(kind, FileSystem::Vfat | FileSystem::Ext4) {
        return Err(format!("{device} is {}, allowed: vfat, ext4", kind.name()));
    }
    let at = PathBuf::from(AT);
    fs::create_dir_all(&at).map_err(|e| format!("{AT}: {e}"))?;
    mount::unshare_mounts().map_err(|e| format!("own mount namespace: {e}"))?;
    let safe = flags | Flags::NOSUID | Flags::NODEV | Flags::NOEXEC;
    mount::mount(&device, &at, kind.name(), safe, "")
        .map_err(|e| format!("{device} as {}: {e}", kind.name()))?;
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::mac::Mac;
    use crate::sample;

    #[test]
    fn files_for_this_node_are_chosen_and_the_serial_number_comes_last() {
        let macs = Mac::parse("52:54:00:12:34:56").into_iter().collect();
        let node = NodeIdentity {
            macs,
            serial: Some("S1".to_owned()),
        };
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let all = names(&["serial-S1.toml", "mac-525400123456.toml", "serial-S2.toml"]);
        assert_eq!(
            select_for_node(all, &node).unwrap(),
            names(&["mac-525400123456.toml", "serial-S1.toml"])
        );
        let why = select_for_node(names(&["mac-5254.toml"]), &node).unwrap_err();
        assert!(
            why.starts_with("config.d/mac-5254.toml: not the name of a node; allowed: mac-"),
            "{why}"
        );
    }

    #[test]
    fn hidden_and_other_files_name_no_node() {
        let disk = sample::files(&[("config.d/._mac-x.toml", ""), ("config.d/README", "")]);
        assert_eq!(files_for_this_node(disk.path()), Ok(Vec::new()));
        assert_eq!(
            files_for_this_node(&disk.path().join("none")),
            Ok(Vec::new())
        );
    }
}
