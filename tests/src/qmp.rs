//! QEMU's monitor: presses Ctrl-Alt-Del and the power button, and tells how the machine ended, which
//! the console alone cannot (a reset and a power-off look alike there).

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// QEMU creates its socket at start; a busy host takes its time.
const PATIENCE: Duration = Duration::from_secs(20);

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
                Err(e) if started.elapsed() > PATIENCE => return Err(e),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    fn command(&mut self, command: &Value) -> io::Result<()> {
        self.0.write_all(format!("{command}\n").as_bytes())
    }

    /// Presses and releases Ctrl-Alt-Del on the machine's keyboard.
    pub(crate) fn ctrl_alt_del(&mut self) -> io::Result<()> {
        let keys: Vec<_> =
            ["ctrl", "alt", "delete"].iter().map(|k| json!({ "type": "qcode", "data": k })).collect();
        self.command(&json!({ "execute": "send-key", "arguments": { "keys": keys } }))
    }

    /// Presses the reset button.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "system_reset" }))
    }

    /// Presses the power button.
    pub(crate) fn power_button(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "system_powerdown" }))
    }

    /// Pulls a device that can be pulled, by its id.
    pub(crate) fn unplug(&mut self, id: &str) -> io::Result<()> {
        self.command(&json!({ "execute": "device_del", "arguments": { "id": id } }))
    }

    /// Ends QEMU.
    pub(crate) fn quit(&mut self) -> io::Result<()> {
        self.command(&json!({ "execute": "quit" }))
    }

    /// The reasons of the machine's ends as they come: `guest-shutdown`, `guest-reset`, ..
    pub(crate) fn ends(&self) -> io::Result<impl Iterator<Item = String> + use<>> {
        let lines = BufReader::new(self.0.try_clone()?).lines();
        Ok(lines.map_while(io::Result::ok).filter_map(|line| {
            let message: Value = serde_json::from_str(&line).ok()?;
            (message["event"] == "SHUTDOWN").then(|| message["data"]["reason"].as_str().map(str::to_owned))?
        }))
    }
}
