//! The stages of the boot before the tests and their times, which process 1 passes to `validate --boot-stage`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One stage of the boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootStage {
    /// Its name on the console; `kernel` is everything before process 1.
    pub stage: String,
    /// When it began, seconds after the kernel started.
    pub began: f64,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// A text that is not a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("allowed: NAME=BEGAN+SECONDS, as mounts=5.034+0.179")]
pub struct BootStageError;

/// As process 1 writes it: `mounts=5.034+0.179`.
impl FromStr for BootStage {
    type Err = BootStageError;

    fn from_str(text: &str) -> Result<Self, BootStageError> {
        let (stage, times) = text
            .split_once('=')
            .filter(|(stage, _)| !stage.is_empty())
            .ok_or(BootStageError)?;
        let (began, seconds) = times.split_once('+').ok_or(BootStageError)?;
        let time = |text: &str| {
            let time = text.parse().ok();
            time.filter(|time: &f64| time.is_finite() && *time >= 0.0)
                .ok_or(BootStageError)
        };
        Ok(Self {
            stage: stage.to_owned(),
            began: time(began)?,
            seconds: time(seconds)?,
        })
    }
}

impl fmt::Display for BootStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}+{}", self.stage, self.began, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_a_name_and_two_times() {
        let stage = BootStage {
            stage: "hand off".into(),
            began: 5.25,
            seconds: 0.0,
        };
        assert_eq!("hand off=5.25+0".parse(), Ok(stage.clone()));
        assert_eq!(stage.to_string().parse(), Ok(stage));
        for text in [
            "",
            "mounts",
            "=1+2",
            "mounts=1",
            "mounts=1+",
            "mounts=-1+2",
            "mounts=1+NaN",
            "mounts=inf+2",
        ] {
            assert_eq!(text.parse::<BootStage>(), Err(BootStageError), "{text}");
        }
    }
}
