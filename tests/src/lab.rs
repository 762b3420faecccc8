//! An isolated lab network: a network namespace with one interface, on which the shipped server runs and to which machines
//! in QEMU are connected. Needs root, or sudo without a password.

use crate::error::{Error, Result};
use crate::image::workspace;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The interface's name.
pub const INTERFACE: &str = "lab0";

/// The network; dropping it removes it.
#[derive(Debug)]
pub struct Lab {
    child: Child,
    /// The process that owns the network; with sudo, this is not the child itself.
    process: String,
}

/// A server and its output; dropping it ends the server.
#[derive(Debug)]
pub struct LabServer {
    child: Child,
    lines: Receiver<String>,
    output: String,
}

impl Lab {
    /// A network with the interface [`INTERFACE`], which has this address, or none.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(address: &str) -> Result<Self> {
        let address = if address.is_empty() {
            String::new()
        } else {
            format!("ip address add {address} dev {INTERFACE}")
        };
        let script = format!(
            "ip link set lo up; ip tuntap add {INTERFACE} mode tap; {address}
             ip link set {INTERFACE} up; echo $$; exec sleep infinity"
        );
        let mut command = root(&["unshare", "--net", "sh", "-ec", &script]);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
        let line = child
            .stdout
            .take()
            .and_then(|out| BufReader::new(out).lines().next());
        match line {
            Some(Ok(process)) if process.parse::<u32>().is_ok() => Ok(Self { child, process }),
            _ => Err(Error::Program {
                program: "unshare".into(),
                why: "made no network".into(),
            }),
        }
    }

    /// The words to put before a command so that it runs in this network.
    #[must_use]
    pub fn inside(&self) -> Vec<String> {
        let words = ["nsenter", "--net", "--target"].map(str::to_owned);
        words
            .into_iter()
            .chain([self.process.clone(), "--".into()])
            .collect()
    }

    /// Runs `image/pxe.sh --serve` with these words.
    ///
    /// # Errors
    /// If it does not start.
    pub fn serve(&self, words: &[&str]) -> Result<LabServer> {
        let script = workspace()
            .join("image/pxe.sh")
            .to_string_lossy()
            .into_owned();
        self.run(&[&[script.as_str(), "--serve"], words].concat())
    }

    /// Runs any server as root in this network.
    ///
    /// # Errors
    /// If it does not start.
    pub fn run(&self, words: &[&str]) -> Result<LabServer> {
        let inside = self.inside();
        let mut all: Vec<&str> = inside.iter().map(String::as_str).collect();
        all.extend(words);
        let mut child = root(&all)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, lines) = channel();
        let pipes: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|p: ChildStdout| Box::new(p) as _),
            child.stderr.take().map(|p| Box::new(p) as _),
        ];
        for pipe in pipes.into_iter().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                BufReader::new(pipe)
                    .lines()
                    .map_while(std::io::Result::ok)
                    .try_for_each(|l| sender.send(l))
            });
        }
        Ok(LabServer {
            child,
            lines,
            output: String::new(),
        })
    }
}

impl LabServer {
    /// Whether the server prints `text` within five minutes (a firmware on a busy host is slow), or already has.
    pub fn says(&mut self, text: &str) -> bool {
        let until = Instant::now() + Duration::from_secs(300);
        while !self.output.contains(text) {
            match self
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.output += &(line + "\n"),
                Err(_) => return false,
            }
        }
        true
    }

    /// Everything that it has printed so far.
    pub fn said(&mut self) -> &str {
        while let Ok(line) = self.lines.try_recv() {
            self.output += &(line + "\n");
        }
        &self.output
    }
}

impl Drop for LabServer {
    fn drop(&mut self) {
        // Like Ctrl-C: it ends its servers itself.
        let _ = root(&["kill", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = root(&["kill", &self.process]).status();
        let _ = self.child.wait();
    }
}

/// A command that runs as root.
fn root(words: &[&str]) -> Command {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|o| o.stdout == b"0\n");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    command
        .args(if is_root { &[][..] } else { &["-n"] })
        .args(words);
    command
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::Program {
        program: "a network of its own".into(),
        why: e.to_string(),
    }
}
