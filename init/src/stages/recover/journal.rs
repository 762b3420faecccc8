//! The file that records what was done to recover GPUs. It is written before and after each rung, so that it also shows a
//! rung that took the machine down.

use super::RecoveryResult;
use super::ladder::{Rung, Tried};
use crate::config::types::Recover;
use crate::file_io::write_atomically;
use crate::paths;
use contract::schema;
use log::info;
use serde::Serialize;
use std::path::Path;

/// `firstlight.recovery/1`, written before and after each rung.
#[derive(Debug, Serialize)]
pub(super) struct Journal {
    schema: &'static str,
    /// The code or the cause that requires the recovery.
    why: String,
    allowed: Recover,
    /// The rung that is being tried.
    trying: Option<Rung>,
    pub(super) tried: Vec<Tried>,
    /// `recovered`, `rebooting` or `gave-up`; none while the recovery is running.
    result: Option<&'static str>,
    cause: Option<String>,
}

impl Journal {
    pub(super) fn new(why: &str, allowed: Recover) -> Self {
        let (tried, schema) = (Vec::new(), schema::RECOVERY);
        Self {
            schema,
            why: why.to_owned(),
            allowed,
            trying: None,
            tried,
            result: None,
            cause: None,
        }
    }

    pub(super) fn begin(&mut self, rung: Rung) {
        self.trying = Some(rung);
        self.write();
    }

    pub(super) fn add(&mut self, tried: Tried) {
        self.trying = None;
        self.tried.push(tried);
        self.write();
    }

    pub(super) fn last(&self) -> String {
        let text = |tried: &Tried| format!("{}: {}", tried.rung, tried.said);
        self.tried.last().map_or_else(|| self.why.clone(), text)
    }

    pub(super) fn end(&mut self, found: &RecoveryResult) {
        let (result, cause) = match found {
            RecoveryResult::GaveUp(cause) => ("gave-up", Some(cause.clone())),
            RecoveryResult::Reboots(cause) => ("rebooting", Some(cause.clone())),
            RecoveryResult::Recovered | RecoveryResult::NotTried | RecoveryResult::Rebooted(..) => {
                ("recovered", None)
            }
        };
        (self.result, self.cause) = (Some(result), cause);
        self.write();
    }

    fn write(&self) {
        let text = serde_json::to_string(self).map_err(|e| e.to_string());
        let write = |text: String| {
            write_atomically(Path::new(paths::RECOVERY), (text + "\n").as_bytes())
                .map_err(|e| e.to_string())
        };
        if let Err(why) = text.and_then(write) {
            info!("warning: {}: {why}", paths::RECOVERY);
        }
    }
}
