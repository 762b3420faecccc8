//! The places that init's lines go to: open consoles, the kernel's log, the log file. Which devices are opened,
//! and what happens when one of them stalls.

use super::kernel_log::{self, KernelLog, Shown};
use super::pick;
use super::sink::{self, Sink};
use crate::config::cmdline::Word;
use crate::config::types::Serial;
use crate::sys::{device_nodes, terminal};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// All places together.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) sinks: Vec<Sink>,
    pub(super) kernel: KernelLog,
    pub(super) log_file: Option<File>,
    /// Whether the kernel shows our lines because a console is stalled.
    pub(super) by_kernel: bool,
    /// The device behind /dev/console.
    console: Option<(u32, u32)>,
    /// What the kernel was started with.
    pub(super) words: Vec<Word>,
}

/// Which of the places a writer serves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Consoles,
    KernelLog,
    LogFile,
}

/// What is written to whether or not the configuration names it. Standard output is another name of
/// the console on a machine, and its own place when init is process 1 of a namespace.
pub(super) const ALWAYS: [&str; 3] = ["tty0", CONSOLE, STDOUT];

/// Another name of the kernel's last console.
const CONSOLE: &str = "console";

/// Standard output, as it was when init started.
const STDOUT: &str = "stdout";

/// Number of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Whether the value of a `console=` word (`ttyS0,115200n8`) is about this line.
fn names_line(value: &str, name: &str) -> bool {
    value.split(',').next() == Some(name)
}

fn device(name: &str) -> PathBuf {
    if name == STDOUT { PathBuf::from("/proc/self/fd/1") } else { PathBuf::from(format!("/dev/{name}")) }
}

impl Outputs {
    /// Opens the devices of these names that are there, each physical one once, and keeps those
    /// already open.
    pub(super) fn choose(&mut self, names: &[&str]) {
        let mut kept = Vec::new();
        for name in names {
            let path = device(name);
            // A line that is open under another name, as /dev/console is, is not opened again.
            let number = match *name {
                CONSOLE => self.console,
                // The way by /proc would open it to tell the same.
                STDOUT => sink::number(terminal::standard_output()).ok(),
                _ => device_nodes::number_of(&path),
            };
            if number.is_some() && kept.iter().any(|sink: &Sink| Some(sink.number) == number) {
                continue;
            }
            let same = |sink: &Sink| sink.name == *name || number == Some(sink.number);
            let sink = match self.sinks.iter().position(same) {
                Some(at) => self.sinks.swap_remove(at).renamed(name, &path),
                None => match Sink::open(name, &path) {
                    Ok(sink) => sink,
                    Err(_) => continue,
                },
            };
            if *name == CONSOLE {
                self.console = Some(sink.number);
            }
            kept.push(sink);
        }
        // What standard output is where the kernel found no console for us.
        kept.retain(|sink| sink.number != NULL);
        self.sinks = pick::once_each(kept, |sink| sink.number);
    }

    /// Whether the kernel writes to this line itself and so has set its rate.
    pub(super) fn is_kernels(&self, line: &Serial) -> bool {
        let number = self.sinks.iter().find(|sink| sink.name == line.name).map(|sink| sink.number);
        let named = |word: &Word| {
            word.name == "console" && word.value.as_deref().is_some_and(|v| names_line(v, &line.name))
        };
        (number.is_some() && number == self.console) || self.words.iter().any(named)
    }

    pub(super) fn put(&mut self, part: Part, line: &str) {
        match part {
            Part::Consoles => {
                self.sinks.iter_mut().for_each(|sink| sink.line(line));
                self.mind_the_stalled();
            }
            Part::KernelLog => self.kernel.line(line),
            Part::LogFile => {
                if let Some(file) = &mut self.log_file {
                    // A full /run is told by the publish stage, which needs it more.
                    let _full = file.write_all(format!("{line}\n").as_bytes());
                }
            }
        }
    }

    /// While a console is stalled the kernel shows our lines, for it needs no interrupts; also those
    /// that the console took and did not send.
    fn mind_the_stalled(&mut self) {
        let stalled = self.sinks.is_empty() || self.sinks.iter().any(Sink::is_stalled);
        if stalled == self.by_kernel {
            return;
        }
        self.by_kernel = stalled;
        kernel_log::show(if stalled { Shown::OursToo } else { Shown::NotOurs });
        for sink in self.sinks.iter_mut().filter(|sink| sink.is_stalled()) {
            let mut unseen = sink.take_unseen();
            unseen.pop(); // the line at hand comes by the logger
            unseen.iter().for_each(|line| self.kernel.line(line));
        }
    }
}
