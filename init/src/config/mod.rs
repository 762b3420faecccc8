//! The pure part of reading the configuration: builds one typed [`Config`] from layers and kernel words, or
//! lists every error in them. `stages::config` finds and reads the files.

pub mod cmdline;
pub mod error;
pub mod keys;
pub mod layers;
pub mod mac;
pub mod node;
mod origin;
pub mod remote;
mod sections;
pub mod types;
mod url;
pub mod values;

use cmdline::Word;
use error::Wrong;
use layers::Merged;
use std::time::Duration;
use types::{Action, Config, Origin, Validator};

/// Maximum size of a configuration file in bytes.
pub const LARGEST: u64 = 1 << 20;

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path, for messages and for `--config`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The errors of an invalid configuration, and the action that may follow.
#[derive(Debug, PartialEq)]
pub struct Refused {
    /// All errors.
    pub wrong: Vec<Wrong>,
    /// `policy.on_error` as far as the valid layers define it; `Hold` when the policy itself is invalid, or
    /// when it names the workload, which an invalid configuration cannot be trusted to describe.
    pub on_error: Action,
}

/// Builds the configuration.
///
/// # Errors
/// All errors, not only the first.
pub fn build(files: &[File], words: &[Word]) -> Result<Config, Refused> {
    let mut m = Merged::default();
    files.iter().for_each(|file| m.add_file(&file.path, &file.text));
    words.iter().for_each(|word| m.add_word(word));
    let config = typed(&mut m, files, words);
    if m.wrong.is_empty() { Ok(config) } else { Err(refused(m)) }
}

/// Builds the refusal for errors that were found outside of the layers.
#[must_use]
pub fn refuse(files: &[File], words: &[Word], wrong: Vec<Wrong>) -> Refused {
    let mut m = Merged::default();
    files.iter().for_each(|file| m.add_file(&file.path, &file.text));
    words.iter().for_each(|word| m.add_word(word));
    m.wrong.extend(wrong);
    refused(m)
}

fn refused(m: Merged) -> Refused {
    let on_error = match sections::policy(&m).on_error {
        _ if m.wrong.iter().any(Wrong::concerns_policy) => Action::Hold,
        Action::Workload | Action::WorkloadWithoutP2p => Action::Hold,
        other => other,
    };
    Refused { wrong: m.wrong, on_error }
}

fn typed(m: &mut Merged, files: &[File], words: &[Word]) -> Config {
    let booted_from = Origin::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", origin::WORD);
        m.refuse(&place, origin::WORD, &read, "stick, network");
        Origin::Stick
    });
    let remote = remote::Remote::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", remote::WORD);
        m.refuse(&place, remote::WORD, &read, remote::ALLOWED);
        None
    });
    let forget_reset = origin::forgets_reset(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", origin::RESET);
        m.refuse(&place, origin::RESET, &read, "clear");
        false
    });
    let hostname = words.iter().rev().find(|w| w.name == "hostname").and_then(|w| w.value.as_deref());
    Config {
        driver: sections::driver(m),
        network: sections::network(m, hostname, sections::Card::booted_from(words), remote.is_some()),
        remote,
        forget_reset,
        policy: sections::policy(m),
        workload: sections::workload(m),
        report: sections::report(m),
        console: sections::console(m, booted_from),
        watchdog: sections::watchdog(m),
        validator: Validator {
            files: files.iter().map(|file| file.path.clone()).collect(),
            set: m.set.clone(),
            timeout: Duration::from_secs(m.validate_timeout_s.unwrap_or(900)),
        },
        layers: files.len() + usize::from(words.iter().any(|w| w.name.starts_with("firstlight."))),
    }
}

#[cfg(test)]
mod tests {
    use super::types::{Card, NetworkMode, OnExit, Place, Screen, WatchdogMode, WorkloadMode};
    use super::*;
    use cmdline::words;

    fn built(text: &str, line: &str) -> Result<Config, Refused> {
        build(&[File { path: "/etc/firstlight/config.toml".into(), text: text.into() }], &words(line))
    }

    fn errors(text: &str, line: &str) -> Vec<String> {
        built(text, line).unwrap_err().wrong.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_empty_file_gives_the_documented_defaults() {
        let c = built("", "").unwrap();
        assert!(c.driver.load);
        assert_eq!(c.driver.modules, ["nvidia", "nvidia-uvm"]);
        assert_eq!(c.driver.timeout.as_secs(), 300);
        assert_eq!((&c.network.mode, c.network.hostname.as_str()), (&NetworkMode::None, "firstlight"));
        assert_eq!((c.policy.on_pass, c.policy.on_degraded), (Action::Workload, Action::Workload));
        assert_eq!((c.policy.on_fail, c.policy.on_error), (Action::Hold, Action::Hold));
        assert_eq!((&c.workload.mode, c.workload.on_exit), (&WorkloadMode::None, OnExit::PowerOff));
        assert_eq!(c.report.partition, Some(Place::Label("FIRSTLIGHT".into())));
        assert!(!c.report.named);
        assert_eq!(c.report.keep, 20);
        assert_eq!(c.console.screen, Screen::Auto);
        assert_eq!((c.watchdog.mode, c.watchdog.timeout.as_secs()), (WatchdogMode::Auto, 60));
        assert!(!c.workload.watchdog);
        assert_eq!(c.validator.timeout.as_secs(), 900);
        assert_eq!(c.validator.files, ["/etc/firstlight/config.toml"]);
    }

    #[test]
    fn modules_are_locked_by_default_only_for_exec() {
        let exec = "[workload]\nmode = \"exec\"\nexec = [\"/bin/x\"]\n";
        assert!(built(exec, "").unwrap().workload.lock_modules);
        assert!(!built(exec, "firstlight.workload.lock_modules=false").unwrap().workload.lock_modules);
        let switch = "[workload]\nmode = \"switch-root\"\nroot = \"LABEL=R\"\n";
        assert!(!built(switch, "").unwrap().workload.lock_modules);
    }

    #[test]
    fn a_mode_without_what_it_needs_is_refused() {
        for (text, key) in [
            ("[workload]\nmode = \"exec\"\n", "workload.exec"),
            ("[workload]\nmode = \"switch-root\"\n", "workload.root"),
            ("[workload]\nmode = \"exec\"\nexec = [\"bin/x\"]\n", "workload.exec"),
            ("[workload]\nmode = \"switch-root\"\nroot = \"http://h/r.squashfs\"\n", "workload.root"),
            ("[network]\nmode = \"static\"\n", "network.address"),
            ("[network]\nmode = \"static\"\naddress = \"10.0.0.2\"\n", "network.address"),
            (
                "[network]\nmode = \"static\"\naddress = \"10.0.0.2/8\"\ngateway = \"fd00::1\"\n",
                "network.gateway",
            ),
            ("[report]\nurl = \"h/reports\"\n", "report.url"),
            ("[report]\nurl = \"http://h/\"\n[network]\nmode = \"none\"\n", "network.mode"),
            ("[network]\nmode = \"none\"\ntime = [\"10.0.0.1\"]\n", "network.mode"),
            ("[network]\ntime = [\"ntp://h\"]\n", "network.time"),
            ("[network]\ndns = [\"ns1\"]\n", "network.dns"),
            ("[network]\nca = \"ca.pem\"\n", "network.ca"),
            ("[network]\ninterface = \"a:b\"\n", "network.interface"),
            ("[report]\npartition = \"sda1\"\n", "report.partition"),
            ("[console]\nserial = [\"tty S0\"]\n", "console.serial"),
            ("[driver]\nmodules = [\"../evil\"]\n", "driver.modules"),
            ("[watchdog]\nmode = \"on\"\n", "watchdog.mode"),
            ("[watchdog]\ntimeout_s = 9\n", "watchdog.timeout_s"),
            ("[watchdog]\ntimeout_s = 601\n", "watchdog.timeout_s"),
            ("[watchdog]\nmode = \"off\"\n[workload]\nwatchdog = true\n", "workload.watchdog"),
        ] {
            let lines = errors(text, "");
            assert!(lines[0].contains(&format!(": {key}: read ")), "{text}: {lines:?}");
        }
    }

    #[test]
    fn all_errors_are_reported_not_only_the_first() {
        assert_eq!(errors("[report]\nkeep = 0\nkep = 1\n", "firstlight.x.y=1").len(), 3);
    }

    #[test]
    fn after_an_error_the_valid_layers_policy_counts() {
        let reboot = "[policy]\non_error = \"reboot\"\n";
        assert_eq!(built(reboot, "firstlight.report.keep=0").unwrap_err().on_error, Action::Reboot);
    }

    #[test]
    fn after_an_error_in_the_policy_itself_the_machine_holds() {
        let reboot = "[policy]\non_error = \"reboot\"\n";
        assert_eq!(built(reboot, "firstlight.policy.on_pass=go").unwrap_err().on_error, Action::Hold);
    }

    #[test]
    fn a_broken_configuration_never_starts_the_workload() {
        let text = "[policy]\non_error = \"workload\"\n";
        assert_eq!(built(text, "firstlight.report.keep=0").unwrap_err().on_error, Action::Hold);
    }

    #[test]
    fn an_empty_partition_means_none_and_no_error() {
        let c = built("[report]\npartition = \"\"\n", "").unwrap();
        assert_eq!(c.report.partition, None);
    }

    #[test]
    fn what_needs_a_network_gets_one_unless_a_layer_says_how() {
        let url = "[report]\nurl = \"http://h/\"\n";
        assert_eq!(built(url, "").unwrap().network.mode, NetworkMode::Dhcp);
        let root = format!("root = \"http://h/r#sha256={}\"\n", "0".repeat(64));
        let root = |mode: &str| format!("[workload]\nmode = \"{mode}\"\nexec = [\"/x\"]\n{root}");
        assert_eq!(built(&root("switch-root"), "").unwrap().network.mode, NetworkMode::Dhcp);
        assert_eq!(built(&root("exec"), "").unwrap().network.mode, NetworkMode::None);
        assert_eq!(built("", "firstlight.network.time=dhcp,h").unwrap().network.mode, NetworkMode::Dhcp);
        let fixed = format!("{url}[network]\nmode = \"static\"\naddress = \"10.0.0.2/8\"\n");
        assert!(matches!(built(&fixed, "").unwrap().network.mode, NetworkMode::Static { .. }));
        let word = format!("firstlight.config=http://h/x#sha256={}", "0".repeat(64));
        let config = built("", &word).unwrap();
        assert_eq!(
            (config.network.mode, config.remote.unwrap().url),
            (NetworkMode::Dhcp, "http://h/x".to_owned())
        );
        let lines = errors("", "firstlight.config=http://h/x");
        assert!(lines[0].starts_with("kernel word firstlight.config: config: read http://h/x; allowed: "));
    }

    #[test]
    fn the_card_is_the_one_that_is_named_else_the_one_booted_from_else_any() {
        let (bootif, mac) = ("BOOTIF=01-52-54-00-12-34-57", |text| super::mac::Mac::read(text).unwrap());
        let card = |text: &str, line: &str| built(text, line).unwrap().network.interface;
        assert_eq!(card("", ""), Card::Any);
        assert_eq!(card("", "BOOTIF=floppy"), Card::Any);
        assert_eq!(card("", bootif), Card::BootedFrom(mac("52:54:00:12:34:57")));
        assert_eq!(card("[network]\ninterface = \"eth1\"\n", bootif), Card::Name("eth1".into()));
        let named = "[network]\ninterface = \"52:54:00:12:34:56\"\n";
        assert_eq!(card(named, bootif), Card::Mac(mac("52:54:00:12:34:56")));
    }

    #[test]
    fn the_word_that_clears_a_mark_has_one_value() {
        assert!(!built("", "").unwrap().forget_reset);
        assert!(built("", "firstlight.reset=clear").unwrap().forget_reset);
        let line = "kernel word firstlight.reset: reset: read yes; allowed: clear";
        assert_eq!(errors("", "firstlight.reset=yes"), [line]);
    }

    #[test]
    fn the_kernels_hostname_counts_when_the_key_is_absent() {
        assert_eq!(built("", "hostname=node7").unwrap().network.hostname, "node7");
        let c = built("[network]\nhostname = \"a\"\n", "hostname=node7").unwrap();
        assert_eq!(c.network.hostname, "a");
    }
}
