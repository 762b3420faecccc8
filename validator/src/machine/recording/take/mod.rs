//! Records a machine: the files that firstlight reads, and the lines of the kernel's log that it looks for.

mod parts;

use super::{Node, Recording};
use crate::machine::root::Root;
use parts::FILES;
use std::io::{self, ErrorKind};

/// A recorded machine, and what could not be read.
#[derive(Debug)]
pub struct Taken {
    /// What was read.
    pub recording: Recording,
    /// One line for each file that exists but could not be read.
    pub left_out: Vec<String>,
}

/// Records the machine at `root`. Serial numbers of the board are not read; PCI and RDMA addresses and the GPUs' UUIDs
/// are.
#[must_use]
pub fn take(root: &Root) -> Taken {
    let mut taker = Taker { root, recording: Recording::default(), left_out: Vec::new() };
    taker.functions();
    taker.classes();
    taker.driver();
    taker.log();
    FILES.iter().for_each(|path| taker.keep(path));
    if let Ok(release) = root.text("proc/sys/kernel/osrelease") {
        taker.keep(&format!("boot/config-{release}"));
    }
    // The tables' names only: the tables themselves hold serial numbers and licence keys.
    for table in taker.names("sys/firmware/acpi/tables") {
        if table.starts_with(|c: char| c.is_ascii_uppercase()) {
            taker.name(&format!("sys/firmware/acpi/tables/{table}"));
        }
    }
    Taken { recording: taker.recording, left_out: taker.left_out }
}

struct Taker<'a> {
    root: &'a Root,
    recording: Recording,
    left_out: Vec<String>,
}

impl Taker<'_> {
    fn add(&mut self, path: &str, node: Node) {
        self.recording.0.insert(path.to_owned(), node);
    }

    /// Notes a file that exists but cannot be read.
    fn missed(&mut self, path: &str, why: &io::Error) {
        if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::NotADirectory) {
            self.left_out.push(format!("/{path}: {why}"));
        }
    }

    /// A file with its content.
    fn keep(&mut self, path: &str) {
        match self.root.read(path) {
            Ok(content) => self.add(path, Node::File(content)),
            Err(why) => self.missed(path, &why),
        }
    }

    /// A link with its target; false if it cannot be read.
    fn point(&mut self, path: &str) -> bool {
        match self.root.link(path) {
            Ok(target) => self.add(path, Node::Link(target.to_string_lossy().into_owned())),
            Err(why) => {
                self.missed(path, &why);
                return false;
            }
        }
        true
    }

    /// A folder, which is evidence even when it is empty.
    fn folder(&mut self, path: &str) {
        if self.root.names(path).is_ok() {
            self.add(path, Node::Folder);
        }
    }

    /// A file of which only the name matters.
    fn name(&mut self, path: &str) {
        match self.root.exists(path) {
            Ok(true) => self.add(path, Node::File(Vec::new())),
            Ok(false) => {}
            Err(why) => self.missed(path, &why),
        }
    }

    /// The names in a folder; none where there is no such folder.
    fn names(&mut self, path: &str) -> Vec<String> {
        match self.root.names(path) {
            Ok(names) => names.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
            Err(why) => {
                self.missed(path, &why);
                Vec::new()
            }
        }
    }

    /// The path with its links resolved, relative to the root.
    fn real(&self, path: &str) -> Option<String> {
        let place = self.root.place(path).ok()?;
        let real = place.strip_prefix(self.root.path()).ok()?;
        Some(real.to_string_lossy().trim_start_matches('/').to_owned())
    }
}
