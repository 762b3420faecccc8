//! One QEMU process: its standard command line, its serial line and monitor as one stream of events, and its end when the
//! value is dropped. The monitor presses keys and buttons, and reports how the machine ended, which the console alone
//! cannot: a reset and a power-off look the same there.

use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, thread};

/// An event of the machine.
#[derive(Debug)]
pub(crate) enum Event {
    /// It wrote to its serial line.
    Serial(Vec<u8>),
    /// It ended, and why.
    Ended(String),
    /// QEMU closed the serial line: nothing more will come.
    Closed,
}

/// A running machine.
#[derive(Debug)]
pub(crate) struct Qemu {
    child: Child,
    serial: ChildStdin,
    pub(crate) monitor: Qmp,
    pub(crate) events: Receiver<Event>,
}

impl Qemu {
    /// Starts QEMU with the arguments of every test machine and `args`; its sockets are made in `dir`, and `wrapper`
    /// is a program that execs QEMU.
    pub(crate) fn start(
        processor: Processor,
        dir: &Path,
        wrapper: &[String],
        args: &[OsString],
    ) -> Result<Self> {
        let name = processor.program();
        let failed = |e: std::io::Error| Error::Program {
            program: name.into(),
            why: e.to_string(),
        };
        let socket = dir.join("qmp");
        let stderr_path = dir.join("stderr");
        let stderr =
            std::fs::File::create(&stderr_path).map_err(Error::file("create", &stderr_path))?;
        let mut command = match wrapper {
            [] => Command::new(name),
            [program, words @ ..] => {
                let mut command = Command::new(program);
                command.args(words).arg(name);
                command
            }
        };
        let mut child = command
            .args(standard_arguments(processor, &socket))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(failed)?;
        let (sender, events) = channel();
        let (Some(serial), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Program {
                program: name.into(),
                why: "has no serial line".into(),
            });
        };
        let connected = Qmp::connect(&socket)
            .and_then(|monitor| Ok((monitor.shutdown_reasons()?, monitor.duplicate()?, monitor)));
        let (shutdown_reasons, mut waker, monitor) = connected.map_err(|e| {
            let _ = child.kill();
            let _ = child.wait();
            let output = std::fs::read_to_string(&stderr_path).unwrap_or_else(|e| e.to_string());
            Error::Program {
                program: name.into(),
                why: format!("no monitor: {e}; it said: {output}"),
            }
        })?;
        let serial_sender = sender.clone();
        thread::spawn(move || forward_serial(stdout, &serial_sender));
        thread::spawn(move || {
            shutdown_reasons
                .into_iter()
                .try_for_each(|why| sender.send(Event::Ended(why)))
        });
        thread::spawn(move || {
            while waker.wake().is_ok() {
                sleep(WAKE_INTERVAL);
            }
        });
        Ok(Self {
            child,
            serial,
            monitor,
            events,
        })
    }

    /// Types text on the serial line.
    pub(crate) fn type_text(&mut self, text: &str) -> std::io::Result<()> {
        self.serial.write_all(text.as_bytes())?;
        self.serial.flush()
    }

    /// Processor time that it has used, in seconds; the kernel keeps it until the process is waited for.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // After the name in parentheses, the 12th and 13th number: hundredths of seconds in user mode and in the kernel.
        let numbers = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        numbers
            .skip(11)
            .take(2)
            .filter_map(|n| n.parse::<f64>().ok())
            .sum::<f64>()
            / 100.0
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor architecture of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processor {
    X86,
    Arm64,
}

impl Processor {
    const fn program(self) -> &'static str {
        match self {
            Self::X86 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }

    /// QEMU 7.2 emulates `cmpxchg16b` incorrectly without hardware virtualization: one kernel start in four dies of it (25
    /// starts: 7 died with `max`, none with `max,-cx16`; none with QEMU 10). Without the instruction the kernel's allocator
    /// uses another code path and nothing else here changes. On arm64 pointers are signed by a short function instead of a
    /// long one, which an emulated machine would compute at every call.
    const fn model(self) -> &'static str {
        match self {
            Self::X86 => "max,-cx16",
            Self::Arm64 => "max,pauth-impdef=on",
        }
    }

    /// Emulation, unless the variable names an accelerator that this host's own processor supports.
    fn accelerator(self) -> OsString {
        env::var_os("FIRSTLIGHT_ACCEL")
            .filter(|_| self == Self::X86)
            .unwrap_or_else(|| "tcg".into())
    }
}

/// A reset ends the machine instead of restarting it, and an ended machine is paused, so that the monitor can report why
/// before QEMU exits.
fn standard_arguments(processor: Processor, socket: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec![
        "-accel".into(),
        processor.accelerator(),
        "-cpu".into(),
        processor.model().into(),
    ];
    let words = "-nodefaults -no-user-config -display none \
        -action reboot=shutdown,shutdown=pause -chardev stdio,id=serial,signal=off -serial chardev:serial -qmp";
    args.extend(words.split_whitespace().map(OsString::from));
    let mut monitor = OsString::from("unix:");
    monitor.push(socket);
    monitor.push(",server=on,wait=off");
    args.push(monitor);
    args
}

fn forward_serial(mut stdout: impl Read, sender: &Sender<Event>) {
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = stdout.read(&mut chunk) {
        if sender.send(Event::Serial(chunk[..n].to_vec())).is_err() {
            return;
        }
    }
    let _ = sender.send(Event::Closed);
}

/// QEMU creates its socket at start; a busy host may be slow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// On a busy host, QEMU 7.2 was seen to miss a timer that the guest had just set, and to sleep until its own next one: the
/// machine did nothing for 29 s, and its kernel reported a stall. A monitor command wakes it.
const WAKE_INTERVAL: Duration = Duration::from_secs(1);

/// A connection to the monitor.
#[derive(Debug)]
pub(crate) struct Qmp(UnixStream);

impl Qmp {
    /// Connects as soon as QEMU listens.
    pub(crate) fn connect(socket: &Path) -> io::Result<Self> {
        let started = Instant::now();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    let mut qmp = Self(stream);
                    qmp.command(&json!({ "execute": "qmp_capabilities" }))?;
                    return Ok(qmp);
                }
                Err(e) if started.elapsed() > CONNECT_TIMEOUT => return Err(e),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    fn command(&mut self, command: &Value) -> io::Result<()> {
        self.0.write_all(format!("{command}\n").as_bytes())
    }

    /// The same connection, for another thread.
    fn duplicate(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Sends a query, so that QEMU checks its timers.
    fn wake(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "query-status" }))
    }

    /// Presses and releases Ctrl-Alt-Del on the machine's keyboard.
    pub(crate) fn ctrl_alt_del(&mut self) -> io::Result<()> {
        let keys: Vec<_> = ["ctrl", "alt", "delete"]
            .iter()
            .map(|k| json!({ "type": "qcode", "data": k }))
            .collect();
        self.command(&json!({ "execute": "send-key", "arguments": { "keys": keys } }))
    }

    /// Presses and releases a key of the machine's keyboard, by its name in QEMU's `QKeyCode`.
    pub(crate) fn key(&mut self, name: &str) -> io::Result<()> {
        let keys = [json!({ "type": "qcode", "data": name })];
        self.command(&json!({ "execute": "send-key", "arguments": { "keys": keys } }))
    }

    /// Saves the contents of the machine's screen to a file, as a portable pixmap.
    pub(crate) fn picture(&mut self, file: &Path) -> io::Result<()> {
        self.command(&json!({ "execute": "screendump", "arguments": { "filename": file } }))
    }

    /// Presses the reset button.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "system_reset" }))
    }

    /// Presses the power button.
    pub(crate) fn power_button(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "system_powerdown" }))
    }

    /// Unplugs a hot-pluggable device, by its id.
    pub(crate) fn unplug(&mut self, id: &str) -> io::Result<()> {
        self.command(&json!({ "execute": "device_del", "arguments": { "id": id } }))
    }

    /// Unplugs or plugs the cable of a network, by the network's id.
    pub(crate) fn link(&mut self, id: &str, up: bool) -> io::Result<()> {
        self.command(&json!({ "execute": "set_link", "arguments": { "name": id, "up": up } }))
    }

    /// Ends QEMU.
    pub(crate) fn quit(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "quit" }))
    }

    /// The reasons for the machine's ends as they arrive: `guest-shutdown`, `guest-reset`, ..
    pub(crate) fn shutdown_reasons(&self) -> io::Result<impl Iterator<Item = String> + use<>> {
        let lines = BufReader::new(self.0.try_clone()?).lines();
        Ok(lines.map_while(io::Result::ok).filter_map(|line| {
            let message: Value = serde_json::from_str(&line).ok()?;
            (message["event"] == "SHUTDOWN")
                .then(|| message["data"]["reason"].as_str().map(str::to_owned))?
        }))
    }
}
