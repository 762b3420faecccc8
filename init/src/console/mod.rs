//! Where init's lines appear: serial lines, the screen, /dev/console, the kernel's log and
//! /run/firstlight/boot.log. All of it is reached through `log`; `simplelog` formats.

pub mod flow;
pub mod kernel_log;
pub mod pick;
pub mod screen;
pub mod sink;

use crate::config::cmdline::{Word, words};
use crate::config::types::Serial;
use crate::sys::kernel::command_line;
use crate::sys::{device_nodes, terminal};
use kernel_log::{KernelLog, Shown};
use log::LevelFilter;
use simplelog::{CombinedLogger, ConfigBuilder, SharedLogger, WriteLogger};
use sink::Sink;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// All places together.
#[derive(Debug, Default)]
struct Places {
    sinks: Vec<Sink>,
    kernel: KernelLog,
    log_file: Option<File>,
    /// Whether the kernel shows our lines because a console is stalled.
    by_kernel: bool,
    /// The device behind /dev/console.
    console: Option<(u32, u32)>,
    /// What the kernel was started with.
    words: Vec<Word>,
}

/// The handle to all places; the logger holds another.
#[derive(Debug, Clone, Default)]
pub struct Console(Arc<Mutex<Places>>);

/// Which of the places a writer serves.
#[derive(Debug, Clone, Copy)]
enum Part {
    Consoles,
    KernelLog,
    LogFile,
}

/// Collects what the logger writes piecemeal and passes whole lines on.
struct Lines {
    console: Console,
    part: Part,
    buffer: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.buffer.extend_from_slice(piece);
            if self.buffer.pop_if(|last| *last == b'\n').is_some() {
                let line = std::mem::take(&mut self.buffer);
                self.console.put(self.part, &String::from_utf8_lossy(&line));
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is written to whether or not the configuration names it. Standard output is another name of
/// the console on a machine, and its own place when init is process 1 of a namespace.
const ALWAYS: [&str; 3] = ["tty0", CONSOLE, STDOUT];

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

impl Console {
    /// Makes `log` write to the places of this console. Debug lines stay off the consoles.
    ///
    /// # Errors
    /// There is a logger already.
    pub fn serve_log(&self) -> Result<(), log::SetLoggerError> {
        let logger = |level, part| -> Box<dyn SharedLogger> {
            let mut plain = ConfigBuilder::new();
            plain.set_time_level(LevelFilter::Off).set_thread_level(LevelFilter::Off);
            plain.set_target_level(LevelFilter::Off).set_max_level(LevelFilter::Off);
            let lines = Lines { console: self.clone(), part, buffer: Vec::new() };
            WriteLogger::new(level, plain.build(), lines)
        };
        // The consoles first: when one of them stalls, the kernel is told to show the very line.
        CombinedLogger::init(vec![
            logger(LevelFilter::Info, Part::Consoles),
            logger(LevelFilter::Debug, Part::KernelLog),
            logger(LevelFilter::Debug, Part::LogFile),
        ])
    }

    /// Opens what there is before the configuration is known: the kernel's log, the screen, the
    /// console. Without any console the kernel's log remains, which the kernel then shows.
    pub fn open(&self) {
        let words = words(&command_line());
        self.with(|places| {
            places.kernel = KernelLog::open(kernel_log::is_unlimited(&words));
            places.choose(&ALWAYS);
            places.by_kernel = places.sinks.is_empty();
            if places.by_kernel {
                kernel_log::show(Shown::OursToo);
            } else if kernel_log::shows_ours(&words) {
                kernel_log::show(Shown::NotOurs);
            }
            places.words = words;
        });
    }

    /// Adds serial lines and sets their rates. `named` says whether a person asked for them: then
    /// an absent one is reported; else a rate that the kernel already set is left alone.
    #[must_use]
    pub fn add_serial(&self, lines: &[Serial], named: bool) -> Vec<String> {
        let mut troubles = Vec::new();
        self.with(|places| {
            let mut wanted: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
            wanted.extend(ALWAYS);
            places.choose(&wanted);
            for line in lines {
                let by_kernel = places.is_kernels(line);
                let sink = places.sinks.iter_mut().find(|sink| sink.name == line.name);
                match (sink, line.rate) {
                    (None, _) if named => {
                        troubles.push(format!("console.serial: {} cannot be opened", line.name));
                    }
                    (Some(sink), Some(rate)) if named || !by_kernel => {
                        if let Err(e) = sink.set_rate(rate) {
                            troubles.push(format!("console.serial: {}: rate {rate}: {e}", line.name));
                        }
                    }
                    _ => {}
                }
            }
        });
        troubles
    }

    /// Keeps all lines from now on in a file as well.
    ///
    /// # Errors
    /// As open(2).
    pub fn keep_in(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        self.with(|places| places.log_file = Some(file));
        Ok(())
    }

    /// Writes to the screen no more: it is about to go.
    pub fn leave_screen(&self) {
        self.with(|places| places.sinks.retain(|sink| !sink.is_screen()));
    }

    /// The consoles' names, for a person who looks for the verdict.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.with(|places| names = places.sinks.iter().map(|sink| sink.name.clone()).collect());
        names
    }

    /// Writes a line everywhere, not through `log`: for last words after a panic.
    pub fn last_words(&self, line: &str) {
        [Part::Consoles, Part::KernelLog, Part::LogFile].into_iter().for_each(|part| self.put(part, line));
    }

    /// Waits until the consoles have sent everything, `limit` at most for all together.
    pub fn drain(&self, limit: Duration) {
        let until = Instant::now() + limit;
        self.with(|places| {
            places.sinks.iter_mut().for_each(|s| s.drain(until.saturating_duration_since(Instant::now())));
        });
    }

    fn put(&self, part: Part, line: &str) {
        self.with(|places| places.put(part, line));
    }

    /// Never waits for the lock: the only other holder can be ourselves, in a panic.
    fn with(&self, act: impl FnOnce(&mut Places)) {
        match self.0.try_lock() {
            Ok(mut places) => act(&mut places),
            Err(TryLockError::Poisoned(poisoned)) => act(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

impl Places {
    /// Opens the devices of these names that are there, each physical one once, and keeps those
    /// already open.
    fn choose(&mut self, names: &[&str]) {
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
    fn is_kernels(&self, line: &Serial) -> bool {
        let number = self.sinks.iter().find(|sink| sink.name == line.name).map(|sink| sink.number);
        let named = |word: &Word| {
            word.name == "console" && word.value.as_deref().is_some_and(|v| names_line(v, &line.name))
        };
        (number.is_some() && number == self.console) || self.words.iter().any(named)
    }

    fn put(&mut self, part: Part, line: &str) {
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
