//! A machine for tests to modify: a copy of a modelled one, or a small one without GPUs, and the program on it.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The kernel words built into firstlight's kernel.
pub(crate) const WORDS: &str = "iommu=off,soft intel_iommu=off amd_iommu=off \
    pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance";

pub(crate) struct Machine(TempDir);

/// The program's output and exit status.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Machine {
    /// Two processors, no PCI function, nothing wrong.
    pub(crate) fn small() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for folder in [
            "sys/bus/pci/devices",
            "sys/class/iommu",
            "sys/kernel/iommu_groups",
            "sys/module",
            "dev",
        ] {
            fs::create_dir_all(machine.at(folder)).unwrap();
        }
        for name in ["possible", "present", "online"] {
            machine.write(&format!("sys/devices/system/cpu/{name}"), "0-1\n");
        }
        machine.write("proc/cmdline", WORDS);
        machine.write("proc/sys/kernel/osrelease", "6.12.107\n");
        machine.write("proc/sys/kernel/tainted", "0\n");
        machine.write("dev/kmsg", "6,1,1,-;Linux version 6.12.107\n");
        machine
    }

    /// A copy of the modelled machine of this name.
    pub(crate) fn modelled(name: &str) -> Self {
        Self(machines::laid_out(name))
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// The program on this machine, with `words` after its root.
    pub(crate) fn program(&self, words: &str) -> Command {
        let mut command = firstlight("");
        command
            .arg("--root")
            .arg(self.0.path())
            .args(words.split_whitespace());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, words: &str) -> Run {
        run_of(self.program(words).output().unwrap())
    }

    /// `validate` as JSON, for a machine that expects no GPU.
    #[track_caller]
    pub(crate) fn report(&self, words: &str) -> Value {
        let run = self.run(&format!("--set expect.gpus=0 validate --json - {words}"));
        serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}{}", run.out, run.err))
    }
}

/// The program with `words` only.
pub(crate) fn firstlight(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstlight"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}

pub(crate) fn run_of(output: Output) -> Run {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        status: output.status.code().expect("it ended by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The ids of the tests that run by default.
pub(crate) fn standard() -> Vec<&'static str> {
    let plan = firstlight::suite::plan(&firstlight::config::Config::default(), None);
    plan.run.iter().map(|test| test.id()).collect()
}

/// The test with this id in a report.
#[track_caller]
pub(crate) fn test<'a>(report: &'a Value, id: &str) -> &'a Value {
    let tests = report["tests"].as_array().unwrap();
    tests
        .iter()
        .find(|t| t["id"] == id)
        .unwrap_or_else(|| panic!("no test {id} in {report}"))
}

/// The codes of a test's findings.
pub(crate) fn codes(report: &Value, id: &str) -> Vec<String> {
    let findings = test(report, id)["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|f| f["code"].as_str().unwrap().to_owned())
        .collect()
}
