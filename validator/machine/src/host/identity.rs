//! The identity of the machine and its software: firmware names, kernel, command line, appliance. A value
//! that may be absent is `None`; an existing file that cannot be read is a problem to report.

use crate::host::modules::{absent_is_none, nvidia_version};
use crate::root::Root;
use outcome::finding::{Code, Finding, Severity, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// The image's description of itself in /etc/firstlight/image.json.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Appliance {
    /// Version of the image; the validator's own where there is no image.
    pub version: String,
    /// The build of the image.
    pub image_id: Option<String>,
    /// SHA-256 of the list of its files.
    pub manifest_sha256: Option<String>,
}

/// Everything about the machine that is not its fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The image.
    pub appliance: Appliance,
    /// The firmware's names for the machine; serial numbers are left out.
    pub dmi: BTreeMap<String, Option<String>>,
    /// Its host name.
    #[serde(default)]
    pub host: Option<String>,
    /// The id in /etc/machine-id.
    #[serde(default)]
    pub machine_id: Option<String>,
    /// The firmware's serial number of the machine.
    #[serde(default)]
    pub serial: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Kernel command line.
    pub cmdline: Option<String>,
    /// Version of the loaded NVIDIA kernel driver.
    pub driver: Option<String>,
    /// Existing files that could not be read.
    pub problems: Vec<Finding>,
}

/// The ending of the kernel release of firstlight's kernels (`kernel-config/fragments/core.config`).
const OWN_KERNEL: &str = "-firstlight";

impl Identity {
    /// Whether firstlight's own kernel or image is running, which must meet stricter requirements.
    #[must_use]
    pub fn is_own(&self) -> bool {
        let own_kernel = self
            .kernel
            .as_deref()
            .is_some_and(|release| release.trim_end().ends_with(OWN_KERNEL));
        own_kernel || self.appliance.image_id.is_some()
    }
}

const DMI: &[&str] = &[
    "sys_vendor",
    "product_name",
    "product_version",
    "board_vendor",
    "board_name",
    "board_version",
    "bios_vendor",
    "bios_version",
    "bios_date",
];

/// Reads all of it.
#[must_use]
pub fn read(root: &Root) -> Identity {
    let mut problems = Vec::new();
    let mut text = |path: &str| note(&mut problems, path, root.text(path));
    let dmi = DMI
        .iter()
        .map(|n| ((*n).to_owned(), text(&format!("sys/class/dmi/id/{n}"))))
        .collect();
    let host = text("proc/sys/kernel/hostname");
    let machine_id = text("etc/machine-id").filter(|id| is_machine_id(id));
    let kernel = text("proc/sys/kernel/osrelease");
    let cmdline = text("proc/cmdline");
    let driver = note(
        &mut problems,
        "sys/module/nvidia/version",
        nvidia_version(root),
    )
    .flatten();
    let appliance = appliance(root, &mut problems);
    // Only root may read it, and nothing depends on it: unreadable is unknown.
    let serial = root
        .text("sys/class/dmi/id/product_serial")
        .ok()
        .filter(|serial| !serial.is_empty());
    Identity {
        appliance,
        dmi,
        host,
        machine_id,
        serial,
        kernel,
        cmdline,
        driver,
        problems,
    }
}

/// 32 hexadecimal digits; systemd writes `uninitialized` before the first boot.
fn is_machine_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn appliance(root: &Root, problems: &mut Vec<Finding>) -> Appliance {
    let path = "etc/firstlight/image.json";
    let parsed = note(problems, path, root.read(path)).and_then(|bytes| {
        note(
            problems,
            path,
            serde_json::from_slice(&bytes).map_err(io::Error::from),
        )
    });
    let version = env!("CARGO_PKG_VERSION").to_owned();
    parsed.unwrap_or(Appliance {
        version,
        image_id: None,
        manifest_sha256: None,
    })
}

fn note<T>(problems: &mut Vec<Finding>, path: &str, read: io::Result<T>) -> Option<T> {
    absent_is_none(read).unwrap_or_else(|e| {
        let message = format!("/{path} could not be read: {e}");
        problems.push(Code::SysUnreadable.finding(Severity::Warn, Subject::Machine, message));
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Identity {
        let (_dir, root) = Root::written(files);
        read(&root)
    }

    #[test]
    fn existing_files_are_read_and_missing_ones_are_null() {
        let found = machine(&[
            ("sys/class/dmi/id/bios_version", "F31\n"),
            ("proc/cmdline", "iommu=off\n"),
        ]);
        assert_eq!(found.dmi["bios_version"].as_deref(), Some("F31"));
        assert_eq!(found.dmi["sys_vendor"], None);
        assert_eq!(found.cmdline.as_deref(), Some("iommu=off"));
        assert_eq!(
            (found.kernel, found.driver, found.problems),
            (None, None, vec![])
        );
        assert_eq!(found.appliance.version, env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn an_id_and_a_serial_number_are_read_and_what_is_none_is_unknown() {
        let id = "0123456789abcdef0123456789abcdef";
        let files = [
            ("etc/machine-id", id),
            ("sys/class/dmi/id/product_serial", "S-42\n"),
        ];
        let found = machine(&files);
        assert_eq!(
            (found.machine_id.as_deref(), found.serial.as_deref()),
            (Some(id), Some("S-42"))
        );
        let found = machine(&[
            ("etc/machine-id", "uninitialized\n"),
            ("sys/class/dmi/id/product_serial", "\n"),
        ]);
        assert_eq!(
            (found.machine_id, found.serial, found.problems),
            (None, None, vec![])
        );
    }

    #[test]
    fn the_image_names_itself() {
        let json = r#"{"version":"9.1","image_id":"abc","manifest_sha256":null}"#;
        let found = machine(&[("etc/firstlight/image.json", json)]);
        assert_eq!(
            (
                found.appliance.version.as_str(),
                found.appliance.image_id.as_deref()
            ),
            ("9.1", Some("abc"))
        );
    }

    #[test]
    fn firstlights_image_and_kernel_are_recognized() {
        let kernel = |release| machine(&[("proc/sys/kernel/osrelease", release)]).is_own();
        assert!(kernel("6.12.107-firstlight\n") && !kernel("6.12.107+deb13-amd64\n"));
        assert!(
            machine(&[(
                "etc/firstlight/image.json",
                r#"{"version":"1","image_id":"a","manifest_sha256":null}"#
            )])
            .is_own()
        );
        assert!(!machine(&[]).is_own());
    }

    #[test]
    fn a_damaged_image_file_is_a_problem_not_a_default() {
        let found = machine(&[("etc/firstlight/image.json", "{")]);
        assert!(found.problems[0].is(Code::SysUnreadable));
        assert!(
            found.problems[0]
                .message
                .starts_with("/etc/firstlight/image.json")
        );
    }
}
