//! Commands that read a finished report: `render` and `env`.

use super::output::write;
use super::{CommandError, FINE};
use crate::cli::args::{Form, Place};
use crate::files::bounded;
use crate::net::publish::LARGEST;
use crate::render::{html, json, junit, prometheus, text};
use crate::report::{Report, from_json};
use crate::text::shown::shown_text;
use std::path::Path;

/// Converts a report to another form.
pub(super) fn render(path: &Path, to: Form, output: &Place) -> Result<u8, CommandError> {
    let report = read(path)?;
    let text = match to {
        Form::Text => shown_text(&text::whole(&report, Some(&path.display().to_string()))),
        Form::Json => json::pretty(&report).map_err(|e| CommandError::undone(&e))?,
        Form::Html => html::page(&report).map_err(|e| CommandError::undone(&e))?,
        Form::Junit => junit::suites(&report).map_err(|e| CommandError::undone(&e))?,
        Form::Prometheus => prometheus::families(&report),
    };
    write(output, &text)?;
    Ok(FINE)
}

/// Prints NAME=value lines, each after its reason as a comment.
pub(super) fn env(path: &Path) -> Result<u8, CommandError> {
    let report = read(path)?;
    let mut lines = String::new();
    for (name, value) in &report.workload_env {
        // Any other line could set something else for the workload.
        let named = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !named || value.contains(['\n', '\0']) {
            let (file, read) = (path.display(), format!("{name}={value}"));
            return Err(CommandError::Undone(format!(
                "{file}: workload_env: read {read:?}, allowed: a NAME of letters, digits and _ and one line"
            )));
        }
        if let Some(reason) = report.workload_reasons.get(name) {
            if reason.contains(['\n', '\0']) {
                let (file, read) = (path.display(), reason);
                return Err(CommandError::Undone(format!(
                    "{file}: workload_reasons.{name}: read {read:?}, allowed: one line"
                )));
            }
            lines.push_str(&format!("# {reason}\n"));
        }
        lines.push_str(&format!("{name}={value}\n"));
    }
    write(&Place::Stdout, &lines)?;
    Ok(FINE)
}

fn read(path: &Path) -> Result<Report, CommandError> {
    let here = |why: String| CommandError::Undone(format!("{}: {why}", path.display()));
    let bytes = bounded::read(path, LARGEST).map_err(here)?;
    from_json(&bytes).map_err(|e| here(e.to_string()))
}
