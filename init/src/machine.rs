//! What the whole boot shares: consoles, children, times. And the one wrapper around a stage, which
//! prints one uniform line: its name, what it did, milliseconds.

use crate::child::{Children, Done, End, Spec, Stream};
use crate::config::types::Action;
use crate::console::Console;
use crate::fault::Fault;
use crate::sys::clock::since_boot;
use crate::sys::kernel::hostname;
use crate::verdict::Judgement;
use log::info;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The boot's shared state.
#[derive(Debug)]
pub struct Machine {
    /// Where lines appear.
    pub console: Console,
    /// Who waits for children.
    pub children: Children,
    /// What a fault is followed by; known once the policy is.
    pub on_fault: Action,
    /// Whether the verdict was told: it is told once.
    pub announced: bool,
    /// What came of bringing the network up, once that was tried: what is up, or why nothing is.
    pub network: Option<Result<String, String>>,
    /// How long the kernel took to unpack the initrd, when its log says so.
    pub initrd: Option<Duration>,
    /// The driver's devices, open so that the GPUs stay initialised. Never closed: that can hang.
    /// No child gets them; a switch of the root hands them on.
    pub held: Vec<OwnedFd>,
    started: Duration,
}

impl Machine {
    /// Starts the clock and takes the signals.
    ///
    /// # Errors
    /// [`Fault::Signals`]
    pub fn new(console: Console) -> Result<Self, Fault> {
        let started = since_boot();
        let children = Children::new().map_err(Fault::Signals)?;
        let (network, initrd, held) = (None, None, Vec::new());
        Ok(Self {
            console,
            children,
            on_fault: Action::Hold,
            announced: false,
            network,
            initrd,
            held,
            started,
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
        let result = stage(self);
        match &result {
            Ok(value) => tell(name, value, began),
            Err(fault) => tell(name, &format_args!("stopped by {}", fault.code()), began),
        }
        result
    }

    /// Runs a child and shows its last lines when it ended otherwise than `fine` says.
    ///
    /// # Errors
    /// [`Fault::Asked`] when the machine was asked to go down meanwhile.
    pub fn run(
        &self,
        spec: &Spec,
        line: &mut dyn FnMut(Stream, &str) -> bool,
        fine: impl Fn(End) -> bool,
    ) -> Result<Done, Fault> {
        let done = self.children.run(spec, line);
        if let End::Interrupted(request) = done.end {
            return Err(Fault::Asked(request));
        }
        if !fine(done.end) {
            let name = spec.program.rsplit('/').next().unwrap_or(&spec.program);
            done.tail.iter().for_each(|line| info!("  {name}: {line}"));
        }
        Ok(done)
    }

    /// Tells the verdict, once a boot, after the times that led to it.
    pub fn announce(&mut self, judgement: &Judgement) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        let init = since_boot().saturating_sub(self.started);
        let own = init.saturating_sub(self.children.waited()).as_millis();
        let (kernel, init) = (seconds(self.started), seconds(init));
        info!("boot      kernel {kernel} s, init to verdict {init} s, init's own {own} ms");
        if let Some(took) = self.initrd {
            info!("initrd    unpacked in {} s of the kernel's {kernel} s", seconds(took));
        }
        judgement.announcement(&hostname()).iter().for_each(|line| info!("{line}"));
    }

    /// Seconds since init started.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        since_boot().saturating_sub(self.started).as_secs_f64()
    }
}

/// Seconds with two digits. Not by way of a float: its printing is the dearest thing to start under
/// an emulator.
fn seconds(time: Duration) -> String {
    format!("{}.{:02}", time.as_secs(), time.subsec_millis() / 10)
}

/// Prints a stage's line. Once for all stages: what differs between them is only what they say.
fn tell(name: &str, did: &dyn Display, began: Duration) {
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
