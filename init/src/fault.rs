//! The faults of init itself, with stable codes that a person can quote, and the last words about them. The
//! policy decides what follows.

use crate::child::ShutdownRequest;
use crate::console::Console;
use std::io;
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// A fault of init. Problems of the machine or the validator are not faults: they lead to a verdict.
#[derive(Debug, Error)]
pub enum Fault {
    /// A mandatory mount failed.
    #[error("{what} on {at}: {source}")]
    Mount {
        /// File system.
        what: &'static str,
        /// Folder.
        at: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Signals cannot be received.
    #[error("signalfd: {0}")]
    Signals(io::Error),
    /// The configuration is invalid; one line for each error.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// The machine could not be handed over.
    #[error("{0}")]
    HandOff(String),
    /// The machine was asked to shut down or restart during the boot.
    #[error("asked to {} before the hand-over", .0.word())]
    ShutdownRequested(ShutdownRequest),
    /// A panic was caught.
    #[error("{0}")]
    Panic(String),
}

impl ShutdownRequest {
    const fn word(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::PowerOff => "power off",
        }
    }
}

impl Fault {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Mount { .. } => "INIT-MOUNT",
            Self::Signals(_) => "INIT-SIGNALS",
            Self::Config(_) => "INIT-CONFIG",
            Self::HandOff(_) => "INIT-HANDOFF",
            Self::ShutdownRequested(_) => "INIT-ASKED",
            Self::Panic(_) => "INIT-PANIC",
        }
    }

    /// What the verdict names as failed.
    #[must_use]
    pub const fn failed(&self) -> &'static str {
        match self {
            Self::Mount { .. } => "mounts",
            Self::Config(_) => "config",
            Self::HandOff(_) => "hand-off",
            Self::ShutdownRequested(_) => "interrupted",
            Self::Signals(_) | Self::Panic(_) => "init",
        }
    }

    /// The last words, one line each.
    #[must_use]
    pub fn last_words(&self) -> Vec<String> {
        self.to_string()
            .lines()
            .map(|line| format!("ERROR     {}: {line}", self.code()))
            .collect()
    }
}

/// Writes the last words to the consoles, the kernel's log and boot.log. A child writes them to the
/// firmware's store (`stages::firmware`).
pub fn print_last_words(console: &Console, fault: &Fault) {
    fault
        .last_words()
        .iter()
        .for_each(|line| console.last_words(line));
}

static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Makes a panic store its message here instead of writing to standard error, which can block.
pub fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("no message");
        let place = info
            .location()
            .map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{message}{place}"));
    }));
}

/// The fault for a caught panic.
#[must_use]
pub fn from_panic() -> Fault {
    let message = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    Fault::Panic(message.unwrap_or_else(|| "a panic without a message".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_fault_carries_its_code() {
        let fault = Fault::Config(vec!["a: b".into(), "c: d".into()]);
        assert_eq!(
            fault.last_words(),
            ["ERROR     INIT-CONFIG: a: b", "ERROR     INIT-CONFIG: c: d"]
        );
    }

    #[test]
    fn a_panic_becomes_a_fault_with_its_location() {
        record_panics();
        let caught = std::panic::catch_unwind(|| panic!("on purpose"));
        assert!(caught.is_err());
        let text = from_panic().to_string();
        assert!(
            text.starts_with("on purpose at ") && text.contains("fault.rs:"),
            "{text}"
        );
    }
}
