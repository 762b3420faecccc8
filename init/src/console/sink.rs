//! One place that lines appear on. Writing to it never takes longer than [`PATIENCE`]: a serial
//! line with flow control or without interrupts must not hold process 1 up, so it loses lines
//! instead and says later how many.

use crate::sys::{files, machine, process};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long one line may take.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// An open console.
#[derive(Debug)]
pub struct Sink {
    /// The device's name, e.g. `ttyS0`.
    pub name: String,
    file: File,
    fresh: bool,
    stalled: bool,
    dropped: u32,
}

impl Sink {
    /// Opens a device without waiting for a carrier and without making it our terminal.
    ///
    /// # Errors
    /// As open(2); `EIO` for a serial port that is not there.
    pub fn open(name: &str, path: &Path) -> io::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            file: files::open_terminal(path)?,
            fresh: true,
            stalled: false,
            dropped: 0,
        })
    }

    /// Sets a serial line's rate.
    ///
    /// # Errors
    /// As tcsetattr(3).
    pub fn set_rate(&self, rate: u32) -> io::Result<()> {
        machine::set_rate(self.file.as_fd(), rate)
    }

    /// Whether it takes nothing at present.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Writes one line, in time or not at all.
    pub fn line(&mut self, text: &str) {
        if self.dropped > 0 {
            let lost = format!("[{} lines lost here]\n", self.dropped);
            if !self.put(lost.as_bytes()) {
                self.dropped = self.dropped.saturating_add(1);
                return;
            }
            self.dropped = 0;
        }
        if !self.put(format!("{text}\n").as_bytes()) {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Waits until all is sent, `limit` at most.
    pub fn drain(&self, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.stalled
            && machine::unsent(self.file.as_fd()).is_some_and(|n| n > 0)
            && Instant::now() < until
        {
            sleep(Duration::from_millis(5));
        }
    }

    fn put(&mut self, mut bytes: &[u8]) -> bool {
        let patience = if self.stalled { Duration::ZERO } else { PATIENCE };
        let until = Instant::now() + patience;
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or(&[]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || !process::writable(self.file.as_fd(), left) {
                        self.stalled = true;
                        return false;
                    }
                }
                Err(_) => {
                    self.stalled = true;
                    return false;
                }
            }
        }
        self.stalled = std::mem::take(&mut self.fresh) && !self.moves();
        !self.stalled
    }

    /// Whether what was just queued begins to leave. A line whose interrupts are broken takes a
    /// buffer full of text before it blocks; this finds out after the first line.
    fn moves(&self) -> bool {
        let queued = || machine::unsent(self.file.as_fd()).unwrap_or(0);
        let (first, until) = (queued(), Instant::now() + PATIENCE);
        while queued() >= first && queued() > 0 {
            if Instant::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(2));
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
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
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
        assert!(started.elapsed() < 4 * PATIENCE, "{:?}", started.elapsed());
    }

    #[test]
    fn a_console_that_takes_lines_again_says_how_many_were_lost() {
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
    fn what_is_no_terminal_has_nothing_to_drain() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "old\n").unwrap();
        let mut sink = Sink::open("file", &path).unwrap();
        sink.line("new");
        sink.drain(Duration::from_secs(60));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\nnew\n");
    }
}
