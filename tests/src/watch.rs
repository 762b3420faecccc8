//! Waits for the right to run a machine, and follows it: what it says, what a person then does to it, and how it ends.

use crate::booted::End;
use crate::error::{Error, Result};
use crate::image::workspace;
use crate::qemu::{Event, Qemu};
use std::collections::VecDeque;
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Something a person does to the machine.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    CtrlAltDel,
    PowerButton,
    Reset,
    Type(String),
    /// Look at the screen so much later, then press these keys.
    Screen(PathBuf, &'static [&'static str], Duration),
    /// Pull the device of this id, so much later.
    Unplug(String, Duration),
    /// Let it run on so long, then stop it.
    StopAfter(Duration),
}

/// Follows a running machine: collects the console, acts on it, notices the end.
pub(crate) struct Watch {
    console: Vec<u8>,
    /// Where the search for the next act's text goes on.
    searched: usize,
    acts: VecDeque<(String, Act)>,
    end: Option<End>,
    stop_at: Option<Instant>,
    started: Instant,
    deadline: Duration,
}

impl Watch {
    pub(crate) fn new(acts: Vec<(String, Act)>, deadline: Duration) -> Self {
        Self {
            console: Vec::new(),
            searched: 0,
            acts: acts.into(),
            end: None,
            stop_at: None,
            started: Instant::now(),
            deadline,
        }
    }

    /// Until the machine ends, is stopped, or the deadline has passed; `dir` holds QEMU's messages.
    pub(crate) fn follow(mut self, mut qemu: Qemu, dir: &Path) -> Result<(End, String)> {
        let monitor =
            |e: std::io::Error| Error::Program { program: "QEMU's monitor".into(), why: e.to_string() };
        loop {
            let until = self.stop_at.unwrap_or(self.started + self.deadline);
            match qemu.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Serial(bytes)) => {
                    self.console.extend(bytes);
                    self.act(&mut qemu).map_err(monitor)?;
                }
                // `quit` is an end too, by QEMU's own reckoning: only the first one counts.
                Ok(Event::Ended(why)) if self.end.is_none() => {
                    self.end = Some(End::from_reason(&why));
                    qemu.monitor.quit().map_err(monitor)?;
                }
                Ok(Event::Ended(_)) => {}
                Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => return self.closed(dir),
                Err(RecvTimeoutError::Timeout) if self.stop_at.is_some() => {
                    return Ok((End::StillRunning, self.text()));
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.late()),
            }
        }
    }

    /// Does every act whose text has come, in order; each looks behind the one before it.
    fn act(&mut self, qemu: &mut Qemu) -> std::io::Result<()> {
        while let Some((text, _)) = self.acts.front() {
            let Some(at) = find(&self.console[self.searched..], text.as_bytes()) else { return Ok(()) };
            self.searched += at + text.len();
            match self.acts.pop_front() {
                Some((_, Act::CtrlAltDel)) => qemu.monitor.ctrl_alt_del()?,
                Some((_, Act::PowerButton)) => qemu.monitor.power_button()?,
                Some((_, Act::Reset)) => qemu.monitor.reset()?,
                Some((_, Act::Type(line))) => qemu.type_text(&line)?,
                Some((_, Act::Screen(picture, keys, linger))) => {
                    std::thread::sleep(linger);
                    qemu.monitor.picture(&picture)?;
                    for key in keys {
                        // A key that is still down is no other key.
                        std::thread::sleep(Duration::from_millis(500));
                        qemu.monitor.key(key)?;
                    }
                }
                Some((_, Act::Unplug(id, linger))) => {
                    // What the console says meanwhile waits in its channel.
                    std::thread::sleep(linger);
                    qemu.monitor.unplug(&id)?;
                }
                Some((_, Act::StopAfter(linger))) => self.stop_at = Some(Instant::now() + linger),
                None => {}
            }
        }
        Ok(())
    }

    fn closed(self, dir: &Path) -> Result<(End, String)> {
        let console = self.text();
        match self.end {
            Some(_) if !self.acts.is_empty() => Err(Error::Deadline {
                after: self.started.elapsed(),
                missing: format!("ended without saying {:?}", self.acts[0].0),
                console,
            }),
            Some(end) => Ok((end, console)),
            None => {
                let stderr = fs::read_to_string(dir.join("stderr")).unwrap_or_else(|e| e.to_string());
                Err(Error::QemuDied { stderr, console })
            }
        }
    }

    fn late(self) -> Error {
        let missing = self
            .acts
            .front()
            .map_or_else(|| "has not ended".to_owned(), |(text, _)| format!("has not said {text:?}"));
        Error::Deadline { after: self.started.elapsed(), missing, console: self.text() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.console).replace('\r', "")
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// At most two machines work at a time, whatever runs the tests: two cores are what is promised, and an emulated machine
/// that is starved misses its own deadlines. Two more may wait for deadlines of theirs meanwhile.
const SLOTS: usize = 2;

/// What a machine does most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It keeps a core busy.
    Works,
    /// It waits for a deadline.
    Waits,
}

/// The right to run a machine, until dropped.
#[derive(Debug)]
pub(crate) struct Slot(#[expect(dead_code, reason = "held for its lock")] File);

impl Slot {
    /// Waits for one.
    pub(crate) fn take(kind: Kind) -> Result<Self> {
        let name = if kind == Kind::Works { "slot" } else { "waiting" };
        let dir = workspace().join("target/boots");
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        loop {
            for n in 0..SLOTS {
                let path = dir.join(format!("{name}-{n}"));
                let file = File::create(&path).map_err(Error::file("open", path))?;
                if file.try_lock().is_ok() {
                    return Ok(Self(file));
                }
            }
            sleep(Duration::from_millis(100));
        }
    }
}
