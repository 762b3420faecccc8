//! The stage `fabric`: runs the fabric pass, `firstlight fabric fix`, in a child before the driver is
//! loaded. The validator reports the pass's findings again; a pass that could not do its work is trouble.

use crate::child::{End, Stream};
use crate::config::types::Validator;
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::verdict::Trouble;
use log::debug;
use std::fmt;
use std::time::Duration;

/// The pass accesses a few hundred registers; a hung device makes each access slow.
const DEADLINE: Duration = Duration::from_secs(60);

/// The result of the pass.
#[derive(Debug, PartialEq, Eq)]
pub enum Fixed {
    /// It did what the policy asks, or its line names what is left; the line is the stage's line.
    Done(String),
    /// It could not do its work.
    Failed(String),
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(said) => f.write_str(said),
            Self::Failed(why) => write!(f, "ERROR: {why}"),
        }
    }
}

impl Fixed {
    /// What the result means for the verdict.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Failed(cause) => Some(Trouble { stage: "fabric", cause: cause.clone() }),
            Self::Done(_) => None,
        }
    }
}

/// Runs the pass.
///
/// # Errors
/// [`Fault::Config`] when the validator refuses its sections (status 64), or an interruption.
pub fn fix(m: &mut Machine, config: &Validator) -> Result<Fixed, Fault> {
    let spec = helper::validator(config, &["fabric", "fix", "--journal", paths::JOURNAL], DEADLINE);
    let mut last = String::new();
    let mut line = |stream: Stream, line: &str| {
        debug!("fabric: {line}");
        if stream == Stream::Out && !line.trim().is_empty() {
            line.trim().clone_into(&mut last);
        }
        stream == Stream::Out
    };
    let done = m.run(&spec, &mut line, |end| matches!(end, End::Exited(0 | 1 | 64)))?;
    if done.end == End::Exited(64) {
        return Err(Fault::Config(refusal(&done.tail)));
    }
    if last.is_empty() {
        last = "nothing said".to_owned();
    }
    Ok(match done.end {
        End::Exited(0 | 1) => Fixed::Done(last),
        _ => Fixed::Failed(format!("firstlight fabric fix {}", done.end)),
    })
}

fn refusal(tail: &[String]) -> Vec<String> {
    if tail.is_empty() { vec!["the validator refused its configuration".to_owned()] } else { tail.to_vec() }
}
