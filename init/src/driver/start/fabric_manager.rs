//! Starts the fabric manager if the driver image has one. On machines whose GPUs are connected by
//! NVSwitches, CUDA reports that the system is not ready until a fabric manager runs. This code has never run
//! on such a machine: it relies on NVIDIA's documentation of the configuration file and of the line that the
//! fabric manager logs when it is ready.

use super::daemon::{Daemon, Program, last_lines};
use crate::driver::report::{Code, Finding};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long init waits for it to be ready.
pub(super) const WAIT: Duration = Duration::from_secs(60);
/// The line of its log that says that the switches are configured.
const READY: &str = "Successfully configured all the available";

/// How to start a fabric manager.
#[derive(Debug)]
pub(super) struct FabricManager<'a> {
    /// The program.
    pub(super) program: PathBuf,
    /// The driver image's folder; its `nvswitch/`, if present, has the topology files.
    pub(super) image: &'a Path,
    /// Folder for its configuration and log.
    pub(super) run: &'a Path,
    /// NVLink 5: the GUID of the port over which it manages the switches.
    pub(super) port: Option<&'a str>,
    /// How long to wait for it.
    pub(super) wait: Duration,
}

impl FabricManager<'_> {
    /// Starts it and waits until it is ready or has ended.
    ///
    /// # Errors
    /// The finding that it is not ready.
    pub(super) fn run(&self) -> Result<(), Box<Finding>> {
        let log = self.run.join("fabric-manager.log");
        let failed = |why: String| {
            let message = format!("{} {why}", self.program.display());
            Box::new(
                Finding::fail(Code::NvswitchNoManager, "nvswitch", message)
                    .shown_by(last_lines(&log)),
            )
        };
        let mut daemon = self
            .start(&log)
            .map_err(|e| failed(format!("cannot be started: {e}")))?;
        daemon
            .wait(self.wait, |text| text.contains(READY))
            .map_err(failed)
    }

    fn start(&self, log: &Path) -> io::Result<Daemon> {
        let config = self.run.join("fabric-manager.cfg");
        fs::write(&config, configuration(log, self.image))?;
        let config = config.display().to_string();
        let mut arguments = vec!["-c", &config];
        arguments.extend(self.port.into_iter().flat_map(|guid| ["-g", guid]));
        let libraries = [self.image.join("lib")];
        Program {
            file: &self.program,
            arguments: &arguments,
            log,
            libraries: &libraries,
            may_fork: true,
        }
        .start()
    }
}

/// Its configuration: in the foreground, one fabric with all GPUs and switches, on this machine only.
fn configuration(log: &Path, image: &Path) -> String {
    let topologies = image.join("nvswitch");
    let topologies = if topologies.is_dir() {
        format!("TOPOLOGY_FILE_PATH={}\n", topologies.display())
    } else {
        String::new()
    };
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
        let (image, port) = (dir.path(), Some("0x1"));
        let result = FabricManager {
            program,
            image,
            run: dir.path(),
            port,
            wait,
        }
        .run();
        let config = fs::read_to_string(dir.path().join("fabric-manager.cfg")).unwrap();
        (result, config)
    }

    #[test]
    fn one_that_reports_ready_keeps_running() {
        let ready = "echo Successfully configured all the available NVSwitches; sleep 1";
        let (result, config) = run(ready, Duration::from_secs(30));
        assert_eq!(result, Ok(()));
        assert!(
            config.contains("DAEMONIZE=0\n") && config.contains("/fabric-manager.log\n"),
            "{config}"
        );
    }

    #[test]
    fn one_that_dies_is_a_finding_with_its_last_lines() {
        let finding = run(
            "echo wrong driver version for $3 $4; exit 3",
            Duration::from_secs(30),
        )
        .0
        .unwrap_err();
        assert_eq!(finding.code, Code::NvswitchNoManager);
        assert!(
            finding.message.ends_with("ended: exit status: 3"),
            "{}",
            finding.message
        );
        assert_eq!(finding.evidence, ["wrong driver version for -g 0x1"]);
    }

    #[test]
    fn one_that_never_reports_ready_is_given_up_in_time() {
        let finding = run("sleep 2", Duration::from_millis(200)).0.unwrap_err();
        assert!(
            finding.message.ends_with("was not ready within 0 s"),
            "{}",
            finding.message
        );
        let (program, image, run) = ("/none".into(), Path::new("/"), Path::new("/none"));
        let none = FabricManager {
            program,
            image,
            run,
            port: None,
            wait: WAIT,
        };
        assert!(
            none.run()
                .unwrap_err()
                .message
                .starts_with("/none cannot be started: ")
        );
    }
}
