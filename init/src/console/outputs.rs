//! The outputs for init's lines: open consoles, the kernel's log, the log file. Decides which devices are
//! opened, and what happens when one of them stalls.

use super::kernel_log::{self, InitLines, KernelLog};
use super::sink::{self, Sink};
use crate::config::cmdline::KernelWord;
use crate::config::types::Serial;
use crate::sys::{devices, terminal};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// All outputs.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) sinks: Vec<Sink>,
    pub(super) kernel: KernelLog,
    pub(super) log_file: Option<File>,
    /// Whether the kernel shows our lines because a console is stalled.
    pub(super) kernel_shows_lines: bool,
    /// The device behind /dev/console.
    console: Option<(u32, u32)>,
    /// The kernel's command line.
    pub(super) words: Vec<KernelWord>,
}

/// A group of outputs that get the same lines.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputGroup {
    Consoles,
    KernelLog,
    /// Lines of children in the kernel's log.
    KernelLogOfChildren,
    LogFile,
}

/// Outputs that are used whether or not the configuration names them. On a machine standard output is
/// another name of the console; when init is process 1 of a namespace it is a separate output.
pub(super) const ALWAYS: [&str; 3] = ["tty0", CONSOLE, STDOUT];

/// Another name of the kernel's last console.
const CONSOLE: &str = "console";

/// Standard output as it was when init started.
const STDOUT: &str = "stdout";

/// Device number of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Whether the value of a `console=` word (`ttyS0,115200n8`) names this line.
fn names_line(value: &str, name: &str) -> bool {
    value.split(',').next() == Some(name)
}

fn device(name: &str) -> PathBuf {
    if name == STDOUT {
        PathBuf::from("/proc/self/fd/1")
    } else {
        PathBuf::from(format!("/dev/{name}"))
    }
}

impl Outputs {
    /// Opens the devices with these names that exist, each physical device once, and keeps those that are
    /// already open.
    pub(super) fn open_devices(&mut self, names: &[&str]) {
        let mut kept = Vec::new();
        for name in names {
            let path = device(name);
            // A line that is already open under another name, as /dev/console is, is not opened again.
            let number = match *name {
                CONSOLE => self.console,
                // Through /proc the device would have to be opened to find its number.
                STDOUT => sink::number(terminal::standard_output()).ok(),
                _ => devices::number_of(&path),
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
        // Standard output is /dev/null when the kernel found no console for init.
        kept.retain(|sink| sink.number != NULL);
        self.sinks = once_each(kept, |sink| sink.number);
    }

    /// Whether the kernel writes to this line itself and has therefore set its rate.
    pub(super) fn is_kernels(&self, line: &Serial) -> bool {
        let number = self
            .sinks
            .iter()
            .find(|sink| sink.name == line.name)
            .map(|sink| sink.number);
        let named = |word: &KernelWord| {
            word.name == "console"
                && word
                    .value
                    .as_deref()
                    .is_some_and(|v| names_line(v, &line.name))
        };
        (number.is_some() && number == self.console) || self.words.iter().any(named)
    }

    pub(super) fn put(&mut self, group: OutputGroup, line: &str) {
        match group {
            OutputGroup::Consoles => {
                self.sinks.iter_mut().for_each(|sink| sink.line(line));
                self.handle_stalled();
            }
            OutputGroup::KernelLog => self.kernel.line(line),
            OutputGroup::KernelLogOfChildren => self.kernel.line_of_child(line),
            OutputGroup::LogFile => {
                if let Some(file) = &mut self.log_file {
                    // A full /run is reported by the publish stage, which needs it more.
                    let _full = file.write_all(format!("{line}\n").as_bytes());
                }
            }
        }
    }

    /// While a console is stalled the kernel shows our lines, because it needs no interrupts for that. It also
    /// shows the lines that the console accepted and did not send.
    fn handle_stalled(&mut self) {
        let stalled = self.sinks.is_empty() || self.sinks.iter().any(Sink::is_stalled);
        if stalled == self.kernel_shows_lines {
            return;
        }
        self.kernel_shows_lines = stalled;
        kernel_log::show(if stalled {
            InitLines::Shown
        } else {
            InitLines::Hidden
        });
        for sink in self.sinks.iter_mut().filter(|sink| sink.is_stalled()) {
            let mut unseen = sink.take_unseen();
            unseen.pop(); // the logger writes the current line itself
            unseen.iter().for_each(|line| self.kernel.line(line));
        }
    }
}

/// Each line appears once on every physical console: `/dev/console` is another name for one of them, and the configuration
/// may name the same line twice. Keeps the order; of two with the same device number it keeps the first.
fn once_each<T>(there: Vec<T>, number: impl Fn(&T) -> (u32, u32)) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in there {
        if kept.iter().all(|other| number(other) != number(&one)) {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[(&'static str, (u32, u32))]) -> Vec<&'static str> {
        once_each(candidates.to_vec(), |c| c.1)
            .into_iter()
            .map(|c| c.0)
            .collect()
    }

    #[test]
    fn the_console_is_dropped_when_the_device_behind_it_is_there() {
        assert_eq!(
            names(&[("ttyS0", (4, 64)), ("tty0", (4, 1)), ("console", (4, 64))]),
            ["ttyS0", "tty0"]
        );
        assert_eq!(
            names(&[("ttyS0", (4, 64)), ("tty0", (4, 1)), ("console", (4, 1))]),
            ["ttyS0", "tty0"]
        );
    }

    #[test]
    fn a_console_that_is_something_else_stays() {
        assert_eq!(
            names(&[("ttyS0", (4, 64)), ("console", (4, 65))]),
            ["ttyS0", "console"]
        );
    }

    #[test]
    fn the_same_line_named_twice_is_used_once() {
        assert_eq!(names(&[("ttyS0", (4, 64)), ("ttyS0", (4, 64))]), ["ttyS0"]);
    }
}
