//! NVIDIA's driver on a modelled machine: what the module shows in /sys, /proc and the kernel's log, its libraries,
//! firmware and device nodes, and on the appliance init's account of loading it.

use super::Tree;
use super::machine::{Function, Machine};
use serde_json::{Value, json};

/// The parameters with which the appliance loads the driver for RTX 40.
const REGISTRY_DWORDS: &str = "ForceP2P=17;RMForceP2PType=2;RMForceStaticBar1=1";
/// Memory of an RTX 4090 that BAR1 must cover: 24210 MiB.
const VIDEO_MEMORY: u64 = 0x5_e920_0000;
/// The major number that the kernel assigned to nvidia-uvm.
const UVM_MAJOR: u32 = 510;

/// A driver.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Version of module and firmware.
    pub version: &'static str,
    /// Version of the libraries.
    pub libraries: &'static str,
    /// Where it comes from.
    pub origin: DriverOrigin,
    /// The name that it reports for its GPUs.
    pub model: &'static str,
    /// The registry keys with which it was loaded; `None` are the appliance's, or none for any other driver.
    pub registry_dwords: Option<&'static str>,
    /// Lines that the kernel logged later.
    pub log: Vec<&'static str>,
}

/// The source of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverOrigin {
    /// A distribution's packages.
    Packages,
    /// A separate file system, as provided by the hosts of virtual machines.
    Mounted,
    /// firstlight's driver image: init loaded it, with the peer-to-peer patch.
    Image,
}

impl DriverOrigin {
    /// The folders of libraries and firmware.
    const fn folders(self) -> (&'static str, &'static str) {
        match self {
            Self::Packages => ("usr/lib/x86_64-linux-gnu", "usr/lib/firmware"),
            Self::Mounted => ("usr/local/nvidia/lib64", "usr/local/nvidia/firmware"),
            Self::Image => (
                "run/firstlight/driver/lib",
                "run/firstlight/driver/firmware",
            ),
        }
    }
}

impl Driver {
    /// A distribution's driver, all of one version.
    pub const fn stock(version: &'static str) -> Self {
        let (origin, model) = (DriverOrigin::Packages, "NVIDIA GeForce RTX 4090");
        Self {
            version,
            libraries: version,
            origin,
            model,
            registry_dwords: None,
            log: Vec::new(),
        }
    }

    /// The appliance's driver.
    pub fn patched() -> Self {
        Self {
            origin: DriverOrigin::Image,
            ..Self::stock("555.58.02")
        }
    }

    fn is_appliance(&self) -> bool {
        self.origin == DriverOrigin::Image
    }
}

/// Adds what the driver shows, if it has a GPU, and the kernel's log.
pub(super) fn add(machine: &Machine, to: &mut Tree) {
    let gpus: Vec<&Function> = machine
        .functions
        .iter()
        .filter(|f| f.driver == Some("nvidia"))
        .collect();
    let mut log = vec!["Linux version 6.12.0".to_owned()];
    if !gpus.is_empty() {
        add_module(&machine.driver, to);
        add_gpus(&machine.driver, &gpus, to);
        add_files(&machine.driver, to);
        log.extend(own_lines(&machine.driver, &gpus));
        log.extend(machine.driver.log.iter().map(|line| (*line).to_owned()));
    }
    if machine.driver.is_appliance() {
        let account = account(&machine.driver, &gpus);
        to.file("run/firstlight/driver.json", &format!("{account:#}\n"));
    }
    let records: Vec<_> = (0..)
        .zip(log)
        .map(|(n, line)| format!("4,{n},{n}000000,-;{line}\n"))
        .collect();
    to.file("dev/kmsg", &records.concat());
}

fn add_module(driver: &Driver, to: &mut Tree) {
    let version = driver.version;
    to.file("sys/module/nvidia/version", &format!("{version}\n"));
    to.file("sys/module/nvidia/srcversion", "2F5D0C9B1A3E4F607182934\n");
    to.file("sys/module/nvidia_uvm/initstate", "live\n");
    let line = format!(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
    );
    to.file("proc/driver/nvidia/version", &line);
    let own = if driver.is_appliance() {
        REGISTRY_DWORDS
    } else {
        ""
    };
    let dwords = driver.registry_dwords.unwrap_or(own);
    to.file(
        "proc/driver/nvidia/params",
        &format!("EnableResizableBar: 0\nRegistryDwords: \"{dwords}\"\n"),
    );
    let devices =
        format!("Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n{UVM_MAJOR} nvidia-uvm\n");
    to.file(
        "proc/devices",
        &format!("{devices}\nBlock devices:\n259 blkext\n"),
    );
}

fn add_gpus(driver: &Driver, gpus: &[&Function], to: &mut Tree) {
    for (minor, gpu) in gpus.iter().enumerate() {
        let (bdf, version, model) = (&gpu.bdf, driver.version, driver.model);
        let text = format!(
            "Model: \t\t {model}\nIRQ:   \t\t {}\n\
             GPU UUID: \t GPU-00000000-0000-0000-0000-{minor:012}\nVideo BIOS: \t 95.02.3c.80.b4\n\
             Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t {bdf}\n\
             Device Minor: \t {minor}\nGPU Firmware: \t {version}\nGPU Excluded:\t No\n",
            100 + minor
        );
        to.file(&format!("proc/driver/nvidia/gpus/{bdf}/information"), &text);
    }
    for node in nodes(gpus.len()) {
        let (path, major, minor) = node;
        // A file with this line represents a device node.
        to.file(
            path.trim_start_matches('/'),
            &format!("c {major} {minor}\n"),
        );
    }
}

fn nodes(gpus: usize) -> Vec<(String, u32, u32)> {
    let mut all = vec![("/dev/nvidiactl".to_owned(), 195, 255)];
    all.extend(
        (0..)
            .take(gpus)
            .map(|n| (format!("/dev/nvidia{n}"), 195, n)),
    );
    all.extend([
        ("/dev/nvidia-uvm".to_owned(), UVM_MAJOR, 0),
        ("/dev/nvidia-uvm-tools".to_owned(), UVM_MAJOR, 1),
    ]);
    all
}

fn add_files(driver: &Driver, to: &mut Tree) {
    let (libraries, firmware) = driver.origin.folders();
    if driver.origin == DriverOrigin::Mounted {
        to.file(
            "sys/module/firmware_class/parameters/path",
            &format!("/{firmware}\n"),
        );
    }
    for name in ["libcuda.so", "libnvidia-ml.so"] {
        let target = format!("{name}.{}", driver.libraries);
        to.file(&format!("{libraries}/{target}"), "");
        to.link(&format!("{libraries}/{name}.1"), &target);
    }
    to.file(
        &format!("{firmware}/nvidia/{}/gsp_ga10x.bin", driver.version),
        "",
    );
}

/// What the module logs when it is loaded and when each GPU is initialised.
fn own_lines(driver: &Driver, gpus: &[&Function]) -> Vec<String> {
    let loading = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64";
    let mut lines = vec![format!("{loading}  {}  Release Build", driver.version)];
    if driver.is_appliance() {
        lines.insert(0, "NVRM: firstlight patch level 1".to_owned());
        lines.extend(gpus.iter().filter_map(|gpu| bar1_line(gpu)));
    }
    lines
}

fn bar1_line(gpu: &Function) -> Option<String> {
    let (_, start, size, _) = gpu.bars.iter().find(|bar| bar.0 == 1)?;
    let verdict = if *size > VIDEO_MEMORY {
        "possible"
    } else {
        "off: BAR1 is too small"
    };
    let bdf = &gpu.bdf;
    Some(format!(
        "NVRM: bar1PeerIsPossible: BAR1 peer-to-peer of {bdf} {verdict}: \
         video memory {VIDEO_MEMORY:#x}, BAR1 {size:#x} at {start:#x}"
    ))
}

fn account(driver: &Driver, gpus: &[&Function]) -> Value {
    let version = driver.version;
    let module = |name: &str, patch: Option<&str>, parameters: String| {
        json!({ "name": name, "file": format!("/run/firstlight/driver/modules/{name}.ko"), "version": version,
            "vermagic": "6.12.0 SMP preempt mod_unload ", "patch": patch,
            "srcversion": patch.map(|_| "2F5D0C9B1A3E4F607182934"), "parameters": parameters,
            "outcome": "loaded", "errno": null, "error": null })
    };
    let addresses: Vec<_> = gpus.iter().map(|gpu| gpu.bdf.as_str()).collect();
    let held: Vec<_> = (0..gpus.len()).map(|n| format!("/dev/nvidia{n}")).collect();
    let nodes = nodes(gpus.len()).into_iter();
    let nodes =
        nodes.map(|(path, major, minor)| json!({ "path": path, "major": major, "minor": minor }));
    json!({ "schema": "firstlight.driver/1", "load": true,
        "image": { "version": version, "source": "debian", "patch": "1", "kernel": "6.12.0", "nccl": "2.29.7" },
        "gpus": addresses, "families": ["ada"], "nvswitches": [],
        "modules": [module("nvidia", Some("1"), format!("NVreg_RegistryDwords={REGISTRY_DWORDS}")),
                    module("nvidia-uvm", None, String::new())],
        "parameters": [{ "module": "nvidia", "name": "NVreg_RegistryDwords", "wanted": REGISTRY_DWORDS, "found": REGISTRY_DWORDS }],
        "nodes": nodes.collect::<Vec<_>>(), "held": held, "findings": [], "seconds": 3.4 })
}
