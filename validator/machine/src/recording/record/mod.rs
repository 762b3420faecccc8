//! Records a machine: the files that firstlight reads, and the lines of the kernel's log that it looks for.

mod parts;

use super::{Node, Recording};
use crate::root::Root;
use parts::{FILES, NAMES};
use std::io::{self, ErrorKind};

/// A recorded machine, and what could not be read.
#[derive(Debug)]
pub struct RecordResult {
    /// What was read.
    pub recording: Recording,
    /// One line for each file that exists but could not be read.
    pub left_out: Vec<String>,
}

/// Records the machine at `root`. Serial numbers of the board are not read; PCI and RDMA addresses and the GPUs' UUIDs
/// are.
#[must_use]
pub fn record(root: &Root) -> RecordResult {
    let mut recorder = Recorder {
        root,
        recording: Recording::default(),
        left_out: Vec::new(),
    };
    recorder.functions();
    recorder.classes();
    recorder.driver();
    recorder.log();
    FILES.iter().for_each(|path| recorder.record_file(path));
    NAMES.iter().for_each(|path| recorder.record_name(path));
    recorder.processor();
    if let Ok(release) = root.text("proc/sys/kernel/osrelease") {
        recorder.record_file(&format!("boot/config-{release}"));
    }
    // The tables' names only: the tables themselves hold serial numbers and licence keys.
    for table in recorder.names("sys/firmware/acpi/tables") {
        if table.starts_with(|c: char| c.is_ascii_uppercase()) {
            recorder.record_name(&format!("sys/firmware/acpi/tables/{table}"));
        }
    }
    RecordResult {
        recording: recorder.recording,
        left_out: recorder.left_out,
    }
}

struct Recorder<'a> {
    root: &'a Root,
    recording: Recording,
    left_out: Vec<String>,
}

impl Recorder<'_> {
    fn add(&mut self, path: &str, node: Node) {
        self.recording.0.insert(path.to_owned(), node);
    }

    /// Notes a file as left out if it exists but cannot be read.
    fn note_unreadable(&mut self, path: &str, why: &io::Error) {
        if !matches!(
            why.kind(),
            ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::NotADirectory
        ) {
            self.left_out.push(format!("/{path}: {why}"));
        }
    }

    /// A file with its content.
    fn record_file(&mut self, path: &str) {
        match self.root.read(path) {
            Ok(content) => self.add(path, Node::File(content)),
            Err(why) => self.note_unreadable(path, &why),
        }
    }

    /// The first processor of /proc/cpuinfo: the others are like it.
    fn processor(&mut self) {
        let path = "proc/cpuinfo";
        match self.root.text(path) {
            Ok(text) => {
                let first = text.split("\n\n").next().unwrap_or_default();
                self.add(path, Node::File(format!("{first}\n").into_bytes()));
            }
            Err(why) => self.note_unreadable(path, &why),
        }
    }

    /// A link with its target; false if it cannot be read.
    fn record_link(&mut self, path: &str) -> bool {
        match self.root.link(path) {
            Ok(target) => self.add(path, Node::Link(target.to_string_lossy().into_owned())),
            Err(why) => {
                self.note_unreadable(path, &why);
                return false;
            }
        }
        true
    }

    /// A folder, which is evidence even when it is empty.
    fn record_folder(&mut self, path: &str) {
        if self.root.names(path).is_ok() {
            self.add(path, Node::Folder);
        }
    }

    /// A file of which only the name matters.
    fn record_name(&mut self, path: &str) {
        match self.root.exists(path) {
            Ok(true) => self.add(path, Node::File(Vec::new())),
            Ok(false) => {}
            Err(why) => self.note_unreadable(path, &why),
        }
    }

    /// The names in a folder; none where there is no such folder.
    fn names(&mut self, path: &str) -> Vec<String> {
        match self.root.names(path) {
            Ok(names) => names
                .iter()
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
            Err(why) => {
                self.note_unreadable(path, &why);
                Vec::new()
            }
        }
    }

    /// The path with its links resolved, relative to the root.
    fn resolve(&self, path: &str) -> Option<String> {
        let place = self.root.place(path).ok()?;
        let real = place.strip_prefix(self.root.path()).ok()?;
        Some(real.to_string_lossy().trim_start_matches('/').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_tells_guests_gpus_and_functions_that_lead_to_nvswitches() {
        const PCI: &str = "sys/bus/pci/devices";
        let at = |name: &str| format!("{PCI}/0000:{name}");
        let (_dir, root) = Root::written(&[
            (at("01:00.4/nvidia/current_vgpu_type").as_str(), "918\n"),
            (at("02:00.0/mdev_supported_types/i/name").as_str(), "x\n"),
            (at("03:00.0/class").as_str(), "0x020700\n"),
            (at("03:00.0/vpd").as_str(), "SN:secret:SMDL=SW_MNG"),
            (at("04:00.0/class").as_str(), "0x020700\n"),
            (at("04:00.0/vpd").as_str(), "SN:secret"),
        ]);
        let recorded = record(&root).recording.0;
        let file = |name: &str| match recorded.get(&at(name)) {
            Some(Node::File(content)) => String::from_utf8_lossy(content).into_owned(),
            _ => String::new(),
        };
        assert_eq!(file("01:00.4/nvidia/current_vgpu_type"), "918\n");
        assert!(matches!(
            recorded.get(&at("02:00.0/mdev_supported_types")),
            Some(Node::Folder)
        ));
        assert_eq!(
            (file("03:00.0/vpd").as_str(), file("04:00.0/vpd").as_str()),
            ("SW_MNG", "")
        );
    }
}
