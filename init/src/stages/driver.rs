//! Stage 4: the GPU driver's modules, loaded by a child, for a driver's start can hang. That one
//! cannot be loaded is trouble: the boot goes on to its verdict, which is then ERROR.

use crate::child::{End, Stream};
use crate::config::types::Driver;
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::verdict::Trouble;
use std::fmt;

/// What became of the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// `driver.load = false`
    NotWanted,
    /// These were loaded, dependencies too.
    All(Vec<String>),
    /// One could not be loaded.
    Failed(String),
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWanted => f.write_str("driver.load = false: nothing loaded"),
            Self::All(modules) if modules.is_empty() => f.write_str("all built in or there already"),
            Self::All(modules) => f.write_str(&modules.join(" ")),
            Self::Failed(cause) => write!(f, "ERROR: {cause}"),
        }
    }
}

impl Loaded {
    /// What it means for the verdict.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Failed(cause) => Some(Trouble { stage: "driver", cause: cause.clone() }),
            Self::NotWanted | Self::All(_) => None,
        }
    }
}

/// Loads the modules.
///
/// # Errors
/// Only an interruption.
pub fn load(m: &mut Machine, config: &Driver) -> Result<Loaded, Fault> {
    if !config.load {
        return Ok(Loaded::NotWanted);
    }
    let mut loaded = Vec::new();
    let mut line = |stream: Stream, line: &str| {
        if stream == Stream::Out {
            loaded.push(line.to_owned());
        }
        stream == Stream::Out
    };
    let done = m.run(&helper::load_modules(config), &mut line, |_| true)?;
    Ok(match done.end {
        End::Exited(helper::FINE) => Loaded::All(loaded),
        End::Exited(_) => Loaded::Failed(done.reason()),
        end => Loaded::Failed(format!("loading after {} {end}", loaded.last().map_or("nothing", |m| m))),
    })
}
