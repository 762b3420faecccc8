//! What happens to a machine while it is in use: a GPU is lost, memory errors are counted, the kernel logs lines. Each
//! event happens once. A marker file next to the libraries records it for all processes, and is gone when the folder is
//! laid out anew.

use crate::engine::Work;
use crate::kernel::Kernel;
use crate::library_folder;
use crate::scenario::{Event, On, Scenario};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// The kernel log of the simulated machine, relative to the libraries' folder.
const LOG: &str = "../root/dev/kmsg";
/// Its taint flags.
const TAINT: &str = "../root/proc/sys/kernel/tainted";

/// How much work this process has begun, per event, of the kind that triggers the event.
#[derive(Debug, Default)]
pub struct EventTriggers {
    begun: Vec<u64>,
}

impl EventTriggers {
    /// Called when work is queued: triggers the events that are due.
    pub fn queued(&mut self, scenario: &Scenario, work: &Work) {
        self.begun.resize(scenario.event.len(), 0);
        for (n, (event, begun)) in scenario.event.iter().zip(&mut self.begun).enumerate() {
            if event.on.matches(work) {
                *begun += 1;
                if *begun == event.after {
                    trigger(n, event);
                }
            }
        }
    }
}

impl On {
    fn matches(self, work: &Work) -> bool {
        match self {
            Self::Work => true,
            Self::Pingpong => matches!(
                work,
                Work::Launch {
                    kernel: Kernel::PingPong(_),
                    ..
                }
            ),
            Self::Chase => matches!(
                work,
                Work::Launch {
                    kernel: Kernel::Chase { .. },
                    ..
                }
            ),
            Self::Collective => matches!(work, Work::Collective(_)),
            Self::Products => matches!(
                work,
                Work::Launch {
                    kernel: Kernel::Products { .. },
                    ..
                }
            ),
        }
    }
}

/// The events that have happened, whichever process triggered them.
pub fn happened(scenario: &Scenario) -> impl Iterator<Item = &Event> {
    let been = |n: usize| marker(n).is_some_and(|path| path.exists());
    scenario
        .event
        .iter()
        .enumerate()
        .filter(move |(n, _)| been(*n))
        .map(|(_, event)| event)
}

/// Whether a GPU has been lost.
#[must_use]
pub fn is_lost(scenario: &Scenario, gpu: usize) -> bool {
    !scenario.event.is_empty()
        && happened(scenario).any(|event| event.lost && event.gpu == Some(gpu))
}

/// Whether a GPU is refused access to the memory of another one.
#[must_use]
pub fn is_refused(scenario: &Scenario, from: usize, to: usize) -> bool {
    let concerns = |event: &Event| event.refuse == Some(to) && event.gpu == Some(from);
    scenario.event.iter().any(concerns) && happened(scenario).any(concerns)
}

/// Whether a GPU's clocks are throttled by heat.
#[must_use]
pub fn is_hot(scenario: &Scenario, gpu: usize) -> bool {
    happened(scenario).any(|event| event.hot && event.gpu == Some(gpu))
}

/// The sum of something that events of a GPU have added so far.
#[must_use]
pub fn sum(scenario: &Scenario, gpu: usize, of: impl Fn(&Event) -> u64) -> u64 {
    happened(scenario)
        .filter(|event| event.gpu == Some(gpu))
        .map(of)
        .sum()
}

/// The lanes that a GPU's link has left, if an event reduced them.
#[must_use]
pub fn lanes(scenario: &Scenario, gpu: usize) -> Option<u32> {
    happened(scenario)
        .filter(|event| event.gpu == Some(gpu))
        .filter_map(|event| event.width)
        .last()
}

fn marker(n: usize) -> Option<PathBuf> {
    Some(library_folder::folder()?.join(format!("event.{n}")))
}

#[expect(
    clippy::print_stderr,
    reason = "there is no other way to say that a file of the kernel cannot be written"
)]
fn trigger(n: usize, event: &Event) {
    let Some(marker) = marker(n) else { return };
    if OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(marker)
        .is_err()
    {
        return;
    }
    if let Err(why) = log(event) {
        eprintln!("simgpu: {LOG}: {why}");
    }
    if let Err(why) = taint(event) {
        eprintln!("simgpu: {TAINT}: {why}");
    }
}

/// Adds the event's taint flags to those that are already set.
fn taint(event: &Event) -> std::io::Result<()> {
    if event.taint == 0 {
        return Ok(());
    }
    let path = library_folder::folder().unwrap_or_default().join(TAINT);
    let flags: u64 = std::fs::read_to_string(&path)?
        .trim()
        .parse()
        .map_err(std::io::Error::other)?;
    std::fs::write(path, format!("{}\n", flags | event.taint))
}

/// Appends the event's lines to the log, skipping some sequence numbers if records are to be missing.
fn log(event: &Event) -> std::io::Result<()> {
    if event.log.is_empty() {
        return Ok(());
    }
    let path = library_folder::folder().unwrap_or_default().join(LOG);
    let text = std::fs::read_to_string(&path)?;
    let last = text
        .lines()
        .rev()
        .find_map(|line| line.split(',').nth(1)?.parse::<u64>().ok())
        .unwrap_or_default();
    let mut file = OpenOptions::new().append(true).open(path)?;
    for (seq, line) in (last + 1 + event.log_lost..).zip(&event.log) {
        file.write_all(format!("3,{seq},{seq}000000,-;{line}\n").as_bytes())?;
    }
    Ok(())
}
