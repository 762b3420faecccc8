//! What process 1 has done by a child of its own binary, `init helper NAME ..`, because it touches
//! disks, drivers or links that can hang. This file says how to start each; `dispatch` is the child.

mod disk;
mod driver;
mod identity;
mod network;
mod pstore;
mod remote;
mod secure_boot;

pub use remote::{ask_time, fetch, fetch_root};

use crate::child::Spec;
use crate::config::types::{Card, Driver, Network, Place, Report, Validator};
use crate::config::values;
use crate::console::screen;
use crate::disk::root;
use crate::paths;
use crate::sys::files;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Exit status: done.
pub const FINE: i32 = 0;
/// Exit status: not done; standard error says why.
pub const FAILED: i32 = 1;
/// Exit status: the disk is not there.
pub const ABSENT: i32 = 3;
/// Exit status: the disk is there, the file is not.
pub const NO_FILE: i32 = 4;
/// What is printed when the data partition has a configuration: of its whole file, the name.
pub const HAS_CONFIG: &str = "config.toml";

/// This program, whatever its name is.
const OURSELVES: &str = "/proc/self/exe";
/// Disks answer within this or not at all.
const DISK: Duration = Duration::from_secs(30);

fn helper(name: &str, args: &[&str], deadline: Duration) -> Spec {
    let mut all = vec!["helper", name];
    all.extend(args);
    Spec::new(OURSELVES, &all, deadline)
}

/// Copies the data partition's config.toml to [`paths::PARTITION_CONFIG`], and what its config.d has for
/// this node to [`paths::PARTITION_CONFIG_D`]; prints the names.
#[must_use]
pub fn fetch_config(place: &Place, wait: Duration) -> Spec {
    let wait_s = wait.as_secs();
    helper("fetch-config", &[&place.text(), &wait_s.to_string()], DISK + wait)
}

/// `firstlight publish` of a file, with what the data partition need not be there for.
fn publish_words<'a>(config: &'a Network, report: &'a Report, what: &'a Published<'a>) -> Vec<String> {
    let mut words = vec!["publish", what.file, "--verdict", what.verdict];
    let (keep, timeout) = (report.keep.to_string(), report.timeout.as_secs().to_string());
    words.extend(["--keep", &keep]);
    if let Some(url) = &report.url {
        words.extend(["--url", url, "--timeout", &timeout]);
        words.extend(config.ca.iter().flat_map(|ca| ["--ca", ca]));
        words.extend(what.offline.iter().flat_map(|why| ["--offline", why]));
    }
    words.into_iter().map(str::to_owned).collect()
}

/// What is published.
#[derive(Debug)]
pub struct Published<'a> {
    /// The report, or the verdict where there is none.
    pub file: &'a str,
    /// The verdict that counts.
    pub verdict: &'a str,
    /// Why there is no network.
    pub offline: Option<&'a str>,
}

/// Has a report kept on the data partition, and sent where it is to be sent.
#[must_use]
pub fn publish_on(place: &Place, config: &Network, report: &Report, what: &Published<'_>) -> Spec {
    let (place, words) = (place.text(), publish_words(config, report, what));
    let mut all = vec![place.as_str()];
    all.extend(words.iter().map(String::as_str));
    helper("publish-on", &all, DISK + report.timeout)
}

/// Has a report sent, where there is no data partition.
#[must_use]
pub fn publish(config: &Network, report: &Report, what: &Published<'_>) -> Spec {
    let words = publish_words(config, report, what);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Spec::new(paths::VALIDATOR, &words, report.timeout + Duration::from_secs(10))
}

/// Leaves last words in the firmware's store.
#[must_use]
pub fn keep_fault(lines: &[String]) -> Spec {
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    helper("keep-fault", &lines, Duration::from_secs(10))
}

/// Prints what the firmware's store has of earlier boots.
#[must_use]
pub fn tell_last_boot() -> Spec {
    helper("last-boot", &[paths::LAST_BOOT], Duration::from_secs(20))
}

/// Prints whether the firmware verifies what it starts.
#[must_use]
pub fn secure_boot() -> Spec {
    helper("secure-boot", &[], Duration::from_secs(10))
}

/// Prints what this node is.
#[must_use]
pub fn identify() -> Spec {
    helper("identify", &[], Duration::from_secs(30))
}

/// Mounts a new root.
#[must_use]
pub fn mount_root(text: &str) -> Spec {
    helper("mount-root", &[text, paths::NEW_ROOT], DISK + Duration::from_secs(10))
}

/// Mounts a new root from an image file.
#[must_use]
pub fn mount_image(file: &str) -> Spec {
    helper("mount-image", &[file, paths::NEW_ROOT], DISK)
}

/// Frees the firmware's framebuffers.
#[must_use]
pub fn release_screen() -> Spec {
    helper("release-screen", &[], Duration::from_secs(10))
}

/// Writes all caches out.
#[must_use]
pub fn sync() -> Spec {
    helper("sync", &[], Duration::from_secs(20))
}

/// Starts the driver, writes its report, and hands the open GPUs over by its standard input.
#[must_use]
pub fn load_driver(driver: &Driver, deadline: Duration, keeper: OwnedFd) -> Spec {
    let mut args = vec![driver.load.to_string(), deadline.as_secs().to_string()];
    args.extend(driver.modules.iter().cloned());
    args.extend(driver.parameters.iter().map(|(module, words)| format!("{module}={words}")));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Spec { input: Some(Rc::new(keeper)), ..helper("load-driver", &args, deadline) }
}

/// Brings the loopback up.
#[must_use]
pub fn loopback() -> Spec {
    helper("loopback", &[], Duration::from_secs(5))
}

/// Loads what the network cards need, waits for a carrier, and prints the interface.
#[must_use]
pub fn find_interface(config: &Network) -> Spec {
    let timeout_s = config.timeout.as_secs().to_string();
    let card = match &config.interface {
        Card::Any => String::new(),
        Card::Name(name) => name.clone(),
        Card::Mac(mac) | Card::BootedFrom(mac) => mac.to_string(),
    };
    helper("find-interface", &[&card, &timeout_s], config.timeout + Duration::from_secs(5))
}

/// Gives an interface an address (`ADDRESS/PREFIX`) and a default route.
#[must_use]
pub fn set_address(name: &str, address: &str, gateway: Option<IpAddr>, deadline: Duration) -> Spec {
    let gateway = gateway.map_or_else(String::new, |gateway| gateway.to_string());
    helper("set-address", &[name, address, &gateway], deadline)
}

/// Asks for an address by DHCP, every two seconds until the time is up; and who knows the time, if `time`.
#[must_use]
pub fn ask_for_lease(name: &str, within: Duration, time: bool) -> Spec {
    let tries = (within.as_secs() / 2).max(1).to_string();
    let mut args = vec!["udhcpc", "-i", name, "-n", "-q", "-f", "-t", &tries, "-T", "2"];
    args.extend(["-s", paths::DHCP_SCRIPT]);
    args.extend(time.then_some(["-O", "ntpsrv"]).into_iter().flatten());
    Spec::new(paths::BUSYBOX, &args, within + Duration::from_secs(3))
}

/// A command of the validator with the configuration that is its.
#[must_use]
pub fn validator(config: &Validator, command: &[&str], deadline: Duration) -> Spec {
    let mut args = Vec::new();
    config.files.iter().for_each(|file| args.extend(["--config", file]));
    config.set.iter().for_each(|word| args.extend(["--set", word]));
    args.extend(command);
    Spec::new(paths::VALIDATOR, &args, deadline)
}

/// The validator's `env` of this boot's report.
#[must_use]
pub fn environment() -> Spec {
    Spec::new(paths::VALIDATOR, &["env", paths::REPORT], Duration::from_secs(20))
}

/// Acts as the helper that the words name; the exit status, or `None` when they name none.
pub fn dispatch(args: &[String]) -> Option<i32> {
    let (first, rest) = args.split_first()?;
    let (name, rest) = rest.split_first()?;
    if first != "helper" {
        return None;
    }
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    let result = match (name.as_str(), words.as_slice()) {
        ("fetch-config", [place, wait_s]) => disk::fetch_config(place, wait_s),
        ("publish-on", [place, words @ ..]) => disk::publish(place, words),
        ("keep-fault", lines) => pstore::keep(lines),
        ("last-boot", [to]) => pstore::tell(to),
        ("secure-boot", []) => secure_boot::tell(),
        ("identify", []) => {
            identity::tell();
            Ok(FINE)
        }
        ("mount-root", [root, target]) => mount_root_here(root, target),
        ("mount-image", [file, target]) => done(root::mount_image(file, Path::new(target))),
        ("release-screen", []) => done(screen::act(&screen::plan(Path::new("/sys")))),
        ("load-driver", [load, deadline_s, words @ ..]) => done(driver::load(load, deadline_s, words)),
        ("find-interface", [card, timeout_s]) => done(network::find_interface(card, timeout_s)),
        ("loopback", []) => done(network::link_up("lo").map(|_| ()).map_err(|e| e.to_string())),
        ("set-address", [name, address, gateway]) => done(network::set_address(name, address, gateway)),
        ("sync", []) => {
            files::sync();
            Ok(FINE)
        }
        _ => Err(format!("no helper {name} of {} words", words.len())),
    };
    Some(result.unwrap_or_else(|why| {
        let _nobody_reads = writeln!(io::stderr(), "{why}");
        FAILED
    }))
}

fn done(result: Result<(), String>) -> Result<i32, String> {
    result.map(|()| FINE)
}

/// Prints a line for process 1; that it no longer listens is no matter.
fn say(line: &str) {
    let _nobody_reads = writeln!(io::stdout(), "{line}");
}

fn mount_root_here(root: &str, target: &str) -> Result<i32, String> {
    let source = values::root_source(root).ok_or_else(|| format!("{root}: no root"))?;
    done(root::mount(&source, Path::new(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_are_no_helper() {
        assert_eq!(dispatch(&[]), None);
        assert_eq!(dispatch(&["helper".into()]), None);
        assert_eq!(dispatch(&["single".into(), "sync".into()]), None);
        assert_eq!(dispatch(&["helper".into(), "reboot".into()]), Some(FAILED));
    }

    #[test]
    fn the_validator_gets_files_then_words_then_the_command() {
        let config = Validator {
            files: vec!["a".into(), "b".into()],
            set: vec!["x.y=1".into()],
            timeout: Duration::ZERO,
        };
        let spec = validator(&config, &["validate"], Duration::ZERO);
        assert_eq!(spec.args, ["--config", "a", "--config", "b", "--set", "x.y=1", "validate"]);
    }
}
