//! Starts the fabric manager if the driver image has one. On machines whose GPUs are connected by
//! NVSwitches, CUDA reports that the system is not ready until a fabric manager runs. This code has never run
//! on such a machine: it relies on NVIDIA's documentation of the configuration file and of the line that the
//! fabric manager logs when it is ready.

use crate::driver::report::{Code, Finding};
use crate::sys::process::{Terminal, own_session, unblock_signals};
use crate::sys::terminal::printable;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long init waits for it to be ready.
pub(super) const WAIT: Duration = Duration::from_secs(60);
/// The line of its log that says that the switches are configured.
const READY: &str = "Successfully configured all the available";
/// How many of its last log lines are evidence.
const LINES: usize = 12;

/// How to start a fabric manager.
#[derive(Debug)]
pub(super) struct FabricManager<'a> {
    /// The program.
    pub(super) program: PathBuf,
    /// The driver image's folder; its `nvswitch/`, if present, has the topology files.
    pub(super) image: &'a Path,
    /// Folder for its configuration and log.
    pub(super) run: &'a Path,
    /// How long to wait for it.
    pub(super) wait: Duration,
}

impl FabricManager<'_> {
    /// Starts it and waits until it is ready or has ended. It keeps running in its own session until the
    /// machine goes down, or until a validator dies: then everything is killed and the verdict is ERROR.
    ///
    /// # Errors
    /// The finding that it is not ready.
    pub(super) fn run(&self) -> Result<(), Box<Finding>> {
        let log = self.run.join("fabric-manager.log");
        let failed = |why: String| {
            let text = fs::read(&log).unwrap_or_else(|_| Vec::new());
            let lines: Vec<_> = text.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(printable).collect();
            let last = lines.iter().skip(lines.len().saturating_sub(LINES)).cloned().collect();
            let message = format!("{} {why}", self.program.display());
            Box::new(Finding::fail(Code::NvswitchNoManager, "nvswitch", message).shown_by(last))
        };
        let mut child = self.start(&log).map_err(|e| failed(format!("cannot be started: {e}")))?;
        let until = Instant::now() + self.wait;
        loop {
            let is_ready = fs::read(&log).is_ok_and(|text| String::from_utf8_lossy(&text).contains(READY));
            if is_ready {
                return Ok(());
            }
            match child.try_wait() {
                Ok(Some(status)) if !status.success() => return Err(failed(format!("ended: {status}"))),
                Err(e) => return Err(failed(format!("cannot be watched: {e}"))),
                // A program that exits with success continues in the background.
                Ok(_) => {}
            }
            if Instant::now() >= until {
                return Err(failed(format!("was not ready within {} s", self.wait.as_secs())));
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn start(&self, log: &Path) -> io::Result<Child> {
        let config = self.run.join("fabric-manager.cfg");
        fs::write(&config, configuration(log, self.image))?;
        let output = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&config).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        unblock_signals(&mut command);
        own_session(&mut command, Terminal::Plain);
        command.spawn()
    }
}

/// Its configuration: in the foreground, one fabric with all GPUs and switches, on this machine only.
fn configuration(log: &Path, image: &Path) -> String {
    let topologies = image.join("nvswitch");
    let topologies =
        if topologies.is_dir() { format!("TOPOLOGY_FILE_PATH={}\n", topologies.display()) } else { String::new() };
    format!(
        "DAEMONIZE=0\nLOG_LEVEL=4\nLOG_FILE_NAME={}\nLOG_APPEND_TO_LOG=1\nLOG_USE_SYSLOG=0\nFABRIC_MODE=0\n\
         BIND_INTERFACE_IP=127.0.0.1\nSTATE_FILE_NAME=/tmp/fabricmanager.state\n{topologies}",
        log.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Runs a shell script as the fabric manager.
    fn run(script: &str, wait: Duration) -> (Result<(), Box<Finding>>, String) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("nv-fabricmanager");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let result = FabricManager { program, image: dir.path(), run: dir.path(), wait }.run();
        let config = fs::read_to_string(dir.path().join("fabric-manager.cfg")).unwrap();
        (result, config)
    }

    #[test]
    fn one_that_reports_ready_keeps_running() {
        let ready = "echo Successfully configured all the available NVSwitches; sleep 1";
        let (result, config) = run(ready, Duration::from_secs(30));
        assert_eq!(result, Ok(()));
        assert!(config.contains("DAEMONIZE=0\n") && config.contains("/fabric-manager.log\n"), "{config}");
    }

    #[test]
    fn one_that_dies_is_a_finding_with_its_last_lines() {
        let finding = run("echo wrong driver version; exit 3", Duration::from_secs(30)).0.unwrap_err();
        assert_eq!(finding.code, Code::NvswitchNoManager);
        assert!(finding.message.ends_with("ended: exit status: 3"), "{}", finding.message);
        assert_eq!(finding.evidence, ["wrong driver version"]);
    }

    #[test]
    fn one_that_never_reports_ready_is_given_up_in_time() {
        let finding = run("sleep 2", Duration::from_millis(200)).0.unwrap_err();
        assert!(finding.message.ends_with("was not ready within 0 s"), "{}", finding.message);
        let (program, image, run) = ("/none".into(), Path::new("/"), Path::new("/none"));
        let none = FabricManager { program, image, run, wait: WAIT };
        assert!(none.run().unwrap_err().message.starts_with("/none cannot be started: "));
    }
}
