//! A web server for one folder, on a port of its own of this machine; ends when dropped.

use crate::error::{Error, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A folder that is being served.
#[derive(Debug)]
pub struct Served {
    server: Child,
    port: u16,
}

impl Served {
    /// Serves `folder`.
    ///
    /// # Errors
    /// When Python does not start or does not say its port.
    pub fn folder(folder: &Path) -> Result<Self> {
        let failed = |why: String| Error::Program { program: "python3 -m http.server".into(), why };
        let mut server = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        // "Serving HTTP on 127.0.0.1 port 43211 (http://127.0.0.1:43211/) ..."
        let mut line = String::new();
        let read = server.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let port = line.split(" port ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        match (read, port) {
            (Some(Ok(_)), Some(port)) => Ok(Self { server, port }),
            _ => {
                let _ = server.kill();
                let _ = server.wait();
                Err(failed(format!("it said {line:?}")))
            }
        }
    }

    /// The URL of a file in it, as a machine in QEMU's user network sees it.
    #[must_use]
    pub fn url(&self, file: &str) -> String {
        format!("http://10.0.2.2:{}/{file}", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
