//! The stage `screen`: keeps or releases a firmware framebuffer on an NVIDIA GPU, before the fabric pass
//! changes that GPU's BARs and before its driver loads.

use crate::child::{End, no_lines};
use crate::config::types::{Config, DeviceSpec, Screen};
use crate::console::screen::{effective_setting, gpus_with_display, is_full_screen};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use log::info;
use std::fmt;
use std::path::Path;

/// What happened to the firmware's framebuffer.
#[derive(Debug, PartialEq, Eq)]
pub enum ScreenResult {
    /// No NVIDIA GPU is the firmware's display.
    NotOnGpu,
    /// It stays on these GPUs.
    Kept(Vec<String>),
    /// It was freed from these GPUs.
    Released(Vec<String>),
    /// It could not be freed.
    Stuck(String),
}

impl fmt::Display for ScreenResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnGpu => f.write_str("no firmware display on an NVIDIA GPU"),
            Self::Kept(gpus) => write!(f, "kept on {}", gpus.join(" ")),
            Self::Released(gpus) => write!(f, "released from {}", gpus.join(" ")),
            Self::Stuck(why) => write!(f, "warning: not released: {why}"),
        }
    }
}

/// Keeps or releases the framebuffer. One that cannot be released is not a fault of the boot: the validator
/// detects it and measures its effect.
///
/// # Errors
/// Only an interruption.
pub fn keep_or_release(m: &mut Machine, config: &Config) -> Result<ScreenResult, Fault> {
    m.full_screen = is_full_screen(&config.console, Path::new("/sys"));
    let gpus = gpus_with_display(Path::new("/sys"));
    if gpus.is_empty() {
        return Ok(ScreenResult::NotOnGpu);
    }
    if effective_setting(&config.console) == Screen::Keep {
        return Ok(ScreenResult::Kept(gpus));
    }
    info!(
        "This screen goes dark now: it sits on GPU {}.",
        gpus.join(" ")
    );
    info!(
        "The verdict will be on: {}",
        where_the_verdict_is(m, config)
    );
    m.console.leave_screen();
    m.full_screen = false;
    let done = m.run(&helper::release_screen(), &mut no_lines, |_| true)?;
    Ok(match done.end {
        End::Exited(helper::SUCCESS) => ScreenResult::Released(gpus),
        _ => ScreenResult::Stuck(done.reason()),
    })
}

fn where_the_verdict_is(m: &Machine, config: &Config) -> String {
    let mut places: Vec<_> = m
        .console
        .names()
        .into_iter()
        .filter(|name| name != "tty0")
        .collect();
    places.extend(config.report.partition.as_ref().map(DeviceSpec::text));
    if places.is_empty() {
        "/run/firstlight of this machine only".to_owned()
    } else {
        places.join(", ")
    }
}
