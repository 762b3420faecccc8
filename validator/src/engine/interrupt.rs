//! SIGINT, SIGTERM and SIGHUP, as a state that a run polls. They are blocked, and one thread waits for them; child
//! processes inherit that, so that only this process reacts to the keys of a terminal.

use nix::sys::signal::{SigSet, Signal};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// A second signal this long after the first ends the program immediately, without a report.
const FORCE_DELAY: Duration = Duration::from_secs(3);

/// The signals that this process has received.
#[derive(Debug, Clone, Default)]
pub struct Interrupts(Arc<AtomicI32>);

/// A signal that requests the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupt(Signal);

impl Interrupts {
    /// From now on a signal ends the run and not the program. Must be called before any thread is started.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn catch() -> io::Result<Self> {
        let mut signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        // Under nohup the run goes on when its terminal closes.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !ignores(&status, Signal::SIGHUP) {
            signals.add(Signal::SIGHUP);
        }
        signals.thread_block()?;
        let caught = Self::default();
        let seen = Arc::clone(&caught.0);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || wait(&signals, &seen))?;
        Ok(caught)
    }

    /// The first signal, if there was one.
    #[must_use]
    pub fn received(&self) -> Option<Interrupt> {
        let signal = Signal::try_from(self.0.load(Ordering::Acquire)).ok()?;
        Some(Interrupt(signal))
    }
}

impl Interrupt {
    /// 128 plus the signal's number, as in shells.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        u8::try_from(self.0 as i32).map_or(u8::MAX, |number| 128 | number)
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Whether a process with this /proc/PID/status ignores a signal (proc_pid_status(5): `SigIgn` is a mask in hexadecimal, in
/// which bit 0 is signal 1).
fn ignores(status: &str, signal: Signal) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32).saturating_sub(1) & 1 == 1)
}

fn wait(signals: &SigSet, seen: &AtomicI32) {
    let mut first = None;
    while let Ok(signal) = signals.wait() {
        match first {
            None => {
                first = Some(Instant::now());
                seen.store(signal as i32, Ordering::Release);
            }
            Some(first) if first.elapsed() > FORCE_DELAY => {
                log::error!("{} again: ended without a report", signal.as_str());
                let _ = nix::sys::signal::raise(Signal::SIGKILL);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_recognized_by_its_bit() {
        let status = |mask: &str| format!("Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores(&status("0000000000001001"), Signal::SIGHUP));
        assert!(!ignores(&status("0000000000001000"), Signal::SIGHUP));
        assert!(ignores(&status("0000000000004000"), Signal::SIGTERM));
        assert!(!ignores("", Signal::SIGHUP));
    }

    #[test]
    fn the_first_signal_counts_and_has_its_status() {
        let none = Interrupts::default();
        assert_eq!(none.received(), None);
        for (signal, status, name) in [
            (Signal::SIGINT, 130, "SIGINT"),
            (Signal::SIGTERM, 143, "SIGTERM"),
            (Signal::SIGHUP, 129, "SIGHUP"),
        ] {
            let interrupt = Interrupts(Arc::new(AtomicI32::new(signal as i32)))
                .received()
                .unwrap();
            assert_eq!(
                (interrupt.exit_status(), interrupt.to_string().as_str()),
                (status, name)
            );
        }
    }
}
