//! The state that all stages share: consoles, children, times. Also the wrapper around each stage that
//! prints one uniform line: name, result, milliseconds.

use crate::child::{ChildResult, ChildSpec, Children, End, Stream};
use crate::config::types::{Action, Policy, Report, Watchdog};
use crate::console::Console;
use crate::fault::Fault;
use crate::sys::kernel::hostname;
use crate::sys::kernel::since_boot;
use crate::verdict::Judgement;
use contract::mark::Mark;
use log::info;
use serde::Serialize;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The watchdog device that process 1 has armed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Armed {
    /// Its path in /dev.
    pub device: String,
    /// The name that its driver gives it.
    pub name: String,
    /// The time without petting after which it resets the machine.
    pub timeout_s: u64,
    /// Whether its reset can be relied on: a chipset's device may count and reset nothing.
    #[serde(skip)]
    pub is_reliable: bool,
}

/// The state of the reset mark: the stored record of the step that may take the machine down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetMarks {
    /// Names the data partition, for a machine whose firmware has no variables.
    pub report: Report,
    /// The image's id.
    pub image: Option<String>,
    /// The mark that is left at the end: that of an earlier boot, which stays until it is cleared, or that of the coming reboot.
    pub restore: Option<Mark>,
    /// How many boots in a row before this one ended with a reboot by the policy.
    pub reboots: u64,
    /// Whether this boot has written a mark that has not been removed yet.
    pub is_written: bool,
}

/// The boot's shared state.
#[derive(Debug)]
pub struct Machine {
    /// The outputs for lines.
    pub console: Console,
    /// Runs children and receives signals.
    pub children: Children,
    /// The action after a fault; known once the policy is read.
    pub on_fault: Action,
    /// `policy.max_reboots`
    pub max_reboots: u64,
    /// Whether the machine's own screen shows more than lines.
    pub full_screen: bool,
    /// Whether the verdict was announced; it is announced once.
    pub announced: bool,
    /// The result of bringing up the network, once that was tried: what is up, or the reason of the
    /// failure.
    pub network: Option<Result<String, String>>,
    /// The interfaces that carry traffic, once the network is up.
    pub interfaces: Vec<String>,
    /// The child that keeps link-local addresses and the routes to peers.
    pub address_keeper: Option<OwnedFd>,
    /// How long the kernel took to unpack the initrd, if its log shows it.
    pub initrd_unpack_time: Option<Duration>,
    /// The driver's devices, kept open so that the GPUs stay initialised. Never closed, because that can
    /// hang. Children do not inherit them; a switch of the root passes them on.
    pub held_devices: Vec<OwnedFd>,
    /// The watchdog, while process 1 has it.
    pub watchdog: Option<Armed>,
    /// The kernel's timer beside it.
    pub watchdog_beside: Option<Armed>,
    /// The settings with which it is armed again after the workload had it.
    pub watchdog_to_rearm: Option<Watchdog>,
    /// The state of the reset mark, if this machine can store one.
    pub marks: Option<ResetMarks>,
    /// Whether this boot has looked for a place for marks.
    pub marks_sought: bool,
    started: Duration,
    /// The stages that have ended: name, beginning, and time taken.
    stages: Vec<(String, Duration, Duration)>,
}

impl Machine {
    /// Starts the clock and takes over the signals.
    ///
    /// # Errors
    /// [`Fault::Signals`]
    pub fn new(console: Console) -> Result<Self, Fault> {
        let started = since_boot();
        let children = Children::new().map_err(Fault::Signals)?;
        let (network, initrd_unpack_time, held_devices) = (None, None, Vec::new());
        Ok(Self {
            console,
            children,
            on_fault: Action::Hold,
            max_reboots: Policy::default().max_reboots,
            full_screen: false,
            announced: false,
            network,
            interfaces: Vec::new(),
            address_keeper: None,
            initrd_unpack_time,
            held_devices,
            watchdog: None,
            watchdog_beside: None,
            watchdog_to_rearm: None,
            marks: None,
            marks_sought: false,
            started,
            stages: vec![("kernel".to_owned(), Duration::ZERO, started)],
        })
    }

    /// Runs a stage and prints its line.
    ///
    /// # Errors
    /// The stage's.
    pub fn stage<T: Display>(
        &mut self,
        name: &str,
        stage: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let began = since_boot();
        self.children.watchdog.pet();
        let result = stage(self);
        self.children.watchdog.pet();
        self.stages
            .push((name.to_owned(), began, since_boot().saturating_sub(began)));
        match &result {
            Ok(value) => print_line(name, value, began),
            Err(fault) => print_line(name, &format_args!("stopped by {}", fault.code()), began),
        }
        result
    }

    /// Runs a child and prints its last lines unless `fine` accepts how it ended.
    ///
    /// # Errors
    /// [`Fault::ShutdownRequested`] when the machine was asked to shut down meanwhile.
    pub fn run(
        &self,
        spec: &ChildSpec,
        line: &mut dyn FnMut(Stream, &str) -> bool,
        fine: impl Fn(End) -> bool,
    ) -> Result<ChildResult, Fault> {
        let done = self.children.run(spec, line);
        if let End::Interrupted(request) = done.end {
            return Err(Fault::ShutdownRequested(request));
        }
        if !fine(done.end) {
            let name = spec.program.rsplit('/').next().unwrap_or(&spec.program);
            done.tail.iter().for_each(|line| info!("  {name}: {line}"));
        }
        Ok(done)
    }

    /// Announces the verdict, once per boot, after the times of the boot.
    pub fn announce(&mut self, judgement: &Judgement) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        let init = since_boot().saturating_sub(self.started);
        let own = init.saturating_sub(self.children.waited()).as_millis();
        let (kernel, init) = (seconds(self.started), seconds(init));
        info!("boot      kernel {kernel} s, init to verdict {init} s, init's own {own} ms");
        if let Some(took) = self.initrd_unpack_time {
            info!(
                "initrd    unpacked in {} s of the kernel's {kernel} s",
                seconds(took)
            );
        }
        judgement
            .announcement(&hostname())
            .iter()
            .for_each(|line| info!("{line}"));
    }

    /// The stages so far, each as the validator's `--boot-stage` takes it: `mounts=5.034+0.179`, seconds.
    pub fn boot_stages(&self) -> impl Iterator<Item = String> {
        let precise = |time: &Duration| format!("{}.{:03}", time.as_secs(), time.subsec_millis());
        self.stages
            .iter()
            .map(move |(name, began, took)| format!("{name}={}+{}", precise(began), precise(took)))
    }

    /// Seconds since init started.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        since_boot().saturating_sub(self.started).as_secs_f64()
    }
}

/// Seconds with two digits. Without floating point: starting its formatting code is expensive under an
/// emulator.
fn seconds(time: Duration) -> String {
    format!("{}.{:02}", time.as_secs(), time.subsec_millis() / 10)
}

/// Prints a stage's line. Not generic, so that it is compiled once for all stages.
fn print_line(name: &str, did: &dyn Display, began: Duration) {
    let took = since_boot().saturating_sub(began).as_millis();
    info!("{}", stage_line(name, &did.to_string(), took));
}

fn stage_line(name: &str, did: &str, milliseconds: u128) -> String {
    format!("{name:<9} {did:<58} {milliseconds:>7} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_line_fits_80_columns() {
        assert_eq!(stage_line("lock down", "modules locked", 3).len(), 79);
        assert!(stage_line("mounts", "x", 1).ends_with("      1 ms"));
    }
}
