//! The steps after the module is loaded: check its parameters, make device nodes, open the GPUs, and start
//! the fabric manager on machines with NVSwitches; with NVLink 5 after nvlsm.

use super::DriverStart;
use super::open_gpus::open_all;
use super::{fabric_manager, make_nodes, nvlink5};
use crate::driver::report::{Code, Finding, Severity};
use crate::driver::{causes, in_force, nodes};

impl DriverStart<'_, '_> {
    pub(super) fn read_parameters_back(&mut self) {
        let own = in_force::driver_params(&self.places.at("proc"));
        let loaded: Vec<_> = self
            .report
            .modules
            .iter()
            .filter(|m| m.outcome.is_in())
            .map(|m| m.name.clone())
            .collect();
        for module in loaded {
            let (given, _) = self.parameters_of(&module);
            let found = in_force::read_back(&module, &given, &self.places.at("sys"), &own);
            self.report
                .findings
                .extend(found.iter().filter_map(in_force::judge));
            self.report.parameters.extend(found);
        }
    }

    pub(super) fn make_nodes(&mut self) {
        let devices = match make_nodes::read_devices(&self.places.at("proc"), &self.report.gpus) {
            Ok(devices) => devices,
            Err(why) => {
                let finding = Finding::fail(Code::NodesMissing, "/proc/devices", why);
                return self.add_finding(finding.as_severe_as(Severity::Error));
            }
        };
        let (planned, without) = nodes::plan(&devices, self.is_loaded("nvidia_uvm"));
        for name in without {
            let message = format!("the module is loaded and {name} is not in /proc/devices");
            self.add_finding(Finding::fail(Code::NodesMissing, name, message));
        }
        for node in planned {
            match make_nodes::make_node(&self.places.root, &node) {
                Ok(()) => self.report.nodes.push(node.node),
                Err(e) => {
                    let path = &node.node.path;
                    self.add_finding(Finding::fail(
                        Code::NodesMissing,
                        path,
                        format!("{path} cannot be made: {e}"),
                    ));
                }
            }
        }
        self.hold_gpus_open(&devices);
    }

    /// Opens the GPUs that the driver accepted and reports why it did not accept the others.
    fn hold_gpus_open(&mut self, devices: &nodes::Reported) {
        let mut gpus = Vec::new();
        for (address, minor) in &devices.gpus {
            let Some(minor) = minor else {
                self.report_rejected_gpu(address);
                continue;
            };
            let path = format!("/dev/nvidia{minor}");
            if self.report.nodes.iter().any(|node| node.path == path) {
                gpus.push((address.clone(), path));
            }
        }
        let (places, socket, mut log) = (self.places, self.actions.socket, self.log.take());
        let held = open_all(&places.root, &gpus, socket, &mut log, &mut |line| {
            self.say(line);
        });
        self.log = log;
        self.report.held = held.nodes;
        self.report.findings.extend(held.findings);
    }

    fn report_rejected_gpu(&mut self, address: &str) {
        let lines = causes::lines_about(address, &self.module_log);
        let what = "the driver is loaded and did not take this GPU";
        self.add_finding(causes::gpu_finding(
            address,
            what,
            Code::DriverFailed,
            lines,
        ));
    }

    pub(super) fn start_fabric_manager(&mut self) {
        let mut managed = None;
        if !self.report.bridges.is_empty() {
            match self.start_nvlsm() {
                Ok(running) => managed = Some(running),
                Err(finding) => return self.add_finding(finding),
            }
        } else if self.report.nvswitches.is_empty() {
            return;
        }
        let program = self
            .image
            .as_ref()
            .map_or("", |(description, _)| &description.fabric_manager);
        if program.is_empty() {
            let switches = match self.report.nvswitches.len() {
                0 => "NVSwitches of NVLink 5".to_owned(),
                count => format!("{count} NVSwitches"),
            };
            let message = format!("{switches} and no fabric manager in the driver image");
            return self.add_finding(Finding::fail(Code::NvswitchNoManager, "nvswitch", message));
        }
        // A folder that cannot be made is named by the manager itself, which may do without it.
        let _may_do_without = nvlink5::make_places(&self.places.root, &self.places.image_at);
        let start = fabric_manager::FabricManager {
            program: self.places.image_at.join(program.trim_start_matches('/')),
            image: &self.places.image_at,
            run: &self.places.run,
            port: managed.as_ref().map(|managed| managed.port.as_str()),
            wait: fabric_manager::WAIT.min(self.time_left() / 2),
        };
        (self.actions.loopback)();
        if let Err(finding) = start.run() {
            self.add_finding(*finding);
            let ended = managed
                .as_mut()
                .and_then(|managed| managed.end(&self.places.run.join("nvlsm.log")));
            self.report.findings.extend(ended);
        }
    }

    /// Whether the driver image has a fabric manager.
    pub(super) fn has_fabric_manager(&self) -> bool {
        self.image
            .as_ref()
            .is_some_and(|(description, _)| !description.fabric_manager.is_empty())
    }
}
