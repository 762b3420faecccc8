//! What befalls a machine while it is used: a GPU that is lost, memory errors that are counted, lines that the
//! kernel logs. Each event happens once; a file beside the libraries says that it has, so that every process
//! knows, and so that it has not when the folder is laid out anew.

use crate::beside;
use crate::engine::Work;
use crate::kernel::Kernel;
use crate::scenario::{Event, On, Scenario};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Where the simulated machine's kernel logs, from the libraries' folder.
const LOG: &str = "../root/dev/kmsg";
/// Where it has its taint flags.
const TAINT: &str = "../root/proc/sys/kernel/tainted";

/// How much work of each event's kind this process has begun.
#[derive(Debug, Default)]
pub struct Events {
    begun: Vec<u64>,
}

impl Events {
    /// Work is queued: what is due now happens.
    pub fn queued(&mut self, scenario: &Scenario, work: &Work) {
        self.begun.resize(scenario.event.len(), 0);
        for (n, (event, begun)) in scenario.event.iter().zip(&mut self.begun).enumerate() {
            if event.on.is(work) {
                *begun += 1;
                if *begun == event.after {
                    happen(n, event);
                }
            }
        }
    }
}

impl On {
    fn is(self, work: &Work) -> bool {
        match self {
            Self::Work => true,
            Self::Pingpong => matches!(work, Work::Launch { kernel: Kernel::PingPong(_), .. }),
            Self::Chase => matches!(work, Work::Launch { kernel: Kernel::Chase { .. }, .. }),
            Self::Collective => matches!(work, Work::Collective(_)),
            Self::Products => matches!(work, Work::Launch { kernel: Kernel::Products { .. }, .. }),
        }
    }
}

/// The events that have happened, in any process.
pub fn happened(scenario: &Scenario) -> impl Iterator<Item = &Event> {
    let been = |n: usize| mark(n).is_some_and(|path| path.exists());
    scenario.event.iter().enumerate().filter(move |(n, _)| been(*n)).map(|(_, event)| event)
}

/// Whether a GPU is lost by now.
#[must_use]
pub fn is_lost(scenario: &Scenario, gpu: usize) -> bool {
    !scenario.event.is_empty() && happened(scenario).any(|event| event.lost && event.gpu == Some(gpu))
}

/// Whether a GPU's clocks are held down by heat by now.
#[must_use]
pub fn is_hot(scenario: &Scenario, gpu: usize) -> bool {
    happened(scenario).any(|event| event.hot && event.gpu == Some(gpu))
}

/// The lanes that a GPU's link is left with by now.
#[must_use]
pub fn lanes(scenario: &Scenario, gpu: usize) -> Option<u32> {
    happened(scenario).filter(|event| event.gpu == Some(gpu)).filter_map(|event| event.width).last()
}

fn mark(n: usize) -> Option<PathBuf> {
    Some(beside::folder()?.join(format!("event.{n}")))
}

#[expect(
    clippy::print_stderr,
    reason = "there is no other way to say that a file of the kernel cannot be written"
)]
fn happen(n: usize, event: &Event) {
    let Some(mark) = mark(n) else { return };
    if OpenOptions::new().write(true).create_new(true).open(mark).is_err() {
        return;
    }
    if let Err(why) = log(event) {
        eprintln!("simgpu: {LOG}: {why}");
    }
    if let Err(why) = taint(event) {
        eprintln!("simgpu: {TAINT}: {why}");
    }
}

/// Sets the event's taint flags beside those that are set.
fn taint(event: &Event) -> std::io::Result<()> {
    if event.taint == 0 {
        return Ok(());
    }
    let path = beside::folder().unwrap_or_default().join(TAINT);
    let flags: u64 = std::fs::read_to_string(&path)?.trim().parse().map_err(std::io::Error::other)?;
    std::fs::write(path, format!("{}\n", flags | event.taint))
}

/// Writes the event's lines behind the log's last one, some numbers further where records are to be missing.
fn log(event: &Event) -> std::io::Result<()> {
    if event.log.is_empty() {
        return Ok(());
    }
    let path = beside::folder().unwrap_or_default().join(LOG);
    let text = std::fs::read_to_string(&path)?;
    let last =
        text.lines().rev().find_map(|line| line.split(',').nth(1)?.parse::<u64>().ok()).unwrap_or_default();
    let mut file = OpenOptions::new().append(true).open(path)?;
    for (seq, line) in (last + 1 + event.log_lost..).zip(&event.log) {
        file.write_all(format!("3,{seq},{seq}000000,-;{line}\n").as_bytes())?;
    }
    Ok(())
}
