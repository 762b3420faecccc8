//! The stage `watchdog`: arms the device that resets the machine when process 1 no longer makes progress, and gives it up or
//! passes it on at the hand-over. Children touch the device, because it can hang; process 1 pets it (`child::petting`).

use crate::child::petting::PetMethod;
use crate::child::{End, on_output};
use crate::config::types::{Action, Config, Watchdog, WatchdogMode, WorkloadMode};
use crate::environment::Variable;
use crate::fault::Fault;
use crate::helper::{self, Helper, WatchdogEnd};
use crate::machine::{Armed, Machine};
use crate::sys::descriptors;
use crate::verdict::StageError;
use contract::outcome::code;
use log::info;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The workload's variable with the device; with `_S` after it, the seconds.
const VARIABLE: &str = "FIRSTLIGHT_WATCHDOG";

/// The result of arming the watchdog.
#[derive(Debug, PartialEq, Eq)]
pub enum WatchdogState {
    /// `watchdog.mode = "off"`
    Off,
    /// Process 1 has armed this device, and perhaps the kernel's timer beside it; the requested settings.
    Armed(Armed, Option<Armed>, Watchdog),
    /// There is no usable device, and why.
    Unavailable(WatchdogMode, String),
}

impl fmt::Display for WatchdogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off: watchdog.mode = off"),
            Self::Armed(armed, beside, wanted) => {
                write!(f, "{}, {} s", armed.name, armed.timeout_s)?;
                if !armed.is_reliable {
                    f.write_str(", not proven to reset")?;
                }
                if let Some(beside) = beside {
                    write!(f, "; {}, {} s", beside.name, beside.timeout_s)?;
                }
                let asked = wanted.timeout_s.as_secs();
                if armed.timeout_s == asked {
                    Ok(())
                } else {
                    write!(f, "; warning: it refused {asked} s")
                }
            }
            Self::Unavailable(WatchdogMode::Auto, why) => write!(f, "warning: none: {why}"),
            Self::Unavailable(mode, why) => write!(f, "ERROR: no {} watchdog: {why}", mode.word()),
        }
    }
}

impl WatchdogState {
    /// The error that the verdict must include: a device that the configuration demands must exist.
    #[must_use]
    pub fn stage_error(&self) -> Option<StageError> {
        let Self::Unavailable(mode, why) = self else {
            return None;
        };
        let cause = || format!("watchdog.mode = {}: {why}", mode.word());
        let demanded = *mode != WatchdogMode::Auto;
        demanded.then(|| StageError {
            stage: "watchdog",
            code: Some(code::WATCHDOG_NONE),
            cause: cause(),
        })
    }
}

/// Arms the device.
///
/// # Errors
/// Only an interruption.
pub fn arm(m: &mut Machine, config: &Watchdog) -> Result<WatchdogState, Fault> {
    if config.mode == WatchdogMode::Off {
        return Ok(WatchdogState::Off);
    }
    let without = |why: String| WatchdogState::Unavailable(config.mode, why);
    let (ours, theirs) = match descriptors::pair() {
        Ok(pair) => pair,
        Err(e) => return Ok(without(format!("socketpair: {e}"))),
    };
    let mut said = Vec::new();
    let spec = helper::arm_watchdog(config, theirs);
    let done = m.run(
        &spec,
        &mut on_output(|line| said.extend(parse_line(line))),
        |_| true,
    );
    drop(spec);
    let devices = descriptors::receive_all(ours.as_fd());
    let fine = done
        .as_ref()
        .is_ok_and(|done| done.end == End::Exited(helper::SUCCESS));
    if devices.is_empty() {
        return Ok(without(done?.reason()));
    }
    if !fine || devices.len() != said.len() {
        let mut stays = Vec::new();
        for device in devices {
            stays.extend(release_device(m, device, WatchdogEnd::Disarm, "the device")?.err());
        }
        let why = done?.reason();
        let it = if stays.is_empty() {
            String::new()
        } else {
            format!("; it may run on: {}", stays.join("; "))
        };
        return Ok(without(format!("{why}{it}")));
    }
    let mut armed = Vec::new();
    for (device, (one, by)) in devices.into_iter().zip(said) {
        m.children
            .watchdog
            .begin(device, by, Duration::from_secs(one.timeout_s));
        armed.push(one);
    }
    let mut armed = armed.into_iter();
    let Some(first) = armed.next() else {
        return Ok(without("no device came".to_owned()));
    };
    (m.watchdog, m.watchdog_beside) = (Some(first.clone()), armed.next());
    Ok(WatchdogState::Armed(
        first,
        m.watchdog_beside.clone(),
        *config,
    ))
}

/// A line of the child: path, how to pet it, seconds, whether its reset can be relied on, name.
fn parse_line(line: &str) -> Option<(Armed, PetMethod)> {
    let mut words = line.splitn(5, ' ');
    let (device, how, seconds) = (words.next()?, words.next()?, words.next()?);
    let (trust, name) = (words.next()?, words.next()?);
    let by = match how {
        helper::DIRECT => PetMethod::Write,
        helper::SLOW => PetMethod::Child(Helper::PetWatchdog.words()),
        _ => return None,
    };
    let is_reliable = match trust {
        helper::RELIABLE => true,
        helper::UNPROVEN => false,
        _ => return None,
    };
    let (device, name) = (device.to_owned(), name.to_owned());
    Some((
        Armed {
            device,
            name,
            timeout_s: seconds.parse().ok()?,
            is_reliable,
        },
        by,
    ))
}

/// Has a child, as the only holder of the device, close it, so that a close that hangs does not block process 1. Returns
/// whether it could be verified that the device is stopped or running, as wanted.
fn release_device(
    m: &Machine,
    device: OwnedFd,
    end: WatchdogEnd,
    path: &str,
) -> Result<Result<bool, String>, Fault> {
    let sent = descriptors::pair().and_then(|(ours, theirs)| {
        descriptors::send(ours.as_fd(), device.as_fd())?;
        Ok((ours, theirs))
    });
    let (_ours, theirs) = match sent {
        Ok(sockets) => sockets,
        Err(e) => {
            // Closed like this, the device resets the machine, which is better than a machine that is never reset.
            return Ok(Err(format!("{path}: not passed on: {e}")));
        }
    };
    drop(device);
    let mut said = String::new();
    let spec = helper::release_watchdog(end, path, theirs);
    let done = m.run(
        &spec,
        &mut on_output(|line| line.clone_into(&mut said)),
        |_| true,
    )?;
    let fine = done.end == End::Exited(helper::SUCCESS);
    Ok(if fine {
        Ok(said != helper::UNCHECKED)
    } else {
        Err(done.reason())
    })
}

/// Replaces the workload's variables about the watchdog that it receives: none unless `action` starts the workload.
pub fn set_variables(m: &Machine, config: &Config, action: Action, variables: &mut Vec<Variable>) {
    variables.retain(|variable| !variable.name.starts_with(VARIABLE));
    variables.extend(variables_for(m, config, action));
}

fn variables_for(m: &Machine, config: &Config, action: Action) -> Vec<Variable> {
    let handed =
        matches!(action, Action::Workload | Action::WorkloadWithoutP2p) && config.workload.watchdog;
    let Some(armed) = m
        .watchdog
        .as_ref()
        .filter(|_| handed && config.workload.handover != WorkloadMode::None)
    else {
        return Vec::new();
    };
    let reason =
        "the machine resets unless the workload opens it in this time and pets it".to_owned();
    let variable = |name: &str, value: String, reason: String| Variable {
        name: name.to_owned(),
        value,
        reason,
    };
    vec![
        variable(VARIABLE, armed.device.clone(), reason),
        variable(
            &format!("{VARIABLE}_S"),
            armed.timeout_s.to_string(),
            String::new(),
        ),
    ]
}

/// Before another program becomes process 1, or receives the device: passes it on running with `workload.watchdog`,
/// otherwise stops it, and logs the result. A failure is a warning: the machine may then reset, which the warning mentions.
///
/// # Errors
/// Only an interruption.
pub fn hand_over(m: &mut Machine, config: &Config) -> Result<(), Fault> {
    let mut devices = m.children.watchdog.end().into_iter();
    let (Some(device), Some(armed)) = (devices.next(), m.watchdog.take()) else {
        return Ok(());
    };
    // The workload pets one device, so the timer beside it must stop.
    if let (Some(device), Some(beside)) = (devices.next(), m.watchdog_beside.take())
        && let Err(why) = release_device(m, device, WatchdogEnd::Disarm, &beside.device)?
    {
        info!(
            "warning: watchdog: {why}; it may reset the machine in {} s",
            beside.timeout_s
        );
    }
    let end = if config.workload.watchdog {
        WatchdogEnd::Keep
    } else {
        WatchdogEnd::Disarm
    };
    m.watchdog_to_rearm = Some(config.watchdog);
    let (name, path, seconds) = (&armed.name, &armed.device, armed.timeout_s);
    match release_device(m, device, end, path)? {
        Ok(checked) => {
            let unsure = if checked {
                ""
            } else {
                "; its driver does not show whether it is"
            };
            let what = if config.workload.watchdog {
                format!("{path} runs: the workload must pet it within {seconds} s")
            } else {
                format!("{name} is stopped")
            };
            info!("watchdog  {what}{unsure}");
        }
        Err(why) => info!("warning: watchdog: {why}; it may reset the machine in {seconds} s"),
    }
    Ok(())
}

/// Arms the device again after the workload has ended, or when it was never started.
///
/// # Errors
/// Only an interruption.
pub fn rearm(m: &mut Machine) -> Result<(), Fault> {
    let Some(config) = m.watchdog_to_rearm.take() else {
        return Ok(());
    };
    m.stage("watchdog", |m| arm(m, &config)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(timeout_s: u64) -> Armed {
        Armed {
            device: "/dev/watchdog0".to_owned(),
            name: "iTCO_wdt".to_owned(),
            timeout_s,
            is_reliable: false,
        }
    }

    #[test]
    fn the_childs_line_is_read_and_no_other() {
        assert_eq!(
            parse_line("/dev/watchdog0 direct 60 unproven iTCO_wdt"),
            Some((armed(60), PetMethod::Write))
        );
        let (slow, by) = parse_line("/dev/watchdog slow 60 unproven IPMI").unwrap();
        assert_eq!(
            (slow.device.as_str(), by),
            (
                "/dev/watchdog",
                PetMethod::Child(Helper::PetWatchdog.words())
            )
        );
        let offered = parse_line("/dev/watchdog0 direct 60 reliable i6300ESB timer")
            .unwrap()
            .0;
        assert_eq!(
            (offered.name.as_str(), offered.is_reliable),
            ("i6300ESB timer", true)
        );
        for other in [
            "",
            "/dev/watchdog0 direct 60",
            "/dev/watchdog0 fast 60 reliable x",
            "/dev/watchdog0 slow x reliable y",
            "/dev/watchdog0 slow 60 sure y",
        ] {
            assert_eq!(parse_line(other), None, "{other}");
        }
    }

    #[test]
    fn the_line_names_the_device_and_a_time_that_it_refused() {
        let config = Watchdog {
            mode: WatchdogMode::Auto,
            timeout_s: Duration::from_secs(60),
        };
        let timer = Armed {
            device: "/dev/watchdog1".to_owned(),
            name: "Software Watchdog".to_owned(),
            timeout_s: 120,
            is_reliable: true,
        };
        let both = WatchdogState::Armed(armed(60), Some(timer.clone()), config).to_string();
        assert_eq!(
            both,
            "iTCO_wdt, 60 s, not proven to reset; Software Watchdog, 120 s"
        );
        assert_eq!(
            WatchdogState::Armed(
                Armed {
                    timeout_s: 60,
                    ..timer
                },
                None,
                config
            )
            .to_string(),
            "Software Watchdog, 60 s"
        );
        let less = WatchdogState::Armed(armed(30), None, config).to_string();
        assert_eq!(
            less,
            "iTCO_wdt, 30 s, not proven to reset; warning: it refused 60 s"
        );
    }

    #[test]
    fn that_there_is_none_is_a_warning_unless_one_is_demanded() {
        let without =
            |mode| WatchdogState::Unavailable(mode, "no watchdog of the machine's own".to_owned());
        let auto = without(WatchdogMode::Auto);
        assert_eq!(
            auto.to_string(),
            "warning: none: no watchdog of the machine's own"
        );
        assert_eq!(auto.stage_error(), None);
        for mode in [WatchdogMode::Hardware, WatchdogMode::Software] {
            let stage_error = without(mode).stage_error().unwrap();
            assert_eq!(
                (stage_error.stage, stage_error.code),
                ("watchdog", Some("WATCHDOG-NONE"))
            );
            assert!(
                stage_error
                    .cause
                    .starts_with(&format!("watchdog.mode = {}: no ", mode.word()))
            );
        }
        assert_eq!(WatchdogState::Off.stage_error(), None);
    }
}
