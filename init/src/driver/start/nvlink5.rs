//! What must run before the fabric manager on a machine with NVLink 5: the modules of the ConnectX-7 that leads to the NVSwitches,
//! and nvlsm, a subnet manager like those of InfiniBand. The fabric manager is started after it, for the same port. This code has
//! never run on such a machine, and nvlsm was not available to us: it relies on the sources that `driver::nvlink5` names.

use super::DriverStart;
use super::daemon::{Daemon, Program, last_lines};
use crate::driver::nvlink5::{
    self, FOLDERS, LIBRARIES, MODULES, PLACES, PROGRAM, SETTINGS, SOCKET,
};
use crate::driver::report::{Code, Finding};
use crate::modules::ModuleTree;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long init waits for the card's ports, and then for nvlsm.
const WAIT: Duration = Duration::from_secs(30);
/// The word that a subnet manager logs when it manages the switches.
const READY: &str = "Entering MASTER state";
/// How long its socket must exist where its log does not say that it is ready: NVIDIA's own script waits as long.
const SETTLING: Duration = Duration::from_secs(5);

/// nvlsm, running, and the port over which it and the fabric manager reach the switches.
pub(super) struct Managed {
    /// The port's GUID.
    pub(super) port: String,
    nvlsm: Daemon,
}

impl Managed {
    /// The finding that nvlsm has ended meanwhile: without it the fabric manager cannot become ready.
    pub(super) fn end(&mut self, log: &Path) -> Option<Finding> {
        let why = self.nvlsm.end()?;
        Some(failed(format!("{PROGRAM} {why}")).shown_by(last_lines(log)))
    }
}

fn failed(message: String) -> Finding {
    Finding::fail(Code::Nvlink5NoNvlsm, "nvswitch", message)
}

impl DriverStart<'_, '_> {
    /// Loads the modules, finds the port and starts nvlsm.
    ///
    /// # Errors
    /// The finding that nvlsm does not run.
    pub(super) fn start_nvlsm(&mut self) -> Result<Managed, Finding> {
        let (places, bridges) = (self.places, self.report.bridges.len());
        let program = places.image_at.join(PROGRAM);
        if !program.exists() {
            let lacks = if self.has_fabric_manager() {
                "no nvlsm"
            } else {
                "neither nvlsm nor a fabric manager"
            };
            let what = format!("NVLink 5 (NVSwitches behind {bridges} functions of a ConnectX-7)");
            return Err(failed(format!("{what} and {lacks} in the driver image")));
        }
        make_places(&places.root, &places.image_at)
            .map_err(|why| failed(format!("nvlsm cannot be started: {why}")))?;
        self.load_bridge_modules()
            .map_err(|why| failed(format!("nvlsm cannot be started: {why}")))?;
        let limit = WAIT.min(self.time_left() / 4);
        let port = self.wait_for_port(limit).map_err(failed)?;
        self.say(&format!("starting nvlsm on port {port}"));
        let log = places.run.join("nvlsm.log");
        let failed = |why: String| failed(format!("{PROGRAM} {why}")).shown_by(last_lines(&log));
        let (settings, pid) = (places.image_at.join(SETTINGS), places.run.join("nvlsm.pid"));
        let (settings, pid) = (settings.display().to_string(), pid.display().to_string());
        let arguments = [
            "-F",
            &settings,
            "-g",
            &port,
            "--pid_file",
            &pid,
            "--log_file",
            "stdout",
        ];
        let libraries = [places.image_at.join(LIBRARIES), places.image_at.join("lib")];
        let start = Program {
            file: &program,
            arguments: &arguments,
            log: &log,
            libraries: &libraries,
            may_fork: false,
        };
        let mut nvlsm = start
            .start()
            .map_err(|e| failed(format!("cannot be started: {e}")))?;
        let (socket, mut since) = (places.at(SOCKET), None);
        let is_ready = |text: &str| {
            if !socket.exists() {
                return false;
            }
            let since = *since.get_or_insert_with(Instant::now);
            text.contains(READY) || since.elapsed() >= SETTLING
        };
        nvlsm
            .wait(WAIT.min(self.time_left() / 3), is_ready)
            .map_err(failed)?;
        Ok(Managed { port, nvlsm })
    }

    fn load_bridge_modules(&mut self) -> Result<(), String> {
        let tree = ModuleTree::open(&self.places.modules)?;
        for module in MODULES {
            for file in tree.files(module)? {
                self.say(&format!("loading {module}"));
                match (self.actions.insert)(&file, "") {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                        let name = file.file_name().unwrap_or_default().display();
                        return Err(format!("{name} cannot be loaded: {e}"));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The first port that may be managed, as soon as the card's driver has made it and its device nodes exist.
    fn wait_for_port(&self, limit: Duration) -> Result<String, String> {
        let (sys, nodes) = (self.places.at("sys"), self.places.at("dev/infiniband"));
        let until = Instant::now() + limit;
        loop {
            let ports = nvlink5::ports(&sys, &self.report.bridges);
            let has_node = fs::read_dir(&nodes)
                .into_iter()
                .flatten()
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().starts_with("umad"));
            match ports.iter().find(|port| port.may_manage) {
                Some(port) if has_node => return Ok(port.guid.clone()),
                _ if Instant::now() < until => sleep(Duration::from_millis(50)),
                Some(_) => {
                    return Err(format!(
                        "{}/umad* does not exist, which nvlsm needs",
                        nodes.display()
                    ));
                }
                None => {
                    let bridges = self.report.bridges.join(", ");
                    return Err(format!(
                        "none of the {} ports of {bridges} may be managed by nvlsm",
                        ports.len()
                    ));
                }
            }
        }
    }
}

/// Makes the folders and links that the programs of NVIDIA's packages expect. What exists is kept.
pub(super) fn make_places(root: &Path, image: &Path) -> Result<(), String> {
    let failed = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
    for folder in FOLDERS {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).map_err(|e| failed(&folder, e))?;
    }
    for (folder, place) in PLACES {
        let (folder, place) = (image.join(folder), root.join(place));
        if !folder.is_dir() || place.exists() {
            continue;
        }
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        }
        match symlink(&folder, &place) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&place, e)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
