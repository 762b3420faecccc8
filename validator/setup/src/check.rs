//! Whether what was set up is in force, by what the kernel and the loaded driver show; never by a tool's status. After an
//! update of the driver this says since which version peer-to-peer is off.

use crate::journal::Journal;
use crate::step::{Expected, paths};
use crate::{SetupError, SetupResult};
use machine::host::nvidia::keys::{RegistryKeys, major};
use machine::host::nvidia::{module, params};
use machine::host::{cmdline, modules};
use machine::root::Root;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Whether all of it is in force.
    pub in_force: bool,
    /// What is, and what is not, one line each.
    pub lines: Vec<String>,
}

/// Checks it; `None` if nothing was set up.
///
/// # Errors
/// One line: something could not be read.
pub fn check(root: &Root) -> SetupResult<Option<Checked>> {
    let Some(journal) = Journal::read(root)? else {
        return Ok(None);
    };
    let expected = &journal.expected;
    let mut wrong = Vec::new();
    let mut lines = Vec::new();
    if let Some(version) = &expected.version {
        match driver(root, version, expected)? {
            Ok(line) => lines.push(line),
            Err(line) => wrong.push(line),
        }
    }
    let line = cmdline::read(root).map_err(|e| SetupError::at("proc/cmdline", &e))?;
    let now = cmdline::written(&line);
    for word in &expected.words {
        if now.contains(word) {
            lines.push(format!("the kernel's command line has {word}"));
        } else {
            wrong.push(format!(
                "the kernel's command line has no {word}: reboot, or see `firstlight setup --plan`"
            ));
        }
    }
    let in_force = wrong.is_empty();
    wrong.append(&mut lines);
    Ok(Some(Checked {
        in_force,
        lines: wrong,
    }))
}

/// What the loaded driver shows; an inner error is a line about what is not in force.
fn driver(root: &Root, version: &str, expected: &Expected) -> SetupResult<Result<String, String>> {
    let again = "`firstlight setup --plan` says what to do";
    let Some(loaded) = module::read(root).map_err(SetupError)? else {
        return Ok(Err(format!(
            "P2P is off: NVIDIA's driver is not loaded; {again}"
        )));
    };
    let file = format!("sys/module/nvidia/parameters/{}", paths::PARAMETER);
    let level = modules::absent_is_none(root.text(&file)).map_err(|e| SetupError::at(&file, &e))?;
    if expected.level.is_some() && level != expected.level {
        return Ok(Err(if loaded.version == version {
            format!(
                "P2P is off: the installed module of driver {version} is loaded, and not the edited one; {again}"
            )
        } else {
            format!(
                "P2P is off since driver {}: the edited modules are those of {version}; {again}",
                loaded.version
            )
        }));
    }
    let all = params::read(root).map_err(SetupError)?;
    for (bdf, words) in &expected.keys {
        let now = params::registry_keys(&all, bdf);
        let of = |version: &str, words: &str| RegistryKeys::of(major(version).unwrap_or(0), words);
        if of(&loaded.version, &now) != of(version, words) {
            return Ok(Err(format!(
                "P2P is off: the GPU at {bdf} has the registry keys '{now}' with driver {}; {words} was set up with {version}; {again}",
                loaded.version
            )));
        }
    }
    let edited = if expected.level.is_some() {
        "edited and "
    } else {
        ""
    };
    Ok(Ok(format!(
        "driver {} is {edited}loaded with its registry keys",
        loaded.version
    )))
}
