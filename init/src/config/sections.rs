//! Builds the typed sections from the merged layers, with defaults. Values that are invalid only in
//! combination (a mode without a key that it needs) are found here.

use super::LayerSource;
use super::keys;
use super::layers::MergedLayers;
use super::signature;
use super::types::{
    Action, BootSource, Console, Driver, OnExit, Policy, Recover, Report, RootSource, Screen, ScreenView, Serial,
    Trust, Watchdog, WatchdogMode, Workload, WorkloadMode,
};
use super::values;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Value;

impl MergedLayers {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.value.as_str()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.value.as_bool()
    }

    pub(super) fn seconds(&self, key: &str, default: u64) -> Duration {
        let read = self.get(key).and_then(|e| u64::try_from(e.value.as_integer()?).ok());
        Duration::from_secs(read.unwrap_or(default))
    }

    pub(super) fn list(&self, key: &str) -> Option<Vec<String>> {
        let items = self.get(key)?.value.as_array()?;
        Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Parses a text with `read`. An absent or empty text is `None`; an invalid one is reported.
    pub(super) fn parsed<T>(&mut self, key: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(key).filter(|text| !text.is_empty())?;
        let value = read(text);
        if value.is_none() {
            self.refuse_entry(key);
        }
        value
    }

    /// Reports that `key` is required by the value of `because`.
    pub(super) fn missing(&mut self, key: &str, because: &str) {
        let place = self.get(because).map_or_else(|| "defaults".to_owned(), |e| e.place.clone());
        let allowed = keys::find(key).map_or("", |k| k.allowed);
        let why = self.text(because).unwrap_or("").to_owned();
        self.refuse(&place, key, "nothing", &format!("with {because} = \"{why}\" {allowed}"));
    }
}

/// `[config]`
pub(super) fn trust(m: &mut MergedLayers) -> Trust {
    Trust {
        key: m.parsed("config.key", |text| signature::is_key(text).then(|| text.to_owned())),
        disk_overrides_server: m.flag("config.disk_overrides_server").unwrap_or(false),
    }
}

/// `[driver]`
pub(super) fn driver(m: &mut MergedLayers) -> Driver {
    let named = m.list("driver.modules");
    let plain =
        |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if named.as_ref().is_some_and(|names| !names.iter().all(plain)) {
        m.refuse_entry("driver.modules");
    }
    let table = m.get("driver.parameters").and_then(|e| e.value.as_table());
    let pairs = table.into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
    let parameters: BTreeMap<String, String> = pairs.collect();
    Driver {
        load: m.flag("driver.load"),
        modules: named.unwrap_or_else(|| vec!["nvidia".to_owned(), "nvidia-uvm".to_owned()]),
        parameters,
        timeout: m.seconds("driver.timeout_s", 300),
    }
}

fn action(word: &str) -> Option<Action> {
    Some(match word {
        "workload" => Action::Workload,
        "workload-without-p2p" => Action::WorkloadWithoutP2p,
        "hold" => Action::Hold,
        "shell" => Action::Shell,
        "reboot" => Action::Reboot,
        "poweroff" => Action::PowerOff,
        _ => return None,
    })
}

/// What may be set in place of a shell.
const NO_SHELL: &str = "workload, workload-without-p2p, hold, reboot, poweroff; shell where a file of the image has \
                        policy.allow_shell = true";

/// `[policy]`
pub(super) fn policy(m: &mut MergedLayers) -> Policy {
    let keys = ["policy.on_pass", "policy.on_degraded", "policy.on_fail", "policy.on_error"];
    if m.flag("policy.allow_shell") != Some(true) {
        let shells: Vec<_> = keys.into_iter().filter(|key| m.text(key) == Some("shell")).collect();
        shells.into_iter().for_each(|key| m.refuse_as(key, NO_SHELL));
    }
    let read = |key: &str, default| m.text(key).and_then(action).unwrap_or(default);
    Policy {
        on_pass: read("policy.on_pass", Action::Workload),
        on_degraded: read("policy.on_degraded", Action::Workload),
        on_fail: read("policy.on_fail", Action::Hold),
        on_error: read("policy.on_error", Action::Hold),
        recover: match m.text("policy.recover") {
            Some("gpu") => Recover::Gpu,
            Some("reboot") => Recover::Reboot,
            _ => Recover::Off,
        },
        allow_shell: m.flag("policy.allow_shell") == Some(true),
    }
}

/// `[workload]`
pub(super) fn workload(m: &mut MergedLayers) -> Workload {
    let exec = m.list("workload.exec").unwrap_or_default();
    if exec.first().is_some_and(|program| !program.starts_with('/')) {
        m.refuse_entry("workload.exec");
    }
    let root: Option<RootSource> = m.parsed("workload.root", values::root_source);
    let mode = match (m.text("workload.mode"), root) {
        (Some("exec"), _) if exec.is_empty() => {
            m.missing("workload.exec", "workload.mode");
            WorkloadMode::None
        }
        (Some("exec"), _) => WorkloadMode::Exec(exec),
        (Some("switch-root"), Some(root)) => WorkloadMode::SwitchRoot { root, exec },
        (Some("switch-root"), None) => {
            m.missing("workload.root", "workload.mode");
            WorkloadMode::None
        }
        _ => WorkloadMode::None,
    };
    let on_exit = match m.text("workload.on_exit") {
        Some("reboot") => OnExit::Reboot,
        Some("hold") => OnExit::Hold,
        _ => OnExit::PowerOff,
    };
    let lock = m.flag("workload.lock_modules");
    let watchdog = m.flag("workload.watchdog").unwrap_or(false);
    Workload { lock_modules: lock.unwrap_or(matches!(mode, WorkloadMode::Exec(_))), mode, on_exit, watchdog }
}

/// `[watchdog]`
pub(super) fn watchdog(m: &mut MergedLayers) -> Watchdog {
    let mode = match m.text("watchdog.mode") {
        Some("hardware") => WatchdogMode::Hardware,
        Some("software") => WatchdogMode::Software,
        Some("off") => WatchdogMode::Off,
        _ => WatchdogMode::Auto,
    };
    if mode == WatchdogMode::Off && m.flag("workload.watchdog") == Some(true) {
        m.refuse_as("workload.watchdog", "false, because watchdog.mode is off");
    }
    Watchdog { mode, timeout: m.seconds("watchdog.timeout_s", 60) }
}

/// `[report]`
pub(super) fn report(m: &mut MergedLayers) -> Report {
    let url = m.parsed("report.url", values::url);
    let timeout = m.seconds("report.timeout_s", 60);
    let named = m.get("report.partition").map(|entry| entry.source);
    let any_disk = matches!(named, Some(LayerSource::Image | LayerSource::KernelWord));
    let required = m.flag("report.required").unwrap_or(named.is_some());
    let partition = m.parsed("report.partition", values::device_spec);
    let default = || named.is_none().then(super::types::DeviceSpec::default_partition);
    let keep = m.get("report.keep").and_then(|e| u16::try_from(e.value.as_integer()?).ok());
    let (partition, keep) = (partition.or_else(default), keep.unwrap_or(20));
    let mut file = |key| m.parsed(key, |path| path.starts_with('/').then(|| path.to_owned()));
    let (key_file, token_file) = (file("report.key_file"), file("report.token_file"));
    Report {
        partition,
        any_disk,
        required,
        url,
        timeout,
        keep,
        key_file,
        token_file,
        config_read: false,
        ignored: Vec::new(),
    }
}

/// `[console]`
pub(super) fn console(m: &mut MergedLayers, booted_from: BootSource) -> Console {
    let named = m.list("console.serial").map(values::rejoin_rates);
    let read = |lines: &Vec<String>| lines.iter().map(|line| values::serial(line)).collect();
    let serial: Option<Vec<_>> = named.as_ref().map_or_else(|| Some(vec![Serial::default_line()]), read);
    if serial.is_none() {
        m.refuse_entry("console.serial");
    }
    let screen = match m.text("console.screen") {
        Some("keep") => Screen::Keep,
        Some("release") => Screen::Release,
        _ => Screen::Auto,
    };
    let view = match m.text("console.view") {
        Some("lines") => ScreenView::Lines,
        Some("full") => ScreenView::Full,
        _ => ScreenView::Auto,
    };
    Console { serial: serial.unwrap_or_default(), serial_named: named.is_some(), screen, view, booted_from }
}
