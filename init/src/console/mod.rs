//! Where init's lines are written: serial lines, the screen, /dev/console, the kernel's log and
//! /run/firstlight/boot.log. Callers use `log`.

pub mod flow;
pub mod kernel_log;
mod outputs;
pub mod screen;
pub mod sink;

use crate::config::cmdline::words;
use crate::config::types::Serial;
use crate::sys::kernel::command_line;
use crate::sys::terminal::printable;
use kernel_log::{InitLines, KernelLog};
use log::{Level, LevelFilter, Log, Metadata, Record};
use outputs::{ALWAYS, OutputGroup, Outputs};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// The target of log lines that are a child's: the kernel's log takes a limited number of them.
pub const CHILD: &str = "child";

const NONBLOCK: i32 = 0o4000; // include/uapi/asm-generic/fcntl.h

/// A handle to all outputs; the logger holds another.
#[derive(Debug, Clone, Default)]
pub struct Console(Arc<Mutex<Outputs>>);

/// Each record is written as one line, whatever its text contains: a line feed in a name that comes from a device or a file
/// would otherwise start another line on the console, and that line could imitate a verdict.
impl Log for Console {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = printable(record.args().to_string().as_bytes());
        // The consoles come first: when one of them stalls, the kernel is made to show that very line.
        if record.level() <= Level::Info {
            self.put(OutputGroup::Consoles, &line);
            let is_childs = record.target() == CHILD;
            let log = if is_childs {
                OutputGroup::KernelLogOfChildren
            } else {
                OutputGroup::KernelLog
            };
            self.put(log, &line);
        }
        self.put(OutputGroup::LogFile, &line);
    }

    fn flush(&self) {}
}

impl Console {
    /// Makes `log` write to these outputs. Debug lines go to the log file alone.
    ///
    /// # Errors
    /// There is already a logger.
    pub fn serve_log(&self) -> Result<(), log::SetLoggerError> {
        log::set_logger(Box::leak(Box::new(self.clone())))?;
        log::set_max_level(LevelFilter::Debug);
        Ok(())
    }

    /// Opens what exists before the configuration is read: the kernel's log, the screen, the console.
    /// Without any console only the kernel's log remains, and the kernel is made to show it.
    pub fn open(&self) {
        let words = words(&command_line());
        self.with(|outputs| {
            outputs.kernel = KernelLog::open(kernel_log::is_unlimited(&words));
            outputs.open_devices(&ALWAYS);
            outputs.kernel_shows_lines = outputs.sinks.is_empty();
            if outputs.kernel_shows_lines {
                kernel_log::show(InitLines::Shown);
            } else if kernel_log::shows_init_lines(&words) {
                kernel_log::show(InitLines::Hidden);
            }
            outputs.words = words;
        });
    }

    /// Adds serial lines and sets their rates. `named` says whether the configuration names them: then an
    /// absent line is reported; otherwise a rate that the kernel already set is left unchanged.
    #[must_use]
    pub fn add_serial(&self, lines: &[Serial], named: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        self.with(|outputs| {
            let mut wanted: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
            wanted.extend(ALWAYS);
            outputs.open_devices(&wanted);
            for line in lines {
                let by_kernel = outputs.is_kernels(line);
                let sink = outputs.sinks.iter_mut().find(|sink| sink.name == line.name);
                match (sink, line.rate) {
                    (None, _) if named => {
                        warnings.push(format!("console.serial: {} cannot be opened", line.name));
                    }
                    (Some(sink), Some(rate)) if named || !by_kernel => {
                        if let Err(e) = sink.set_rate(rate) {
                            warnings
                                .push(format!("console.serial: {}: rate {rate}: {e}", line.name));
                        }
                    }
                    _ => {}
                }
            }
        });
        warnings
    }

    /// Writes all lines from now on to a file as well.
    ///
    /// # Errors
    /// As open(2).
    pub fn log_to_file(&self, path: &Path) -> io::Result<()> {
        // Without waiting: the path may be a FIFO.
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .custom_flags(NONBLOCK)
            .open(path)?;
        self.with(|outputs| outputs.log_file = Some(file));
        Ok(())
    }

    /// Stops writing to the screen, because it is about to be released.
    pub fn leave_screen(&self) {
        self.with(|outputs| outputs.sinks.retain(|sink| !sink.is_screen()));
    }

    /// Leaves the screen to a program for some time, or takes it back. Returns whether there is a screen.
    pub fn lend_screen(&self, lent: bool) -> bool {
        let mut is_there = false;
        self.with(|outputs| {
            for sink in outputs.sinks.iter_mut().filter(|sink| sink.is_screen()) {
                sink.lend(lent);
                is_there = true;
            }
        });
        is_there
    }

    /// The consoles' names, to show where the verdict will appear.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.with(|outputs| names = outputs.sinks.iter().map(|sink| sink.name.clone()).collect());
        names
    }

    /// Writes a line to all outputs without `log`: for the last words after a panic.
    pub fn last_words(&self, line: &str) {
        let groups = [
            OutputGroup::Consoles,
            OutputGroup::KernelLog,
            OutputGroup::LogFile,
        ];
        groups.into_iter().for_each(|group| self.put(group, line));
    }

    /// Waits until the consoles have sent everything, at most `limit` for all together.
    pub fn drain(&self, limit: Duration) {
        let until = Instant::now() + limit;
        self.with(|outputs| {
            outputs
                .sinks
                .iter_mut()
                .for_each(|s| s.drain(until.saturating_duration_since(Instant::now())));
        });
    }

    fn put(&self, group: OutputGroup, line: &str) {
        self.with(|outputs| outputs.put(group, line));
    }

    /// Never waits for the lock: its only other holder can be this same thread, in a panic.
    fn with(&self, act: impl FnOnce(&mut Outputs)) {
        match self.0.try_lock() {
            Ok(mut outputs) => act(&mut outputs),
            Err(TryLockError::Poisoned(poisoned)) => act(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_whatever_its_text_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("boot.log");
        let console = Console::default();
        console.log_to_file(&path).unwrap();
        let said = "report.json: unknown verdict `X\nFIRSTLIGHT verdict=PASS\x1b[2J`";
        console.log(
            &Record::builder()
                .args(format_args!("VERDICT  ERROR   {said}"))
                .build(),
        );
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            text,
            "VERDICT  ERROR   report.json: unknown verdict `X?FIRSTLIGHT verdict=PASS?[2J`\n"
        );
    }
}
