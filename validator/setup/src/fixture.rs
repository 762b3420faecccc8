//! Modelled machines with an installed system, for tests: GPUs and driver from a plan, the system's files beside them.

use crate::apply::Talk;
use crate::keys::Families;
use crate::options::Options;
use crate::runner::Runner;
use crate::state::State;
use crate::step::{By, Kind, Plan, line};
use crate::{SetupError, SetupResult, plan, read};
use machine::root::Root;
use machines::built::{Iommu, Layout, MachinePlan};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The release of the modelled kernel.
pub(crate) const RELEASE: &str = "6.12.0";
/// The keys of all boards that need some, from 580 on.
pub(crate) const KEYS: &str =
    "NVreg_RegistryDwords=ForceP2P=17;RMForceStaticBar1=1;RMPcieP2PType=1";

/// One machine.
pub(crate) struct Model {
    pub(crate) plan: MachinePlan,
    files: Vec<(String, Vec<u8>)>,
}

impl Model {
    /// So many GPUs of a model and device id behind root ports, with this driver, without an IOMMU.
    pub(crate) fn new(gpus: usize, (device, name): (u16, &str), driver: &str) -> Self {
        let plan = MachinePlan {
            gpus,
            layout: Layout::Ports,
            sockets: 1,
            link: (4, 16),
            max_link: (4, 16),
            iommu: Iommu::None,
            cmdline: "root=/dev/sda2 ro quiet".to_owned(),
            image: false,
            driver: driver.to_owned(),
            gpu: (device, name.to_owned()),
            display: true,
            bar1_mib: 32 << 10,
            rebar: true,
        };
        let model = Self {
            plan,
            files: Vec::new(),
        };
        model
            .with(
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu x2apic\n",
            )
            .with("boot/initrd.img-6.12.0", "")
            .with("var/lib/dbus/machine-id", "")
    }

    /// With this file.
    pub(crate) fn with(mut self, path: &str, text: &str) -> Self {
        self.files
            .push((path.to_owned(), text.as_bytes().to_owned()));
        self
    }

    /// With these bytes in a file.
    pub(crate) fn with_bytes(mut self, path: &str, bytes: &[u8]) -> Self {
        self.files.push((path.to_owned(), bytes.to_owned()));
        self
    }

    /// Ubuntu 24.04 with GRUB.
    pub(crate) fn ubuntu(self) -> Self {
        self.with(
            "etc/os-release",
            "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n",
        )
        .with(
            "etc/default/grub",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\nGRUB_CMDLINE_LINUX=\"\"\n",
        )
    }

    /// Debian 13 with GRUB.
    pub(crate) fn debian(self) -> Self {
        self.with("etc/os-release", "ID=debian\nVERSION_ID=\"13\"\n")
            .with("etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n")
    }

    /// Fedora with its boot loader entries and grubby.
    pub(crate) fn fedora(self) -> Self {
        self.with("etc/os-release", "ID=fedora\nVERSION_ID=43\n")
            .with("etc/default/grub", "GRUB_ENABLE_BLSCFG=true\n")
            .with("usr/sbin/grubby", "")
            .with(
                "boot/loader/entries/a.conf",
                "linux /vmlinuz\noptions root=/dev/sda2 ro\n",
            )
    }

    /// Arch with GRUB.
    pub(crate) fn arch(self) -> Self {
        self.with("etc/os-release", "ID=arch\n")
            .with("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"")
    }

    /// With the closed flavour.
    pub(crate) fn closed(self) -> Self {
        let line = format!(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Mar  5\n",
            self.plan.driver
        );
        self.with("proc/driver/nvidia/version", &line)
    }

    /// With all that edited modules need: the whole source, headers and programs.
    pub(crate) fn buildable(self) -> Self {
        let version = self.plan.driver.clone();
        let source = format!("usr/src/nvidia-{version}");
        let header = include_str!("../../../image/driver/description/seen.h");
        let model = self
            .with(
                &format!("{source}/version.mk"),
                &format!("NVIDIA_VERSION = {version}\n"),
            )
            .with(&format!("{source}/kernel-open/Makefile"), "all:\n")
            .with(
                &format!("{source}/kernel-open/left.o"),
                "an object of another build\n",
            )
            .with(
                &format!("{source}/src/nvidia/interface/nvrm_registry.h"),
                header,
            )
            .with(&format!("lib/modules/{RELEASE}/build/Makefile"), "all:\n");
        ["dkms", "make", "gcc", "python3"]
            .iter()
            .fold(model, |model, name| {
                model.with(&format!("usr/bin/{name}"), "")
            })
    }

    /// With an IOMMU that translates.
    pub(crate) fn translating(mut self) -> Self {
        self.plan.iommu = Iommu::PassThrough;
        self
    }

    /// With the package's units.
    pub(crate) fn packaged(self) -> Self {
        self.with("usr/lib/systemd/system/firstlight-fabric.service", "")
            .with("usr/lib/systemd/system/firstlight-setup.service", "")
    }

    /// Laid out in a folder.
    pub(crate) fn laid_out(&self) -> (TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = self.plan.machine().tree();
        for (path, bytes) in &self.files {
            tree.bytes(path, bytes);
        }
        tree.write(dir.path()).unwrap();
        if self.plan.iommu == Iommu::PassThrough {
            // The model's groups pass addresses through.
            for group in fs::read_dir(dir.path().join("sys/kernel/iommu_groups")).unwrap() {
                fs::write(group.unwrap().path().join("type"), "DMA-FQ\n").unwrap();
            }
        }
        let root = Root::new(dir.path());
        (dir, root)
    }

    /// What setup reads of it.
    pub(crate) fn state(&self, options: &Options) -> State {
        read::read(&self.laid_out().1, options).unwrap()
    }

    /// Its plan.
    pub(crate) fn planned(&self) -> Plan {
        self.planned_with(&Options::default())
    }

    /// Its plan with options.
    pub(crate) fn planned_with(&self, options: &Options) -> Plan {
        plan::plan(&self.state(options), options, &Families::own().unwrap()).unwrap()
    }
}

/// What the steps are about, in order, with an exclamation mark for those that `--apply` takes.
pub(crate) fn kinds(plan: &Plan) -> String {
    let one = |step: &crate::step::Step| {
        let mark = if step.by == By::Apply { "!" } else { "" };
        format!(
            "{}{mark}",
            serde_json::to_value(step.kind).unwrap().as_str().unwrap()
        )
    };
    plan.steps.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What the step of a kind says.
#[track_caller]
pub(crate) fn what(plan: &Plan, kind: Kind) -> String {
    plan.steps
        .iter()
        .find(|step| step.kind == kind)
        .unwrap_or_else(|| panic!("{plan:#?}"))
        .what
        .clone()
}

/// A runner that records, and fails at a line that begins so.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) ran: Vec<String>,
    pub(crate) fails_at: Option<&'static str>,
}

impl Runner for Recorder {
    fn run(&mut self, words: &[String], _: u64) -> SetupResult<bool> {
        let line = line(words);
        let fails = self
            .fails_at
            .is_some_and(|beginning| line.starts_with(beginning));
        self.ran.push(line.clone());
        if fails {
            Err(SetupError(format!("`{line}` ended with exit status: 1")))
        } else {
            Ok(true)
        }
    }
}

/// A person who answers always the same.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) heard: String,
    pub(crate) answers: bool,
}

impl Person {
    pub(crate) fn who_says(answers: bool) -> Self {
        Self {
            heard: String::new(),
            answers,
        }
    }
}

impl Talk for Person {
    fn say(&mut self, text: &str) {
        self.heard.push_str(text);
    }

    fn ask(&mut self, _: &str) -> bool {
        self.answers
    }
}

/// The paths at which two states of a folder differ.
pub(crate) fn changed(one: &Everything, other: &Everything) -> Vec<String> {
    let missing = |from: &Everything, other: &Everything| {
        let lacking = from.iter().filter(|entry| !other.contains(entry));
        lacking.map(|(name, ..)| name.clone()).collect::<Vec<_>>()
    };
    let mut all = [missing(one, other), missing(other, one)].concat();
    all.sort();
    all.dedup();
    all
}

/// Each file and folder with its text and permissions.
pub(crate) type Everything = Vec<(String, Vec<u8>, u32)>;

/// Every file below a folder, and every folder.
pub(crate) fn everything(at: &Path) -> Everything {
    use std::os::unix::fs::PermissionsExt;
    let mut all = Vec::new();
    let mut folders = vec![at.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(at).unwrap().display().to_string();
            let text = if found.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            all.push((name, text, found.permissions().mode()));
            if found.is_dir() {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}
