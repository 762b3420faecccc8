//! One output for lines. A write never takes longer than [`PATIENCE`]: a serial line with flow control or
//! without interrupts must not block process 1, so it drops lines and reports later how many.

use super::flow::Flow;
use crate::sys::{devices, process, terminal};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum time for one line.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// How many lines are remembered until they are seen to be sent.
const REMEMBERED: usize = 64;

/// Major number of screens and serial lines; minors 0 to 63 are screens
/// (Documentation/admin-guide/devices.txt).
const TERMINALS: u32 = 4;
const LAST_SCREEN: u32 = 63;

/// An open console.
#[derive(Debug)]
pub struct Sink {
    /// The device's name, e.g. `ttyS0`.
    pub name: String,
    /// The device behind the name, so that each physical console is used once.
    pub number: (u32, u32),
    path: PathBuf,
    rate: Option<u32>,
    file: File,
    flow: Flow,
    dropped: u32,
    /// Another program has the screen: lines are not written.
    is_lent: bool,
    /// The lines since bytes were last seen to be sent: they may not have reached a reader.
    unseen: Vec<String>,
}

/// The number of the device behind an open descriptor.
///
/// # Errors
/// As fstat(2).
pub fn number(open: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    terminal::number(open).map_or_else(|| devices::number_of_open(open), Ok)
}

impl Sink {
    /// Opens a device without waiting for a carrier and without making it the controlling terminal.
    ///
    /// # Errors
    /// As open(2); `EIO` for a serial port that is not there.
    pub fn open(name: &str, path: &Path) -> io::Result<Self> {
        let file = terminal::open(path)?;
        let number = number(file.as_fd())?;
        let (name, path) = (name.to_owned(), path.to_owned());
        Ok(Self {
            name,
            number,
            path,
            rate: None,
            file,
            flow: Flow::default(),
            dropped: 0,
            is_lent: false,
            unseen: Vec::new(),
        })
    }

    /// The same device under another name.
    #[must_use]
    pub fn renamed(self, name: &str, path: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            ..self
        }
    }

    /// Sets a serial line's rate.
    ///
    /// # Errors
    /// As tcsetattr(3).
    pub fn set_rate(&mut self, rate: u32) -> io::Result<()> {
        self.rate = Some(rate);
        terminal::set_rate(self.file.as_fd(), rate)
    }

    /// Whether it is a screen.
    #[must_use]
    pub fn is_screen(&self) -> bool {
        matches!(self.number, (TERMINALS, ..=LAST_SCREEN))
    }

    /// Whether it neither accepts nor sends anything at present.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.flow.is_stalled()
    }

    /// Takes the lines that may not have reached a reader, for another output.
    #[must_use]
    pub fn take_unseen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unseen)
    }

    /// Leaves the screen to a program, or takes it back: cleared, with a cursor, in its default colors.
    pub fn lend(&mut self, is_lent: bool) {
        if std::mem::replace(&mut self.is_lent, is_lent) && !is_lent {
            let _not_cleared = self.put("\x1bc");
        }
    }

    /// Writes one line in time, or drops it.
    pub fn line(&mut self, text: &str) {
        if self.is_lent {
            return;
        }
        self.look();
        if self.dropped > 0 && self.put(&format!("[{} lines lost here]\n", self.dropped)) {
            self.dropped = 0;
        }
        if self.dropped > 0 || !self.put(&format!("{text}\n")) {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Waits until all is sent, at most `limit`.
    pub fn drain(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        self.look();
        while !self.is_stalled() && self.unsent().is_some_and(|n| n > 0) && Instant::now() < until {
            sleep(Duration::from_millis(5));
            self.look();
        }
    }

    /// A screen shows at once what it accepts and has no queue.
    fn unsent(&self) -> Option<usize> {
        if self.is_screen() {
            None
        } else {
            terminal::unsent(self.file.as_fd())
        }
    }

    /// Checks, without waiting, whether queued bytes are being sent.
    fn look(&mut self) {
        if self.flow.record_unsent(self.unsent(), Instant::now()) {
            self.unseen.clear();
        }
    }

    /// Opens the device again: when a session that has it as its terminal ends (the workload's, a shell's),
    /// the kernel hangs up all open descriptors of it.
    fn reopen(&mut self) -> bool {
        let Ok(file) = terminal::open(&self.path) else {
            return false;
        };
        self.file = file;
        self.rate.is_none_or(|rate| self.set_rate(rate).is_ok())
    }

    fn put(&mut self, line: &str) -> bool {
        let mut bytes = line.as_bytes();
        let patience = if self.is_stalled() {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let until = Instant::now() + patience;
        let mut reopened = false;
        while !bytes.is_empty() {
            let again = match self.file.write(bytes) {
                Ok(n) => {
                    bytes = bytes.get(n..).unwrap_or(&[]);
                    true
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => true,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    !left.is_zero() && process::writable(self.file.as_fd(), left)
                }
                Err(_) => !std::mem::replace(&mut reopened, true) && self.reopen(),
            };
            if !again {
                self.flow.record_refused();
                return false;
            }
        }
        let unsent = self.unsent();
        self.flow.record_accepted(unsent);
        if unsent.is_some_and(|n| n > 0) && self.unseen.len() < REMEMBERED {
            self.unseen.push(line.trim_end().to_owned());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Read;

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        (dir, path, reader)
    }

    #[test]
    fn a_console_that_takes_nothing_costs_one_deadline_and_then_no_time() {
        let (_dir, path, _reader) = fifo();
        let mut sink = Sink::open("fifo", &path).unwrap();
        let long = "x".repeat(40_000);
        let started = Instant::now();
        (0..50).for_each(|_| sink.line(&long));
        assert!(sink.is_stalled());
        assert!(started.elapsed() < 20 * PATIENCE, "{:?}", started.elapsed());
    }

    #[test]
    fn a_console_that_accepts_lines_again_reports_how_many_were_lost() {
        let (_dir, path, mut reader) = fifo();
        let mut sink = Sink::open("fifo", &path).unwrap();
        sink.line(&"x".repeat(65_534));
        sink.line("lost");
        let mut taken = vec![0; 65_535];
        reader.read_exact(&mut taken).unwrap();
        sink.line("back");
        let mut rest = vec![0; 100];
        let n = reader.read(&mut rest).unwrap();
        let rest = String::from_utf8_lossy(&rest[..n]);
        assert!(rest.ends_with("[1 lines lost here]\nback\n"), "{rest}");
    }

    #[test]
    fn an_output_that_is_no_terminal_has_nothing_to_drain() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "old\n").unwrap();
        let mut sink = Sink::open("file", &path).unwrap();
        sink.line("new");
        assert_eq!(sink.take_unseen(), [""; 0]);
        sink.drain(Duration::from_secs(60));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\nnew\n");
    }

    #[test]
    fn a_console_that_was_hung_up_is_opened_again() {
        let (_dir, path, mut reader) = fifo();
        let mut sink = Sink::open("fifo", &path).unwrap();
        sink.file = File::open("/dev/null").unwrap(); // cannot be written, as after a hang-up
        sink.line("still here");
        let mut got = vec![0; 11];
        reader.read_exact(&mut got).unwrap();
        assert_eq!(got, b"still here\n");
    }
}
