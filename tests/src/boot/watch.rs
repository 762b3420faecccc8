//! Waits for permission to run a machine, and follows it: what it prints, what a user then does to it, and how it ends.

use crate::boot::booted::{Booted, End};
use crate::boot::qemu::{Event, Qemu};
use crate::error::{Error, Result};
use crate::image::workspace;
use crate::overlay;
use std::collections::VecDeque;
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Something that a user does to the machine.
#[derive(Debug, Clone)]
pub(crate) enum UserAction {
    CtrlAltDel,
    PowerButton,
    Reset,
    Type(String),
    /// Take a picture of the screen after this time, then press these keys.
    Screen(PathBuf, &'static [&'static str], Duration),
    /// Unplug the device with this id after this time.
    Unplug(String, Duration),
    /// Let it run for this time, then stop it.
    StopAfter(Duration),
}

/// Follows a running machine: collects the console, performs the actions, detects the end.
pub(crate) struct Watch {
    console: Vec<u8>,
    /// Where the search for the next act's text continues.
    searched: usize,
    actions: VecDeque<(String, UserAction)>,
    end: Option<End>,
    /// No more output will come.
    closed: bool,
    stop_at: Option<Instant>,
    started: Instant,
    deadline: Duration,
}

impl Watch {
    pub(crate) fn new(actions: Vec<(String, UserAction)>, deadline: Duration) -> Self {
        Self {
            console: Vec::new(),
            searched: 0,
            actions: actions.into(),
            end: None,
            closed: false,
            stop_at: None,
            started: Instant::now(),
            deadline,
        }
    }

    /// Runs until the machine ends, is stopped, or the deadline has passed; `dir` contains QEMU's messages.
    fn run_to_end(mut self, qemu: &mut Qemu, dir: &Path) -> Result<(End, String)> {
        while !self.closed {
            if self.step(qemu)? {
                return Ok((End::StillRunning, self.text()));
            }
        }
        self.ended(dir)
    }

    /// Runs until the machine prints `text` after the text that was found last.
    fn until(&mut self, qemu: &mut Qemu, text: &str) -> Result<()> {
        while !self.found(text) {
            match self.step(qemu) {
                Ok(stopped) if stopped || self.closed => {
                    return Err(self.missing(format!("ended without saying {text:?}")));
                }
                Ok(_) => {}
                Err(Error::Deadline { .. }) => {
                    return Err(self.missing(format!("has not said {text:?}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Handles the next event; true if it is time to stop.
    fn step(&mut self, qemu: &mut Qemu) -> Result<bool> {
        let until = self.stop_at.unwrap_or(self.started + self.deadline);
        match qemu
            .events
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            Ok(Event::Serial(bytes)) => {
                self.console.extend(bytes);
                self.act(qemu).map_err(|e| monitor(&e))?;
            }
            // QEMU also reports an end for `quit`: only the first one counts.
            Ok(Event::Ended(why)) if self.end.is_none() => {
                self.end = Some(End::from_reason(&why));
                qemu.monitor.quit().map_err(|e| monitor(&e))?;
            }
            Ok(Event::Ended(_)) => {}
            Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => self.closed = true,
            Err(RecvTimeoutError::Timeout) if self.stop_at.is_some() => return Ok(true),
            Err(RecvTimeoutError::Timeout) => return Err(self.late()),
        }
        Ok(false)
    }

    /// Whether `text` has appeared after the text that was found last; the next search begins after it.
    fn found(&mut self, text: &str) -> bool {
        let at = find(&self.console[self.searched..], text.as_bytes());
        self.searched += at.map_or(0, |at| at + text.len());
        at.is_some()
    }

    /// Performs every act whose text has appeared, in order; each one searches after the previous one.
    fn act(&mut self, qemu: &mut Qemu) -> std::io::Result<()> {
        while let Some((text, _)) = self.actions.front() {
            let text = text.clone();
            if !self.found(&text) {
                return Ok(());
            }
            match self.actions.pop_front() {
                Some((_, UserAction::CtrlAltDel)) => qemu.monitor.ctrl_alt_del()?,
                Some((_, UserAction::PowerButton)) => qemu.monitor.power_button()?,
                Some((_, UserAction::Reset)) => qemu.monitor.reset()?,
                Some((_, UserAction::Type(line))) => qemu.type_text(&line)?,
                Some((_, UserAction::Screen(picture, keys, linger))) => {
                    std::thread::sleep(linger);
                    qemu.monitor.picture(&picture)?;
                    for key in keys {
                        // A key must be up again before the next press counts as a new one.
                        std::thread::sleep(Duration::from_millis(500));
                        qemu.monitor.key(key)?;
                    }
                }
                Some((_, UserAction::Unplug(id, linger))) => {
                    // Console output in the meantime is kept in its channel.
                    std::thread::sleep(linger);
                    qemu.monitor.unplug(&id)?;
                }
                Some((_, UserAction::StopAfter(linger))) => {
                    self.stop_at = Some(Instant::now() + linger);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn ended(self, dir: &Path) -> Result<(End, String)> {
        match &self.end {
            Some(_) if !self.actions.is_empty() => {
                Err(self.missing(format!("ended without saying {:?}", self.actions[0].0)))
            }
            Some(end) => Ok((end.clone(), self.text())),
            None => {
                let stderr =
                    fs::read_to_string(dir.join("stderr")).unwrap_or_else(|e| e.to_string());
                Err(Error::QemuDied {
                    stderr,
                    console: self.text(),
                })
            }
        }
    }

    fn late(&self) -> Error {
        let missing = self.actions.front().map_or_else(
            || "has not ended".to_owned(),
            |(text, _)| format!("has not said {text:?}"),
        );
        self.missing(missing)
    }

    fn missing(&self, missing: String) -> Error {
        Error::Deadline {
            after: self.started.elapsed(),
            missing,
            console: self.text(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.console).replace('\r', "")
    }
}

fn monitor(e: &std::io::Error) -> Error {
    Error::Program {
        program: "QEMU's monitor".into(),
        why: e.to_string(),
    }
}

/// A running machine. It is ended when this is dropped.
pub struct RunningMachine {
    watch: Watch,
    qemu: Qemu,
    /// Its sockets, messages and files.
    scratch: TempDir,
    /// The disk on which files come back.
    recover: Option<PathBuf>,
    _slot: Slot,
}

impl RunningMachine {
    /// The machine of `qemu`; `recover` is the disk in `scratch` on which files come back.
    pub(crate) fn new(
        watch: Watch,
        qemu: Qemu,
        scratch: TempDir,
        recover: Option<PathBuf>,
        slot: Slot,
    ) -> Self {
        Self {
            watch,
            qemu,
            scratch,
            recover,
            _slot: slot,
        }
    }

    /// Waits until its console contains `text` after the text of the previous wait.
    ///
    /// # Errors
    /// If it ends or its deadline passes first.
    pub fn until(&mut self, text: &str) -> Result<()> {
        self.watch.until(&mut self.qemu, text)
    }

    /// Unplugs or plugs the cable of the network with this id.
    ///
    /// # Errors
    /// If the monitor is gone.
    pub fn link(&mut self, id: &str, up: bool) -> Result<()> {
        self.qemu.monitor.link(id, up).map_err(|e| monitor(&e))
    }

    /// Cuts the power.
    pub fn cut(self) {
        drop(self);
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If the machine neither ends nor prints what the actions wait for within its deadline.
    pub fn finish(self) -> Result<Booted> {
        let Self {
            watch,
            mut qemu,
            scratch,
            recover,
            _slot,
        } = self;
        let started = watch.started;
        let (end, console) = watch.run_to_end(&mut qemu, scratch.path())?;
        // `--show-output` shows it: a machine that mostly waits should use `mostly_waits`, one that works a lot may be
        // worth shortening.
        println!(
            "a machine ran {:.1} s, {:.1} s of processor",
            started.elapsed().as_secs_f64(),
            qemu.cpu_seconds()
        );
        drop(qemu);
        let files = recover.map_or_else(|| Ok(Vec::new()), |disk| overlay::read(&disk))?;
        Ok(Booted::new(console, end, files, started.elapsed()))
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// At most two machines work at the same time, however the tests are run: two cores are what is guaranteed, and an emulated
/// machine that is starved misses its own deadlines.
const BUSY_SLOTS: usize = 2;

/// The number of machines that may wait for their deadlines meanwhile.
const WAITING_SLOTS: usize = 4;

/// One more may work while this fraction of a core is idle: each machine sometimes waits for a disk or another program.
const IDLE_CORES: f64 = 0.5;

/// What a machine does most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MachineLoad {
    /// It keeps a core busy.
    Busy,
    /// It waits for a deadline.
    Waiting,
}

/// Permission to run a machine, until dropped.
#[derive(Debug)]
pub(crate) struct Slot(#[expect(dead_code, reason = "held for its lock")] File);

impl Slot {
    /// Waits for one slot.
    pub(crate) fn take(load: MachineLoad) -> Result<Self> {
        let _turn = load.turn()?;
        Self::free(load)
    }

    /// Waits for two slots.
    pub(crate) fn take_two(load: MachineLoad) -> Result<[Self; 2]> {
        let _turn = load.turn()?;
        Ok([Self::free(load)?, Self::free(load)?])
    }

    /// The next slot that is free.
    fn free(load: MachineLoad) -> Result<Self> {
        let (usual, most) = match load {
            MachineLoad::Busy => (BUSY_SLOTS, BUSY_SLOTS + 1),
            MachineLoad::Waiting => (WAITING_SLOTS, WAITING_SLOTS),
        };
        let paths: Vec<_> = (0..most)
            .map(|n| load.lock(&n.to_string()))
            .collect::<Result<_>>()?;
        let (mut sample, mut spare) = ((Instant::now(), idle_seconds()), false);
        loop {
            for path in &paths[..if spare { most } else { usual }] {
                let file = open(path)?;
                if file.try_lock().is_ok() {
                    return Ok(Self(file));
                }
            }
            sleep(Duration::from_millis(100));
            let since = sample.0.elapsed().as_secs_f64();
            if since > 1.0 {
                let now = idle_seconds();
                spare = (now - sample.1) / since > IDLE_CORES;
                sample = (Instant::now(), now);
            }
        }
    }
}

impl MachineLoad {
    /// The path of one of its locks.
    fn lock(self, name: &str) -> Result<PathBuf> {
        let load = match self {
            Self::Busy => "slot",
            Self::Waiting => "waiting",
        };
        Ok(lock_folder()?.join(format!("{load}-{name}")))
    }

    /// Waits, in the order of arrival, for the turn to wait for a slot: else a test that needs two would be overtaken by all
    /// others, and be the last.
    fn turn(self) -> Result<File> {
        let path = self.lock("turn")?;
        let file = open(&path)?;
        file.lock().map_err(Error::file("lock", path))?;
        Ok(file)
    }
}

/// Total idle time of all processors since the host started, in seconds.
fn idle_seconds() -> f64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    uptime
        .split_whitespace()
        .nth(1)
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_default()
}

fn open(path: &Path) -> Result<File> {
    File::create(path).map_err(Error::file("open", path))
}

/// The folder of the locks.
fn lock_folder() -> Result<PathBuf> {
    let dir = workspace().join("target/boots");
    fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
    Ok(dir)
}
