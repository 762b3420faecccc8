//! Peer-to-peer on an installed system: what is missing on this machine, and the literal step for each part. `read` reads
//! the machine, `plan` decides and does nothing, `apply` takes the steps and keeps a journal, `undo` removes what was
//! added, and `check` holds what runs against what was set up.

#![forbid(unsafe_code)]

pub mod apply;
#[cfg(test)]
mod apply_tests;
pub mod check;
mod difference;
mod edits;
pub mod files;
#[cfg(test)]
mod fixture;
pub mod journal;
pub mod keys;
pub mod options;
pub mod plan;
pub mod read;
pub mod runner;
pub mod state;
pub mod step;
pub mod text;
pub mod undo;

/// One line that says what could not be done, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(pub String);

impl SetupError {
    fn at(path: &str, why: &dyn std::fmt::Display) -> Self {
        Self(format!(
            "/{path}: {why}",
            path = path.trim_start_matches('/')
        ))
    }
}

/// The outcome of a part of setup.
pub type SetupResult<T> = Result<T, SetupError>;
